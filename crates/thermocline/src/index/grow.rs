//! How a unit changes its size: rebuild, split, move to the fine directory, shrink.
//!
//! ```text
//! n steps --0.94 full, or no room within reach--> n + 1 steps ... 14 steps
//! 14 steps, depth 0 or 1  --split by a bit of the tags, no key is read-->  two units of depth + 1
//! 14 steps, depth 2, coarse  --keys read again (15-25 us)-->  two units of the fine directory
//! 14 steps, depth 2, fine  --items may lie any distance from home, until all slots are used
//! ```
//! Each step: take the blocks, `fence(Release)`, arrange the items in them, point the directory at
//! them, free the old block. The fence is what makes a reader's re-check sound: who reads a word of a
//! recycled block must then see that the directory has moved on. Units are never merged: emptied, a
//! split pair costs one block of 576 bytes more than before.

use super::class::Filled;
use super::layout::{Filling, Gathered};
use super::lock::Locked;
use super::stats::Stats;
use super::unit::{block_lines, is_oversized, steps_for, Block, LINE_BYTES, STEPS_MAX};
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
        let (old, depth, block) = (self.word, self.word.depth(), self.block());
        // Free slots are all zeros: they count for the first half, which is then what the second leaves.
        let mut later = 0;
        block.for_each_slot(old.steps(), |slot| later += half_of(slot.tag(), depth));
        let counts = [block.count() - later, later];
        let second = self.head.plus(RUN >> (depth + 1));
        let owners = [self.head, second];
        let put_all = |new: &mut [Filling<'_>; 2]| {
            block.for_each(old.steps(), |slot| {
                new[half_of(slot.tag(), depth)].put(slot)
            })
        };
        let Some(lines) = self.index.write_pair(owners, depth + 1, counts, put_all) else {
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
        let counts = [0, 1].map(|half| halves[half].as_slice().len());
        let put_all = |new: &mut [Filling<'_>; 2]| {
            for (half, new) in halves.iter().zip(new) {
                half.as_slice().iter().for_each(|&slot| new.put(slot));
            }
        };
        let Some(lines) = index.write_pair([first, second], 0, counts, put_all) else {
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

    /// Two new blocks that no word names yet, or none. `put_all` puts `counts` items in them.
    #[inline(always)]
    fn write_pair(
        &self,
        owners: [WordId; 2],
        depth: u32,
        counts: [usize; 2],
        put_all: impl Fn(&mut [Filling<'_>; 2]),
    ) -> Option<[(u32, usize); 2]> {
        let mut steps = counts.map(|count| steps_for(count + 1));
        loop {
            let lines = self.allocate_pair(steps, owners)?;
            fence(Release);
            let mut new = [0, 1].map(|n| self.filling(lines[n], steps[n], depth));
            put_all(&mut new);
            let fits = new.map(Filling::finish);
            if fits == [true; 2] {
                return Some([(lines[0], steps[0]), (lines[1], steps[1])]);
            }
            for n in 0..2 {
                self.free_line(lines[n], steps[n]);
                steps[n] += usize::from(!fits[n]);
            }
        }
    }

    fn allocate_pair(&self, steps: [usize; 2], owners: [WordId; 2]) -> Option<[u32; 2]> {
        let first = self.classes.allocate(steps[0], owners[0])?;
        self.ask_for(first, steps[0]);
        let Some(second) = self.classes.allocate(steps[1], owners[1]) else {
            self.free_line(first, steps[0]);
            return None;
        };
        self.ask_for(second, steps[1]);
        Some([first, second])
    }

    #[inline(always)]
    fn filling(&self, line: u32, steps: usize, depth: u32) -> Filling<'_> {
        Filling::new(Block::new(self.region().words(), line), steps, depth)
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
