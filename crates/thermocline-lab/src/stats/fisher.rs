//! Fisher's exact test: runs that end one way or the other (killed or not), where there is no mean to speak of.

/// Runs of one arm that read only 0 or 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// Runs that read 1.
    pub ones: usize,
    pub runs: usize,
}

impl Counted {
    /// `None` when a value is neither 0 nor 1, or when there is none.
    pub fn of(values: &[f64]) -> Option<Counted> {
        let counted =
            !values.is_empty() && values.iter().all(|&value| value == 0.0 || value == 1.0);
        counted.then(|| Counted {
            ones: values.iter().filter(|&&value| value == 1.0).count(),
            runs: values.len(),
        })
    }

    pub fn share(self) -> f64 {
        self.ones as f64 / self.runs.max(1) as f64
    }
}

/// Two-sided p of the two arms being alike: all tables with the same margins that are no likelier than this one
/// (R. A. Fisher 1922; the rule of R's `fisher.test` and scipy's `fisher_exact`).
pub fn fisher_exact(x: Counted, y: Counted) -> f64 {
    let ones = x.ones + y.ones;
    let least = ones.saturating_sub(y.runs);
    let most = ones.min(x.runs);
    // Logarithms of the ways to draw: the common divisor cancels.
    let ways = |at: usize| ln_choose(x.runs, at) + ln_choose(y.runs, ones - at);
    let seen = ways(x.ones);
    let top = (least..=most).map(ways).fold(f64::MIN, f64::max);
    let weight = |at: usize| (ways(at) - top).exp();
    // Equal ways may differ in the last digits.
    let unlikely = |at: &usize| ways(*at) <= seen + 1e-7;
    let sum: f64 = (least..=most).filter(unlikely).map(weight).sum();
    let all: f64 = (least..=most).map(weight).sum();
    (sum / all).min(1.0)
}

fn ln_choose(n: usize, k: usize) -> f64 {
    (0..k).map(|i| ((n - i) as f64 / (i + 1) as f64).ln()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(x: (usize, usize), y: (usize, usize)) -> f64 {
        let counted = |(ones, runs)| Counted { ones, runs };
        fisher_exact(counted(x), counted(y))
    }

    #[test]
    fn by_hand() {
        // None of six against all six: two of the 924 ways to draw are as unlikely.
        assert!((p((0, 6), (6, 6)) - 2.0 / 924.0).abs() < 1e-15);
        assert_eq!(p((0, 6), (0, 6)), 1.0);
        assert!((p((0, 3), (3, 3)) - 0.1).abs() < 1e-15);
        // The lady tasting tea: three of four right.
        assert!((p((3, 4), (1, 4)) - 34.0 / 70.0).abs() < 1e-14);
    }

    #[test]
    fn only_zeros_and_ones_are_counted() {
        assert_eq!(
            Counted::of(&[0.0, 1.0, 1.0]),
            Some(Counted { ones: 2, runs: 3 })
        );
        assert_eq!(Counted::of(&[0.0, 0.5]), None);
        assert_eq!(Counted::of(&[f64::NAN]), None);
        assert_eq!(Counted::of(&[]), None);
    }
}
