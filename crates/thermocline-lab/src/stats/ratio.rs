//! Percent change with its interval, two ways: as the document of seed 000 prints it, which takes the baseline's
//! mean as exact, and Fieller's, which does not and is a little wider.

use super::distribution::t_reach;
use super::welch::standard_error;
use super::{Interval, Undefined, Welch};

/// The interval of y - x in percent of mean(x), the baseline taken as known exactly.
/// The document of seed 000 prints this one.
pub fn seed_percent(welch: &Welch) -> Result<Interval, Undefined> {
    let percent = welch.interval.negated().scaled(100.0 / welch.x.mean);
    if percent.low.is_finite() && percent.high.is_finite() {
        Ok(percent)
    } else {
        Err(Undefined::RatioUnbounded)
    }
}

/// Fieller's interval of 100 (mean(y) / mean(x) - 1), independent samples, Welch's degrees of freedom.
///
/// The relative changes c for which the difference from c mean(x) stays under t times its standard error,
/// `(d - c x)^2 <= t^2 (vy + (1 + c)^2 vx)`, lie between the roots of `a c^2 - 2 b c + e`. Solved for the change
/// and not for the ratio, whose first digits would cancel. Where `a <= 0` the baseline is not clearly away from
/// zero and the set is unbounded.
pub fn fieller_percent(welch: &Welch) -> Result<Interval, Undefined> {
    let (x, y) = (&welch.x, &welch.y);
    let (_, df) = standard_error(x, y)?;
    let t = t_reach(welch.interval.level, df);
    // In units of the baseline's mean: products of large means would leave f64's range.
    let unit = x.mean.abs();
    let sign = x.mean.signum();
    let d = welch.change() / unit;
    let square = |s: &super::Sample| -> Result<f64, Undefined> {
        Ok(t * t * (s.spread()? / unit / unit) / s.n as f64)
    };
    let (vx, vy) = (square(x)?, square(y)?);
    let (a, b, e) = (1.0 - vx, sign * d + vx, d * d - vx - vy);
    let discriminant = b * b - a * e;
    // `!(a > 0)` also catches what a mean of zero made of `unit`.
    if !(a > 0.0 && discriminant > 0.0 && discriminant.is_finite()) {
        return Err(Undefined::RatioUnbounded);
    }
    // The root of the larger size first, the other from the product of both: nothing cancels.
    let large = b + discriminant.sqrt().copysign(b);
    let (one, other) = (large / a * 100.0, e / large * 100.0);
    Ok(Interval {
        low: one.min(other),
        high: one.max(other),
        level: welch.interval.level,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::welch;

    #[test]
    fn fieller_is_wider_where_the_baseline_is_noisy() {
        let x = [90.0, 100.0, 110.0, 95.0, 105.0];
        let y = [119.0, 120.0, 121.0, 120.5, 119.5];
        let w = welch(&x, &y, 0.95).unwrap();
        let (seed, fieller) = (seed_percent(&w).unwrap(), fieller_percent(&w).unwrap());
        assert!(fieller.high - fieller.low > seed.high - seed.low);
    }

    #[test]
    fn a_baseline_around_zero_has_no_percentages() {
        let w = welch(&[-1.0, 1.0], &[3.0, 4.0], 0.95).unwrap();
        assert_eq!(seed_percent(&w), Err(Undefined::RatioUnbounded));
        assert_eq!(fieller_percent(&w), Err(Undefined::RatioUnbounded));
        let w = welch(&[-1.0, 1.1], &[3.0, 4.0], 0.95).unwrap();
        assert_eq!(fieller_percent(&w), Err(Undefined::RatioUnbounded));
    }

    #[test]
    fn a_negative_baseline_keeps_low_below_high() {
        let w = welch(&[-10.0, -11.0, -12.0], &[-5.0, -6.0, -5.5], 0.95).unwrap();
        let (seed, fieller) = (seed_percent(&w).unwrap(), fieller_percent(&w).unwrap());
        assert!(seed.low < seed.high && fieller.low < fieller.high);
        assert!(
            (seed.low + seed.high) / 2.0 < -45.0,
            "half as negative is 50 % less"
        );
    }
}
