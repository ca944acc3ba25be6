//! Statistics between runs: pure functions from figures to verdicts.
//!
//! One complete run is one observation: windows within a run are never mixed in. In every two-sample function
//! `x` is the baseline and `y` the candidate.
//!
//! - `sample`, `interval`, `undefined`: what a list of runs amounts to, and why it may amount to nothing
//! - `welch`, `paired`, `ratio`, `effect`: means compared, in units, in percent, in standard deviations
//! - `rank`, `shift`: Mann-Whitney and Hodges-Lehmann, which trust no mean
//! - `fisher`: runs that read 0 or 1, where there is no mean
//! - `family`, `equivalence`, `comparison`, `verdict`: from many tests to words
//! - `power`, `noncentral`, `sequential`: how many runs, and when one may look
//! - `drift`, `alarms`, `outlier`: whether the campaign itself can be trusted
//!
//! What must hold: no function panics or returns NaN for any input; what has no answer is an [`Undefined`] that
//! says why. Formulas and sources: docs/statistics.md.

mod alarms;
mod comparison;
mod distribution;
mod drift;
mod effect;
mod equivalence;
mod family;
mod fisher;
mod interval;
mod noncentral;
mod outlier;
mod paired;
mod power;
mod rank;
mod ratio;
mod sample;
mod sequential;
mod shift;
mod undefined;
mod verdict;
mod welch;

pub use alarms::{false_alarms, AlarmRate};
pub use comparison::{compare, Better, Comparison, Judgement, Runs};
pub use drift::{drift, Drift, Placed};
pub use effect::hedges_g;
pub use equivalence::{tost, Equivalence};
pub use family::{benjamini_hochberg, family_level, holm};
pub use fisher::{fisher_exact, Counted};
pub use interval::Interval;
pub use noncentral::noncentral_t_cdf;
pub use outlier::{outliers, Outlier, OutlierRule};
pub use paired::{paired, Paired};
pub use power::{detectable_effect_percent, power, runs_needed, RUNS_NEEDED_MAX};
pub use rank::{mann_whitney, MannWhitney, RankMethod};
pub use ratio::{fieller_percent, seed_percent};
pub use sample::{quantile, Sample};
pub use sequential::{obrien_fleming, Look, LOOKS_MAX};
pub use shift::hodges_lehmann;
pub use undefined::Undefined;
pub use verdict::{judge, Verdict};
pub use welch::{mean_interval, welch, Welch};
