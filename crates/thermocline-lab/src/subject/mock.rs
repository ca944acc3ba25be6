//! A subject made of rules: how long an operation takes, how often it hits, when it fails. Tests of the runner
//! and of the statistics know the truth it was made with.

use super::recipe::{Recipe, StartContext};
use super::{Answer, Outcomes, Subject, Worker};
use crate::settings::Settings;
use crate::workload::{Batch, Random, UNSCHEDULED};
use anyhow::{bail, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The rules, as settings `latency`, `hit_ratio`, `fail_after`, `fail_start`, `wrong_after`.
#[derive(Clone, Debug)]
pub struct Mock {
    latency: Duration,
    hit_ratio: f64,
    /// Operations after which it dies, over all workers.
    fail_after: Option<u64>,
    /// Does not start at all.
    fail_start: bool,
    /// Operations after which every read is wrong.
    wrong_after: Option<u64>,
    is_server: bool,
}

impl Mock {
    pub fn read(settings: &mut Settings) -> Result<Self> {
        let mock = Mock {
            latency: settings.duration("latency")?.unwrap_or_default(),
            hit_ratio: settings.number("hit_ratio")?.unwrap_or(0.5),
            fail_after: settings.count("fail_after")?,
            fail_start: settings.truth("fail_start")?.unwrap_or(false),
            wrong_after: settings.count("wrong_after")?,
            is_server: settings.truth("is_server")?.unwrap_or(false),
        };
        if !(0.0..=1.0).contains(&mock.hit_ratio) {
            bail!("`{}` lies between 0 and 1", settings.name("hit_ratio"));
        }
        Ok(mock)
    }
}

impl Recipe for Mock {
    fn start(&self, context: &StartContext) -> Result<Box<dyn Subject>> {
        if self.fail_start {
            bail!("the mock was told not to start");
        }
        Ok(Box::new(MockSubject {
            rules: self.clone(),
            seed: context.seed,
            done: AtomicU64::new(0),
        }))
    }

    fn is_server(&self) -> bool {
        self.is_server
    }
}

struct MockSubject {
    rules: Mock,
    seed: u64,
    done: AtomicU64,
}

impl Subject for MockSubject {
    fn worker(&self, id: usize) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(MockWorker {
            subject: self,
            random: Random::lane(self.seed, id as u64),
        }))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let done = self.done.load(Ordering::Relaxed) as f64;
        [("mock_done_total".to_string(), done)].into()
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        [("engine".to_string(), Value::from("mock"))].into()
    }

    fn health(&self) -> Result<()> {
        match self.rules.fail_after {
            Some(after) if self.done.load(Ordering::Relaxed) >= after => {
                bail!("the mock died after {after} operations")
            }
            _ => Ok(()),
        }
    }

    fn stop(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct MockWorker<'a> {
    subject: &'a MockSubject,
    random: Random,
}

impl Worker for MockWorker<'_> {
    fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()> {
        let rules = &self.subject.rules;
        for (index, op) in batch.ops.iter().enumerate() {
            if op.intended_ns != UNSCHEDULED {
                let early_ns = op.intended_ns.saturating_sub(outcomes.now_ns());
                std::thread::sleep(Duration::from_nanos(early_ns));
            }
            let started_ns = outcomes.now_ns();
            if !rules.latency.is_zero() {
                std::thread::sleep(rules.latency);
            }
            let done = self.subject.done.fetch_add(1, Ordering::Relaxed);
            self.subject.health()?;
            let answer = if !op.kind.reads() {
                Answer::Stored
            } else if rules.wrong_after.is_some_and(|after| done >= after) {
                Answer::Wrong
            } else if self.random.unit() < rules.hit_ratio {
                Answer::Hit
            } else {
                Answer::Miss
            };
            let ended_ns = outcomes.now_ns();
            outcomes.set_timed(index, answer, started_ns, ended_ns);
        }
        Ok(())
    }
}
