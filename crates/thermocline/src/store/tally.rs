//! How much of the segments is used and live. Walks the segment table: for statistics.

use super::Store;
use crate::segment::{SegmentId, State};

impl Store {
    /// Bytes appended to segments in use, and how many of them are live. Walks the segment table.
    pub(crate) fn used_and_live(&self) -> (u64, u64) {
        let (mut used, mut live) = (0, 0);
        for state in [State::Sealed, State::Draining] {
            for id in self.segments.in_state(state) {
                let segment = self.segments.get(id);
                used += segment.used() as u64;
                live += segment.live() as u64;
            }
        }
        for (id, filled) in self.lanes.all().filter_map(|lane| lane.open()) {
            used += filled as u64;
            live += filled.saturating_sub(self.segments.get(id).dead_so_far()) as u64;
        }
        (used, live)
    }

    /// Segments in use and the live bytes in each.
    pub(crate) fn live_by_segment(&self) -> Vec<(SegmentId, u64)> {
        let closed = [State::Sealed, State::Draining]
            .into_iter()
            .flat_map(|state| self.segments.in_state(state))
            .map(|id| (id, self.segments.get(id).live() as u64));
        let open = self.lanes.all().filter_map(|lane| lane.open());
        let open = open.map(|(id, filled)| {
            let dead = self.segments.get(id).dead_so_far();
            (id, filled.saturating_sub(dead) as u64)
        });
        closed.chain(open).collect()
    }

    /// Bytes appended to the segments of hot and of the compressed tier.
    pub(crate) fn used_by_tier(&self) -> [u64; 2] {
        let mut used = [0; 2];
        for state in [State::Sealed, State::Draining] {
            for id in self.segments.in_state(state) {
                let segment = self.segments.get(id);
                used[segment.tier() as usize] += segment.used() as u64;
            }
        }
        for (id, filled) in self.lanes.all().filter_map(|lane| lane.open()) {
            used[self.segments.get(id).tier() as usize] += filled as u64;
        }
        used
    }
}
