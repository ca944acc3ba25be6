//! Directory words and the parts of a hash.
//!
//! ```text
//! word = line 32 | steps 4 | depth 2 | lock 1 | parked 1 | version 24
//! ```
//! `line` is where the unit's block starts, in 64-byte lines; `steps` its size in steps of 256 bytes:
//! 0 = no unit yet, 1..=14, 15 = this word's range lives in the fine directory. `depth` 0, 1, 2 says
//! that 4, 2, 1 neighbouring words share the unit; the first of them is the *head*, and only the head
//! carries lock and parked. The version changes whenever the block does.
//!
//! Hash bits: the directory index is the whole part of hash * words / 2^64; the tag is the index's two
//! lowest bits and the 14 bits of the fraction that follow. Nothing else may use them.

/// Words that share a unit at depth 0.
pub(super) const RUN: usize = 4;
pub(super) const DEPTH_MAX: u32 = RUN.trailing_zeros();
/// Fine words to a coarse word: below 2.5 KiB a fine word, 421 items of 6 bytes fit a unit.
pub(super) const FINE: usize = 8;
/// `steps` of a word whose range lives in the fine directory.
const MOVED: u64 = 15;

const STEPS_SHIFT: u32 = 32;
const DEPTH_SHIFT: u32 = 36;
const LOCK: u64 = 1 << 38;
const PARKED: u64 = 1 << 39;
const VERSION_SHIFT: u32 = 40;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Word(pub(super) u64);

impl Word {
    /// What a coarse word becomes when its items have moved to the fine directory. It never changes
    /// again.
    pub(super) const IN_FINE: Word = Word(MOVED << STEPS_SHIFT);

    #[inline(always)]
    pub(super) fn line(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    pub(super) fn steps(self) -> usize {
        (self.0 >> STEPS_SHIFT & 15) as usize
    }

    #[inline(always)]
    pub(super) fn depth(self) -> u32 {
        (self.0 >> DEPTH_SHIFT) as u32 & 3
    }

    #[inline(always)]
    pub(super) fn in_fine(self) -> bool {
        self.0 >> STEPS_SHIFT & 15 == MOVED
    }

    pub(super) fn is_locked(self) -> bool {
        self.0 & LOCK != 0
    }

    pub(super) fn is_parked(self) -> bool {
        self.0 & PARKED != 0
    }

    pub(super) fn locked(self) -> Word {
        Word(self.0 | LOCK)
    }

    pub(super) fn parked(self) -> Word {
        Word(self.0 | PARKED)
    }

    /// Without lock and parked: what a reader compares.
    #[inline(always)]
    pub(super) fn bare(self) -> Word {
        Word(self.0 & !(LOCK | PARKED))
    }

    /// The bits of lock and parked of `self` put on `next`.
    pub(super) fn state_onto(self, next: Word) -> Word {
        Word(next.0 | self.0 & (LOCK | PARKED))
    }

    /// The word after this one: another block, the version one higher.
    pub(super) fn next(self, line: u32, steps: usize, depth: u32) -> Word {
        let version = (self.0 >> VERSION_SHIFT).wrapping_add(1);
        Word(
            version << VERSION_SHIFT
                | (depth as u64) << DEPTH_SHIFT
                | (steps as u64) << STEPS_SHIFT
                | line as u64,
        )
    }

    /// How many words share this word's unit.
    pub(super) fn run(self) -> usize {
        RUN >> self.depth()
    }
}

/// A mask that unlocks a head.
pub(super) const UNLOCK: u64 = !(LOCK | PARKED);

/// Which directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Level {
    Coarse,
    Fine,
}

/// A word of one of the two directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct WordId {
    pub(super) level: Level,
    pub(super) index: usize,
}

impl WordId {
    const FINE_BIT: u64 = 1 << 63;

    #[inline(always)]
    pub(super) fn coarse(index: usize) -> WordId {
        WordId {
            level: Level::Coarse,
            index,
        }
    }

    pub(super) fn fine(index: usize) -> WordId {
        WordId {
            level: Level::Fine,
            index,
        }
    }

    /// The head of the run this word belongs to at a depth.
    pub(super) fn head(self, depth: u32) -> WordId {
        WordId {
            index: self.index & !((RUN >> depth) - 1),
            ..self
        }
    }

    pub(super) fn plus(self, words: usize) -> WordId {
        WordId {
            index: self.index + words,
            ..self
        }
    }

    /// As kept in a unit's header.
    pub(super) fn pack(self) -> u64 {
        let bit = match self.level {
            Level::Coarse => 0,
            Level::Fine => Self::FINE_BIT,
        };
        self.index as u64 | bit
    }

    pub(super) fn unpack(raw: u64) -> WordId {
        let index = (raw & !Self::FINE_BIT) as usize;
        if raw & Self::FINE_BIT == 0 {
            WordId::coarse(index)
        } else {
            WordId::fine(index)
        }
    }
}

/// Where a hash falls in a directory of `words` words: index and tag.
#[inline(always)]
pub(super) fn split_hash(hash: u64, words: usize) -> (usize, u16) {
    let product = hash as u128 * words as u128;
    let index = (product >> 64) as usize;
    let tag = ((index & (RUN - 1)) << 14) as u16 | (product as u64 >> 50) as u16;
    (index, tag)
}

/// The home bucket of a tag in a unit of `buckets` buckets. The `depth` highest bits of the tag are
/// the same throughout the unit.
#[inline(always)]
pub(super) fn home_bucket(tag: u16, depth: u32, buckets: usize) -> usize {
    (((tag as u32) << depth & 0xFFFF) as usize * buckets) >> 16
}

/// Which half a tag falls in when a unit of this depth splits.
pub(super) fn half_of(tag: u16, depth: u32) -> usize {
    tag as usize >> (15 - depth) & 1
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn words_pack_and_count_versions() {
        let word = Word(0).next(0xFFFF_FFFF, 14, 2);
        assert_eq!((word.line(), word.steps(), word.depth()), (u32::MAX, 14, 2));
        assert_eq!(word.locked().parked().bare(), word);
        assert_ne!(word.next(u32::MAX, 14, 2), word);
        assert!(Word::IN_FINE.in_fine() && !word.in_fine());
        let last = Word(word.0 | !0 << VERSION_SHIFT);
        assert_eq!(
            last.next(1, 1, 0),
            Word(0)
                .next(1, 1, 0)
                .next(1, 1, 0)
                .next(1, 1, 0)
                .with_version_0()
        );
    }

    impl Word {
        fn with_version_0(self) -> Word {
            Word(self.0 & !(!0 << VERSION_SHIFT))
        }
    }

    #[test]
    fn the_tag_holds_the_bits_a_split_goes_by() {
        let words = 1000;
        for i in 0..10_000u64 {
            let hash = i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let (index, tag) = split_hash(hash, words);
            assert_eq!(half_of(tag, 0), index >> 1 & 1);
            assert_eq!(half_of(tag, 1), index & 1);
            assert_eq!(split_hash(hash, words * FINE).0 / FINE, index);
            for depth in 0..=DEPTH_MAX {
                assert!(home_bucket(tag, depth, 112) < 112);
            }
        }
    }
}
