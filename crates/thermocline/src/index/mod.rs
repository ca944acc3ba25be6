//! The index: from a hash to the places of items that may have it.
//!
//! ```text
//! hash -> directory word (8 B) -> unit: home bucket (64 B, 8 slots) -> place -> item (the caller's)
//! ```
//! A unit is one block of 1..=14 steps of 256 bytes, found by 1, 2 or 4 neighbouring words of a
//! directory of fixed size. It grows by a step at 94 % load, arranged anew from the tags in the slots;
//! past 14 steps it splits. In the last doubling before 10 M items an item costs 9.50 bytes, at worst
//! 9.60 (`tests::grows_to_ten_million_in_ten_bytes_an_item`); restructuring takes 2-5 us.
//!
//! Owns: slots, the directory, the memory of both. Leaves to others: keys (callers compare them and
//! hand over the places they rejected), the life of items, when to reclaim. What must hold:
//! - A caller is **pinned** in the index's domain from its first look to its last use of the answer.
//! - Slots change under the unit's lock only (`lock.rs`), except for the counter bits (`bump`).
//! - The directory is sized for life, one word for 40 KiB of the largest budget; where items are so
//!   small that a word's 421 are not enough, a finer directory of 8 times the words takes over.
//!
//! `read`: find, prefetch, bump. `write`: publish, move, remove. `grow`: rebuild and split, by
//! `layout` and `halves`. `lock`, `word`, `unit`: what the words mean. `class`, `slab`: memory. `scan`: the walk.

#[cfg(all(test, not(shuttle), not(miri)))]
mod bench;
mod class;
mod grow;
mod halves;
mod layout;
mod lock;
#[cfg(all(test, shuttle))]
mod models;
mod models_switch;
mod read;
mod scan;
mod slab;
mod stats;
#[cfg(all(test, not(shuttle)))]
mod tests;
mod unit;
mod warm;
mod word;
mod write;

pub(crate) use read::{Found, Near};
pub(crate) use scan::Cursor;
pub(crate) use stats::Stats as IndexStats;
pub(crate) use write::Publish;

use crate::location::Place;
use crate::mem::{Backing, Budget, Domain, Extents, Grain, Region, EXTENT_BYTES};
use crate::sync::AtomicU64;
use class::Classes;
use lock::Parking;
use slab::Pool;
use std::sync::{Arc, OnceLock};
use word::{Level, WordId, FINE, RUN};

/// Bytes of cache to a directory word: 0.02 % of the most memory there may be, which is twice what there is unless
/// somebody says otherwise. Of that, 200 bytes an item fill a unit of 4 words, and 50 bytes use up both free splits.
/// Units of fewer items waste more: half a step of 256 bytes is 12 % of 128 items. Steps of 512 bytes, with
/// words for 80 KiB, cost as much memory, and twice the time a restructuring.
const BYTES_PER_WORD: u64 = 40 << 10;
/// Below this much memory slabs are small, or 14 half-used ones would show.
const SMALL_MEMORY_BYTES: u64 = 256 << 20;
/// Lines are numbered with 32 bits.
const REGION_BYTES_MAX: u64 = 64 << 32;

/// Reads an item's key again and hashes it; None when it cannot be read. Called under the unit's lock
/// and the caller's pin: it must not wait, nor touch the index.
pub(crate) type Rehash<'a> = &'a dyn Fn(Place) -> Option<u64>;

/// Why there is no index.
#[derive(Debug)]
pub(crate) enum NewIndexError {
    /// No address space to be had.
    Os(std::io::Error),
    /// The budget has no room for the directory.
    NoRoom,
}

/// The sizes an index is made with.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Words of the directory, a multiple of 4.
    pub(crate) words: usize,
    pub(crate) slab_bytes: usize,
    /// Address space. Less than an extent: one piece, taken whole at the start and not charged
    /// (models).
    pub(crate) region_bytes: usize,
}

impl Geometry {
    /// The sizes for a cache that may grow to `memory_max_bytes`.
    pub(crate) fn for_memory(memory_max_bytes: u64) -> Geometry {
        let words = (memory_max_bytes / BYTES_PER_WORD) as usize;
        // Address space only. Even caches of the smallest items have less than half of their memory
        // in the index.
        let region = (memory_max_bytes / 2 + (16 << 20)).min(REGION_BYTES_MAX);
        Geometry {
            words: words.next_multiple_of(RUN).max(RUN),
            slab_bytes: if memory_max_bytes < SMALL_MEMORY_BYTES {
                32 << 10
            } else {
                128 << 10
            },
            region_bytes: (region as usize).next_multiple_of(EXTENT_BYTES),
        }
    }

    fn fine_bytes(&self) -> usize {
        (self.words * FINE * 8).next_multiple_of(EXTENT_BYTES)
    }

    fn table_bytes(&self) -> u64 {
        let slabs = self.region_bytes / self.slab_bytes;
        (slabs * 4 + std::mem::size_of::<Index>()) as u64
    }

    /// Bytes an index charges before it holds anything: its tables and the directory.
    pub(crate) fn least_bytes(&self) -> u64 {
        self.table_bytes() + (self.words * 8).next_multiple_of(EXTENT_BYTES) as u64
    }

    /// Bytes the index spans in a file of memory: its region, then the fine directory.
    pub(crate) fn span_bytes(&self) -> u64 {
        (self.region_bytes + self.fine_bytes()) as u64
    }
}

pub(crate) struct Index {
    words: usize,
    /// What the fine directory is mapped from.
    fine_backing: Backing,
    budget: Arc<Budget>,
    /// The coarse directory lies at offset 0 of the classes' region.
    classes: Classes,
    fine: OnceLock<Region>,
    parking: Parking,
    stats: IndexStats,
    table_bytes: u64,
}

impl Index {
    /// An empty index for a cache that may grow to `memory_max_bytes`. Charges the directory to the
    /// budget; blocks are charged by the extent as they are needed.
    pub(crate) fn new(
        domain: &'static Domain,
        budget: Arc<Budget>,
        memory_max_bytes: u64,
        backing: &Backing,
    ) -> Result<Index, NewIndexError> {
        let geometry = Geometry::for_memory(memory_max_bytes);
        Index::with_geometry(domain, budget, geometry, backing)
    }

    pub(crate) fn with_geometry(
        domain: &'static Domain,
        budget: Arc<Budget>,
        geometry: Geometry,
        backing: &Backing,
    ) -> Result<Index, NewIndexError> {
        assert!(geometry.words > 0 && geometry.words % RUN == 0);
        let table_bytes = geometry.table_bytes();
        let directory_bytes = geometry.words * 8;
        let region =
            Region::map(geometry.region_bytes, Grain::Index, backing).map_err(NewIndexError::Os)?;
        if !budget.try_charge(table_bytes) {
            return Err(NewIndexError::NoRoom);
        }
        let extents = Extents::new(region, budget.clone());
        let pool = match Pool::new(domain, extents, geometry.slab_bytes, directory_bytes) {
            Some(pool) => pool,
            None => {
                budget.uncharge(table_bytes);
                return Err(NewIndexError::NoRoom);
            }
        };
        Ok(Index {
            words: geometry.words,
            fine_backing: backing.further(geometry.region_bytes as u64),
            budget,
            classes: Classes::new(pool),
            fine: OnceLock::new(),
            parking: Parking::new(),
            stats: IndexStats::default(),
            table_bytes,
        })
    }

    #[inline(always)]
    fn region(&self) -> &Region {
        self.classes.pool().region()
    }

    #[inline(always)]
    fn word(&self, id: WordId) -> &AtomicU64 {
        match id.level {
            Level::Coarse => self.region().words().u64(id.index * 8),
            Level::Fine => self.fine_region().words().u64(id.index * 8),
        }
    }

    #[cold]
    fn fine_region(&self) -> &Region {
        self.fine
            .get()
            .expect("a word in the fine directory means there is one")
    }

    fn fine_bytes(&self) -> usize {
        (self.words * FINE * 8).next_multiple_of(EXTENT_BYTES)
    }

    /// Makes the fine directory on first need. False: the budget has no room for it.
    fn ensure_fine(&self) -> bool {
        if self.fine.get().is_some() {
            return true;
        }
        let bytes = self.fine_bytes();
        if !self.budget.try_charge(bytes as u64) {
            return false;
        }
        let size = if cfg!(shuttle) {
            self.words * FINE * 8
        } else {
            bytes
        };
        let made = Region::map(size, Grain::Index, &self.fine_backing).is_ok_and(|region| {
            let there = !self.fine_backing.must_ask() || region.supply(0, size);
            there && self.fine.set(region).is_ok()
        });
        if !made {
            self.budget.uncharge(bytes as u64);
        }
        // Another thread may have been first.
        self.fine.get().is_some()
    }

    /// Items in the index. Exact when no writer is at work.
    pub(crate) fn items(&self) -> u64 {
        self.stats.items()
    }

    /// Bytes charged to the budget: directories, extents, tables.
    pub(crate) fn bytes(&self) -> u64 {
        let fine = self.fine.get().map_or(0, |_| self.fine_bytes());
        let extents = self.classes.pool().extents().taken() as usize * EXTENT_BYTES;
        self.table_bytes + (fine + extents) as u64
    }

    /// Bytes in use: as `bytes`, without the parts of extents that no size class has taken.
    pub(crate) fn used_bytes(&self) -> u64 {
        let fine = self.fine.get().map_or(0, |_| self.fine_bytes());
        self.table_bytes + (self.words * 8 + self.classes.slab_bytes() + fine) as u64
    }

    /// The domain its callers pin in.
    #[cfg(test)]
    pub(crate) fn domain(&self) -> &'static Domain {
        self.classes.pool().domain()
    }

    /// Places freed and not yet filled.
    #[cfg(test)]
    pub(crate) fn open_holes(&self) -> usize {
        self.classes.holes()
    }

    pub(crate) fn stats(&self) -> &IndexStats {
        &self.stats
    }

    /// Whether the index will soon need another extent.
    pub(crate) fn wants_warm(&self) -> bool {
        self.classes.pool().wants_warm()
    }

    /// The extents of the index, for the background thread to touch one ahead (`Extents::warm_one`).
    pub(crate) fn extents(&self) -> &Extents {
        self.classes.pool().extents()
    }

    /// Whether the last slab the index asked for was refused: units are filled past 94 % meanwhile, and
    /// inserts may come back `NoRoom`. One free extent of budget cures it at the next try.
    pub(crate) fn is_short(&self) -> bool {
        self.classes.pool().is_short()
    }

    /// Whether there is something for `tidy` to do. One load.
    #[inline(always)]
    pub(crate) fn is_untidy(&self) -> bool {
        self.classes.pool().is_due()
    }

    /// Whether `tidy` is waited for. One load.
    #[inline(always)]
    pub(crate) fn is_overdue(&self) -> bool {
        self.classes.pool().is_overdue()
    }

    /// Does what growing and shrinking units left for later: barriers, empty extents. No pin may be held.
    pub(crate) fn tidy(&self) {
        self.classes.pool().tidy();
    }

    /// Gives wholly empty extents back. For the background thread, now and then; costs a barrier.
    pub(crate) fn trim(&self) {
        self.classes.pool().trim();
    }
}
