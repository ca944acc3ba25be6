//! Measuring one point: workers drive a workload against a subject through loading, warm-up and the measured
//! part, and what came of it becomes figures.
//!
//! What must hold: every phase is bounded by time or by one pool of operations shared by all workers, and the
//! cause of its end is kept; an open loop's operations have intended starts, counted from the phase's own zero
//! (no burst at the start), and waiting for one's turn is never latency; nothing grows with the number of
//! operations.

pub mod figures;
pub mod series;
pub mod setup;
pub mod steady;
pub mod tally;
pub mod worker;

pub use figures::Measured;
pub use setup::{Loop, Setup};
pub use tally::Tally;
pub use worker::Cause;

use crate::machine::resident_bytes;
use crate::pace::Timetable;
use crate::point::SERIES_POINTS_MAX;
use crate::subject::{Subject, Worker};
use crate::workload::{Source, Workload};
use anyhow::{anyhow, Context, Result};
use figures::{Edge, Ended};
use series::Lines;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::mpsc::{channel, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Barrier, Mutex};
use std::time::{Duration, Instant};
use worker::{Shared, WorkerFeed};

/// The parts of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    Load,
    Warmup,
    Measured,
}

/// Told how far a point is; an error ends it.
pub trait Events {
    /// A phase begins, of at most `limit`. `pid` is the process that does the work.
    fn begins(&mut self, phase: Phase, limit: Option<Duration>, pid: u32) -> Result<()>;
    fn ended(&mut self, phase: Phase, pid: u32) -> Result<()>;
}

/// What is measured and how.
pub struct Job<'a> {
    pub subject: &'a dyn Subject,
    pub workload: &'a dyn Workload,
    pub setup: &'a Setup,
    pub mode: Loop,
    pub seed: u64,
    /// Operations that can be under way at once: what throughput x latency comes to.
    pub concurrency: usize,
}

/// Values kept of a subject's own counter; the lines of operations keep more.
const COUNTER_POINTS_MAX: usize = 120;
/// Time lines have a value so often, at most and at least.
const TICK_MAX: Duration = Duration::from_secs(1);
const TICK_MIN: Duration = Duration::from_millis(100);

/// Measures one point. An error means that there is no result; operations that failed are in the result.
pub fn measure(job: &Job<'_>, events: &mut dyn Events) -> Result<Measured> {
    let workers = job.setup.workers();
    let barrier = Barrier::new(workers + 1);
    let order = Mutex::new(None);
    let (sender, receiver) = channel();
    std::thread::scope(|scope| {
        for id in 0..workers {
            let (barrier, order, sender) = (&barrier, &order, sender.clone());
            scope.spawn(move || work(job, id, barrier, order, &sender));
        }
        let crew = Crew {
            job,
            barrier: &barrier,
            order: &order,
            receiver: &receiver,
            workers,
        };
        let result = conduct(&crew, events);
        // No order left: the workers go home.
        *order.lock().expect("no thread panics holding the order") = None;
        barrier.wait();
        result
    })
}

/// The next phase, as the workers see it.
#[derive(Clone)]
struct Order {
    phase: Phase,
    shared: Arc<Shared>,
}

/// What one worker says at the end of a phase.
type Word = Result<Tally>;

struct Crew<'a> {
    job: &'a Job<'a>,
    barrier: &'a Barrier,
    order: &'a Mutex<Option<Order>>,
    receiver: &'a Receiver<Word>,
    workers: usize,
}

/// The phases in their order.
fn conduct(crew: &Crew<'_>, events: &mut dyn Events) -> Result<Measured> {
    let (job, setup) = (crew.job, crew.job.setup);
    let pid = job.subject.pid().unwrap_or_else(std::process::id);
    let mut loaded = None;
    if setup.load {
        events.begins(Phase::Load, None, pid)?;
        let ended = crew.run(Phase::Load, None, None, None)?;
        events.ended(Phase::Load, pid)?;
        loaded = Some(ended);
    }
    if !setup.warmup.is_zero() {
        events.begins(Phase::Warmup, Some(setup.warmup), pid)?;
        let warmed = crew.run(Phase::Warmup, Some(setup.warmup), None, None)?;
        events.ended(Phase::Warmup, pid)?;
        if warmed.tally.broken() > 0 {
            return Err(broken(&warmed.tally).context("during the warm-up"));
        }
    }
    job.subject.settle();
    events.begins(Phase::Measured, Some(setup.duration), pid)?;
    let before = Edge::read(job.subject);
    let mut lines = Lines::default();
    let ended = crew.run(
        Phase::Measured,
        Some(setup.duration),
        setup.operations,
        Some(&mut lines),
    )?;
    let after = Edge::read(job.subject);
    events.ended(Phase::Measured, pid)?;
    if ended.tally.completed() + ended.tally.broken() == 0 {
        return Err(nothing_measured(ended.cause));
    }
    Ok(figures::measured(
        job, loaded, ended, &before, &after, lines,
    ))
}

/// A point without an operation is no result of 0 operations a second.
fn nothing_measured(cause: Cause) -> anyhow::Error {
    match cause {
        Cause::Source => anyhow!(
            "nothing was measured: the workload had ended before; shorten `plan.warmup`, or give it more operations"
        ),
        _ => anyhow!("nothing was measured: no operation fell into the measured part"),
    }
}

impl Crew<'_> {
    /// One phase: lets the workers go, watches, and gathers what they bring.
    fn run(
        &self,
        phase: Phase,
        limit: Option<Duration>,
        operations: Option<u64>,
        lines: Option<&mut Lines>,
    ) -> Result<Ended> {
        let shared = Arc::new(Shared::new(self.workers, limit, operations));
        *self
            .order
            .lock()
            .expect("no thread panics holding the order") = Some(Order {
            phase,
            shared: shared.clone(),
        });
        self.barrier.wait();
        let mut watch = Watch::new(self.job.subject, &shared, lines, limit);
        let (mut tally, mut error, mut left) = (Tally::default(), None, self.workers);
        let mut elapsed = Duration::ZERO;
        while left > 0 {
            match self.receiver.recv_timeout(watch.wait()) {
                Ok(word) => {
                    left -= 1;
                    elapsed = shared.zero.elapsed();
                    match word {
                        Ok(part) => tally.merge(part),
                        // What the subject's own process has to say explains more than a closed socket.
                        Err(why) => error = error.or(Some(self.cause_of_death(why))),
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(why) = watch.look() {
                        shared.end(Cause::Failure);
                        error = error.or(Some(why));
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        if let Some(error) = error {
            return Err(error);
        }
        shared.end(Cause::Source);
        Ok(Ended {
            tally,
            cause: shared.cause(),
            elapsed,
            windows: watch.rates,
        })
    }

    fn cause_of_death(&self, why: anyhow::Error) -> anyhow::Error {
        // A server that has just died may need a moment to be seen dead.
        for _ in 0..10 {
            if let Err(death) = self.job.subject.health() {
                return death.context(format!("{why:#}"));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        why
    }
}

/// What failed, in one line.
pub fn broken(tally: &Tally) -> anyhow::Error {
    use crate::subject::Answer;
    let mut said: Vec<String> = tally
        .failures
        .iter()
        .take(3)
        .map(|(why, count)| format!("{count} x {why}"))
        .collect();
    let wrong = tally.answered(Answer::Wrong);
    if wrong > 0 {
        said.push(format!("{wrong} hits with another value than the key's"));
    }
    let unanswered = tally.answered(Answer::Unanswered);
    if unanswered > 0 {
        said.push(format!("{unanswered} operations without an answer"));
    }
    anyhow!("{} operations failed: {}", tally.broken(), said.join("; "))
}

/// A worker's thread: its door to the subject, then one phase after the other.
fn work(
    job: &Job<'_>,
    id: usize,
    barrier: &Barrier,
    order: &Mutex<Option<Order>>,
    sender: &Sender<Word>,
) {
    let mut door = job
        .subject
        .worker(id)
        .with_context(|| format!("worker {id} cannot begin"));
    let mut source = None;
    loop {
        barrier.wait();
        let now = order
            .lock()
            .expect("no thread panics holding the order")
            .clone();
        let Some(Order { phase, shared }) = now else {
            return;
        };
        let word = match &mut door {
            Err(error) => Err(anyhow!("{error:#}")),
            Ok(door) => catch_unwind(AssertUnwindSafe(|| {
                one_phase(job, id, phase, &shared, door.as_mut(), &mut source)
            }))
            .unwrap_or_else(|panic| Err(anyhow!("worker {id} panicked: {}", words_of(&*panic)))),
        };
        if word.is_err() {
            shared.end(Cause::Failure);
        }
        if sender.send(word).is_err() {
            return;
        }
    }
}

fn words_of(panic: &(dyn std::any::Any + Send)) -> &str {
    panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("without words")
}

/// Warm-up and measured part draw from one source: what was inserted stays known.
fn one_phase(
    job: &Job<'_>,
    id: usize,
    phase: Phase,
    shared: &Shared,
    door: &mut dyn Worker,
    source: &mut Option<Box<dyn Source>>,
) -> Word {
    let workers = shared.progress.len();
    if phase == Phase::Load {
        let Some(mut load) = job.workload.load(id, workers)? else {
            return Ok(Tally::default());
        };
        let mut feed = WorkerFeed::new(load.as_mut(), shared, id, None);
        door.drive(&mut feed)?;
        return Ok(feed.tally);
    }
    let source = match source {
        Some(source) => source,
        None => source.insert(job.workload.worker(id, workers)?),
    };
    let timetable = match (job.mode, job.setup.rate) {
        (Loop::Open, Some(rate)) => {
            let seed = job.seed ^ phase as u64;
            Some(Timetable::new(rate, job.setup.arrivals, id, workers, seed))
        }
        _ => None,
    };
    let mut feed = WorkerFeed::new(source.as_mut(), shared, id, timetable);
    door.drive(&mut feed)?;
    Ok(feed.tally)
}

/// Looks at a phase while it runs: rates, hits, memory, the subject's counters, its health.
struct Watch<'a> {
    subject: &'a dyn Subject,
    shared: &'a Shared,
    lines: Option<&'a mut Lines>,
    tick: Duration,
    next: Instant,
    last: (f64, u64, u64, u64),
    /// Operations a second of each tick.
    rates: Vec<f64>,
}

impl<'a> Watch<'a> {
    fn new(
        subject: &'a dyn Subject,
        shared: &'a Shared,
        lines: Option<&'a mut Lines>,
        limit: Option<Duration>,
    ) -> Self {
        let tick = (limit.unwrap_or(TICK_MAX * 20) / 20).clamp(TICK_MIN, TICK_MAX);
        Watch {
            subject,
            shared,
            lines,
            tick,
            next: shared.zero + tick,
            last: (0.0, 0, 0, 0),
            rates: Vec::new(),
        }
    }

    fn wait(&self) -> Duration {
        self.next.saturating_duration_since(Instant::now())
    }

    fn look(&mut self) -> Result<()> {
        self.next += self.tick;
        self.subject.health()?;
        let Some(lines) = self.lines.as_deref_mut() else {
            return Ok(());
        };
        let seconds = self.shared.zero.elapsed().as_secs_f64();
        let (ops, hits, lookups) = self.shared.so_far();
        let (seconds_before, ops_before, hits_before, lookups_before) = self.last;
        self.last = (seconds, ops, hits, lookups);
        let rate = (ops - ops_before) as f64 / (seconds - seconds_before).max(1e-9);
        if self.rates.len() < SERIES_POINTS_MAX {
            self.rates.push(rate);
        }
        lines.push("ops_per_s", seconds, rate, SERIES_POINTS_MAX);
        let looked_up = lookups.saturating_sub(lookups_before);
        if looked_up > 0 {
            let ratio = hits.saturating_sub(hits_before) as f64 / looked_up as f64;
            lines.push("hit_ratio", seconds, ratio, SERIES_POINTS_MAX);
        }
        let pid = self.subject.pid().unwrap_or_else(std::process::id);
        if let Some(bytes) = resident_bytes(pid) {
            lines.push("rss_bytes", seconds, bytes as f64, SERIES_POINTS_MAX);
        }
        for (name, value) in self.subject.counters() {
            lines.push(&name, seconds, value, COUNTER_POINTS_MAX);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
