//! Groups of keys: what is counted for each, what each holds, and whom reclaim must spare.

use super::Store;
use crate::config::GROUP_PREFIX_MAX;
use crate::groups::{Event, GroupId, Groups};
use crate::location::Place;
use crate::mem::current_core;
use crate::segment::SegmentId;
use crate::sync::Ordering;

impl Store {
    /// The group of the item at `place`, by its key's bytes.
    pub(super) fn group_at(&self, groups: &Groups, place: Place) -> Option<GroupId> {
        let item = self.item(place);
        let layout = item.layout(item.header());
        groups.of(&item.key_start(&layout, GROUP_PREFIX_MAX))
    }

    /// Counts a read of a key, or an eviction, for its group.
    #[inline(always)]
    pub(crate) fn count_group(&self, key: &[u8], event: Event) {
        if let Some(groups) = &self.groups {
            if let Some(id) = groups.of(key) {
                groups.count(id, event, current_core());
            }
        }
    }

    /// Counts the eviction of the item at `place` for its group.
    pub(crate) fn count_evicted(&self, place: Place) {
        if let Some(groups) = &self.groups {
            if let Some(id) = self.group_at(groups, place) {
                groups.count(id, Event::Evicted, current_core());
            }
        }
    }

    /// A written record is about to be published: its bytes count for its group, until `ungroup`.
    #[inline]
    pub(crate) fn group(&self, place: Place, bytes: usize) {
        if let Some(groups) = &self.groups {
            if let Some(id) = self.group_at(groups, place) {
                groups.add(self.segments.id_of(place).0, id, bytes);
            }
        }
    }

    /// It is buried, or was not published.
    #[inline]
    pub(crate) fn ungroup(&self, place: Place, bytes: usize) {
        if let Some(groups) = &self.groups {
            if let Some(id) = self.group_at(groups, place) {
                groups.sub(self.segments.id_of(place).0, id, bytes);
            }
        }
    }

    /// Live bytes of a group, what a drop or a flush has made invisible left out. Walks the segment table.
    pub(crate) fn group_bytes(&self, groups: &Groups, id: GroupId) -> u64 {
        let segments = (0..self.segments.places() as u32).map(SegmentId);
        let mark = groups
            .mark(id)
            .max(self.flush.birth.load(Ordering::Acquire));
        segments
            .filter(|&segment| mark == 0 || self.segments.get(segment).birth() > mark)
            .map(|segment| groups.bytes(segment.0, id))
            .sum()
    }

    /// Which groups, by number, hold less than they are promised, and so lose nothing now. Walks the segment table
    /// once for each promise.
    pub(crate) fn promised(&self) -> Vec<bool> {
        let Some(groups) = &self.groups else {
            return Vec::new();
        };
        let capacity = self.facts.capacity_bytes.load(Ordering::Relaxed) as f64;
        let is_below = |id| {
            let share = groups.share(id);
            share > 0.0 && (self.group_bytes(groups, id) as f64) < share * capacity
        };
        groups.ids().map(is_below).collect()
    }

    /// Whether the item at `place` is of a group that `promised` says loses nothing.
    pub(crate) fn is_promised(&self, promised: &[bool], place: Place) -> bool {
        let Some(groups) = &self.groups else {
            return false;
        };
        promised.contains(&true)
            && self
                .group_at(groups, place)
                .is_some_and(|id| promised[id.number()])
    }
}
