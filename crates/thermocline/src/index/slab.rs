//! Slabs: the pieces of index memory that the size classes of blocks are made of.
//!
//! ```text
//! extent -> free -> a class's -> limbo -> free (two epochs later), or the same class's at once
//!        <- (all of its slabs free)
//! ```
//! What must hold: a slab changes its class only when no reader from before its retirement is left.
//! Such a reader may still walk it, and would take another class's header line for slots. Within one
//! class slots stay slots, and the reader's own re-check of the directory word does the rest.

use super::models_switch::{mutant, Mutant};
use crate::mem::{Domain, ExtentId, Extents, Region, EXTENT_BYTES};
use crate::sync::{lock, Mutex};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// The n-th slab of the index's region.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct SlabId(pub(super) u32);

struct Retired {
    slab: SlabId,
    class: usize,
    epoch: u64,
}

struct Books {
    /// Slabs for any class, from high to low: the lowest address is taken first, so that high
    /// extents become wholly free.
    free: Vec<SlabId>,
    limbo: Vec<Retired>,
    /// Barriers since a slab last came back.
    barriers: u32,
}

/// Barriers made at once for slabs in limbo, before trying only now and then: two free them unless
/// somebody is pinned, and each costs up to 12 us.
const BARRIERS: u32 = 4;
/// With so many slabs in limbo the background thread has something to do.
const LIMBO_DUE: usize = 8;
/// And with so many where few are idle: who finds none would have to raise a barrier.
const LIMBO_DUE_FEW_IDLE: usize = 4;
/// With so many it is called. That costs an insert a wake-up: 11 us on a virtual machine, at times 100.
const LIMBO_LATE: usize = 12;
/// From so many on it seems not to come, and who retires every eighth raises the barrier, though that costs an insert up
/// to 12 us. Left to those who raise barriers for other reasons, ten times a second, a growing index of 7 M items had 6 MiB
/// of slabs in limbo (0.8 bytes an item). One at a time, because who retires is pinned: a second one of its own is refused.
const LIMBO_OVERDUE: usize = 16;
/// So few idle slabs are few.
const IDLE_FEW: usize = 4;
/// With fewer, those in limbo among them, the next extent is touched ahead: enough that some are idle while others ripen.
const IDLE_MIN: usize = 8;

pub(super) struct Pool {
    domain: &'static Domain,
    extents: Extents,
    slab_bytes: usize,
    books: Mutex<Books>,
    /// The last slab asked for was refused. A hint: the library's own atomic, not a point to schedule
    /// at in models.
    short: AtomicBool,
    /// Slabs wait for a barrier, or idle extents for being given back. A hint like `short`.
    due: AtomicBool,
    /// They have waited long. A hint like `short`.
    overdue: AtomicBool,
}

impl Pool {
    /// Takes the first extents for a table of `table_bytes` at offset 0 and hands what is left of them
    /// to the classes. None when the budget has no room.
    pub(super) fn new(
        domain: &'static Domain,
        extents: Extents,
        slab_bytes: usize,
        table_bytes: usize,
    ) -> Option<Pool> {
        let pool = Pool {
            domain,
            extents,
            slab_bytes,
            books: Mutex::new(Books {
                free: Vec::new(),
                limbo: Vec::new(),
                barriers: 0,
            }),
            short: AtomicBool::new(false),
            due: AtomicBool::new(false),
            overdue: AtomicBool::new(false),
        };
        let mut books = lock(&pool.books);
        if pool.region().bytes() < EXTENT_BYTES {
            // A model's region: one piece smaller than an extent, all of it there from the start.
            pool.add_free(&mut books, 0, pool.region().bytes());
        } else {
            for n in 0..table_bytes.div_ceil(EXTENT_BYTES) {
                let Some(extent) = pool.extents.take() else {
                    (0..n).for_each(|n| pool.extents.give_back(ExtentId(n as u32)));
                    return None;
                };
                assert_eq!(
                    extent,
                    ExtentId(n as u32),
                    "a fresh region starts at its beginning"
                );
                pool.add_free(&mut books, extent.offset(), EXTENT_BYTES);
            }
        }
        let table_slabs = table_bytes.div_ceil(slab_bytes);
        let kept = books.free.len() - table_slabs;
        books.free.truncate(kept);
        drop(books);
        Some(pool)
    }

    #[inline(always)]
    pub(super) fn region(&self) -> &Region {
        self.extents.region()
    }

    pub(super) fn extents(&self) -> &Extents {
        &self.extents
    }

    #[cfg(test)]
    pub(super) fn domain(&self) -> &'static Domain {
        self.domain
    }

    pub(super) fn slab_bytes(&self) -> usize {
        self.slab_bytes
    }

    /// Slabs that no class has; those in limbo too, so only when no reader is left.
    pub(super) fn idle_slabs(&self) -> Vec<u32> {
        let books = lock(&self.books);
        let limbo = books.limbo.iter().map(|retired| retired.slab);
        books
            .free
            .iter()
            .copied()
            .chain(limbo)
            .map(|slab| slab.0)
            .collect()
    }

    /// Takes over the extents and idle slabs of an index that another process had.
    pub(super) fn take_over(&self, extents: &[u32], mut idle: Vec<u32>) {
        idle.sort_unstable_by(|a, b| b.cmp(a));
        self.extents.take_over(extents);
        lock(&self.books).free = idle.into_iter().map(SlabId).collect();
    }

    fn add_free(&self, books: &mut Books, offset: usize, bytes: usize) {
        let first = (offset / self.slab_bytes) as u32;
        for n in first..first + (bytes / self.slab_bytes) as u32 {
            books.add_free(SlabId(n));
        }
    }

    /// A slab for a class. None when neither the budget nor the limbo yields one: the caller reclaims
    /// something, unpins, and comes again.
    pub(super) fn take(&self, class: usize) -> Option<SlabId> {
        let slab = self.take_any(class);
        self.short.store(slab.is_none(), Relaxed);
        slab
    }

    /// Whether the last slab asked for was refused.
    pub(super) fn is_short(&self) -> bool {
        self.short.load(Relaxed)
    }

    /// What a slab costs rises from line to line: one of one's own, a free one, one of an extent touched ahead where few lie
    /// in limbo, a barrier (up to 12 us, and 100 where another processor has to be brought back), an extent (zeroed
    /// pages, and memory that others may want).
    fn take_any(&self, class: usize) -> Option<SlabId> {
        let mut books = lock(&self.books);
        if let Some(slab) = books.again(class).or_else(|| books.free.pop()) {
            self.tell(&books);
            return Some(slab);
        }
        self.ripen(&mut books);
        let gathered = books.limbo.len() >= LIMBO_DUE_FEW_IDLE;
        if books.free.is_empty() && (gathered || self.extents.warm() == 0) {
            self.ripen_with_barriers(&mut books);
        }
        if books.free.is_empty() {
            match self.extents.take() {
                Some(extent) => self.add_free(&mut books, extent.offset(), EXTENT_BYTES),
                None => self.ripen_with_barriers(&mut books),
            }
        }
        books.free.pop()
    }

    /// Lets the background thread know of what has gathered.
    fn tell(&self, books: &Books) {
        let few_idle = books.free.len() < IDLE_FEW;
        let most = if few_idle {
            LIMBO_DUE_FEW_IDLE
        } else {
            LIMBO_DUE
        };
        let late = books.limbo.len() >= LIMBO_LATE;
        if late || books.limbo.len() >= most {
            self.due.store(true, Relaxed);
        }
        if late {
            self.overdue.store(true, Relaxed);
        }
    }

    /// Frees slabs from limbo by moving the epoch on, if that can help.
    fn ripen_with_barriers(&self, books: &mut Books) {
        if !books.limbo.is_empty() {
            books.barriers += 1;
            if books.barriers <= BARRIERS || books.barriers % 64 == 0 {
                self.domain.try_advance();
                self.ripen(books);
            }
        }
    }

    fn ripen(&self, books: &mut Books) {
        let mut i = 0;
        while i < books.limbo.len() {
            if self.domain.passed(books.limbo[i].epoch) || mutant(Mutant::NoGrace) {
                let retired = books.limbo.swap_remove(i);
                books.add_free(retired.slab);
            } else {
                i += 1;
            }
        }
    }

    /// Whether the next extent should be touched before it is asked for.
    pub(super) fn wants_warm(&self) -> bool {
        let books = lock(&self.books);
        books.free.len() + books.limbo.len() < IDLE_MIN
    }

    /// Takes back a slab whose last block is gone.
    pub(super) fn retire(&self, slab: SlabId, class: usize) {
        let epoch = self.domain.epoch();
        let mut books = lock(&self.books);
        books.limbo.push(Retired { slab, class, epoch });
        books.barriers = 0;
        if books.limbo.len() >= LIMBO_OVERDUE && books.limbo.len() % LIMBO_DUE == 0 {
            self.domain.try_advance();
        }
        self.tell(&books);
    }

    /// Two extents' worth lying idle: the index is shrinking, not breathing.
    fn has_idle_extents(&self, books: &Books) -> bool {
        (books.free.len() + books.limbo.len()) * self.slab_bytes >= 2 * EXTENT_BYTES
    }

    /// Whether there is something for `tidy` to do.
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.due.load(Relaxed)
    }

    /// Whether that has waited long.
    #[inline(always)]
    pub(super) fn is_overdue(&self) -> bool {
        self.overdue.load(Relaxed)
    }

    /// Makes retired slabs usable, and gives empty extents back if many lie idle. Barriers and system calls are made
    /// without the books, which inserts may be waiting for. The caller is not pinned.
    pub(super) fn tidy(&self) {
        if !self.due.swap(false, Relaxed) {
            return;
        }
        let _ = self.domain.try_advance() && self.domain.try_advance();
        let mut books = lock(&self.books);
        self.overdue.store(false, Relaxed);
        self.ripen(&mut books);
        if self.has_idle_extents(&books) {
            let idle = self.take_idle_extents(&mut books);
            drop(books);
            self.give_back(idle);
        }
    }

    /// Returns wholly empty extents to the budget. Costs a barrier; called by the background thread.
    pub(super) fn trim(&self) {
        if !lock(&self.books).limbo.is_empty() {
            self.domain.try_advance();
        }
        let mut books = lock(&self.books);
        self.ripen(&mut books);
        let idle = self.take_idle_extents(&mut books);
        drop(books);
        self.give_back(idle);
    }

    /// Takes all slabs of wholly idle extents out of the books.
    fn take_idle_extents(&self, books: &mut Books) -> Vec<ExtentId> {
        let slabs = (EXTENT_BYTES / self.slab_bytes) as u32;
        let extent_of = |slab: SlabId| slab.0 / slabs;
        let mut idle = Vec::new();
        let mut kept: Vec<SlabId> = Vec::with_capacity(books.free.len());
        for group in books.free.chunk_by(|&a, &b| extent_of(a) == extent_of(b)) {
            if group.len() == slabs as usize {
                idle.push(ExtentId(extent_of(group[0])));
            } else {
                kept.extend(group);
            }
        }
        books.free = kept;
        idle
    }

    fn give_back(&self, idle: Vec<ExtentId>) {
        for extent in idle {
            self.extents.give_back(extent);
        }
    }
}

impl Books {
    fn add_free(&mut self, slab: SlabId) {
        let at = self.free.partition_point(|&other| other > slab);
        self.free.insert(at, slab);
    }

    /// A slab this class had before: its blocks lie where they lay, so no grace is needed.
    fn again(&mut self, class: usize) -> Option<SlabId> {
        let at = self.limbo.iter().position(|r| r.class == class)?;
        Some(self.limbo.swap_remove(at).slab)
    }
}
