//! What the runner does about the events of a point: hooks called, environment and deltas kept, time lines of the
//! machine, and word of how far it is.

use super::event::{Event, Listener};
use super::hooks::{Hooks, PointContext};
use super::progress::Progress;
use crate::measure::series::Lines;
use crate::measure::Phase;
use crate::point::{EnvironmentLine, PointLine, SERIES_POINTS_MAX};
use crate::settings::Table;
use anyhow::Result;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often the machine's own time lines get a value.
const SAMPLE_EVERY: Duration = Duration::from_secs(1);
/// A phase may outlast its limit by this much: the last operations, and a slow machine.
const GRACE: Duration = Duration::from_secs(60);

/// A point under way.
pub struct Around<'a> {
    pub hooks: &'a mut dyn Hooks,
    pub progress: &'a mut Progress,
    pub index: usize,
    pub block: usize,
    pub arm: &'a str,
    pub machine: &'a Table,
    pub settings: &'a Table,
    /// Longest a load may take.
    pub load_limit: Duration,
    pub environment: Option<EnvironmentLine>,
    deltas: BTreeMap<String, BTreeMap<String, f64>>,
    lines: Lines,
    phase: Option<(Phase, Instant, Duration)>,
    pid: u32,
    sampled: Instant,
}

impl<'a> Around<'a> {
    pub fn new(
        hooks: &'a mut dyn Hooks,
        progress: &'a mut Progress,
        planned: &'a crate::point::Planned,
        machine: &'a Table,
        settings: &'a Table,
        load_limit: Duration,
    ) -> Self {
        Around {
            hooks,
            progress,
            index: planned.index,
            block: planned.block,
            arm: &planned.arm,
            machine,
            settings,
            load_limit,
            environment: None,
            deltas: BTreeMap::new(),
            lines: Lines::default(),
            phase: None,
            pid: std::process::id(),
            sampled: Instant::now(),
        }
    }

    pub fn context(&self) -> PointContext<'a> {
        PointContext {
            index: self.index,
            block: self.block,
            arm: self.arm,
            machine: self.machine,
            settings: self.settings,
        }
    }

    /// Called several times a second while nothing is heard. An error: the phase is long over.
    pub fn tick(&mut self) -> Result<()> {
        self.progress
            .tick(self.phase.map(|(phase, since, _)| (phase, since.elapsed())));
        let Some((phase, since, limit)) = self.phase else {
            return Ok(());
        };
        if phase == Phase::Measured && self.sampled.elapsed() >= SAMPLE_EVERY {
            self.sampled = Instant::now();
            let seconds = since.elapsed().as_secs_f64();
            for (name, value) in self.hooks.sample(self.pid) {
                self.lines.push(&name, seconds, value, SERIES_POINTS_MAX);
            }
        }
        if since.elapsed() > limit + GRACE {
            anyhow::bail!(
                "no end {} s after the limit of {:.0} s ({phase:?})",
                GRACE.as_secs(),
                limit.as_secs_f64()
            );
        }
        Ok(())
    }

    /// Adds what the hooks brought.
    pub fn complete(self, point: &mut PointLine) -> Option<EnvironmentLine> {
        point.series.extend(self.lines.finish());
        for (group, values) in self.deltas {
            // What the subject counted itself stands nearer to the work.
            point.deltas.entry(group).or_insert(values);
        }
        if let Some(environment) = &self.environment {
            point.environment = environment.hash.clone();
        }
        self.environment
    }
}

impl Listener for Around<'_> {
    fn hear(&mut self, event: Event) -> Result<()> {
        match event {
            Event::Ready { pid, facts } => {
                let context = self.context();
                self.environment = Some(self.hooks.environment(&context, &facts, pid));
            }
            Event::Begins {
                phase,
                limit_seconds,
                pid,
            } => {
                let limit = limit_seconds
                    .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
                    .unwrap_or(self.load_limit);
                self.pid = pid;
                if phase == Phase::Measured {
                    self.hooks.measuring_begins(pid);
                }
                self.phase = Some((phase, Instant::now(), limit));
            }
            Event::Ended { phase, pid } => {
                self.phase = None;
                if phase == Phase::Measured {
                    self.deltas = self.hooks.measuring_ended(pid);
                }
            }
            Event::Taken(_) => {}
        }
        self.tick()
    }
}
