//! One event loop: one thread, its connections, one read buffer and one reply buffer for all of them.
//!
//! Owns: whose turn it is, and who has overstayed. What a turn consists of is in `desk`.
//!
//! Must hold: a connection with work left is in the `again` queue or waits for its socket:
//! edge-triggered events will not speak of it again. Nothing here blocks, but for writes that wait for room: all of
//! a turn together for `TURN_WAITS` at most.

use super::connection::{Connection, Wanted};
use super::desk::{Desk, Fate};
use super::{Charge, Registry, Seen, Stream, Talk, SLOW_SECONDS, STALLED_SECONDS, TURN_WAITS};
use crate::command::Conversation;
use crate::shared::{Shared, Stop};
use mio::event::Event;
use mio::{Events, Interest, Poll, Token, Waker};
use slab::Slab;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const WAKER: Token = Token(usize::MAX);
const EVENTS: usize = 1024;
/// How often a draining loop looks whether its time is over.
const DRAIN_LOOK: Duration = Duration::from_millis(50);
/// Timeouts are whole seconds, so the loop looks at them once a second.
const SWEEP: Duration = Duration::from_secs(1);

/// Where the acceptor leaves connections for a worker.
pub struct Mailbox {
    handed: Mutex<Vec<Handed>>,
    waker: Waker,
}

pub struct Handed {
    pub stream: Stream,
    pub peer: String,
    pub listener: Arc<str>,
}

impl Mailbox {
    pub fn hand(&self, handed: Handed) -> io::Result<()> {
        self.lock().push(handed);
        self.waker.wake()
    }

    /// Makes the worker look at `Shared::stop`.
    pub fn wake(&self) -> io::Result<()> {
        self.waker.wake()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Handed>> {
        self.handed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Worker {
    poll: Poll,
    mailbox: Arc<Mailbox>,
    shared: Arc<Shared>,
    connections: Slab<Connection>,
    desk: Desk,
    /// Connections with work left that waits for nothing but their turn.
    again: VecDeque<usize>,
    now_s: u32,
    draining: bool,
}

impl Worker {
    pub fn new(shared: Arc<Shared>, conversation: Conversation) -> io::Result<Worker> {
        let poll = Poll::new()?;
        let mailbox = Arc::new(Mailbox {
            handed: Mutex::new(Vec::new()),
            waker: Waker::new(poll.registry(), WAKER)?,
        });
        Ok(Worker {
            poll,
            mailbox,
            shared,
            connections: Slab::new(),
            desk: Desk::new(conversation),
            again: VecDeque::new(),
            now_s: 0,
            draining: false,
        })
    }

    pub fn mailbox(&self) -> Arc<Mailbox> {
        self.mailbox.clone()
    }

    /// Runs until the server stops; returns how many connections had to be cut off.
    pub fn run(mut self) -> io::Result<usize> {
        let mut events = Events::with_capacity(EVENTS);
        loop {
            match self.poll.poll(&mut events, self.timeout()) {
                Err(error) if error.kind() != ErrorKind::Interrupted => return Err(error),
                _ => {}
            }
            self.tick();
            for event in &events {
                self.take(event);
            }
            self.run_queue();
            if self.stops() {
                return Ok(self.connections.len());
            }
        }
    }

    fn timeout(&self) -> Option<Duration> {
        if !self.again.is_empty() {
            Some(Duration::ZERO)
        } else if self.draining {
            Some(DRAIN_LOOK)
        } else if self.connections.is_empty() && !self.shared.pool.has_to_give() {
            None
        } else {
            Some(SWEEP)
        }
    }

    fn tick(&mut self) {
        thermocline::limit_waits(Some(TURN_WAITS));
        let now_s = self.shared.seconds();
        if now_s != self.now_s {
            self.now_s = now_s;
            self.sweep();
        }
        self.desk.conversation.now_s = now_s;
        self.desk.conversation.now_ms = self.shared.now_ms();
    }

    fn take(&mut self, event: &Event) {
        if event.token() == WAKER {
            return self.take_mail();
        }
        let Some(connection) = self.connections.get_mut(event.token().0) else {
            return;
        };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.unread = true;
            // A short read no longer means that all was read: the end of the stream follows.
            connection.peer_done |= event.is_read_closed();
        }
        self.pump(event.token().0);
    }

    fn take_mail(&mut self) {
        let handed = std::mem::take(&mut *self.mailbox.lock());
        for handed in handed {
            // Without epoll's help the connection can only be let go; the client sees it closed.
            if let Err(error) = self.adopt(handed) {
                tracing::warn!(%error, "a connection could not be added to the event loop");
                self.shared.registry.open.fetch_sub(1, Relaxed);
                self.shared.connection_closed();
            }
        }
    }

    fn adopt(&mut self, handed: Handed) -> io::Result<()> {
        let mut stream = handed.stream;
        let entry = self.connections.vacant_entry();
        let interest = Interest::READABLE | Interest::WRITABLE;
        self.poll
            .registry()
            .register(&mut stream, Token(entry.key()), interest)?;
        let seen = Arc::new(Seen {
            descriptor: stream.descriptor(),
            peer: handed.peer,
            listener: handed.listener,
            last_s: self.now_s.into(),
            blocked: false.into(),
        });
        let place = self.shared.registry.add(seen.clone());
        entry.insert(Connection {
            stream,
            talk: Talk {
                trusted: !self.shared.asks_login(),
                ..Talk::default()
            },
            rest: Vec::new(),
            wanted: Wanted::Anything,
            backlog: None,
            charged: Charge::default(),
            seen,
            place,
            unread: false,
            queued: false,
            closing: false,
            peer_done: false,
            moved_s: self.now_s,
        });
        Ok(())
    }

    /// Each waiting connection gets one turn; what queues up meanwhile waits for the next round.
    fn run_queue(&mut self) {
        for _ in 0..self.again.len() {
            let Some(token) = self.again.pop_front() else {
                return;
            };
            if let Some(connection) = self.connections.get_mut(token) {
                connection.queued = false;
                self.pump(token);
            }
        }
    }

    /// One turn of a connection.
    fn pump(&mut self, token: usize) {
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let fate = self
            .desk
            .turn(connection, self.now_s)
            .unwrap_or(Fate::Close);
        let blocked = connection.is_blocked();
        if connection.seen.blocked.load(Relaxed) != blocked {
            connection.seen.blocked.store(blocked, Relaxed);
        }
        let charge = connection.charge(&self.shared.pool);
        if charge != connection.charged {
            let before = connection.charged;
            let holds_more = charge.held > before.held || charge.decoded > before.decoded;
            self.shared.pool.recharge(connection.charged, charge);
            connection.charged = charge;
            if fate == Fate::Keep && !self.shared.pool.fits(charge) {
                return self.shed(token, "it held more than its share of buffer_pool");
            }
            if holds_more {
                self.shed_slow_readers();
            }
        }
        let Some(connection) = self.connections.get_mut(token) else {
            return;
        };
        let done = self.draining && connection.is_idle() && !connection.unread;
        if fate == Fate::Close || done {
            return self.close(token);
        }
        // Whoever has work left and waits for nothing gets another turn; blocked output waits for its socket.
        let waits = connection.queued || connection.is_blocked();
        let work = connection.backlog.is_some() || connection.has_work() || connection.unread;
        if !waits && work {
            connection.queued = true;
            self.again.push_back(token);
        }
    }

    /// Replies that wait for slow readers keep too much of the cache, or of our own memory: those go that have waited
    /// longest. (Other loops' connections are theirs to close; they look at the same accounts.)
    fn shed_slow_readers(&mut self) {
        while let Some(least_s) = self.slow_from_s() {
            if !self.shed_slowest(least_s, |charge| charge.held) {
                break;
            }
        }
        while let Some(least_s) = self.shared.pool.decoded_slow_from_s(SLOW_SECONDS) {
            if !self.shed_slowest(least_s, |charge| charge.decoded) {
                break;
            }
        }
    }

    /// Closes whoever has waited longest, `least_s` at the least, of those that keep something; false: there is none.
    fn shed_slowest(&mut self, least_s: u32, kept: impl Fn(Charge) -> u64) -> bool {
        let now_s = self.now_s;
        let slow = self.connections.iter().filter_map(|(token, connection)| {
            let since_s = connection.backlog.as_ref()?.since_s();
            let kept = kept(connection.charged);
            let late = kept > 0 && now_s.saturating_sub(since_s) >= least_s;
            late.then_some((since_s, Reverse(kept), token))
        });
        let Some((_, _, token)) = slow.min() else {
            return false;
        };
        self.shed(token, "it read too slowly what keeps memory");
        true
    }

    /// From how many seconds on a reader is too slow at the moment; None: slow readers hold no more than they may.
    fn slow_from_s(&self) -> Option<u32> {
        let held_bytes = || self.shared.cache.held_bytes();
        self.shared.pool.slow_from_s(SLOW_SECONDS, held_bytes)
    }

    /// Closes a connection that holds too much.
    fn shed(&mut self, token: usize, why: &str) {
        self.shared.registry.shed.fetch_add(1, Relaxed);
        if let Some(connection) = self.connections.get(token) {
            tracing::warn!(
                peer = connection.seen.peer,
                input_bytes = connection.charged.input,
                output_bytes = connection.charged.output,
                held_bytes = connection.charged.held,
                decoded_bytes = connection.charged.decoded,
                "connection closed: {why}"
            );
        }
        self.close(token);
    }

    fn close(&mut self, token: usize) {
        let Some(mut connection) = self.connections.try_remove(token) else {
            return;
        };
        // Closing the descriptor would do, but a failing deregistration is worth nothing to anybody.
        let _closed_anyway = self.poll.registry().deregister(&mut connection.stream);
        self.shared
            .pool
            .recharge(connection.charged, Charge::default());
        self.shared.registry.remove(connection.place);
        self.shared.connection_closed();
    }

    /// Once a second: who has been idle, has not taken its replies, or stands still on a full pool, for too long. Then the pool
    /// gives back what nobody uses any more.
    fn sweep(&mut self) {
        self.shed_stalled();
        let kicked: Vec<_> = self
            .connections
            .iter()
            .filter_map(|(token, connection)| Some((token, self.overstays(connection)?)))
            .collect();
        for (token, counter) in kicked {
            counter(&self.shared.registry).fetch_add(1, Relaxed);
            self.close(token);
        }
        self.shared.pool.set_memory(self.shared.cache.memory());
        self.shed_slow_readers();
        self.refuse_still_uploads();
        self.shared.pool.give_back();
    }

    /// Closes who stands still while it holds part of what is filling up.
    fn shed_stalled(&mut self) {
        let shared = self.shared.clone();
        let tight = shared.pool.tight(|| shared.cache.held_bytes());
        let holders = self.connections.iter().filter(|(_, connection)| {
            self.still_s(connection) > STALLED_SECONDS && tight.is_for(connection.charged)
        });
        let stalled: Vec<usize> = holders.map(|(token, _)| token).collect();
        for token in stalled {
            self.shed(token, "it stood still and keeps memory that others need");
        }
    }

    /// Seconds since anything moved on a connection.
    fn still_s(&self, connection: &Connection) -> u64 {
        u64::from(self.now_s.saturating_sub(connection.moved_s))
    }

    /// Which counter a connection is closed under, if it has been still for too long.
    fn overstays(&self, connection: &Connection) -> Option<fn(&Registry) -> &AtomicU64> {
        let settings = &self.shared.settings;
        let (idle_s, output_s) = (settings.idle_timeout_s, settings.output_timeout_s);
        let still_s = self.still_s(connection);
        let late = |limit_s: u64| limit_s > 0 && still_s > limit_s;
        let blocked = connection.is_blocked();
        // Unread replies and half-sent large values keep the cache's memory from being reused.
        let keeps_memory = blocked || connection.talk.is_streaming();
        if keeps_memory && late(output_s) {
            Some(|registry| &registry.output_kicks)
        } else if !blocked && late(idle_s) {
            Some(|registry| &registry.idle_kicks)
        } else {
            None
        }
    }

    /// Half-sent values that stand still or trickle while such values keep much of memory: their room is given up, and
    /// their clients hear so when the rest has come.
    fn refuse_still_uploads(&mut self) {
        let pool = &self.shared.pool;
        for (_, connection) in &mut self.connections {
            let still_s = u64::from(self.now_s.saturating_sub(connection.moved_s));
            let body = connection.talk.body.as_mut();
            let is_slow = body.is_some_and(|body| body.is_slow(self.now_s));
            if (is_slow || still_s > STALLED_SECONDS) && pool.streams_are_tight() {
                self.desk.conversation.refuse_upload(&mut connection.talk);
                let charge = connection.charge(pool);
                pool.recharge(connection.charged, charge);
                connection.charged = charge;
            }
        }
    }

    fn stops(&mut self) -> bool {
        match self.shared.stop() {
            Stop::Run => false,
            Stop::Now => true,
            Stop::Drain => {
                if !self.draining {
                    self.begin_drain();
                }
                self.connections.is_empty() || Instant::now() >= self.shared.drain_until()
            }
        }
    }

    /// Whatever has been sent to us by now is still answered.
    fn begin_drain(&mut self) {
        self.draining = true;
        let tokens: Vec<usize> = self.connections.iter().map(|(token, _)| token).collect();
        for token in tokens {
            if let Some(connection) = self.connections.get_mut(token) {
                connection.unread = true;
            }
            self.pump(token);
        }
    }
}
