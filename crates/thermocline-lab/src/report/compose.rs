//! The report as blocks: verdicts first, then pictures, figures, whether they can be believed, and everything else.

use super::analysis::Row;
use super::cells::{plain, Cell};
use super::checks::Finding;
use super::document::{number, text, Block, Document, Sheet, Tone};
use super::figures::{self, p_value, percent, spoken, Scale};
use super::plan::ALPHA;
use crate::diff::{self, Reading};
use crate::point::{EnvironmentLine, PointLine, Results, Status};
use crate::stats::{self, Interval, Sample, Undefined, Verdict};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Metrics shown for every arm, beside those that are compared.
const ALSO_SHOWN: &[&str] = &[
    "ops_per_s",
    "hit_ratio",
    "service_ns_p50",
    "service_ns_p99",
    "service_ns_p999",
    "response_ns_p50",
    "response_ns_p99",
    "response_ns_p999",
    "resident_peak_bytes",
    "rss_bytes",
];
/// Rows of the table of all points; longer campaigns have them in the points file.
const POINTS_SHOWN: usize = 2000;
/// Environment fields listed when environments differ.
const FIELDS_SHOWN: usize = 40;
/// Values of one such field that are shown.
const VALUES_SHOWN: usize = 4;
/// How weighty a difference must be to be listed, of 100.
const WEIGHT_SHOWN: f64 = 15.0;
/// An effect to plan for when the experiment names none, percent.
const EFFECT_PLANNED: f64 = 2.0;

/// Everything a report is made of.
pub struct Parts<'a> {
    pub title: String,
    pub question: Option<String>,
    pub results: &'a Results,
    pub cells: &'a [Cell<'a>],
    pub metrics: Vec<String>,
    /// Shown by arm beside the compared ones, where points have them.
    pub also_shown: Vec<String>,
    pub rows: Vec<Row>,
    pub unpaired: Vec<String>,
    pub findings: Vec<Finding>,
    pub figures: Vec<Block>,
    pub sequential: Option<usize>,
}

pub fn document(mut parts: Parts<'_>) -> Document {
    let mut blocks = Vec::new();
    if let Some(question) = &parts.question {
        blocks.push(Block::Paragraph(question.clone()));
    }
    blocks.push(Block::Heading("Verdicts".into()));
    verdicts(&parts, &mut blocks);
    if !parts.figures.is_empty() {
        blocks.push(Block::Heading("Pictures".into()));
        blocks.append(&mut parts.figures);
    }
    blocks.push(Block::Heading("Figures by arm".into()));
    for metric in shown_metrics(&parts) {
        blocks.extend(by_arm(&parts, &metric));
    }
    blocks.push(Block::Heading("Can it be believed?".into()));
    blocks.extend(parts.findings.iter().map(|finding| match finding.grave {
        true => Block::Warning(finding.text.clone()),
        false => Block::Note(finding.text.clone()),
    }));
    blocks.extend(runs_needed(&parts.rows));
    let facts = facts(&parts);
    let incomplete = incomplete(parts.results);
    if !incomplete.rows.is_empty() {
        blocks.push(Block::Heading("Points that are in no mean".into()));
        blocks.push(Block::Table(incomplete));
    }
    let details = [
        details(&parts.rows),
        environments(parts.results),
        points(&parts),
    ];
    blocks.push(Block::Heading("In full".into()));
    blocks.extend(
        details
            .into_iter()
            .filter(|sheet| !sheet.rows.is_empty())
            .map(Block::Table),
    );
    Document {
        title: parts.title,
        facts,
        blocks,
    }
}

fn facts(parts: &Parts<'_>) -> Vec<String> {
    let run = &parts.results.run;
    let ok = parts
        .results
        .points
        .iter()
        .filter(|p| p.status == Status::Ok)
        .count();
    let mut facts = vec![format!(
        "begun {}, {ok} complete points of {} planned, seed {}, thermolab {}",
        run.started,
        run.planned.len().max(parts.results.points.len()),
        run.seed,
        run.thermolab_version
    )];
    let field = |group: &str, field: &str| {
        let groups = &parts.results.environments.first()?.groups;
        let value = groups.get(group)?.get(field)?;
        value.get("unread").is_none().then(|| plain(value))
    };
    let machine: Vec<String> = [
        field("2 cpu", "model"),
        field("2 cpu", "processors").map(|n| format!("{n} processors")),
        field("3 memory", "MemTotal"),
        field("1 kernel", "release").map(|release| format!("Linux {release}")),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !machine.is_empty() {
        facts.push(machine.join(", "));
    }
    let hash: String = run.experiment_sha256.chars().take(12).collect();
    if !hash.is_empty() {
        facts.push(format!("experiment {} ({hash}…)", run.experiment));
    }
    facts
}

fn verdicts(parts: &Parts<'_>, blocks: &mut Vec<Block>) {
    if parts.rows.is_empty() {
        blocks.push(Block::Paragraph(
            "Nothing is compared: the points have one arm, or none is complete.".into(),
        ));
    } else {
        blocks.push(Block::Table(verdict_table(&parts.rows)));
        blocks.push(Block::Note(rules(parts)));
    }
    for finding in super::checks::row_findings(&parts.rows) {
        blocks.push(Block::Warning(finding.text));
    }
    blocks.extend(
        parts
            .unpaired
            .iter()
            .map(|text| Block::Warning(text.clone())),
    );
}

fn rules(parts: &Parts<'_>) -> String {
    let alpha = parts.rows.first().map_or(ALPHA, |row| row.judgement.alpha);
    let families: std::collections::BTreeSet<&str> =
        parts.rows.iter().map(|row| row.family.as_str()).collect();
    let plan = match parts.sequential {
        Some(looks) => format!(
            " The plan is group-sequential with {looks} looks (O'Brien-Fleming): at this one p must be under {}.",
            p_value(alpha)
        ),
        None => String::new(),
    };
    format!(
        "Intervals are Fieller's, of the change in percent of the baseline, at {:.4} confidence. p is Welch's, Fisher's where runs read 0 or 1, after Holm \
         over {} {} in {} {}.{plan} Equivalent: both one-sided tests pass against the smallest effect that \
         matters. No difference shown is not the claim that there is none.",
        1.0 - alpha,
        parts.rows.len(),
        if parts.rows.len() == 1 { "comparison" } else { "comparisons" },
        families.len(),
        if families.len() == 1 { "family" } else { "families" },
    )
}

fn verdict_table(rows: &[Row]) -> Sheet {
    let settings = rows.iter().any(|row| !row.setting.is_empty());
    let mut head = vec!["metric"];
    if settings {
        head.push("at");
    }
    head.extend([
        "arm",
        "against",
        "runs",
        "change",
        "interval",
        "matters from",
        "p (Holm)",
        "verdict",
    ]);
    let mut sheet = Sheet::new(head);
    for row in rows {
        let c = &row.comparison;
        let change = c
            .welch
            .ok()
            .and_then(|w| w.change_percent())
            .or_else(|| plain_change(row));
        let effect = row.judgement.smallest_effect_percent;
        let mut cells = vec![text(spoken(&row.metric))];
        if settings {
            cells.push(text(&row.setting));
        }
        cells.extend([
            text(&row.candidate),
            text(&row.baseline),
            number(format!("{} / {}", count(&c.candidate), count(&c.baseline))),
            number(match c.counted {
                Some((x, y, _)) => format!("{} of {} / {} of {}", y.ones, y.runs, x.ones, x.runs),
                None => change.map_or("–".into(), percent),
            }),
            number(range(&c.fieller_percent)),
            number(effect.map_or("–".into(), |effect| format!("{effect} %"))),
            number(row.holm_p.map_or("–".into(), p_value)),
            verdict_cell(&row.verdict),
        ]);
        sheet.row(cells);
    }
    sheet
}

/// Of single runs: the two figures are shown, the conclusion is not.
fn plain_change(row: &Row) -> Option<f64> {
    let (x, y) = (
        row.comparison.baseline.ok()?,
        row.comparison.candidate.ok()?,
    );
    let percent = (y.mean - x.mean) * 100.0 / x.mean;
    percent.is_finite().then_some(percent)
}

fn count(sample: &Result<Sample, Undefined>) -> usize {
    sample.map_or(0, |sample| sample.n)
}

fn range(interval: &Result<Interval, Undefined>) -> String {
    interval.map_or("–".into(), |i| {
        format!(
            "[{}, {}]",
            percent(i.low).replace(" %", ""),
            percent(i.high)
        )
    })
}

fn verdict_cell(verdict: &Verdict) -> super::document::Cell {
    super::document::Cell {
        text: verdict.to_string(),
        tone: match verdict {
            Verdict::Better => Tone::Good,
            Verdict::Worse => Tone::Bad,
            Verdict::Equivalent => Tone::Even,
            Verdict::NoDifferenceShown | Verdict::Refused(_) => Tone::Doubt,
        },
    }
}

/// The compared metrics, then the usual ones that are there.
fn shown_metrics(parts: &Parts<'_>) -> Vec<String> {
    let mut metrics = parts.metrics.clone();
    let there = |name: &str| parts.cells.iter().any(|cell| !cell.values(name).is_empty());
    let own = parts.also_shown.iter().map(String::as_str);
    for name in own.chain(ALSO_SHOWN.iter().copied()) {
        if !metrics.iter().any(|metric| metric == name) && there(name) {
            metrics.push(name.to_string());
        }
    }
    metrics
}

fn by_arm(parts: &Parts<'_>, metric: &str) -> Vec<Block> {
    let samples: Vec<(&Cell<'_>, Sample)> = parts
        .cells
        .iter()
        .filter_map(|cell| Some((cell, Sample::of(&cell.values(metric)).ok()?)))
        .collect();
    if samples.is_empty() {
        return Vec::new();
    }
    let largest = samples.iter().map(|(_, s)| s.max.abs()).fold(0.0, f64::max);
    let scale = Scale::of(metric, largest);
    let name = spoken(metric);
    let title = match scale.unit {
        "" => name,
        unit => format!("{name}, {unit}"),
    };
    let settings = samples.iter().any(|(cell, _)| !cell.setting.is_empty());
    let mut head = vec![title];
    head.extend(settings.then(|| "at".to_string()));
    head.extend(["runs", "mean", "sd", "CV", "median", "least", "most"].map(str::to_string));
    let mut sheet = Sheet::new(head);
    for (cell, s) in &samples {
        let show = |value: f64| number(scale.show(value, 5));
        let mut row = vec![text(&cell.arm)];
        row.extend(settings.then(|| text(cell.setting_text())));
        row.extend([
            number(s.n.to_string()),
            show(s.mean),
            number(s.sd().map_or("–".into(), |sd| scale.show(sd, 3))),
            number(s.cv_percent().map_or("–".into(), |cv| format!("{cv:.2} %"))),
            show(s.median),
            show(s.min),
            show(s.max),
        ]);
        sheet.row(row);
    }
    vec![Block::Table(sheet)]
}

/// What more runs could show, from the spread that was seen.
fn runs_needed(rows: &[Row]) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut metrics: Vec<&str> = Vec::new();
    for row in rows {
        if metrics.contains(&row.metric.as_str()) {
            continue;
        }
        metrics.push(&row.metric);
        let cv = rows
            .iter()
            .filter(|other| other.metric == row.metric)
            .flat_map(|other| [other.comparison.baseline, other.comparison.candidate])
            .filter_map(|sample| sample.ok()?.cv_percent())
            .fold(0.0, f64::max);
        let effect = row
            .judgement
            .smallest_effect_percent
            .unwrap_or(EFFECT_PLANNED);
        let runs = count(&row.comparison.baseline).min(count(&row.comparison.candidate));
        let (Ok(needed), Ok(seen)) = (
            stats::runs_needed(effect, cv, ALPHA, 0.8),
            stats::detectable_effect_percent(runs, cv, ALPHA, 0.8),
        ) else {
            continue;
        };
        blocks.push(Block::Note(format!(
            "{}: the noisiest arm varies by {cv:.2} % from run to run; {runs} runs an arm show a difference of \
             {seen:.1} % four times in five; to show {effect} % takes {needed} runs an arm.",
            spoken(&row.metric)
        )));
    }
    blocks
}

fn incomplete(results: &Results) -> Sheet {
    let mut sheet = Sheet::new(["point", "block", "arm", "status", "reason"]);
    for point in results.points.iter().filter(|p| p.status != Status::Ok) {
        sheet.row([
            number(point.index.to_string()),
            number(point.block.to_string()),
            text(&point.arm),
            text(status(point.status)),
            text(point.reason.as_deref().unwrap_or("no reason recorded")),
        ]);
    }
    sheet
}

fn status(status: Status) -> &'static str {
    match status {
        Status::Ok => "complete",
        Status::Failed => "failed",
        Status::DidNotComplete => "did not complete",
        Status::Refused => "refused",
    }
}

fn details(rows: &[Row]) -> Sheet {
    let mut sheet = Sheet::new([
        "comparison",
        "t",
        "df",
        "p",
        "Holm",
        "BH",
        "baseline exact",
        "family-wise",
        "Hedges g",
        "rank p",
        "shift",
        "paired",
        "equivalence p",
    ]);
    sheet.folded = Some("The statistics of every comparison".into());
    for row in rows {
        let c = &row.comparison;
        let scale = Scale::of(&row.metric, c.baseline.map_or(0.0, |s| s.mean));
        let welch =
            |show: fn(&stats::Welch) -> String| number(c.welch.as_ref().map_or("–".into(), show));
        let p = |p: Option<f64>| number(p.map_or("–".into(), p_value));
        let at = if row.setting.is_empty() { "" } else { ", " };
        sheet.row([
            text(format!(
                "{}{at}{}: {} / {}",
                spoken(&row.metric),
                row.setting,
                row.candidate,
                row.baseline
            )),
            welch(|w| format!("{:.3}", w.t)),
            welch(|w| format!("{:.2}", w.df)),
            p(c.p()),
            p(row.holm_p),
            p(row.bh_p),
            number(range(&c.seed_percent)),
            number(range(&c.family_percent)),
            number(c.hedges_g.map_or("–".into(), |g| format!("{g:.2}"))),
            p(c.rank.ok().map(|rank| rank.p)),
            number(c.shift.map_or("–".into(), |(shift, i)| {
                let show = |value| scale.show(value, 4);
                format!("{} [{}, {}]", show(shift), show(i.low), show(i.high))
            })),
            number(
                row.paired
                    .map_or("–".into(), |paired| format!("p {}", p_value(paired.p))),
            ),
            p(c.equivalence.and_then(Result::ok).map(|e| e.p)),
        ]);
    }
    sheet
}

/// Each field that differs between environments, with all its values; what the arms set stands in their names.
fn environments(results: &Results) -> Sheet {
    let mut sheet = Sheet::new(["field", "values", "what it decides"]);
    sheet.folded = Some("What differs between the environments of these points".into());
    let flat = |line: &EnvironmentLine| -> diff::FieldMap {
        let of = |(group, fields): (&String, &BTreeMap<String, Value>)| -> Vec<_> {
            let named =
                |(field, value)| ((group.clone(), String::clone(field)), Reading::of(value));
            fields.iter().map(named).collect()
        };
        line.groups.iter().flat_map(of).collect()
    };
    let maps: Vec<diff::FieldMap> = results.environments.iter().map(flat).collect();
    let set: BTreeSet<&String> = results
        .run
        .planned
        .iter()
        .flat_map(|p| p.params.keys())
        .collect();
    let mut found: Vec<diff::Difference> = Vec::new();
    for difference in maps
        .iter()
        .skip(1)
        .flat_map(|other| diff::differences(&maps[0], other))
    {
        let same =
            |d: &diff::Difference| d.group == difference.group && d.field == difference.field;
        if set.contains(&difference.field) {
            continue;
        }
        match found.iter_mut().find(|d| same(d)) {
            Some(known) => known.weight = known.weight.max(difference.weight),
            None => found.push(difference),
        }
    }
    found.retain(|d| d.weight >= WEIGHT_SHOWN);
    found.sort_by(|a, b| b.weight.total_cmp(&a.weight));
    for d in found.iter().take(FIELDS_SHOWN) {
        let key = (d.group.clone(), d.field.clone());
        let values: BTreeSet<String> = maps
            .iter()
            .map(|map| map.get(&key).unwrap_or(&Reading::Absent).to_string())
            .collect();
        let shown: Vec<&str> = values
            .iter()
            .take(VALUES_SHOWN)
            .map(String::as_str)
            .collect();
        let more = match values.len().saturating_sub(VALUES_SHOWN) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        sheet.row([
            text(format!("{}/{}", d.group, d.field)),
            text(shown.join("; ") + &more),
            text(d.why),
        ]);
    }
    sheet
}

fn points(parts: &Parts<'_>) -> Sheet {
    let metrics: Vec<&String> = parts.metrics.iter().take(6).collect();
    let mut head = vec![
        "point".to_string(),
        "block".into(),
        "arm".into(),
        "at".into(),
        "status".into(),
    ];
    head.extend(metrics.iter().map(|metric| spoken(metric)));
    let mut sheet = Sheet::new(head);
    sheet.folded = Some("Every point, in the order taken".into());
    let setting = |point: &PointLine| {
        let same = |cell: &&Cell<'_>| cell.points.iter().any(|p| std::ptr::eq(*p, point));
        parts
            .cells
            .iter()
            .find(same)
            .map_or(String::new(), Cell::setting_text)
    };
    for point in parts.results.points.iter().take(POINTS_SHOWN) {
        let mut row = vec![
            number(point.index.to_string()),
            number(point.block.to_string()),
            text(&point.arm),
            text(setting(point)),
            text(status(point.status)),
        ];
        row.extend(metrics.iter().map(|metric| {
            let value = point.metrics.get(*metric);
            number(value.map_or("–".into(), |value| figures::number(*value, 6)))
        }));
        sheet.row(row);
    }
    sheet
}
