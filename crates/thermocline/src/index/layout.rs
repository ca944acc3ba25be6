//! Arranging a unit's items in buckets, off line.
//!
//! Everything goes home first; what finds its home full goes to the next bucket with room. Two passes
//! keep more items at home than placing them one after the other does.

use super::unit::{
    buckets, Block, BUCKETS_MAX, BUCKET_SLOTS, CODE_WORDS, REACH, SLOTS_MAX, STEPS_MAX,
};
use super::word::home_bucket;
use crate::location::Slot;

/// The items of a unit in no order: 7 KiB, lives on the stack.
pub(super) struct Gathered {
    slots: [Slot; SLOTS_MAX],
    len: usize,
}

impl Gathered {
    pub(super) fn new() -> Gathered {
        Gathered {
            slots: [Slot::EMPTY; SLOTS_MAX],
            len: 0,
        }
    }

    pub(super) fn from_block(block: Block<'_>, steps: usize) -> Gathered {
        let mut gathered = Gathered::new();
        block.for_each(steps, |slot| gathered.push(slot));
        gathered
    }

    pub(super) fn push(&mut self, slot: Slot) {
        self.slots[self.len] = slot;
        self.len += 1;
    }

    pub(super) fn as_slice(&self) -> &[Slot] {
        &self.slots[..self.len]
    }
}

/// A block as it will be written.
pub(super) struct Layout {
    pub(super) steps: usize,
    slots: [u64; SLOTS_MAX],
    filled: [u8; BUCKETS_MAX],
    codes: [u64; CODE_WORDS],
    far: usize,
    count: usize,
}

impl Layout {
    /// Arranges items in the smallest block of at least `steps` steps where each finds room within
    /// `REACH` of its home; in the largest block any distance will do. None only if they are more than
    /// that has slots.
    pub(super) fn arrange(items: &[Slot], depth: u32, steps: usize) -> Option<Layout> {
        (steps..=STEPS_MAX).find_map(|steps| {
            let window = if steps == STEPS_MAX {
                BUCKETS_MAX
            } else {
                REACH
            };
            Layout::try_arrange(items, depth, steps, window)
        })
    }

    /// Arranges items in a block of exactly `steps` steps, none further than `window` from home.
    pub(super) fn try_arrange(
        items: &[Slot],
        depth: u32,
        steps: usize,
        window: usize,
    ) -> Option<Layout> {
        let count = buckets(steps);
        if items.len() > count * BUCKET_SLOTS {
            return None;
        }
        let mut layout = Layout {
            steps,
            slots: [0; SLOTS_MAX],
            filled: [0; BUCKETS_MAX],
            codes: [0; CODE_WORDS],
            far: 0,
            count: items.len(),
        };
        let mut away = Gathered::new();
        for &slot in items {
            if !layout.put(home_bucket(slot.tag(), depth, count), slot) {
                away.push(slot);
            }
        }
        away.as_slice()
            .iter()
            .all(|&slot| layout.put_away(home_bucket(slot.tag(), depth, count), slot, window))
            .then_some(layout)
    }

    fn put(&mut self, bucket: usize, slot: Slot) -> bool {
        let filled = self.filled[bucket] as usize;
        if filled == BUCKET_SLOTS {
            return false;
        }
        self.slots[bucket * BUCKET_SLOTS + filled] = slot.0;
        self.filled[bucket] += 1;
        true
    }

    fn put_away(&mut self, home: usize, slot: Slot, window: usize) -> bool {
        let count = buckets(self.steps);
        let found = (1..=window.min(count - 1)).find(|d| self.put((home + d) % count, slot));
        if let Some(distance) = found {
            self.far = self.far.max(distance);
            let shift = home % 32 * 2;
            let code = (self.codes[home / 32] >> shift & 3).max(distance.min(3) as u64);
            self.codes[home / 32] = self.codes[home / 32] & !(3 << shift) | code << shift;
        }
        found.is_some()
    }

    /// Writes the block. Its owner was written when it was allocated.
    pub(super) fn write_to(&self, block: Block<'_>) {
        block.write_header(&self.codes, self.far, self.count);
        let used = &self.slots[..buckets(self.steps) * BUCKET_SLOTS];
        for (bucket, slots) in used.chunks(BUCKET_SLOTS).enumerate() {
            block.write_bucket(bucket, slots);
        }
    }
}
