//! A worker's connections and its event loop: draws operations from its feed, keeps the connections busy, books the
//! answers.
//!
//! Closed loop: a connection sends a pipeline of requests in one write, waits for all replies, sends the next. Open
//! loop: an operation goes out when it is due on a connection with room; one that finds none waits here, and that is
//! response time, not service time.
//! What must hold: an operation drawn is settled exactly once, whatever the server does.

use super::flight::{Flight, Purpose};
use super::request::{Dialect, How};
use super::MemcachedSubject;
use crate::load::awaited::Said;
use crate::load::pipe::Pipe;
use crate::load::target::Target;
use crate::load::turns::{self, Turns, WAIT_MAX};
use crate::subject::{Answer, Feed, Outcomes, Worker};
use crate::workload::{stamp, Batch, Kind, Random, STAMP_BYTES, UNSCHEDULED};
use anyhow::{bail, Context, Result};
use mio::{Poll, Token};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::time::{Duration, Instant};

/// A connection that drops so often in a row, with no reply between, is given up, and the point with it.
const STRIKES_MAX: u32 = 3;

pub struct MemcachedWorker<'a> {
    subject: &'a MemcachedSubject,
    poll: Poll,
    connections: Vec<Pipe<Flight>>,
    strikes: u32,
    /// Bytes that values are cut from.
    filler: Vec<u8>,
}

impl<'a> MemcachedWorker<'a> {
    pub fn open(subject: &'a MemcachedSubject, id: usize) -> Result<Self> {
        let poll = Poll::new().context("cannot create an event poll")?;
        let (all, workers) = (subject.manner.connections, subject.workers);
        let own = all / workers + usize::from(id < all % workers);
        let connections = (0..own)
            .map(|index| {
                let target = subject.targets[(id + index) % subject.targets.len()].clone();
                open(target, Token(index), &poll)
                    .with_context(|| format!("connection {} of {own}", index + 1))
            })
            .collect::<Result<Vec<_>>>()?;
        let mut random = Random::lane(subject.seed, id as u64);
        Ok(MemcachedWorker {
            subject,
            poll,
            connections,
            strikes: 0,
            filler: (0..subject.value_bytes_max)
                .map(|_| random.word() as u8)
                .collect(),
        })
    }
}

fn open(target: Target, token: Token, poll: &Poll) -> Result<Pipe<Flight>> {
    let mut pipe = Pipe::new(target, token);
    reopen(&mut pipe, poll)?;
    Ok(pipe)
}

fn reopen(pipe: &mut Pipe<Flight>, poll: &Poll) -> Result<()> {
    pipe.open(poll)
        .with_context(|| format!("cannot connect to {:?}", pipe.target().place))
}

impl Worker for MemcachedWorker<'_> {
    fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()> {
        let mut once = Once {
            batch,
            outcomes,
            is_given: false,
        };
        self.drive(&mut once)
    }

    fn drive(&mut self, feed: &mut dyn Feed) -> Result<()> {
        let zero = feed.zero();
        let mut run = Run {
            worker: self,
            feed,
            zero,
            slots: Vec::new(),
            free: Vec::new(),
            issuing: None,
            is_dry: false,
            delayed: BinaryHeap::new(),
            settled: Vec::new(),
            turn: 0,
            fills: (0, 0),
        };
        turns::take(&mut run)
    }
}

/// One batch as a feed.
struct Once<'a> {
    batch: &'a Batch,
    outcomes: &'a mut Outcomes,
    is_given: bool,
}

impl Feed for Once<'_> {
    fn zero(&self) -> Instant {
        self.outcomes.zero
    }

    fn next(&mut self, batch: &mut Batch, _room: usize) -> Result<usize> {
        batch.clear();
        if std::mem::replace(&mut self.is_given, true) {
            return Ok(0);
        }
        batch.clone_from(self.batch);
        Ok(batch.len())
    }

    fn done(&mut self, _batch: &Batch, outcomes: &mut Outcomes) {
        std::mem::swap(self.outcomes, outcomes);
    }
}

/// A batch on its way.
struct Slot {
    batch: Batch,
    outcomes: Outcomes,
    /// Operations without an answer.
    left: usize,
    /// Operations issued.
    at: usize,
}

/// A miss that waits for the store: due, slot, index, connection, started.
type Delayed = (u64, usize, usize, usize, u64);

/// One phase.
struct Run<'w, 'a, 'f> {
    worker: &'w mut MemcachedWorker<'a>,
    feed: &'f mut dyn Feed,
    zero: Instant,
    slots: Vec<Slot>,
    free: Vec<usize>,
    /// The slot operations are taken from.
    issuing: Option<usize>,
    is_dry: bool,
    delayed: BinaryHeap<Reverse<Delayed>>,
    settled: Vec<(Flight, Said, u64)>,
    turn: usize,
    /// Fills sent, and those of them refused, not yet told.
    fills: (u64, u64),
}

impl Turns for Run<'_, '_, '_> {
    fn now_ns(&self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }

    fn poll(&mut self) -> &mut Poll {
        &mut self.worker.poll
    }

    fn issue(&mut self) -> Result<Option<Duration>> {
        self.wake_delayed()?;
        self.issue_all()?;
        Ok((!self.is_over()).then(|| self.wait()))
    }

    fn on_ready(&mut self, index: usize, closed: bool) -> Result<()> {
        let (zero, mut settled) = (self.zero, std::mem::take(&mut self.settled));
        let slots = &self.slots;
        let received = self.worker.connections[index].receive(
            closed,
            || zero.elapsed().as_nanos() as u64,
            |flight, key| slots[flight.slot].batch.key(flight.index) == key,
            |flight, said, now_ns| settled.push((flight, said, now_ns)),
        );
        if !settled.is_empty() {
            self.worker.strikes = 0;
        }
        for (flight, said, now_ns) in settled.drain(..) {
            match said {
                Said::Refused(line) => self.refused(flight, &line),
                said => self.said(index, flight, said, now_ns),
            }
        }
        self.settled = settled;
        match received {
            Ok(()) => self.flush(index),
            Err(why) => self.dropped(index, &why),
        }
    }

    fn stuck(&mut self, now_ns: u64) -> Vec<usize> {
        let timeout_ns = self.worker.subject.manner.timeout.as_nanos() as u64;
        let connections = self.worker.connections.iter().enumerate();
        let stuck = connections.filter(|(_, connection)| connection.is_stuck(now_ns, timeout_ns));
        stuck.map(|(index, _)| index).collect()
    }

    /// Fails what was under way and opens anew; an error when the server is given up.
    fn dropped(&mut self, index: usize, why: &str) -> Result<()> {
        let why = format!("connection dropped: {why}");
        let under_way = self.worker.connections[index].close(&self.worker.poll);
        for flight in under_way {
            if flight.purpose != Purpose::Fill {
                self.fail(flight.slot, flight.index, &why);
            }
        }
        self.worker.strikes += 1;
        if self.worker.strikes > STRIKES_MAX {
            bail!(
                "{why}, {} times without a reply between",
                self.worker.strikes
            );
        }
        let worker = &mut *self.worker;
        reopen(&mut worker.connections[index], &worker.poll).context(why)
    }
}

impl Run<'_, '_, '_> {
    fn is_over(&self) -> bool {
        self.is_dry
            && self.issuing.is_none()
            && self.delayed.is_empty()
            && self.worker.connections.iter().all(Pipe::is_idle)
    }

    /// Until the next start that is due, or the next store read that ends. Below 1 ms the poll spins: the kernel's
    /// millisecond grain would show as latency.
    fn wait(&self) -> Duration {
        let next = self.next_start_ns().into_iter();
        let next = next
            .chain(self.delayed.peek().map(|Reverse((due, ..))| *due))
            .min();
        let Some(due) = next else {
            return WAIT_MAX;
        };
        let until = Duration::from_nanos(due.saturating_sub(self.now_ns()));
        Duration::from_millis(until.as_millis().saturating_sub(1) as u64)
    }

    /// The intended start of the operation that is next, if it lies ahead and there is room for it.
    fn next_start_ns(&self) -> Option<u64> {
        let slot = &self.slots[self.issuing?];
        let start = slot.batch.ops[slot.at].intended_ns;
        let has_room = |c: &Pipe<Flight>| c.under_way() < self.worker.subject.manner.pipeline;
        (start != UNSCHEDULED && self.worker.connections.iter().any(has_room)).then_some(start)
    }

    /// Sends what may be sent on every connection with room.
    fn issue_all(&mut self) -> Result<()> {
        let (count, pipeline) = (
            self.worker.connections.len(),
            self.worker.subject.manner.pipeline,
        );
        let mut quiet = 0;
        while quiet < count {
            self.turn = (self.turn + 1) % count;
            let connection = &self.worker.connections[self.turn];
            let room = pipeline.saturating_sub(connection.under_way());
            if room == 0 || !self.may_issue(connection.is_idle(), room)? {
                quiet += 1;
                continue;
            }
            let sent = self.issue_on(self.turn, room)?;
            quiet = if sent { 0 } else { quiet + 1 };
        }
        Ok(())
    }

    /// Is there an operation for a connection with room? In a closed loop it must have none under way.
    fn may_issue(&mut self, is_idle: bool, room: usize) -> Result<bool> {
        if self.issuing.is_none() && !self.draw(room)? {
            return Ok(false);
        }
        let Some(number) = self.issuing else {
            return Ok(false);
        };
        let slot = &self.slots[number];
        let start_ns = slot.batch.ops[slot.at].intended_ns;
        Ok(if start_ns == UNSCHEDULED {
            is_idle
        } else {
            start_ns <= self.now_ns()
        })
    }

    /// Draws the next batch: for an open loop as much as all connections may take, else one pipeline.
    fn draw(&mut self, room: usize) -> Result<bool> {
        if self.is_dry {
            return Ok(false);
        }
        let number = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot {
                batch: Batch::default(),
                outcomes: Outcomes::new(self.zero),
                left: 0,
                at: 0,
            });
            self.slots.len() - 1
        });
        let slot = &mut self.slots[number];
        let drawn = self.feed.next(&mut slot.batch, room)?;
        if drawn == 0 {
            self.is_dry = true;
            self.free.push(number);
            return Ok(false);
        }
        slot.outcomes.reset(drawn);
        (slot.left, slot.at) = (drawn, 0);
        self.issuing = Some(number);
        Ok(true)
    }

    /// Up to `room` operations in one write. False if none was due.
    fn issue_on(&mut self, index: usize, room: usize) -> Result<bool> {
        let started_ns = self.now_ns();
        let (mut sent, mut taken) = (0, false);
        while sent < room {
            if self.issuing.is_none() && !self.draw(room - sent)? {
                break;
            }
            let Some(number) = self.issuing else {
                break;
            };
            let slot = &mut self.slots[number];
            let (at, op) = (slot.at, slot.batch.ops[slot.at]);
            if op.intended_ns != UNSCHEDULED && op.intended_ns > started_ns {
                break;
            }
            taken = true;
            slot.at += 1;
            if slot.at == slot.batch.len() {
                self.issuing = None;
            }
            let purpose = match op.kind {
                Kind::Read | Kind::ReadModifyWrite => Purpose::Read,
                Kind::Delete => Purpose::Delete,
                Kind::Scan => {
                    self.fail(number, at, "scan: memcached has no order of keys");
                    continue;
                }
                _ => Purpose::Write,
            };
            self.send(
                index,
                Flight {
                    slot: number,
                    index: at,
                    purpose,
                    started_ns,
                },
            );
            sent += 1;
        }
        self.flush(index)?;
        Ok(taken)
    }

    /// Appends a request to a connection's output.
    fn send(&mut self, index: usize, flight: Flight) {
        let worker = &mut *self.worker;
        let (manner, filler) = (&worker.subject.manner, &worker.filler);
        let batch = &self.slots[flight.slot].batch;
        let (op, key) = (&batch.ops[flight.index], batch.key(flight.index));
        let (dialect, pipe) = (manner.dialect, &mut worker.connections[index]);
        if (flight.purpose, dialect) == (Purpose::Read, Dialect::MultiGet) {
            return pipe.queue_key(flight, flight.started_ns, |out| out.extend_from_slice(key));
        }
        pipe.queue(flight, flight.started_ns, |out| match flight.purpose {
            Purpose::Read => dialect.read(key, out),
            Purpose::Delete => dialect.delete(key, out),
            _ => {
                let how = match flight.purpose {
                    Purpose::Write => How::of(op.kind, manner.replace),
                    _ => How::Set,
                };
                let bytes = op.value_bytes as usize;
                match batch.value(flight.index) {
                    Some(value) => dialect.write(how, key, &[value], out),
                    None if bytes < STAMP_BYTES => {
                        dialect.write(how, key, &[&filler[..bytes]], out);
                    }
                    None => {
                        let value: [&[u8]; 2] = [&stamp(op.id), &filler[STAMP_BYTES..bytes]];
                        dialect.write(how, key, &value, out);
                    }
                }
            }
        });
    }

    fn flush(&mut self, index: usize) -> Result<()> {
        match self.worker.connections[index].flush() {
            Ok(_) => Ok(()),
            Err(why) => self.dropped(index, &why),
        }
    }

    fn said(&mut self, connection: usize, flight: Flight, said: Said, now_ns: u64) {
        let answer = match (flight.purpose, said) {
            (Purpose::Fill, Said::Stored) => return,
            (Purpose::Fill, _) => {
                self.fills.1 += 1;
                return;
            }
            (Purpose::Read, Said::Value { bytes, head }) => self.found(&flight, bytes, head),
            (Purpose::Read, _) => Answer::Miss,
            (Purpose::Rewrite { hit: true }, Said::Stored) => Answer::Hit,
            (Purpose::Rewrite { hit: false }, Said::Stored) => Answer::Miss,
            (_, Said::Stored) => Answer::Stored,
            (_, _) => Answer::NotStored,
        };
        let op = self.slots[flight.slot].batch.ops[flight.index];
        if flight.purpose == Purpose::Read && answer == Answer::Miss {
            if let Some(store) = &self.worker.subject.store {
                let due_ns = now_ns + store.latency().as_nanos() as u64;
                let (slot, index) = (flight.slot, flight.index);
                self.delayed.push(Reverse((
                    due_ns,
                    slot,
                    index,
                    connection,
                    flight.started_ns,
                )));
                return;
            }
        }
        self.read_ended(connection, flight, op.kind, answer, now_ns);
    }

    /// The last step of an operation, or the write that follows its read.
    fn read_ended(
        &mut self,
        connection: usize,
        flight: Flight,
        kind: Kind,
        answer: Answer,
        now_ns: u64,
    ) {
        let is_read = flight.purpose == Purpose::Read;
        if is_read && kind == Kind::ReadModifyWrite && answer != Answer::Wrong {
            let hit = answer == Answer::Hit;
            self.send(
                connection,
                Flight {
                    purpose: Purpose::Rewrite { hit },
                    ..flight
                },
            );
            return;
        }
        if is_read && answer == Answer::Miss && self.worker.subject.manner.fill {
            self.fills.0 += 1;
            self.send(
                connection,
                Flight {
                    purpose: Purpose::Fill,
                    ..flight
                },
            );
        }
        let slot = &mut self.slots[flight.slot];
        slot.outcomes
            .set_timed(flight.index, answer, flight.started_ns, now_ns);
        self.settle(flight.slot);
    }

    fn found(&self, flight: &Flight, bytes: u64, head: [u8; STAMP_BYTES]) -> Answer {
        let op = &self.slots[flight.slot].batch.ops[flight.index];
        let is_right = !self.worker.subject.check
            || (bytes == u64::from(op.value_bytes)
                && (bytes < STAMP_BYTES as u64 || head == stamp(op.id)));
        if is_right {
            Answer::Hit
        } else {
            Answer::Wrong
        }
    }

    /// Store reads that have ended: the misses are answered, and filled.
    fn wake_delayed(&mut self) -> Result<()> {
        let now_ns = self.now_ns();
        while let Some(Reverse((due_ns, slot, index, connection, started_ns))) = self.delayed.peek()
        {
            if *due_ns > now_ns {
                break;
            }
            let flight = Flight {
                slot: *slot,
                index: *index,
                purpose: Purpose::Read,
                started_ns: *started_ns,
            };
            let (connection, due_ns) = (*connection, *due_ns);
            self.delayed.pop();
            if let Some(store) = &self.worker.subject.store {
                store.note(store.latency() + Duration::from_nanos(now_ns - due_ns));
            }
            let kind = self.slots[flight.slot].batch.ops[flight.index].kind;
            self.read_ended(connection, flight, kind, Answer::Miss, now_ns);
            self.flush(connection)?;
        }
        Ok(())
    }

    /// An error line: no room is an answer, anything else a failure.
    fn refused(&mut self, flight: Flight, line: &str) {
        if flight.purpose == Purpose::Fill {
            self.fills.1 += 1;
            return;
        }
        let no_room = line.contains("out of memory") || line.contains("too large");
        if no_room && flight.purpose != Purpose::Read {
            self.slots[flight.slot]
                .outcomes
                .set(flight.index, Answer::Refused);
            self.settle(flight.slot);
        } else {
            self.fail(flight.slot, flight.index, &format!("server said `{line}`"));
        }
    }

    fn fail(&mut self, slot: usize, index: usize, why: &str) {
        self.slots[slot].outcomes.fail(index, why);
        self.settle(slot);
    }

    /// One operation less to wait for.
    fn settle(&mut self, number: usize) {
        let slot = &mut self.slots[number];
        slot.left -= 1;
        if slot.left > 0 {
            return;
        }
        slot.outcomes.fills = std::mem::take(&mut self.fills.0);
        slot.outcomes.fills_refused = std::mem::take(&mut self.fills.1);
        self.feed.done(&slot.batch, &mut slot.outcomes);
        self.free.push(number);
    }
}
