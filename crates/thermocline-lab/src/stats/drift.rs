//! Drift: whether the machine itself changed while the campaign ran. Each run's residual from its arm's mean is
//! regressed on its place in the order, one slope for all arms (analysis of covariance).

use super::distribution::t_two_sided;
use super::Undefined;
use serde::{Deserialize, Serialize};

/// A run: where it lay in the order (index or seconds), its arm, its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Placed {
    pub position: f64,
    pub arm: usize,
    pub value: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Drift {
    /// Change of the figure per step of position.
    pub slope: f64,
    pub standard_error: f64,
    pub t: f64,
    /// Runs less arms less one.
    pub df: f64,
    /// Two-sided.
    pub p: f64,
    /// The slope over the whole campaign, percent of the overall mean; `None` where that is zero.
    pub percent_over_campaign: Option<f64>,
}

/// Needs one run more than arms plus one, and arms that were not each at one place.
pub fn drift(runs: &[Placed]) -> Result<Drift, Undefined> {
    for (at, run) in runs.iter().enumerate() {
        if !(run.position.is_finite() && run.value.is_finite()) {
            return Err(Undefined::NotFinite { at });
        }
    }
    let arms = Arm::of_all(runs);
    if runs.len() < arms.len() + 2 {
        return Err(Undefined::TooFew {
            needed: arms.len() + 2,
            got: runs.len(),
        });
    }
    let centred = |run: &Placed| {
        let arm = &arms[&run.arm];
        (run.position - arm.position, run.value - arm.value)
    };
    let (mut xx, mut xy, mut yy) = (0.0, 0.0, 0.0);
    for (x, y) in runs.iter().map(centred) {
        xx += x * x;
        xy += x * y;
        yy += y * y;
    }
    if !(xx > 0.0 && yy > 0.0 && xx.is_finite() && yy.is_finite()) {
        return Err(Undefined::NoVariance { difference: 0.0 });
    }
    let df = (runs.len() - arms.len() - 1) as f64;
    let slope = xy / xx;
    let rest: f64 = runs
        .iter()
        .map(centred)
        .map(|(x, y)| (y - slope * x).powi(2))
        .sum();
    let standard_error = (rest / df / xx).sqrt();
    // A perfect line has no error: then t is as large as f64 can say, and p zero.
    let t = (slope / standard_error).clamp(-f64::MAX, f64::MAX);
    let mean = runs.iter().map(|run| run.value).sum::<f64>() / runs.len() as f64;
    let percent = slope * span(runs) * 100.0 / mean.abs();
    Ok(Drift {
        slope,
        standard_error,
        t,
        df,
        p: if t.abs() < 1e150 {
            t_two_sided(t, df)
        } else {
            0.0
        },
        percent_over_campaign: percent.is_finite().then_some(percent),
    })
}

struct Arm {
    position: f64,
    value: f64,
}

impl Arm {
    /// The mean place and figure of each arm.
    fn of_all(runs: &[Placed]) -> std::collections::BTreeMap<usize, Arm> {
        let mut sums: std::collections::BTreeMap<usize, (f64, f64, f64)> = Default::default();
        for run in runs {
            let sum = sums.entry(run.arm).or_default();
            *sum = (sum.0 + run.position, sum.1 + run.value, sum.2 + 1.0);
        }
        sums.into_iter()
            .map(|(arm, (position, value, n))| {
                (
                    arm,
                    Arm {
                        position: position / n,
                        value: value / n,
                    },
                )
            })
            .collect()
    }
}

fn span(runs: &[Placed]) -> f64 {
    let positions = runs.iter().map(|run| run.position);
    let low = positions.clone().fold(f64::INFINITY, f64::min);
    positions.fold(f64::NEG_INFINITY, f64::max) - low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(position: f64, arm: usize, value: f64) -> Placed {
        Placed {
            position,
            arm,
            value,
        }
    }

    #[test]
    fn a_slope_under_two_arms_is_found() {
        let noise = [0.3, -0.2, 0.1, -0.4, 0.2, 0.0, -0.1, 0.1];
        let runs: Vec<Placed> = noise
            .iter()
            .enumerate()
            .map(|(i, n)| {
                run(
                    i as f64,
                    i % 2,
                    100.0 + 50.0 * (i % 2) as f64 + i as f64 + n,
                )
            })
            .collect();
        let d = drift(&runs).unwrap();
        assert!((d.slope - 1.0).abs() < 0.1 && d.p < 1e-4, "{d:?}");
        assert_eq!(d.df, 5.0);
        assert!(
            (d.percent_over_campaign.unwrap() - 5.5).abs() < 0.7,
            "{d:?}"
        );
    }

    #[test]
    fn a_difference_between_arms_is_not_drift() {
        // All of arm 0 first, then all of arm 1: only within an arm does order count.
        let runs = [
            run(0.0, 0, 10.0),
            run(1.0, 0, 11.0),
            run(2.0, 0, 10.0),
            run(3.0, 1, 20.0),
            run(4.0, 1, 21.0),
            run(5.0, 1, 20.0),
        ];
        assert!(drift(&runs).unwrap().p > 0.9);
    }

    #[test]
    fn too_little_to_regress_has_answers() {
        assert!(drift(&[]).is_err());
        assert!(drift(&[run(0.0, 0, 1.0), run(1.0, 0, 2.0)]).is_err());
        let still = [run(0.0, 0, 1.0), run(1.0, 0, 1.0), run(2.0, 0, 1.0)];
        assert_eq!(
            drift(&still),
            Err(Undefined::NoVariance { difference: 0.0 })
        );
        let line = [run(0.0, 0, 1.0), run(1.0, 0, 2.0), run(2.0, 0, 3.0)];
        let d = drift(&line).unwrap();
        assert!(d.p < 1e-6 && d.t.is_finite(), "{d:?}");
        assert!(drift(&[run(f64::NAN, 0, 1.0)]).is_err());
    }
}
