//! Two one-sided tests: "no difference" as a claim with an error rate, instead of the absence of one.

use super::distribution::{t_cdf, t_reach};
use super::interval::check_share;
use super::welch::standard_error;
use super::{Interval, Sample, Undefined};
use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Equivalence {
    /// The difference that does not matter, in the metric's unit.
    pub bound: f64,
    /// The larger of the two one-sided p.
    pub p: f64,
    /// Of mean(y) - mean(x) at 1 - 2 alpha: equivalent when it lies within the bound.
    pub interval: Interval,
    pub equivalent: bool,
}

/// Whether y differs from x by less than `bound` either way, at error rate `alpha`, with Welch's error and
/// degrees of freedom. Equal to asking whether the 1 - 2 alpha interval lies inside the bounds.
pub fn tost(x: &[f64], y: &[f64], bound: f64, alpha: f64) -> Result<Equivalence, Undefined> {
    check_share(2.0 * alpha)?;
    if !(bound > 0.0 && bound.is_finite()) {
        return Err(Undefined::Setting { value: bound });
    }
    let (x, y) = (Sample::of(x)?, Sample::of(y)?);
    let (se, df) = standard_error(&x, &y)?;
    let change = y.mean - x.mean;
    let above = t_cdf(-(change + bound) / se, df);
    let below = t_cdf((change - bound) / se, df);
    let p = above.max(below);
    let level = 1.0 - 2.0 * alpha;
    Ok(Equivalence {
        bound,
        p,
        interval: Interval::around(change, t_reach(level, df) * se, level),
        equivalent: p < alpha,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_and_the_tests_agree() {
        let x = [100.0, 101.0, 99.0, 100.5, 99.5];
        let y = [100.2, 100.9, 99.3, 100.6, 99.6];
        for bound in [0.3, 0.5, 0.9, 1.2, 5.0] {
            let e = tost(&x, &y, bound, 0.05).unwrap();
            assert_eq!(e.equivalent, e.interval.within(bound), "bound {bound}");
        }
        assert!(tost(&x, &y, 5.0, 0.05).unwrap().equivalent);
        assert!(!tost(&x, &y, 0.3, 0.05).unwrap().equivalent);
    }

    #[test]
    fn a_bound_of_nothing_is_refused() {
        let (x, y) = ([1.0, 2.0], [1.0, 3.0]);
        for bound in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(tost(&x, &y, bound, 0.05).is_err());
        }
        assert!(tost(&x, &y, 1.0, 0.5).is_err());
    }
}
