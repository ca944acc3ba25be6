//! Writing: overwrite in place where it can be done, else append and publish.
//!
//! ```text
//! set:  find -> in place? lock, check, write, unlock with the next version
//!            -> else reserve, write, publish(expected = old | none) -> bury old
//! ```
//! One file, because in place, by append and by copy share one look at the old item and one set of checks.
//! What a write is tried again for: another writer won, the lane is full (reclaim, outside any pin),
//! the index is full (reclaim an extent). A refused `set` leaves no old value behind.

use super::options::{Expiry, Mode, SetOptions, Stored};
use super::short::ShortWrite;
use super::{Cache, Inner};
use crate::config::Cause;
use crate::curve::Access;
use crate::error::Error;
use crate::holes::Room;
use crate::index::{Found, Publish};
use crate::item::{Fields, MarkWord, Measured, Record, EXPIRY_MAX_MS, PLAIN_MAX};
use crate::location::Place;
use crate::mem::Pin;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::policy::Pool;
use crate::reclaim::{describe, Gone};
use crate::store::{Rejected, Seen};
use crate::sync::{pause, Ordering};
use std::sync::Arc;
use std::time::Duration;

/// How often one write finds the room that reclaim made taken by others before it is refused. (A lost
/// race costs nothing: then another writer has won.)
const ROOM_TRIES_MAX: u32 = 1000;

impl Cache {
    /// Stores `value` under `key`. Overwrites in place where the old item has the room. Copies once.
    pub fn set(&self, key: &[u8], value: &[u8]) -> Result<(), Error> {
        let inner = &self.inner;
        inner.begin_write(key)?;
        if !inner.stores_bare(key, value) {
            return self
                .set_with(key, value, &SetOptions::default())
                .map(|_| ());
        }
        let hash = inner.store.hash(key);
        let mut is_absent = false;
        if inner.may_write_short() {
            match inner.overwrite_short(hash, key, value, None, false) {
                ShortWrite::Done(_) => return Ok(()),
                ShortWrite::Absent => is_absent = true,
                ShortWrite::Other => {}
            }
        }
        self.set_bare(hash, key, value, is_absent)
    }

    #[inline(never)]
    fn set_bare(&self, hash: u64, key: &[u8], value: &[u8], is_absent: bool) -> Result<(), Error> {
        let fields = Fields::default();
        let new = Measured::new(Record { key, fields, value });
        let stored = self
            .inner
            .store_hashed(hash, &new, Condition::Always, is_absent);
        if stored.is_err() {
            self.refuse(key, Mode::Set);
        }
        stored.map(|_| ())
    }

    /// Stores `value` on a condition, with flags and expiry. An error of a plain `Set` has removed the
    /// key's old value; other modes leave it.
    pub fn set_with(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<Stored, Error> {
        self.inner.begin_write(key)?;
        if let Err(error) = self.inner.check_value(value.len() as u64) {
            self.refuse_over_limit(key, value.len(), options.mode);
            return Err(error);
        }
        if matches!(options.mode, Mode::Append | Mode::Prepend) {
            return self.concatenate(key, value, options);
        }
        let fields = self.inner.fields(options);
        let mut record = Measured::new(Record { key, fields, value });
        record.token_out = options.want_token;
        let stored = if self.inner.is_large(&record) {
            self.set_large(key, value, options)
        } else {
            self.inner.store_record(&record, condition(options.mode))
        };
        if let Err(Error::NoRoom) = stored {
            self.refuse(key, options.mode);
        }
        stored
    }

    /// After a refused write: a plain `set` must not leave the old value behind.
    pub(crate) fn refuse(&self, key: &[u8], mode: Mode) {
        if mode == Mode::Set {
            self.delete(key);
        }
    }

    /// The same of a value over the limit. Under a new key it was a request that a larger cache might have answered.
    pub(crate) fn refuse_over_limit(&self, key: &[u8], value_bytes: usize, mode: Mode) {
        if mode == Mode::Set && !self.delete(key) {
            let hash = self.inner.store.hash(key);
            self.inner.refused_over_limit(hash, key.len() + value_bytes);
        }
    }

    /// Stores `value` if `key` is not there.
    pub fn add(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.with_mode(key, value, Mode::Add)
    }

    /// Stores `value` if `key` is there.
    pub fn replace(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.with_mode(key, value, Mode::Replace)
    }

    /// Puts `value` behind what is there; false if nothing is.
    pub fn append(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.with_mode(key, value, Mode::Append)
    }

    /// Puts `value` before what is there; false if nothing is.
    pub fn prepend(&self, key: &[u8], value: &[u8]) -> Result<bool, Error> {
        self.with_mode(key, value, Mode::Prepend)
    }

    /// Stores `value` if the item still has `token` (from `Meta::token`).
    pub fn compare_and_set(&self, key: &[u8], value: &[u8], token: u64) -> Result<Stored, Error> {
        let options = SetOptions {
            mode: Mode::CompareAndSet(token),
            ..SetOptions::default()
        };
        self.set_with(key, value, &options)
    }

    fn with_mode(&self, key: &[u8], value: &[u8], mode: Mode) -> Result<bool, Error> {
        let options = SetOptions {
            mode,
            ..SetOptions::default()
        };
        Ok(self.set_with(key, value, &options)?.is_stored())
    }
}

/// On what the old item must be for a write to go ahead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Condition {
    Always,
    Absent,
    Present,
    Token(u64),
    /// Exactly what an `update` has seen.
    Version(Expected),
}

/// What an `update` has seen of an item, and rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Expected {
    /// What no other version of any item is called: birth, offset, in-place version.
    pub(crate) version: u64,
    /// Expiry and marks, which change without a new version.
    pub(crate) fields: Fields,
    /// The token is not in anybody's hands; the change would not carry it.
    pub(crate) token_free: bool,
    /// The value stays: it is written anew for its expiry or marks. Nothing leaves, so no listener is told.
    pub(crate) value_stays: bool,
}

impl Condition {
    fn value_stays(&self) -> bool {
        matches!(self, Condition::Version(expected) if expected.value_stays)
    }
}

pub(crate) fn condition(mode: Mode) -> Condition {
    match mode {
        Mode::Set | Mode::Append | Mode::Prepend => Condition::Always,
        Mode::Add => Condition::Absent,
        Mode::Replace => Condition::Present,
        Mode::CompareAndSet(token) => Condition::Token(token),
    }
}

/// What came of one try.
enum Try {
    Done(Stored),
    /// Done, at a new place.
    Appended(Stored, Pool),
    /// Another writer won, or an item is busy.
    Again,
    /// The lane has no segment.
    NoSegment,
    /// The index has no memory.
    NoIndex,
}

/// What was found under the key.
struct Old<'a> {
    found: Found,
    seen: Seen<'a>,
    /// There is an item, but its time is over.
    over: bool,
}

/// One write and what its tries share.
struct Write<'a, 'b> {
    hash: u64,
    new: &'a Measured<'b>,
    condition: Condition,
    rejected: Rejected,
    /// What to tell the listener.
    gone: Option<Box<Gone>>,
}

/// A record that lies in its segment and waits to be published.
#[derive(Clone, Copy)]
struct Written {
    place: Place,
    bytes: usize,
    expires_ms: u64,
}

/// The answer when the condition does not hold where there is nothing.
fn refusal_of_none(condition: Condition) -> Option<Stored> {
    match condition {
        Condition::Always | Condition::Absent => None,
        Condition::Present => Some(Stored::NotStored),
        Condition::Token(_) => Some(Stored::NotFound),
        Condition::Version(_) => Some(Stored::Exists),
    }
}

impl Inner {
    /// What every write begins with: the key's size, and a flush that is due but not yet carried out, so
    /// that it does not take this write with it.
    #[inline]
    pub(crate) fn begin_write(&self, key: &[u8]) -> Result<(), Error> {
        self.carry_out_flush();
        self.check_key(key)
    }

    /// Carries out a flush that is due.
    #[inline]
    pub(crate) fn carry_out_flush(&self) {
        if self.flush_is_due() {
            self.flush_now(true);
        }
    }

    #[inline]
    pub(crate) fn check_key(&self, key: &[u8]) -> Result<(), Error> {
        if key.is_empty() || key.len() > self.key_size_max {
            return Err(Error::KeySize {
                bytes: key.len(),
                max: self.key_size_max,
            });
        }
        Ok(())
    }

    pub(crate) fn check_value(&self, bytes: u64) -> Result<(), Error> {
        let max = self.item_size_max.load(Ordering::Relaxed);
        if bytes <= max {
            return Ok(());
        }
        self.count(Counter::RefusedSize);
        Err(Error::ValueTooLarge { bytes, max })
    }

    /// Whether a value stored without options becomes a small item without optional fields.
    #[inline(always)]
    fn stores_bare(&self, key: &[u8], value: &[u8]) -> bool {
        let small = key.len() + value.len() <= PLAIN_MAX - 4;
        small
            && value.len() as u64 <= self.item_size_max.load(Ordering::Relaxed)
            && !self.store.marks
            && self.time_to_live.is_none()
            && self.store.flush.dark_from_ms.load(Ordering::Relaxed) == u64::MAX
    }

    /// Whether a record is kept as a list of chunks.
    #[inline(always)]
    pub(crate) fn is_large(&self, new: &Measured<'_>) -> bool {
        !new.small && new.bytes > self.store.segments.bytes() / 4
    }

    pub(crate) fn fields(&self, options: &SetOptions) -> Fields {
        Fields {
            marks: self
                .store
                .new_marks(options.marks.flags() & !MarkWord::FETCHED),
            flags: options.flags,
            expires_ms: match self.is_dark() {
                true => 1,
                false => self.expires_ms(options.expiry),
            },
            token: options.token,
            coded: false,
        }
    }

    /// In the second of a delayed flush whatever is stored is gone at once. Forgets that flush after its second.
    fn is_dark(&self) -> bool {
        let dark_from = &self.store.flush.dark_from_ms;
        let from = dark_from.load(Ordering::Relaxed);
        if from == u64::MAX {
            return false;
        }
        let (now, end) = (self.store.time.now_ms(), from.saturating_add(1000));
        if now >= end {
            let (own, none) = (Ordering::Relaxed, u64::MAX);
            let _another_was_set = dark_from.compare_exchange(from, none, own, own);
        }
        (from..end).contains(&now)
    }

    pub(crate) fn expires_ms(&self, expiry: Expiry) -> u64 {
        let after = |time: Duration| {
            let now = self.store.time.now_ms();
            let millis = time.as_millis().min(u64::MAX as u128) as u64;
            now.saturating_add(millis).clamp(1, EXPIRY_MAX_MS)
        };
        match expiry {
            Expiry::Default => self.time_to_live.map_or(0, after),
            Expiry::Never => 0,
            Expiry::AtMs(at) => at.clamp(1, EXPIRY_MAX_MS),
            Expiry::In(time) => after(time),
        }
    }

    /// Stores a record that fits one piece.
    #[inline(always)]
    pub(crate) fn store_record(
        self: &Arc<Inner>,
        new: &Measured<'_>,
        condition: Condition,
    ) -> Result<Stored, Error> {
        let hash = self.store.hash(new.record.key);
        let mut is_absent = false;
        if condition == Condition::Always && new.is_bare() && self.may_write_short() {
            let Record { key, value, fields } = new.record;
            match self.overwrite_short(hash, key, value, fields.marks, new.token_out) {
                ShortWrite::Done(token) => return Ok(Stored::Stored(token)),
                ShortWrite::Absent => is_absent = true,
                ShortWrite::Other => {}
            }
        }
        self.store_hashed(hash, new, condition, is_absent)
    }

    /// Stores a record that could not be stored the short way. `is_absent`: the key was looked up a moment
    /// ago and not found, so the first try appends at once (the index looks again when it publishes).
    #[inline(never)]
    fn store_hashed(
        self: &Arc<Inner>,
        hash: u64,
        new: &Measured<'_>,
        condition: Condition,
        is_absent: bool,
    ) -> Result<Stored, Error> {
        let mut write = Write {
            hash,
            new,
            condition,
            rejected: Rejected::default(),
            gone: None,
        };
        let first = match is_absent {
            true => self.append_record(&self.store.pin(), None, &mut write),
            false => self.try_store(&mut write),
        };
        match first {
            Try::Done(stored) if write.gone.is_none() => Ok(stored),
            outcome => self.store_slowly(&mut write, outcome),
        }
    }

    /// After a first try that appended, failed, or has something to tell.
    #[inline(never)]
    fn store_slowly(
        self: &Arc<Inner>,
        write: &mut Write<'_, '_>,
        mut outcome: Try,
    ) -> Result<Stored, Error> {
        let mut tries = 0;
        let (mut room, mut _claim) = (0, None);
        while room < ROOM_TRIES_MAX {
            if let Some(gone) = write.gone.take() {
                self.store
                    .tell(gone.cause, &gone.key, gone.value.as_deref());
            }
            match outcome {
                Try::Done(stored) => return Ok(stored),
                Try::Appended(stored, pool) => {
                    self.note_size(write.new.bytes);
                    self.after_append(pool);
                    return Ok(stored);
                }
                Try::Again => {
                    tries += 1;
                    pause(tries);
                }
                Try::NoSegment if self.reclaim.make_room(&self.store) => room += 1,
                Try::NoIndex => match self.reclaim.make_extent(&self.store) {
                    Some(made) => (_claim, room) = (Some(made), room + 1),
                    None => break,
                },
                Try::NoSegment => break,
            }
            outcome = self.try_store(write);
        }
        self.count(Counter::RefusedRoom);
        Err(Error::NoRoom)
    }

    #[inline(always)]
    fn try_store(&self, write: &mut Write<'_, '_>) -> Try {
        let store = &self.store;
        let pin = store.pin();
        let key = write.new.record.key;
        let Some(found) = store.find_for_write(write.hash, key, &mut write.rejected) else {
            return match refusal_of_none(write.condition) {
                Some(answer) => Try::Done(answer),
                None => self.append_record(&pin, None, write),
            };
        };
        let Some(old) = self.old(found) else {
            return Try::Again;
        };
        if write.condition != Condition::Always {
            if let Some(answer) = self.refusal(&old, write.condition) {
                return Try::Done(answer);
            }
        }
        let may_overwrite = !old.over && !old.seen.layout.is_coded();
        if may_overwrite && old.seen.item.fits(old.seen.header, write.new) {
            if let Some(done) = self.overwrite(&pin, &old, write) {
                drop(pin);
                if let Try::Done(_) = done {
                    self.accessed(Access::Overwrite, write.hash, old.seen.layout.reserved);
                }
                return done;
            }
        }
        self.append_record(&pin, Some(&old), write)
    }

    /// What was found under the key. None: it is being written this moment.
    #[inline(always)]
    fn old(&self, found: Found) -> Option<Old<'_>> {
        let store = &self.store;
        let seen = store.see(found.slot.place())?;
        let over = store.is_gone(seen.place, &seen.fields);
        let whole = seen.header.still(seen.item.header_after_copy());
        whole.then_some(Old { found, seen, over })
    }

    /// The answer when the condition does not hold for what was found.
    fn refusal(&self, old: &Old<'_>, condition: Condition) -> Option<Stored> {
        if old.over {
            return refusal_of_none(condition);
        }
        let holds = match condition {
            Condition::Always | Condition::Present => true,
            Condition::Absent => return Some(Stored::NotStored),
            Condition::Token(token) => self.store.token(&old.seen) == token,
            Condition::Version(expected) => self.is_as_expected(&old.seen, &expected),
        };
        (!holds).then_some(Stored::Exists)
    }

    /// Overwrites an item that `fits` in place. None: it may not be; go by append.
    #[inline]
    fn overwrite(&self, pin: &Pin, old: &Old<'_>, write: &mut Write<'_, '_>) -> Option<Try> {
        let store = &self.store;
        let seen = &old.seen;
        if seen.header.busy() || !seen.item.try_lock(seen.header) {
            // A mover has frozen it (or a reader of the token changed the header): its slot turns soon.
            return Some(Try::Again);
        }
        // Under the lock the version that was checked is the version that is there.
        if !store.segments.of(seen.place).writable() || store.is_flushed(seen.place) {
            seen.item.unlock(seen.header);
            return None;
        }
        if !seen.is_same_under_lock() {
            seen.item.unlock(seen.header);
            return Some(Try::Again);
        }
        write.gone = self.left(seen, Cause::Replaced, write.condition);
        let fields = &write.new.record.fields;
        // While it is locked: whoever changes it next takes off what is put on here.
        if seen.fields.expires_ms != fields.expires_ms {
            self.rebook_expiry(seen, fields.expires_ms);
        }
        seen.item.overwrite(seen.header, write.new);
        store.index.bump(&old.found);
        let counter = match seen.layout.reserved == write.new.bytes {
            true => Counter::EqualSizeInPlace,
            false => Counter::OtherInPlace,
        };
        store.counters.one(pin, counter);
        let token = write.new.token_out.then(|| {
            fields
                .token
                .unwrap_or_else(|| store.segments.token(seen.place, seen.header.version() + 1))
        });
        Some(Try::Done(Stored::Stored(token)))
    }

    /// What to tell the listener of an item that a write takes the place of.
    #[inline(always)]
    fn left(&self, seen: &Seen<'_>, cause: Cause, condition: Condition) -> Option<Box<Gone>> {
        let listener = self.store.listener.as_ref()?;
        let leaves = !condition.value_stays();
        leaves.then(|| Box::new(describe(&self.store, seen, listener.values, cause)))
    }

    fn rebook_expiry(&self, seen: &Seen<'_>, expires_ms: u64) {
        let (store, bytes) = (&self.store, seen.layout.reserved);
        store.unbook_expiry(seen.place, bytes, seen.fields.expires_ms);
        store.book_expiry(seen.place, bytes, expires_ms);
    }

    #[inline(never)]
    fn append_record(&self, pin: &Pin, old: Option<&Old<'_>>, write: &mut Write<'_, '_>) -> Try {
        let store = &self.store;
        let new = write.new;
        let pool = match old {
            Some(old) => store.segments.of(old.seen.place).pool(),
            None => store.admit(pin, write.hash, new.bytes),
        };
        let Some(room) = store.reserve_room(pin, pool, new.bytes, !new.small) else {
            return Try::NoSegment;
        };
        let Room { place, version } = room;
        let written_first = !mutant(Mutant::PublishUnwritten);
        if written_first {
            self.write_record(&room, new);
        }
        let written = Written {
            place,
            bytes: new.bytes,
            expires_ms: new.record.fields.expires_ms,
        };
        let rejected = write.rejected.places();
        let outcome = self.publish(
            pin,
            write.hash,
            written,
            old,
            rejected,
            write.condition,
            &mut write.gone,
        );
        if !written_first {
            self.write_record(&room, new);
        }
        let Try::Done(_) = outcome else {
            store.bury(place, new.bytes, 0);
            return outcome;
        };
        let replaced_equal =
            old.is_some_and(|old| !old.over && old.seen.layout.reserved == new.bytes);
        if replaced_equal {
            store.counters.one(pin, Counter::EqualSizeElsewhere);
        }
        let token = new.token_out.then(|| {
            let own = new.record.fields.token;
            own.unwrap_or_else(|| store.segments.token(place, version))
        });
        if version > 0 {
            let bytes = new.bytes as u64;
            store.counters.add(pin, Counter::ReusedBytes, bytes);
            if old.is_none() {
                store.holes.note_new(new.bytes);
            }
        }
        Try::Appended(Stored::Stored(token), pool)
    }

    /// Writes a record whole, before anybody can find it.
    #[inline(always)]
    fn write_record(&self, room: &Room, new: &Measured<'_>) {
        self.store.write(room.place, new);
        if room.version > 0 {
            self.store.item(room.place).begin_at(room.version);
        }
    }

    /// Turns the key's slot to a written record. The old item is locked meanwhile, so that no overwrite
    /// of the version the decision rests on slips in between, and left frozen.
    #[allow(clippy::too_many_arguments)]
    fn publish(
        &self,
        pin: &Pin,
        hash: u64,
        written: Written,
        old: Option<&Old<'_>>,
        rejected: &[Place],
        condition: Condition,
        gone: &mut Option<Box<Gone>>,
    ) -> Try {
        let Written {
            place,
            bytes,
            expires_ms,
        } = written;
        let store = &self.store;
        if let Some(Old { seen, over, .. }) = old {
            let locks = !mutant(Mutant::NoLockOfOld);
            if seen.header.busy() || locks && !seen.item.try_lock(seen.header) {
                return Try::Again;
            }
            // Flushed since it was looked at: what rests on it must not live on behind the mark. (While
            // a flush takes its mark no segment is opened, so the new record is dark too or this sees it.)
            let dark = !over && store.is_flushed(seen.place);
            let dark = dark && !mutant(Mutant::DarkIgnored);
            let changed = !seen.is_same_under_lock();
            if changed || dark && condition != Condition::Always {
                seen.item.unlock(seen.header);
                return Try::Again;
            }
        }
        let expected = old.map(|old| old.seen.place);
        let counter = match old {
            Some(old) if !old.over => Some(old.found.slot.bumped().counter()),
            _ => Some(0),
        };
        let rehash = |place: Place| store.rehash(place);
        store.group(place, bytes);
        // Before it can be found: whoever changes it next takes off what is put on here.
        store.book_expiry(place, bytes, expires_ms);
        let published = store
            .index
            .publish(hash, expected, rejected, place, counter, &rehash);
        match published {
            Publish::Done => {}
            Publish::Changed | Publish::NoRoom => {
                store.ungroup(place, bytes);
                store.unbook_expiry(place, bytes, expires_ms);
                if let Some(Old { seen, .. }) = old {
                    seen.item.unlock(seen.header);
                }
                return match published {
                    Publish::Changed => Try::Again,
                    _ => Try::NoIndex,
                };
            }
        }
        store
            .counters
            .add(pin, Counter::InsertedBytes, bytes as u64);
        let is_new = old.is_none_or(|old| old.over);
        let access = match is_new {
            true => Access::Request,
            false => Access::Overwrite,
        };
        self.accessed_at(access, hash, place);
        let Some(old) = old else {
            store.counters.one(pin, Counter::Inserts);
            return Try::Done(Stored::Stored(None));
        };
        let seen = &old.seen;
        let cause = match old.over {
            true => Cause::Expired,
            false => Cause::Replaced,
        };
        *gone = self.left(seen, cause, condition);
        seen.item.unlock_frozen(seen.header);
        store.bury_item(seen);
        if old.over {
            store.counters.one(pin, Counter::Expired);
            store.counters.one(pin, Counter::Inserts);
        } else {
            store.counters.one(pin, Counter::Replaced);
        }
        Try::Done(Stored::Stored(None))
    }

    /// Publishes a record written elsewhere (the head of a large value). Gives it up if refused. None: a flush has
    /// made it invisible meanwhile; it must be written anew.
    pub(crate) fn publish_written(
        self: &Arc<Inner>,
        key: &[u8],
        place: Place,
        bytes: usize,
        expires_ms: u64,
        condition: Condition,
    ) -> Result<Option<Stored>, Error> {
        let hash = self.store.hash(key);
        let mut rejected = Rejected::default();
        let written = Written {
            place,
            bytes,
            expires_ms,
        };
        let mut tries = 0;
        let (mut room, mut _claim) = (0, None);
        while room < ROOM_TRIES_MAX {
            let mut gone = None;
            let outcome = {
                let pin = self.store.pin();
                let found = self.store.find_for_write(hash, key, &mut rejected);
                // Reserved before the look, and flushed since: published, it would hide what was stored after the
                // flush. One that comes from here on is no harm: what is stored after it turns the slot found here.
                if self.store.is_flushed(place) && !mutant(Mutant::PublishDark) {
                    return Ok(None);
                }
                let old = found.map(|found| self.old(found));
                let refused = match &old {
                    None => refusal_of_none(condition),
                    Some(Some(old)) => self.refusal(old, condition),
                    Some(None) => None,
                };
                match (refused, old) {
                    (Some(answer), _) => Try::Done(answer),
                    (None, Some(None)) => Try::Again,
                    (None, old) => {
                        let old = old.flatten();
                        let rejected = rejected.places();
                        self.publish(
                            &pin,
                            hash,
                            written,
                            old.as_ref(),
                            rejected,
                            condition,
                            &mut gone,
                        )
                    }
                }
            };
            if let Some(gone) = gone {
                self.store
                    .tell(gone.cause, &gone.key, gone.value.as_deref());
            }
            match outcome {
                Try::Done(stored) | Try::Appended(stored, _) => return Ok(Some(stored)),
                Try::NoIndex => match self.reclaim.make_extent(&self.store) {
                    Some(made) => (_claim, room) = (Some(made), room + 1),
                    None => break,
                },
                Try::Again => {
                    tries += 1;
                    pause(tries);
                }
                Try::NoSegment => break,
            }
        }
        self.count(Counter::RefusedRoom);
        Err(Error::NoRoom)
    }

    /// Something was put into this pool's open segment and room may be short now: a writer's share of reclaim, and a
    /// ring for the background thread.
    pub(crate) fn after_append(&self, pool: Pool) {
        self.reclaim.help(&self.store, pool);
        self.wake_if_short();
        self.tidy_curve();
    }

    pub(crate) fn count(&self, counter: Counter) {
        let pin = self.store.pin();
        self.store.counters.one(&pin, counter);
    }

    pub(crate) fn is_as_expected(&self, seen: &Seen<'_>, expected: &Expected) -> bool {
        self.version(seen) == expected.version
            && seen.fields.same_facts(&expected.fields)
            && !(expected.token_free && seen.header.token_out())
    }

    /// What no other version of any item is called: birth, offset, in-place version.
    pub(crate) fn version(&self, seen: &Seen<'_>) -> u64 {
        self.store.segments.token(seen.place, seen.header.version())
    }

    /// Remembers the largest item: the fresh floor covers it.
    pub(crate) fn note_size(&self, bytes: usize) {
        let largest = &self.reclaim.item_bytes_max;
        if bytes as u64 > largest.load(Ordering::Relaxed) {
            largest.fetch_max(bytes as u64, Ordering::Relaxed);
        }
    }
}
