//! Engines in this process as subjects: one loop over any [`Engine`], compiled for each, so that the harness
//! costs an operation a few ns and no virtual call.
//!
//! A read that misses may read a slow store and fill the cache, both inside the operation's time: that is what
//! a caller of a read-through cache waits for.

use super::slow_store::{sharpen_sleep, SlowStore};
use super::{Answer, Outcomes, Subject, Worker};
use crate::engines::engine::{Engine, Found, Reading};
use crate::workload::{stamp, Batch, Kind, Op, Random, STAMP_BYTES, UNSCHEDULED};
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How operations are done on the engine.
#[derive(Clone, Copy, Debug)]
pub struct Manner {
    pub reading: Reading,
    /// Write what a read missed.
    pub fill: bool,
    /// Hits are compared with the key's stamp.
    pub check: bool,
    /// One operation in so many is timed: two clock readings cost 50 ns, spread to less than 1. Operations
    /// with a timetable are timed all.
    pub time_every: usize,
    pub value_bytes_max: u32,
    pub seed: u64,
}

/// An engine with everything its workers share.
pub struct Embedded<E> {
    engine: E,
    manner: Manner,
    store: Option<SlowStore>,
    facts: BTreeMap<String, Value>,
}

impl<E: Engine> Embedded<E> {
    pub fn new(
        engine: E,
        manner: Manner,
        miss_cost: Option<Duration>,
        facts: BTreeMap<String, Value>,
    ) -> Self {
        Embedded {
            engine,
            manner,
            store: miss_cost.map(SlowStore::new),
            facts,
        }
    }
}

impl<E: Engine + 'static> Subject for Embedded<E> {
    fn worker(&self, id: usize) -> Result<Box<dyn Worker + '_>> {
        sharpen_sleep();
        let mut random = Random::lane(self.manner.seed, id as u64);
        let value_bytes_max = self.manner.value_bytes_max as usize;
        Ok(Box::new(EmbeddedWorker {
            engine: &self.engine,
            store: self.store.as_ref(),
            manner: self.manner,
            filler: (0..value_bytes_max).map(|_| random.word() as u8).collect(),
            out: Vec::with_capacity(value_bytes_max),
            turn: 0,
        }))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let mut counters = self.engine.counters();
        if let Some(store) = &self.store {
            let (reads, waited_ns) = store.account();
            counters.insert("store_reads_total".into(), reads as f64);
            counters.insert("store_waited_seconds_total".into(), waited_ns as f64 / 1e9);
        }
        counters
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = self.facts.clone();
        facts.extend(self.engine.facts());
        facts
    }

    fn settle(&self) {
        self.engine.settle();
    }

    fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct EmbeddedWorker<'a, E> {
    engine: &'a E,
    store: Option<&'a SlowStore>,
    manner: Manner,
    /// Bytes that values are cut from; its front takes the stamp.
    filler: Vec<u8>,
    out: Vec<u8>,
    turn: usize,
}

impl<E: Engine> Worker for EmbeddedWorker<'_, E> {
    fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()> {
        for (index, op) in batch.ops.iter().enumerate() {
            // One place where operations are done, so that all of it is compiled into this loop.
            let started_ns = self.is_timed(op, outcomes).then(|| outcomes.now_ns());
            let answer = self.one(op, batch, index, outcomes);
            match started_ns {
                None => outcomes.set(index, answer),
                Some(started_ns) => {
                    let ended_ns = outcomes.now_ns();
                    outcomes.set_timed(index, answer, started_ns, ended_ns);
                }
            }
        }
        Ok(())
    }
}

impl<E: Engine> EmbeddedWorker<'_, E> {
    /// Whether this operation is timed; one with a timetable is, and waits here for its turn.
    #[inline]
    fn is_timed(&mut self, op: &Op, outcomes: &Outcomes) -> bool {
        self.turn += 1;
        if op.intended_ns != UNSCHEDULED {
            wait_until(outcomes.zero, op.intended_ns);
        } else if self.turn < self.manner.time_every {
            return false;
        }
        self.turn = 0;
        true
    }

    #[inline]
    fn one(&mut self, op: &Op, batch: &Batch, index: usize, outcomes: &mut Outcomes) -> Answer {
        match op.kind {
            Kind::Read => self.read(op, batch, index, outcomes),
            Kind::Write | Kind::Insert | Kind::Update => self.write(op, batch, index),
            Kind::ReadModifyWrite => match self.read(op, batch, index, outcomes) {
                Answer::Wrong => Answer::Wrong,
                found => match self.write(op, batch, index) {
                    Answer::Stored => found,
                    refused => refused,
                },
            },
            Kind::Delete if self.engine.delete(batch.key(index)) => Answer::Stored,
            Kind::Delete => Answer::NotStored,
            Kind::Add if self.engine.contains(batch.key(index)) => Answer::NotStored,
            Kind::Add => self.write(op, batch, index),
            Kind::Scan => {
                outcomes.fail(index, "scan: a cache has no order of keys");
                Answer::Failed
            }
        }
    }

    #[inline]
    fn read(&mut self, op: &Op, batch: &Batch, index: usize, outcomes: &mut Outcomes) -> Answer {
        let key = batch.key(index);
        match self.engine.get(key, self.manner.reading, &mut self.out) {
            Some(found) if batch.expected(index).is_some() => {
                let expected = batch.expected(index).unwrap_or_default();
                // A look at the head compares what it saw.
                let is_right = match self.manner.reading {
                    Reading::Copy => self.out == expected,
                    Reading::Head => found == Found::of(expected),
                };
                if is_right {
                    Answer::Hit
                } else {
                    Answer::Wrong
                }
            }
            Some(found) if self.manner.check => {
                let is_right = found.value_bytes == op.value_bytes as usize
                    && (found.value_bytes < STAMP_BYTES || found.head == stamp(op.id));
                if is_right {
                    Answer::Hit
                } else {
                    Answer::Wrong
                }
            }
            Some(_) => Answer::Hit,
            None => {
                if let Some(store) = self.store {
                    store.read();
                }
                if self.manner.fill && op.kind == Kind::Read {
                    outcomes.fills += 1;
                    let refused = self.write(op, batch, index) == Answer::Refused;
                    outcomes.fills_refused += u64::from(refused);
                }
                Answer::Miss
            }
        }
    }

    #[inline]
    fn write(&mut self, op: &Op, batch: &Batch, index: usize) -> Answer {
        let key = batch.key(index);
        let stored = match batch.value(index) {
            Some(value) => self.engine.set(key, value),
            None => {
                let value = &mut self.filler[..op.value_bytes as usize];
                if value.len() >= STAMP_BYTES {
                    value[..STAMP_BYTES].copy_from_slice(&stamp(op.id));
                }
                self.engine.set(key, value)
            }
        };
        if stored {
            Answer::Stored
        } else {
            Answer::Refused
        }
    }
}

/// A thread that waits for less than this spins, ns: waking up takes about as long.
const SPIN_NS_MAX: u64 = 60_000;

/// Waits until `intended_ns` after `zero`; returns at once when that is past.
fn wait_until(zero: Instant, intended_ns: u64) {
    loop {
        let now_ns = zero.elapsed().as_nanos() as u64;
        if now_ns >= intended_ns {
            return;
        }
        if intended_ns - now_ns > SPIN_NS_MAX {
            std::thread::sleep(Duration::from_nanos(intended_ns - now_ns - SPIN_NS_MAX));
        } else {
            std::hint::spin_loop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engines::engine::testing::Map;
    use crate::workload::key_into;

    fn apply(map: Map, fill: bool, ops: &[Op]) -> (Vec<Answer>, Outcomes) {
        let manner = Manner {
            reading: Reading::Copy,
            fill,
            check: true,
            time_every: 2,
            value_bytes_max: 100,
            seed: 1,
        };
        let subject = Embedded::new(map, manner, None, BTreeMap::new());
        let mut batch = Batch::default();
        for op in ops {
            batch.push(*op, 16, |key| key_into(op.id, key));
        }
        let mut outcomes = Outcomes::new(Instant::now());
        outcomes.reset(batch.len());
        let mut worker = subject.worker(0).unwrap();
        worker.apply(&batch, &mut outcomes).unwrap();
        (outcomes.all.iter().map(|o| o.answer).collect(), outcomes)
    }

    #[test]
    fn every_kind_is_answered_for_what_it_is() {
        let op = |kind, id| Op::new(kind, id, 50);
        let (answers, outcomes) = apply(
            Map::default(),
            true,
            &[
                op(Kind::Read, 1),
                op(Kind::Read, 1),
                op(Kind::Add, 1),
                op(Kind::Add, 2),
                op(Kind::Delete, 2),
                op(Kind::Delete, 2),
                op(Kind::ReadModifyWrite, 3),
                op(Kind::ReadModifyWrite, 3),
                op(Kind::Update, 4),
                op(Kind::Scan, 4),
            ],
        );
        use Answer::*;
        assert_eq!(
            answers,
            [Miss, Hit, NotStored, Stored, Stored, NotStored, Miss, Hit, Stored, Failed]
        );
        assert_eq!(outcomes.fills, 1, "a read-modify-write writes itself");
        assert_eq!(outcomes.failures.len(), 1);
        let timed = outcomes.all.iter().filter(|o| o.service_ns > 0).count();
        assert_eq!(timed, 5, "one in two");
    }

    #[test]
    fn spoilt_hits_and_refused_writes_are_seen() {
        let ops = [Op::new(Kind::Write, 1, 50), Op::new(Kind::Read, 1, 50)];
        let spoiling = Map {
            spoils: true,
            ..Map::default()
        };
        assert_eq!(apply(spoiling, false, &ops).0[1], Answer::Wrong);
        let refusing = Map {
            refuses: true,
            ..Map::default()
        };
        let (answers, outcomes) = apply(refusing, true, &ops);
        assert_eq!(answers, [Answer::Refused, Answer::Miss]);
        assert_eq!((outcomes.fills, outcomes.fills_refused), (1, 1));
    }

    #[test]
    fn a_timetable_is_waited_for_and_the_wait_is_not_latency() {
        let mut op = Op::new(Kind::Read, 1, 50);
        op.intended_ns = 3_000_000;
        let (_, outcomes) = apply(Map::default(), false, &[op]);
        assert!(outcomes.all[0].started_ns >= 3_000_000);
        assert!(outcomes.all[0].service_ns < outcomes.all[0].started_ns);
    }
}
