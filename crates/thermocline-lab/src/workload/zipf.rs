//! Zipf ranks, exact for every exponent > 0: a draw is two words, two multiplications and two looks into a table.
//!
//! The ranks are cut into bands, each a 32nd as wide as its first rank is high and the first 63 one rank wide. A band
//! is chosen by its ranks times the weight of its first (Walker's alias method), a rank in it evenly, and that one is
//! kept with its own weight over the first's. All but one draw in fifty (exponent 0.99, 10^6 ranks) are kept by comparison with the
//! lightest rank of the band; only the others need a power. The table takes 15 KiB for 10^6 ranks and 24 KiB for 10^9.

use super::Random;

/// One over the width of a band in its first rank. Wider bands draw anew more often, narrower ones take more cache.
const BANDS_PER_E: u64 = 32;

/// Neighbouring ranks, and a column of the alias table.
#[derive(Clone, Debug)]
struct Band {
    /// Draws of this column below it are this band's, the others `other`'s.
    cut: u64,
    other: usize,
    /// Rank from 1.
    first: u64,
    ranks: u64,
    /// Chances up to this keep every rank of the band.
    sure: u64,
}

/// Ranks 0..n, rank r with weight (r + 1)^-exponent.
#[derive(Clone, Debug)]
pub struct Zipf {
    bands: Box<[Band]>,
    exponent: f64,
}

impl Zipf {
    /// `n` >= 1, `exponent` > 0 (1.0 included). Costs a power for each of some hundred bands.
    pub fn new(n: u64, exponent: f64) -> Self {
        assert!(n >= 1, "zipf needs at least one key");
        assert!(
            exponent > 0.0 && exponent.is_finite(),
            "zipf needs an exponent above 0; use `uniform` for 0"
        );
        let mut bands = Vec::new();
        let (mut first, mut left) = (1, n);
        while left > 0 {
            let ranks = (first / BANDS_PER_E).clamp(1, left);
            bands.push(Band {
                cut: u64::MAX,
                other: bands.len(),
                first,
                ranks,
                sure: keeping(first, first + (ranks - 1), exponent),
            });
            left -= ranks;
            first = first.saturating_add(ranks);
        }
        share_columns(&mut bands, exponent);
        Zipf {
            bands: bands.into(),
            exponent,
        }
    }

    /// The next rank, 0 the most popular.
    #[inline]
    pub fn sample(&self, random: &mut Random) -> u64 {
        loop {
            let (column, share) = split(random.word(), self.bands.len() as u64);
            let column = column as usize;
            let band = if share < self.bands[column].cut {
                column
            } else {
                self.bands[column].other
            };
            let band = &self.bands[band];
            let (place, chance) = split(random.word(), band.ranks);
            let rank = band.first + place;
            if chance <= band.sure || chance <= keeping(band.first, rank, self.exponent) {
                return rank - 1;
            }
        }
    }
}

/// A word as a number in 0..parts and what is left of it, evenly over 64 bits.
#[inline]
fn split(word: u64, parts: u64) -> (u64, u64) {
    let product = u128::from(word) * u128::from(parts);
    ((product >> 64) as u64, product as u64)
}

const TWO_TO_64: f64 = 18_446_744_073_709_551_616.0;

/// Chances up to this keep `rank` in the band that begins with `first`.
#[cold]
fn keeping(first: u64, rank: u64, exponent: f64) -> u64 {
    // The conversion stops at the largest word: the first rank is always kept.
    ((rank as f64 / first as f64).powf(-exponent) * TWO_TO_64) as u64
}

/// Gives each column of the table the mean mass: a light band's column is filled up by a heavy one.
fn share_columns(bands: &mut [Band], exponent: f64) {
    let mut masses: Vec<f64> = bands
        .iter()
        .map(|band| band.ranks as f64 * (band.first as f64).powf(-exponent))
        .collect();
    let mean = masses.iter().sum::<f64>() / bands.len() as f64;
    masses.iter_mut().for_each(|mass| *mass /= mean);
    let (mut light, mut heavy): (Vec<usize>, Vec<usize>) =
        (0..bands.len()).partition(|&at| masses[at] < 1.0);
    while let (Some(&giver), Some(taker)) = (heavy.last(), light.pop()) {
        bands[taker].cut = (masses[taker] * TWO_TO_64) as u64;
        bands[taker].other = giver;
        masses[giver] -= 1.0 - masses[taker];
        if masses[giver] < 1.0 {
            heavy.pop();
            light.push(giver);
        }
    }
    // What is left over differs from the mean by rounding only: its column is its own.
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of the sampled counts against the exact weights.
    fn chi_square(n: u64, exponent: f64, draws: u64) -> f64 {
        let zipf = Zipf::new(n, exponent);
        let mut random = Random::new(42);
        let mut seen = vec![0u64; n as usize];
        for _ in 0..draws {
            seen[zipf.sample(&mut random) as usize] += 1;
        }
        let total: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
        seen.iter()
            .enumerate()
            .map(|(rank, &count)| {
                let expected = draws as f64 * ((rank + 1) as f64).powf(-exponent) / total;
                (count as f64 - expected).powi(2) / expected
            })
            .sum()
    }

    #[test]
    fn ranks_follow_the_exact_weights() {
        // 99 degrees of freedom: mean 99, standard deviation 14.1; 155 is four of them above.
        for exponent in [0.5, 0.99, 1.0, 1.5] {
            let chi = chi_square(100, exponent, 400_000);
            assert!(chi < 155.0, "exponent {exponent}: chi-square {chi:.0}");
        }
    }

    /// What the table gives each rank, against the weights: no sampling, so no slack but rounding.
    #[test]
    fn the_table_gives_each_rank_its_weight() {
        for exponent in [0.01, 0.5, 0.99, 1.0, 1.5, 10.0] {
            let n = 5000;
            let zipf = Zipf::new(n, exponent);
            let columns = zipf.bands.len() as f64;
            let mut drawn = vec![0.0; zipf.bands.len()];
            for (at, band) in zipf.bands.iter().enumerate() {
                let own = band.cut as f64 / TWO_TO_64;
                drawn[at] += own / columns;
                drawn[band.other] += (1.0 - own) / columns;
            }
            let mut got = Vec::new();
            for (band, drawn) in zipf.bands.iter().zip(drawn) {
                for rank in band.first..band.first + band.ranks {
                    let kept = keeping(band.first, rank, exponent);
                    assert!(kept >= band.sure, "rank {rank} would be kept unseen");
                    got.push(drawn / band.ranks as f64 * kept as f64 / TWO_TO_64);
                }
            }
            assert_eq!(got.len() as u64, n);
            let kept: f64 = got.iter().sum();
            assert!(kept > 0.85, "{exponent}: {kept} of the draws are kept");
            let total: f64 = (1..=n).map(|k| (k as f64).powf(-exponent)).sum();
            for (rank, got) in (1..).zip(got) {
                let exact = f64::from(rank).powf(-exponent) / total;
                let error = (got / kept - exact).abs();
                assert!(error < 1e-12, "exponent {exponent}, rank {rank}: {error:e}");
            }
        }
    }

    #[test]
    fn one_key_and_a_huge_space_stay_in_range() {
        let mut random = Random::new(1);
        assert_eq!(Zipf::new(1, 0.99).sample(&mut random), 0);
        let huge = Zipf::new(1 << 40, 0.99);
        assert!((0..10_000).all(|_| huge.sample(&mut random) < 1 << 40));
        // Half of a zipf 1 over n lies below the root of n, but for a constant: the far bands are reached.
        let far = (0..10_000).filter(|_| huge.sample(&mut random) >= 1 << 20);
        assert!((4500..5500).contains(&far.count()));
        let all = Zipf::new(u64::MAX, 0.1);
        assert!((0..1000).any(|_| all.sample(&mut random) > 1 << 62));
    }

    #[test]
    fn the_seeded_sequence_is_fixed() {
        let zipf = Zipf::new(1_000_000, 0.99);
        let mut random = Random::new(7);
        let ranks: Vec<u64> = (0..8).map(|_| zipf.sample(&mut random)).collect();
        assert_eq!(ranks, [737, 306723, 1541, 1855, 0, 0, 383811, 199159]);
    }
}
