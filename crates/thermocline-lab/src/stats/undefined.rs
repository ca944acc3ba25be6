//! Why a figure does not exist. An answer of its own: never NaN, never zero, never a panic.

use std::fmt;

/// The reason a statistic has no value for the runs it was asked about.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Undefined {
    /// Fewer runs than the formula needs.
    TooFew { needed: usize, got: usize },
    /// Run number `at` (from 0) is NaN or infinite.
    NotFinite { at: usize },
    /// All runs read the same, so there is no noise to compare a difference with.
    NoVariance { difference: f64 },
    /// The baseline is not clearly away from zero, so a ratio to it has no bounded interval.
    RatioUnbounded,
    /// A level, share or bound outside its range.
    Setting { value: f64 },
}

impl fmt::Display for Undefined {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Undefined::TooFew { needed, got } => {
                write!(f, "needs {needed} runs, has {got}")
            }
            Undefined::NotFinite { at } => write!(f, "run {at} is not a finite number"),
            Undefined::NoVariance { difference: 0.0 } => {
                write!(f, "every run reads the same: no noise to compare with")
            }
            Undefined::NoVariance { difference } => write!(
                f,
                "no run varies (the arms differ by {difference}): no noise to compare with"
            ),
            Undefined::RatioUnbounded => {
                write!(
                    f,
                    "the baseline's interval reaches zero: a ratio to it is unbounded"
                )
            }
            Undefined::Setting { value } => write!(f, "{value} is outside its range"),
        }
    }
}

impl std::error::Error for Undefined {}
