//! Whether the campaign deserves its verdicts: drift over the run order, outliers, the false alarms of A/A arms,
//! points that are missing or not complete, machines that changed. Everything here is said, nothing is repaired.

use super::analysis::Row;
use super::cells::Cell;
use super::figures::{p_value, percent, spoken, Scale};
use super::plan::ALPHA;
use crate::point::{Results, Status};
use crate::stats::{self, OutlierRule, Placed};
use std::collections::{BTreeMap, BTreeSet};

/// A line of the report's section on trust; grave ones are warnings.
pub struct Finding {
    pub grave: bool,
    pub text: String,
}

fn warn(text: String) -> Finding {
    Finding { grave: true, text }
}

fn note(text: String) -> Finding {
    Finding { grave: false, text }
}

/// All checks over the metrics that are compared.
pub fn findings(results: &Results, cells: &[Cell<'_>], metrics: &[String]) -> Vec<Finding> {
    let mut all = completeness(results, cells);
    for metric in metrics {
        all.extend(drift(cells, metric));
        all.extend(outliers(cells, metric));
    }
    all.extend(false_alarms(cells, metrics));
    all.extend(environments(results));
    all.extend(own_warnings(results));
    all
}

/// What the pairs themselves call for: single runs, runs that did not complete, too few for the question.
pub fn row_findings(rows: &[Row]) -> Vec<Finding> {
    let mut all = Vec::new();
    let single: BTreeSet<String> = rows
        .iter()
        .flat_map(|row| {
            let c = &row.comparison;
            [(&row.baseline, c.baseline), (&row.candidate, c.candidate)]
        })
        .filter(|(_, sample)| sample.is_ok_and(|sample| sample.n == 1))
        .map(|(arm, _)| format!("`{arm}`"))
        .collect();
    if !single.is_empty() {
        all.push(warn(format!(
            "One run an arm ({}): a single run has no variance, so no interval and no conclusion. \
             Whatever the two figures are, the next pair may turn them round. Two runs an arm are the least.",
            single.into_iter().collect::<Vec<_>>().join(", ")
        )));
    }
    for row in rows {
        let [x, y] = row.comparison.did_not_complete;
        if x + y > 0 {
            all.push(warn(format!(
                "{}{}: {x} runs of `{}` and {y} of `{}` did not complete. Means are of those that did; a verdict \
                 is given only where the ranks, with those runs last, agree.",
                spoken(&row.metric),
                at(&row.setting),
                row.baseline,
                row.candidate
            )));
        }
    }
    all
}

fn at(setting: &str) -> String {
    match setting {
        "" => String::new(),
        setting => format!(" at {setting}"),
    }
}

fn completeness(results: &Results, cells: &[Cell<'_>]) -> Vec<Finding> {
    let mut all: Vec<Finding> = results.torn_note().map(warn).into_iter().collect();
    let missing: usize = cells
        .iter()
        .map(|c| c.planned.saturating_sub(c.points.len()))
        .sum();
    if missing > 0 {
        all.push(warn(format!(
            "{missing} of {} planned points were not taken: the run was stopped; `thermolab resume` takes them.",
            results.run.planned.len()
        )));
    }
    for (status, what) in [
        (Status::Failed, "failed"),
        (Status::DidNotComplete, "did not complete"),
        (Status::Refused, "refused"),
    ] {
        let count: usize = cells.iter().map(|cell| cell.count(status)).sum();
        if count > 0 {
            let points = if count == 1 { "point" } else { "points" };
            all.push(warn(format!(
                "{count} {points} {what}: listed below, and part of no mean."
            )));
        }
    }
    all
}

fn drift(cells: &[Cell<'_>], metric: &str) -> Option<Finding> {
    let mut runs = Vec::new();
    for (arm, cell) in cells.iter().enumerate() {
        // In shares of the cell's own mean: arms of different speed drift by the same share.
        let of = cell.runs(metric);
        let Ok(sample) = stats::Sample::of(&cell.values(metric)) else {
            continue;
        };
        for (index, value) in of {
            runs.push(Placed {
                position: index as f64,
                arm,
                value: value / sample.mean,
            });
        }
    }
    let drift = stats::drift(&runs).ok()?;
    let over = drift.percent_over_campaign.map_or("–".into(), percent);
    let text = format!(
        "Drift of {} over the run order: {over} from first to last (p {})",
        spoken(metric),
        p_value(drift.p)
    );
    Some(match drift.p < ALPHA {
        true => warn(format!(
            "{text}. The machine changed while it was measured. Arms that were interleaved share the drift, which \
             widens their intervals; arms that were not are not comparable."
        )),
        false => note(format!("{text}: none shown.")),
    })
}

fn outliers(cells: &[Cell<'_>], metric: &str) -> Vec<Finding> {
    let mut all = Vec::new();
    for cell in cells {
        let runs = cell.runs(metric);
        let values: Vec<f64> = runs.iter().map(|(_, value)| *value).collect();
        for outlier in stats::outliers(&values) {
            // Among few runs the modified z speaks up for chance alone: a note. The wide fences do not.
            let (rule, grave) = match outlier.rule {
                OutlierRule::TukeyFarOut => ("more than 3 interquartile ranges out", true),
                OutlierRule::ModifiedZ => ("modified z above 3.5", false),
            };
            let scale = Scale::of(metric, outlier.value);
            let text = format!(
                "Point {} of `{}`{} lies far from its arm: {} {} ({rule}). It is kept in every figure.",
                runs[outlier.at].0,
                cell.arm,
                at(&cell.setting_text()),
                spoken(metric),
                scale.show_with_unit(outlier.value, 4)
            );
            all.push(Finding { grave, text });
        }
    }
    all
}

/// Arms of one setting whose parameters are equal are A/A: any difference between them is false.
fn false_alarms(cells: &[Cell<'_>], metrics: &[String]) -> Vec<Finding> {
    let mut p = Vec::new();
    let mut names = BTreeSet::new();
    for (i, a) in cells.iter().enumerate() {
        for b in cells[i + 1..]
            .iter()
            .filter(|b| b.arm != a.arm && b.params == a.params)
        {
            names.insert(format!("`{}` / `{}`", a.arm, b.arm));
            let of = |metric: &String| stats::welch(&a.values(metric), &b.values(metric), 0.95);
            p.extend(
                metrics
                    .iter()
                    .filter_map(|metric| of(metric).ok())
                    .map(|w| w.p),
            );
        }
    }
    let Ok(rate) = stats::false_alarms(&p, ALPHA, 0.95) else {
        return Vec::new();
    };
    let text = format!(
        "A/A arms ({}): {} of {} comparisons of an arm with itself came out significant at .05; the realised rate \
         of false alarms is {:.2}, 95 % interval [{:.2}, {:.2}]",
        names.into_iter().collect::<Vec<_>>().join(", "),
        rate.alarms,
        rate.comparisons,
        rate.rate,
        rate.interval.low,
        rate.interval.high
    );
    vec![match rate.exceeds(ALPHA) {
        true => warn(format!(
            "{text}: more than promised. This campaign finds differences where there are none."
        )),
        false => note(format!("{text}.")),
    }]
}

fn environments(results: &Results) -> Vec<Finding> {
    let used: BTreeSet<&str> = results
        .points
        .iter()
        .map(|p| p.environment.as_str())
        .collect();
    let used: Vec<&&str> = used.iter().filter(|hash| !hash.is_empty()).collect();
    let short = |hash: &str| hash.chars().take(12).collect::<String>();
    match used.len() {
        0 => vec![warn("No environment was recorded with these points: nobody can say what they were measured on.".into())],
        1 => vec![note(format!("One environment for all points: {}.", short(used[0])))],
        n => vec![note(format!(
            "{n} environments over the points; what differs between them is listed at the end."
        ))],
    }
}

/// The points' own warnings, each kind once with its count.
fn own_warnings(results: &Results) -> Vec<Finding> {
    // Warnings that differ in their numbers only are one.
    let kind = |text: &str| text.replace(|c: char| c.is_ascii_digit() || "+-.".contains(c), "");
    let mut kinds: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for warning in results.points.iter().flat_map(|point| &point.warnings) {
        kinds.entry(kind(warning)).or_default().push(warning);
    }
    let finding = |texts: Vec<&str>| {
        let (first, count) = (texts[0], texts.len());
        match texts.iter().all(|text| *text == first) {
            true => warn(format!("{count} points warn: {first}")),
            false => warn(format!("{count} points warn, for example: {first}")),
        }
    };
    kinds.into_values().map(finding).collect()
}
