//! Taking one point: the subject started, measured and stopped, in the process this runs in. Whatever goes wrong
//! becomes the point's status and reason, never the run's end.

use super::clock::{stamp, Clocks};
use super::event::{Event, Listener};
use crate::experiment::workloads::read_workload;
use crate::experiment::{Experiment, Resolved};
use crate::measure::{self, measure, Events, Job, Phase};
use crate::point::{Planned, PointLine, Status};
use crate::subject::{Recipe, StartContext, Subject};
use crate::workload::Workload;
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

/// Everything needed to take one point, wherever.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Assignment {
    pub experiment: String,
    pub text: String,
    pub planned: Planned,
    /// A directory of the point's own, made and removed by it.
    pub scratch: PathBuf,
    /// Files of the arm's cgroup, for what the subject starts.
    pub members: Vec<String>,
}

/// Takes the point.
pub fn take(assignment: &Assignment, listener: &mut dyn Listener) -> PointLine {
    let planned = &assignment.planned;
    let mut point = PointLine {
        index: planned.index,
        block: planned.block,
        arm: planned.arm.clone(),
        params: planned.params.clone(),
        started: stamp(),
        ..PointLine::default()
    };
    let clocks = Clocks::now();
    let result = std::fs::create_dir_all(&assignment.scratch)
        .with_context(|| format!("cannot make {}", assignment.scratch.display()))
        .and_then(|()| try_take(assignment, listener, &mut point));
    if let Err(error) = result {
        point.status = Status::Failed;
        point.reason = Some(format!("{error:#}"));
    }
    // Left behind it costs a few files in a temporary directory.
    let _ = std::fs::remove_dir_all(&assignment.scratch);
    point.warnings.extend(clocks.warnings_until(&Clocks::now()));
    point
}

fn try_take(
    assignment: &Assignment,
    listener: &mut dyn Listener,
    point: &mut PointLine,
) -> Result<()> {
    let experiment = Experiment::parse(&assignment.experiment, &assignment.text)?;
    let resolved = experiment.resolve(&assignment.planned.params)?;
    // The arms of a block are asked the same operations; blocks differ.
    let seed = experiment
        .plan
        .seed
        .wrapping_add(assignment.planned.block as u64);
    let (recipe, workload, mode) = resolved.recipe()?;
    let workload = match workload {
        Some(_) => Some(read_workload(resolved.workload.clone(), seed)?),
        None => None,
    };
    let context = context(&resolved, workload.as_deref(), seed, assignment);
    let subject = recipe
        .start(&context)
        .context("the subject does not start")?;
    let result =
        ready(subject.as_ref(), workload.as_deref(), listener, point).and_then(
            |()| match &workload {
                None => run_alone(subject.as_ref(), &resolved, listener, point),
                Some(workload) => {
                    let job = Job {
                        subject: subject.as_ref(),
                        workload: workload.as_ref(),
                        setup: &resolved.setup,
                        mode,
                        seed,
                        concurrency: recipe.concurrency(resolved.setup.workers()),
                    };
                    run_job(&job, listener, point)
                }
            },
        );
    let stopped = subject.stop();
    result?;
    if let Err(error) = stopped {
        point
            .warnings
            .push(format!("stopping the subject: {error:#}"));
    }
    Ok(())
}

fn context(
    resolved: &Resolved,
    workload: Option<&dyn Workload>,
    seed: u64,
    assignment: &Assignment,
) -> StartContext {
    let (items, item_bytes) = workload.map_or((1, 1.0), Workload::items_expected);
    StartContext {
        workers: resolved.setup.workers(),
        value_bytes_max: workload.map_or(0, Workload::value_bytes_max),
        items,
        item_bytes,
        is_stamped: workload.is_some_and(Workload::is_stamped),
        seed,
        scratch: assignment.scratch.clone(),
        members: assignment.members.clone(),
    }
}

fn ready(
    subject: &dyn Subject,
    workload: Option<&dyn Workload>,
    listener: &mut dyn Listener,
    point: &mut PointLine,
) -> Result<()> {
    let facts: BTreeMap<String, Value> = subject.facts();
    point.facts = facts.clone();
    let mut all = prefixed("subject", facts);
    if let Some(workload) = workload {
        all.extend(prefixed("workload", workload.describe()));
    }
    listener.hear(Event::Ready {
        pid: pid_of(subject),
        facts: all,
    })
}

fn prefixed(prefix: &str, facts: BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    facts
        .into_iter()
        .map(|(name, value)| (format!("{prefix}.{name}"), value))
        .collect()
}

fn pid_of(subject: &dyn Subject) -> u32 {
    subject.pid().unwrap_or_else(std::process::id)
}

/// A command: one phase, its own figures.
fn run_alone(
    subject: &dyn Subject,
    resolved: &Resolved,
    listener: &mut dyn Listener,
    point: &mut PointLine,
) -> Result<()> {
    let (limit, pid) = (resolved.setup.duration, pid_of(subject));
    let mut told = Told(listener);
    told.begins(Phase::Measured, Some(limit), pid)?;
    let alone = subject
        .run_alone(Some(limit))
        .context("this subject has neither workers nor work of its own")??;
    told.ended(Phase::Measured, pid)?;
    if matches!(alone.end.as_str(), "time limit" | "interrupted") {
        point.status = Status::DidNotComplete;
        point.reason = Some(format!("{} after {:.1} s", alone.end, alone.seconds));
    }
    point.end = alone.end;
    point.seconds = alone.seconds;
    point.metrics = alone.metrics;
    point.series = alone.series;
    point.deltas = alone.deltas;
    point.warnings.extend(alone.warnings);
    Ok(())
}

fn run_job(job: &Job<'_>, listener: &mut dyn Listener, point: &mut PointLine) -> Result<()> {
    let measured = measure(job, &mut Told(listener))?;
    if measured.tally.broken() > 0 {
        point.status = Status::Failed;
        point.reason = Some(measure::broken(&measured.tally).to_string());
    }
    point.end = measured.end;
    point.seconds = measured.seconds;
    point.metrics = measured.metrics;
    point.series = measured.series;
    point.histograms = measured.histograms;
    point.warnings.extend(measured.warnings);
    Ok(())
}

/// Phases as events.
struct Told<'a>(&'a mut dyn Listener);

impl Events for Told<'_> {
    fn begins(&mut self, phase: Phase, limit: Option<Duration>, pid: u32) -> Result<()> {
        self.0.hear(Event::Begins {
            phase,
            limit_seconds: limit.map(|limit| limit.as_secs_f64()),
            pid,
        })
    }

    fn ended(&mut self, phase: Phase, pid: u32) -> Result<()> {
        self.0.hear(Event::Ended { phase, pid })
    }
}

/// Whether a point is taken in a process of its own: commands are one already.
pub fn wants_a_process(recipe: &dyn Recipe) -> bool {
    !recipe.runs_alone()
}
