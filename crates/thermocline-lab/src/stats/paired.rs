//! The paired test: arms compared within their blocks, for campaigns where the blocks differ more than the arms.

use super::distribution::{t_reach, t_two_sided};
use super::interval::check_share;
use super::{Interval, Sample, Undefined};
use serde::{Deserialize, Serialize};

/// Of the differences y - x, block by block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Paired {
    pub difference: Sample,
    pub t: f64,
    pub df: f64,
    /// Two-sided.
    pub p: f64,
    /// Of the mean of y - x.
    pub interval: Interval,
}

/// Pairs are (x, y) of one block each. Needs two blocks.
pub fn paired(pairs: &[(f64, f64)], level: f64) -> Result<Paired, Undefined> {
    check_share(level)?;
    let differences: Vec<f64> = pairs.iter().map(|(x, y)| y - x).collect();
    let scale = pairs
        .iter()
        .fold(0.0f64, |m, (x, y)| m.max(x.abs()).max(y.abs()));
    let difference = Sample::of(&differences)?;
    let standard_error = (difference.spread()? / difference.n as f64).sqrt();
    if standard_error <= 10.0 * f64::EPSILON * scale || standard_error < f64::MIN_POSITIVE {
        return Err(Undefined::NoVariance {
            difference: difference.mean,
        });
    }
    let df = (difference.n - 1) as f64;
    let t = difference.mean / standard_error;
    Ok(Paired {
        difference,
        t,
        df,
        p: t_two_sided(t, df),
        interval: Interval::around(difference.mean, t_reach(level, df) * standard_error, level),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_blocks_share_cancels() {
        let pairs = [(100.0, 101.0), (200.0, 202.0), (300.0, 303.5)];
        let p = paired(&pairs, 0.95).unwrap();
        assert!((p.difference.mean - 6.5 / 3.0).abs() < 1e-12);
        assert_eq!(p.df, 2.0);
        assert!(p.p > 0.05 && p.p < 0.15, "{}", p.p);
    }

    #[test]
    fn one_block_or_equal_differences_are_no_test() {
        assert_eq!(
            paired(&[(1.0, 2.0)], 0.95),
            Err(Undefined::TooFew { needed: 2, got: 1 })
        );
        assert_eq!(
            paired(&[(1.0, 2.0), (3.0, 4.0)], 0.95),
            Err(Undefined::NoVariance { difference: 1.0 })
        );
    }
}
