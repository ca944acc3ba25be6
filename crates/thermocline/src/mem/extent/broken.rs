//! Broken extents: parts of them were given back while the rest is in use (`ExtentUse::Team`).
//!
//! ```text
//! small, huge --release_part--> broken --refill, until nothing is missing--> small --collapse--> huge
//! broken --give back--> returned, uncharged by what was left of it
//! being made huge: nothing is given back in part
//! ```
//! Owns how many bytes of which extent are missing, and that the budget is charged without them. Which bytes may
//! go is the caller's to know: nobody reads, writes or walks them any more.

use super::*;

impl Extents {
    /// Gives part of an extent back to the system: whole pages nobody uses. `bytes` of them were there till now.
    /// False: the extent is being made huge this moment.
    pub(crate) fn release_part(&self, offset: usize, len: usize, bytes: usize) -> bool {
        debug_assert!(bytes <= len && offset % EXTENT_BYTES + len <= EXTENT_BYTES);
        let extent = ExtentId((offset / EXTENT_BYTES) as u32);
        let mut books = lock(&self.books);
        let breakable = |state| {
            matches!(state, page::MAYBE_SMALL | page::HUGE | page::BROKEN).then_some(page::BROKEN)
        };
        let state = &self.pages[extent.0 as usize];
        if state
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, breakable)
            .is_err()
        {
            return false;
        }
        self.region.release(offset, len);
        *books.missing.entry(extent).or_default() += bytes as u32;
        self.publish_broken(&books);
        drop(books);
        self.released_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
        self.budget.uncharge(bytes as u64);
        true
    }

    /// Charges `bytes` that were given back within a stretch, and asks for the stretch's pages where that must be.
    /// False: the budget or the file system has no more.
    pub(crate) fn refill(&self, offset: usize, len: usize, bytes: usize) -> bool {
        if !self.budget.try_charge(bytes as u64) {
            return false;
        }
        if self.region.backing().must_ask() && !self.region.supply(offset, len) {
            self.budget.uncharge(bytes as u64);
            self.refuse();
            return false;
        }
        let extent = ExtentId((offset / EXTENT_BYTES) as u32);
        let mut books = lock(&self.books);
        let missing = books
            .missing
            .get_mut(&extent)
            .expect("what is refilled was given back");
        *missing -= bytes as u32;
        if *missing == 0 {
            books.missing.remove(&extent);
            self.pages[extent.0 as usize].store(page::MAYBE_SMALL, Ordering::Release);
            self.mended.fetch_add(1, Ordering::Relaxed);
        }
        self.publish_broken(&books);
        true
    }

    /// Bytes missing of an extent that goes back whole: what its uncharging is less by.
    pub(super) fn forget_missing(&self, books: &mut Books, extent: ExtentId) -> u64 {
        let missing = books.missing.remove(&extent).unwrap_or(0);
        self.publish_broken(books);
        u64::from(missing)
    }

    fn publish_broken(&self, books: &Books) {
        let broken = books.missing.len() as u32;
        self.broken.store(broken, Ordering::Relaxed);
    }

    /// Parts of extents that another process had given back, of those it left: after `take_over`.
    pub(crate) fn take_over_broken(&self, parts: impl Iterator<Item = (ExtentId, usize)>) {
        let mut books = lock(&self.books);
        for (extent, bytes) in parts.filter(|&(_, bytes)| bytes > 0) {
            *books.missing.entry(extent).or_default() += bytes as u32;
            self.pages[extent.0 as usize].store(page::BROKEN, Ordering::Release);
            self.budget.uncharge(bytes as u64);
        }
        self.publish_broken(&books);
    }

    /// Extents of which something is missing, and how much, the least first.
    pub(crate) fn broken_ids(&self) -> Vec<(ExtentId, usize)> {
        let books = lock(&self.books);
        let mut ids: Vec<_> = books
            .missing
            .iter()
            .map(|(&id, &n)| (id, n as usize))
            .collect();
        ids.sort_unstable_by_key(|&(id, missing)| (missing, id));
        ids
    }

    /// Extents of which something is missing.
    pub(crate) fn broken(&self) -> u32 {
        self.broken.load(Ordering::Relaxed)
    }

    /// Bytes given back in parts since the start, and how often an extent became whole again.
    pub(crate) fn parted(&self) -> (u64, u64) {
        (
            self.released_bytes.load(Ordering::Relaxed),
            self.mended.load(Ordering::Relaxed),
        )
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::super::{Backing, Grain};
    use super::*;

    const PART: usize = 64 << 10;

    fn one() -> (Extents, Arc<Budget>, ExtentId) {
        let budget = Arc::new(Budget::new(2 * EXTENT_BYTES as u64));
        let backing = Backing::anonymous(false);
        let region = Region::map(4 * EXTENT_BYTES, Grain::Items, &backing).unwrap();
        let extents = Extents::new(region, budget.clone());
        let taken = extents.take().unwrap();
        (extents, budget, taken)
    }

    #[test]
    fn what_is_given_back_in_part_is_charged_no_more_and_reads_as_zeros() {
        let (extents, budget, id) = one();
        extents.region().copy_in(id.offset(), &[7; 2 * PART]);
        assert!(extents.release_part(id.offset(), PART, PART));
        assert_eq!(budget.charged_bytes(), (EXTENT_BYTES - PART) as u64);
        assert!(extents.region().equals(id.offset(), &[0; PART]));
        assert!(
            extents.region().equals(id.offset() + PART, &[7; PART]),
            "the rest stands"
        );
        // A wider stretch that holds the first: only what is new is uncharged.
        assert!(extents.release_part(id.offset(), 2 * PART, PART));
        assert_eq!(
            (extents.broken(), extents.broken_ids()),
            (1, vec![(id, 2 * PART)])
        );
        assert!(extents.refill(id.offset(), 2 * PART, 2 * PART));
        assert_eq!(budget.charged_bytes(), EXTENT_BYTES as u64);
        assert_eq!(
            (extents.broken(), extents.parted()),
            (0, (2 * PART as u64, 1))
        );
    }

    #[test]
    fn a_broken_extent_goes_back_whole_and_is_uncharged_once() {
        let (extents, budget, id) = one();
        assert!(extents.release_part(id.offset(), PART, PART));
        extents.give_back(id);
        assert_eq!((budget.charged_bytes(), extents.broken()), (0, 0));
        assert_eq!(extents.take(), Some(id), "and comes again");
    }

    #[test]
    fn a_broken_extent_is_not_made_huge_and_a_full_budget_refills_nothing() {
        let (extents, budget, id) = one();
        assert!(extents.release_part(id.offset(), PART, PART));
        assert!(matches!(extents.collapse(id), Collapsed::Skipped));
        budget.set_limit(budget.charged_bytes());
        assert!(!extents.refill(id.offset(), PART, PART));
        assert_eq!(extents.broken(), 1);
    }
}
