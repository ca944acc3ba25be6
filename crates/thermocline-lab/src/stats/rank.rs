//! Mann-Whitney's U: whether one arm's runs tend to lie above the other's, whatever their distribution.
//! Exact while both arms have at most [`EXACT_RUNS_MAX`] runs and no value occurs twice; else normal, corrected
//! for ties and continuity.

use super::distribution::normal_cdf;
use super::sample::{check_finite, sorted};
use super::Undefined;
use serde::{Deserialize, Serialize};

/// The exact distribution counts orders in 128 bits: 100 over 50 is 1.0e29.
pub const EXACT_RUNS_MAX: usize = 50;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RankMethod {
    Exact,
    Normal,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MannWhitney {
    /// Pairs in which x lies above y; an equal pair counts a half.
    pub u: f64,
    /// Two-sided.
    pub p: f64,
    pub method: RankMethod,
}

/// Needs one run a side. With all figures equal there is nothing to rank.
pub fn mann_whitney(x: &[f64], y: &[f64]) -> Result<MannWhitney, Undefined> {
    let ranks = Ranks::of(x, y)?;
    let pairs = (x.len() * y.len()) as f64;
    let (p, method) = if ranks.exact() {
        // Without ties U is whole.
        let least = ranks.u.min(pairs - ranks.u) as usize;
        let counts = orders(x.len(), y.len());
        let below: u128 = counts[..=least].iter().sum();
        let all: u128 = counts.iter().sum();
        (2.0 * (below as f64 / all as f64), RankMethod::Exact)
    } else {
        let sd = ranks.sd();
        if sd == 0.0 {
            return Err(Undefined::NoVariance { difference: 0.0 });
        }
        let z = ((ranks.u - pairs / 2.0).abs() - 0.5) / sd;
        (2.0 * normal_cdf(-z), RankMethod::Normal)
    };
    Ok(MannWhitney {
        u: ranks.u,
        p: p.min(1.0),
        method,
    })
}

/// U, the sizes, and how much is tied.
pub(super) struct Ranks {
    nx: usize,
    ny: usize,
    u: f64,
    /// Sum of t^3 - t over groups of t equal values.
    tied: f64,
}

impl Ranks {
    pub fn of(x: &[f64], y: &[f64]) -> Result<Ranks, Undefined> {
        check_finite(x)?;
        check_finite(y)?;
        let (nx, ny) = (x.len(), y.len());
        if nx.min(ny) < 1 {
            return Err(Undefined::TooFew { needed: 1, got: 0 });
        }
        let (xs, ys) = (sorted(x), sorted(y));
        let (below, at_or_below) = xs.iter().fold((0, 0), |(less, most), value| {
            (
                less + ys.partition_point(|other| other < value),
                most + ys.partition_point(|other| other <= value),
            )
        });
        let all = sorted(&[x, y].concat());
        let tied = all
            .chunk_by(|a, b| a == b)
            .map(|group| (group.len() as f64).powi(3) - group.len() as f64)
            .sum();
        Ok(Ranks {
            nx,
            ny,
            u: (below + at_or_below) as f64 / 2.0,
            tied,
        })
    }

    pub fn exact(&self) -> bool {
        self.tied == 0.0 && self.nx.max(self.ny) <= EXACT_RUNS_MAX
    }

    /// Of U under no difference, corrected for ties.
    pub fn sd(&self) -> f64 {
        let (nx, ny) = (self.nx as f64, self.ny as f64);
        let n = nx + ny;
        (nx * ny / 12.0 * ((n + 1.0) - self.tied / (n * (n - 1.0)))).sqrt()
    }
}

/// How many orders of nx + ny distinct figures give each U from 0 to nx ny: the coefficients of the Gaussian
/// binomial, product over i of (1 - q^(ny+i)) / (1 - q^i).
pub(super) fn orders(nx: usize, ny: usize) -> Vec<u128> {
    let mut counts = vec![0u128; nx * ny + 1];
    counts[0] = 1;
    for i in 1..=nx {
        for u in (ny + i..counts.len()).rev() {
            counts[u] = counts[u].wrapping_sub(counts[u - ny - i]);
        }
        for u in i..counts.len() {
            counts[u] = counts[u].wrapping_add(counts[u - i]);
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_cases_counted_by_hand() {
        assert_eq!(orders(2, 2), [1, 1, 2, 1, 1]);
        assert_eq!(orders(1, 3), [1, 1, 1, 1]);
        let m = mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]).unwrap();
        assert_eq!((m.u, m.method), (0.0, RankMethod::Exact));
        assert!((m.p - 0.1).abs() < 1e-15);
    }

    #[test]
    fn the_largest_exact_case_counts_every_order() {
        let all: u128 = orders(50, 50).iter().sum();
        assert_eq!(all, 100_891_344_545_564_193_334_812_497_256);
    }

    #[test]
    fn ties_go_to_the_normal_and_equal_figures_to_no_answer() {
        let m = mann_whitney(&[1.0, 2.0, 2.0], &[2.0, 3.0, 4.0]).unwrap();
        assert_eq!((m.u, m.method), (1.0, RankMethod::Normal));
        assert_eq!(
            mann_whitney(&[2.0, 2.0], &[2.0]),
            Err(Undefined::NoVariance { difference: 0.0 })
        );
        assert!(mann_whitney(&[], &[1.0]).is_err());
        assert_eq!(
            mann_whitney(&[1.0], &[f64::NAN]),
            Err(Undefined::NotFinite { at: 0 })
        );
    }
}
