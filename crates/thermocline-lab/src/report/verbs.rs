//! `thermolab report DIR` and `thermolab compare A B`: read, analyse, print, write beside.

use super::analysis::{self, Pair};
use super::cells::{cells, compare_settings, Cell};
use super::checks::{self, Finding};
use super::compose::{document, Parts};
use super::document::Document;
use super::pictures::pictures;
use super::plan::{Compare, Plan};
use super::{html, markdown, svg, terminal};
use crate::diff;
use crate::point::{Results, POINTS_FILE};
use anyhow::{bail, Context, Result};
use std::path::{Path, PathBuf};

/// Verdicts, figures and plots from the points of a run; writes report.md and report.html beside them
#[derive(clap::Args, Debug)]
pub struct ReportOptions {
    /// A run's directory (results/EXPERIMENT/RUN) or its points file
    dir: PathBuf,
    /// Write report.md and report.html here instead
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write each picture as an SVG file of its own, for a page of documentation
    #[arg(long, value_name = "DIR")]
    pictures: Option<PathBuf>,
    /// Print only, write nothing
    #[arg(long, conflicts_with_all = ["out", "pictures"])]
    print: bool,
}

/// Compares two runs arm by arm, the first being the baseline
#[derive(clap::Args, Debug)]
pub struct CompareOptions {
    /// The baseline run: directory or points file
    a: PathBuf,
    /// The run to be judged against it
    b: PathBuf,
    /// Compare this metric (default: those the experiment of B compares)
    #[arg(long)]
    metric: Option<String>,
    /// Write report.md and report.html here
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// What the terminal shows.
pub fn report(options: &ReportOptions) -> Result<String> {
    let results = read(&options.dir)?;
    let document = of_run(&results).with_context(|| options.dir.display().to_string())?;
    let mut out = terminal::render(&document);
    if !options.print {
        let beside = match options.dir.is_dir() {
            true => options.dir.clone(),
            false => options.dir.parent().unwrap_or(Path::new(".")).to_path_buf(),
        };
        let written = write(&document, options.out.as_deref().unwrap_or(&beside))?;
        out += &format!("\nwritten: {written}\n");
    }
    if let Some(directory) = &options.pictures {
        let written = write_files(directory, svg::files(&document))?;
        out += &format!("pictures: {written}\n");
    }
    Ok(out)
}

pub fn compare(options: &CompareOptions) -> Result<String> {
    let (a, b) = (read(&options.a)?, read(&options.b)?);
    let names = (name(&options.a), name(&options.b));
    let document = of_two(&a, &b, &names, options.metric.as_deref())?;
    let mut out = terminal::render(&document);
    if let Some(directory) = &options.out {
        out += &format!("\nwritten: {}\n", write(&document, directory)?);
    }
    Ok(out)
}

fn name(path: &Path) -> String {
    let directory = if path.is_dir() {
        Some(path)
    } else {
        path.parent()
    };
    let last = directory.and_then(Path::file_name).or(path.file_name());
    last.map_or("run".into(), |name| name.to_string_lossy().into_owned())
}

/// Reads a run; a directory of runs is answered with their names.
fn read(path: &Path) -> Result<Results> {
    if path.is_dir() && !path.join(POINTS_FILE).exists() {
        let mut runs: Vec<String> = std::fs::read_dir(path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .flatten()
            .filter(|entry| entry.path().join(POINTS_FILE).exists())
            .map(|entry| entry.path().display().to_string())
            .collect();
        runs.sort();
        match runs.is_empty() {
            true => bail!("{} holds no {POINTS_FILE}", path.display()),
            false => bail!(
                "{} holds several runs; name one: {}",
                path.display(),
                runs.join(", ")
            ),
        }
    }
    Results::read(path)
}

fn write(document: &Document, directory: &Path) -> Result<String> {
    let files = vec![
        ("report.md".to_string(), markdown::render(document)),
        ("report.html".to_string(), html::render(document)),
    ];
    write_files(directory, files)
}

/// Their paths.
fn write_files(directory: &Path, files: Vec<(String, String)>) -> Result<String> {
    std::fs::create_dir_all(directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let mut written = Vec::new();
    for (file, text) in files {
        let path = directory.join(&file);
        // Beside and renamed: a full disk leaves the old report, not half a new one.
        let partial = directory.join(format!(".{file}.partial"));
        std::fs::write(&partial, text)
            .and_then(|()| std::fs::rename(&partial, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        written.push(path.display().to_string());
    }
    Ok(written.join(", "))
}

/// The report of one run.
pub fn of_run(results: &Results) -> Result<Document> {
    let plan = Plan::read(&results.run.experiment_text)?;
    let cells = cells(results, &plan);
    let compares = analysis::declared(&plan, &cells);
    let (pairs, unpaired) = analysis::pairs(&compares, &cells);
    let metrics = metrics(&compares);
    let looks = plan.looks();
    Ok(document(Parts {
        title: results.run.experiment.clone(),
        question: plan.question.clone(),
        rows: analysis::rows(&pairs, looks),
        unpaired,
        findings: checks::findings(results, &cells, &metrics),
        figures: pictures(&cells, &metrics),
        sequential: looks,
        results,
        cells: &cells,
        also_shown: plan.own_figures(),
        metrics,
    }))
}

fn metrics(compares: &[Compare]) -> Vec<String> {
    let mut metrics: Vec<String> = Vec::new();
    for compare in compares {
        if !metrics.contains(&compare.metric) {
            metrics.push(compare.metric.clone());
        }
    }
    metrics
}

/// The report of run B against run A, the same arms at the same settings.
fn of_two(
    a: &Results,
    b: &Results,
    names: &(String, String),
    metric: Option<&str>,
) -> Result<Document> {
    let plan = Plan::read(&b.run.experiment_text).with_context(|| names.1.clone())?;
    let mut cells_a = cells(a, &plan);
    let mut cells_b = cells(b, &plan);
    let mut compares = analysis::declared(&plan, &cells_b);
    if let Some(metric) = metric {
        let known = compares.iter().find(|c| c.metric == metric).cloned();
        compares = vec![known.unwrap_or(Compare {
            metric: metric.to_string(),
            ..Compare::default()
        })];
    }
    compares.dedup_by(|x, y| x.metric == y.metric);
    let metrics = metrics(&compares);
    let (pairs, mut unpaired) = across(&compares, &cells_a, &cells_b, names);
    if pairs.is_empty() {
        bail!(
            "{} and {} have no arm in common at the same setting: nothing can be compared",
            names.0,
            names.1
        );
    }
    let rows = analysis::rows(&pairs, None);
    drop(pairs);
    unpaired.sort();
    unpaired.dedup();
    let mut findings = vec![Finding {
        grave: true,
        text: "The two runs were not interleaved: whatever changed on the machine between them counts as a difference \
               of the arms. Interleave them in one experiment to be sure."
            .into(),
    }];
    findings.extend(environment_findings(a, b, names)?);
    for (results, of, name) in [(a, &cells_a, &names.0), (b, &cells_b, &names.1)] {
        let own = checks::findings(results, of, &metrics).into_iter();
        findings.extend(own.map(|finding| Finding {
            text: format!("{name}: {}", finding.text),
            ..finding
        }));
    }
    for (side, name) in [(&mut cells_a, &names.0), (&mut cells_b, &names.1)] {
        side.iter_mut()
            .for_each(|cell| cell.arm = format!("{} ({name})", cell.arm));
    }
    let all: Vec<Cell<'_>> = cells_a.into_iter().chain(cells_b).collect();
    Ok(document(Parts {
        title: format!("{} against {}", names.1, names.0),
        question: None,
        rows,
        unpaired,
        findings,
        figures: pictures(&all, &metrics),
        sequential: None,
        results: b,
        cells: &all,
        also_shown: Vec::new(),
        metrics,
    }))
}

fn across<'a>(
    compares: &'a [Compare],
    a: &'a [Cell<'a>],
    b: &'a [Cell<'a>],
    names: &(String, String),
) -> (Vec<Pair<'a>>, Vec<String>) {
    let (mut pairs, mut alone) = (Vec::new(), Vec::new());
    for compare in compares {
        for candidate in b {
            let same = |cell: &&Cell<'_>| {
                cell.arm == candidate.arm
                    && compare_settings(&cell.setting, &candidate.setting).is_eq()
            };
            match a.iter().find(same) {
                Some(baseline) => pairs.push(Pair {
                    baseline,
                    candidate,
                    names: (
                        format!("{} ({})", baseline.arm, names.0),
                        format!("{} ({})", candidate.arm, names.1),
                    ),
                    compare,
                    aa: false,
                }),
                None => alone.push(format!(
                    "`{}` {} is in {} only",
                    candidate.arm,
                    candidate.setting_text(),
                    names.1
                )),
            }
        }
        for cell in a
            .iter()
            .filter(|cell| !b.iter().any(|other| other.arm == cell.arm))
        {
            alone.push(format!("`{}` is in {} only", cell.arm, names.0));
        }
    }
    (pairs, alone)
}

fn environment_findings(
    a: &Results,
    b: &Results,
    names: &(String, String),
) -> Result<Vec<Finding>> {
    let (a, b) = (
        diff::Side::of(a, None, &names.0)?,
        diff::Side::of(b, None, &names.1)?,
    );
    let differences = diff::differences(&a.fields, &b.fields);
    // Below this, differences are of the occasion, not of the machine.
    let heavy: Vec<&diff::Difference> = differences
        .iter()
        .filter(|d| d.weight >= 40.0)
        .take(12)
        .collect();
    Ok(heavy
        .iter()
        .map(|d| Finding {
            grave: d.weight >= 70.0,
            text: format!(
                "`{}/{}` differs ({}): {}: {}; {}: {}.",
                d.group, d.field, d.why, names.0, d.a, names.1, d.b
            ),
        })
        .collect())
}
