//! One connection of the load generator: what it is asked, and what its answers are booked as.
//!
//! What must hold: every request queued is booked exactly once, as a completion or as a failure, whatever the server does;
//! a dropped connection fails what was in flight and nothing else.

use super::awaited::{Request, Said};
use super::outcome::Outcome;
use super::pipe::Pipe;
use super::target::Target;
use super::wire::{Dialect, Encoder};
use crate::workload::{key_into, stamp, Kind, Op, STAMP_BYTES};
use mio::{Poll, Token};
use std::collections::VecDeque;
use std::io;

/// Give a connection up after this many drops in a row without one reply between them.
pub const STRIKES_MAX: u32 = 3;

/// Longest key the loader makes, bytes: memcached's own limit.
pub const KEY_BYTES_MAX: usize = 250;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Pending {
    op: Op,
    fill: bool,
    sent_ns: u64,
    intended_ns: u64,
}

impl Request for Pending {
    fn is_read(&self) -> bool {
        self.op.kind.reads()
    }
}

/// What the caller decided about checking replies.
#[derive(Clone, Copy, Debug)]
pub struct Checks {
    /// Compare the stamp at the front of a value with its key.
    pub stamps: bool,
    /// Compare the value's length with the key's.
    pub lengths: bool,
    /// Write what was missed.
    pub fill: bool,
}

impl Checks {
    fn is_right(&self, op: &Op, bytes: u64, head: &[u8]) -> bool {
        let right_length = !self.lengths || bytes == u64::from(op.value_bytes);
        let right_stamp = !self.stamps || bytes < STAMP_BYTES as u64 || head == stamp(op.id);
        right_length && right_stamp
    }
}

pub struct Connection {
    pipe: Pipe<Pending>,
    /// Misses to be written (`--fill`).
    fills: VecDeque<Op>,
    unsent: usize,
    strikes: u32,
}

impl Connection {
    pub fn new(target: Target, token: Token) -> Self {
        Connection {
            pipe: Pipe::new(target, token),
            fills: VecDeque::new(),
            unsent: 0,
            strikes: 0,
        }
    }

    pub fn open(&mut self, poll: &Poll) -> io::Result<()> {
        self.pipe.open(poll)
    }

    pub fn is_open(&self) -> bool {
        self.pipe.is_open()
    }

    /// Nothing is in flight: the next batch may go.
    pub fn is_idle(&self) -> bool {
        self.pipe.is_idle()
    }

    pub fn in_flight(&self) -> usize {
        self.pipe.under_way()
    }

    /// The next write of what was missed, if there is one.
    pub fn next_fill(&mut self) -> Option<Op> {
        self.fills.pop_front()
    }

    pub fn has_fills(&self) -> bool {
        !self.fills.is_empty()
    }

    /// Queues a batch: `(operation, is a fill, intended start)`. Sent by the next [`Connection::flush`].
    pub fn queue(&mut self, batch: &[(Op, bool, Option<u64>)], now_ns: u64, encoder: &Encoder<'_>) {
        for &(op, fill, intended) in batch {
            let pending = Pending {
                op,
                fill,
                sent_ns: u64::MAX,
                intended_ns: intended.unwrap_or(u64::MAX),
            };
            match (op.kind.reads(), encoder.dialect) {
                (true, Dialect::MultiGet) => {
                    self.pipe
                        .queue_key(pending, now_ns, |out| encoder.key(op.id, out));
                }
                (true, _) => self
                    .pipe
                    .queue(pending, now_ns, |out| encoder.read(op.id, out)),
                (false, _) => self.pipe.queue(pending, now_ns, |out| {
                    encoder.write(op.id, op.value_bytes, out);
                }),
            }
            self.unsent += 1;
        }
    }

    /// Writes what is queued, as far as the socket takes it. The service time of a request begins here.
    pub fn flush(&mut self, now_ns: u64, outcome: &mut Outcome) -> Result<(), String> {
        for pending in self.pipe.newest_mut(std::mem::take(&mut self.unsent)) {
            pending.sent_ns = now_ns;
            pending.intended_ns = pending.intended_ns.min(now_ns);
        }
        outcome.bytes_out += self.pipe.flush().map_err(dropped)?;
        Ok(())
    }

    /// Reads what has come and books the requests it answers. `now_ns` is asked once for each read.
    /// `closed` is the poll's word that the server has ended its side.
    pub fn receive(
        &mut self,
        closed: bool,
        now_ns: impl Fn() -> u64,
        encoder: &Encoder<'_>,
        checks: Checks,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let is_key = |pending: &Pending, key: &[u8]| {
            let mut own = [0u8; KEY_BYTES_MAX];
            let own = &mut own[..encoder.key_bytes];
            key_into(pending.op.id, own);
            own == key
        };
        let (fills, strikes) = (&mut self.fills, &mut self.strikes);
        let received = self
            .pipe
            .receive(closed, now_ns, is_key, |pending, said, now| {
                *strikes = 0;
                book(&pending, said, now, checks, outcome, fills);
            });
        outcome.bytes_in += std::mem::take(&mut self.pipe.bytes_in);
        received.map_err(dropped)
    }

    /// In flight for longer than `timeout_ns` without a byte from the server.
    pub fn is_stuck(&self, now_ns: u64, timeout_ns: u64) -> bool {
        self.pipe.is_stuck(now_ns, timeout_ns)
    }

    /// Closes after `why`, fails what was in flight, and opens again. False when the server is given up.
    pub fn reopen(&mut self, why: &str, poll: &Poll, outcome: &mut Outcome) -> bool {
        outcome.connections_dropped += 1;
        outcome.fail(why, self.pipe.close(poll).len() as u64);
        self.unsent = 0;
        self.strikes += 1;
        if self.strikes > STRIKES_MAX {
            return false;
        }
        match self.open(poll) {
            Ok(()) => {
                outcome.connections_reopened += 1;
                true
            }
            Err(_) => false,
        }
    }
}

fn dropped(why: String) -> String {
    format!("connection dropped: {why}")
}

fn book(
    pending: &Pending,
    said: Said,
    now_ns: u64,
    checks: Checks,
    outcome: &mut Outcome,
    fills: &mut VecDeque<Op>,
) {
    match said {
        Said::Value { bytes, head } if checks.is_right(&pending.op, bytes, &head) => {
            outcome.hits += 1;
            complete(pending, now_ns, outcome);
        }
        Said::Value { .. } => outcome.fail("wrong value for the key", 1),
        Said::Miss => {
            outcome.misses += 1;
            complete(pending, now_ns, outcome);
            if checks.fill {
                fills.push_back(Op {
                    kind: Kind::Write,
                    ..pending.op
                });
            }
        }
        Said::Stored => complete(pending, now_ns, outcome),
        Said::Not(word) => outcome.fail(&format!("server said `{word}`"), 1),
        Said::Refused(line) => outcome.fail(&format!("server said `{line}`"), 1),
    }
}

fn complete(pending: &Pending, now_ns: u64, outcome: &mut Outcome) {
    match (pending.fill, pending.op.kind) {
        (true, _) => outcome.fills += 1,
        (false, Kind::Read) => outcome.reads += 1,
        (false, _) => outcome.writes += 1,
    }
    outcome.latency(
        now_ns.saturating_sub(pending.sent_ns),
        now_ns.saturating_sub(pending.intended_ns),
    );
}
