//! What a list of runs amounts to: count, mean, variance, quantiles. Order is never changed in the caller's list.

use super::Undefined;
use serde::{Deserialize, Serialize};

/// Runs of one arm, summed up. All fields finite.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    pub n: usize,
    pub mean: f64,
    /// Of the sample (divided by n - 1); `None` for one run.
    pub variance: Option<f64>,
    pub median: f64,
    pub min: f64,
    pub max: f64,
}

impl Sample {
    /// Needs one run at least, and all of them finite.
    pub fn of(values: &[f64]) -> Result<Sample, Undefined> {
        if values.is_empty() {
            return Err(Undefined::TooFew { needed: 1, got: 0 });
        }
        check_finite(values)?;
        let n = values.len();
        let mean = mean(values);
        let variance = (n > 1).then(|| variance(values, mean));
        let sorted = sorted(values);
        let sample = Sample {
            n,
            mean,
            variance,
            median: quantile(&sorted, 0.5),
            min: sorted[0],
            max: sorted[n - 1],
        };
        // Figures near the end of f64's range overflow in a sum or a square; they are no measurements.
        if mean.is_finite() && variance.is_none_or(f64::is_finite) {
            Ok(sample)
        } else {
            Err(Undefined::Setting { value: sample.max })
        }
    }

    /// Needs two runs.
    pub fn spread(&self) -> Result<f64, Undefined> {
        self.variance.ok_or(Undefined::TooFew {
            needed: 2,
            got: self.n,
        })
    }

    /// Standard deviation; `None` for one run.
    pub fn sd(&self) -> Option<f64> {
        self.variance.map(f64::sqrt)
    }

    /// Coefficient of variation, percent of the mean; `None` for one run or a mean of zero.
    pub fn cv_percent(&self) -> Option<f64> {
        let cv = self.sd()? * 100.0 / self.mean.abs();
        cv.is_finite().then_some(cv)
    }
}

/// The first value that is NaN or infinite, if any.
pub(super) fn check_finite(values: &[f64]) -> Result<(), Undefined> {
    match values.iter().position(|value| !value.is_finite()) {
        Some(at) => Err(Undefined::NotFinite { at }),
        None => Ok(()),
    }
}

pub(super) fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// The mean, corrected once by the mean of what is left: exact to the last digit or two also for figures
/// that share a large offset.
fn mean(values: &[f64]) -> f64 {
    let n = values.len() as f64;
    let first = values.iter().map(|value| value / n).sum::<f64>();
    first + values.iter().map(|value| value - first).sum::<f64>() / n
}

/// Two passes, less the square of what rounding left in the mean.
fn variance(values: &[f64], mean: f64) -> f64 {
    let n = values.len() as f64;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let rest: f64 = values.iter().map(|value| value - mean).sum();
    ((squares - rest * rest / n) / (n - 1.0)).max(0.0)
}

/// The quantile at `share` (0..=1) of sorted figures, linear between neighbours (R's type 7, numpy's default).
/// NaN only for an empty list, which callers rule out.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_has_a_mean_and_no_spread() {
        let one = Sample::of(&[5.0]).unwrap();
        assert_eq!((one.n, one.mean, one.median), (1, 5.0, 5.0));
        assert_eq!(one.spread(), Err(Undefined::TooFew { needed: 2, got: 1 }));
        assert_eq!(one.cv_percent(), None);
    }

    #[test]
    fn what_is_no_number_is_named_by_its_place() {
        assert_eq!(
            Sample::of(&[1.0, f64::NAN]),
            Err(Undefined::NotFinite { at: 1 })
        );
        assert_eq!(
            Sample::of(&[f64::INFINITY]),
            Err(Undefined::NotFinite { at: 0 })
        );
        assert!(Sample::of(&[]).is_err());
        assert!(Sample::of(&[f64::MAX, -f64::MAX]).is_err());
    }

    #[test]
    fn a_large_offset_costs_no_digits() {
        let s = Sample::of(&[1e9 + 1.0, 1e9 + 2.0, 1e9 + 3.0, 1e9 + 6.0]).unwrap();
        assert_eq!(s.mean, 1e9 + 3.0);
        assert!((s.variance.unwrap() - 14.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        let v = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(quantile(&v, 0.0), 1.0);
        assert_eq!(quantile(&v, 0.5), 3.0);
        assert_eq!(quantile(&v, 0.25), 1.75);
        assert_eq!(quantile(&v, 1.0), 8.0);
    }
}
