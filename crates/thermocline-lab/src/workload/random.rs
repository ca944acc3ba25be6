//! The one source of randomness: splitmix64. One add, two multiplies, no state but a counter; any thread's
//! stream is seeded from (seed, lane), so the stream does not depend on how many threads run it.

/// The finalizer of splitmix64: a bijection of 64 bits.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// A seeded stream of 64-bit words.
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// The stream of one thread or connection: lanes of one seed do not overlap in any run we can afford.
    pub fn lane(seed: u64, lane: u64) -> Self {
        Random {
            state: mix(seed ^ mix(lane.wrapping_add(GOLDEN))),
        }
    }

    #[inline]
    pub fn word(&mut self) -> u64 {
        self.state = self.state.wrapping_add(GOLDEN);
        mix(self.state)
    }

    /// Uniform in [0, bound); bound > 0. The bias of the multiply is bound / 2^64.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.word()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in [0, 1), 53 bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        to_unit(self.word())
    }
}

/// The upper 53 bits of a word as a number in [0, 1).
#[inline]
pub fn to_unit(word: u64) -> f64 {
    (word >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_splitmix64() {
        // First words of splitmix64 from state 1234567, as in its author's reference program.
        let mut random = Random::new(1234567);
        let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
        assert_eq!(
            words,
            [
                6457827717110365317,
                3203168211198807973,
                9817491932198370423
            ]
        );
    }

    #[test]
    fn lanes_differ_and_bounds_hold() {
        let mut a = Random::lane(7, 0);
        let mut b = Random::lane(7, 1);
        assert_ne!(a.word(), b.word());
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[a.below(10) as usize] += 1;
            assert!((0.0..1.0).contains(&b.unit()));
        }
        assert!(seen.iter().all(|n| (850..1150).contains(n)), "{seen:?}");
    }
}
