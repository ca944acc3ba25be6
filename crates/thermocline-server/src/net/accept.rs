//! One thread accepts for all listeners and hands connections to the workers in turn.
//!
//! Owns: the connection cap and what happens at it, and surviving a lack of file descriptors.
//! At the cap a new connection is answered `ERROR Too many open connections` and closed (`connections_fast`), or left
//! in the kernel's queue until another one closes. Connections already open are never closed for a new one.

use super::listener::Listening;
use super::worker::Handed;
use super::{Bound, Mailbox, Stream, ACCEPT_PAUSE};
use crate::shared::{Shared, Stop};
use mio::{Events, Poll, Token, Waker};
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAKER: Token = Token(usize::MAX);
/// How often the log says that accepting pauses.
const TOLD_EVERY: Duration = Duration::from_secs(10);

pub struct Acceptor {
    poll: Poll,
    listeners: Vec<(Listening, Arc<str>)>,
    workers: Vec<Arc<Mailbox>>,
    next: usize,
    shared: Arc<Shared>,
    /// When accepting stopped, and why.
    paused: Option<(Instant, Pause)>,
    /// When the log last told of such a pause.
    told: Option<Instant>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Pause {
    AtCap,
    NoDescriptors,
}

/// Lets others wake the acceptor: a connection closed, or the server stops.
#[derive(Clone)]
pub struct AcceptorHandle(Arc<Waker>);

impl AcceptorHandle {
    pub fn wake(&self) {
        if let Err(error) = self.0.wake() {
            tracing::warn!(%error, "the accepting thread could not be woken");
        }
    }
}

impl Acceptor {
    pub fn new(
        bound: Vec<Bound>,
        workers: Vec<Arc<Mailbox>>,
        shared: Arc<Shared>,
    ) -> io::Result<(Acceptor, AcceptorHandle)> {
        let poll = Poll::new()?;
        let mut listeners = Vec::new();
        for (token, bound) in bound.into_iter().enumerate() {
            let place: Arc<str> = match bound.place.starts_with("unix:") {
                true => bound.place.as_str().into(),
                false => format!("tcp:{}", bound.place).into(),
            };
            let mut listener = bound.listening();
            listener.register(poll.registry(), Token(token))?;
            listeners.push((listener, place));
        }
        let handle = AcceptorHandle(Arc::new(Waker::new(poll.registry(), WAKER)?));
        let acceptor = Acceptor {
            poll,
            listeners,
            workers,
            next: 0,
            shared,
            paused: None,
            told: None,
        };
        Ok((acceptor, handle))
    }

    /// Accepts until the server stops, then closes the listeners.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(64);
        while self.shared.stop() == Stop::Run {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            // Whoever connects once a stop is under way is the next server's, or finds the listener closed.
            if self.shared.stop() == Stop::Run && self.may_go_on() {
                self.accept_all();
            }
        }
        Ok(())
    }

    fn timeout(&self) -> Option<Duration> {
        match self.paused {
            Some((_, Pause::NoDescriptors)) => Some(ACCEPT_PAUSE),
            _ => None,
        }
    }

    fn at_cap(&self) -> bool {
        self.shared.registry.open.load(Relaxed) >= self.shared.settings.connections_max as u64
    }

    /// Ends a pause whose reason is gone.
    fn may_go_on(&mut self) -> bool {
        let Some((since, why)) = self.paused else {
            return true;
        };
        if why == Pause::AtCap && self.at_cap() {
            return false;
        }
        if why == Pause::NoDescriptors && since.elapsed() < ACCEPT_PAUSE {
            return false;
        }
        self.paused = None;
        self.shared.accept_waits(false);
        let registry = &self.shared.registry;
        registry
            .accept_stopped_us
            .fetch_add(since.elapsed().as_micros() as u64, Relaxed);
        tracing::debug!("accepting connections again");
        true
    }

    fn pause(&mut self, why: Pause) {
        // What lasts would fill the log ten times a second; how often it happened is counted.
        if self.told.is_none_or(|told| told.elapsed() >= TOLD_EVERY) {
            self.told = Some(Instant::now());
            match why {
                Pause::AtCap => tracing::warn!("connections_max reached: new connections wait"),
                Pause::NoDescriptors => tracing::error!(
                    "cannot accept: raise the limit of open files or lower connections_max"
                ),
            }
        }
        self.paused = Some((Instant::now(), why));
        self.shared.registry.accept_stopped.fetch_add(1, Relaxed);
        self.shared.accept_waits(true);
    }

    /// Edge-triggered: each listener is emptied, or accepting pauses and starts over with all of them.
    fn accept_all(&mut self) {
        for at in 0..self.listeners.len() {
            loop {
                if !self.shared.settings.connections_fast && self.at_cap() {
                    self.pause(Pause::AtCap);
                    // A connection may have closed between the look and the pause; its wake-up came too early.
                    if self.at_cap() || !self.may_go_on() {
                        return;
                    }
                }
                match self.listeners[at].0.accept() {
                    Ok((stream, peer)) => self.take(stream, peer, at),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) if is_exhaustion(&error) => {
                        self.shared
                            .registry
                            .out_of_descriptors
                            .fetch_add(1, Relaxed);
                        tracing::debug!(%error, "cannot accept");
                        return self.pause(Pause::NoDescriptors);
                    }
                    // The client was gone before we came to it: next one.
                    Err(error) => tracing::debug!(%error, "accept"),
                }
            }
        }
    }

    fn take(&mut self, mut stream: Stream, peer: String, at: usize) {
        let registry = &self.shared.registry;
        if self.at_cap() {
            registry.rejected.fetch_add(1, Relaxed);
            // A courtesy to a client we turn away: if it does not fit the socket it is lost.
            let _courtesy = stream.write(b"ERROR Too many open connections\r\n");
            return;
        }
        registry.open.fetch_add(1, Relaxed);
        registry.accepted.fetch_add(1, Relaxed);
        let handed = Handed {
            stream,
            peer,
            listener: self.listeners[at].1.clone(),
        };
        let worker = &self.workers[self.next % self.workers.len()];
        self.next = self.next.wrapping_add(1);
        if let Err(error) = worker.hand(handed) {
            tracing::error!(%error, "a worker could not be woken");
        }
    }
}

/// Out of descriptors (here or in the whole system) or of kernel memory: waiting helps, giving up does not.
fn is_exhaustion(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    const ENOMEM: i32 = 12;
    const ENOBUFS: i32 = 105;
    matches!(
        error.raw_os_error(),
        Some(ENFILE | EMFILE | ENOMEM | ENOBUFS)
    )
}
