//! How many runs an arm needs, and what so many runs can show. Two arms of equal spread, the t-test two-sided,
//! the power exact by the noncentral t.

use super::distribution::t_reach;
use super::interval::check_share;
use super::{noncentral_t_cdf, Undefined};

/// A plan that asks for more runs than this per arm is refused: the effect is too small for the noise.
pub const RUNS_NEEDED_MAX: usize = 1_000_000;

/// The chance that `runs` per arm show a difference of `effect_percent` of the mean when runs vary by
/// `cv_percent` of it.
pub fn power(
    runs: usize,
    effect_percent: f64,
    cv_percent: f64,
    alpha: f64,
) -> Result<f64, Undefined> {
    check_share(alpha)?;
    for value in [effect_percent, cv_percent] {
        if !(value > 0.0 && value.is_finite()) {
            return Err(Undefined::Setting { value });
        }
    }
    if runs < 2 {
        return Err(Undefined::TooFew {
            needed: 2,
            got: runs,
        });
    }
    let df = 2.0 * runs as f64 - 2.0;
    let shift = effect_percent / cv_percent * (runs as f64 / 2.0).sqrt();
    let t = t_reach(1.0 - alpha, df);
    Ok(1.0 - noncentral_t_cdf(t, df, shift) + noncentral_t_cdf(-t, df, shift))
}

/// The fewest runs per arm whose [`power`] reaches `wanted`.
pub fn runs_needed(
    effect_percent: f64,
    cv_percent: f64,
    alpha: f64,
    wanted: f64,
) -> Result<usize, Undefined> {
    check_share(wanted)?;
    let enough = |runs| power(runs, effect_percent, cv_percent, alpha).map(|p| p >= wanted);
    let mut high = 2;
    while !enough(high)? {
        if high >= RUNS_NEEDED_MAX {
            return Err(Undefined::Setting {
                value: effect_percent,
            });
        }
        high = (high * 2).min(RUNS_NEEDED_MAX);
    }
    // More runs never have less power: halve the gap.
    let mut low = high / 2;
    while low + 1 < high {
        let middle = (low + high) / 2;
        if enough(middle)? {
            high = middle;
        } else {
            low = middle;
        }
    }
    Ok(high)
}

/// The smallest difference, percent of the mean, that `runs` per arm show with power `wanted`.
pub fn detectable_effect_percent(
    runs: usize,
    cv_percent: f64,
    alpha: f64,
    wanted: f64,
) -> Result<f64, Undefined> {
    check_share(wanted)?;
    let (mut low, mut high) = (0.0, cv_percent);
    while power(runs, high, cv_percent, alpha)? < wanted {
        high *= 2.0;
    }
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if power(runs, middle, cv_percent, alpha)? < wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_runs_needed() {
        let effects = [1.0, 2.0, 3.0, 5.0, 10.0];
        let table = [
            // 5 % at CV 0.6 %: two runs have power .97 (a ratio of 8.3; 10 % at 1.5 %, a ratio of 6.7, has .89).
            (0.6, [7, 3, 3, 2, 2]),
            (1.0, [17, 6, 4, 3, 2]),
            (1.5, [37, 10, 6, 3, 2]),
            (2.4, [92, 24, 12, 5, 3]),
            (5.0, [394, 100, 45, 17, 6]),
            (10.0, [1571, 394, 176, 64, 17]),
        ];
        for (cv, row) in table {
            let got = effects.map(|effect| runs_needed(effect, cv, 0.05, 0.8).unwrap());
            assert_eq!(got, row, "CV {cv} %");
        }
    }

    #[test]
    fn ten_runs_at_one_and_a_half_percent_show_two() {
        let effect = detectable_effect_percent(10, 1.5, 0.05, 0.8).unwrap();
        assert!((effect - 2.0).abs() < 0.05, "{effect}");
    }

    #[test]
    fn plans_that_cannot_be_are_refused() {
        assert!(power(1, 1.0, 1.0, 0.05).is_err());
        assert!(power(2, 0.0, 1.0, 0.05).is_err());
        assert!(power(2, 1.0, f64::NAN, 0.05).is_err());
        assert!(power(2, 1.0, 1.0, 1.5).is_err());
        assert!(runs_needed(1e-6, 50.0, 0.05, 0.8).is_err());
        assert!(detectable_effect_percent(1, 1.0, 0.05, 0.8).is_err());
    }
}
