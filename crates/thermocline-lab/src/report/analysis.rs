//! From cells to verdicts: the pairs to compare, their families, and what each comes to.

use super::cells::{compare_settings, Cell};
use super::plan::{Compare, Plan, ALPHA};
use crate::point::Status;
use crate::stats::{self, Comparison, Judgement, Paired, Runs, Verdict};
use std::collections::BTreeMap;

/// One comparison of two cells in one metric.
pub struct Row {
    pub metric: String,
    pub setting: String,
    pub baseline: String,
    pub candidate: String,
    pub family: String,
    pub judgement: Judgement,
    pub comparison: Comparison,
    /// Over the family; `None` where the comparison has no p.
    pub holm_p: Option<f64>,
    pub bh_p: Option<f64>,
    /// The same two arms block by block, where every block has both.
    pub paired: Option<Paired>,
    pub verdict: Verdict,
}

/// Two cells to be compared, the baseline first.
pub struct Pair<'a> {
    pub baseline: &'a Cell<'a>,
    pub candidate: &'a Cell<'a>,
    pub names: (String, String),
    pub compare: &'a Compare,
    /// One configuration under two names: a family of its own, for its differences are false.
    pub aa: bool,
}

/// The comparisons the plan declares, or by default every arm against the first one in throughput.
pub fn declared(plan: &Plan, cells: &[Cell<'_>]) -> Vec<Compare> {
    if !plan.compares.is_empty() {
        return plan.compares.clone();
    }
    let has = |metric: &str| cells.iter().any(|cell| !cell.values(metric).is_empty());
    let any = cells
        .iter()
        .flat_map(|cell| &cell.points)
        .find_map(|point| point.metrics.keys().next().cloned());
    let metric = if has("ops_per_s") {
        Some("ops_per_s".to_string())
    } else {
        any
    };
    let compare = metric.map(|metric| Compare {
        metric,
        ..Compare::default()
    });
    compare.into_iter().collect()
}

/// Every pair a declaration asks for: the candidate arms against the baseline at equal settings.
/// The second list says what could not be paired, and why.
pub fn pairs<'a>(compares: &'a [Compare], cells: &'a [Cell<'a>]) -> (Vec<Pair<'a>>, Vec<String>) {
    let (mut pairs, mut missing) = (Vec::new(), Vec::new());
    for compare in compares {
        let first = cells.first().map_or("", |cell| cell.arm.as_str());
        let baseline = compare.baseline.as_deref().unwrap_or(first);
        if !cells.iter().any(|cell| is_named(&cell.arm, baseline)) {
            missing.push(format!(
                "{}: no point of the baseline `{baseline}`",
                compare.metric
            ));
            continue;
        }
        for arm in compare.arms.iter().flatten() {
            if !cells.iter().any(|cell| is_named(&cell.arm, arm)) {
                missing.push(format!("{}: no point of the arm `{arm}`", compare.metric));
            }
        }
        let wanted = |arm: &str| match &compare.arms {
            Some(arms) => arms.iter().any(|name| is_named(arm, name)),
            None => true,
        };
        let candidate = |c: &&Cell<'_>| !is_named(&c.arm, baseline) && wanted(&c.arm);
        for candidate in cells.iter().filter(candidate) {
            let at_equal = cells.iter().find(|c| {
                is_named(&c.arm, baseline)
                    && compare_settings(&c.setting, &candidate.setting).is_eq()
            });
            match at_equal {
                Some(cell) => pairs.push(Pair {
                    baseline: cell,
                    candidate,
                    names: (cell.arm.clone(), candidate.arm.clone()),
                    compare,
                    aa: cell.params == candidate.params,
                }),
                None => missing.push(format!(
                    "{}: `{}` at {} has no baseline at the same setting",
                    compare.metric,
                    candidate.arm,
                    candidate.setting_text()
                )),
            }
        }
    }
    (pairs, missing)
}

/// Whether an arm has just these parts, `page_mode=base, extent_use=team`, in whatever order they are written.
fn is_named(arm: &str, name: &str) -> bool {
    let parts = |text: &str| {
        let mut parts: Vec<String> = text.split(", ").map(String::from).collect();
        parts.sort_unstable();
        parts
    };
    arm == name || parts(arm) == parts(name)
}

/// Computes all pairs, family by family. `looks` is the number of looks of a group-sequential plan.
pub fn rows(pairs: &[Pair<'_>], looks: Option<usize>) -> Vec<Row> {
    let family = |pair: &Pair<'_>| match (pair.aa, &pair.compare.family) {
        (true, _) => "A/A".to_string(),
        (false, Some(family)) => family.clone(),
        (false, None) => "main".into(),
    };
    let mut sizes: BTreeMap<String, usize> = BTreeMap::new();
    for pair in pairs {
        *sizes.entry(family(pair)).or_default() += 1;
    }
    let mut rows: Vec<Row> = pairs
        .iter()
        .map(|pair| {
            let family = family(pair);
            let size = sizes.get(&family).copied().unwrap_or(1);
            row(pair, family, size, looks)
        })
        .collect();
    for name in sizes.keys() {
        let of: Vec<usize> = (0..rows.len())
            .filter(|&i| rows[i].family == *name)
            .collect();
        let p: Vec<Option<f64>> = of.iter().map(|&i| rows[i].comparison.p()).collect();
        let (holm, bh) = (stats::holm(&p), stats::benjamini_hochberg(&p));
        for (place, &i) in of.iter().enumerate() {
            rows[i].holm_p = holm[place];
            rows[i].bh_p = bh[place];
        }
    }
    for row in &mut rows {
        row.verdict = stats::judge(&row.comparison, row.holm_p, &row.judgement);
    }
    rows
}

fn row(pair: &Pair<'_>, family: String, size: usize, looks: Option<usize>) -> Row {
    let metric = &pair.compare.metric;
    let (x, y) = (pair.baseline.values(metric), pair.candidate.values(metric));
    let judgement = Judgement {
        better: pair.compare.better(),
        alpha: alpha(pair, x.len().min(y.len()), looks),
        smallest_effect_percent: pair.compare.smallest_effect_percent,
        family: size,
    };
    let runs = |values, cell: &Cell<'_>| Runs {
        values,
        did_not_complete: cell.count(Status::DidNotComplete),
    };
    let comparison = stats::compare(
        runs(&x, pair.baseline),
        runs(&y, pair.candidate),
        &judgement,
    );
    Row {
        metric: metric.clone(),
        setting: pair.candidate.setting_text(),
        baseline: pair.names.0.clone(),
        candidate: pair.names.1.clone(),
        family,
        judgement,
        paired: paired(pair, 1.0 - judgement.alpha),
        comparison,
        holm_p: None,
        bh_p: None,
        verdict: Verdict::NoDifferenceShown,
    }
}

/// The error rate at the look these runs have reached: in a group-sequential plan the nominal p of the last look
/// that is complete, before the first one that of the first, which hardly anything passes.
fn alpha(pair: &Pair<'_>, runs: usize, looks: Option<usize>) -> f64 {
    let planned = pair.baseline.planned.max(pair.candidate.planned);
    let Some(Ok(plan)) = looks.map(|looks| stats::obrien_fleming(looks, planned, ALPHA)) else {
        return ALPHA;
    };
    let reached = plan.iter().rev().find(|look| look.runs <= runs);
    reached.or(plan.first()).map_or(ALPHA, |look| look.p)
}

fn paired(pair: &Pair<'_>, level: f64) -> Option<Paired> {
    let metric = &pair.compare.metric;
    let (x, y) = (
        pair.baseline.by_block(metric)?,
        pair.candidate.by_block(metric)?,
    );
    if !x.keys().eq(y.keys()) {
        return None;
    }
    let pairs: Vec<(f64, f64)> = x.into_values().zip(y.into_values()).collect();
    stats::paired(&pairs, level).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::point::{PointLine, Results};
    use crate::report::cells::cells;

    fn results(arms: &[(&str, &[f64])]) -> Results {
        let mut points = Vec::new();
        for (arm, values) in arms {
            for (block, value) in values.iter().enumerate() {
                points.push(PointLine {
                    index: points.len(),
                    block,
                    arm: arm.to_string(),
                    params: [("arm".to_string(), (*arm).into())].into(),
                    metrics: [("ops_per_s".to_string(), *value)].into(),
                    ..PointLine::default()
                });
            }
        }
        Results {
            points,
            ..Results::default()
        }
    }

    #[test]
    fn without_a_declaration_every_arm_meets_the_first() {
        let results = results(&[("a", &[1.0, 2.0]), ("b", &[3.0, 4.0]), ("c", &[5.0, 6.0])]);
        let plan = Plan::default();
        let cells = cells(&results, &plan);
        let compares = declared(&plan, &cells);
        let (pairs, missing) = pairs(&compares, &cells);
        assert!(missing.is_empty());
        let rows = rows(&pairs, None);
        let names: Vec<&str> = rows.iter().map(|row| row.candidate.as_str()).collect();
        assert_eq!(names, ["b", "c"]);
        assert_eq!(rows[0].judgement.family, 2);
        assert!(rows[0].holm_p >= rows[0].comparison.p());
        assert!(rows[0].paired.is_none(), "equal steps have no variance");
    }

    #[test]
    fn a_baseline_is_its_parts_in_any_order() {
        let results = results(&[("a=1, b=2", &[1.0, 2.0]), ("a=2, b=2", &[3.0, 4.0])]);
        let plan = Plan::read(
            "[[compare]]\nmetric=\"ops_per_s\"\nbaseline=\"b=2, a=1\"\narms=[\"b=2, a=2\"]",
        )
        .unwrap();
        let cells = cells(&results, &plan);
        let (pairs, missing) = pairs(&plan.compares, &cells);
        assert!(missing.is_empty(), "{missing:?}");
        assert_eq!(
            (pairs.len(), pairs[0].candidate.arm.as_str()),
            (1, "a=2, b=2")
        );
        assert!(!is_named("a=1, b=2", "a=1"));
    }

    #[test]
    fn what_cannot_be_paired_is_said() {
        let results = results(&[("a", &[1.0, 2.0])]);
        let plan = Plan::read(
            "[[compare]]\nmetric=\"ops_per_s\"\nbaseline=\"z\"\n[[compare]]\nmetric=\"m\"\nbaseline=\"a\"\narms=[\"q\"]",
        )
        .unwrap();
        let cells = cells(&results, &plan);
        let (pairs, missing) = pairs(&plan.compares, &cells);
        assert!(pairs.is_empty());
        assert!(
            missing[0].contains("`z`") && missing[1].contains("`q`"),
            "{missing:?}"
        );
    }

    #[test]
    fn a_sequential_plan_asks_more_of_early_looks() {
        let values: Vec<f64> = (0..3).map(f64::from).collect();
        let mut results = results(&[("a", &values), ("b", &values)]);
        results.run.planned = (0..12)
            .map(|index| crate::point::Planned {
                index,
                arm: if index % 2 == 0 { "a" } else { "b" }.into(),
                params: [(
                    "arm".to_string(),
                    if index % 2 == 0 { "a" } else { "b" }.into(),
                )]
                .into(),
                ..Default::default()
            })
            .collect();
        let plan = Plan::default();
        let cells = cells(&results, &plan);
        let compares = declared(&plan, &cells);
        let (pairs, _) = pairs(&compares, &cells);
        // Three of six runs: of looks at 2, 4, 6 the first is reached.
        let rows = rows(&pairs, Some(3));
        assert!(
            rows[0].judgement.alpha < 0.001,
            "{}",
            rows[0].judgement.alpha
        );
    }
}
