//! The two numbers the policy keeps: a running mean size and a random word. Both are relaxed atomics.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Items after which the mean stops settling: a new size then weighs 1/4096. Weights start at 1/n, which is
/// the arithmetic mean; the geometric one was 0.3 to 0.6 points worse as a reference size.
const SETTLED_ITEMS: u64 = 4096;

#[derive(Debug, Default)]
pub struct MeanSize {
    /// Bits of an f64.
    mean: AtomicU64,
    /// Items seen, up to SETTLED_ITEMS.
    items: AtomicU64,
}

impl MeanSize {
    pub fn get(&self) -> f64 {
        f64::from_bits(self.mean.load(Relaxed))
    }

    /// Takes in `items` sizes that sum up to `bytes`.
    pub fn add(&self, items: u64, bytes: u64) {
        if items == 0 {
            return;
        }
        let mean = self.get();
        let seen = (self.items.load(Relaxed) + items).min(SETTLED_ITEMS);
        let weight = (items as f64 / seen as f64).min(1.0);
        let size = bytes as f64 / items as f64;
        self.items.store(seen, Relaxed);
        self.mean
            .store((mean + (size - mean) * weight).to_bits(), Relaxed);
    }
}

/// xorshift64: three shifts, no lock. Two threads may draw the same word.
#[derive(Debug)]
pub struct Random {
    word: AtomicU64,
}

impl Random {
    pub fn new(seed: u64) -> Random {
        // Zero is the one word xorshift never leaves.
        Random {
            word: AtomicU64::new(seed | 1),
        }
    }

    /// True with this probability; 0 or less never, 1 or more always, and then no word is drawn.
    pub fn chance(&self, probability: f64) -> bool {
        if probability <= 0.0 || probability >= 1.0 {
            return probability >= 1.0;
        }
        ((self.next() >> 11) as f64) < probability * (1u64 << 53) as f64
    }

    fn next(&self) -> u64 {
        let mut word = self.word.load(Relaxed);
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        self.word.store(word, Relaxed);
        word
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_sizes_give_exactly_that_mean() {
        let mean = MeanSize::default();
        for _ in 0..10_000 {
            mean.add(1, 117);
        }
        assert_eq!(mean.get(), 117.0);
        mean.add(30, 30 * 117);
        assert_eq!(mean.get(), 117.0);
    }

    #[test]
    fn the_mean_is_arithmetic_at_first_and_slow_later() {
        let mean = MeanSize::default();
        mean.add(1, 1000);
        mean.add(3, 200);
        assert!((mean.get() - 300.0).abs() < 1e-9);
        for _ in 0..100_000 {
            mean.add(1, 100);
        }
        assert!((mean.get() - 100.0).abs() < 1e-3);
        mean.add(1, 100 + 4096);
        assert!((mean.get() - 101.0).abs() < 1e-3);
        mean.add(1_000_000, 50_000_000);
        assert_eq!(mean.get(), 50.0, "a batch weighs no more than all");
    }

    #[test]
    fn an_empty_batch_changes_nothing() {
        let mean = MeanSize::default();
        mean.add(0, 0);
        assert_eq!(mean.get(), 0.0);
    }

    #[test]
    fn chances_are_kept() {
        let random = Random::new(0);
        for wanted in [0.01, 0.25, 0.5, 0.9] {
            let hits = (0..100_000).filter(|_| random.chance(wanted)).count() as f64 / 1e5;
            assert!((hits - wanted).abs() < 0.01, "{hits} for {wanted}");
        }
        assert!(!random.chance(0.0) && !random.chance(-1.0) && !random.chance(f64::NAN));
        assert!(random.chance(1.0) && random.chance(7.0));
    }
}
