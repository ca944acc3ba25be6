//! One version of an item: read whole, and changed only if it still is the one that was read.

use super::value::{pooled_buffer, return_buffer, Marks, Meta};
use super::write::Expected;
use super::Inner;
use crate::config::Cause;
use crate::groups::Event;
use crate::item::{Fields, MarkWord};
use crate::location::Place;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::reclaim::describe;
use crate::store::Seen;
use crate::sync::{pause, Ordering};
use std::sync::Arc;

/// One version, read whole, or its facts.
pub(super) struct Snapshot {
    pub(super) place: Place,
    pub(super) expected: Expected,
    pub(super) fields: Fields,
    pub(super) meta: Meta,
    pub(super) value: Vec<u8>,
    /// False: the value was longer than was asked for, and is not here.
    pub(super) whole: bool,
}

impl Snapshot {
    /// The token a copy must carry: one that somebody may hold.
    pub(super) fn carried_token(&self) -> Option<u64> {
        match self.expected.token_free {
            true => None,
            false => self.meta.token,
        }
    }
}

/// What a snapshot is for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Facts alone: no value, and the token stays where it is.
    Facts,
    /// Facts and value; the token stays where it is.
    Value,
    /// Facts and value, and the token may be handed out: it is marked so.
    Token,
}

impl Inner {
    pub(super) fn snapshot(
        self: &Arc<Inner>,
        hash: u64,
        key: &[u8],
        look: Look,
        value_max: usize,
    ) -> Option<Snapshot> {
        let mut tries = 0;
        loop {
            match self.try_snapshot(hash, key, look, value_max) {
                Ok(found) => return found,
                Err(()) => {
                    tries += 1;
                    pause(tries);
                }
            }
        }
    }

    /// Err: a writer raced.
    fn try_snapshot(
        self: &Arc<Inner>,
        hash: u64,
        key: &[u8],
        look: Look,
        value_max: usize,
    ) -> Result<Option<Snapshot>, ()> {
        let store = &self.store;
        let pin = store.pin();
        let Some(found) = store.find(hash, key) else {
            return Ok(None);
        };
        let mut seen = store.see(found.slot.place()).ok_or(())?;
        let gone = store.is_gone(seen.place, &seen.fields);
        if !seen.header.still(seen.item.header_after_copy()) {
            return Err(());
        }
        if gone {
            return Ok(None);
        }
        if look == Look::Token {
            if !seen.item.mark_token_out(seen.header) {
                return Err(());
            }
            seen.header = seen.header.with_token_out();
        }
        let mut snapshot = self.facts(&seen);
        if look == Look::Facts || snapshot.meta.value_bytes > value_max {
            snapshot.whole = false;
            return Ok(Some(snapshot));
        }
        if seen.header.is_long() {
            let guard = self.hold_value(&seen, snapshot.meta).ok_or(())?;
            drop(pin);
            let Some(guard) = guard.proved() else {
                return match self.drop_damaged_chunks(hash, snapshot.place) {
                    true => Ok(None),
                    false => Err(()),
                };
            };
            if !guard.append_to(&mut snapshot.value) {
                return Ok(None);
            }
            return self.decoded(hash, snapshot, seen.layout.is_coded());
        }
        snapshot.value = pooled_buffer();
        seen.item.append_value(&seen.layout, &mut snapshot.value);
        if !seen.header.still(seen.item.header_after_copy()) {
            return Err(());
        }
        drop(pin);
        self.decoded(hash, snapshot, seen.layout.is_coded())
    }

    /// The snapshot with its value as readers know it. Ok(None): it was damaged, and dropped. Err: its
    /// dictionary has gone, so the item has too.
    fn decoded(
        &self,
        hash: u64,
        mut snapshot: Snapshot,
        is_coded: bool,
    ) -> Result<Option<Snapshot>, ()> {
        if is_coded {
            let mut value = pooled_buffer();
            let done = self.store.compress.decode(&snapshot.value, &mut value);
            return_buffer(std::mem::replace(&mut snapshot.value, value));
            if !done {
                return_buffer(snapshot.value);
                return match self.drop_if_damaged(hash, snapshot.place) {
                    true => Ok(None),
                    false => Err(()),
                };
            }
        }
        Ok(Some(snapshot))
    }

    fn facts(&self, seen: &Seen<'_>) -> Snapshot {
        let value_bytes = self.store.value_bytes(seen);
        let mut meta = Meta::new(&seen.fields, value_bytes, seen.layout.reserved);
        meta.token = Some(self.store.token(seen));
        Snapshot {
            place: seen.place,
            expected: Expected {
                version: self.version(seen),
                fields: seen.fields,
                token_free: !seen.header.token_out() && seen.fields.token.is_none(),
                value_stays: false,
            },
            // What is made of a snapshot is made of its value, decoded.
            fields: Fields {
                coded: false,
                ..seen.fields
            },
            meta,
            value: Vec::new(),
            whole: true,
        }
    }

    /// The item of a snapshot, locked, if that version is still under its key. Unlock it.
    fn lock_version<'a>(&'a self, hash: u64, old: &Snapshot) -> Option<Seen<'a>> {
        let store = &self.store;
        let found = store.index.find(hash, |place| place == old.place)?;
        let seen = store.see(found.slot.place())?;
        let version = self.version(&seen) == old.expected.version;
        if !version || seen.header.busy() || !seen.item.try_lock(seen.header) {
            return None;
        }
        if seen.item.fields(&seen.layout).same_facts(&old.fields) {
            return Some(seen);
        }
        seen.item.unlock(seen.header);
        None
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
            .map(|listener| describe(store, &seen, listener.values, Cause::Removed));
        let removed = store.index.remove_if(hash, seen.place);
        if removed {
            seen.item.unlock_frozen(seen.header);
            store.bury_item(&seen);
            store.counters.one(&pin, Counter::Deleted);
        } else {
            seen.item.unlock(seen.header);
        }
        drop(pin);
        if removed {
            self.removed(hash);
        }
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
        // The marks are those the decision rests on (`lock_version`): only one reader wins.
        let open = store.segments.of(seen.place).writable();
        if open {
            word.store(next.0, Ordering::Relaxed);
        }
        seen.item.unlock(seen.header);
        open.then_some(true)
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
            let seen = store.see(found.slot.place());
            // Under the lock, so that no overwrite goes through on an item that is gone.
            let blind = mutant(Mutant::RemoveBlind);
            let locked = seen
                .as_ref()
                .filter(|seen| blind || !seen.header.busy() && seen.item.try_lock(seen.header));
            if let Some(seen) = locked {
                let over = store.is_gone(seen.place, &seen.fields);
                let cause = if over { Cause::Expired } else { Cause::Removed };
                let gone = store
                    .listener
                    .as_ref()
                    .map(|listener| describe(store, seen, listener.values, cause));
                if store.index.remove_if(hash, seen.place) || blind {
                    seen.item.unlock_frozen(seen.header);
                    store.bury_item(seen);
                    store.counters.one(
                        &pin,
                        match over {
                            true => Counter::Expired,
                            false => Counter::Deleted,
                        },
                    );
                    drop(pin);
                    self.removed(hash);
                    if let Some(gone) = gone {
                        store.tell(gone.cause, &gone.key, gone.value.as_deref());
                    }
                    return !over;
                }
                seen.item.unlock(seen.header);
            }
            drop(pin);
            tries += 1;
            pause(tries);
        }
    }

    pub(crate) fn count_read(&self, key: &[u8], hit: bool) {
        let (counter, event) = match hit {
            true => (Counter::Hits, Event::Hit),
            false => (Counter::Misses, Event::Miss),
        };
        self.count(counter);
        self.store.count_group(key, event);
    }
}
