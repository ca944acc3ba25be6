//! `thermolab load`: loads any memcached or Redis server from one process and says what it cost.
//!
//! The story: check the flags, open the connections, write every key once, warm up, measure, count system
//! calls in a window of their own, report. What must hold is tested in `tests/load.rs`:
//! exact counts, failures apart and never rc 0, no hang when connections drop, latency from
//! the intended start, no burst at the start.

pub mod awaited;
pub mod connection;
pub mod driver;
pub mod options;
pub mod outcome;
pub mod pipe;
pub mod reply;
pub mod result;
pub mod server_cost;
pub mod source;
pub mod stream;
pub mod target;
pub mod turns;
pub mod wire;

pub use options::LoadOptions;
pub use result::LoadResult;

use crate::pace::{Budget, Timetable};
use crate::workload::Stream;
use anyhow::{bail, Context, Result};
use connection::Checks;
use driver::{Driver, Phase};
use outcome::Outcome;
use server_cost::{CpuWindow, SyscallWindow};
use source::PhaseOps;
use std::time::Duration;
use target::Target;
use wire::{Dialect, Encoder, Payload};

/// Requests in flight on a connection while keys are loaded, and their bytes at most.
const PRELOAD_PIPELINE: usize = 32;
const PRELOAD_BYTES_MAX: usize = 4 << 20;

/// The stream of each phase is drawn from its own seed, so that warming up is not rehearsing.
#[derive(Clone, Copy)]
enum Lane {
    Warmup = 1,
    Measured = 2,
    Syscalls = 3,
}

/// Runs the load and returns what was measured. `Err` means nothing could be measured.
pub fn run(options: &LoadOptions) -> Result<LoadResult> {
    let targets = options.check()?;
    let mut loader = Loader::open(options, &targets)?;
    let mut result = LoadResult::new(options, loader.dialect);
    if !options.no_preload {
        let outcome = loader.preload()?;
        result.preload(&outcome);
    }
    if !options.warmup.is_zero() {
        let budget = Budget::new(u64::MAX);
        let warmup = loader.mixed(Lane::Warmup, &budget, Some(options.warmup))?;
        result.add_failures("warm-up: ", &warmup);
    }
    let cpu = options.pid.map(CpuWindow::begin).transpose()?;
    let budget = Budget::new(options.requests.unwrap_or(u64::MAX));
    let mut outcome = loader.mixed(Lane::Measured, &budget, options.duration())?;
    let server_cpu_ns = cpu.and_then(CpuWindow::end_ns);
    if options.requests.is_some() && options.duration.is_none() {
        outcome.fail("not issued: no connection left", budget.left());
    }
    result.measured(options, &outcome, server_cpu_ns);
    if let (Some(count), Some(pid)) = (options.syscalls, options.pid) {
        if result.failures() == 0 {
            let window = SyscallWindow::begin(pid)?;
            let tool = window.tool();
            let counted = loader.mixed(Lane::Syscalls, &Budget::new(count), None)?;
            result.syscalls(tool, window.end()?, &counted);
        }
    }
    Ok(result)
}

/// Open connections and what they are to send.
struct Loader<'a> {
    options: &'a LoadOptions,
    dialect: Dialect,
    payload: Payload,
    drivers: Vec<Driver>,
}

impl<'a> Loader<'a> {
    fn open(options: &'a LoadOptions, targets: &[Target]) -> Result<Self> {
        let mut drivers = Vec::with_capacity(options.threads);
        for thread in 0..options.threads {
            let spare = usize::from(thread < options.connections % options.threads);
            let connections = options.connections / options.threads + spare;
            drivers.push(Driver::open(targets, connections)?);
        }
        Ok(Loader {
            options,
            dialect: options.dialect(targets[0].family),
            payload: Payload::new(options.value_size.max(), options.seed),
            drivers,
        })
    }

    fn preload(&mut self) -> Result<Outcome> {
        let mix = self.options.mix();
        let by_bytes = PRELOAD_BYTES_MAX / (self.options.value_size.max() as usize + 64);
        let pipeline = by_bytes.clamp(1, PRELOAD_PIPELINE);
        let budget = Budget::new(mix.keys);
        let source = |_: usize| PhaseOps::Preload(mix.clone());
        let outcome = self.phase(source, &budget, None, pipeline, None)?;
        if outcome.writes == 0 {
            let why = outcome.failed.keys().next().cloned().unwrap_or_default();
            bail!("no key could be loaded ({why}); check the server's memory and item size limits");
        }
        Ok(outcome)
    }

    fn mixed(
        &mut self,
        lane: Lane,
        budget: &Budget,
        deadline: Option<Duration>,
    ) -> Result<Outcome> {
        let mix = self.options.mix();
        let source = |thread: usize| {
            PhaseOps::Mix(Box::new(Stream::new(
                &mix,
                (lane as u64) << 32 | thread as u64,
            )))
        };
        let pipeline = self.options.pipeline;
        self.phase(source, budget, deadline, pipeline, self.options.rate)
    }

    fn phase(
        &mut self,
        source: impl Fn(usize) -> PhaseOps,
        budget: &Budget,
        deadline: Option<Duration>,
        pipeline: usize,
        rate: Option<f64>,
    ) -> Result<Outcome> {
        let options = self.options;
        let threads = self.drivers.len();
        let phase = |thread: usize| Phase {
            source: source(thread),
            budget,
            deadline,
            timetable: rate
                .map(|rate| Timetable::new(rate, options.arrivals, thread, threads, options.seed)),
            pipeline,
            checks: Checks {
                stamps: !options.no_verify,
                lengths: !options.no_verify,
                fill: options.fill,
            },
            encoder: Encoder {
                dialect: self.dialect,
                key_bytes: options.key_size,
                payload: &self.payload,
            },
            timeout: options.timeout,
        };
        let mut phases: Vec<_> = (0..threads).map(phase).collect();
        // One thread runs here: a loader of one thread shows as one in every tool.
        if threads == 1 {
            return self.drivers[0].run(phases.remove(0));
        }
        let outcomes: Vec<Result<Outcome>> = std::thread::scope(|scope| {
            let running: Vec<_> = self
                .drivers
                .iter_mut()
                .zip(phases)
                .map(|(driver, phase)| scope.spawn(move || driver.run(phase)))
                .collect();
            running
                .into_iter()
                .map(|thread| {
                    thread
                        .join()
                        .unwrap_or_else(|_| bail!("a loader thread panicked"))
                })
                .collect()
        });
        let mut all = Outcome::default();
        for outcome in outcomes {
            all.merge(outcome.context("a loader thread failed")?);
        }
        Ok(all)
    }
}
