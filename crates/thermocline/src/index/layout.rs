//! Arranging a unit's items in a new block.
//!
//! Everything goes home first; what finds its home full goes to the next bucket with room. Two passes
//! keep more items at home than placing them one after the other does.
//!
//! The block is written as items come: arranged on the stack first and copied then, a rebuild took more than
//! twice the instructions. Nobody is sent to the block yet, but a reader from before may still be walking it,
//! as another unit's: whatever it finds there is a slot, and its re-check of the directory word does the rest.

use super::unit::{
    buckets, Block, BUCKETS_MAX, BUCKET_SLOTS, CODE_WORDS, REACH, SLOTS_MAX, STEPS_MAX,
};
use super::word::home_bucket;
use crate::location::Slot;
use crate::mem::Lines;
use crate::sync::Ordering::Relaxed;

/// The items of a unit in no order: 3.5 KiB, lives on the stack.
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

    pub(super) fn push(&mut self, slot: Slot) {
        self.slots[self.len] = slot;
        self.len += 1;
    }

    pub(super) fn as_slice(&self) -> &[Slot] {
        &self.slots[..self.len]
    }
}

/// Items that wait until all others are home. At 94 % load some 30 of 421 do; what comes when so many wait is
/// placed at once, and may take a place that another calls home.
const AWAY_MAX: usize = 128;

/// A block being filled with a unit's items.
pub(super) struct Filling<'a> {
    block: Block<'a>,
    homes: Homes,
    to: Lines<'a>,
    /// How far from home an item may lie, buckets.
    window: usize,
    filled: Filled,
    away: [Slot; AWAY_MAX],
    waiting: usize,
    codes: [u64; CODE_WORDS],
    far: usize,
    /// An item found no room within the window.
    failed: bool,
}

/// Where items of a unit are at home.
#[derive(Clone, Copy)]
struct Homes {
    depth: u32,
    buckets: usize,
}

const _: () = assert!(BUCKETS_MAX <= 64, "a bit a bucket");

/// Slots used of each bucket.
type Filled = [u8; BUCKETS_MAX];

impl<'a> Filling<'a> {
    /// Of a block of `steps` steps that no word names. None will lie further than `REACH` from home; in the
    /// largest block any distance will do.
    pub(super) fn new(block: Block<'a>, steps: usize, depth: u32) -> Filling<'a> {
        let (to, buckets) = (block.lines(steps), buckets(steps));
        // Cleared whole rather than what stays free at the end: how much that is a bucket no processor foresees.
        to.clear();
        Filling {
            block,
            homes: Homes { depth, buckets },
            to,
            window: match steps {
                STEPS_MAX => buckets - 1,
                _ => REACH.min(buckets - 1),
            },
            filled: [0; BUCKETS_MAX],
            away: [Slot::EMPTY; AWAY_MAX],
            waiting: 0,
            codes: [0; CODE_WORDS],
            far: 0,
            failed: false,
        }
    }

    /// Puts in all items of another block, whose unit is locked.
    #[inline(always)]
    pub(super) fn put_block(&mut self, block: Block<'_>, steps: usize) {
        let (to, homes) = (self.to, self.homes);
        block.for_each(steps, |slot| {
            if !put_in(to, &mut self.filled, homes.of(slot), slot) {
                self.wait(slot);
            }
        });
    }

    #[inline(always)]
    pub(super) fn put(&mut self, slot: Slot) {
        if !put_in(self.to, &mut self.filled, self.homes.of(slot), slot) {
            self.wait(slot);
        }
    }

    /// Places who waits and writes the header; the owner was written when the block was allocated. False: not all
    /// items found room, and the block is good for nothing.
    pub(super) fn finish(mut self) -> bool {
        let mut room = self.room();
        let placed = (0..self.waiting).all(|n| self.put_away(self.away[n], &mut room));
        let all = placed && !self.failed;
        if all {
            let count = self.filled.iter().map(|&used| usize::from(used)).sum();
            self.block.write_header(&self.codes, self.far, count);
        }
        all
    }

    #[inline(never)]
    fn wait(&mut self, slot: Slot) {
        if self.waiting == AWAY_MAX {
            let mut room = self.room();
            self.failed |= !self.put_away(slot, &mut room);
            return;
        }
        self.away[self.waiting] = slot;
        self.waiting += 1;
    }

    /// The buckets with a free slot, a bit each.
    fn room(&self) -> u64 {
        (0..self.homes.buckets).fold(0, |room, bucket| {
            room | u64::from((self.filled[bucket] as usize) < BUCKET_SLOTS) << bucket
        })
    }

    /// Puts an item whose home is full into the next bucket with room.
    fn put_away(&mut self, slot: Slot, room: &mut u64) -> bool {
        let (home, buckets) = (self.homes.of(slot), self.homes.buckets);
        debug_assert!(*room >> home & 1 == 0, "home has room");
        let distance = match *room >> home {
            0 => buckets - home + room.trailing_zeros() as usize,
            ahead => ahead.trailing_zeros() as usize,
        };
        if *room == 0 || distance > self.window {
            return false;
        }
        let bucket = if home + distance < buckets {
            home + distance
        } else {
            home + distance - buckets
        };
        assert!(put_in(self.to, &mut self.filled, bucket, slot));
        if self.filled[bucket] as usize == BUCKET_SLOTS {
            *room &= !(1 << bucket);
        }
        self.raise_reach(home, distance);
        true
    }

    fn raise_reach(&mut self, home: usize, distance: usize) {
        self.far = self.far.max(distance);
        let shift = home % 32 * 2;
        let code = (self.codes[home / 32] >> shift & 3).max(distance.min(3) as u64);
        self.codes[home / 32] = self.codes[home / 32] & !(3 << shift) | code << shift;
    }
}

impl Homes {
    #[inline(always)]
    fn of(self, slot: Slot) -> usize {
        home_bucket(slot.tag(), self.depth, self.buckets)
    }
}

/// Puts a slot into a bucket, if that has room.
#[inline(always)]
fn put_in(to: Lines<'_>, filled: &mut Filled, bucket: usize, slot: Slot) -> bool {
    let used = filled[bucket] as usize;
    if used == BUCKET_SLOTS {
        return false;
    }
    to.slot(bucket * BUCKET_SLOTS + used).store(slot.0, Relaxed);
    filled[bucket] += 1;
    true
}
