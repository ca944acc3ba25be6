//! The short ways: reading and overwriting bare items (no optional field, but the marks where one is
//! overwritten).
//!
//! They are what the general ways of `read` and `write` come to when there is neither an expiry nor a
//! condition nor a listener to look at: half the instructions for the calls most caches live on. Whatever
//! is not that simple is left to the general way, which looks again from the start.

use super::read::COPY_MAX;
use super::value::{Marks, ReadSink, Want};
use super::{Inner, Meta};
use crate::curve::Access;
use crate::groups::Event;
use crate::item::MarkWord;
use crate::location::UNIT_BYTES;
use crate::metrics::Counter;
use crate::sync::Ordering;
use std::ops::Range;

/// What came of a short read.
pub(super) enum ShortRead {
    /// The bytes asked for were appended; the facts of their item.
    Copied(Facts),
    /// A long value in one piece, held: its place in the region.
    Held(Facts, usize),
    Miss,
    /// Go the long way.
    Other,
}

/// All there is to say of a bare item.
#[derive(Clone, Copy)]
pub(super) struct Facts {
    value_bytes: u32,
    stored_bytes: u32,
}

/// What came of a short overwrite.
pub(super) enum ShortWrite {
    /// Done; the token of the new version, where it was asked for.
    Done(Option<u64>),
    /// No item has the key. (One may have it meanwhile.)
    Absent,
    /// Go the long way.
    Other,
}

impl Facts {
    fn new(value_bytes: usize, stored_bytes: usize) -> Facts {
        Facts {
            value_bytes: value_bytes as u32,
            stored_bytes: stored_bytes as u32,
        }
    }

    #[inline(always)]
    pub(super) fn meta(self) -> Meta {
        Meta {
            value_bytes: self.value_bytes as usize,
            stored_bytes: self.stored_bytes as usize,
            ..Meta::default()
        }
    }
}

impl Inner {
    /// Appends `part` of the value of a bare item without marks to `buffer`; counts the read and its access.
    /// `hold`: holds a long value where it lies instead.
    #[inline(always)]
    pub(super) fn read_short(
        &self,
        hash: u64,
        key: &[u8],
        part: Range<usize>,
        hold: bool,
        buffer: &mut Vec<u8>,
    ) -> ShortRead {
        let store = &self.store;
        let pin = store.pin();
        let Some(found) = store.find(hash, key) else {
            store.counters.one(&pin, Counter::Misses);
            store.count_group(key, Event::Miss);
            store.missed(&pin, hash);
            return ShortRead::Miss;
        };
        let place = found.slot.place();
        let due = store.flush.due_ms.load(Ordering::Relaxed);
        if due != u64::MAX || store.is_flushed(place) {
            return ShortRead::Other;
        }
        let item = store.item(place);
        let (outcome, stored_bytes) = if let Some(bare) = item.bare(key.len(), false) {
            let (before, bytes) = (buffer.len(), bare.value_bytes());
            let end = bytes.min(part.end);
            let from = end.min(part.start);
            bare.append_value(from, end - from, buffer);
            if !bare.is_still() {
                buffer.truncate(before);
                store.counters.one(&pin, Counter::ReadRetries);
                return ShortRead::Other;
            }
            let reserved = bare.reserved();
            (ShortRead::Copied(Facts::new(bytes, reserved)), reserved)
        } else if hold {
            let Some(long) = item.bare_long(key.len()) else {
                return ShortRead::Other;
            };
            // Under the pin, which keeps the segment until it is counted.
            self.hold(long.value_offset);
            let facts = Facts::new(long.value_bytes, long.reserved);
            (ShortRead::Held(facts, long.value_offset), long.reserved)
        } else {
            return ShortRead::Other;
        };
        store.index.bump(&found);
        self.sample(hash, key);
        store.counters.one(&pin, Counter::Hits);
        store.count_group(key, Event::Hit);
        drop(pin);
        self.accessed(Access::Request, hash, stored_bytes);
        outcome
    }

    /// Reads one key of a batch into `sink` if its item is bare, and small enough to be copied. False: nothing was done
    /// that the long way would not do again. `now_s`: the second that the access is marked with.
    #[inline(always)]
    pub(super) fn read_bare<S: ReadSink>(
        &self,
        index: usize,
        hash: u64,
        key: &[u8],
        want: Want,
        now_s: u32,
        sink: &mut S,
    ) -> bool {
        let store = &self.store;
        let due = store.flush.due_ms.load(Ordering::Relaxed);
        if want.token || due != u64::MAX || store.idle_s != 0 {
            return false;
        }
        let pin = store.pin();
        let Some(found) = store.find(hash, key) else {
            store.missed(&pin, hash);
            if want.count {
                store.counters.one(&pin, Counter::Misses);
                store.count_group(key, Event::Miss);
            }
            drop(pin);
            sink.miss(index);
            return true;
        };
        let place = found.slot.place();
        if store.is_flushed(place) {
            return false;
        }
        let Some(bare) = store.item(place).bare(key.len(), store.marks) else {
            return false;
        };
        let bytes = bare.value_bytes();
        if bytes > sink.copy_max().min(COPY_MAX) {
            return false;
        }
        let (marks, reserved) = (bare.marks(), bare.reserved());
        let meta = Meta {
            value_bytes: bytes,
            stored_bytes: reserved,
            marks: marks.map(Marks::from_word),
            ..Meta::default()
        };
        let before = sink.buffer().len();
        sink.head(index, &meta);
        bare.append_value(0, bytes, sink.buffer());
        if !bare.is_still() {
            sink.buffer().truncate(before);
            store.counters.one(&pin, Counter::ReadRetries);
            return false;
        }
        if want.mark {
            store.index.bump(&found);
            if let Some(next) = self.marked_at(marks, now_s) {
                bare.try_mark(next);
            }
            self.sample(hash, key);
        }
        if want.count {
            store.counters.one(&pin, Counter::Hits);
            store.count_group(key, Event::Hit);
        }
        drop(pin);
        if want.mark {
            self.accessed(Access::Request, hash, reserved);
        }
        sink.tail(index, &meta);
        true
    }

    /// Whether a bare record that is stored in any case may try `overwrite_short`: nobody is to be told of the
    /// old value, and no item can be over for having been idle.
    #[inline(always)]
    pub(super) fn may_write_short(&self) -> bool {
        self.store.listener.is_none() && self.store.idle_s == 0
    }

    /// Overwrites a bare item by a bare record in place, where it has the room. The caller has carried out
    /// a flush that is due.
    #[inline(never)]
    pub(super) fn overwrite_short(
        &self,
        hash: u64,
        key: &[u8],
        value: &[u8],
        marks: Option<MarkWord>,
        token_out: bool,
    ) -> ShortWrite {
        let store = &self.store;
        let pin = store.pin();
        let Some(found) = store.find(hash, key) else {
            return ShortWrite::Absent;
        };
        let place = found.slot.place();
        let Some(bare) = store.item(place).bare(key.len(), marks.is_some()) else {
            return ShortWrite::Other;
        };
        let Some(slack) = bare.slack_under(value.len()) else {
            return ShortWrite::Other;
        };
        if !bare.try_lock() {
            return ShortWrite::Other;
        }
        // Under the lock: a mover freezes before it reads, a flush raises its mark before it answers.
        if !store.segments.of(place).writable() || store.is_flushed(place) {
            bare.unlock();
            return ShortWrite::Other;
        }
        bare.overwrite(marks, value, slack, token_out);
        store.index.bump(&found);
        let counter = match slack < UNIT_BYTES {
            true => Counter::EqualSizeInPlace,
            false => Counter::OtherInPlace,
        };
        store.counters.one(&pin, counter);
        let version = bare.version() + 1;
        let token = token_out.then(|| store.segments.token(place, version));
        drop(pin);
        self.accessed(Access::Overwrite, hash, bare.reserved());
        ShortWrite::Done(token)
    }
}
