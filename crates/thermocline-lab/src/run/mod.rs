//! Taking the points of an experiment, one after the other, whatever becomes of each.
//!
//! What must hold: the file holds every point taken, in the order taken, and is synced after each; a run that was
//! killed goes on at the next point; an arm that fails is recorded and the run goes on; machine knobs are put back
//! before the next point.

pub mod around;
pub mod child;
pub mod clock;
pub mod event;
pub mod file;
pub mod hooks;
pub mod looks;
pub mod progress;
pub mod take;
pub mod verbs;

pub use hooks::{Hooks, NoHooks, PointContext};

use crate::experiment::{Experiment, Resolved};
use crate::point::{Line, Planned, PointLine, Results, RunLine, Status, SCHEMA};
use crate::settings::Table;
use crate::subject::Works;
use anyhow::{bail, Context, Result};
use around::Around;
use child::Outcome;
use file::PointsFile;
use progress::Progress;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;
use take::Assignment;

/// Where points are taken.
#[derive(Clone, Debug)]
pub enum Place {
    /// Each in a process of its own, of this binary.
    Child(PathBuf),
    /// In this process: for tests of the runner.
    Here,
}

/// How a run ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    pub ok: usize,
    pub failed: usize,
    pub refused: usize,
    pub did_not_complete: usize,
    /// Points that were planned and not taken.
    pub left: usize,
    /// The user ended it.
    pub interrupted: bool,
}

impl Summary {
    fn count(&mut self, status: Status) {
        match status {
            Status::Ok => self.ok += 1,
            Status::Failed => self.failed += 1,
            Status::Refused => self.refused += 1,
            Status::DidNotComplete => self.did_not_complete += 1,
        }
    }

    /// Points that are no results.
    pub fn troubles(&self) -> u64 {
        (self.failed + self.refused + self.did_not_complete) as u64
    }
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} points", self.ok)?;
        for (count, what) in [
            (self.failed, "failed"),
            (self.refused, "refused"),
            (self.did_not_complete, "did not complete"),
            (self.left, "not taken"),
        ] {
            if count > 0 {
                write!(f, ", {count} {what}")?;
            }
        }
        Ok(())
    }
}

/// Begins a run of `experiment` in `dir`.
pub fn run(
    experiment: &Experiment,
    dir: &Path,
    place: &Place,
    hooks: &mut dyn Hooks,
    silent: bool,
) -> Result<Summary> {
    let run = RunLine {
        schema: SCHEMA,
        experiment: experiment.name.clone(),
        experiment_text: experiment.text.clone(),
        experiment_sha256: sha256(&experiment.text),
        seed: experiment.plan.seed,
        planned: experiment.points()?,
        started: clock::stamp(),
        thermolab_version: env!("CARGO_PKG_VERSION").into(),
    };
    let file = PointsFile::create(dir, &run)?;
    let results = Results {
        run,
        ..Results::default()
    };
    Runner::new(experiment, dir, place, hooks, file, results, silent).finish()
}

/// Goes on with the run in `dir`, from the file alone.
pub fn resume(dir: &Path, place: &Place, hooks: &mut dyn Hooks, silent: bool) -> Result<Summary> {
    let (file, results) = PointsFile::open(dir)?;
    if let Some(note) = results.torn_note() {
        eprintln!("thermolab: {note}");
    }
    let run = &results.run;
    if sha256(&run.experiment_text) != run.experiment_sha256 {
        bail!("the experiment's text in the file is not the one that was run: its hash differs");
    }
    let experiment = Experiment::parse(&run.experiment, &run.experiment_text)
        .context("the experiment in the file cannot be run by this version")?;
    Runner::new(&experiment, dir, place, hooks, file, results, silent).finish()
}

/// SHA-256 in hexadecimal digits.
pub fn sha256(text: &str) -> String {
    Sha256::digest(text.as_bytes())
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

struct Runner<'a> {
    experiment: &'a Experiment,
    place: &'a Place,
    hooks: &'a mut dyn Hooks,
    file: PointsFile,
    results: Results,
    progress: Progress,
    scratch: PathBuf,
}

impl<'a> Runner<'a> {
    #[allow(clippy::too_many_arguments)]
    fn new(
        experiment: &'a Experiment,
        dir: &Path,
        place: &'a Place,
        hooks: &'a mut dyn Hooks,
        file: PointsFile,
        results: Results,
        silent: bool,
    ) -> Self {
        let progress = if silent {
            Progress::silent()
        } else {
            let (total, done) = (results.run.planned.len(), results.points.len());
            Progress::new(total, done, expected(experiment))
        };
        Runner {
            experiment,
            place,
            hooks,
            file,
            results,
            progress,
            // Beside the results would be on their disk; sockets want short names.
            scratch: std::env::temp_dir().join(format!(
                "thermolab-{}-{}",
                std::process::id(),
                &sha256(&dir.to_string_lossy())[..8]
            )),
        }
    }

    fn finish(mut self) -> Result<Summary> {
        let taken: BTreeSet<usize> = self
            .results
            .points
            .iter()
            .map(|point| point.index)
            .collect();
        let planned = self.results.run.planned.clone();
        let mut interrupted = false;
        for point in planned.iter().filter(|point| !taken.contains(&point.index)) {
            if self.results.stopped.is_some() {
                break;
            }
            if self.hooks.is_interrupted() || !self.one(point)? {
                interrupted = true;
                break;
            }
            self.look()?;
        }
        self.progress.finish();
        // Empty but for what a killed child left.
        let _ = std::fs::remove_dir_all(&self.scratch);
        let mut summary = Summary {
            left: planned.len() - self.results.points.len(),
            interrupted,
            ..Summary::default()
        };
        for point in &self.results.points {
            summary.count(point.status);
        }
        Ok(summary)
    }

    /// Takes one point and writes it down. False: interrupted, nothing is written.
    fn one(&mut self, planned: &Planned) -> Result<bool> {
        self.progress.point_begins(&planned.arm);
        let resolved = self.experiment.resolve(&planned.params)?;
        let settings = settings_of(&resolved);
        let mut assignment = Assignment {
            experiment: self.results.run.experiment.clone(),
            text: self.results.run.experiment_text.clone(),
            planned: planned.clone(),
            scratch: self.scratch.join(planned.index.to_string()),
            members: Vec::new(),
        };
        let load_limit = Duration::from_secs(self.experiment.plan.load_seconds_max);
        let mut around = Around::new(
            self.hooks,
            &mut self.progress,
            planned,
            &resolved.machine,
            &settings,
            load_limit,
        );
        let context = around.context();
        let mut point = match around.hooks.before_point(&context) {
            Err(error) => child::lost(&assignment, Status::Refused, format!("{error:#}")),
            Ok(()) => {
                assignment.members = around.hooks.members();
                match take_in(self.place, &resolved, &assignment, &mut around) {
                    Some(point) => point,
                    None => {
                        around.hooks.after_point();
                        return Ok(false);
                    }
                }
            }
        };
        let restored = around.hooks.after_point();
        if around.hooks.is_interrupted() {
            return Ok(false);
        }
        let environment = around.complete(&mut point);
        point.warnings.extend(restored);
        if let Some(environment) = environment {
            let hash = &environment.hash;
            if !self
                .results
                .environments
                .iter()
                .any(|known| known.hash == *hash)
            {
                self.file.append(&Line::Environment(environment.clone()))?;
                self.results.environments.push(environment);
            }
        }
        self.file.append(&Line::Point(point.clone()))?;
        self.progress.point_ended(&point);
        // Time lines and histograms are on disk; the figures are enough to go on.
        point.series.clear();
        point.histograms.clear();
        self.results.points.push(point);
        Ok(true)
    }

    /// A group-sequential plan's look, when one is due.
    fn look(&mut self) -> Result<()> {
        let Some(stopped) = looks::stop(self.experiment, &self.results.points)? else {
            return Ok(());
        };
        self.progress.note(&stopped.reason);
        self.file.append(&Line::Stopped(stopped.clone()))?;
        self.results.stopped = Some(stopped);
        Ok(())
    }
}

/// `None`: interrupted.
fn take_in(
    place: &Place,
    resolved: &Resolved,
    assignment: &Assignment,
    around: &mut Around<'_>,
) -> Option<PointLine> {
    let recipe = resolved.recipe().map(|(recipe, ..)| recipe).ok();
    let own_process = recipe
        .as_ref()
        .is_some_and(|recipe| take::wants_a_process(recipe.as_ref()));
    let works_there = recipe.is_some_and(|recipe| recipe.works() == Works::Here);
    let joins = match works_there {
        true => assignment.members.as_slice(),
        false => &[],
    };
    match place {
        Place::Child(binary) if own_process => {
            match child::in_child(binary, assignment, joins, around) {
                Ok(Outcome::Taken(point)) => Some(*point),
                Ok(Outcome::Interrupted) => None,
                Err(error) => {
                    let text = format!("{error:#}");
                    let status = if text.starts_with("no end ") {
                        Status::DidNotComplete
                    } else {
                        Status::Failed
                    };
                    // The child had no time to do it.
                    let _ = std::fs::remove_dir_all(&assignment.scratch);
                    Some(child::lost(assignment, status, text))
                }
            }
        }
        _ => Some(take::take(assignment, around)),
    }
}

/// Every setting of a point by its full name.
fn settings_of(resolved: &Resolved) -> Table {
    let sections = [
        ("subject", &resolved.subject),
        ("workload", &resolved.workload),
        ("machine", &resolved.machine),
    ];
    let mut all = Table::new();
    for (section, table) in sections {
        for (key, value) in table {
            all.insert(format!("{section}.{key}"), value.clone());
        }
    }
    let setup = &resolved.setup;
    all.insert("plan.workers".into(), setup.workers().into());
    all.insert("plan.load".into(), setup.load.into());
    all.insert(
        "plan.warmup_seconds".into(),
        setup.warmup.as_secs_f64().into(),
    );
    all.insert(
        "plan.duration_seconds".into(),
        setup.duration.as_secs_f64().into(),
    );
    all.insert("plan.rate".into(), setup.rate.into());
    all.insert("plan.operations".into(), setup.operations.into());
    all
}

/// What a point will take, before any was taken.
pub fn expected(experiment: &Experiment) -> Duration {
    let mut sum = Duration::ZERO;
    for arm in &experiment.arms {
        if let Ok(resolved) = experiment.resolve(&arm.params) {
            sum += resolved.setup.warmup + resolved.setup.duration + Duration::from_secs(1);
        }
    }
    sum / experiment.arms.len().max(1) as u32
}

#[cfg(test)]
mod tests;
