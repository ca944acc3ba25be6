//! From numbers to a word. The rules, in order:
//!
//! 0. Runs that read 0 or 1 are counted, not averaged: rules 3 and 4 by Fisher's exact test, and nothing else.
//! 1. Fewer than two complete runs on a side, or no variance: refused, with the reason.
//! 2. Both one-sided tests pass against the smallest effect of interest: equivalent, also when the difference is
//!    significant; it is real, and too small to matter.
//! 3. p, adjusted over the family, is under alpha: better or worse, by the sign.
//! 4. Otherwise no difference is shown, which is not the claim that there is none.
//!
//! Where runs did not complete, 2 is not claimed, and 3 only if the ranks, with those runs last, say the same.

use super::{Better, Comparison, Judgement, Undefined};
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Better,
    Worse,
    NoDifferenceShown,
    Equivalent,
    Refused(Undefined),
}

impl Verdict {
    /// The word alone.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::NoDifferenceShown => "no difference shown",
            Verdict::Equivalent => "equivalent",
            Verdict::Refused(_) => "no conclusion",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Refused(Undefined::TooFew { got: 1, .. }) => write!(
                f,
                "no conclusion: one run an arm has no variance, so no interval"
            ),
            Verdict::Refused(reason) => write!(f, "no conclusion: {reason}"),
            verdict => f.write_str(verdict.word()),
        }
    }
}

/// `adjusted_p` is the comparison's p after Holm over its family.
pub fn judge(comparison: &Comparison, adjusted_p: Option<f64>, judgement: &Judgement) -> Verdict {
    let shown = adjusted_p.is_some_and(|p| p < judgement.alpha);
    if let Some((x, y, _)) = comparison.counted {
        return directed(shown, y.share() > x.share(), judgement.better);
    }
    let welch = match comparison.welch {
        Ok(welch) => welch,
        Err(reason) => return Verdict::Refused(reason),
    };
    let complete = comparison.did_not_complete == [0, 0];
    if complete && matches!(comparison.equivalence, Some(Ok(e)) if e.equivalent) {
        return Verdict::Equivalent;
    }
    let higher = welch.change() > 0.0;
    let borne_out = complete || ranks_agree(comparison, higher, judgement.alpha);
    directed(shown && borne_out, higher, judgement.better)
}

fn directed(shown: bool, higher: bool, better: Better) -> Verdict {
    match (shown, higher == (better == Better::Higher)) {
        (false, _) => Verdict::NoDifferenceShown,
        (true, true) => Verdict::Better,
        (true, false) => Verdict::Worse,
    }
}

fn ranks_agree(comparison: &Comparison, higher: bool, alpha: f64) -> bool {
    let runs = |sample: &Result<super::Sample, Undefined>, dnc: usize| {
        sample.map_or(0, |sample| sample.n) + dnc
    };
    let pairs = runs(&comparison.baseline, comparison.did_not_complete[0])
        * runs(&comparison.candidate, comparison.did_not_complete[1]);
    comparison
        .rank
        .is_ok_and(|rank| rank.p < alpha && (rank.u < pairs as f64 / 2.0) == higher)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::{compare, Runs};

    const LOW: [f64; 6] = [100.0, 101.0, 99.0, 100.4, 99.7, 100.2];

    fn ruled(x: &[f64], y: &[f64], dnc: [usize; 2], better: Better, effect: f64) -> Verdict {
        let judgement = Judgement {
            better,
            alpha: 0.05,
            smallest_effect_percent: Some(effect),
            family: 1,
        };
        let runs = |values, did_not_complete| Runs {
            values,
            did_not_complete,
        };
        let c = compare(runs(x, dnc[0]), runs(y, dnc[1]), &judgement);
        judge(&c, c.p(), &judgement)
    }

    fn raised(by: f64) -> [f64; 6] {
        LOW.map(|v| v + by)
    }

    #[test]
    fn the_four_words() {
        let better = |by, effect| ruled(&LOW, &raised(by), [0, 0], Better::Higher, effect);
        assert_eq!(better(5.0, 1.0), Verdict::Better);
        assert_eq!(better(-5.0, 1.0), Verdict::Worse);
        assert_eq!(better(0.3, 0.5), Verdict::NoDifferenceShown);
        assert_eq!(better(0.1, 2.0), Verdict::Equivalent);
        // Significant, and smaller than anybody cares for.
        assert_eq!(better(3.0, 10.0), Verdict::Equivalent);
        let lower = ruled(&LOW, &raised(-5.0), [0, 0], Better::Lower, 1.0);
        assert_eq!(lower, Verdict::Better);
    }

    #[test]
    fn runs_that_read_zero_or_one_are_counted() {
        let (none, all) = ([0.0; 6], [1.0; 6]);
        let killed = |x: &[f64], y: &[f64], dnc| ruled(x, y, dnc, Better::Lower, 10.0);
        assert_eq!(killed(&none, &all, [0, 0]), Verdict::Worse);
        assert_eq!(killed(&all, &none, [0, 0]), Verdict::Better);
        assert_eq!(killed(&none, &none, [0, 0]), Verdict::NoDifferenceShown);
        // Three against three cannot show it: p is a tenth.
        assert_eq!(
            killed(&none[..3], &all[..3], [0, 0]),
            Verdict::NoDifferenceShown
        );
        // Runs that die are as bad as the worse reading.
        assert_eq!(
            killed(&none, &none[..2], [0, 4]),
            Verdict::NoDifferenceShown
        );
        assert_eq!(killed(&none, &none[..2], [0, 9]), Verdict::Worse);
        assert!(matches!(
            killed(&none[..1], &all[..1], [0, 0]),
            Verdict::Refused(_)
        ));
    }

    #[test]
    fn one_run_an_arm_is_refused() {
        let verdict = ruled(&[74522.08], &[54919.10], [0, 0], Better::Higher, 1.0);
        assert!(verdict.to_string().contains("one run an arm"), "{verdict}");
        let still = ruled(&[3.0, 3.0], &[2.0, 2.0], [0, 0], Better::Higher, 1.0);
        assert!(matches!(
            still,
            Verdict::Refused(Undefined::NoVariance { .. })
        ));
        let broken = ruled(&[1.0, f64::NAN], &[2.0, 2.0], [0, 0], Better::Higher, 1.0);
        assert_eq!(broken, Verdict::Refused(Undefined::NotFinite { at: 1 }));
    }

    #[test]
    fn a_faster_arm_whose_runs_die_is_not_better() {
        let fast = raised(5.0);
        assert_eq!(
            ruled(&LOW, &fast, [0, 4], Better::Higher, 1.0),
            Verdict::NoDifferenceShown
        );
        // A death on the slow side only confirms the ranks.
        assert_eq!(
            ruled(&LOW, &fast, [1, 0], Better::Higher, 1.0),
            Verdict::Better
        );
        // Nor are arms equivalent of which one dies.
        assert_eq!(
            ruled(&LOW, &raised(0.1), [0, 1], Better::Higher, 2.0),
            Verdict::NoDifferenceShown
        );
    }
}
