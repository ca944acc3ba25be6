//! How a unit changes its size: rebuild, split, move to the fine directory, shrink.
//!
//! ```text
//! n steps --0.94 full, or no room within reach--> n + 1 steps ... 14 steps
//! 14 steps, depth 0 or 1  --0.89 full: split by a bit of the tags, no key is read-->  two units of depth + 1
//! 14 steps, depth 2, coarse  --keys read again (15-25 us)-->  two units of the fine directory
//! 14 steps, depth 2, fine  --items may lie any distance from home, until all slots are used
//! ```
//! Each step: take the blocks, `fence(Release)`, arrange the items in them, point the directory at
//! them, free the old block. The fence is what makes a reader's re-check sound: who reads a word of a
//! recycled block must then see that the directory has moved on. Units are never merged: emptied, a
//! split pair costs one block of 576 bytes more than before.

use super::class::Filled;
use super::halves::{Halves, HALF_STEPS};
use super::layout::{Filling, Gathered};
use super::lock::Locked;
use super::stats::Stats;
use super::unit::{block_lines, is_oversized, steps_for, Block, LINE_BYTES, STEPS_MAX};
use super::word::{split_hash, Level, Word, WordId, DEPTH_MAX, FINE, RUN};
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

    /// Takes a block of at least so many steps.
    #[inline(never)]
    fn rebuild(&mut self, steps: usize) -> Grown {
        self.ask_for_lines();
        match self
            .index
            .write_block(self.head, self.word.depth(), steps, self.all())
        {
            Some((line, steps)) => {
                self.take_block(line, steps);
                Grown::Bigger
            }
            None => Grown::NoRoom,
        }
    }

    /// Puts every item of the unit in a new block.
    fn all(&self) -> impl Fn(&mut Filling<'_>) + '_ {
        |new| match self.word.steps() {
            0 => {}
            steps => new.put_block(self.block(), steps),
        }
    }

    /// Asks for the unit's own block, and for the one that will fill its place.
    fn ask_for_lines(&self) {
        let steps = self.word.steps();
        if steps > 0 {
            self.index.ask_for(self.word.line(), steps);
            self.index.ask_for_last(steps);
        }
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
        self.ask_for_lines();
        let (smaller, depth) = (steps - 1, self.word.depth());
        let Some(line) = self.index.classes.allocate(smaller, self.head) else {
            return;
        };
        match self.index.fill_block(line, smaller, depth, self.all()) {
            true => self.take_block(line, smaller),
            false => self.index.free_line(line, smaller),
        }
    }

    #[inline(never)]
    fn split(&mut self) -> Grown {
        self.ask_for_lines();
        let (old, depth) = (self.word, self.word.depth());
        let halves = Halves::of(self.block(), depth);
        let second = self.head.plus(RUN >> (depth + 1));
        let write = |half, owner| self.index.write_half(&halves, half, owner, depth + 1);
        let Some(lines) = self.index.write_pair([self.head, second], write) else {
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
        self.block().for_each(self.word.steps(), |slot| {
            // An item whose key cannot be read leaves the index: nobody could find it either.
            let Some(hash) = rehash(slot.place()) else {
                lost += 1;
                return;
            };
            let (at, tag) = split_hash(hash, index.words * FINE);
            debug_assert_eq!(at / FINE, self.head.index, "rehash gave another key's hash");
            halves[at / RUN % 2].push(Slot::new(tag, slot.counter(), Tier::Hot, slot.place()));
        });
        let first = WordId::fine(self.head.index * FINE);
        let second = first.plus(RUN);
        let write = |half: usize, owner| {
            let items = halves[half].as_slice();
            let put_all = |new: &mut Filling<'_>| items.iter().for_each(|&slot| new.put(slot));
            index.write_block(owner, 0, steps_for(items.len() + 1), put_all)
        };
        let Some(lines) = index.write_pair([first, second], write) else {
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
    /// A new block that no word names yet, with what `put_all` puts in, of the fewest steps from `steps` on in
    /// which all of it finds room. None: no slab for it; being refused is cheap, nothing has been arranged yet.
    #[inline(always)]
    fn write_block(
        &self,
        owner: WordId,
        depth: u32,
        steps: usize,
        put_all: impl Fn(&mut Filling<'_>),
    ) -> Option<(u32, usize)> {
        for steps in steps..=STEPS_MAX {
            let line = self.classes.allocate(steps, owner)?;
            if self.fill_block(line, steps, depth, &put_all) {
                return Some((line, steps));
            }
            self.free_line(line, steps);
        }
        unreachable!("a unit's items fit the largest block at any distance from home")
    }

    /// Fills a block that no word names. False: not everything finds room within reach of its home.
    #[inline(always)]
    fn fill_block(
        &self,
        line: u32,
        steps: usize,
        depth: u32,
        put_all: impl Fn(&mut Filling<'_>),
    ) -> bool {
        self.ask_for(line, steps);
        fence(Release);
        let mut new = self.filling(line, steps, depth);
        put_all(&mut new);
        new.finish()
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

    /// A new block that no word names yet, with one half of a unit that splits.
    #[inline(always)]
    fn write_half(
        &self,
        halves: &Halves<'_>,
        half: usize,
        owner: WordId,
        depth: u32,
    ) -> Option<(u32, usize)> {
        if !halves.fits_as_it_lies(half) {
            let steps = steps_for(halves.count(half) + 1);
            let put_all = |new: &mut Filling<'_>| halves.for_each(half, |slot| new.put(slot));
            return self.write_block(owner, depth, steps, put_all);
        }
        let line = self.classes.allocate(HALF_STEPS, owner)?;
        self.ask_for(line, HALF_STEPS);
        fence(Release);
        halves.copy(half, self.block_at(line));
        Some((line, HALF_STEPS))
    }

    /// Two new blocks that no word names yet, or none.
    #[inline(always)]
    fn write_pair(
        &self,
        owners: [WordId; 2],
        write: impl Fn(usize, WordId) -> Option<(u32, usize)>,
    ) -> Option<[(u32, usize); 2]> {
        let first = write(0, owners[0])?;
        let Some(second) = write(1, owners[1]) else {
            self.free_line(first.0, first.1);
            return None;
        };
        Some([first, second])
    }

    #[inline(always)]
    fn filling(&self, line: u32, steps: usize, depth: u32) -> Filling<'_> {
        Filling::new(self.block_at(line), steps, depth)
    }

    #[inline(always)]
    fn block_at(&self, line: u32) -> Block<'_> {
        Block::new(self.region().words(), line)
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
