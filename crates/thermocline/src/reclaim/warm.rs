//! The reclaimer's queues, written down at a clean stop and read at the next start.

use super::Reclaim;
use crate::image::{In, Out};
use crate::location::Tier;
use crate::policy::Pool;
use crate::segment::{SegmentId, State};
use crate::store::Store;
use crate::sync::{lock, Ordering};

impl Reclaim {
    /// Brings every segment to rest: sealed and queued, or free. For a cache that nobody uses any more.
    pub(crate) fn settle(&self, store: &Store) {
        for lane in store.lanes.all() {
            lane.close(store);
        }
        let mut books = lock(&self.books);
        self.forget_holes(store, &mut books);
        books.thin = None;
        if let Some(drain) = books.drain.take() {
            self.give_up(store, &mut books, drain.id());
        }
        // No pin and no guard is left: what they kept is free.
        for (id, _) in std::mem::take(&mut books.condemned) {
            store.segments.free_condemned(id);
            let bytes = store.segments.bytes() as u64;
            self.condemned_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    pub(crate) fn write(&self, out: &mut Out) {
        let books = lock(&self.books);
        out.list(books.probation.iter().map(|id| id.0));
        out.list(books.main.iter().map(|id| id.0));
        out.u64(self.item_bytes_max.load(Ordering::Relaxed));
    }

    /// Takes over what `write` wrote, once the segments are. None: the queues do not fit the segments.
    pub(crate) fn read(&self, store: &Store, from: &mut In<'_>) -> Option<()> {
        let mut books = lock(&self.books);
        let mut queued = 0;
        for pool in [Pool::Probation, Pool::Main] {
            for id in from.ids(store.segments.places())? {
                let segment = store.segment(SegmentId(id));
                if segment.state() != State::Sealed
                    || segment.pool() != pool
                    || segment.tier() != Tier::Hot
                {
                    return None;
                }
                queued += 1;
                let (queue, bytes) = books.of(Tier::Hot, pool);
                *bytes += segment.used() as u64;
                queue.push_back(SegmentId(id));
            }
        }
        let largest = from.u64()?;
        self.item_bytes_max.store(largest, Ordering::Relaxed);
        self.publish_oldest(store, &books);
        (queued == store.segments.in_state(State::Sealed).count()).then_some(())
    }
}
