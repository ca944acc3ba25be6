//! `thermolab replay-suite`: every trace of a folder at every size, by every policy and engine asked for. Each
//! point is a process of its own (its memory is its own), as many at a time as there are cores.

use super::acceptance;
use super::curve_check;
use super::options::HowOptions;
use super::outcome::Outcome;
use super::table;
use super::Sizes;
use crate::engines::Arm;
use crate::trace::Origin;
use anyhow::{bail, Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use thermocline::{Objective, ReclaimPolicy};

/// Replay all traces of a folder at several sizes; one JSON object a line, then the table
#[derive(Args, Clone, Debug)]
pub struct SuiteOptions {
    /// The folder; files whose format is not known are named and left out
    pub dir: PathBuf,
    /// Cache sizes, percent of the trace's keys or bytes
    #[arg(long, value_delimiter = ',', default_values_t = [0.1, 1.0, 5.0, 10.0, 20.0, 40.0])]
    pub percents: Vec<f64>,
    /// Our policies, separated by commas
    #[arg(long, value_delimiter = ',', default_value = "gen-duel")]
    pub policies: Vec<ReclaimPolicy>,
    /// Engines, separated by commas
    #[arg(long, value_enum, value_delimiter = ',', default_value = "thermocline")]
    pub engines: Vec<Arm>,
    #[command(flatten)]
    pub how: HowOptions,
    /// Synthetic traces to add, separated by commas: syn:loop
    #[arg(long, value_delimiter = ',')]
    pub add: Vec<Origin>,
    /// Points at a time [default: one a core]
    #[arg(long)]
    pub jobs: Option<usize>,
    /// The policy's published figures (CSV): runs what its acceptance list needs and says what passes
    #[arg(long)]
    pub targets: Option<PathBuf>,
    /// Miss ratios of other policies (CSV): adds the regret against the best of them
    #[arg(long)]
    pub baselines: Option<PathBuf>,
    /// Print points as JSON, one a line, before the table
    #[arg(long)]
    pub json: bool,
    /// Run nothing: tables and verdicts of points taken before (files of --json's lines, separated by commas)
    #[arg(long, value_delimiter = ',')]
    pub taken: Vec<PathBuf>,
}

/// One point to be run.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    pub trace: Origin,
    pub percent: f64,
    pub sizes: Sizes,
    pub segments: u32,
    pub policy: ReclaimPolicy,
    pub objective: Objective,
    pub engine: Arm,
    pub overwrite_hits: f64,
}

/// Runs the suite and prints what came of it. The number of acceptance items that fail.
pub fn run(options: &SuiteOptions) -> Result<u64> {
    options.how.check()?;
    let targets = match &options.targets {
        Some(path) => Some(acceptance::Targets::read(path)?),
        None => None,
    };
    let baselines = match &options.baselines {
        Some(path) => Some(acceptance::Baselines::read(path)?),
        None => None,
    };
    let outcomes = match options.taken.is_empty() {
        false => taken(&options.taken)?,
        true => {
            let traces = traces(options)?;
            let points = match &targets {
                Some(targets) => targets.points(&traces),
                None => plain_points(options, &traces),
            };
            run_all(options, &points)?
        }
    };
    print!("{}", table::of(&outcomes));
    print!("{}", curve_check::report(&curve_check::pairs(&outcomes)));
    if let Some(baselines) = &baselines {
        print!("{}", baselines.report(&outcomes));
    }
    let Some(targets) = &targets else {
        return Ok(0);
    };
    let verdicts = acceptance::judge(targets, &outcomes);
    print!("{}", acceptance::report(&verdicts));
    Ok(verdicts
        .iter()
        .filter(|verdict| !verdict.passes(2.0))
        .count() as u64)
}

/// Outcomes of earlier runs; what is no JSON object (the tables after them) is passed over.
fn taken(files: &[PathBuf]) -> Result<Vec<Outcome>> {
    let mut outcomes = Vec::new();
    for file in files {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        for (number, line) in text.lines().enumerate() {
            if line.starts_with('{') {
                let outcome = serde_json::from_str(line);
                outcomes.push(outcome.with_context(|| format!("{name}, line {}", number + 1))?);
            }
        }
    }
    if outcomes.is_empty() {
        bail!("--taken: no outcomes in these files");
    }
    // Runs of single traces bring the synthetic points again and again.
    let mut seen = std::collections::HashSet::new();
    outcomes.retain(|outcome: &Outcome| seen.insert(outcome.point()));
    Ok(outcomes)
}

fn plain_points(options: &SuiteOptions, traces: &[Origin]) -> Vec<Point> {
    let mut points = Vec::new();
    let how = &options.how;
    let unit = if how.unit_size {
        Sizes::Unit
    } else {
        Sizes::Real
    };
    for trace in traces {
        for &percent in &options.percents {
            for &engine in &options.engines {
                let policies = match engine {
                    Arm::Thermocline => &options.policies[..],
                    _ => &options.policies[..1],
                };
                points.extend(policies.iter().map(|&policy| Point {
                    trace: trace.clone(),
                    percent,
                    sizes: how.sizes.unwrap_or(unit),
                    segments: how.segments,
                    policy,
                    objective: how.objective,
                    engine,
                    overwrite_hits: how.overwrite_hits,
                }));
            }
        }
    }
    points
}

/// The folder's traces by name, then those added.
fn traces(options: &SuiteOptions) -> Result<Vec<Origin>> {
    let dir = &options.dir;
    let entries =
        std::fs::read_dir(dir).with_context(|| format!("cannot read {}", dir.display()))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot read {}", dir.display()))?
            .path();
        if !path.is_file() {
            continue;
        }
        let origin = Origin::File(path.clone());
        match origin.open(None) {
            Ok(_) => found.push(origin),
            Err(error) => eprintln!("thermolab: left out: {error:#}"),
        }
    }
    found.sort_by_key(Origin::name);
    found.extend(options.add.iter().cloned());
    if found.is_empty() {
        bail!("{}: no trace there", dir.display());
    }
    Ok(found)
}

/// All points, in their order; a point that fails ends the suite with its message.
fn run_all(options: &SuiteOptions, points: &[Point]) -> Result<Vec<Outcome>> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options
        .jobs
        .unwrap_or(cores)
        .clamp(1, 256)
        .min(points.len().max(1));
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<Option<Result<Outcome>>>> =
        Mutex::new(points.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(point) = points.get(at) else { return };
                let outcome = in_child(options, point);
                if outcome.is_err() {
                    next.store(points.len(), Ordering::Relaxed);
                }
                let mut done = done.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
                if let (true, Ok(outcome)) = (options.json, &outcome) {
                    println!("{}", serde_json::to_string(outcome).unwrap_or_default());
                }
                done[at] = Some(outcome);
            });
        }
    });
    let done = done
        .into_inner()
        .unwrap_or_else(|poisoned| poisoned.into_inner());
    done.into_iter().flatten().collect()
}

/// The name of a choice on the command line.
fn flag(choice: &impl clap::ValueEnum) -> String {
    let value = choice.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_string())
}

fn in_child(options: &SuiteOptions, point: &Point) -> Result<Outcome> {
    let binary = std::env::current_exe().context("cannot find this binary to start children")?;
    let trace = match &point.trace {
        Origin::File(path) => path.as_os_str().to_owned(),
        Origin::Synthetic(recipe) => format!("syn:{}", recipe.name()).into(),
    };
    let mut command = Command::new(binary);
    command.arg("replay").arg("--trace").arg(&trace);
    command.arg(format!("--fraction={}", point.percent / 100.0));
    command.arg(format!("--sizes={}", flag(&point.sizes)));
    command.arg(format!("--segments={}", point.segments));
    command.arg(format!("--policy={}", point.policy));
    command.arg(format!("--objective={}", point.objective));
    command.arg(format!("--engine={}", flag(&point.engine)));
    command.arg(format!("--equal={}", flag(&options.how.equal)));
    command.arg(format!("--overwrite-hits={}", point.overwrite_hits));
    command.arg(format!("--threads={}", options.how.threads));
    command.arg(format!("--seed={}", options.how.seed));
    if let Some(floor) = options.how.fresh_floor {
        command.arg(format!("--fresh-floor={floor}"));
    }
    command.args(["--simulate-small", "--json"]);
    if options.how.simulate && point.engine == Arm::Thermocline {
        command.arg("--simulate");
    }
    let name = point.trace.name();
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start a child for {name}"))?;
    if !output.status.success() {
        bail!(
            "{name} at {} %: {}",
            point.percent,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    serde_json::from_slice(&output.stdout)
        .with_context(|| format!("{name}: the child printed no outcome"))
}
