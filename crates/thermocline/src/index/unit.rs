//! A unit's block: a header line, then buckets of one line each.
//!
//! ```text
//! header word 0, 1   reach codes, 2 bits a bucket: 0, 1, 2 = items that call this bucket home lie at
//!                    most so many buckets further on; 3 = at most `far` further on
//!             4      far: the largest distance of any item of this unit from its home bucket
//!             5      count of items (under the lock)
//!             6      owner: the head word (written under the class's mutex)
//! bucket      8 slots
//! ```
//! Readers go by codes, far and slots; they may read a block that has meanwhile become another unit's,
//! and find out by their directory word. Blocks of one class lie at the same multiples for as long as
//! any reader can look at them, so what they take for a slot always is one.

use super::word::WordId;
use crate::location::Slot;
use crate::mem::{Lines, Region, Words};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use std::ops::Range;

pub(super) const LINE_BYTES: usize = 64;
pub(super) const BUCKET_SLOTS: usize = Region::BUCKET_SLOTS;
/// Buckets of a step: 256 bytes. The models' units are tiny, so that a dozen items split one.
pub(super) const STEP_BUCKETS: usize = if cfg!(shuttle) { 2 } else { 4 };
/// The largest unit: 14 steps, 448 slots, 3.6 KiB. Units of twice the size took twice the time to
/// restructure, and saved nothing once slabs had half the size too.
pub(super) const STEPS_MAX: usize = if cfg!(shuttle) { 2 } else { 14 };
/// Buckets of a block that are read side by side.
const STRANDS: usize = if cfg!(shuttle) { 2 } else { 4 };
const _: () = assert!(STEP_BUCKETS % STRANDS == 0);
/// How far from home an item may lie while growing can still help, buckets. At 14, 20, 24 a miss reads
/// 2.5, 3.1, 3.5 neighbouring buckets, and an item costs 10.2, 9.9, 9.8 bytes in the last doubling before
/// 2 M items (`tests::growth::buckets_read`); 97 % of the items lie at home in each case.
pub(super) const REACH: usize = if cfg!(shuttle) { 2 } else { 20 };
/// A unit shrinks when it would be this many items below the smaller size's limit, at most.
const SHRINK_SLACK: usize = if cfg!(shuttle) { 1 } else { 10 };
/// Load at which a unit grows, percent. At 96 an item saves 0.1 bytes and a miss reads a bucket more.
const LOAD_PERCENT: usize = 94;
/// Load at which the largest unit splits, percent. Two halves of 398 items fit the blocks they are copied to
/// (`halves`) 98 times of 100, of 421 four times of five; and they take a line more than the unit did.
const SPLIT_PERCENT: usize = 89;

pub(super) const BUCKETS_MAX: usize = STEPS_MAX * STEP_BUCKETS;
pub(super) const SLOTS_MAX: usize = BUCKETS_MAX * BUCKET_SLOTS;
pub(super) const CODE_WORDS: usize = 2;
const _: () = assert!(BUCKETS_MAX <= CODE_WORDS * 32 && STEPS_MAX < 15);

const FAR_WORD: usize = 4;
const COUNT_WORD: usize = 5;
const OWNER_WORD: usize = 6;

pub(super) const fn buckets(steps: usize) -> usize {
    steps * STEP_BUCKETS
}

pub(super) const fn block_lines(steps: usize) -> usize {
    1 + buckets(steps)
}

/// Items a unit of this size holds before it grows.
pub(super) const fn limit(steps: usize) -> usize {
    buckets(steps) * BUCKET_SLOTS * LOAD_PERCENT / 100
}

/// Items at which the largest unit splits, if it can.
pub(super) const SPLIT_AT: usize = SLOTS_MAX * SPLIT_PERCENT / 100;
const _: () = assert!(SPLIT_AT > limit(STEPS_MAX - 1) && SPLIT_AT <= limit(STEPS_MAX));

/// The smallest size for so many items.
pub(super) fn steps_for(items: usize) -> usize {
    (1..STEPS_MAX)
        .find(|&steps| items <= limit(steps))
        .unwrap_or(STEPS_MAX)
}

/// Whether a unit of `steps` steps with so many items should take a smaller block: with some slack, so
/// that items coming and going do not rebuild it each time.
pub(super) fn is_oversized(steps: usize, items: usize) -> bool {
    if steps <= 1 {
        return false;
    }
    let smaller = limit(steps - 1);
    items + SHRINK_SLACK.min(2 + smaller / 20) < smaller
}

/// The block that starts at a line.
#[derive(Clone, Copy)]
pub(super) struct Block<'a> {
    words: Words<'a>,
    line: usize,
}

impl<'a> Block<'a> {
    #[inline(always)]
    pub(super) fn new(words: Words<'a>, line: u32) -> Block<'a> {
        Block {
            words,
            line: line as usize,
        }
    }

    #[inline(always)]
    fn header(self, word: usize) -> usize {
        self.line * LINE_BYTES + word * 8
    }

    /// Offset of a bucket's first slot.
    #[inline(always)]
    pub(super) fn bucket(self, bucket: usize) -> usize {
        (self.line + 1 + bucket) * LINE_BYTES
    }

    #[inline(always)]
    pub(super) fn code(self, bucket: usize) -> usize {
        let word = self.words.u64(self.header(bucket / 32)).load(Acquire);
        (word >> (bucket % 32 * 2) & 3) as usize
    }

    /// How many buckets after `home` may hold items of it, given its code.
    #[inline(always)]
    pub(super) fn reach(self, code: usize) -> usize {
        if code < 3 {
            code
        } else {
            self.words.u64(self.header(FAR_WORD)).load(Acquire) as usize
        }
    }

    pub(super) fn count(self) -> usize {
        self.words.u64(self.header(COUNT_WORD)).load(Relaxed) as usize
    }

    pub(super) fn set_count(self, count: usize) {
        self.words
            .u64(self.header(COUNT_WORD))
            .store(count as u64, Relaxed);
    }

    pub(super) fn owner(self) -> WordId {
        WordId::unpack(self.words.u64(self.header(OWNER_WORD)).load(Relaxed))
    }

    pub(super) fn set_owner(self, owner: WordId) {
        self.words
            .u64(self.header(OWNER_WORD))
            .store(owner.pack(), Relaxed);
    }

    /// Makes a bucket's code cover `distance`. Done before the slot is stored, so that the slot's store
    /// is the moment the item appears.
    pub(super) fn raise_reach(self, home: usize, distance: usize) {
        let far = self.words.u64(self.header(FAR_WORD));
        if distance as u64 > far.load(Relaxed) {
            far.store(distance as u64, Release);
        }
        let wanted = distance.min(3);
        if self.code(home) < wanted {
            let word = self.words.u64(self.header(home / 32));
            let shift = home % 32 * 2;
            let kept = word.load(Relaxed) & !(3 << shift);
            word.store(kept | (wanted as u64) << shift, Release);
        }
    }

    /// Writes codes, far and count of a block nobody is sent to yet.
    pub(super) fn write_header(self, codes: &[u64; CODE_WORDS], far: usize, count: usize) {
        for (i, &code) in codes.iter().enumerate() {
            self.words.u64(self.header(i)).store(code, Relaxed);
        }
        self.words
            .u64(self.header(FAR_WORD))
            .store(far as u64, Relaxed);
        self.set_count(count);
    }

    /// Takes over the reach of some buckets of a block, for its own first ones. Nobody is sent here yet.
    pub(super) fn copy_header(self, from: Block<'_>, buckets: Range<usize>) {
        let [low, high] = [0, 1].map(|word| self.words.u64(from.header(word)).load(Relaxed));
        let codes = (u128::from(high) << 64 | u128::from(low)) >> (2 * buckets.start);
        let codes = codes & ((1 << (2 * buckets.len())) - 1);
        let far = self.words.u64(from.header(FAR_WORD)).load(Relaxed) as usize;
        let far = far.min(buckets.len() - 1);
        self.write_header(&[codes as u64, (codes >> 64) as u64], far, 0);
    }

    /// Stores a slot in the nearest free one at most `window` of the unit's `buckets` buckets from home. False: all of
    /// them are full. Under the unit's lock.
    pub(super) fn store_near(self, slot: Slot, home: usize, buckets: usize, window: usize) -> bool {
        let free = (0..=window.min(buckets - 1))
            .find_map(|d| Some((d, self.free_slot((home + d) % buckets)?)));
        let Some((distance, at)) = free else {
            return false;
        };
        self.raise_reach(home, distance);
        self.words.u64(at).store(slot.0, Release);
        true
    }

    /// Copies a whole block, owner included, to another of the same size.
    pub(super) fn copy_to(self, to: Block<'_>, steps: usize) {
        for word in 0..=OWNER_WORD {
            let value = self.words.u64(self.header(word)).load(Relaxed);
            to.words.u64(to.header(word)).store(value, Relaxed);
        }
        self.lines(steps).copy_to(to.lines(steps));
    }

    /// All of its buckets.
    #[inline(always)]
    pub(super) fn lines(self, steps: usize) -> Lines<'a> {
        self.words.lines(self.bucket(0), buckets(steps))
    }

    /// Calls `each` with every slot in use. Under the unit's lock.
    #[inline(always)]
    pub(super) fn for_each(self, steps: usize, mut each: impl FnMut(Slot)) {
        Block::in_strands(self.lines(steps), |slot| {
            if !slot.is_empty() {
                each(slot);
            }
        });
    }

    /// Calls `each` with every slot, free ones too. In strands: what comes of neighbours hangs together (they
    /// call the same bucket home), and one after the other they keep a processor waiting.
    #[inline(always)]
    pub(super) fn in_strands(lines: Lines<'_>, mut each: impl FnMut(Slot)) {
        let strands: [Lines<'_>; STRANDS] = lines.parts();
        for index in 0..strands[0].slots() {
            for strand in strands {
                each(Slot(strand.slot(index).load(Relaxed)));
            }
        }
    }

    /// The first slot of a bucket that has this tag and is `wanted`, and its offset. Under the unit's
    /// lock.
    pub(super) fn find_slot(
        self,
        bucket: usize,
        tag: u16,
        wanted: &mut impl FnMut(Slot) -> bool,
    ) -> Option<(usize, Slot)> {
        let at = self.bucket(bucket);
        let bucket = self.words.bucket(at);
        let mut mask = bucket.match_tags(tag);
        while mask != 0 {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            let slot = Slot(bucket.slot(index).load(Acquire));
            // The counter may be changing; tag and place are not.
            if !slot.is_empty() && wanted(slot) {
                return Some((at + index * 8, slot));
            }
        }
        None
    }

    /// Offset of the first free slot of a bucket. Under the unit's lock.
    pub(super) fn free_slot(self, bucket: usize) -> Option<usize> {
        let at = self.bucket(bucket);
        let bucket = self.words.bucket(at);
        (0..BUCKET_SLOTS)
            .find(|&slot| bucket.slot(slot).load(Relaxed) == 0)
            .map(|slot| at + slot * 8)
    }
}
