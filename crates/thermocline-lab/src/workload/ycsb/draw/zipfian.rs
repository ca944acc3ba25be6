//! YCSB's zipfian draws: the closed form of Gray and others (1994) over a number of items that may grow, and the
//! scrambled form the shipped workloads ask for. Exact to YCSB's own quirks, which the comments name.
//! The lab's true zipf, for any exponent and without the quirks, is `workload::zipf`.

use super::super::key::hash;
use super::zeta::zeta;
use crate::workload::Random;

/// The exponent YCSB fixes.
pub const THETA: f64 = 0.99;

/// Items behind the scrambled form, whatever the table's size, and their zeta, which YCSB carries as a constant.
pub const SCRAMBLED_ITEMS: u64 = 10_000_000_001;
/// See [`SCRAMBLED_ITEMS`].
pub const SCRAMBLED_ZETA: f64 = 26.469_028_201_783_02;

/// Ranks 0..items, rank 0 the most popular.
#[derive(Clone, Debug)]
pub struct Zipfian {
    /// How many items the sum below counts.
    items: u64,
    /// How many it was made for: eta keeps dividing by this one after growth, as in YCSB.
    items_at_start: u64,
    zeta: f64,
    zeta_two: f64,
    eta: f64,
    second_below: f64,
}

impl Zipfian {
    /// Over `items` >= 1 items. Costs a sum of up to a million terms.
    pub fn new(items: u64) -> Self {
        Zipfian::with_zeta(items, zeta(1, items, THETA))
    }

    /// With the sum already known.
    pub fn with_zeta(items: u64, zeta_items: f64) -> Self {
        let mut zipfian = Zipfian {
            items,
            items_at_start: items,
            zeta: zeta_items,
            zeta_two: zeta(1, 2, THETA),
            eta: 0.0,
            second_below: 1.0 + 0.5f64.powf(THETA),
        };
        zipfian.settle();
        zipfian
    }

    fn settle(&mut self) {
        self.eta = (1.0 - (2.0 / self.items_at_start as f64).powf(1.0 - THETA))
            / (1.0 - self.zeta_two / self.zeta);
    }

    /// Counts new items; a smaller number than before is ignored, as in YCSB. Costs one term an item.
    pub fn grow(&mut self, items: u64) {
        if items > self.items {
            self.zeta += zeta(self.items + 1, items, THETA);
            self.items = items;
            self.settle();
        }
    }

    /// A rank below `items`, which is at most what was counted.
    #[inline]
    pub fn sample(&self, items: u64, random: &mut Random) -> u64 {
        let u = random.unit();
        let uz = u * self.zeta;
        if uz < 1.0 {
            return 0;
        }
        if uz < self.second_below {
            return 1;
        }
        (items as f64 * power(self.eta * u - self.eta + 1.0)) as u64
    }
}

/// x to YCSB's alpha, 1 / (1 - THETA), for x in 0..=1. That is 100 but for the last bits: nine multiplications, a fifth of the cost of
/// a logarithm and its exponential, and within 10^-13 of either.
#[inline]
fn power(x: f64) -> f64 {
    let two = x * x;
    let four = two * two;
    let eight = four * four;
    let sixteen = eight * eight;
    let twenty_five = sixteen * eight * x;
    let fifty = twenty_five * twenty_five;
    fifty * fifty
}

/// n mod d by multiplications: a division of 64 bits costs up to ten of them, and stands between two draws. Exact for
/// every n (D. Lemire and others, Faster remainder by direct computation, 2019).
#[derive(Clone, Copy, Debug)]
struct Modulo {
    divisor: u64,
    /// 2^128 / divisor, rounded up; 0 for 1.
    inverse: u128,
}

impl Modulo {
    fn new(divisor: u64) -> Self {
        Modulo {
            divisor,
            inverse: (u128::MAX / u128::from(divisor)).wrapping_add(1),
        }
    }

    #[inline]
    fn of(self, number: u64) -> u64 {
        let rest = self.inverse.wrapping_mul(u128::from(number));
        let divisor = u128::from(self.divisor);
        let low = (u128::from(rest as u64) * divisor) >> 64;
        (((rest >> 64) * divisor + low) >> 64) as u64
    }
}

/// Zipfian ranks of ten thousand million items, hashed onto the table: a zipf with a uniform floor.
#[derive(Clone, Debug)]
pub struct Scrambled {
    zipfian: Zipfian,
    first: u64,
    count: Modulo,
}

impl Scrambled {
    /// Over the key numbers `first..first + count`, count >= 1.
    pub fn new(first: u64, count: u64) -> Self {
        Scrambled {
            zipfian: Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA),
            first,
            count: Modulo::new(count),
        }
    }

    #[inline]
    pub fn sample(&self, random: &mut Random) -> u64 {
        let rank = self.zipfian.sample(SCRAMBLED_ITEMS, random);
        self.first + self.count.of(hash(rank).unsigned_abs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_follow_the_closed_form() {
        let zipfian = Zipfian::new(1000);
        let mut random = Random::new(5);
        let mut seen = vec![0u64; 1000];
        let draws = 1_000_000;
        for _ in 0..draws {
            seen[zipfian.sample(1000, &mut random) as usize] += 1;
        }
        let total = zeta(1, 1000, THETA);
        for rank in [0usize, 1] {
            let expected = draws as f64 / total / ((rank + 1) as f64).powf(THETA);
            let error = (seen[rank] as f64 - expected).abs() / expected;
            assert!(error < 0.01, "rank {rank}: {} for {expected}", seen[rank]);
        }
        assert!(seen.iter().all(|&count| count > 0));
    }

    #[test]
    fn powers_and_remainders_are_what_they_replace() {
        let mut random = Random::new(3);
        for _ in 0..100_000 {
            let x = 0.5 + 0.5 * random.unit();
            let exact = x.powf(1.0 / (1.0 - THETA));
            assert!((power(x) - exact).abs() <= 1e-12 * exact, "{x}");
            let (number, divisor) = (random.word(), random.word() >> (random.word() % 64));
            let divisor = divisor.max(1);
            assert_eq!(Modulo::new(divisor).of(number), number % divisor);
        }
        for (number, divisor) in [(0, 1), (u64::MAX, 1), (u64::MAX, u64::MAX), (7, u64::MAX)] {
            assert_eq!(Modulo::new(divisor).of(number), number % divisor);
        }
    }

    #[test]
    fn growth_adds_to_the_sum_and_shrinking_is_ignored() {
        let mut grown = Zipfian::new(1000);
        grown.grow(1500);
        let fresh = Zipfian::new(1500);
        assert!((grown.zeta - fresh.zeta).abs() < 1e-12);
        assert_ne!(grown.eta, fresh.eta, "YCSB keeps the first count in eta");
        grown.grow(10);
        assert_eq!(grown.items, 1500);
    }

    #[test]
    fn scrambled_stays_in_its_range() {
        let scrambled = Scrambled::new(100, 51);
        let mut random = Random::new(9);
        let mut seen = [0u32; 51];
        for _ in 0..20_000 {
            seen[(scrambled.sample(&mut random) - 100) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| count > 0), "{seen:?}");
    }
}
