//! Runs that lie far from their arm: flagged by rule, never dropped.

use super::sample::{check_finite, quantile, sorted};
use serde::{Deserialize, Serialize};

/// Fewer runs than this have no middle to lie far from.
const RUNS_MIN: usize = 5;
/// Beyond so many interquartile ranges outside the quartiles: Tukey's "far out".
const FENCE_RANGES: f64 = 3.0;
/// Iglewicz and Hoaglin's bound.
const MODIFIED_Z_MAX: f64 = 3.5;
/// Turns a median absolute deviation into a standard deviation of the normal.
const MAD_TO_Z: f64 = 0.6745;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutlierRule {
    /// More than 3 interquartile ranges outside the quartiles.
    TukeyFarOut,
    /// 0.6745 times the distance from the median over the median absolute deviation exceeds 3.5.
    ModifiedZ,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Place in the list that was given.
    pub at: usize,
    pub value: f64,
    pub rule: OutlierRule,
}

/// The runs either rule flags, in the order given; Tukey's name is used where both do. Nothing is flagged among
/// fewer than five runs or when a figure is not finite.
pub fn outliers(values: &[f64]) -> Vec<Outlier> {
    if values.len() < RUNS_MIN || check_finite(values).is_err() {
        return Vec::new();
    }
    let ordered = sorted(values);
    let (low, high) = (quantile(&ordered, 0.25), quantile(&ordered, 0.75));
    let reach = FENCE_RANGES * (high - low);
    let middle = quantile(&ordered, 0.5);
    let distances: Vec<f64> = ordered.iter().map(|v| (v - middle).abs()).collect();
    let mad = quantile(&sorted(&distances), 0.5);
    let rule = |value: f64| {
        // A range or deviation of zero calls every other value far: more than half the runs being equal is
        // the oddity then, not the one that differs.
        if reach > 0.0 && (value < low - reach || value > high + reach) {
            return Some(OutlierRule::TukeyFarOut);
        }
        (mad > 0.0 && MAD_TO_Z * (value - middle).abs() / mad > MODIFIED_Z_MAX)
            .then_some(OutlierRule::ModifiedZ)
    };
    values
        .iter()
        .enumerate()
        .filter_map(|(at, &value)| {
            Some(Outlier {
                at,
                value,
                rule: rule(value)?,
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_far_run_is_named_by_its_place() {
        let values = [10.0, 10.1, 30.0, 9.9, 10.2, 9.8, 10.0];
        let flagged = outliers(&values);
        assert_eq!(flagged.len(), 1);
        assert_eq!(
            (flagged[0].at, flagged[0].rule),
            (2, OutlierRule::TukeyFarOut)
        );
    }

    #[test]
    fn the_modified_z_sees_what_wide_fences_do_not() {
        // Quartiles 10 and 12, fences 4 and 18; MAD 1, so 17 is at 0.6745 * 6.
        let values = [9.0, 10.0, 10.0, 11.0, 11.0, 11.0, 12.0, 12.0, 17.0];
        assert_eq!(outliers(&values)[0].rule, OutlierRule::ModifiedZ);
    }

    #[test]
    fn few_equal_or_broken_runs_are_not_judged() {
        assert!(outliers(&[1.0, 1.0, 100.0]).is_empty());
        assert!(outliers(&[1.0, 1.0, 1.0, 1.0, 1.0, 2.0]).is_empty());
        assert!(outliers(&[1.0, 2.0, 3.0, 4.0, f64::NAN]).is_empty());
    }
}
