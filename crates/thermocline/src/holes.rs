//! Holes: rooms of dead records in sealed segments, given to writers again.
//!
//! ```text
//! Sealed, queued --reclaim finds its dead runs--> unqueued --two epochs, no guard--> its runs are holes here
//!   a write: the smallest hole that fits; what is left of it is a filler, and a hole again
//!   Sealed, queued anew <-- closed: no use any more, a flush, memory that must go back
//! ```
//! The state of the segment stays Sealed: items in it are overwritten in place, read and removed as ever. Nobody drains
//! it while it is not queued, and after it was closed nobody does before the epoch has passed: whoever reserved here is
//! pinned until his record is published.
//!
//! Must hold: a hole has no reader (see `reclaim/reopen.rs`); a place in the same segment is never again at a version
//! it was at before, so that place, birth and version go on naming one version of one item.

use crate::item::Item;
use crate::location::{Place, UNIT_BYTES};
use crate::segment::{SegmentId, Segments};
use crate::sync::{lock, AtomicU64, Mutex, Ordering};
use std::collections::BTreeSet;

/// Smaller records are appended, and smaller rooms stay dead: the books of a hole cost 0.1 us.
pub(crate) const HOLE_MIN: usize = if cfg!(shuttle) { 64 } else { 512 };
/// Holes there may be; the smallest of more stay dead.
const HOLES_MAX: usize = 2048;
/// Holes looked at for one that fits with its alignment.
const TRIES_MAX: usize = 4;

/// The holes of all reopened segments.
#[derive(Default)]
pub(crate) struct Holes {
    books: Mutex<Books>,
    /// Bytes of the largest, and of all.
    largest: AtomicU64,
    bytes: AtomicU64,
    /// Bytes of new keys put into holes since this was last asked.
    new_bytes: AtomicU64,
}

#[derive(Default)]
struct Books {
    /// By bytes, then offset in the region.
    free: BTreeSet<(usize, usize)>,
    /// Oldest first.
    reopened: Vec<Reopened>,
}

/// A segment whose dead runs are holes.
#[derive(Clone, Copy)]
struct Reopened {
    id: SegmentId,
    /// Version that records written there begin at.
    version: u32,
    /// Room was reserved there since.
    used: bool,
}

/// Room in a hole.
pub(crate) struct Room {
    pub(crate) place: Place,
    pub(crate) version: u32,
}

impl Holes {
    /// Bytes of all holes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Segments that are reopened.
    pub(crate) fn segments(&self) -> usize {
        lock(&self.books).reopened.len()
    }

    /// Reserves `bytes` in the smallest hole that fits; `wide` aligns them to 8. None: there is none, or another writer
    /// is at the books. The caller stays pinned until the record is published.
    #[inline]
    pub(crate) fn reserve(&self, segments: &Segments, bytes: usize, wide: bool) -> Option<Room> {
        if bytes < HOLE_MIN || bytes as u64 > self.largest.load(Ordering::Relaxed) {
            return None;
        }
        let mut books = self.books.try_lock().ok()?;
        let gap = |at: usize| match wide {
            true => at.next_multiple_of(2 * UNIT_BYTES) - at,
            false => 0,
        };
        let fits = |&&(room, at): &&(usize, usize)| room >= bytes + gap(at);
        let &(room, at) = books.free.range((bytes, 0)..).take(TRIES_MAX).find(fits)?;
        books.free.remove(&(room, at));
        let id = segments.id_of(Place::from_offset(at));
        let segment = books.reopened.iter_mut().find(|one| one.id == id)?;
        segment.used = true;
        let version = segment.version;
        let start = at + gap(at);
        let end = start + bytes;
        let region = segments.extents().region();
        if start > at {
            Item::at(region, at).write_filler(start - at);
        }
        let left = at + room - end;
        if left > 0 {
            Item::at(region, end).write_filler(left);
        }
        if left >= HOLE_MIN {
            books.free.insert((left, end));
        }
        segments.get(id).revive(bytes);
        self.count(&books, room, if left >= HOLE_MIN { left } else { 0 });
        let place = Place::from_offset(start);
        Some(Room { place, version })
    }

    /// A new key's record lies in a hole.
    pub(crate) fn note_new(&self, bytes: usize) {
        self.new_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Bytes of new keys since this was last asked.
    pub(crate) fn take_new_bytes(&self) -> u64 {
        self.new_bytes.swap(0, Ordering::Relaxed)
    }

    /// The runs (offset, bytes) of a segment become holes.
    pub(crate) fn open(&self, id: SegmentId, version: u32, runs: &[(usize, usize)]) {
        let mut books = lock(&self.books);
        books.reopened.push(Reopened {
            id,
            version,
            used: false,
        });
        let mut more = 0;
        for &(at, bytes) in runs {
            more += bytes;
            books.free.insert((bytes, at));
        }
        while books.free.len() > HOLES_MAX {
            let Some((bytes, _)) = books.free.pop_first() else {
                break;
            };
            more = more.saturating_sub(bytes);
        }
        self.count(&books, 0, more);
    }

    /// Closes the oldest so that no more than `most` are left, and those that `is_worn` says: nothing more is reserved
    /// there. The caller seals those where something was, and queues all.
    pub(crate) fn close(
        &self,
        segments: &Segments,
        most: usize,
        is_worn: impl Fn(SegmentId) -> bool,
    ) -> Vec<(SegmentId, bool)> {
        let mut books = lock(&self.books);
        let mut surplus = books.reopened.len().saturating_sub(most);
        let mut closed = Vec::new();
        books.reopened.retain(|one| {
            let closes = surplus > 0 || is_worn(one.id);
            surplus = surplus.saturating_sub(1);
            if closes {
                closed.push((one.id, one.used));
            }
            !closes
        });
        if closed.is_empty() {
            return closed;
        }
        let is_closed = |at: usize| {
            let id = segments.id_of(Place::from_offset(at));
            closed.iter().any(|&(other, _)| other == id)
        };
        books.free.retain(|&(_, at)| !is_closed(at));
        let left = books.free.iter().map(|&(bytes, _)| bytes as u64).sum();
        self.bytes.store(left, Ordering::Relaxed);
        self.count(&books, 0, 0);
        closed
    }

    /// Books what went and what came. Under the lock.
    fn count(&self, books: &Books, less: usize, more: usize) {
        let bytes = self.bytes.load(Ordering::Relaxed) + more as u64;
        let bytes = bytes.saturating_sub(less as u64);
        self.bytes.store(bytes, Ordering::Relaxed);
        let largest = books.free.last().map_or(0, |&(bytes, _)| bytes as u64);
        self.largest.store(largest, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::location::Tier;
    use crate::mem::{Budget, Extents, Grain, Region, EXTENT_BYTES};
    use crate::policy::Pool;
    use std::sync::Arc;

    fn segments() -> (Segments, SegmentId) {
        let budget = Arc::new(Budget::new(EXTENT_BYTES as u64));
        let region = Region::reserve(2 * EXTENT_BYTES, Grain::Items, false).unwrap();
        let segments = Segments::new(Extents::new(region, budget), 1 << 16, usize::MAX, 1);
        let id = segments.open(Tier::Hot, Pool::Main, 0, 0, 0).unwrap();
        segments.seal(id, 1 << 16, 0, 0);
        segments.get(id).bury(6000);
        (segments, id)
    }

    #[test]
    fn the_smallest_hole_that_fits_is_taken_and_its_rest_is_a_hole() {
        let (segments, id) = segments();
        let start = segments.start(id);
        let holes = Holes::default();
        holes.open(id, 3, &[(start, 4000), (start + 8000, 2000)]);
        let room = holes.reserve(&segments, 1400, false).unwrap();
        assert_eq!((room.place.offset(), room.version), (start + 8000, 3));
        assert_eq!((holes.bytes(), segments.get(id).dead()), (4600, 4600));
        assert!(holes.reserve(&segments, 4004, false).is_none());
        assert!(holes.reserve(&segments, HOLE_MIN - 4, false).is_none());
        // Best fit again: the rest of the second, then the first.
        let offsets = [600, 3000].map(|bytes| {
            let room = holes.reserve(&segments, bytes, false).unwrap();
            room.place.offset() - start
        });
        assert_eq!(offsets, [9400, 0]);
        assert_eq!(holes.bytes(), 1000);
    }

    #[test]
    fn every_byte_of_a_hole_stays_walkable() {
        let (segments, id) = segments();
        let start = segments.start(id);
        let holes = Holes::default();
        holes.open(id, 1, &[(start + 4, 5996)]);
        let room = holes.reserve(&segments, 1024, true).unwrap();
        assert_eq!(room.place.offset(), start + 8, "aligned to 8");
        let region = segments.extents().region();
        let reserved = |at: usize| {
            let item = Item::at(region, at);
            item.reserved(item.header())
        };
        assert_eq!(reserved(start + 4), 4, "what the alignment left");
        assert_eq!(reserved(start + 8 + 1024), 5996 - 4 - 1024);
        assert_eq!(segments.get(id).dead(), 6000 - 1024);
    }

    #[test]
    fn a_closed_segment_gives_nothing_more() {
        let (segments, id) = segments();
        let start = segments.start(id);
        let holes = Holes::default();
        holes.open(id, 1, &[(start, 4000)]);
        assert!(holes.close(&segments, 1, |_| false).is_empty());
        assert_eq!(holes.close(&segments, 0, |_| false), [(id, false)]);
        assert_eq!((holes.bytes(), holes.segments()), (0, 0));
        assert!(holes.reserve(&segments, 1024, false).is_none());
    }

    #[test]
    fn a_worn_segment_is_closed_and_says_whether_it_was_used() {
        let (segments, id) = segments();
        let start = segments.start(id);
        let holes = Holes::default();
        holes.open(id, 1, &[(start, 4000)]);
        assert!(holes.reserve(&segments, 1024, false).is_some());
        assert!(holes.close(&segments, 1, |other| other != id).is_empty());
        assert_eq!(holes.close(&segments, 1, |other| other == id), [(id, true)]);
        assert_eq!(holes.bytes(), 0);
    }
}
