//! Who is connected: what `stats conns` lists and the counts of connections.
//!
//! Kept apart from the event loops so that any of them can list all. Touched when a connection comes and goes;
//! while it lives its loop only stores the second of its last request, without a lock.

use slab::Slab;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Facts of one connection that others may read.
#[derive(Debug)]
pub struct Seen {
    pub descriptor: i32,
    pub peer: String,
    pub listener: Arc<str>,
    /// Second (of the server's own count) of its last request.
    pub last_s: AtomicU32,
    /// Its replies wait for the peer to take them.
    pub blocked: AtomicBool,
}

/// A line of `stats conns`.
#[derive(Debug, Clone)]
pub struct ConnectionFacts {
    pub descriptor: i32,
    pub peer: String,
    pub listener: Arc<str>,
    pub last_s: u32,
    pub state: &'static str,
}

#[derive(Debug, Default)]
pub struct Registry {
    seen: Mutex<Slab<Arc<Seen>>>,
    /// Open now.
    pub open: AtomicU64,
    /// Accepted since the start.
    pub accepted: AtomicU64,
    /// Turned away at the cap.
    pub rejected: AtomicU64,
    /// Times accepting stopped: at the cap, or out of file descriptors.
    pub accept_stopped: AtomicU64,
    pub accept_stopped_us: AtomicU64,
    /// Times the process was out of file descriptors.
    pub out_of_descriptors: AtomicU64,
    pub idle_kicks: AtomicU64,
    /// Closed because they left replies unread.
    pub output_kicks: AtomicU64,
    /// Closed because they held too much of the buffer pool, or stood still on it while it was short.
    pub shed: AtomicU64,
}

impl Registry {
    fn seen(&self) -> MutexGuard<'_, Slab<Arc<Seen>>> {
        // A panic while listing leaves the list itself whole.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection in; returns its place for `remove`.
    pub fn add(&self, seen: Arc<Seen>) -> usize {
        self.seen().insert(seen)
    }

    pub fn remove(&self, place: usize) {
        self.seen().try_remove(place);
        self.open.fetch_sub(1, Relaxed);
    }

    pub fn list(&self) -> Vec<ConnectionFacts> {
        let seen = self.seen();
        seen.iter()
            .map(|(_, seen)| ConnectionFacts {
                descriptor: seen.descriptor,
                peer: seen.peer.clone(),
                listener: seen.listener.clone(),
                last_s: seen.last_s.load(Relaxed),
                state: match seen.blocked.load(Relaxed) {
                    true => "conn_mwrite",
                    false => "conn_read",
                },
            })
            .collect()
    }
}
