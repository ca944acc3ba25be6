//! The noncentral t distribution: what the t statistic does when there is a difference. The series of
//! incomplete betas by Lenth (Applied Statistics algorithm AS 243), summed from its largest terms on.

use super::distribution::normal_cdf;
use statrs::function::beta::checked_beta_reg;
use statrs::function::gamma::ln_gamma;

/// Beyond this the distribution is normal to every digit a plan needs, and the series long.
const SHIFT_MAX: f64 = 37.0;

/// P(T <= t) for `df` degrees of freedom and noncentrality `shift`; absolute error under 1e-10.
/// NaN only for a NaN argument or df <= 0.
pub fn noncentral_t_cdf(t: f64, df: f64, shift: f64) -> f64 {
    if t.is_nan() || shift.is_nan() || df.is_nan() || df <= 0.0 {
        return f64::NAN;
    }
    if t < 0.0 {
        return 1.0 - positive(-t, df, -shift);
    }
    positive(t, df, shift)
}

fn positive(t: f64, df: f64, shift: f64) -> f64 {
    if shift.abs() > SHIFT_MAX {
        // The mean and spread of T for large df and shift.
        return normal_cdf(
            (t * (1.0 - 1.0 / (4.0 * df)) - shift) / (1.0 + t * t / (2.0 * df)).sqrt(),
        );
    }
    let x = if t.is_finite() {
        t * t / (t * t + df)
    } else {
        1.0
    };
    let half = shift * shift / 2.0;
    let terms = (half + 10.0 * (half + 1.0).sqrt() + 40.0) as usize;
    let ln_half = half.max(f64::MIN_POSITIVE).ln();
    let sum: f64 = (0..terms)
        .map(|j| {
            let j = j as f64;
            let p = (-half + j * ln_half - ln_gamma(j + 1.0)).exp();
            let q =
                shift / std::f64::consts::SQRT_2 * (-half + j * ln_half - ln_gamma(j + 1.5)).exp();
            p * beta(x, j + 0.5, df / 2.0) + q * beta(x, j + 1.0, df / 2.0)
        })
        .sum();
    (normal_cdf(-shift) + sum / 2.0).clamp(0.0, 1.0)
}

/// The regularised incomplete beta; its arguments are in range by construction.
fn beta(x: f64, a: f64, b: f64) -> f64 {
    checked_beta_reg(a, b, x).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::distribution::t_cdf;

    #[test]
    fn without_a_shift_it_is_students() {
        for t in [-3.0, -0.5, 0.0, 1.0, 4.0] {
            for df in [1.0, 5.0, 38.0] {
                let (a, b) = (noncentral_t_cdf(t, df, 0.0), t_cdf(t, df));
                assert!((a - b).abs() < 1e-12, "t {t} df {df}: {a} {b}");
            }
        }
    }

    #[test]
    fn the_far_side_is_normal_and_in_range() {
        for shift in [-1e6, -40.0, 36.9, 37.1, 40.0, 1e6] {
            let p = noncentral_t_cdf(2.0, 10.0, shift);
            assert!((0.0..=1.0).contains(&p), "{shift}: {p}");
        }
        assert!(noncentral_t_cdf(2.0, 0.0, 1.0).is_nan());
        assert!((noncentral_t_cdf(f64::INFINITY, 5.0, 1.0) - 1.0).abs() < 1e-10);
    }
}
