//! The looks of a group-sequential plan: whether enough is known to stop. The bounds are O'Brien and Fleming's; a
//! look asks every comparison of the experiment, and all must have crossed for the run to end.

use crate::experiment::plan::Kind;
use crate::experiment::{Comparison, Experiment};
use crate::point::{PointLine, Status, StoppedLine};
use crate::stats::{obrien_fleming, welch, Look};
use anyhow::{anyhow, Result};

/// Chance of a false alarm over all looks.
const ALPHA: f64 = 0.05;

/// The line to write if the run should end here. Looked at only when each arm has just reached a look's runs.
pub fn stop(experiment: &Experiment, points: &[PointLine]) -> Result<Option<StoppedLine>> {
    let Kind::Sequential { looks } = experiment.plan.kind else {
        return Ok(None);
    };
    let bounds = obrien_fleming(looks, experiment.plan.repeats, ALPHA)
        .map_err(|why| anyhow!("`plan.looks`: {why}"))?;
    let taken = |arm: &str| points.iter().filter(|point| point.arm == arm).count();
    let least = experiment
        .arms
        .iter()
        .map(|arm| taken(&arm.name))
        .min()
        .unwrap_or(0);
    let most = experiment
        .arms
        .iter()
        .map(|arm| taken(&arm.name))
        .max()
        .unwrap_or(0);
    let Some(look) = bounds
        .iter()
        .position(|look| look.runs == least && least == most)
    else {
        return Ok(None);
    };
    // The last look is the plan's own end.
    if look + 1 == looks {
        return Ok(None);
    }
    Ok(
        verdict(experiment, points, &bounds[look]).map(|reason| StoppedLine {
            look: look + 1,
            looks,
            repeats: least,
            p_bound: bounds[look].p,
            reason: format!(
                "stopped at look {} of {looks}, {least} runs an arm: {reason}",
                look + 1
            ),
        }),
    )
}

/// What was found, if every comparison has crossed the bound.
fn verdict(experiment: &Experiment, points: &[PointLine], look: &Look) -> Option<String> {
    let mut said = Vec::new();
    let asked = |comparison: &&Comparison| comparison.family != "A/A";
    for comparison in experiment.comparisons.iter().filter(asked) {
        let of = |arm: &str| -> Vec<f64> {
            points
                .iter()
                .filter(|point| point.arm == arm && point.status == Status::Ok)
                .filter_map(|point| point.metrics.get(&comparison.metric).copied())
                .collect()
        };
        let baseline = of(&comparison.baseline);
        for arm in &comparison.arms {
            let test = welch(&baseline, &of(arm), 0.95).ok()?;
            if test.p >= look.p {
                return None;
            }
            said.push(format!(
                "{} of `{arm}` differs, p = {:.2e}",
                comparison.metric, test.p
            ));
        }
    }
    (!said.is_empty()).then(|| said.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn experiment() -> Experiment {
        let text = r#"
question = "q"
[subject]
kind = "mock"
[[arm]]
name = "a"
[[arm]]
name = "b"
[plan]
repeats = 9
kind = "sequential"
[[compare]]
baseline = "a"
"#;
        Experiment::parse("looks", text).unwrap()
    }

    fn points(count: usize, apart: f64) -> Vec<PointLine> {
        let mut points = Vec::new();
        for index in 0..count {
            for (arm, base) in [("a", 100.0), ("b", 100.0 + apart)] {
                let rate = base + [0.0, 0.3, -0.2][index % 3];
                points.push(PointLine {
                    arm: arm.into(),
                    metrics: [("ops_per_s".to_string(), rate)].into(),
                    ..PointLine::default()
                });
            }
        }
        points
    }

    #[test]
    fn a_large_difference_stops_at_a_look_and_only_there() {
        let experiment = experiment();
        for count in 1..=9 {
            let stopped = stop(&experiment, &points(count, 50.0)).unwrap();
            assert_eq!(stopped.is_some(), count == 3 || count == 6, "{count} runs");
        }
        let stopped = stop(&experiment, &points(3, 50.0)).unwrap().unwrap();
        assert_eq!((stopped.look, stopped.looks, stopped.repeats), (1, 3, 3));
    }

    #[test]
    fn no_difference_goes_on_and_failed_points_do_not_count() {
        let experiment = experiment();
        assert!(stop(&experiment, &points(6, 0.0)).unwrap().is_none());
        let mut failed = points(3, 50.0);
        for point in &mut failed {
            point.status = Status::Failed;
        }
        assert!(stop(&experiment, &failed).unwrap().is_none());
    }
}
