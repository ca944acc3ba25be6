//! Welch's t-test: two means whose variances need not be alike. In the document of seed 000 they differ up to
//! fourteenfold between groups, so a pooled variance is never used.

use super::distribution::{t_reach, t_two_sided};
use super::interval::check_share;
use super::{Interval, Sample, Undefined};
use serde::{Deserialize, Serialize};

/// As R's `t.test(x, y)` gives it: `t` and `interval` are of mean(x) - mean(y).
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Welch {
    pub x: Sample,
    pub y: Sample,
    /// Of the difference of the means.
    pub standard_error: f64,
    pub t: f64,
    /// Welch and Satterthwaite's degrees of freedom, rarely whole.
    pub df: f64,
    /// Two-sided.
    pub p: f64,
    pub interval: Interval,
}

impl Welch {
    /// mean(y) - mean(x): what the candidate changes.
    pub fn change(&self) -> f64 {
        self.y.mean - self.x.mean
    }

    /// The change in percent of the baseline's mean; `None` where that is zero.
    pub fn change_percent(&self) -> Option<f64> {
        let percent = self.change() * 100.0 / self.x.mean;
        percent.is_finite().then_some(percent)
    }
}

/// `level` is that of the interval, such as 0.95. Needs two runs a side and some variance on one of them.
pub fn welch(x: &[f64], y: &[f64], level: f64) -> Result<Welch, Undefined> {
    check_share(level)?;
    if x.is_empty() || y.is_empty() {
        // A mean would need one; what is asked for here needs two.
        return Err(Undefined::TooFew { needed: 2, got: 0 });
    }
    let (x, y) = (Sample::of(x)?, Sample::of(y)?);
    let difference = x.mean - y.mean;
    let (standard_error, df) = standard_error(&x, &y)?;
    let t = difference / standard_error;
    Ok(Welch {
        x,
        y,
        standard_error,
        t,
        df,
        p: t_two_sided(t, df),
        interval: Interval::around(difference, t_reach(level, df) * standard_error, level),
    })
}

/// The mean of one arm with its own interval, for pictures: arms are compared by [`welch`], not by whether two such
/// intervals overlap. Needs two runs and some variance.
pub fn mean_interval(values: &[f64], level: f64) -> Result<(f64, Interval), Undefined> {
    check_share(level)?;
    let sample = Sample::of(values)?;
    let se = (sample.spread()? / sample.n as f64).sqrt();
    if se < f64::MIN_POSITIVE {
        return Err(Undefined::NoVariance { difference: 0.0 });
    }
    let half = t_reach(level, (sample.n - 1) as f64) * se;
    Ok((sample.mean, Interval::around(sample.mean, half, level)))
}

/// The standard error of mean(x) - mean(y), and its degrees of freedom.
pub(super) fn standard_error(x: &Sample, y: &Sample) -> Result<(f64, f64), Undefined> {
    let (nx, ny) = (x.n as f64, y.n as f64);
    let (a, b) = (x.spread()? / nx, y.spread()? / ny);
    let se = (a + b).sqrt();
    // The bound R uses: a spread of a few rounding errors is none.
    if se <= 10.0 * f64::EPSILON * x.mean.abs().max(y.mean.abs()) || se < f64::MIN_POSITIVE {
        return Err(Undefined::NoVariance {
            difference: y.mean - x.mean,
        });
    }
    // In shares of the sum: squares of tiny or huge variances would leave f64's range.
    let (a, b) = (a / (a + b), b / (a + b));
    Ok((se, 1.0 / (a * a / (nx - 1.0) + b * b / (ny - 1.0))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_runs_and_no_variance_have_answers() {
        let few = Err(Undefined::TooFew { needed: 2, got: 1 });
        assert_eq!(welch(&[1.0], &[2.0, 3.0], 0.95), few);
        assert_eq!(welch(&[1.0, 2.0], &[2.0], 0.95), few);
        assert_eq!(
            welch(&[5.0, 5.0], &[6.0, 6.0], 0.95),
            Err(Undefined::NoVariance { difference: 1.0 })
        );
        assert_eq!(
            welch(&[1.0, 2.0], &[1.0, 2.0], 1.0),
            Err(Undefined::Setting { value: 1.0 })
        );
    }

    #[test]
    fn one_arm_alone_has_an_interval() {
        let (mean, i) = mean_interval(&[1.0, 2.0, 3.0], 0.95).unwrap();
        // t(0.975, 2) = 4.302652..., over sqrt(3)
        assert_eq!(mean, 2.0);
        assert!((i.high - 2.0 - 4.302_652_729_911_275 / 3f64.sqrt()).abs() < 1e-9);
        assert!(mean_interval(&[1.0], 0.95).is_err() && mean_interval(&[1.0, 1.0], 0.95).is_err());
    }

    #[test]
    fn one_still_arm_leaves_the_other_to_judge_by() {
        let w = welch(&[5.0, 5.0, 5.0], &[6.0, 7.0, 8.0], 0.95).unwrap();
        assert_eq!(w.df, 2.0);
        assert!((w.t + 2.0 / (1.0f64 / 3.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn figures_of_any_size_keep_their_t() {
        let t = |scale: f64| {
            let x = [1.0 * scale, 2.0 * scale, 4.0 * scale];
            let y = [3.0 * scale, 5.0 * scale, 9.0 * scale];
            welch(&x, &y, 0.95).unwrap().t
        };
        for scale in [1e-150, 1e-9, 1e9, 1e150] {
            assert!((t(scale) / t(1.0) - 1.0).abs() < 1e-12, "scale {scale}");
        }
    }
}
