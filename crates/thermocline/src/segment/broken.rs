//! Team use of segments: dead bytes go back to the system before their segment does.
//!
//! ```text
//! Sealed, whole --release_run--> Sealed, part of it released --drained--> Free?  whole again if the budget has it,
//!                                     |                                          else hollow: all of it given back
//!                                     +--mend: all of its extent's holes charged and filled, live bytes untouched
//! hollow --fill_hollow--> Free        an extent whose segments are all hollow is given back itself
//! ```
//! `released` of a segment in use is changed under the reclaim lock only; of a free one under the lock of the books.

use super::*;

impl Segment {
    /// Bytes of it that were given back.
    pub(crate) fn released(&self) -> usize {
        self.released.load(Ordering::Relaxed) as usize
    }

    /// Times its holes were mended.
    pub(crate) fn mends(&self) -> u32 {
        self.mends.load(Ordering::Relaxed)
    }

    /// Dead bytes that are still there.
    pub(crate) fn dead_there(&self) -> usize {
        self.dead().saturating_sub(self.released())
    }

    /// Dead bytes that nobody has looked through yet, or that were found useful.
    pub(crate) fn dead_unlooked(&self) -> usize {
        self.dead()
            .saturating_sub(self.looked.load(Ordering::Relaxed) as usize)
    }

    /// So much of what is dead there is of no use.
    pub(crate) fn looked_through(&self, useless: usize) {
        self.looked.store(useless as u32, Ordering::Relaxed);
    }
}

impl Segments {
    /// Gives a stretch of whole pages within a sealed segment back; `bytes` of them were there till now. The caller
    /// has the reclaim lock and knows that nobody uses the stretch. False: not this moment.
    pub(crate) fn release_run(
        &self,
        id: SegmentId,
        offset: usize,
        len: usize,
        bytes: usize,
    ) -> bool {
        debug_assert_eq!(self.start(id), offset & !(self.bytes - 1));
        let done = self.extents.release_part(offset, len, bytes);
        if done {
            let segment = self.get(id);
            segment.released.fetch_add(bytes as u32, Ordering::Relaxed);
        }
        done
    }

    /// Brings back what is missing of a free segment, if the budget has it to spare.
    pub(super) fn make_whole(&self, id: SegmentId) -> bool {
        let segment = self.get(id);
        let missing = segment.released();
        let whole = missing == 0
            || self.withheld_bytes() == 0
                && !self.extents.is_refused()
                && self.extents.refill(self.start(id), self.bytes, missing);
        if whole {
            segment.released.store(0, Ordering::Relaxed);
        }
        whole
    }

    /// Gives back the rest of a free segment of which part is gone.
    pub(super) fn hollow_out(&self, books: &mut super::Books, id: SegmentId) {
        let segment = self.get(id);
        let rest = self.bytes - segment.released();
        let gone = self.extents.release_part(self.start(id), self.bytes, rest);
        assert!(gone, "a broken extent is not made huge");
        segment.released.store(self.bytes as u32, Ordering::Relaxed);
        books.hollow.push(id);
        books.hollow_in_extent[self.extent_of(id).0 as usize] += 1;
    }

    /// Whether nothing of an extent is left.
    pub(super) fn is_hollow(&self, books: &super::Books, extent: ExtentId) -> bool {
        books.hollow_in_extent[extent.0 as usize] as usize == self.per_extent()
    }

    /// Its memory goes back whole.
    pub(super) fn forget_released(&self, extent: ExtentId) {
        for id in self.ids_of(extent) {
            self.get(id).released.store(0, Ordering::Relaxed);
        }
    }

    fn ids_of(&self, extent: ExtentId) -> impl Iterator<Item = SegmentId> {
        let per = self.per_extent() as u32;
        (extent.0 * per..(extent.0 + 1) * per).map(SegmentId)
    }

    /// Hollow segments that `budget` would fill.
    pub(super) fn could_fill(&self, budget: u64) -> usize {
        let hollow = self.hollow.load(Ordering::Relaxed) as usize;
        if hollow == 0 || self.extents.is_refused() {
            return 0;
        }
        hollow.min((budget / self.bytes as u64) as usize)
    }

    /// Makes a hollow segment a free one. False: there is none, or no budget for it.
    pub(super) fn fill_hollow(&self, books: &mut super::Books) -> bool {
        let budget = self
            .extents
            .budget_free()
            .saturating_sub(self.withheld_bytes());
        if self.could_fill(budget) == 0 {
            return false;
        }
        let emptying = books.emptying;
        let usable = |&id: &SegmentId| Some(self.extent_of(id)) != emptying;
        let Some(at) = books.hollow.iter().rposition(usable) else {
            return false;
        };
        let id = books.hollow[at];
        if !self.extents.refill(self.start(id), self.bytes, self.bytes) {
            return false;
        }
        books.hollow.remove(at);
        self.put_whole(books, id);
        self.publish_lengths(books);
        true
    }

    /// A hollow segment is whole again.
    fn put_whole(&self, books: &mut super::Books, id: SegmentId) {
        self.get(id).released.store(0, Ordering::Relaxed);
        books.hollow_in_extent[self.extent_of(id).0 as usize] -= 1;
        books.free.push(id);
    }

    /// Makes the extent of which least is missing whole again, live bytes and all, so that it can be made huge; the
    /// budget keeps `spare` bytes. The caller has the reclaim lock. False: there is none, or no budget for it.
    pub(crate) fn mend_one(&self, spare: u64) -> bool {
        let Some(&(extent, missing)) = self.extents.broken_ids().first() else {
            return false;
        };
        let mut books = lock(&self.books);
        let left = self
            .extents
            .budget_free()
            .saturating_sub(self.withheld_bytes());
        let enough = left >= missing as u64 + spare && books.emptying != Some(extent);
        if !enough
            || self.extents.is_refused()
            || !self.extents.refill(extent.offset(), EXTENT_BYTES, missing)
        {
            return false;
        }
        for id in self.ids_of(extent) {
            let segment = self.get(id);
            segment.released.store(0, Ordering::Relaxed);
            segment.looked.store(0, Ordering::Relaxed);
            segment.mends.fetch_add(1, Ordering::Relaxed);
        }
        while let Some(at) = books
            .hollow
            .iter()
            .position(|&id| self.extent_of(id) == extent)
        {
            let id = books.hollow.remove(at);
            self.put_whole(&mut books, id);
        }
        self.publish_lengths(&books);
        true
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::tests::segments;
    use super::*;
    use crate::mem::Budget;

    const BYTES: usize = EXTENT_BYTES / 4;
    const PAGE: usize = 4096;

    fn open(segments: &Segments) -> Option<SegmentId> {
        segments.open(Tier::Hot, Pool::Main, 0, 0, 0)
    }

    fn seal(segments: &Segments, id: SegmentId) {
        segments.seal(id, BYTES, 0, 0);
    }

    fn free(segments: &Segments, id: SegmentId) {
        segments.get(id).start_drain();
        segments.get(id).condemn();
        segments.free_condemned(id);
    }

    fn release(segments: &Segments, id: SegmentId, pages: usize) {
        segments.get(id).bury(pages * PAGE);
        assert!(segments.release_run(id, segments.start(id), pages * PAGE, pages * PAGE));
    }

    /// What is charged is what is owned less what was released, always.
    fn check(segments: &Segments, budget: &Budget) {
        let released: usize = segments.table.iter().map(Segment::released).sum();
        let taken = segments.extents.taken() as usize * EXTENT_BYTES;
        assert_eq!(budget.charged_bytes() as usize, taken - released);
        let missing: usize = segments.extents.broken_ids().iter().map(|&(_, n)| n).sum();
        assert_eq!(missing, released);
    }

    #[test]
    fn a_freed_segment_is_whole_if_the_budget_has_it_else_hollow() {
        let (segments, budget) = segments(1, BYTES);
        let ids: Vec<_> = (0..4).map(|_| open(&segments).unwrap()).collect();
        ids.iter().for_each(|&id| seal(&segments, id));
        release(&segments, ids[0], 3);
        check(&segments, &budget);
        free(&segments, ids[0]);
        assert_eq!((segments.free(), segments.could_add()), (1, 0));
        check(&segments, &budget);
        // Somebody else has the budget now.
        let id = open(&segments).unwrap();
        seal(&segments, id);
        release(&segments, id, 5);
        assert!(budget.try_charge(4 * PAGE as u64));
        free(&segments, id);
        assert_eq!((segments.free(), segments.could_add()), (0, 0), "hollow");
        assert_eq!(budget.free_bytes() as usize, BYTES - 4 * PAGE);
        assert_eq!(open(&segments), None);
        budget.uncharge(4 * PAGE as u64);
        assert_eq!(segments.could_add(), 1);
        assert_eq!(open(&segments), Some(id), "filled again");
        check(&segments, &budget);
        assert_eq!(segments.extents.broken(), 0);
    }

    #[test]
    fn an_extent_of_hollow_segments_goes_back() {
        let (segments, budget) = segments(1, BYTES);
        let ids: Vec<_> = (0..4).map(|_| open(&segments).unwrap()).collect();
        ids.iter().for_each(|&id| seal(&segments, id));
        ids.iter().for_each(|&id| release(&segments, id, 1));
        let other = budget.free_bytes();
        assert!(budget.try_charge(other));
        for &id in &ids {
            free(&segments, id);
            // Whoever waits takes what came free.
            let left = budget.free_bytes();
            assert!(budget.try_charge(left));
        }
        assert_eq!((segments.owned(), segments.extents.taken()), (0, 0));
        assert_eq!(budget.charged_bytes(), EXTENT_BYTES as u64);
        assert_eq!(segments.could_add(), 0);
    }

    #[test]
    fn mending_needs_budget_and_leaves_live_bytes() {
        let (segments, budget) = segments(2, BYTES);
        let ids: Vec<_> = (0..8).map(|_| open(&segments).unwrap()).collect();
        ids.iter().for_each(|&id| seal(&segments, id));
        let region = segments.extents().region();
        region.copy_in(segments.start(ids[1]) + 8 * PAGE, &[9; PAGE]);
        release(&segments, ids[1], 8);
        release(&segments, ids[5], 2);
        check(&segments, &budget);
        assert!(
            !segments.mend_one(10 * PAGE as u64 - 1),
            "less would be left"
        );
        assert!(
            segments.mend_one(8 * PAGE as u64),
            "the one of which less is missing"
        );
        assert_eq!(segments.get(ids[5]).released(), 0);
        assert!(segments.mend_one(0));
        assert!(!segments.mend_one(0), "nothing is broken");
        assert!(region.equals(segments.start(ids[1]) + 8 * PAGE, &[9; PAGE]));
        check(&segments, &budget);
    }
}
