//! Which pictures a campaign has figures for: dots an arm, curves over a sweep, percentiles, time lines.

use super::cells::{magnitude, plain, Cell};
use super::document::{Block, Figure};
use super::figures::{spoken, Scale};
use super::plot::{self, ArmRow, CurvePoint, Spectrum, Trace};
use crate::histogram;
use crate::point::{PointLine, Status};
use crate::stats::{mean_interval, quantile};
use std::collections::{BTreeMap, BTreeSet};

/// Time lines drawn at most, those a reader asks for first.
const TIMELINES_MAX: usize = 12;
const TIMELINES_FIRST: &[&str] = &["hit_ratio", "ops_per_s", "rss", "resident", "fault", "psi"];
/// Lines in one picture; more hide each other.
const LINES_MAX: usize = 240;

pub fn pictures(cells: &[Cell<'_>], metrics: &[String]) -> Vec<Block> {
    let arms = arm_names(cells);
    let mut figures = Vec::new();
    for metric in metrics {
        figures.extend(dots(cells, &arms, metric));
        figures.extend(sweeps(cells, &arms, metric));
    }
    for name in ["response_ns", "service_ns"] {
        figures.extend(spectrum(cells, &arms, name));
    }
    figures.extend(timelines(cells, &arms));
    figures.into_iter().map(Block::Figure).collect()
}

/// In order of first appearance: the place is the colour.
fn arm_names(cells: &[Cell<'_>]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for cell in cells {
        if !names.contains(&cell.arm) {
            names.push(cell.arm.clone());
        }
    }
    names
}

fn place(arms: &[String], cell: &Cell<'_>) -> usize {
    arms.iter().position(|arm| *arm == cell.arm).unwrap_or(0)
}

fn dots(cells: &[Cell<'_>], arms: &[String], metric: &str) -> Option<Figure> {
    let mut rows: Vec<ArmRow> = cells
        .iter()
        .map(|cell| {
            let values = cell.values(metric);
            ArmRow {
                group: cell.setting_text(),
                name: cell.arm.clone(),
                series: place(arms, cell),
                interval: mean_interval(&values, 0.95)
                    .ok()
                    .map(|(mean, i)| (mean, i.low, i.high)),
                values,
            }
        })
        .filter(|row| !row.values.is_empty())
        .collect();
    // Arms of one setting side by side; cells come arm by arm.
    let mut groups: Vec<String> = Vec::new();
    for row in &rows {
        if !groups.contains(&row.group) {
            groups.push(row.group.clone());
        }
    }
    rows.sort_by_key(|row| groups.iter().position(|group| *group == row.group));
    let largest = rows
        .iter()
        .flat_map(|row| &row.values)
        .fold(0.0f64, |m, v| m.max(v.abs()));
    let scale = Scale::of(metric, largest);
    let axis = axis(metric, scale);
    (!rows.is_empty()).then_some(())?;
    Some(Figure {
        title: capital(&spoken(metric)),
        svg: plot::arms(&rows, &axis, scale)?,
        caption: "Every dot is one complete run. The bar below is the mean with its 95 % interval; without a bar there \
                  were too few runs. The axis need not begin at zero."
            .into(),
        legend: Vec::new(),
    })
}

/// A picture for each parameter with sizes, the other parameters of the sweep making further lines apart.
fn sweeps(cells: &[Cell<'_>], arms: &[String], metric: &str) -> Vec<Figure> {
    let swept: BTreeSet<&str> = cells
        .iter()
        .flat_map(|cell| cell.setting.iter().map(|(key, _)| key.as_str()))
        .collect();
    let mut figures = Vec::new();
    for key in swept {
        // Cells by what else is set.
        let mut apart: BTreeMap<String, Vec<(&Cell<'_>, f64, String)>> = BTreeMap::new();
        for cell in cells {
            let Some((_, value)) = cell.setting.iter().find(|(name, _)| name == key) else {
                continue;
            };
            let Some(at) = magnitude(value) else {
                continue;
            };
            let rest = cell
                .setting
                .iter()
                .filter(|(name, _)| name != key)
                .cloned()
                .collect();
            let rest = super::cells::setting_text(&rest);
            apart
                .entry(rest)
                .or_default()
                .push((cell, at, plain(value)));
        }
        for (rest, group) in apart {
            figures.extend(sweep(&group, arms, metric, key, &rest));
        }
    }
    figures
}

fn sweep(
    group: &[(&Cell<'_>, f64, String)],
    arms: &[String],
    metric: &str,
    key: &str,
    rest: &str,
) -> Option<Figure> {
    let points: Vec<CurvePoint> = group
        .iter()
        .filter_map(|(cell, at, name)| {
            let values = cell.values(metric);
            let mean = crate::stats::Sample::of(&values).ok()?.mean;
            Some(CurvePoint {
                series: place(arms, cell),
                at: *at,
                name: name.clone(),
                mean,
                interval: mean_interval(&values, 0.95)
                    .ok()
                    .map(|(_, i)| (i.low, i.high)),
            })
        })
        .collect();
    let places: BTreeSet<u64> = points.iter().map(|p| p.at.to_bits()).collect();
    if places.len() < 2 {
        return None;
    }
    let scale = Scale::of(
        metric,
        points.iter().fold(0.0f64, |m, p| m.max(p.mean.abs())),
    );
    let parameter = key.rsplit('.').next().unwrap_or(key).replace('_', " ");
    let at = if rest.is_empty() {
        String::new()
    } else {
        format!(" at {rest}")
    };
    Some(Figure {
        title: format!("{} over {parameter}{at}", capital(&spoken(metric))),
        svg: plot::curve(&points, &parameter, &axis(metric, scale), scale)?,
        caption: "Means over complete runs; the upright bars are their 95 % intervals.".into(),
        legend: arms.to_vec(),
    })
}

fn spectrum(cells: &[Cell<'_>], arms: &[String], name: &str) -> Vec<Figure> {
    let mut groups: Vec<(String, Vec<Spectrum>)> = Vec::new();
    for cell in cells {
        let complete = cell.points.iter().filter(|p| p.status == Status::Ok);
        let runs: Vec<hdrhistogram::Histogram<u64>> = complete
            .filter_map(|p| histogram::from_text(p.histograms.get(name)?).ok())
            .filter(|histogram| !histogram.is_empty())
            .collect();
        if runs.is_empty() {
            continue;
        }
        let setting = cell.setting_text();
        let spectrum = Spectrum {
            series: place(arms, cell),
            points: nines(&runs),
        };
        match groups.iter_mut().find(|(group, _)| *group == setting) {
            Some((_, spectra)) => spectra.push(spectrum),
            None => groups.push((setting, vec![spectrum])),
        }
    }
    groups
        .into_iter()
        .filter_map(|(setting, spectra)| {
            let at = if setting.is_empty() { String::new() } else { format!(" at {setting}") };
            Some(Figure {
                title: format!("{} by percentile{at}", capital(&spoken(name))),
                svg: plot::percentiles(&spectra, &spoken(name), name)?,
                caption: "The line is the median over the runs of each run's own percentile; the band reaches from the \
                          least to the most of them. The axis counts nines."
                    .into(),
                legend: arms.to_vec(),
            })
        })
        .collect()
}

/// Percentiles of every run, side by side: lowest, median, highest.
fn nines(runs: &[hdrhistogram::Histogram<u64>]) -> Vec<(f64, f64, f64, f64)> {
    const STEPS: i32 = 48;
    (0..=STEPS)
        .map(|step| {
            let nines = plot::NINES_MAX * f64::from(step) / f64::from(STEPS);
            let share = 1.0 - 10f64.powf(-nines);
            let mut values: Vec<f64> = runs
                .iter()
                .map(|run| run.value_at_quantile(share) as f64)
                .collect();
            values.sort_by(f64::total_cmp);
            (
                nines,
                values[0],
                quantile(&values, 0.5),
                values[values.len() - 1],
            )
        })
        .collect()
}

fn timelines(cells: &[Cell<'_>], arms: &[String]) -> Vec<Figure> {
    let names: BTreeSet<&String> = cells
        .iter()
        .flat_map(complete)
        .flat_map(|p| p.series.keys())
        .collect();
    let mut names: Vec<&String> = names.into_iter().collect();
    let first = |name: &str| TIMELINES_FIRST.iter().position(|part| name.contains(part));
    names.sort_by_key(|name| (first(name).unwrap_or(TIMELINES_FIRST.len()), name.as_str()));
    names
        .into_iter()
        .take(TIMELINES_MAX)
        .filter_map(|name| {
            let mut traces = Vec::new();
            for cell in cells {
                let of = complete(cell).into_iter();
                traces.extend(of.filter_map(|p| p.series.get(name)).map(|points| Trace {
                    series: place(arms, cell),
                    points,
                }));
            }
            traces.truncate(LINES_MAX);
            Some(Figure {
                title: format!("{} over time", capital(&spoken(name))),
                svg: plot::timeline(&traces, &spoken(name), name)?,
                caption: "One line a run, all settings together.".into(),
                legend: arms.to_vec(),
            })
        })
        .collect()
}

fn complete<'a>(cell: &Cell<'a>) -> Vec<&'a PointLine> {
    let points = cell.points.iter().copied();
    points.filter(|point| point.status == Status::Ok).collect()
}

fn axis(metric: &str, scale: Scale) -> String {
    match scale.unit {
        "" => spoken(metric),
        unit => format!("{}, {unit}", spoken(metric)),
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| {
        first.to_uppercase().chain(letters).collect()
    })
}
