//! Blocks of one size, kept dense: a freed block is filled by the class's last one.
//!
//! Best-fit blocks with coalescing waste 17-26 % here, because all units want the next size at the
//! same time; a dense array a class wastes at most one slab of each class. The price is a copy of at
//! most 3.6 KiB a rebuild.
//!
//! Locks: unit -> class -> pool. Whoever holds a class only *tries* other units, and moves a block only
//! if its owner's word names it: it may be between allocation and publication. If the try fails the
//! freed place becomes a hole, which the next allocation takes.

use super::slab::{Pool, SlabId};
use super::unit::{block_lines, Block, LINE_BYTES, STEPS_MAX};
use super::word::WordId;
use crate::image::{In, Out};
use crate::sync::{lock, AtomicU32, Mutex, Ordering::Relaxed};

struct Class {
    steps: usize,
    slabs: Vec<SlabId>,
    /// Blocks in use plus holes.
    len: usize,
    holes: Vec<usize>,
}

pub(super) struct Classes {
    pool: Pool,
    classes: Vec<Mutex<Class>>,
    /// Where each slab stands in its class's list. Written and read under that class's lock.
    ranks: Box<[AtomicU32]>,
}

/// What became of the place a block left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Filled {
    /// Nothing had to move.
    Last,
    Moved,
    Hole,
}

impl Classes {
    pub(super) fn new(pool: Pool) -> Classes {
        let slabs = pool.region().bytes() / pool.slab_bytes();
        let class = |steps| {
            Mutex::new(Class {
                steps,
                slabs: Vec::new(),
                len: 0,
                holes: Vec::new(),
            })
        };
        Classes {
            pool,
            classes: (1..=STEPS_MAX).map(class).collect(),
            ranks: (0..slabs).map(|_| AtomicU32::new(0)).collect(),
        }
    }

    #[inline(always)]
    pub(super) fn pool(&self) -> &Pool {
        &self.pool
    }

    fn per_slab(&self, steps: usize) -> usize {
        self.pool.slab_bytes() / (block_lines(steps) * LINE_BYTES)
    }

    fn slab_lines(&self) -> usize {
        self.pool.slab_bytes() / LINE_BYTES
    }

    fn line(&self, class: &Class, at: usize) -> u32 {
        let per_slab = self.per_slab(class.steps);
        let slab = class.slabs[at / per_slab];
        (slab.0 as usize * self.slab_lines() + at % per_slab * block_lines(class.steps)) as u32
    }

    /// The position of the block at `line` in its class.
    fn position(&self, class: &Class, line: u32) -> usize {
        let slab = line as usize / self.slab_lines();
        let rank = self.ranks[slab].load(Relaxed) as usize;
        debug_assert_eq!(class.slabs[rank], SlabId(slab as u32));
        rank * self.per_slab(class.steps)
            + line as usize % self.slab_lines() / block_lines(class.steps)
    }

    /// A block of `steps` steps for the unit whose head is `owner`. None: no slab to be had.
    pub(super) fn allocate(&self, steps: usize, owner: WordId) -> Option<u32> {
        let mut class = lock(&self.classes[steps - 1]);
        let at = match class.holes.pop() {
            Some(hole) => hole,
            None => {
                if class.len == class.slabs.len() * self.per_slab(steps) {
                    let slab = self.pool.take(steps)?;
                    self.ranks[slab.0 as usize].store(class.slabs.len() as u32, Relaxed);
                    class.slabs.push(slab);
                }
                class.len += 1;
                class.len - 1
            }
        };
        let line = self.line(&class, at);
        Block::new(self.pool.region().words(), line).set_owner(owner);
        Some(line)
    }

    /// The block that would fill the place of a freed one of this size; a hint.
    pub(super) fn last_line(&self, steps: usize) -> Option<u32> {
        let class = lock(self.classes.get(steps.checked_sub(1)?)?);
        let last = class.len.checked_sub(1)?;
        Some(self.line(&class, last))
    }

    /// Frees the block at `line`. `move_block(owner, from, to)` moves a block of another unit if it
    /// can lock that unit at once and the unit's word names `from`.
    pub(super) fn free(
        &self,
        line: u32,
        steps: usize,
        move_block: impl Fn(WordId, u32, u32) -> bool,
    ) -> Filled {
        let mut class = lock(&self.classes[steps - 1]);
        let at = self.position(&class, line);
        self.drop_holes_at_end(&mut class);
        let last = class.len - 1;
        if at == last {
            self.pop(&mut class);
            self.drop_holes_at_end(&mut class);
            return Filled::Last;
        }
        let from = self.line(&class, last);
        let owner = Block::new(self.pool.region().words(), from).owner();
        if move_block(owner, from, line) {
            self.pop(&mut class);
            self.drop_holes_at_end(&mut class);
            Filled::Moved
        } else {
            class.holes.push(at);
            Filled::Hole
        }
    }

    fn drop_holes_at_end(&self, class: &mut Class) {
        while let Some(hole) = class.holes.iter().position(|&hole| hole + 1 == class.len) {
            class.holes.swap_remove(hole);
            self.pop(class);
        }
    }

    /// Forgets the last block, and its slab if that was the slab's only one.
    fn pop(&self, class: &mut Class) {
        class.len -= 1;
        if class.len % self.per_slab(class.steps) == 0 {
            let slab = class.slabs.pop().expect("a class with blocks has a slab");
            self.pool.retire(slab, class.steps);
        }
    }

    pub(super) fn write(&self, out: &mut Out) {
        for class in &self.classes {
            let class = lock(class);
            out.list(class.slabs.iter().map(|slab| slab.0));
            out.list(class.holes.iter().map(|&hole| hole as u32));
            out.u64(class.len as u64);
        }
    }

    /// Takes over what `write` wrote; `end` slabs there are at most. Returns the slabs in use. None: what was
    /// read cannot be.
    pub(super) fn read(&self, end: usize, from: &mut In<'_>) -> Option<Vec<u32>> {
        let mut used = Vec::new();
        for class in &self.classes {
            let mut class = lock(class);
            let slabs = from.ids(end)?;
            let per_slab = self.per_slab(class.steps);
            let holes = from.ids(slabs.len() * per_slab)?;
            let last = (slabs.len() * per_slab) as u64;
            // The last slab is begun.
            let first = (slabs.len().saturating_sub(1) * per_slab) as u64;
            let least = first + u64::from(!slabs.is_empty());
            class.len = from.within(least..last + 1)? as usize;
            if holes.iter().any(|&hole| hole as usize >= class.len) {
                return None;
            }
            class.holes = holes.into_iter().map(|hole| hole as usize).collect();
            for (rank, &slab) in slabs.iter().enumerate() {
                self.ranks[slab as usize].store(rank as u32, Relaxed);
            }
            class.slabs = slabs.iter().copied().map(SlabId).collect();
            used.extend(slabs);
        }
        Some(used)
    }

    /// Bytes of the slabs the classes have.
    pub(super) fn slab_bytes(&self) -> usize {
        let slabs: usize = self
            .classes
            .iter()
            .map(|class| lock(class).slabs.len())
            .sum();
        slabs * self.pool.slab_bytes()
    }

    /// Free places inside the classes.
    #[cfg(test)]
    pub(super) fn holes(&self) -> usize {
        self.classes
            .iter()
            .map(|class| lock(class).holes.len())
            .sum()
    }
}
