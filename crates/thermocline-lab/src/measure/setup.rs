//! How a point is measured: workers, phases, loop. Read from an experiment's `[plan]`.

use crate::pace::Arrivals;
use crate::settings::Settings;
use anyhow::{bail, Result};
use std::time::Duration;

/// The settings of one point's measuring.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Threads that drive the subject. 0: two, or what the machine has if that is less.
    pub workers: usize,
    /// Write what the workload says is there before anything else.
    pub load: bool,
    pub warmup: Duration,
    /// Length of the measured part.
    pub duration: Duration,
    /// Or so many operations in all, from one pool shared by all workers, if they come to an end sooner.
    pub operations: Option<u64>,
    /// Open loop: operations a second over all workers.
    pub rate: Option<f64>,
    pub arrivals: Arrivals,
    /// What was asked for; [`Setup::loop_for`] settles it.
    pub wanted: Option<Loop>,
}

/// Whether operations wait for one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// The next operation starts when one has ended.
    Closed,
    /// Operations start by a timetable, whatever became of those before.
    Open,
}

/// Longest phase, so that a slip in a unit is seen before it costs a day.
const PHASE_MAX: Duration = Duration::from_secs(24 * 3600);
const WORKERS_MAX: u64 = 1024;

impl Default for Setup {
    fn default() -> Self {
        Setup {
            workers: 0,
            load: true,
            warmup: Duration::from_secs(5),
            duration: Duration::from_secs(30),
            operations: None,
            rate: None,
            arrivals: Arrivals::Even,
            wanted: None,
        }
    }
}

impl Setup {
    /// Reads its keys; others stay for the caller.
    pub fn read(settings: &mut Settings) -> Result<Setup> {
        let usual = Setup::default();
        let setup = Setup {
            workers: match settings.count("workers")? {
                Some(0) => bail!("`{}` is at least 1", settings.name("workers")),
                Some(workers) if workers > WORKERS_MAX => {
                    bail!("`{}` is at most {WORKERS_MAX}", settings.name("workers"))
                }
                workers => workers.unwrap_or(0) as usize,
            },
            load: settings.truth("load")?.unwrap_or(usual.load),
            warmup: settings.duration("warmup")?.unwrap_or(usual.warmup),
            duration: settings.duration("duration")?.unwrap_or(usual.duration),
            operations: settings.count("operations")?,
            rate: settings.number("rate")?,
            arrivals: settings
                .choice(
                    "arrivals",
                    &[("even", Arrivals::Even), ("poisson", Arrivals::Poisson)],
                )?
                .unwrap_or(usual.arrivals),
            wanted: settings.choice("loop", &[("closed", Loop::Closed), ("open", Loop::Open)])?,
        };
        if setup.duration.is_zero() || setup.duration > PHASE_MAX || setup.warmup > PHASE_MAX {
            bail!(
                "`{}` lies above 0, and it and `{}` are at most 24 hours",
                settings.name("duration"),
                settings.name("warmup")
            );
        }
        if setup.operations == Some(0) {
            bail!("`{}` is at least 1", settings.name("operations"));
        }
        if setup.rate.is_some_and(|rate| rate <= 0.0) {
            bail!(
                "`{}` is a number of operations a second above 0",
                settings.name("rate")
            );
        }
        Ok(setup)
    }

    /// How many threads there will be.
    pub fn workers(&self) -> usize {
        match self.workers {
            0 => std::thread::available_parallelism()
                .map_or(1, usize::from)
                .min(2),
            workers => workers,
        }
    }

    /// The loop a subject is measured in: open for servers unless asked otherwise, and that needs a rate.
    pub fn loop_for(&self, is_server: bool) -> Result<Loop> {
        match (self.wanted, self.rate) {
            (Some(Loop::Closed), Some(_)) => bail!(
                "`plan.loop` = \"closed\" and `plan.rate` exclude each other: a rate is kept in an open loop"
            ),
            (Some(Loop::Open), None) => {
                bail!("`plan.loop` = \"open\" needs `plan.rate`, operations a second")
            }
            (None, None) if is_server => bail!(
                "a server is measured in an open loop: give `plan.rate`, operations a second; \
                 or ask for `plan.loop` = \"closed\", whose latencies leave queueing out"
            ),
            (_, Some(_)) => Ok(Loop::Open),
            (_, None) => Ok(Loop::Closed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(values: serde_json::Value) -> Result<Setup> {
        Setup::read(&mut Settings::new(
            "plan",
            serde_json::from_value(values).unwrap(),
        ))
    }

    #[test]
    fn loops_follow_the_subject_and_what_is_asked() {
        let usual = read(json!({})).unwrap();
        assert_eq!(usual.loop_for(false).unwrap(), Loop::Closed);
        assert!(usual
            .loop_for(true)
            .unwrap_err()
            .to_string()
            .contains("plan.rate"));
        let closed = read(json!({ "loop": "closed" })).unwrap();
        assert_eq!(closed.loop_for(true).unwrap(), Loop::Closed);
        let rated = read(json!({ "rate": 1000 })).unwrap();
        assert_eq!(rated.loop_for(false).unwrap(), Loop::Open);
        assert!(read(json!({ "loop": "open" }))
            .unwrap()
            .loop_for(false)
            .is_err());
        let both = read(json!({ "loop": "closed", "rate": 5 })).unwrap();
        assert!(both.loop_for(true).is_err());
    }

    #[test]
    fn nonsense_is_refused_by_its_key() {
        for (values, key) in [
            (json!({ "workers": 0 }), "plan.workers"),
            (json!({ "duration": 0 }), "plan.duration"),
            (json!({ "warmup": "2000m" }), "plan.warmup"),
            (json!({ "operations": 0 }), "plan.operations"),
            (json!({ "rate": -1 }), "plan.rate"),
        ] {
            let error = read(values).unwrap_err().to_string();
            assert!(error.contains(key), "{error}");
        }
    }
}
