//! Everything the lab says about one pair of arms, computed once: the numbers a report prints and a verdict is
//! made of. Runs that did not complete are counted, ranked last, and never averaged.

use super::family::family_level;
use super::{
    fieller_percent, fisher_exact, hedges_g, hodges_lehmann, mann_whitney, seed_percent, tost,
    welch, Counted, Equivalence, Interval, MannWhitney, Sample, Undefined, Welch,
};
use serde::{Deserialize, Serialize};

/// Which way a metric is good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    #[default]
    Higher,
    Lower,
}

/// The runs of one arm.
#[derive(Clone, Copy, Debug, Default)]
pub struct Runs<'a> {
    /// In the order they were made; every one complete.
    pub values: &'a [f64],
    /// How many more were started and did not complete.
    pub did_not_complete: usize,
}

/// What was laid down before the runs were made.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Judgement {
    pub better: Better,
    /// The chance of a false claim in the whole family (0.05).
    pub alpha: f64,
    /// A smaller difference, percent of the baseline's mean, does not matter. `None`: equivalence is not asked.
    pub smallest_effect_percent: Option<f64>,
    /// Comparisons in the family.
    pub family: usize,
}

/// All figures are of the candidate over the baseline, except that `welch` is as R gives it (baseline minus
/// candidate).
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub baseline: Result<Sample, Undefined>,
    pub candidate: Result<Sample, Undefined>,
    /// Runs that did not complete: baseline, candidate.
    pub did_not_complete: [usize; 2],
    pub welch: Result<Welch, Undefined>,
    /// Percent of the baseline's mean, that mean taken as exact.
    pub seed_percent: Result<Interval, Undefined>,
    /// Percent by Fieller's theorem.
    pub fieller_percent: Result<Interval, Undefined>,
    /// Fieller's at the level at which all intervals of the family hold together.
    pub family_percent: Result<Interval, Undefined>,
    pub hedges_g: Result<f64, Undefined>,
    /// Over all runs; those that did not complete rank worst.
    pub rank: Result<MannWhitney, Undefined>,
    /// Hodges-Lehmann's, over complete runs, in the metric's unit.
    pub shift: Result<(f64, Interval), Undefined>,
    /// Baseline and candidate as counts, and Fisher's p, where every run of both reads 0 or 1 and both have two; runs
    /// that did not complete count as the worse of the two.
    pub counted: Option<(Counted, Counted, f64)>,
    /// `None` without a smallest effect of interest.
    pub equivalence: Option<Result<Equivalence, Undefined>>,
}

pub fn compare(baseline: Runs<'_>, candidate: Runs<'_>, judgement: &Judgement) -> Comparison {
    let (x, y) = (baseline.values, candidate.values);
    let level = 1.0 - judgement.alpha;
    let welch_at = |level| welch(x, y, level);
    let at_level = welch_at(level);
    let bound = |percent: f64| Ok(percent / 100.0 * Sample::of(x)?.mean.abs());
    Comparison {
        baseline: Sample::of(x),
        candidate: Sample::of(y),
        did_not_complete: [baseline.did_not_complete, candidate.did_not_complete],
        seed_percent: at_level.and_then(|w| seed_percent(&w)),
        fieller_percent: at_level.and_then(|w| fieller_percent(&w)),
        family_percent: welch_at(family_level(level, judgement.family))
            .and_then(|w| fieller_percent(&w)),
        hedges_g: at_level.and_then(|w| hedges_g(&w)),
        welch: at_level,
        rank: mann_whitney(
            &all_ranked(baseline, judgement.better),
            &all_ranked(candidate, judgement.better),
        ),
        shift: hodges_lehmann(x, y, level),
        counted: counted(baseline, candidate, judgement.better),
        equivalence: judgement
            .smallest_effect_percent
            .map(|percent| bound(percent).and_then(|bound| tost(x, y, bound, judgement.alpha))),
    }
}

impl Comparison {
    /// Fisher's where runs read 0 or 1, else Welch's.
    pub fn p(&self) -> Option<f64> {
        match self.counted {
            Some((_, _, p)) => Some(p),
            None => self.welch.ok().map(|w| w.p),
        }
    }
}

fn counted(
    baseline: Runs<'_>,
    candidate: Runs<'_>,
    better: Better,
) -> Option<(Counted, Counted, f64)> {
    let of = |runs: Runs<'_>| {
        let mut counted = Counted::of(runs.values)?;
        counted.runs += runs.did_not_complete;
        if better == Better::Lower {
            counted.ones += runs.did_not_complete;
        }
        (runs.values.len() >= 2).then_some(counted)
    };
    let (x, y) = (of(baseline)?, of(candidate)?);
    Some((x, y, fisher_exact(x, y)))
}

/// The runs with a worst possible figure for each that did not complete: right for ranks, meaningless in a mean.
fn all_ranked(runs: Runs<'_>, better: Better) -> Vec<f64> {
    let worst = match better {
        Better::Higher => f64::MIN,
        Better::Lower => f64::MAX,
    };
    let mut all = runs.values.to_vec();
    all.resize(all.len() + runs.did_not_complete, worst);
    all
}
