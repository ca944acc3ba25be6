//! Out of the compressed tier what has been there long, before anybody needs the room.
//!
//! Ages are those of segments: an item that is hit is copied to a young one and counts as new there.

use super::drain::Mode;
use super::{choose, Books, Reclaim, BACKGROUND_ITEMS};
use crate::location::Tier;
use crate::policy::Pool;
use crate::segment::SegmentId;
use crate::store::Store;
use crate::sync::lock;

impl Reclaim {
    /// Evicts what lies in segments of the compressed tier opened at least `age_s` ago, the oldest first, until
    /// `bytes_max` bytes of live items have gone. Returns segments and bytes. Works item by item like any drain;
    /// whoever needs room meanwhile shares the work. No pin may be held.
    pub(crate) fn trim(&self, store: &Store, age_s: u32, bytes_max: u64) -> (u64, u64) {
        let (mut segments, mut bytes) = (0, 0);
        while bytes < bytes_max {
            let mut books = lock(&self.books);
            self.queue_sealed(store, &mut books);
            if books.drain.is_some() {
                self.pass(store, &mut books, BACKGROUND_ITEMS);
                self.finish(store, books);
                continue;
            }
            let _ = store.domain.try_advance() && store.domain.try_advance();
            let Some(id) = oldest(store, &mut books, age_s) else {
                break;
            };
            let live = store.segment(id).live() as u64;
            if !self.unqueue(store, &mut books, id)
                || !self.begin(store, &mut books, id, Mode::Trim)
            {
                break;
            }
            drop(books);
            self.drain_whole(store, id);
            (segments, bytes) = (segments + 1, bytes + live);
        }
        (segments, bytes)
    }

    fn drain_whole(&self, store: &Store, id: SegmentId) {
        loop {
            let mut books = lock(&self.books);
            if books.drain.as_ref().is_none_or(|drain| drain.id() != id) {
                return;
            }
            self.pass(store, &mut books, BACKGROUND_ITEMS);
            self.finish(store, books);
        }
    }
}

/// The compressed segment opened first, if that was long enough ago.
fn oldest(store: &Store, books: &mut Books, age_s: u32) -> Option<SegmentId> {
    let now_s = store.time.now_s();
    let mut found: Option<(u32, SegmentId)> = None;
    for pool in [Pool::Probation, Pool::Main] {
        let (queue, _) = books.of(Tier::Compressed, pool);
        for &id in queue.iter() {
            let opened_s = store.segment(id).expiring.opened_s();
            let old = now_s.saturating_sub(opened_s) >= age_s && choose::is_settled(store, id);
            if old && found.is_none_or(|(least, _)| opened_s < least) {
                found = Some((opened_s, id));
            }
        }
    }
    found.map(|(_, id)| id)
}
