//! Emptying an extent that is to go back, where it holds several segments.
//!
//! ```text
//! an extent is owed -> the emptiest without fresh segments, else the emptiest -> drain its segments, oldest first;
//!                                                                                what is fresh is moved while there is room
//! ```
//! A segment is *fresh* while less than the fresh floor was written to its pool after it. What is fresh leaves the cache
//! only where every extent holds some of it and no segment is free for it. (To make that room first, by draining
//! others, would not end: their survivors take the same segment.)

use super::choose::{can_drain, is_ripe};
use super::drain::Mode;
use super::{Books, Reclaim};
use crate::policy::Pool;
use crate::segment::{SegmentId, State};
use crate::store::Store;
use crate::sync::Ordering;

impl Reclaim {
    /// Drains what is left in the extent that is to be given back.
    pub(super) fn start_emptying(&self, store: &Store, books: &mut Books) -> bool {
        let fresh = FreshFrom::now(store, self.item_bytes_max.load(Ordering::Relaxed));
        let mut segments = store.segments.empty_one_extent(|id| fresh.has(store, id));
        for lane in store.lanes.all() {
            if lane.open().is_some_and(|(id, _)| segments.contains(&id)) {
                lane.close(store);
            }
        }
        self.queue_sealed(store, books);
        segments.retain(|&id| store.segment(id).state() == State::Sealed && can_drain(store, id));
        let oldest = segments
            .into_iter()
            .min_by_key(|&id| (fresh.has(store, id), store.segment(id).birth()));
        let Some(oldest) = oldest.filter(|&id| is_ripe(store, id)) else {
            return false;
        };
        let has_room = store.segments.free() + store.segments.could_add() > 0;
        let mode = match store.segment(oldest).pool() {
            _ if has_room && fresh.has(store, oldest) => Mode::Compact,
            Pool::Probation => Mode::Probation,
            Pool::Main => Mode::Empty,
        };
        self.unqueue(store, books, oldest) && self.begin(store, books, oldest, mode)
    }
}

/// The births from which on segments of probation and of main are fresh.
struct FreshFrom {
    births: [u64; 2],
}

impl FreshFrom {
    fn now(store: &Store, largest_item: u64) -> FreshFrom {
        let floor = store.fresh_min_bytes(largest_item);
        let births = [Pool::Probation, Pool::Main].map(|pool| {
            let mut young: Vec<(u64, u64)> = [State::Open, State::Sealed]
                .into_iter()
                .flat_map(|state| store.segments.in_state(state))
                .map(|id| store.segment(id))
                .filter(|segment| segment.pool() == pool)
                // What lies in an open one is not counted yet: one more is fresh at most.
                .map(|segment| (segment.birth(), segment.used() as u64))
                .collect();
            young.sort_unstable_by(|a, b| b.cmp(a));
            let mut left = floor;
            let last = young.into_iter().take_while(|&(_, used)| {
                let needed = left > 0;
                left = left.saturating_sub(used);
                needed
            });
            last.last().map_or(u64::MAX, |(birth, _)| birth)
        });
        FreshFrom { births }
    }

    fn has(&self, store: &Store, id: SegmentId) -> bool {
        let segment = store.segment(id);
        let from = match segment.pool() {
            Pool::Probation => self.births[0],
            Pool::Main => self.births[1],
        };
        segment.state() != State::Free && segment.birth() >= from
    }
}
