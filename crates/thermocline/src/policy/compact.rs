//! How dead a segment of main must be to be worth a copy of its live rest, by what copying has cost of late.
//!
//! A segment of which the share d is dead costs (1 - d) / d copied bytes for each byte that comes free: 9 at a tenth.
//! That is little where few bytes die; where most writes overwrite items by others of another size it would be five
//! copied bytes for each written one. So the share rises while more is copied than accesses are worth, and falls again.

use super::COMPACT_SHARE;

/// The most: a cache whose dead bytes are spread evenly then holds 81 % live ones, and copies 1.9 for each that dies.
const SHARE_MAX: f64 = 0.35;
/// By so much it changes at a time.
const STEP: f64 = 0.01;
/// What a byte that was read and found is worth of one that was written: what copying keeps serves reads.
const READ_WORTH: f64 = 0.125;
/// Copied bytes for a byte's worth of accesses: above the one the share rises, below the other it falls.
const COPIED_MAX: f64 = 1.0;
const COPIED_MIN: f64 = 0.8;

/// The share, and what it follows.
#[derive(Debug, Clone, Copy)]
pub struct CompactShare(f64);

impl Default for CompactShare {
    fn default() -> CompactShare {
        CompactShare(COMPACT_SHARE)
    }
}

impl CompactShare {
    /// Dead share of a segment from which on its live rest is copied.
    pub fn share(&self) -> f64 {
        self.0
    }

    /// So many bytes were copied by compaction, appended by writers, and found by readers since the last call.
    pub fn follow(&mut self, copied: u64, appended: u64, found: f64) {
        let worth = appended as f64 + found * READ_WORTH;
        let step = match copied as f64 {
            copied if copied > worth * COPIED_MAX => STEP,
            copied if copied < worth * COPIED_MIN => -STEP,
            _ => 0.0,
        };
        self.0 = (self.0 + step).clamp(COMPACT_SHARE, SHARE_MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(rounds: u32, copied: u64, appended: u64, found: f64) -> f64 {
        let mut share = CompactShare::default();
        for _ in 0..rounds {
            share.follow(copied, appended, found);
        }
        share.share()
    }

    #[test]
    fn copying_within_its_worth_leaves_the_share_where_it_is() {
        assert_eq!(after(100, 0, 1000, 0.0), COMPACT_SHARE);
        assert_eq!(after(100, 1000, 1000, 0.0), COMPACT_SHARE);
        assert_eq!(after(100, 0, 0, 0.0), COMPACT_SHARE);
    }

    #[test]
    fn much_copying_raises_it_up_to_a_bound_and_little_brings_it_back() {
        assert!((after(5, 5000, 1000, 0.0) - COMPACT_SHARE - 0.05).abs() < 1e-9);
        assert_eq!(after(100, 5000, 1000, 0.0), SHARE_MAX);
        let mut share = CompactShare(SHARE_MAX);
        for _ in 0..100 {
            share.follow(100, 1000, 0.0);
        }
        assert_eq!(share.share(), COMPACT_SHARE);
    }

    #[test]
    fn what_readers_find_is_worth_copying_for() {
        assert!(after(1, 1500, 1000, 0.0) > COMPACT_SHARE);
        assert_eq!(after(1, 1500, 1000, 8000.0), COMPACT_SHARE);
    }
}
