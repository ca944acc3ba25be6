//! The Hodges-Lehmann shift: the median of all differences y - x, with the interval that Mann-Whitney's test,
//! turned round, gives. It answers "by how much" where the ranks answer "whether".

use super::distribution::normal_reach;
use super::interval::check_share;
use super::rank::{orders, Ranks};
use super::sample::{check_finite, quantile, sorted};
use super::{Interval, Undefined};

/// Pairs of runs beyond which the differences are not listed (8 MB): more runs than a campaign has.
const PAIRS_MAX: usize = 1_000_000;

/// The shift of y over x and its interval. Exact intervals carry the level they reach, which for very few runs is
/// less than asked: three against three reach 0.90, whatever was wanted.
pub fn hodges_lehmann(x: &[f64], y: &[f64], level: f64) -> Result<(f64, Interval), Undefined> {
    check_share(level)?;
    let ranks = Ranks::of(x, y)?;
    let pairs = x.len().saturating_mul(y.len());
    if pairs > PAIRS_MAX {
        return Err(Undefined::Setting {
            value: pairs as f64,
        });
    }
    let differences: Vec<f64> = y
        .iter()
        .flat_map(|y| x.iter().map(move |x| y - x))
        .collect();
    check_finite(&differences)?;
    let differences = sorted(&differences);
    let (rank, level) = if ranks.exact() {
        exact_rank(x.len(), y.len(), level)
    } else {
        let rank = (pairs as f64 / 2.0 - normal_reach(level) * ranks.sd()).floor();
        ((rank.max(1.0) as usize).min(pairs.div_ceil(2)), level)
    };
    let interval = Interval {
        low: differences[rank - 1],
        high: differences[pairs - rank],
        level,
    };
    Ok((quantile(&differences, 0.5), interval))
}

/// The difference to count in from each end, from 1, and the level that this reaches: the last rank with
/// P(U < rank) at most half of 1 - level.
fn exact_rank(nx: usize, ny: usize, level: f64) -> (usize, f64) {
    let counts = orders(nx, ny);
    let all = counts.iter().sum::<u128>() as f64;
    let tail = |below: u128| below as f64 / all;
    let mut below = counts[0];
    let mut rank = 1;
    while rank < counts.len().div_ceil(2) && tail(below + counts[rank]) <= (1.0 - level) / 2.0 {
        below += counts[rank];
        rank += 1;
    }
    (rank, (1.0 - 2.0 * tail(below)).max(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_against_three_reach_ninety_percent() {
        let (shift, interval) = hodges_lehmann(&[1.0, 2.0, 3.5], &[4.0, 6.25, 8.0], 0.95).unwrap();
        assert_eq!(shift, 4.25);
        assert_eq!((interval.low, interval.high), (0.5, 7.0));
        assert!((interval.level - 0.9).abs() < 1e-15);
    }

    #[test]
    fn one_against_one_is_a_shift_of_level_zero() {
        let (shift, interval) = hodges_lehmann(&[1.0], &[3.0], 0.95).unwrap();
        assert_eq!((shift, interval.low, interval.high), (2.0, 2.0, 2.0));
        assert_eq!(interval.level, 0.0);
    }
}
