//! One worker's feed: operations from the workload, in batches of a fitting size, with their timetable; outcomes
//! into the tally. This is all that stands between a workload and a subject, and it costs a few ns an operation.

use super::tally::Tally;
use crate::pace::{Budget, Timetable};
use crate::subject::{Feed, Outcomes};
use crate::workload::{Batch, Source, UNSCHEDULED};
use anyhow::Result;
use std::sync::atomic::{AtomicU64, AtomicU8, Ordering};
use std::time::{Duration, Instant};

/// Most operations of a batch: with their keys they stay in the second-level cache.
const BATCH_OPS_MAX: usize = 2048;
/// A batch of a closed loop is to take about this long, ns: the end is looked at between batches.
const BATCH_NS: f64 = 2e6;
/// An open loop's batch holds what falls due within this, ns.
const HORIZON_NS: u64 = 5_000_000;

/// Why a phase ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// Not yet.
    Running = 0,
    /// Its time was over.
    Duration = 1,
    /// The pool of operations was empty.
    Operations = 2,
    /// The workload had no more (a trace's end, a load's).
    Source = 3,
    /// A worker could not go on, or the subject died.
    Failure = 4,
}

impl Cause {
    pub fn name(self) -> &'static str {
        match self {
            Cause::Running => "running",
            Cause::Duration => "duration",
            Cause::Operations => "operations",
            Cause::Source => "source",
            Cause::Failure => "failure",
        }
    }
}

/// What the workers of a phase share.
pub struct Shared {
    pub zero: Instant,
    pub limit: Option<Duration>,
    pub pool: Budget,
    cause: AtomicU8,
    /// Recorded time of the phase's first operation, where the source has a timetable of its own: a phase begins
    /// at its own zero, wherever in a trace that is.
    first_ns: AtomicU64,
    /// Operations, hits and lookups of each worker so far, written by it alone.
    pub progress: Vec<Progress>,
}

/// On a cache line of its own: written by one worker twice a batch.
#[derive(Default)]
#[repr(align(128))]
pub struct Progress {
    pub ops: AtomicU64,
    pub hits: AtomicU64,
    pub lookups: AtomicU64,
}

impl Shared {
    pub fn new(workers: usize, limit: Option<Duration>, operations: Option<u64>) -> Self {
        Shared {
            zero: Instant::now(),
            limit,
            pool: Budget::new(operations.unwrap_or(u64::MAX)),
            cause: AtomicU8::new(Cause::Running as u8),
            first_ns: AtomicU64::new(UNSCHEDULED),
            progress: (0..workers).map(|_| Progress::default()).collect(),
        }
    }

    /// The recorded time that is this phase's zero: that of the first operation anybody drew.
    fn base_ns(&self, candidate_ns: u64) -> u64 {
        let order = Ordering::Relaxed;
        match self
            .first_ns
            .compare_exchange(UNSCHEDULED, candidate_ns, order, order)
        {
            Ok(_) => candidate_ns,
            Err(earlier_ns) => earlier_ns,
        }
    }

    /// The first cause given stays; all workers end.
    pub fn end(&self, cause: Cause) {
        let running = Cause::Running as u8;
        // Whoever comes second leaves the first cause standing.
        let _ =
            self.cause
                .compare_exchange(running, cause as u8, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub fn cause(&self) -> Cause {
        match self.cause.load(Ordering::Relaxed) {
            1 => Cause::Duration,
            2 => Cause::Operations,
            3 => Cause::Source,
            4 => Cause::Failure,
            _ => Cause::Running,
        }
    }

    /// Operations, hits and lookups so far, all workers.
    pub fn so_far(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&Progress) -> &AtomicU64| {
            self.progress
                .iter()
                .map(|progress| of(progress).load(Ordering::Relaxed))
                .sum()
        };
        (sum(|p| &p.ops), sum(|p| &p.hits), sum(|p| &p.lookups))
    }
}

/// A worker's feed for one phase.
pub struct WorkerFeed<'a> {
    pub source: &'a mut dyn Source,
    pub shared: &'a Shared,
    pub id: usize,
    pub timetable: Option<Timetable>,
    pub tally: Tally,
    /// ns an operation took of late, for the size of the next batch.
    pace_ns: f64,
    issued: Option<Instant>,
    starts: Vec<u64>,
    /// A source ends for its worker alone; the phase ends with the last of them.
    pub is_dry: bool,
}

impl<'a> WorkerFeed<'a> {
    pub fn new(
        source: &'a mut dyn Source,
        shared: &'a Shared,
        id: usize,
        timetable: Option<Timetable>,
    ) -> Self {
        WorkerFeed {
            source,
            shared,
            id,
            timetable,
            tally: Tally::default(),
            pace_ns: 100_000.0,
            issued: None,
            starts: Vec::new(),
            is_dry: false,
        }
    }

    /// How many operations the next batch may have; their starts where there is a timetable.
    fn wanted(&mut self, room: usize, now_ns: u64) -> usize {
        let limit_ns = self
            .shared
            .limit
            .map_or(u64::MAX, |limit| limit.as_nanos() as u64);
        let Some(timetable) = &mut self.timetable else {
            let fitting = (BATCH_NS / self.pace_ns.max(1.0)) as usize;
            return fitting.clamp(1, BATCH_OPS_MAX).min(room);
        };
        self.starts.clear();
        while self.starts.len() < room.min(BATCH_OPS_MAX) {
            let start_ns = timetable.next_ns();
            let is_due_soon = start_ns <= now_ns + HORIZON_NS || self.starts.is_empty();
            if !is_due_soon || start_ns >= limit_ns {
                break;
            }
            self.starts.push(start_ns);
            timetable.advance();
        }
        self.starts.len()
    }
}

impl Feed for WorkerFeed<'_> {
    fn zero(&self) -> Instant {
        self.shared.zero
    }

    fn next(&mut self, batch: &mut Batch, room: usize) -> Result<usize> {
        batch.clear();
        if self.shared.cause() != Cause::Running || self.is_dry {
            return Ok(0);
        }
        let now = Instant::now();
        let elapsed = now - self.shared.zero;
        if self.shared.limit.is_some_and(|limit| elapsed >= limit) {
            self.shared.end(Cause::Duration);
            return Ok(0);
        }
        let wanted = self.wanted(room.max(1), elapsed.as_nanos() as u64);
        if wanted == 0 {
            // The timetable has nothing left before the end.
            self.shared.end(Cause::Duration);
            return Ok(0);
        }
        let (_, count) = self.shared.pool.take(wanted as u64);
        if count == 0 {
            self.shared.end(Cause::Operations);
            return Ok(0);
        }
        let filled = self.source.fill(batch, count as usize)?;
        if filled == 0 {
            self.is_dry = true;
            return Ok(0);
        }
        if self.timetable.is_some() {
            for (op, start_ns) in batch.ops.iter_mut().zip(&self.starts) {
                op.intended_ns = *start_ns;
            }
        } else if batch.ops[0].intended_ns != UNSCHEDULED {
            let base_ns = self.shared.base_ns(batch.ops[0].intended_ns);
            for op in &mut batch.ops {
                op.intended_ns = op.intended_ns.saturating_sub(base_ns);
            }
        }
        self.issued = Some(Instant::now());
        Ok(filled)
    }

    fn done(&mut self, batch: &Batch, outcomes: &mut Outcomes) {
        if let Some(issued) = self.issued.take() {
            let spent_ns = issued.elapsed().as_nanos() as u64;
            self.tally.in_subject_ns += spent_ns;
            let pace_ns = spent_ns as f64 / batch.len().max(1) as f64;
            self.pace_ns = (self.pace_ns + pace_ns) / 2.0;
            if self.timetable.is_none()
                && batch
                    .ops
                    .first()
                    .is_some_and(|op| op.intended_ns != UNSCHEDULED)
            {
                // A source with a timetable of its own: small batches, so that the end is seen in time.
                self.pace_ns = self.pace_ns.max(BATCH_NS / 64.0);
            }
        }
        self.tally.add(batch, outcomes);
        self.source.settled(batch);
        let progress = &self.shared.progress[self.id];
        let (hits, misses) = (self.tally.hits(), self.tally.misses());
        progress
            .ops
            .fetch_add(batch.len() as u64, Ordering::Relaxed);
        progress.hits.store(hits, Ordering::Relaxed);
        progress.lookups.store(hits + misses, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Arrivals;
    use crate::workload::{Kind, Op};

    struct Counting(u64);

    impl Source for Counting {
        fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
            batch.clear();
            for _ in 0..count.min(self.0 as usize) {
                batch.push(Op::new(Kind::Read, self.0, 1), 1, |key| key.fill(b'k'));
                self.0 -= 1;
            }
            Ok(batch.len())
        }
    }

    #[test]
    fn the_pool_is_exact_whatever_the_batches() {
        let shared = Shared::new(2, None, Some(10_007));
        let mut total = 0;
        for id in 0..2 {
            let mut source = Counting(u64::MAX);
            let mut feed = WorkerFeed::new(&mut source, &shared, id, None);
            let mut batch = Batch::default();
            for room in (1..).step_by(3).take(if id == 0 { 20 } else { 10_000 }) {
                total += feed.next(&mut batch, room).unwrap();
            }
        }
        assert_eq!((total, shared.cause()), (10_007, Cause::Operations));
    }

    #[test]
    fn a_timetable_gives_what_is_due_soon_and_ends_at_the_limit() {
        let limit = Duration::from_millis(200);
        let shared = Shared::new(1, Some(limit), None);
        let mut source = Counting(u64::MAX);
        // 1,000 a second: 5 within the horizon of 5 ms, and never one at or after the limit.
        let table = Timetable::new(1000.0, Arrivals::Even, 0, 1, 1);
        let mut feed = WorkerFeed::new(&mut source, &shared, 0, Some(table));
        let (mut batch, mut starts) = (Batch::default(), Vec::new());
        while feed.next(&mut batch, 100).unwrap() > 0 {
            let now_ns = shared.zero.elapsed().as_nanos() as u64;
            for op in &batch.ops {
                assert!(op.intended_ns <= now_ns + HORIZON_NS + 1_000_000);
                starts.push(op.intended_ns);
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        assert!(starts.len() <= 200, "{} starts", starts.len());
        assert!(starts.windows(2).all(|pair| pair[1] - pair[0] == 1_000_000));
        assert_eq!(shared.cause(), Cause::Duration);
    }

    #[test]
    fn a_dry_source_ends_its_worker_only() {
        let shared = Shared::new(1, None, None);
        let mut source = Counting(3);
        let mut feed = WorkerFeed::new(&mut source, &shared, 0, None);
        let mut batch = Batch::default();
        let mut total = 0;
        loop {
            match feed.next(&mut batch, 2).unwrap() {
                0 => break,
                count => total += count,
            }
        }
        assert!(feed.is_dry);
        assert_eq!((total, shared.cause()), (3, Cause::Running));
    }
}
