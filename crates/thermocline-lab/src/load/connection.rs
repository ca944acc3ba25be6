//! One connection: bytes out, bytes in, and the requests that wait for their replies, in order.
//!
//! What must hold: every request that entered `pending` leaves it exactly once, as a completion or as a
//! failure, whatever the server does; a dropped connection fails what was in flight and nothing else.

use super::outcome::Outcome;
use super::reply::{Parser, Reply, Step};
use super::stream::Stream;
use super::target::Target;
use super::wire::{Dialect, Encoder};
use crate::workload::{key_into, stamp, Kind, Op};
use mio::{Poll, Token};
use std::collections::VecDeque;
use std::io;

/// A read takes up to this much at once, bytes: sixteen replies of 16 KiB.
const INPUT_BYTES: usize = 256 << 10;

/// Give a connection up after this many drops in a row without one reply between them.
pub const STRIKES_MAX: u32 = 3;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct Pending {
    op: Op,
    fill: bool,
    /// The last read of its `get` line.
    group_end: bool,
    sent_ns: u64,
    intended_ns: u64,
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

pub struct Connection {
    stream: Stream,
    waiting: Waiting,
    unsent: usize,
    strikes: u32,
    last_progress_ns: u64,
}

/// The requests without a reply, and how far the replies are.
#[derive(Default)]
struct Waiting {
    parser: Parser,
    pending: VecDeque<Pending>,
    /// The value now arriving, and whether it is the right one.
    arriving: Option<(Pending, bool)>,
    /// The last key of a `get` line was found: its END is still to come.
    await_end: bool,
    /// Misses to be written (`--fill`).
    fills: VecDeque<Op>,
    /// A reply came since this was last looked at.
    has_replied: bool,
}

impl Connection {
    pub fn new(target: Target, token: Token) -> Self {
        Connection {
            stream: Stream::new(target, token, INPUT_BYTES),
            waiting: Waiting::default(),
            unsent: 0,
            strikes: 0,
            last_progress_ns: 0,
        }
    }

    pub fn open(&mut self, poll: &Poll) -> io::Result<()> {
        self.stream.open(poll)
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_open()
    }

    /// Nothing is in flight: the next batch may go.
    pub fn is_idle(&self) -> bool {
        self.in_flight() == 0 && !self.waiting.await_end
    }

    pub fn in_flight(&self) -> usize {
        self.waiting.pending.len() + usize::from(self.waiting.arriving.is_some())
    }

    /// The next write of what was missed, if there is one.
    pub fn next_fill(&mut self) -> Option<Op> {
        self.waiting.fills.pop_front()
    }

    pub fn has_fills(&self) -> bool {
        !self.waiting.fills.is_empty()
    }

    /// Queues a batch: `(operation, is a fill, intended start)`. Sent by the next [`Connection::flush`].
    pub fn queue(&mut self, batch: &[(Op, bool, Option<u64>)], encoder: &Encoder<'_>) {
        let grouped = encoder.dialect == Dialect::MultiGet;
        let mut group_is_open = false;
        for (index, &(op, fill, intended)) in batch.iter().enumerate() {
            let next_is_read = batch
                .get(index + 1)
                .is_some_and(|(op, ..)| op.kind == Kind::Read);
            let group_end = !(grouped && next_is_read);
            match (op.kind.reads(), grouped) {
                (false, _) => encoder.write(op.id, op.value_bytes, &mut self.stream.out),
                (true, false) => encoder.read(op.id, &mut self.stream.out),
                (true, true) => {
                    if !group_is_open {
                        encoder.begin_reads(&mut self.stream.out);
                    }
                    encoder.add_read(op.id, &mut self.stream.out);
                    if group_end {
                        encoder.end_reads(&mut self.stream.out);
                    }
                    group_is_open = !group_end;
                }
            }
            let intended_ns = intended.unwrap_or(u64::MAX);
            self.waiting.pending.push_back(Pending {
                op,
                fill,
                group_end,
                sent_ns: u64::MAX,
                intended_ns,
            });
            self.unsent += 1;
        }
    }

    /// Writes what is queued, as far as the socket takes it. The service time of a request begins here.
    pub fn flush(&mut self, now_ns: u64, outcome: &mut Outcome) -> Result<(), String> {
        if self.unsent > 0 {
            let first = self.waiting.pending.len() - self.unsent;
            for pending in self.waiting.pending.range_mut(first..) {
                pending.sent_ns = now_ns;
                pending.intended_ns = pending.intended_ns.min(now_ns);
            }
            self.unsent = 0;
            self.last_progress_ns = now_ns;
        }
        outcome.bytes_out += self.stream.flush().map_err(dropped)?;
        Ok(())
    }

    /// Reads what has come and settles the requests it answers. `now_ns` is asked once for each read.
    /// `closed` is the poll's word that the server has ended its side.
    pub fn receive(
        &mut self,
        closed: bool,
        now_ns: impl Fn() -> u64,
        encoder: &Encoder<'_>,
        checks: Checks,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        let Connection {
            stream,
            waiting,
            last_progress_ns,
            ..
        } = self;
        let received = stream.receive(closed, |input, new_bytes| {
            let now = now_ns();
            *last_progress_ns = now;
            outcome.bytes_in += new_bytes as u64;
            waiting.settle_all(input, now, encoder.key_bytes, checks, outcome)
        });
        if std::mem::take(&mut self.waiting.has_replied) {
            self.strikes = 0;
        }
        received.map_err(dropped)
    }

    /// In flight for longer than `timeout_ns` without a byte from the server.
    pub fn is_stuck(&self, now_ns: u64, timeout_ns: u64) -> bool {
        self.is_open()
            && !self.is_idle()
            && now_ns.saturating_sub(self.last_progress_ns) > timeout_ns
    }

    /// Closes after `why`, fails what was in flight, and opens again. False when the server is given up.
    pub fn reopen(&mut self, why: &str, poll: &Poll, outcome: &mut Outcome) -> bool {
        self.stream.close(poll);
        outcome.connections_dropped += 1;
        outcome.fail(why, self.in_flight() as u64);
        self.waiting = Waiting {
            fills: std::mem::take(&mut self.waiting.fills),
            ..Waiting::default()
        };
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

impl Waiting {
    /// Settles what `input` answers; how many bytes of it were understood.
    fn settle_all(
        &mut self,
        input: &[u8],
        now_ns: u64,
        key_bytes: usize,
        checks: Checks,
        outcome: &mut Outcome,
    ) -> Result<usize, String> {
        let mut from = 0;
        loop {
            match self.parser.step(&input[from..]) {
                Step::More => return Ok(from),
                Step::Broken(why) => return Err(why.to_string()),
                Step::Skip(bytes) => {
                    from += bytes;
                    if self.parser.is_idle() {
                        self.value_arrived(now_ns, outcome);
                    }
                }
                Step::Reply(reply, bytes) => {
                    from += bytes;
                    self.has_replied = true;
                    self.settle(reply, now_ns, key_bytes, checks, outcome)?;
                }
            }
        }
    }

    fn settle(
        &mut self,
        reply: Reply<'_>,
        now_ns: u64,
        key_bytes: usize,
        checks: Checks,
        outcome: &mut Outcome,
    ) -> Result<(), String> {
        match reply {
            Reply::Value {
                key,
                value_bytes,
                head,
            } => {
                let pending = self.take_read(key, now_ns, key_bytes, checks, outcome)?;
                self.await_end = key.is_some() && pending.group_end;
                let right_length =
                    !checks.lengths || value_bytes == u64::from(pending.op.value_bytes);
                let right_stamp =
                    !checks.stamps || head.len() < stamp(0).len() || head == stamp(pending.op.id);
                self.arriving = Some((pending, right_length && right_stamp));
            }
            Reply::Miss => {
                let pending = self.pop(Kind::Read)?;
                self.missed(pending, now_ns, checks, outcome);
            }
            Reply::End if self.await_end => self.await_end = false,
            Reply::End => loop {
                let pending = self.pop(Kind::Read)?;
                self.missed(pending, now_ns, checks, outcome);
                if pending.group_end {
                    break;
                }
            },
            Reply::Stored => {
                let pending = self.pop(Kind::Write)?;
                complete(pending, now_ns, outcome);
            }
            Reply::Refused(line) => self.refused(line, outcome)?,
        }
        Ok(())
    }

    /// The read a value answers. Keys of a `get` line that were passed over are misses.
    fn take_read(
        &mut self,
        key: Option<&[u8]>,
        now_ns: u64,
        key_bytes: usize,
        checks: Checks,
        outcome: &mut Outcome,
    ) -> Result<Pending, String> {
        if self.await_end {
            return Err("a value beyond the keys asked for".into());
        }
        loop {
            let pending = self.pop(Kind::Read)?;
            let Some(key) = key else {
                return Ok(pending);
            };
            let mut own = [0u8; KEY_BYTES_MAX];
            key_into(pending.op.id, &mut own[..key_bytes]);
            if own[..key_bytes] == *key {
                return Ok(pending);
            }
            self.missed(pending, now_ns, checks, outcome);
            if pending.group_end {
                return Err("a value for a key not asked for".into());
            }
        }
    }

    fn pop(&mut self, kind: Kind) -> Result<Pending, String> {
        match self.pending.front() {
            Some(pending) if pending.op.kind == kind => {
                Ok(self.pending.pop_front().expect("looked at just now"))
            }
            Some(_) => Err("a reply of the wrong kind".into()),
            None => Err("a reply nobody asked for".into()),
        }
    }

    fn missed(&mut self, pending: Pending, now_ns: u64, checks: Checks, outcome: &mut Outcome) {
        outcome.misses += 1;
        complete(pending, now_ns, outcome);
        if checks.fill {
            self.fills.push_back(Op {
                kind: Kind::Write,
                ..pending.op
            });
        }
    }

    fn value_arrived(&mut self, now_ns: u64, outcome: &mut Outcome) {
        if let Some((pending, is_right)) = self.arriving.take() {
            if is_right {
                outcome.hits += 1;
                complete(pending, now_ns, outcome);
            } else {
                outcome.fail("wrong value for the key", 1);
            }
        }
    }

    /// An error line fails the request it answers: for a `get` line, all keys of it not yet found.
    fn refused(&mut self, line: &[u8], outcome: &mut Outcome) -> Result<(), String> {
        let text = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        if std::mem::take(&mut self.await_end) {
            return Ok(());
        }
        loop {
            let pending = self
                .pending
                .pop_front()
                .ok_or_else(|| format!("unasked-for `{text}`"))?;
            outcome.fail(&format!("server said `{text}`"), 1);
            if pending.group_end {
                return Ok(());
            }
        }
    }
}

/// Longest key the loader makes, bytes: memcached's own limit.
pub const KEY_BYTES_MAX: usize = 250;

fn complete(pending: Pending, now_ns: u64, outcome: &mut Outcome) {
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
