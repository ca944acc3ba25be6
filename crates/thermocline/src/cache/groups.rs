//! Groups of keys: what they did, and dropping one whole.

use super::{Cache, Inner};
use crate::config::Cause;
use crate::groups::Event;
use crate::index::Cursor;
use crate::location::Place;
use crate::models_switch::{mutant, Mutant};
use crate::reclaim::take;
use crate::sync::{lock, pause};

/// What a group of keys (`Config::groups`) has done and holds.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GroupStats {
    /// What its keys begin with.
    pub prefix: Vec<u8>,
    /// The share of the cache it is promised.
    pub share: f64,
    /// Reads that found their item, and reads that did not.
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// Bytes of its items (of large values: of their heads, without the chunks).
    pub bytes: u64,
    /// Live items that left for want of room.
    pub evicted: u64,
    /// How often it was dropped.
    pub drops: u64,
}

impl Cache {
    /// The groups in the order they were configured. Walks the segment table once a group.
    pub fn groups(&self) -> Vec<GroupStats> {
        let store = &self.inner.store;
        let Some(groups) = &store.groups else {
            return Vec::new();
        };
        let stats = |id| GroupStats {
            prefix: groups.prefix(id).to_vec(),
            share: groups.share(id),
            hits: groups.sum(id, Event::Hit),
            misses: groups.sum(id, Event::Miss),
            bytes: store.group_bytes(groups, id),
            evicted: groups.sum(id, Event::Evicted),
            drops: groups.drops(id),
        };
        groups.ids().map(stats).collect()
    }

    /// Makes every item of the group with exactly this prefix invisible. O(1) as a flush is: a mark is raised; the
    /// memory comes back by reclaim, before anything live is evicted. (Keys of a longer configured prefix are of that
    /// group, not of this one.) False: no such group is configured, and nothing was done.
    pub fn drop_group(&self, prefix: &[u8]) -> bool {
        let inner = &self.inner;
        let store = &inner.store;
        let Some(groups) = &store.groups else {
            return false;
        };
        let Some(id) = groups.named(prefix) else {
            return false;
        };
        let raise = || {
            inner.raise_mark(|mark| {
                groups.drop_up_to(id, mark);
                store.refresh_marks();
            });
        };
        match mutant(Mutant::DropUnlocked) {
            true => raise(),
            false => inner.reclaim.while_still(raise),
        }
        if let Some(hot) = &inner.hot {
            lock(hot).forget(|key| groups.of(key) == Some(id));
        }
        if let Some(bell) = &inner.bell {
            bell.ring();
        }
        true
    }
}

impl Inner {
    /// Counts the groups' bytes anew after a warm start: reads the first line of every item.
    pub(super) fn recount_groups(&self) {
        if self.store.groups.is_some() {
            self.each_place(|place| {
                let seen = self.store.look(place);
                self.store.group(place, seen.layout.reserved);
            });
        }
    }

    /// Takes items of dropped groups out for good, before the books are closed: marks are not kept.
    pub(super) fn bury_dropped(&self) {
        let store = &self.store;
        let marked = |groups: &crate::groups::Groups| groups.youngest_mark() > 0;
        if !store.groups.as_ref().is_some_and(marked) {
            return;
        }
        self.each_place(|place| {
            if !store.is_flushed(place) {
                return;
            }
            let mut key = Vec::new();
            let mut tries = 0;
            let seen = loop {
                match store.see(place) {
                    Some(seen) => break seen,
                    None => tries += 1,
                }
                pause(tries);
            };
            seen.item.append_key(&seen.layout, &mut key);
            take(store, &store.pin(), store.hash(&key), &seen, Cause::Expired);
        });
    }

    fn each_place(&self, each: impl Fn(Place)) {
        let store = &self.store;
        let (mut cursor, mut slots) = (Cursor::default(), Vec::new());
        loop {
            slots.clear();
            let _pin = store.pin();
            if !store.index.scan(&mut cursor, &mut slots) {
                return;
            }
            slots.iter().for_each(|slot| each(slot.place()));
        }
    }
}
