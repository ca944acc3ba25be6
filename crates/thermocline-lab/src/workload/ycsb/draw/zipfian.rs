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
        self.rank(u, self.tail(u, items))
    }

    /// Where `u` falls among the ranks from 2 on, before it is rounded down.
    #[inline]
    fn tail(&self, u: f64, items: u64) -> f64 {
        items as f64 * power(self.eta * u - self.eta + 1.0)
    }

    /// The rank of `u`, whose tail is known. Chosen without a jump: nobody can foresee which.
    #[inline]
    fn rank(&self, u: f64, tail: f64) -> u64 {
        let uz = u * self.zeta;
        if uz < self.second_below {
            u64::from(uz >= 1.0)
        } else {
            // Counts are below 2^63, and to a signed number it is one instruction.
            tail as i64 as u64
        }
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

/// n mod d by multiplications: a division of 64 bits costs up to ten of them, and stands between two draws.
#[derive(Clone, Copy, Debug)]
struct Modulo {
    divisor: u64,
    /// (2^64 - 1) / divisor, rounded down.
    inverse: u64,
}

impl Modulo {
    fn new(divisor: u64) -> Self {
        Modulo {
            divisor,
            inverse: u64::MAX / divisor,
        }
    }

    #[inline]
    fn of(self, number: u64) -> u64 {
        // The inverse is short of 2^64 / divisor by at most 1, so the quotient of n / divisor by n / 2^64 < 1.
        let quotient = (u128::from(number) * u128::from(self.inverse)) >> 64;
        let rest = number - quotient as u64 * self.divisor;
        if rest >= self.divisor {
            rest - self.divisor
        } else {
            rest
        }
    }
}

/// Draws made together. Each is a chain of twenty multiplications; step by step for many, the chains run side by side
/// and the powers two at a time, for half the cost.
const TOGETHER: usize = 64;

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
        self.number(self.zipfian.sample(SCRAMBLED_ITEMS, random))
    }

    /// The same numbers as so many calls of `sample`.
    pub fn fill(&self, random: &mut Random, numbers: &mut [u64]) {
        let (mut units, mut tails) = ([0.0; TOGETHER], [0.0; TOGETHER]);
        for numbers in numbers.chunks_mut(TOGETHER) {
            for unit in &mut units[..numbers.len()] {
                *unit = random.unit();
            }
            for (tail, &unit) in tails.iter_mut().zip(&units) {
                *tail = self.zipfian.tail(unit, SCRAMBLED_ITEMS);
            }
            for (number, (&unit, &tail)) in numbers.iter_mut().zip(units.iter().zip(&tails)) {
                *number = self.zipfian.rank(unit, tail);
            }
            for number in numbers {
                *number = self.number(*number);
            }
        }
    }

    #[inline]
    fn number(&self, rank: u64) -> u64 {
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

    /// As the formula stands in YCSB: a power by the library, jumps, a division.
    fn by_the_book(items: u64, zeta_items: f64, u: f64) -> (u64, f64) {
        let zeta_two = 1.0 + 0.5f64.powf(THETA);
        let alpha = 1.0 / (1.0 - THETA);
        let eta = (1.0 - (2.0 / items as f64).powf(1.0 - THETA)) / (1.0 - zeta_two / zeta_items);
        let uz = u * zeta_items;
        let tail = items as f64 * (eta * u - eta + 1.0).powf(alpha);
        let rank = match uz {
            uz if uz < 1.0 => 0,
            uz if uz < 1.0 + 0.5f64.powf(THETA) => 1,
            _ => tail as u64,
        };
        (rank, tail)
    }

    #[test]
    fn ranks_are_those_of_the_book() {
        let zipfian = Zipfian::with_zeta(SCRAMBLED_ITEMS, SCRAMBLED_ZETA);
        let (mut random, mut heads) = (Random::new(12), [0; 2]);
        let corners = [0.0, 1.0 / SCRAMBLED_ZETA, 1.0 - f64::EPSILON / 2.0];
        for u in corners
            .into_iter()
            .chain((0..1_000_000).map(|_| random.unit()))
        {
            let (expected, tail) = by_the_book(SCRAMBLED_ITEMS, SCRAMBLED_ZETA, u);
            let rank = zipfian.rank(u, zipfian.tail(u, SCRAMBLED_ITEMS));
            // Where the power's last bits put a tail across a whole number, either side of it is right.
            let is_beside = rank.abs_diff(expected) <= 1 + (tail * 1e-12) as u64
                && (tail - tail.round()).abs() < tail * 1e-12;
            assert!(rank == expected || is_beside, "{u}: {rank} for {expected}");
            if let Some(head) = heads.get_mut(rank as usize) {
                *head += 1;
            }
        }
        assert!(heads[0] > 35_000 && heads[1] > 15_000, "{heads:?}");
    }

    #[test]
    fn draws_made_together_are_those_made_one_by_one() {
        let scrambled = Scrambled::new(7, 1_000_001);
        let (mut together, mut apart) = (Random::new(2), Random::new(2));
        for count in [0, 1, TOGETHER - 1, TOGETHER, 3 * TOGETHER + 5, 100_000] {
            let mut numbers = vec![0; count];
            scrambled.fill(&mut together, &mut numbers);
            for number in numbers {
                assert_eq!(number, scrambled.sample(&mut apart));
            }
        }
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
