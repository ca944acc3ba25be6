//! How a unit changes its size: rebuild, split, move to the fine directory, shrink.
//!
//! ```text
//! n steps --0.94 full, or no room within reach--> n + 1 steps ... 14 steps
//! 14 steps, depth 0 or 1  --split by a bit of the tags, no key is read-->  two units of depth + 1
//! 14 steps, depth 2, coarse  --keys read again (25-40 us)-->  two units of the fine directory
//! 14 steps, depth 2, fine  --items may lie any distance from home, until all slots are used
//! ```
//! Each step: arrange off line, take the blocks, `fence(Release)`, fill them, point the directory at
//! them, free the old block. The fence is what makes a reader's re-check sound: who reads a word of a
//! recycled block must then see that the directory has moved on. Units are never merged: emptied, a
//! split pair costs one block of 576 bytes more than before.

use super::class::Filled;
use super::layout::{Gathered, Layout};
use super::lock::Locked;
use super::stats::Stats;
use super::unit::{
    block_lines, is_oversized, steps_for, Block, BUCKETS_MAX, LINE_BYTES, REACH, STEPS_MAX,
};
use super::word::{half_of, split_hash, Level, Word, WordId, DEPTH_MAX, FINE, RUN};
use super::{Index, Rehash};
use crate::location::{Slot, Tier};
use crate::sync::fence;
use crate::sync::Ordering::Release;

/// What growing came to.
pub(super) enum Grown {
    /// The unit has a bigger block; the lock is still held.
    Bigger,
    /// The unit has been divided: unlock and look up again.
    Divided,
    /// It has the largest block and cannot be divided: use the slots it has.
    AtMost,
    /// No slab for a block.
    NoRoom,
}

impl Locked<'_> {
    pub(super) fn grow(&mut self, rehash: Rehash<'_>) -> Grown {
        if self.word.steps() < STEPS_MAX {
            return self.rebuild(self.word.steps() + 1);
        }
        if self.word.depth() < DEPTH_MAX {
            return self.split();
        }
        match self.head.level {
            Level::Coarse => self.move_to_fine(rehash),
            Level::Fine => Grown::AtMost,
        }
    }

    fn items(&self) -> Gathered {
        match self.word.steps() {
            0 => Gathered::new(),
            steps => Gathered::from_block(self.block(), steps),
        }
    }

    /// The block is taken before anything is arranged: being refused is then cheap.
    #[inline(never)]
    fn rebuild(&mut self, steps: usize) -> Grown {
        self.index.ask_for_last(self.word.steps());
        let items = self.items();
        for steps in steps..=STEPS_MAX {
            let Some(line) = self.index.classes.allocate(steps, self.head) else {
                return Grown::NoRoom;
            };
            self.index.ask_for(line, steps);
            let window = if steps == STEPS_MAX {
                BUCKETS_MAX
            } else {
                REACH
            };
            let depth = self.word.depth();
            if let Some(layout) = Layout::try_arrange(items.as_slice(), depth, steps, window) {
                self.index.fill_block(line, &layout);
                self.take_block(line, steps);
                return Grown::Bigger;
            }
            self.index.free_line(line, steps);
        }
        unreachable!("a unit's items fit the largest block at any distance from home")
    }

    /// Points the directory at a filled block and frees the old one.
    fn take_block(&mut self, line: u32, steps: usize) {
        let old = self.word;
        self.set_word(old.next(line, steps, old.depth()));
        self.index.free_block(old);
        Stats::add(&self.index.stats.rebuilds);
    }

    /// Takes a smaller block if the items have become few. Not being able to is no harm.
    pub(super) fn shrink_if_few(&mut self, count: usize) {
        let steps = self.word.steps();
        if !is_oversized(steps, count) {
            return;
        }
        let items = self.items();
        let layout = Layout::try_arrange(items.as_slice(), self.word.depth(), steps - 1, REACH);
        if let Some(layout) = layout {
            if let Some(line) = self.index.write_block(&layout, self.head) {
                self.take_block(line, layout.steps);
            }
        }
    }

    #[inline(never)]
    fn split(&mut self) -> Grown {
        let (old, depth) = (self.word, self.word.depth());
        let mut halves = [Gathered::new(), Gathered::new()];
        for &slot in self.items().as_slice() {
            halves[half_of(slot.tag(), depth)].push(slot);
        }
        let second = self.head.plus(RUN >> (depth + 1));
        let Some(lines) = self
            .index
            .write_pair(&halves, depth + 1, [self.head, second])
        else {
            return Grown::NoRoom;
        };
        let [first_word, second_word] = lines.map(|(line, steps)| old.next(line, steps, depth + 1));
        self.index.publish_run(second, second_word);
        self.set_word(first_word);
        self.index.free_block(old);
        Stats::add(&self.index.stats.splits);
        Grown::Divided
    }

    /// The tags have no bit left to divide by: reads the keys again and goes on in the finer directory.
    #[inline(never)]
    fn move_to_fine(&mut self, rehash: Rehash<'_>) -> Grown {
        let index = self.index;
        if !index.ensure_fine() {
            return Grown::NoRoom;
        }
        let mut halves = [Gathered::new(), Gathered::new()];
        let mut lost = 0;
        for &slot in self.items().as_slice() {
            // An item whose key cannot be read leaves the index: nobody could find it either.
            let Some(hash) = rehash(slot.place()) else {
                lost += 1;
                continue;
            };
            let (at, tag) = split_hash(hash, index.words * FINE);
            debug_assert_eq!(at / FINE, self.head.index, "rehash gave another key's hash");
            halves[at / RUN % 2].push(Slot::new(tag, slot.counter(), Tier::Hot, slot.place()));
        }
        let first = WordId::fine(self.head.index * FINE);
        let second = first.plus(RUN);
        let Some(lines) = index.write_pair(&halves, 0, [first, second]) else {
            return Grown::NoRoom;
        };
        for (head, (line, steps)) in [first, second].into_iter().zip(lines) {
            index.publish_run(head, Word(0).next(line, steps, 0));
        }
        let old = self.word;
        self.set_head(Word::IN_FINE);
        index.free_block(old);
        index.stats.items_changed(self.head.index, -lost);
        Stats::add(&index.stats.reread_splits);
        Grown::Divided
    }
}

const _: () = assert!(FINE == 2 * RUN, "a coarse word becomes two units");

impl Index {
    /// A new block holding `layout`, which no word names yet.
    fn write_block(&self, layout: &Layout, owner: WordId) -> Option<u32> {
        let line = self.classes.allocate(layout.steps, owner)?;
        self.fill_block(line, layout);
        Some(line)
    }

    /// Asks for the lines of a block that is about to be written, while there is something else to do.
    fn ask_for(&self, line: u32, steps: usize) {
        let first = line as usize;
        (first..first + block_lines(steps))
            .for_each(|line| self.region().prefetch(line * LINE_BYTES));
    }

    /// Asks for the block that will fill the place of one that is about to be freed.
    fn ask_for_last(&self, steps: usize) {
        if let Some(line) = self.classes.last_line(steps) {
            self.ask_for(line, steps);
        }
    }

    fn fill_block(&self, line: u32, layout: &Layout) {
        fence(Release);
        layout.write_to(Block::new(self.region().words(), line));
    }

    /// Two new blocks, or none.
    fn write_pair(
        &self,
        halves: &[Gathered; 2],
        depth: u32,
        owners: [WordId; 2],
    ) -> Option<[(u32, usize); 2]> {
        let first = self.write_half(&halves[0], depth, owners[0])?;
        match self.write_half(&halves[1], depth, owners[1]) {
            Some(second) => Some([first, second]),
            None => {
                self.free_line(first.0, first.1);
                None
            }
        }
    }

    fn write_half(&self, items: &Gathered, depth: u32, owner: WordId) -> Option<(u32, usize)> {
        let items = items.as_slice();
        let layout = Layout::arrange(items, depth, steps_for(items.len() + 1))
            .expect("half of a unit fits the largest block");
        Some((self.write_block(&layout, owner)?, layout.steps))
    }

    fn free_block(&self, word: Word) {
        if word.steps() > 0 {
            self.free_line(word.line(), word.steps());
        }
    }

    fn free_line(&self, line: u32, steps: usize) {
        let filled = self.classes.free(line, steps, |owner, from, to| {
            self.move_block(owner, from, to)
        });
        if filled == Filled::Hole {
            Stats::add(&self.stats.holes);
        }
    }
}
