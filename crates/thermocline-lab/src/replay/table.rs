//! The suite's table: one for each policy, engine and sizes, traces down, sizes across.

use super::outcome::Outcome;
use crate::report::Table;
use std::collections::{BTreeMap, BTreeSet};

/// What makes two outcomes comparable over sizes.
type Variant = (String, String, String, String, u32, bool);

fn variant(outcome: &Outcome) -> Variant {
    (
        outcome.sizes.clone(),
        outcome.engine.clone(),
        outcome.policy.clone(),
        outcome.objective.clone(),
        outcome.segments_asked,
        outcome.overwrite_hits > 0.0,
    )
}

/// Tables as Markdown.
pub fn of(outcomes: &[Outcome]) -> String {
    let variants: BTreeSet<Variant> = outcomes.iter().map(variant).collect();
    let mut text = String::new();
    let mut summary = Table::new([
        "sizes",
        "engine",
        "policy",
        "objective",
        "segments",
        "points",
        "miss ratio",
        "byte miss ratio",
    ]);
    for one in &variants {
        let of_it: Vec<&Outcome> = outcomes.iter().filter(|o| variant(o) == *one).collect();
        let (sizes, engine, policy, objective, segments, overwrites) = one;
        let more = if *overwrites {
            ", some hits overwritten"
        } else {
            ""
        };
        text += &format!(
            "\n{engine}, {policy}, {objective}, {sizes} sizes, {segments} segments{more}\n\n"
        );
        text += &one_table(&of_it).to_string();
        let mean = |figure: fn(&Outcome) -> f64| {
            of_it.iter().map(|o| figure(o)).sum::<f64>() / of_it.len().max(1) as f64
        };
        summary.row([
            sizes.clone(),
            engine.clone(),
            policy.clone(),
            objective.clone(),
            segments.to_string(),
            of_it.len().to_string(),
            format!("{:.4}", mean(|o| o.miss_ratio)),
            format!("{:.4}", mean(|o| o.byte_miss_ratio)),
        ]);
    }
    format!("{text}\n{summary}\n{}", by_engine(outcomes))
}

/// Traces down, engines across: mean miss ratios over the sizes all of them ran, the lowest in bold. Nothing where
/// there is one engine only.
fn by_engine(outcomes: &[Outcome]) -> String {
    let engines: BTreeSet<&str> = outcomes.iter().map(|o| o.engine.as_str()).collect();
    if engines.len() < 2 {
        return String::new();
    }
    let mut points: BTreeMap<(&str, Option<u64>), BTreeMap<&str, f64>> = BTreeMap::new();
    for outcome in outcomes {
        let at = (outcome.trace.as_str(), key(outcome.fraction));
        let of_point = points.entry(at).or_default();
        // Of several of our policies the first asked for speaks.
        of_point
            .entry(&outcome.engine)
            .or_insert(outcome.miss_ratio);
    }
    points.retain(|_, ratios| ratios.len() == engines.len());
    let mut traces: BTreeMap<&str, Vec<&BTreeMap<&str, f64>>> = BTreeMap::new();
    for ((trace, _), ratios) in &points {
        traces.entry(trace).or_default().push(ratios);
    }
    let heads = ["trace".to_string(), "sizes".to_string()];
    let mut table = Table::new(
        heads
            .into_iter()
            .chain(engines.iter().map(|e| e.to_string())),
    );
    let mut firsts: BTreeMap<&str, u32> = BTreeMap::new();
    for (trace, of_it) in &traces {
        let mean = |engine: &str| of_it.iter().map(|r| r[engine]).sum::<f64>() / of_it.len() as f64;
        let best = engines
            .iter()
            .map(|engine| mean(engine))
            .fold(f64::MAX, f64::min);
        let cells = engines.iter().map(|engine| {
            let ratio = mean(engine);
            // Less than a twentieth of a point is no difference.
            let is_best = ratio <= best + 0.0005;
            *firsts.entry(engine).or_default() += u32::from(is_best);
            match is_best {
                true => format!("**{ratio:.4}**"),
                false => format!("{ratio:.4}"),
            }
        });
        let cells: Vec<String> = cells.collect();
        table.row(
            [trace.to_string(), of_it.len().to_string()]
                .into_iter()
                .chain(cells),
        );
    }
    let count = |engine: &&str| firsts.get(*engine).copied().unwrap_or(0).to_string();
    let last = ["best or equal".to_string(), traces.len().to_string()];
    table.row(last.into_iter().chain(engines.iter().map(count)));
    format!("Mean miss ratios by engine\n\n{table}\n")
}

fn one_table(outcomes: &[&Outcome]) -> Table {
    let fractions: BTreeSet<u64> = outcomes.iter().filter_map(|o| key(o.fraction)).collect();
    let mut rows: BTreeMap<&str, BTreeMap<u64, &Outcome>> = BTreeMap::new();
    for outcome in outcomes {
        if let Some(at) = key(outcome.fraction) {
            rows.entry(&outcome.trace).or_default().insert(at, outcome);
        }
    }
    let heads = fractions.iter().map(|at| format!("{} %", *at as f64 / 1e4));
    let mut table = Table::new(["trace".to_string()].into_iter().chain(heads).chain([
        "mean".to_string(),
        "copied".into(),
        "live".into(),
    ]));
    for (trace, row) in rows {
        let cells = fractions.iter().map(|at| match row.get(at) {
            Some(outcome) if outcome.simulated => format!("{:.4}*", outcome.miss_ratio),
            Some(outcome) => format!("{:.4}", outcome.miss_ratio),
            None => "–".into(),
        });
        let mean = |figure: &dyn Fn(&Outcome) -> Option<f64>| {
            let known: Vec<f64> = row.values().filter_map(|o| figure(o)).collect();
            match known.is_empty() {
                true => "–".into(),
                false => format!("{:.4}", known.iter().sum::<f64>() / known.len() as f64),
            }
        };
        let last = [
            mean(&|o| Some(o.miss_ratio)),
            mean(&|o| o.copied_bytes_per_inserted_byte),
            mean(&|o| o.live_share),
        ];
        table.row([trace.to_string()].into_iter().chain(cells).chain(last));
    }
    table
}

/// A fraction in parts of a million: exact for the sizes that are asked for.
pub fn key(fraction: Option<f64>) -> Option<u64> {
    fraction.map(|share| (share * 1e6).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(trace: &str, engine: &str, fraction: f64, miss_ratio: f64) -> Outcome {
        Outcome {
            trace: trace.into(),
            engine: engine.into(),
            sizes: "unit".into(),
            fraction: Some(fraction),
            miss_ratio,
            ..Outcome::default()
        }
    }

    #[test]
    fn sizes_stand_in_columns_and_what_was_not_run_is_a_dash() {
        let outcomes = [
            outcome("a", "x", 0.001, 0.9),
            outcome("a", "x", 0.4, 0.5),
            outcome("b", "x", 0.4, 0.25),
        ];
        let text = of(&outcomes);
        assert!(text.contains("| trace | 0.1 % | 40 % | mean |"), "{text}");
        assert!(text.contains("| a | 0.9000 | 0.5000 | 0.7000 |"), "{text}");
        assert!(text.contains("| b | – | 0.2500 | 0.2500 |"), "{text}");
        assert!(!text.contains("by engine"), "one engine is no comparison");
    }

    #[test]
    fn engines_are_compared_where_all_of_them_ran() {
        let outcomes = [
            outcome("a", "ours", 0.1, 0.5),
            outcome("a", "theirs", 0.1, 0.6),
            outcome("a", "ours", 0.4, 0.1),
            outcome("b", "ours", 0.1, 0.4004),
            outcome("b", "theirs", 0.1, 0.4),
        ];
        let text = of(&outcomes);
        assert!(text.contains("| a | 1 | **0.5000** | 0.6000 |"), "{text}");
        assert!(
            text.contains("| b | 1 | **0.4004** | **0.4000** |"),
            "{text}"
        );
        assert!(text.contains("| best or equal | 2 | 2 | 1 |"), "{text}");
    }
}
