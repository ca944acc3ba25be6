//! The live curve against the truth: what each run's curve foretold of another size, beside what the engine then did
//! at that size. Blind: a run ends, and its curve is written down, before it could know of any other.

use super::outcome::Outcome;
use super::table::key;
use crate::report::Table;
use std::collections::BTreeMap;

/// One comparison.
#[derive(Clone, Debug, PartialEq)]
pub struct Pair {
    pub trace: String,
    pub fraction: f64,
    pub factor: f64,
    pub is_far: bool,
    /// Foretold minus true, points.
    pub off: f64,
}

/// What makes two runs comparable over sizes.
fn alike(outcome: &Outcome) -> (&str, &str, &str, &str, u32) {
    (
        &outcome.trace,
        &outcome.sizes,
        &outcome.policy,
        &outcome.objective,
        outcome.segments_asked,
    )
}

/// Every size that one run foretold and another ran. The size a curve was taken at is left out: there it is
/// given the truth.
pub fn pairs(outcomes: &[Outcome]) -> Vec<Pair> {
    let mut pairs = Vec::new();
    for told in outcomes
        .iter()
        .filter(|o| !o.simulated && o.overwrite_hits == 0.0)
    {
        for foretold in told.curve.iter().filter(|foretold| foretold.factor != 1.0) {
            let there = told.fraction.map(|fraction| fraction * foretold.factor);
            let run = outcomes.iter().find(|o| {
                key(o.fraction) == key(there)
                    && there.is_some()
                    && !o.simulated
                    && o.overwrite_hits == 0.0
                    && alike(o) == alike(told)
            });
            if let Some(run) = run {
                pairs.push(Pair {
                    trace: told.trace.clone(),
                    fraction: told.fraction.unwrap_or(0.0),
                    factor: foretold.factor,
                    is_far: foretold.is_far,
                    off: (foretold.miss_ratio - run.miss_ratio) * 100.0,
                });
            }
        }
    }
    pairs
}

/// Mean and largest error by trace; nothing where no size was foretold.
pub fn report(pairs: &[Pair]) -> String {
    if pairs.is_empty() {
        return String::new();
    }
    let mut text = String::new();
    for (is_far, what) in [
        (false, "a quarter to four times the cache"),
        (true, "beyond, by an LRU curve"),
    ] {
        let of_kind: Vec<&Pair> = pairs.iter().filter(|pair| pair.is_far == is_far).collect();
        if of_kind.is_empty() {
            continue;
        }
        let mut by_trace: BTreeMap<&str, Vec<&Pair>> = BTreeMap::new();
        for pair in &of_kind {
            by_trace.entry(&pair.trace).or_default().push(pair);
        }
        let mut table = Table::new([
            "trace",
            "sizes foretold",
            "mean error, points",
            "largest",
            "where",
        ]);
        let mut row = |name: &str, of_it: &[&Pair]| {
            let mean = of_it.iter().map(|pair| pair.off.abs()).sum::<f64>() / of_it.len() as f64;
            let worst = of_it
                .iter()
                .max_by(|a, b| a.off.abs().total_cmp(&b.off.abs()));
            let place = worst.map_or(String::new(), |pair| {
                format!(
                    "{} at {:.2} % x {}",
                    pair.trace,
                    pair.fraction * 100.0,
                    pair.factor
                )
            });
            table.row([
                name.to_string(),
                of_it.len().to_string(),
                format!("{mean:.2}"),
                format!("{:+.2}", worst.map_or(0.0, |pair| pair.off)),
                place,
            ]);
        };
        for (trace, of_it) in &by_trace {
            row(trace, of_it);
        }
        row("all", &of_kind);
        text += &format!("\nLive curve against the engine at those sizes: {what}\n\n{table}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::super::outcome::Foretold;
    use super::*;

    fn run(fraction: f64, miss_ratio: f64, curve: &[(f64, f64)]) -> Outcome {
        let foretold = |&(factor, miss_ratio): &(f64, f64)| Foretold {
            factor,
            miss_ratio,
            is_far: factor > 4.0,
        };
        Outcome {
            trace: "a".into(),
            fraction: Some(fraction),
            miss_ratio,
            curve: curve.iter().map(foretold).collect(),
            ..Outcome::default()
        }
    }

    #[test]
    fn what_was_foretold_is_held_against_the_run_of_that_size() {
        let outcomes = [
            run(0.1, 0.40, &[(1.0, 0.40), (2.0, 0.31), (4.0, 0.2)]),
            run(0.2, 0.30, &[(0.5, 0.42), (8.0, 0.1)]),
            run(1.6, 0.15, &[]),
        ];
        let pairs = pairs(&outcomes);
        let off: Vec<i64> = pairs
            .iter()
            .map(|pair| (pair.off * 10.0).round() as i64)
            .collect();
        assert_eq!(
            off,
            [10, 20, -50],
            "no run at four times, none for its own size"
        );
        let report = report(&pairs);
        assert!(
            report.contains("| all | 2 | 1.50 | +2.00 | a at 20.00 % x 0.5 |"),
            "{report}"
        );
        assert!(report.contains("by an LRU curve"));
        assert_eq!(super::report(&[]), "");
    }
}
