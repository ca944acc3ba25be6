//! The table of segments, written down at a clean stop and read at the next start.
//!
//! Written only when nobody uses the cache any more: every segment is Free or Sealed then.

use super::*;
use crate::expiry::WORDS;
use crate::image::{In, Out};

impl Segment {
    /// A drain that was interrupted for good: what it has not moved is still here.
    pub(crate) fn stop_drain(&self) {
        self.go(State::Draining, State::Sealed);
    }

    fn write(&self, id: u32, out: &mut Out) {
        out.u32(id);
        out.u32(self.pool.load(Ordering::Relaxed));
        out.u64(self.birth());
        out.u32(self.used() as u32);
        out.u32(self.dead() as u32);
        out.u32(self.released() as u32);
        out.u32(self.mends());
        out.u32(self.reuse_version());
        for word in self.expiring.words() {
            out.u32(word);
        }
    }

    /// None: not what a segment of `bytes` can be.
    fn read(&self, bytes: usize, from: &mut In<'_>) -> Option<()> {
        self.pool.store(from.u32()?, Ordering::Relaxed);
        self.birth.store(from.u64()?, Ordering::Relaxed);
        let (used, dead, released) = (from.u32()?, from.u32()?, from.u32()?);
        if used as usize > bytes || dead > used || released as usize >= bytes {
            return None;
        }
        self.released.store(released, Ordering::Relaxed);
        self.mends.store(from.u32()?, Ordering::Relaxed);
        self.looked.store(0, Ordering::Relaxed);
        self.set_reuse_version(from.u32()?);
        self.used.store(used, Ordering::Relaxed);
        self.dead.store(dead, Ordering::Relaxed);
        let mut words = [0; WORDS];
        for word in &mut words {
            *word = from.u32()?;
        }
        self.expiring.set_words(&words);
        self.state.store(State::Sealed as u32, Ordering::Release);
        Some(())
    }
}

impl Segments {
    /// Writes extents, segments and the free list. Gives back what was touched ahead.
    pub(crate) fn write(&self, out: &mut Out) {
        while self.extents.drop_warm() {}
        let books = lock(&self.books);
        out.u64(self.next_birth.load(Ordering::SeqCst));
        out.list(self.extents.taken_ids().into_iter());
        out.list(books.free.iter().map(|id| id.0));
        out.list(books.hollow.iter().map(|id| id.0));
        let sealed: Vec<SegmentId> = self.in_state(State::Sealed).collect();
        out.u64(sealed.len() as u64);
        for id in sealed {
            self.get(id).write(id.0, out);
        }
    }

    /// Takes over what `write` wrote. None: it is not whole; then these segments must not be used.
    pub(crate) fn read(&self, from: &mut In<'_>) -> Option<()> {
        let per = self.per_extent();
        let birth = from.u64()?;
        self.next_birth.fetch_max(birth, Ordering::SeqCst);
        let extents = from.ids(self.extents.capacity() as usize)?;
        let mut books = lock(&self.books);
        let mut unseen = vec![false; self.table.len()];
        for &extent in &extents {
            unseen[extent as usize * per..][..per].fill(true);
        }
        let mut see = |id: u32| {
            std::mem::replace(unseen.get_mut(id as usize)?, false).then_some(SegmentId(id))
        };
        for id in from.ids(self.table.len())? {
            let id = see(id)?;
            books.free.push(id);
            books.free_in_extent[self.extent_of(id).0 as usize] += 1;
        }
        for id in from.ids(self.table.len())? {
            let id = see(id)?;
            let extent = self.extent_of(id).0 as usize;
            books.hollow.push(id);
            books.free_in_extent[extent] += 1;
            books.hollow_in_extent[extent] += 1;
            self.get(id)
                .released
                .store(self.bytes as u32, Ordering::Relaxed);
        }
        for _ in 0..from.count(32)? {
            let id = see(from.u32()?)?;
            let segment = self.get(id);
            segment.read(self.bytes, from)?;
            if segment.birth() >= birth {
                return None;
            }
        }
        if unseen.contains(&true) {
            return None;
        }
        self.owned
            .store((extents.len() * per) as u32, Ordering::Relaxed);
        self.publish_lengths(&books);
        self.extents.take_over(&extents);
        let parts = (0..self.table.len() as u32).map(SegmentId);
        self.extents
            .take_over_broken(parts.map(|id| (self.extent_of(id), self.get(id).released())));
        Some(())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::tests::segments;
    use super::*;

    #[test]
    fn a_segment_keeps_what_it_was_and_may_be_reopened_again() {
        let (before, _) = segments(1, EXTENT_BYTES / 4);
        let id = before.open(Tier::Hot, Pool::Main, 7, 1, 0).unwrap();
        before.seal(id, 9_000, 0, 0);
        before.get(id).bury(6_000);
        before.get(id).looked_through(6_000);
        before.get(id).set_reuse_version(5);
        let mut out = Out::default();
        before.write(&mut out);
        let (after, _) = segments(1, EXTENT_BYTES / 4);
        let bytes = out.into_bytes();
        after.read(&mut In::new(&bytes)).expect("it is whole");
        let facts = |segment: &Segment| {
            let (used, dead) = (segment.used(), segment.dead());
            (used, dead, segment.birth(), segment.reuse_version())
        };
        assert_eq!(facts(after.get(id)), facts(before.get(id)));
        assert_eq!(after.get(id).reuse_version(), 5);
        assert_eq!(after.get(id).dead_unlooked(), 6_000, "looked through anew");
    }
}
