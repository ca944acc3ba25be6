//! A confidence interval and the questions asked of it.

use super::Undefined;
use serde::{Deserialize, Serialize};

/// `low <= high`, both finite; `level` is the confidence it is given at (0.95), for exact rank intervals the
/// level really reached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
    pub level: f64,
}

impl Interval {
    /// `centre` plus and minus `half`.
    pub(super) fn around(centre: f64, half: f64, level: f64) -> Self {
        Interval {
            low: centre - half,
            high: centre + half,
            level,
        }
    }

    /// The interval of the negated quantity: of y - x from that of x - y.
    pub fn negated(self) -> Self {
        Interval {
            low: -self.high,
            high: -self.low,
            level: self.level,
        }
    }

    /// Multiplied by a factor of either sign.
    pub fn scaled(self, factor: f64) -> Self {
        let (a, b) = (self.low * factor, self.high * factor);
        Interval {
            low: a.min(b),
            high: a.max(b),
            level: self.level,
        }
    }

    /// Whether zero is strictly inside: then no direction is shown.
    pub fn straddles_zero(self) -> bool {
        self.low < 0.0 && self.high > 0.0
    }

    /// Whether all of it lies strictly between -bound and bound.
    pub fn within(self, bound: f64) -> bool {
        self.low > -bound && self.high < bound
    }
}

/// A confidence level or error rate: strictly between 0 and 1.
pub(super) fn check_share(value: f64) -> Result<f64, Undefined> {
    if value > 0.0 && value < 1.0 {
        Ok(value)
    } else {
        Err(Undefined::Setting { value })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn negation_and_scaling_keep_the_order_of_the_ends() {
        let i = Interval::around(1.0, 3.0, 0.95);
        assert_eq!((i.low, i.high), (-2.0, 4.0));
        assert_eq!((i.negated().low, i.negated().high), (-4.0, 2.0));
        assert_eq!((i.scaled(-1.0).low, i.scaled(-1.0).high), (-4.0, 2.0));
        assert!(i.straddles_zero() && !i.within(4.0) && i.within(4.1));
    }

    #[test]
    fn an_end_on_zero_is_not_straddling() {
        let i = Interval {
            low: 0.0,
            high: 1.0,
            level: 0.95,
        };
        assert!(!i.straddles_zero());
    }
}
