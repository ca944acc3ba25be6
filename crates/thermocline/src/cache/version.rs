//! One version of an item: read whole, and changed only if it still is the one that was read.

use super::value::{pooled_buffer, Marks, Meta};
use super::Inner;
use crate::config::Cause;
use crate::item::{Fields, MarkWord};
use crate::location::Place;
use crate::metrics::Counter;
use crate::reclaim::describe;
use crate::store::Seen;
use crate::sync::{pause, Ordering};
use std::sync::Arc;

/// One version, read whole.
pub(super) struct Snapshot {
    pub(super) place: Place,
    /// What no other version of any item is called.
    pub(super) version: u64,
    pub(super) fields: Fields,
    pub(super) meta: Meta,
    pub(super) value: Vec<u8>,
}

impl Inner {
    pub(super) fn snapshot(self: &Arc<Inner>, hash: u64, key: &[u8]) -> Option<Snapshot> {
        let mut tries = 0;
        loop {
            match self.try_snapshot(hash, key) {
                Ok(found) => return found,
                Err(()) => {
                    tries += 1;
                    pause(tries);
                }
            }
        }
    }

    /// Err: a writer raced.
    fn try_snapshot(self: &Arc<Inner>, hash: u64, key: &[u8]) -> Result<Option<Snapshot>, ()> {
        let store = &self.store;
        let pin = store.pin();
        let Some(found) = store.find(hash, key) else {
            return Ok(None);
        };
        let seen = store.see(found.slot.place()).ok_or(())?;
        let gone = store.is_gone(seen.place, &seen.fields);
        if !seen.header.still(seen.item.header_after_copy()) {
            return Err(());
        }
        if gone {
            return Ok(None);
        }
        if !seen.item.mark_token_out(seen.header) {
            return Err(());
        }
        let mut meta = Meta::new(&seen.fields, seen.layout.value_bytes, seen.layout.reserved);
        meta.token = Some(store.token(&seen));
        let snapshot = |value| Snapshot {
            place: seen.place,
            version: self.version(&seen),
            fields: seen.fields,
            meta,
            value,
        };
        if seen.header.is_long() {
            let guard = self.hold_value(&seen, meta).ok_or(())?;
            let snapshot = snapshot(Vec::new());
            drop(pin);
            return Ok(Some(Snapshot {
                value: guard.to_vec(),
                ..snapshot
            }));
        }
        let mut value = pooled_buffer();
        seen.item.append_value(&seen.layout, &mut value);
        if !seen.header.still(seen.item.header_after_copy()) {
            return Err(());
        }
        Ok(Some(snapshot(value)))
    }

    /// The item of a snapshot, locked, if that version is still under its key. Unlock it.
    fn lock_version<'a>(&'a self, hash: u64, old: &Snapshot) -> Option<Seen<'a>> {
        let store = &self.store;
        let found = store.index.find(hash, |place| place == old.place)?;
        let seen = store.see(found.slot.place())?;
        let same = self.version(&seen) == old.version;
        (same && !seen.header.busy() && seen.item.try_lock(seen.header)).then_some(seen)
    }

    pub(super) fn remove_version(&self, hash: u64, old: &Snapshot) -> bool {
        let store = &self.store;
        let pin = store.pin();
        let Some(seen) = self.lock_version(hash, old) else {
            return false;
        };
        let told = store
            .listener
            .as_ref()
            .map(|listener| describe(&seen, listener.values, Cause::Removed));
        let removed = store.index.remove_if(hash, seen.place);
        if removed {
            seen.item.unlock_frozen(seen.header);
            store.bury_item(&seen);
            store.counters.one(&pin, Counter::Deleted);
        } else {
            seen.item.unlock(seen.header);
        }
        drop(pin);
        if let (true, Some(gone)) = (removed, told) {
            store.tell(gone.cause, &gone.key, gone.value.as_deref());
        }
        removed
    }

    /// Stores the one word of the expiry, where there is one and it holds whole seconds.
    /// None: it must go by copy. Some(false): another version is there.
    pub(super) fn touch_in_place(
        &self,
        hash: u64,
        old: &Snapshot,
        expires_ms: u64,
    ) -> Option<bool> {
        if expires_ms == 0 || expires_ms % 1000 != 0 || old.fields.expires_ms == 0 {
            return None;
        }
        let store = &self.store;
        let _pin = store.pin();
        let Some(seen) = self.lock_version(hash, old) else {
            return Some(false);
        };
        let Some(word) = seen.item.expiry_word(&seen.layout) else {
            seen.item.unlock(seen.header);
            return None;
        };
        let segment = store.segments.of(seen.place);
        let open = segment.writable();
        if open {
            word.store((expires_ms / 1000) as u32, Ordering::Relaxed);
            let bytes = seen.layout.reserved as u32;
            let was = seen.fields.expires_ms;
            segment.expiring.remove(crate::store::expiry_s(was), bytes);
            store.book_expiry(seen.place, bytes as usize, expires_ms);
        }
        seen.item.unlock(seen.header);
        // Being drained: the mover may have read the old expiry already.
        open.then_some(true)
    }

    /// Stores the marks' word. None: it must go by copy (its segment is being drained).
    pub(super) fn mark_in_place(&self, hash: u64, old: &Snapshot, marks: Marks) -> Option<bool> {
        let store = &self.store;
        let _pin = store.pin();
        let Some(seen) = self.lock_version(hash, old) else {
            return Some(false);
        };
        let (Some(word), Some(now)) = (seen.item.marks_word(&seen.layout), seen.fields.marks)
        else {
            seen.item.unlock(seen.header);
            return Some(true);
        };
        let next = MarkWord::new(marks.flags(), now.access_s());
        // The very marks the decision rests on: only one reader wins.
        let same = old.fields.marks == Some(now);
        let open = store.segments.of(seen.place).writable();
        if same && open {
            word.store(next.0, Ordering::Relaxed);
        }
        seen.item.unlock(seen.header);
        (open || !same).then_some(same)
    }

    pub(crate) fn delete(&self, key: &[u8]) -> bool {
        let store = &self.store;
        let hash = store.hash(key);
        let mut tries = 0;
        loop {
            let pin = store.pin();
            let Some(found) = store.find(hash, key) else {
                return false;
            };
            let Some(seen) = store.see(found.slot.place()) else {
                drop(pin);
                tries += 1;
                pause(tries);
                continue;
            };
            let over = store.is_gone(seen.place, &seen.fields);
            let told = store.listener.as_ref().map(|listener| {
                let cause = if over { Cause::Expired } else { Cause::Removed };
                describe(&seen, listener.values, cause)
            });
            let whole = seen.header.still(seen.item.header_after_copy());
            if !whole || !store.index.remove_if(hash, seen.place) {
                continue;
            }
            store.bury_item(&seen);
            let counter = if over {
                Counter::Expired
            } else {
                Counter::Deleted
            };
            store.counters.one(&pin, counter);
            drop(pin);
            if let Some(gone) = told {
                store.tell(gone.cause, &gone.key, gone.value.as_deref());
            }
            return !over;
        }
    }

    pub(crate) fn count_read(&self, hit: bool) {
        self.count(if hit { Counter::Hits } else { Counter::Misses });
    }
}
