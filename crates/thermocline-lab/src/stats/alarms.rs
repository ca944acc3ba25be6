//! A/A arms: the same configuration under two names. Every "difference" among them is false, so their share is
//! what a verdict of this campaign is worth.

use super::interval::check_share;
use super::{Interval, Undefined};
use serde::{Deserialize, Serialize};
use statrs::function::beta::inv_beta_reg;

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlarmRate {
    pub alarms: usize,
    pub comparisons: usize,
    /// alarms / comparisons.
    pub rate: f64,
    /// Clopper and Pearson's, never too narrow: few comparisons say little.
    pub interval: Interval,
}

impl AlarmRate {
    /// Whether even the interval's low end lies above the rate that was promised.
    pub fn exceeds(&self, alpha: f64) -> bool {
        self.interval.low > alpha
    }
}

/// The realised rate of p below `alpha` among A/A comparisons. Needs one.
pub fn false_alarms(p: &[f64], alpha: f64, level: f64) -> Result<AlarmRate, Undefined> {
    check_share(alpha)?;
    check_share(level)?;
    super::sample::check_finite(p)?;
    let comparisons = p.len();
    if comparisons == 0 {
        return Err(Undefined::TooFew { needed: 1, got: 0 });
    }
    let alarms = p.iter().filter(|p| **p < alpha).count();
    let tail = (1.0 - level) / 2.0;
    let (hits, misses) = (alarms as f64, (comparisons - alarms) as f64);
    let low = match alarms {
        0 => 0.0,
        _ => inv_beta_reg(hits, misses + 1.0, tail),
    };
    let high = match comparisons - alarms {
        0 => 1.0,
        _ => inv_beta_reg(hits + 1.0, misses, 1.0 - tail),
    };
    Ok(AlarmRate {
        alarms,
        comparisons,
        rate: hits / comparisons as f64,
        interval: Interval { low, high, level },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_comparisons_say_little() {
        let rate = false_alarms(&[0.2, 0.6, 0.9], 0.05, 0.95).unwrap();
        assert_eq!((rate.alarms, rate.rate, rate.interval.low), (0, 0.0, 0.0));
        // 1 - 0.025^(1/3)
        assert!((rate.interval.high - 0.707_598_2).abs() < 1e-6);
        assert!(!rate.exceeds(0.05));
    }

    #[test]
    fn many_alarms_exceed_the_promise() {
        let p: Vec<f64> = (0..20).map(|i| if i < 8 { 0.01 } else { 0.5 }).collect();
        let rate = false_alarms(&p, 0.05, 0.95).unwrap();
        assert_eq!(rate.alarms, 8);
        assert!(rate.exceeds(0.05));
        assert!(false_alarms(&[], 0.05, 0.95).is_err());
        assert_eq!(
            false_alarms(&[0.01], 0.05, 0.95).unwrap().interval.high,
            1.0
        );
    }
}
