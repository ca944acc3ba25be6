//! Evicting by age on request: the `-` command of the `lru_gen` interface, and who goes first in it.
//!
//! The same drains, verdicts and ghosts as when room is short; only the choice of the segment differs. The lock is let
//! go every few hundred items, so writers, expiry and the background thread go on meanwhile.

use super::choose::is_settled;
use super::drain::Mode;
use super::patience::REQUEST_PATIENCE;
use super::{Books, Reclaim, BACKGROUND_ITEMS};
use crate::location::Tier;
use crate::policy::Pool;
use crate::segment::SegmentId;
use crate::store::Store;
use crate::sync::{lock, Ordering};
use std::time::Instant;

/// Beside two drains a segment: segments that writers fill meanwhile with what is old already (under `mglru`).
const DRAINS_BESIDE: usize = 64;

/// What the search for a segment came to.
enum Old {
    Begun,
    /// There is one, but writers still publish in it, or what is condemned must come free first.
    Waiting,
    None,
}

impl Reclaim {
    /// Empties segments of generation `last` and older, oldest first, until `bytes` live ones have left. What the
    /// policy keeps goes to the young end. Whole extents that come free go back to the system. Returns the live
    /// bytes that left (others' evictions meanwhile included). No pin may be held.
    pub(crate) fn evict_up_to(&self, store: &Store, last: u32, bytes: u64) -> u64 {
        for lane in store.lanes.all() {
            let old = |id: SegmentId| store.segment(id).generation() <= last;
            if lane.open().is_some_and(|(id, _)| old(id)) {
                lane.close(store);
            }
        }
        let before = self.evicted_bytes.load(Ordering::Relaxed);
        let left = || self.evicted_bytes.load(Ordering::Relaxed) - before;
        let mut drains = 2 * store.segments.owned() + DRAINS_BESIDE;
        let mut idle_since = None;
        while left() < bytes && drains > 0 {
            let mut books = lock(&self.books);
            self.forget_holes(store, &mut books);
            let found = match books.drain {
                Some(_) => Old::Begun,
                None => self.begin_old(store, &mut books, last),
            };
            match found {
                Old::None => break,
                Old::Begun => {
                    self.pass(store, &mut books, BACKGROUND_ITEMS);
                    drains -= usize::from(books.drain.is_none());
                    idle_since = None;
                    self.finish(store, books);
                }
                Old::Waiting => {
                    let freed = self.free_condemned(store, &mut books);
                    self.finish(store, books);
                    let idle = *idle_since.get_or_insert_with(Instant::now);
                    if freed {
                        idle_since = None;
                    } else if idle.elapsed() > REQUEST_PATIENCE {
                        break;
                    } else {
                        self.wait_for_pins(store);
                    }
                }
            }
        }
        if left() > 0 {
            // As after growing: the room is cold, main fills first.
            store.facts.evicted.store(false, Ordering::Relaxed);
        }
        self.give_back(store);
        left()
    }

    /// Gives whole free extents back, once what was condemned is free; waits for pins a moment, not for guards.
    fn give_back(&self, store: &Store) {
        let since = Instant::now();
        loop {
            let mut books = lock(&self.books);
            self.free_condemned(store, &mut books);
            if books.condemned.is_empty() || since.elapsed() > REQUEST_PATIENCE {
                while store.segments.give_back_extent() {}
                return;
            }
            drop(books);
            self.wait_for_pins(store);
        }
    }

    /// Begins to drain the oldest segment of generation `last` or older; probation's before main's.
    fn begin_old(&self, store: &Store, books: &mut Books, last: u32) -> Old {
        let full = store.segments.free() == 0 && store.segments.could_add() == 0;
        let waits = !books.condemned.is_empty();
        if waits && (full || self.condemned_bytes() >= Reclaim::condemned_cap(store)) {
            return Old::Waiting;
        }
        let _ = store.domain.try_advance() && store.domain.try_advance();
        let old = |&id: &SegmentId| store.segment(id).generation() <= last;
        let oldest = |of: &mut dyn Iterator<Item = SegmentId>| {
            of.min_by_key(|&id| {
                let segment = store.segment(id);
                (segment.generation(), segment.pool() == Pool::Main)
            })
        };
        let queued = || books.queues().into_iter().flatten().copied().filter(old);
        let Some(id) = oldest(&mut queued().filter(|&id| is_settled(store, id))) else {
            return match queued().next() {
                Some(_) => Old::Waiting,
                None => Old::None,
            };
        };
        let segment = store.segment(id);
        let mode = match (segment.tier(), segment.pool()) {
            (_, Pool::Probation) => Mode::Probation,
            (Tier::Hot, Pool::Main) => Mode::Main,
            (Tier::Compressed, Pool::Main) => Mode::Empty,
        };
        match self.unqueue(store, books, id) && self.begin(store, books, id, mode) {
            true => Old::Begun,
            false => Old::None,
        }
    }
}
