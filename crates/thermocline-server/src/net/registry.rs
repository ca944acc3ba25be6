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
    /// Closed because they left replies unread, or a large value half sent.
    pub output_kicks: AtomicU64,
    /// Closed because they held too much of the buffer pool, stood still on it while it was short, or read too slowly what
    /// keeps memory of the cache.
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

    /// The connections at `most` places from `from` on, and where to go on; None: that was all. A connection that
    /// comes meanwhile may be left out, one that stays is not.
    pub fn list(&self, from: usize, most: usize) -> (Vec<ConnectionFacts>, Option<usize>) {
        let seen = self.seen();
        let end = seen.capacity().min(from + most);
        let facts = (from..end).filter_map(|place| seen.get(place).map(|seen| facts(seen)));
        (facts.collect(), (end < seen.capacity()).then_some(end))
    }
}

fn facts(seen: &Seen) -> ConnectionFacts {
    ConnectionFacts {
        descriptor: seen.descriptor,
        peer: seen.peer.clone(),
        listener: seen.listener.clone(),
        last_s: seen.last_s.load(Relaxed),
        state: match seen.blocked.load(Relaxed) {
            true => "conn_mwrite",
            false => "conn_read",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_are_listed_once_part_by_part() {
        let registry = Registry::default();
        let seen = |descriptor| Seen {
            descriptor,
            peer: String::new(),
            listener: "".into(),
            last_s: 0.into(),
            blocked: false.into(),
        };
        let places: Vec<usize> = (0..1000).map(|n| registry.add(Arc::new(seen(n)))).collect();
        registry.open.store(1000, Relaxed);
        places[..500]
            .iter()
            .step_by(2)
            .for_each(|&place| registry.remove(place));
        let (mut listed, mut from) = (Vec::new(), Some(0));
        while let Some(place) = from {
            let (part, next) = registry.list(place, 64);
            assert!(part.len() <= 64);
            listed.extend(part.iter().map(|facts| facts.descriptor));
            from = next;
        }
        listed.sort_unstable();
        let expected = (0..1000).filter(|n| *n >= 500 || n % 2 == 1);
        assert_eq!(listed, expected.collect::<Vec<i32>>());
        assert_eq!(Registry::default().list(0, 64).1, None);
    }
}
