//! Extents: 2 MiB pieces of a region, the grain in which memory is charged and given back.
//!
//! A taken extent is charged whole before its first byte is touched; a returned one goes back to the
//! operating system whole and is uncharged. Low addresses are taken first, so page tables stay small.

use super::{Budget, Region};
use crate::sync::{lock, AtomicBool, AtomicU32, Mutex, Ordering};
use std::sync::Arc;

/// Bytes of an extent: one huge page (in models 16 segments of 1 KiB).
pub(crate) const EXTENT_BYTES: usize = if cfg!(shuttle) { 16 << 10 } else { 2 << 20 };

/// The n-th extent of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ExtentId(pub(crate) u32);

impl ExtentId {
    pub(crate) fn offset(self) -> usize {
        self.0 as usize * EXTENT_BYTES
    }
}

/// The extents of one region.
pub(crate) struct Extents {
    region: Region,
    budget: Arc<Budget>,
    books: Mutex<Books>,
    /// `Books::taken`, and whether there is a warm one, for readers without the lock.
    taken: AtomicU32,
    warm: AtomicBool,
    warming: AtomicBool,
}

struct Books {
    /// Returned extents, unmapped and uncharged.
    returned: Vec<ExtentId>,
    /// The first extent never taken.
    fresh: u32,
    /// Charged and already touched, for the next taker: zeroing 2 MiB costs 190 us, far more on a
    /// virtual machine whose host has yet to supply the pages.
    warm: Option<ExtentId>,
}

impl Extents {
    pub(crate) fn new(region: Region, budget: Arc<Budget>) -> Extents {
        Extents {
            region,
            budget,
            books: Mutex::new(Books {
                returned: Vec::new(),
                fresh: 0,
                warm: None,
            }),
            taken: AtomicU32::new(0),
            warm: AtomicBool::new(false),
            warming: AtomicBool::new(false),
        }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// How many extents the address space holds.
    pub(crate) fn capacity(&self) -> u32 {
        (self.region.bytes() / EXTENT_BYTES) as u32
    }

    /// Extents taken and charged, the warm one included.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Whether an extent is waiting that was charged and touched ahead.
    pub(crate) fn has_warm(&self) -> bool {
        self.warm.load(Ordering::Relaxed)
    }

    /// Whether an extent is just being touched: charged, and soon to be had.
    pub(crate) fn is_warming(&self) -> bool {
        self.warming.load(Ordering::Relaxed)
    }

    /// Bytes the budget could still give.
    pub(crate) fn budget_free(&self) -> u64 {
        self.budget.free_bytes()
    }

    /// Takes an extent, zeroed; None when the budget or the address space is used up.
    pub(crate) fn take(&self) -> Option<ExtentId> {
        let mut books = lock(&self.books);
        if let Some(warm) = self.take_warm(&mut books) {
            return Some(warm);
        }
        self.charge_one(&mut books)
    }

    fn take_warm(&self, books: &mut Books) -> Option<ExtentId> {
        let warm = books.warm.take();
        self.warm.store(false, Ordering::Relaxed);
        warm
    }

    fn charge_one(&self, books: &mut Books) -> Option<ExtentId> {
        let untaken = !books.returned.is_empty() || books.fresh < self.capacity();
        if !untaken || !self.budget.try_charge(EXTENT_BYTES as u64) {
            return None;
        }
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(books.returned.pop().unwrap_or_else(|| {
            books.fresh += 1;
            ExtentId(books.fresh - 1)
        }))
    }

    /// Touches one extent ahead of need. Called by the background thread; false when nothing was done.
    pub(crate) fn warm_one(&self) -> bool {
        let extent = {
            let mut books = lock(&self.books);
            if books.warm.is_some() {
                return false;
            }
            self.warming.store(true, Ordering::Relaxed);
            match self.charge_one(&mut books) {
                Some(extent) => extent,
                None => {
                    self.warming.store(false, Ordering::Relaxed);
                    return false;
                }
            }
        };
        self.region.touch(extent.offset(), EXTENT_BYTES);
        let mut books = lock(&self.books);
        self.warming.store(false, Ordering::Relaxed);
        if books.warm.is_none() {
            books.warm = Some(extent);
            self.warm.store(true, Ordering::Relaxed);
            return true;
        }
        drop(books);
        self.give_back(extent);
        false
    }

    /// Gives back the extent that was touched ahead, when memory is wanted elsewhere.
    pub(crate) fn drop_warm(&self) -> bool {
        let warm = self.take_warm(&mut lock(&self.books));
        match warm {
            Some(extent) => {
                self.give_back(extent);
                true
            }
            None => false,
        }
    }

    /// Returns an extent to the operating system and uncharges it.
    pub(crate) fn give_back(&self, extent: ExtentId) {
        self.region.release(extent.offset(), EXTENT_BYTES);
        let mut books = lock(&self.books);
        self.taken.fetch_sub(1, Ordering::Relaxed);
        // Sorted from high to low: pop() takes the lowest address.
        let at = books.returned.partition_point(|&other| other > extent);
        books.returned.insert(at, extent);
        drop(books);
        self.budget.uncharge(EXTENT_BYTES as u64);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::Grain;
    use super::*;

    #[test]
    fn takes_low_addresses_first_and_charges_whole_extents() {
        let budget = Arc::new(Budget::new(3 * EXTENT_BYTES as u64));
        let region = Region::reserve(8 * EXTENT_BYTES, Grain::Items, false).unwrap();
        let extents = Extents::new(region, budget.clone());
        assert!(extents.warm_one());
        assert!(!extents.warm_one());
        let taken: Vec<_> = (0..3).map(|_| extents.take().unwrap()).collect();
        assert_eq!(taken, [ExtentId(0), ExtentId(1), ExtentId(2)]);
        assert_eq!(extents.take(), None);
        assert_eq!(budget.free_bytes(), 0);
        extents.give_back(ExtentId(1));
        extents.give_back(ExtentId(0));
        assert_eq!(extents.take(), Some(ExtentId(0)));
        assert_eq!(extents.taken(), 2);
    }
}
