//! Extents: 2 MiB pieces of a region, the grain in which memory is charged and given back.
//!
//! ```text
//! fresh, returned --charge, supply--> warm --take--> taken --give back--> returned
//! ```
//! A taken extent is charged whole before its first byte is touched; a returned one goes back to the
//! operating system whole and is uncharged. Low addresses are taken first, so page tables stay small. Where
//! pages are larger than an extent (1 GiB) all extents of a page are charged together, wait in `warm`, and
//! stay charged for good.
//!
//! In team use parts of a taken extent may be given back before the whole: `broken`.
//!
//! Memory that a pool or a file may not have (`Backing::must_ask`) is asked for when it is charged; what the
//! pool has not got is ordinary memory, what the file system has not got is refused for a moment.

mod broken;

use super::os::monotonic_ms;
use super::{Budget, Region};
use crate::sync::{lock, AtomicBool, AtomicU32, Mutex, Ordering};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicU8};
use std::sync::Arc;

/// Bytes of an extent: one huge page (in models 16 segments of 1 KiB).
pub(crate) const EXTENT_BYTES: usize = if cfg!(shuttle) { 16 << 10 } else { 2 << 20 };

/// How long a full file system is not asked again.
const REFUSED_MS: u64 = 100;

/// The n-th extent of a region.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct ExtentId(pub(crate) u32);

impl ExtentId {
    pub(crate) fn offset(self) -> usize {
        self.0 as usize * EXTENT_BYTES
    }
}

/// What is known of the pages of an extent. The library's own atomics, not points to schedule at in models.
mod page {
    /// Not charged.
    pub(super) const ABSENT: u8 = 0;
    /// Charged; the pages may be small.
    pub(super) const MAYBE_SMALL: u8 = 1;
    /// Being made huge this moment.
    pub(super) const COLLAPSING: u8 = 2;
    /// Was made huge, or found so.
    pub(super) const HUGE: u8 = 3;
    /// Given back while it was being made huge: whoever does that gives it back.
    pub(super) const GOING: u8 = 4;
    /// Parts of it were given back: charged without them, and not to be made huge.
    pub(super) const BROKEN: u8 = 5;
}

/// What came of making an extent huge.
#[derive(Debug)]
pub(crate) enum Collapsed {
    Huge,
    /// Not taken, already huge, or going.
    Skipped,
    /// No huge page to be had now, or nothing there to copy yet.
    Failed,
}

/// The extents of one region.
pub(crate) struct Extents {
    region: Region,
    budget: Arc<Budget>,
    books: Mutex<Books>,
    pages: Box<[AtomicU8]>,
    /// Extents that come and go together.
    page_extents: u32,
    /// `Books::taken` and how many are warm, for readers without the lock.
    taken: AtomicU32,
    warm: AtomicU32,
    warming: AtomicBool,
    /// The last one taken had not been touched ahead.
    late: AtomicBool,
    /// Until when nothing more is asked for, monotonic ms; 0: there is no such time.
    refused_until_ms: AtomicU64,
    /// Extents of ordinary memory, because the pool was empty; and times nothing at all was to be had.
    ordinary: AtomicU32,
    refusals: AtomicU64,
    /// Of extents broken: how many there are, bytes given back in parts, and times one became whole again.
    broken: AtomicU32,
    released_bytes: AtomicU64,
    mended: AtomicU64,
}

struct Books {
    /// Returned extents, unmapped and uncharged.
    returned: BTreeSet<ExtentId>,
    /// The first extent never taken.
    fresh: u32,
    /// Charged and already touched, for the next taker: zeroing 2 MiB costs 190 us, far more on a
    /// virtual machine whose host has yet to supply the pages. From high to low addresses.
    warm: Vec<ExtentId>,
    /// Extents that are ordinary memory in a region of the pool's.
    ordinary: BTreeSet<ExtentId>,
    /// Bytes given back of extents that are in use.
    missing: BTreeMap<ExtentId, u32>,
}

impl Extents {
    pub(crate) fn new(region: Region, budget: Arc<Budget>) -> Extents {
        let capacity = region.bytes() / EXTENT_BYTES;
        Extents {
            page_extents: (region.backing().page_bytes() / EXTENT_BYTES).max(1) as u32,
            pages: (0..capacity).map(|_| AtomicU8::new(page::ABSENT)).collect(),
            region,
            budget,
            books: Mutex::new(Books {
                returned: BTreeSet::new(),
                fresh: 0,
                warm: Vec::new(),
                ordinary: BTreeSet::new(),
                missing: BTreeMap::new(),
            }),
            taken: AtomicU32::new(0),
            warm: AtomicU32::new(0),
            warming: AtomicBool::new(false),
            late: AtomicBool::new(false),
            refused_until_ms: AtomicU64::new(0),
            ordinary: AtomicU32::new(0),
            refusals: AtomicU64::new(0),
            broken: AtomicU32::new(0),
            released_bytes: AtomicU64::new(0),
            mended: AtomicU64::new(0),
        }
    }

    pub(crate) fn region(&self) -> &Region {
        &self.region
    }

    /// How many extents the address space holds.
    pub(crate) fn capacity(&self) -> u32 {
        (self.region.bytes() / EXTENT_BYTES) as u32
    }

    /// Extents taken and charged, the warm ones included.
    pub(crate) fn taken(&self) -> u32 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Extents that were charged and touched ahead.
    pub(crate) fn warm(&self) -> u32 {
        self.warm.load(Ordering::Relaxed)
    }

    /// Whether an extent is just being touched: charged, and soon to be had.
    pub(crate) fn is_warming(&self) -> bool {
        self.warming.load(Ordering::Relaxed)
    }

    /// Whether touching ahead comes too late: the last extent taken had to be touched by its taker.
    pub(crate) fn is_late(&self) -> bool {
        self.late.load(Ordering::Relaxed)
    }

    /// Bytes the budget could still give.
    pub(crate) fn budget_free(&self) -> u64 {
        self.budget.free_bytes()
    }

    /// Extents the address space could still give; 0 while the file system is full.
    pub(crate) fn room(&self) -> u32 {
        if self.is_refused() {
            return 0;
        }
        let left = self.capacity() - self.taken();
        left / self.page_extents * self.page_extents
    }

    /// Whether the file system said a moment ago that it is full.
    pub(crate) fn is_refused(&self) -> bool {
        let until = self.refused_until_ms.load(Ordering::Relaxed);
        if until == 0 {
            return false;
        }
        let refused = monotonic_ms() < until;
        if !refused {
            self.refused_until_ms.store(0, Ordering::Relaxed);
        }
        refused
    }

    fn refuse(&self) {
        self.refusals.fetch_add(1, Ordering::Relaxed);
        let until = monotonic_ms() + REFUSED_MS;
        self.refused_until_ms.store(until, Ordering::Relaxed);
    }

    /// Whether memory goes back to the system at all.
    pub(crate) fn gives_back(&self) -> bool {
        self.page_extents == 1
    }

    /// Extents that are ordinary memory because the pool had no page.
    pub(crate) fn ordinary(&self) -> u32 {
        self.ordinary.load(Ordering::Relaxed)
    }

    /// Times the file system had nothing to give.
    pub(crate) fn refusals(&self) -> u64 {
        self.refusals.load(Ordering::Relaxed)
    }

    /// Takes an extent; None when the budget, the address space or the file system is used up.
    pub(crate) fn take(&self) -> Option<ExtentId> {
        let mut books = lock(&self.books);
        if let Some(warm) = books.warm.pop() {
            self.publish_warm(&books);
            self.late.store(false, Ordering::Relaxed);
            return Some(warm);
        }
        let first = self.charge_page(&mut books)?;
        self.late.store(true, Ordering::Relaxed);
        if self.region.backing().must_ask() && !self.supply(&mut books, first) {
            self.uncharge_page(&mut books, first);
            return None;
        }
        self.add_warm(&mut books, first);
        let taken = books.warm.pop();
        self.publish_warm(&books);
        taken
    }

    fn publish_warm(&self, books: &Books) {
        self.warm.store(books.warm.len() as u32, Ordering::Relaxed);
    }

    /// All extents of a page, its first one on top.
    fn add_warm(&self, books: &mut Books, first: ExtentId) {
        for n in (0..self.page_extents).rev() {
            books.warm.push(ExtentId(first.0 + n));
        }
    }

    fn page_bytes(&self) -> usize {
        self.page_extents as usize * EXTENT_BYTES
    }

    /// Charges the lowest page there is.
    fn charge_page(&self, books: &mut Books) -> Option<ExtentId> {
        let fresh = books.fresh + self.page_extents <= self.capacity();
        let untaken = !books.returned.is_empty() || fresh;
        if !untaken || self.room() == 0 || !self.budget.try_charge(self.page_bytes() as u64) {
            return None;
        }
        self.taken.fetch_add(self.page_extents, Ordering::Relaxed);
        let first = books.returned.pop_first().unwrap_or_else(|| {
            books.fresh += self.page_extents;
            ExtentId(books.fresh - self.page_extents)
        });
        self.set_pages(first, page::MAYBE_SMALL);
        Some(first)
    }

    fn set_pages(&self, first: ExtentId, state: u8) {
        for n in first.0..first.0 + self.page_extents {
            self.pages[n as usize].store(state, Ordering::Release);
        }
    }

    fn uncharge_page(&self, books: &mut Books, first: ExtentId) {
        self.set_pages(first, page::ABSENT);
        self.taken.fetch_sub(self.page_extents, Ordering::Relaxed);
        books.returned.insert(first);
        self.budget.uncharge(self.page_bytes() as u64);
    }

    /// Brings the memory of a page that must be asked for. False: there is none.
    fn supply(&self, books: &mut Books, first: ExtentId) -> bool {
        if self.region.supply(first.offset(), self.page_bytes()) {
            return true;
        }
        if self.region.backing().file.is_none()
            && self.region.make_ordinary(first.offset(), self.page_bytes())
        {
            books.ordinary.insert(first);
            self.ordinary
                .fetch_add(self.page_extents, Ordering::Relaxed);
            return true;
        }
        self.refuse();
        false
    }

    /// Touches one extent ahead of need, unless one is waiting. Called by the background thread; false when
    /// nothing was done.
    pub(crate) fn warm_one(&self) -> bool {
        self.warm() == 0 && self.warm_another()
    }

    /// Touches one more extent ahead of need. False: there is none to be had.
    pub(crate) fn warm_another(&self) -> bool {
        let first = {
            let mut books = lock(&self.books);
            self.warming.store(true, Ordering::Relaxed);
            let first = self.charge_page(&mut books);
            let Some(first) = first else {
                self.warming.store(false, Ordering::Relaxed);
                return false;
            };
            first
        };
        // Without the lock: this is what takes long.
        let brought = self.region.supply(first.offset(), self.page_bytes());
        let mut books = lock(&self.books);
        self.warming.store(false, Ordering::Relaxed);
        if !brought {
            if !self.region.backing().must_ask() {
                self.region.touch(first.offset(), self.page_bytes());
            } else if !self.supply(&mut books, first) {
                self.uncharge_page(&mut books, first);
                return false;
            }
        }
        let waiting = std::mem::take(&mut books.warm);
        self.add_warm(&mut books, first);
        // What waited before is taken before.
        books.warm.extend(waiting);
        self.publish_warm(&books);
        true
    }

    /// Gives back an extent that was touched ahead, when memory is wanted elsewhere.
    pub(crate) fn drop_warm(&self) -> bool {
        if !self.gives_back() {
            return false;
        }
        let warm = {
            let mut books = lock(&self.books);
            // The one that would be taken last.
            let warm = (!books.warm.is_empty()).then(|| books.warm.remove(0));
            self.publish_warm(&books);
            warm
        };
        match warm {
            Some(extent) => {
                self.give_back(extent);
                true
            }
            None => false,
        }
    }

    /// Returns an extent to the operating system and uncharges it. (Of a larger page: to the waiting ones.)
    pub(crate) fn give_back(&self, extent: ExtentId) {
        if !self.gives_back() {
            let mut books = lock(&self.books);
            let at = books.warm.partition_point(|&other| other > extent);
            books.warm.insert(at, extent);
            return self.publish_warm(&books);
        }
        let state = &self.pages[extent.0 as usize];
        let going = state.compare_exchange(
            page::COLLAPSING,
            page::GOING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if going.is_err() {
            self.release(extent);
        }
    }

    fn release(&self, extent: ExtentId) {
        // Before the pages go: nobody begins to make them huge from here on.
        self.pages[extent.0 as usize].store(page::ABSENT, Ordering::Release);
        self.region.release(extent.offset(), EXTENT_BYTES);
        let mut books = lock(&self.books);
        if books.ordinary.remove(&extent) {
            self.ordinary.fetch_sub(1, Ordering::Relaxed);
        }
        self.taken.fetch_sub(1, Ordering::Relaxed);
        books.returned.insert(extent);
        let missing = self.forget_missing(&mut books, extent);
        drop(books);
        self.budget.uncharge(EXTENT_BYTES as u64 - missing);
    }

    /// The extents that are charged.
    pub(crate) fn taken_ids(&self) -> Vec<u32> {
        let taken = |n: &u32| self.pages[*n as usize].load(Ordering::Acquire) != page::ABSENT;
        (0..self.capacity()).filter(taken).collect()
    }

    /// Takes over the extents another process had, all of its own: their memory is there. Charged whether they
    /// fit the budget or not.
    pub(crate) fn take_over(&self, taken: &[u32]) {
        let mut books = lock(&self.books);
        let before = self.taken();
        books.fresh = taken.iter().max().map_or(0, |last| last + 1);
        for page in &self.pages {
            page.store(page::ABSENT, Ordering::Release);
        }
        for &n in taken {
            self.pages[n as usize].store(page::MAYBE_SMALL, Ordering::Release);
        }
        books.returned = (0..books.fresh)
            .filter(|&n| self.pages[n as usize].load(Ordering::Acquire) == page::ABSENT)
            .map(ExtentId)
            .collect();
        self.taken.store(taken.len() as u32, Ordering::Relaxed);
        let more = (taken.len() as u32).saturating_sub(before);
        self.budget
            .charge_over(u64::from(more) * EXTENT_BYTES as u64);
    }

    /// Makes the pages of an extent one huge page, if it is taken and not known to be one. Who touches it
    /// meanwhile waits; who gives it back does not.
    pub(crate) fn collapse(&self, extent: ExtentId) -> Collapsed {
        let state = &self.pages[extent.0 as usize];
        let begun = state.compare_exchange(
            page::MAYBE_SMALL,
            page::COLLAPSING,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if begun.is_err() {
            return Collapsed::Skipped;
        }
        let result = self.region.collapse(extent.offset(), EXTENT_BYTES);
        let next = if result.is_ok() {
            page::HUGE
        } else {
            page::MAYBE_SMALL
        };
        let ended =
            state.compare_exchange(page::COLLAPSING, next, Ordering::AcqRel, Ordering::Acquire);
        match (ended, result) {
            (Err(_going), _) => {
                self.release(extent);
                Collapsed::Skipped
            }
            (Ok(_), Ok(())) => Collapsed::Huge,
            (Ok(_), Err(_)) => Collapsed::Failed,
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::{Backing, Grain, MemoryFile, PageMode};
    use super::*;

    fn extents(budget_extents: usize, backing: &Backing) -> (Extents, Arc<Budget>) {
        let budget = Arc::new(Budget::new((budget_extents * EXTENT_BYTES) as u64));
        let region = Region::map(8 * EXTENT_BYTES, Grain::Items, backing).unwrap();
        (Extents::new(region, budget.clone()), budget)
    }

    #[test]
    fn takes_low_addresses_first_and_charges_whole_extents() {
        let (extents, budget) = extents(3, &Backing::anonymous(false));
        assert!(extents.warm_one());
        assert!(!extents.warm_one());
        assert_eq!(extents.take(), Some(ExtentId(0)));
        assert!(!extents.is_late());
        assert_eq!(extents.take(), Some(ExtentId(1)));
        assert!(extents.is_late());
        assert_eq!(extents.take(), Some(ExtentId(2)));
        assert_eq!(extents.take(), None);
        assert_eq!(budget.free_bytes(), 0);
        extents.give_back(ExtentId(1));
        extents.give_back(ExtentId(0));
        assert_eq!(extents.take(), Some(ExtentId(0)));
        assert_eq!(extents.taken(), 2);
    }

    #[test]
    fn what_was_touched_ahead_is_taken_in_order_and_goes_back_from_the_end() {
        let (extents, budget) = extents(3, &Backing::anonymous(false));
        assert!(extents.warm_another() && extents.warm_another() && extents.warm_another());
        assert!(!extents.warm_another());
        assert_eq!(extents.warm(), 3);
        assert!(extents.drop_warm());
        assert_eq!(budget.free_bytes(), EXTENT_BYTES as u64);
        assert_eq!(extents.take(), Some(ExtentId(0)));
        assert_eq!(extents.take(), Some(ExtentId(1)));
        assert_eq!(extents.take(), Some(ExtentId(2)));
    }

    #[test]
    fn a_file_system_that_is_full_refuses_and_is_asked_again() {
        // A file shorter than its region: what lies behind its end cannot be had, as on a full tmpfs.
        let file = Arc::new(MemoryFile::nameless().unwrap());
        file.clear(2 * EXTENT_BYTES as u64).unwrap();
        let backing = Backing::of(PageMode::Shmem, Some(file.clone()));
        let (extents, budget) = extents(8, &backing);
        assert_eq!(extents.take(), Some(ExtentId(0)));
        assert_eq!(extents.take(), Some(ExtentId(1)));
        assert_eq!(
            extents.take(),
            None,
            "would have died of SIGBUS when touched"
        );
        assert_eq!((extents.refusals(), extents.room()), (1, 0));
        assert_eq!(budget.charged_bytes(), 2 * EXTENT_BYTES as u64);
        assert!(!extents.warm_one());
        extents.give_back(ExtentId(0));
        extents.refused_until_ms.store(1, Ordering::Relaxed);
        assert_eq!(extents.room(), 7);
        assert_eq!(extents.take(), Some(ExtentId(0)));
    }

    #[test]
    fn an_extent_is_made_huge_once_and_goes_back_like_any_other() {
        let mut backing = Backing::anonymous(false);
        backing.pages = super::super::Pages::Plain;
        let (extents, budget) = extents(8, &backing);
        assert!(
            matches!(extents.collapse(ExtentId(0)), Collapsed::Skipped),
            "nobody has it"
        );
        assert!(extents.warm_one());
        extents.region().copy_in(77, b"contents");
        match extents.collapse(ExtentId(0)) {
            Collapsed::Failed => return println!("skipped: this kernel does not collapse"),
            other => assert!(matches!(other, Collapsed::Huge), "{other:?}"),
        }
        assert!(extents.region().equals(77, b"contents"));
        let range = extents.region().address_range();
        let facts = super::super::smaps::read(&[range]).unwrap();
        assert_eq!(facts.anon_huge, EXTENT_BYTES as u64);
        assert!(
            matches!(extents.collapse(ExtentId(0)), Collapsed::Skipped),
            "it is huge"
        );
        extents.give_back(extents.take().unwrap());
        assert_eq!(budget.charged_bytes(), 0);
    }
}
