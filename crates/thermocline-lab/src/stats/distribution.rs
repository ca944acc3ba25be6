//! The distributions the tests lean on: a thin door to `statrs`, which agrees with scipy to 5e-14 when tails are
//! taken from the left. `1 - cdf(|t|)` would lose digits from p = 1e-10 and all of them below 1e-16.

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};
use statrs::function::gamma::checked_gamma_ur;

/// P(T <= t) with `df` degrees of freedom, df > 0.
pub(super) fn t_cdf(t: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::NAN, |law| law.cdf(t))
}

/// Two-sided p of a t statistic: 2 P(T <= -|t|).
pub(super) fn t_two_sided(t: f64, df: f64) -> f64 {
    (2.0 * t_cdf(-t.abs(), df)).min(1.0)
}

/// The t that a two-sided interval of this level reaches: the (1+level)/2 quantile.
/// Taken from the left tail and negated, so that levels near 1 keep their digits.
pub(super) fn t_reach(level: f64, df: f64) -> f64 {
    StudentsT::new(0.0, 1.0, df).map_or(f64::NAN, |law| -law.inverse_cdf((1.0 - level) / 2.0))
}

/// P(Z <= z) of the standard normal, by the incomplete gamma function: `statrs`' own erfc is good to 4e-11 only.
pub(super) fn normal_cdf(z: f64) -> f64 {
    if z.is_nan() {
        return f64::NAN;
    }
    let tail = match z * z / 2.0 {
        0.0 => 0.5,
        // Past 745 the tail is less than the smallest double.
        square if square > 745.0 => 0.0,
        square => 0.5 * checked_gamma_ur(0.5, square).unwrap_or(f64::NAN),
    };
    if z > 0.0 {
        1.0 - tail
    } else {
        tail
    }
}

/// The z a two-sided interval of this level reaches.
pub(super) fn normal_reach(level: f64) -> f64 {
    -Normal::standard().inverse_cdf((1.0 - level) / 2.0)
}
