//! A full unit's items by halves, when it splits.
//!
//! An item's home in the largest block is its home in the half it goes to, but for the first half's length:
//! `home_bucket` of one depth more and half as many buckets. So a half with few enough items is its part of
//! the old block, copied line by line; only *strangers*, whose home was full and who had come to lie in the
//! other part, have to be found a place. That holds for the fuller half too, as long as it has a slot left: it
//! is past its limit then, and rebuilt when the next item comes.

use super::unit::{buckets, limit, Block, SLOTS_MAX, STEPS_MAX};
use super::word::{half_of, home_bucket};
use crate::location::Slot;
use crate::mem::Lines;
use crate::sync::Ordering::Relaxed;

/// Steps of a block that a half of the largest one is copied to.
pub(super) const HALF_STEPS: usize = STEPS_MAX / 2;
const HALF_BUCKETS: usize = buckets(HALF_STEPS);
const HALF_SLOTS: usize = SLOTS_MAX / 2;
const _: () = assert!(STEPS_MAX % 2 == 0);
/// A half of fewer items is copied. In the models' tiny units one past its limit is not: it would be every one, and
/// the models need splits that take larger blocks.
const COPIED_BELOW: usize = if cfg!(shuttle) {
    limit(HALF_STEPS)
} else {
    HALF_SLOTS
};

/// The two halves of a unit in the largest block, under its lock.
pub(super) struct Halves<'a> {
    block: Block<'a>,
    depth: u32,
    parts: [Lines<'a>; 2],
    counts: [usize; 2],
    /// Where in the block strangers lie, slots from its start.
    strangers: [u16; SLOTS_MAX],
    stranger_count: usize,
}

impl<'a> Halves<'a> {
    /// Of the unit at `depth` in this block of `STEPS_MAX` steps.
    pub(super) fn of(block: Block<'a>, depth: u32) -> Halves<'a> {
        let mut halves = Halves {
            block,
            depth,
            parts: block.lines(STEPS_MAX).parts(),
            counts: [0; 2],
            strangers: [0; SLOTS_MAX],
            stranger_count: 0,
        };
        let later = halves.find_strangers();
        halves.counts = [block.count() - later, later];
        halves
    }

    /// Finds the strangers. Returns how many items belong to the second half.
    fn find_strangers(&mut self) -> usize {
        let (parts, depth) = (self.parts, self.depth);
        let mut later = 0;
        for (part, lines) in parts.into_iter().enumerate() {
            for at in 0..lines.slots() {
                let slot = Slot(lines.slot(at).load(Relaxed));
                // Free slots are all zeros: of the first half, as it seems.
                let half = half_of(slot.tag(), depth);
                later += half;
                // One condition: whether a slot is free no processor foresees.
                if (half != part) & !slot.is_empty() {
                    self.add_stranger(part * HALF_SLOTS + at);
                }
            }
        }
        later
    }

    #[cold]
    #[inline(never)]
    fn add_stranger(&mut self, at: usize) {
        self.strangers[self.stranger_count] = at as u16;
        self.stranger_count += 1;
    }

    /// Items of a half.
    pub(super) fn count(&self, half: usize) -> usize {
        self.counts[half]
    }

    /// Whether a half can be copied: it has a slot left for the item the unit splits for, and would not
    /// do with a smaller block.
    pub(super) fn fits_as_it_lies(&self, half: usize) -> bool {
        (limit(HALF_STEPS - 1)..COPIED_BELOW).contains(&self.counts[half])
    }

    /// Calls `each` with every slot in use of a half.
    #[inline(always)]
    pub(super) fn for_each(&self, half: usize, mut each: impl FnMut(Slot)) {
        Block::in_strands(self.parts[half], |slot| {
            if !slot.is_empty() && half_of(slot.tag(), self.depth) == half {
                each(slot);
            }
        });
        self.strangers_in(1 - half)
            .for_each(|at| each(self.slot(1 - half, at)));
    }

    /// Writes a half with fewer items than there are slots in to a block of `HALF_STEPS` steps that no word names.
    pub(super) fn copy(&self, half: usize, to: Block<'_>) {
        let lines = to.lines(HALF_STEPS);
        self.parts[half].copy_to(lines);
        for at in self.strangers_in(half) {
            lines.slot(at).store(0, Relaxed);
        }
        to.copy_header(self.block, half * HALF_BUCKETS..(half + 1) * HALF_BUCKETS);
        to.set_count(self.counts[half]);
        for at in self.strangers_in(1 - half) {
            let slot = self.slot(1 - half, at);
            let home = home_bucket(slot.tag(), self.depth + 1, HALF_BUCKETS);
            let stored = to.store_near(slot, home, HALF_BUCKETS, HALF_BUCKETS - 1);
            assert!(stored, "fewer items than slots");
        }
    }

    /// Where strangers lie in a part, slots from its start.
    fn strangers_in(&self, part: usize) -> impl Iterator<Item = usize> + '_ {
        self.strangers[..self.stranger_count]
            .iter()
            .map(|&at| at as usize)
            .filter(move |&at| at / HALF_SLOTS == part)
            .map(|at| at % HALF_SLOTS)
    }

    fn slot(&self, part: usize, at: usize) -> Slot {
        Slot(self.parts[part].slot(at).load(Relaxed))
    }
}
