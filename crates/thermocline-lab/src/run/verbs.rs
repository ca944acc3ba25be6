//! The verbs `run`, `resume`, `check` and `list`: command lines to calls.

use super::{clock, expected, progress, resume, run, Hooks, Place, Summary};
use crate::environment::{self, About};
use crate::experiment::{lint, Experiment};
use crate::export::{mismatches, notes, Bundle};
use crate::point::Planned;
use crate::root::Root;
use anyhow::{bail, Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};

/// Take the points of an experiment
#[derive(Args, Clone, Debug)]
pub struct RunArgs {
    /// experiments/NAME.toml, or a file made by `thermolab export`
    pub file: PathBuf,
    /// Where the results go [default: results/NAME/DATE-TIME]
    #[arg(long)]
    pub out: Option<PathBuf>,
    /// Print the plan and what it would change on this machine; take nothing
    #[arg(long)]
    pub dry_run: bool,
}

/// Go on with a run that was interrupted or killed
#[derive(Args, Clone, Debug)]
pub struct ResumeArgs {
    /// The run's directory
    pub dir: PathBuf,
}

/// Check experiment files, and warn of what would mislead
#[derive(Args, Clone, Debug)]
pub struct CheckArgs {
    #[arg(required = true)]
    pub files: Vec<PathBuf>,
    /// Warnings are errors
    #[arg(long)]
    pub strict: bool,
}

/// List experiments and the runs there are of each
#[derive(Args, Clone, Debug)]
pub struct ListArgs {
    /// Where experiments are
    #[arg(default_value = "experiments")]
    pub dir: PathBuf,
    /// Where results are
    #[arg(long, default_value = "results")]
    pub results: PathBuf,
}

fn here() -> Result<Place> {
    let binary = std::env::current_exe().context("cannot find this binary to start children")?;
    Ok(Place::Child(binary))
}

/// An experiment's file, or an exported one: then says what differs here, and needs the files it names beside us.
fn read(file: &Path) -> Result<Experiment> {
    if file.extension().is_none_or(|extension| extension != "json") {
        return Experiment::read(file);
    }
    let bundle = Bundle::read(file)?;
    let here = environment::record(&Root::live(), &About::default());
    eprint!("{}", notes(&bundle, &mismatches(&bundle.must_match, &here)));
    if let Some(path) = bundle.files_that_differ(Path::new(".")).first() {
        bail!(
            "{}: it names `{path}`, which is not here as it was there: thermolab import {} --into DIR, and run it there",
            file.display(),
            file.display()
        );
    }
    Experiment::parse(&bundle.experiment, &bundle.experiment_text)
        .with_context(|| file.display().to_string())
}

/// Runs; returns the number of points that are no results.
pub fn run_verb(args: &RunArgs, hooks: &mut dyn Hooks) -> Result<u64> {
    let experiment = read(&args.file)?;
    for warning in lint::warnings(&experiment)? {
        eprintln!("thermolab: warning: {warning}");
    }
    let points = experiment.points()?;
    let time = expected(&experiment) * points.len() as u32;
    if args.dry_run {
        return tell_plan(&experiment, &points, hooks).map(|()| 0);
    }
    let dir = args.out.clone().unwrap_or_else(|| {
        PathBuf::from("results")
            .join(&experiment.name)
            .join(clock::stamp_for_a_name())
    });
    eprintln!(
        "thermolab: {} points into {}, about {} and the time loading takes",
        points.len(),
        dir.display(),
        progress::show(time)
    );
    let summary = run(&experiment, &dir, &here()?, hooks, false)?;
    Ok(tell(&summary, &dir))
}

fn tell_plan(experiment: &Experiment, points: &[Planned], hooks: &dyn Hooks) -> Result<()> {
    println!("{}", experiment.question);
    for point in points {
        println!("{:4} block {:3} {}", point.index, point.block, point.arm);
    }
    for arm in &experiment.arms {
        match hooks.foretold(&experiment.resolve(&arm.params)?.machine) {
            Ok(changes) => changes
                .iter()
                .for_each(|change| println!("would change for {}: {change}", arm.name)),
            Err(why) => println!("would be refused: {}: {why:#}", arm.name),
        }
    }
    let time = expected(experiment) * points.len() as u32;
    println!("about {} and the time loading takes", progress::show(time));
    Ok(())
}

pub fn resume_verb(args: &ResumeArgs, hooks: &mut dyn Hooks) -> Result<u64> {
    let summary = resume(&args.dir, &here()?, hooks, false)?;
    Ok(tell(&summary, &args.dir))
}

fn tell(summary: &Summary, dir: &Path) -> u64 {
    eprintln!("thermolab: {summary}: {}", dir.display());
    if summary.interrupted {
        eprintln!("thermolab: go on with: thermolab resume {}", dir.display());
    }
    summary.troubles() + u64::from(summary.interrupted)
}

/// Checks; an error in one file does not hide those of the others. Returns how many files are not right.
pub fn check_verb(args: &CheckArgs) -> Result<u64> {
    let mut wrong = 0;
    for file in &args.files {
        let checked = read(file).and_then(|experiment| {
            let warnings = lint::warnings(&experiment)?;
            Ok((experiment, warnings))
        });
        match checked {
            Ok((experiment, warnings)) => {
                for warning in &warnings {
                    println!("{}: warning: {warning}", file.display());
                }
                let points = experiment.points()?.len();
                println!(
                    "{}: {} arms, {points} points, {} comparisons, about {}; {} warnings",
                    file.display(),
                    experiment.arms.len(),
                    experiment
                        .comparisons
                        .iter()
                        .map(|c| c.arms.len())
                        .sum::<usize>(),
                    progress::show(expected(&experiment) * points as u32),
                    warnings.len()
                );
                wrong += u64::from(args.strict && !warnings.is_empty());
            }
            Err(error) => {
                println!("{error:#}");
                wrong += 1;
            }
        }
    }
    Ok(wrong)
}

/// Lists.
pub fn list_verb(args: &ListArgs) -> Result<u64> {
    let entries = std::fs::read_dir(&args.dir)
        .with_context(|| format!("cannot read {}", args.dir.display()))?;
    let mut files: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "toml")
        })
        .collect();
    files.sort();
    for file in files {
        match Experiment::read(&file) {
            Ok(experiment) => {
                println!("{}: {}", experiment.name, experiment.question.trim());
                for run in runs(&args.results.join(&experiment.name)) {
                    println!("    {run}");
                }
            }
            Err(error) => println!("{error:#}"),
        }
    }
    Ok(0)
}

/// One line for each run below `dir`.
fn runs(dir: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return Vec::new();
    };
    let mut lines: Vec<String> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.join(crate::point::POINTS_FILE).is_file())
        .map(|path| match crate::point::Results::read(&path) {
            Ok(results) => format!(
                "{}: {} of {} points, {}",
                path.display(),
                results.points.len(),
                results.run.planned.len(),
                results.run.started
            ),
            Err(error) => format!("{error:#}"),
        })
        .collect();
    lines.sort();
    lines
}
