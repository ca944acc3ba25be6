//! Reading: find, copy or hold, validate. Takes no lock and writes nothing but the slot's counter.
//!
//! One file: every way to read ends in the same look, copy and check of the header, and each try is one of them.

use super::coded::{Coded, Source};
use super::observe::plain_item_bytes;
use super::short::ShortRead;
use super::value::{pooled_buffer, return_buffer, Guard, Meta, Pieces, ReadSink, Want, PIECE_AT};
use super::{Cache, Inner};
use crate::curve::Access;
use crate::groups::Event;
use crate::item::{Kind, MarkWord, PLAIN_MAX};
use crate::location::Place;
use crate::mem::Pin;
use crate::metrics::Counter;
use crate::store::Seen;
use crate::sync::{pause, Ordering};
use std::ops::Range;
use std::sync::Arc;

/// Keys whose lines are asked for together; a pin covers one such batch (under 3 us).
const BATCH: usize = 16;
/// An access newer than this leaves the last-access mark alone, as memcached does.
const ACCESS_GRAIN_S: u32 = 60;

/// Largest value copied under a pin (1 us); larger ones are held by a count and copied unpinned.
pub(super) const COPY_MAX: usize = 16 << 10;

/// Instead of a largest value to be copied: of a long item facts alone are wanted, and its bytes are not touched.
const FACTS: usize = usize::MAX;

const LINE_BYTES: usize = 64;
/// Lines of an item asked for ahead at most: of a longer one the processor fetches the rest by itself.
const LINES_AHEAD: usize = 6;

/// Lines that an item of this size lies in, as a rule: one more than it fills.
#[inline(always)]
fn item_lines(bytes: f64) -> usize {
    (bytes as usize / LINE_BYTES + 2).min(LINES_AHEAD)
}

/// What became of one try to read.
enum Try {
    Hit(Meta),
    Large(Box<Guard>),
    Miss,
    /// There is a gone item: drop it and miss.
    Over(Place),
    /// A writer raced: again.
    Again,
    /// Its coded bytes were damaged; it was dropped.
    Damaged,
}

impl Cache {
    /// The value of `key`, to keep. Small values are copied into a pooled buffer, large ones are held
    /// where they lie. Locks nothing; allocates where the pool is empty.
    pub fn get(&self, key: &[u8]) -> Option<Guard> {
        let hash = self.inner.store.hash(key);
        let mut buffer = pooled_buffer();
        let inner = &self.inner;
        match inner.read_short(hash, key, 0..PLAIN_MAX, true, &mut buffer) {
            ShortRead::Copied(facts) => Some(Guard::copied(facts.meta(), buffer)),
            ShortRead::Held(facts, at) => {
                return_buffer(buffer);
                let meta = facts.meta();
                let piece = Pieces::One((at, meta.value_bytes));
                Some(Guard::held(meta, inner.clone(), piece))
            }
            ShortRead::Miss => {
                return_buffer(buffer);
                None
            }
            ShortRead::Other => self.get_into_guard(hash, key, Want::default(), buffer),
        }
    }

    /// `get` that says what to do beside reading.
    pub(crate) fn get_as(&self, hash: u64, key: &[u8], want: Want) -> Option<Guard> {
        self.get_into_guard(hash, key, want, pooled_buffer())
    }

    #[inline(never)]
    fn get_into_guard(
        &self,
        hash: u64,
        key: &[u8],
        want: Want,
        mut buffer: Vec<u8>,
    ) -> Option<Guard> {
        match self.inner.read(hash, key, want, PLAIN_MAX, &mut buffer) {
            Read::Copied(meta) => Some(Guard::copied(meta, buffer)),
            Read::Held(guard) => {
                return_buffer(buffer);
                Some(guard)
            }
            Read::Miss => {
                return_buffer(buffer);
                None
            }
        }
    }

    /// Calls `read` with the value of `key`: a copy on this thread for small values, the cache's own
    /// bytes for large ones stored in one piece. Nothing is pinned meanwhile.
    pub fn get_with<R>(&self, key: &[u8], read: impl FnOnce(&Meta, &[u8]) -> R) -> Option<R> {
        let guard = self.get(key)?;
        let value = guard.as_slice();
        Some(read(guard.meta(), &value))
    }

    /// Appends the value of `key` to `buffer`, whatever its size.
    pub fn get_into(&self, key: &[u8], buffer: &mut Vec<u8>) -> Option<Meta> {
        let hash = self.inner.store.hash(key);
        match self
            .inner
            .read_short(hash, key, 0..PLAIN_MAX, false, buffer)
        {
            ShortRead::Copied(facts) => Some(facts.meta()),
            ShortRead::Miss => None,
            ShortRead::Held(..) | ShortRead::Other => self.get_into_long(hash, key, buffer),
        }
    }

    /// Appends the bytes of the value of `key` that lie in `part` to `buffer`, fewer where the value ends
    /// before; the facts tell its whole length. Touches only the lines it copies: 8 bytes of a value of 1 KiB
    /// cost less than half of the whole.
    pub fn get_part(&self, key: &[u8], part: Range<usize>, buffer: &mut Vec<u8>) -> Option<Meta> {
        let hash = self.inner.store.hash(key);
        match self
            .inner
            .read_short(hash, key, part.clone(), false, buffer)
        {
            ShortRead::Copied(facts) => Some(facts.meta()),
            ShortRead::Miss => None,
            ShortRead::Held(..) | ShortRead::Other => {
                let guard = self.get_as(hash, key, Want::default())?;
                guard.append_part(part, buffer).then(|| *guard.meta())
            }
        }
    }

    #[inline(never)]
    fn get_into_long(&self, hash: u64, key: &[u8], buffer: &mut Vec<u8>) -> Option<Meta> {
        match self
            .inner
            .read(hash, key, Want::default(), COPY_MAX, buffer)
        {
            Read::Copied(meta) => Some(meta),
            Read::Held(guard) => guard.append_to(buffer).then(|| *guard.meta()),
            Read::Miss => None,
        }
    }

    /// The facts of `key` without its value, and without recording the access.
    pub fn peek(&self, key: &[u8], token: bool) -> Option<Meta> {
        let want = Want {
            token,
            mark: false,
            count: false,
        };
        let mut sink = Peek {
            meta: None,
            buffer: Vec::new(),
        };
        self.get_many(&[key], want, &mut sink);
        sink.meta
    }

    /// Whether `key` is there. Counts neither hit nor miss and records no access.
    pub fn contains(&self, key: &[u8]) -> bool {
        let store = &self.inner.store;
        let hash = store.hash(key);
        let mut spins = 0;
        loop {
            let pin = store.pin();
            let Some(found) = store.find(hash, key) else {
                return false;
            };
            if let Some(seen) = store.see(found.slot.place()) {
                let gone = store.is_gone(seen.place, &seen.fields);
                if seen.header.still(seen.item.header_after_copy()) {
                    return !gone;
                }
            }
            drop(pin);
            spins += 1;
            pause(spins);
        }
    }

    /// Reads many keys: hashes all, asks for their lines in three stages, then reads each in order.
    /// Halves the CPU of a hit in a cache larger than the processor's.
    pub fn get_many<S: ReadSink>(&self, keys: &[&[u8]], want: Want, sink: &mut S) {
        let now_s = self.inner.mark_time(want);
        for (n, keys) in keys.chunks(BATCH).enumerate() {
            let mut hashes = [0; BATCH];
            if keys.len() > 1 {
                self.prefetch(keys, &mut hashes);
            } else {
                hashes[0] = self.inner.store.hash(keys[0]);
            }
            for (i, key) in keys.iter().enumerate() {
                if !sink.wants_more() {
                    return;
                }
                let index = n * BATCH + i;
                if !self
                    .inner
                    .read_bare(index, hashes[i], key, want, now_s, sink)
                {
                    self.read_into(index, hashes[i], key, want, sink);
                }
            }
        }
    }

    fn prefetch(&self, keys: &[&[u8]], hashes: &mut [u64; BATCH]) {
        let store = &self.inner.store;
        let _pin = store.pin();
        for (hash, key) in hashes.iter_mut().zip(keys) {
            *hash = store.hash(key);
            store.index.prefetch_directory(*hash);
        }
        for hash in &hashes[..keys.len()] {
            store.index.prefetch_bucket(*hash);
        }
        let (region, lines) = (store.region(), item_lines(store.policy.mean_size()));
        for hash in &hashes[..keys.len()] {
            if let Some(place) = store.index.prefetch_place(*hash) {
                let most = region.bytes() - 1;
                for line in 0..lines {
                    region.prefetch((place.offset() + line * LINE_BYTES).min(most));
                }
            }
        }
    }

    #[inline(never)]
    fn read_into<S: ReadSink>(
        &self,
        index: usize,
        hash: u64,
        key: &[u8],
        want: Want,
        sink: &mut S,
    ) {
        let copy_max = match sink.wants_value(index) {
            true => sink.copy_max().min(COPY_MAX),
            false => FACTS,
        };
        let before = sink.buffer().len();
        let mut tries = 0;
        loop {
            let outcome = self
                .inner
                .try_read(hash, key, want, copy_max, tries, |source, meta| {
                    sink.buffer().truncate(before);
                    sink.head(index, meta);
                    source.append(sink.buffer())
                });
            match outcome {
                Try::Hit(meta) => return sink.tail(index, &meta),
                Try::Large(guard) => {
                    sink.buffer().truncate(before);
                    return self.hand_over(index, *guard, sink);
                }
                Try::Miss | Try::Damaged => {
                    sink.buffer().truncate(before);
                    return sink.miss(index);
                }
                Try::Over(place) => {
                    sink.buffer().truncate(before);
                    self.inner.reclaim.expire_at(&self.inner.store, hash, place);
                    return sink.miss(index);
                }
                Try::Again => tries += 1,
            }
        }
    }

    /// A guard goes to the sink as such, unless the sink would rather have it copied.
    fn hand_over<S: ReadSink>(&self, index: usize, guard: Guard, sink: &mut S) {
        if guard.len() > sink.copy_max() {
            return sink.held(index, guard);
        }
        let before = sink.buffer().len();
        sink.head(index, guard.meta());
        if !guard.append_to(sink.buffer()) {
            sink.buffer().truncate(before);
            return sink.miss(index);
        }
        sink.tail(index, guard.meta());
    }
}

/// A value read for one key.
pub(crate) enum Read {
    /// Appended to the buffer.
    Copied(Meta),
    Held(Guard),
    Miss,
}

impl Inner {
    /// Reads one value: at most `copy_max` bytes are appended to `buffer`, more are held.
    pub(crate) fn read(
        self: &Arc<Inner>,
        hash: u64,
        key: &[u8],
        want: Want,
        copy_max: usize,
        buffer: &mut Vec<u8>,
    ) -> Read {
        let before = buffer.len();
        let mut tries = 0;
        loop {
            let outcome = self.try_read(hash, key, want, copy_max, tries, |source, _| {
                buffer.truncate(before);
                source.append(buffer)
            });
            match outcome {
                Try::Hit(meta) => return Read::Copied(meta),
                Try::Again => tries += 1,
                other => {
                    buffer.truncate(before);
                    return match other {
                        Try::Large(guard) => Read::Held(*guard),
                        Try::Over(place) => {
                            self.reclaim.expire_at(&self.store, hash, place);
                            Read::Miss
                        }
                        _ => Read::Miss,
                    };
                }
            }
        }
    }

    /// One try under one pin. `copy_max`: the largest value to be copied, or `FACTS`.
    #[inline(always)]
    fn try_read(
        self: &Arc<Inner>,
        hash: u64,
        key: &[u8],
        want: Want,
        copy_max: usize,
        tries: u32,
        mut copy: impl FnMut(&Source<'_>, &Meta) -> bool,
    ) -> Try {
        let store = &self.store;
        let pin = store.pin();
        if tries > 0 {
            store.counters.one(&pin, Counter::ReadRetries);
        }
        let Some(found) = store.find(hash, key) else {
            store.missed(&pin, hash);
            return self.missed(&pin, key, want, Try::Miss);
        };
        let place = found.slot.place();
        let Some(mut seen) = store.see(place) else {
            drop(pin);
            pause(tries);
            return Try::Again;
        };
        if store.is_gone(place, &seen.fields) {
            return match seen.header.still(seen.item.header_after_copy()) {
                true => {
                    if want.count {
                        let why = match store.is_flushed(place) {
                            true => Counter::ReadsFlushed,
                            false => Counter::ReadsExpired,
                        };
                        store.counters.one(&pin, why);
                    }
                    store.missed(&pin, hash);
                    self.missed(&pin, key, want, Try::Over(place))
                }
                false => Try::Again,
            };
        }
        let value_bytes = store.value_bytes(&seen);
        let mut meta = Meta::new(&seen.fields, value_bytes, seen.layout.reserved);
        if want.token {
            if !seen.item.mark_token_out(seen.header) {
                drop(pin);
                pause(tries);
                return Try::Again;
            }
            seen.header = seen.header.with_token_out();
            meta.token = Some(store.token(&seen));
        }
        let no_value = copy_max == FACTS && seen.header.is_long();
        if seen.layout.is_coded() && !no_value {
            let coded = self.copy_coded(&seen, meta);
            if !seen.header.still(seen.item.header_after_copy()) {
                return Try::Again;
            }
            if want.mark {
                store.index.bump(&found);
                self.mark_access(&seen, self.mark_time(want));
                self.sample(hash, key);
            }
            drop(pin);
            if want.mark {
                self.accessed(Access::Request, hash, plain_item_bytes(&seen, value_bytes));
            }
            return self.deliver_coded(hash, key, want, &coded, meta, copy_max, copy);
        }
        let copied = seen.layout.value_bytes <= copy_max && seen.layout.kind == Kind::Plain;
        let outcome = if no_value {
            copy(&Source::Value(&[]), &meta);
            Try::Hit(meta)
        } else if copied {
            copy(&Source::Item(&seen), &meta);
            Try::Hit(meta)
        } else {
            match self.hold_value(&seen, meta) {
                Some(guard) => Try::Large(Box::new(guard)),
                None => return Try::Again,
            }
        };
        if !seen.header.still(seen.item.header_after_copy()) {
            return Try::Again;
        }
        if want.mark {
            store.index.bump(&found);
            self.mark_access(&seen, self.mark_time(want));
            self.sample(hash, key);
        }
        let is_unproved = matches!(&outcome, Try::Large(guard) if guard.is_unproved());
        if want.count && !is_unproved {
            store.counters.one(&pin, Counter::Hits);
            store.count_group(key, Event::Hit);
        }
        drop(pin);
        if want.mark {
            self.accessed(Access::Request, hash, plain_item_bytes(&seen, value_bytes));
        }
        match outcome {
            Try::Large(guard) if is_unproved => self.deliver_chunks(hash, key, want, place, *guard),
            outcome => outcome,
        }
    }

    /// Hands a large value over whose chunks lie coded. Unpinned.
    #[inline(never)]
    fn deliver_chunks(
        self: &Arc<Inner>,
        hash: u64,
        key: &[u8],
        want: Want,
        place: Place,
        guard: Guard,
    ) -> Try {
        let Some(guard) = guard.proved() else {
            return match self.drop_damaged_chunks(hash, place) {
                true => Try::Damaged,
                false => Try::Again,
            };
        };
        if want.count {
            let store = &self.store;
            store.counters.one(&store.pin(), Counter::Hits);
            store.count_group(key, Event::Hit);
        }
        Try::Large(Box::new(guard))
    }

    /// Hands a coded value over, decoded: into the caller's buffer, or as a guard where it is longer than
    /// `copy_max`. Unpinned.
    #[allow(clippy::too_many_arguments)]
    #[inline(never)]
    fn deliver_coded(
        &self,
        hash: u64,
        key: &[u8],
        want: Want,
        coded: &Coded,
        meta: Meta,
        copy_max: usize,
        mut copy: impl FnMut(&Source<'_>, &Meta) -> bool,
    ) -> Try {
        let store = &self.store;
        let promotes = want.mark && store.compress.promotes();
        let outcome = if promotes || meta.value_bytes > copy_max {
            let mut value = pooled_buffer();
            if !store.compress.decode(coded.bytes(), &mut value) {
                return self.undecoded(hash, coded);
            }
            if promotes {
                self.promote(hash, key, coded, &value);
            }
            if meta.value_bytes > copy_max {
                Try::Large(Box::new(Guard::copied(meta, value)))
            } else {
                copy(&Source::Value(&value), &meta);
                return_buffer(value);
                Try::Hit(meta)
            }
        } else if copy(&Source::Coded(coded.bytes(), &store.compress), &meta) {
            Try::Hit(meta)
        } else {
            return self.undecoded(hash, coded);
        };
        if want.count {
            store.counters.one(&store.pin(), Counter::Hits);
            store.count_group(key, Event::Hit);
        }
        outcome
    }

    #[cold]
    fn undecoded(&self, hash: u64, coded: &Coded) -> Try {
        match self.drop_if_damaged(hash, coded.place) {
            true => Try::Damaged,
            false => Try::Again,
        }
    }

    #[inline]
    fn missed(&self, pin: &Pin, key: &[u8], want: Want, outcome: Try) -> Try {
        if want.count {
            self.store.counters.one(pin, Counter::Misses);
            self.store.count_group(key, Event::Miss);
        }
        outcome
    }

    /// Holds (long items) or copies (small ones over `copy_max`) a value. None: removed meanwhile.
    pub(crate) fn hold_value(self: &Arc<Inner>, seen: &Seen<'_>, meta: Meta) -> Option<Guard> {
        let at = seen.item.value_offset(&seen.layout);
        match seen.layout.kind {
            _ if !seen.header.is_long() => {
                let mut value = pooled_buffer();
                seen.item.append_value(&seen.layout, &mut value);
                Some(Guard::copied(meta, value))
            }
            Kind::Chunked => self.hold_chunks(seen, meta),
            _ => {
                self.hold(at);
                let piece = Pieces::One((at, seen.layout.value_bytes));
                Some(Guard::held(meta, self.clone(), piece))
            }
        }
    }

    fn hold_chunks(self: &Arc<Inner>, seen: &Seen<'_>, meta: Meta) -> Option<Guard> {
        let store = &self.store;
        let count = store.chunk_count(&seen.layout);
        let mut guard_pieces = Vec::with_capacity(count);
        let mut coded = Vec::new();
        for number in 0..count {
            let raw = store.chunk_word(seen, number).load(Ordering::Acquire);
            let Some(chunk) = Place::from_raw(raw) else {
                // The item was removed after it was found: what is held so far goes with this guard.
                drop(Guard::held(meta, self.clone(), Pieces::Many(guard_pieces)));
                return None;
            };
            let item = store.item(chunk);
            let layout = item.layout(item.header());
            let at = chunk.offset() + PIECE_AT;
            self.hold(at);
            guard_pieces.push((at, layout.value_bytes));
            if layout.is_coded() {
                coded.resize(count, false);
                coded[number] = true;
            }
        }
        let pieces = match coded.is_empty() {
            true => Pieces::Many(guard_pieces),
            false => Pieces::Coded(guard_pieces, coded),
        };
        Some(Guard::held(meta, self.clone(), pieces))
    }

    /// The second that accesses are marked with; 0 where they are not.
    #[inline(always)]
    pub(super) fn mark_time(&self, want: Want) -> u32 {
        match want.mark && self.store.marks {
            true => self.store.time.now_s(),
            false => 0,
        }
    }

    /// The fetched mark once, the last access at most once a minute.
    #[inline]
    fn mark_access(&self, seen: &Seen<'_>, now_s: u32) {
        let Some(next) = self.marked_at(seen.fields.marks, now_s) else {
            return;
        };
        let Some(word) = seen.item.marks_word(&seen.layout) else {
            return;
        };
        // Lost to another mark, an overwrite or a move: then that one counts.
        if !seen.header.busy() && seen.item.try_lock(seen.header) {
            word.store(next.0, Ordering::Relaxed);
            seen.item.unlock(seen.header);
        }
    }

    /// The marks after an access in second `now_s`; None: they say so already, or are not kept.
    #[inline(always)]
    pub(super) fn marked_at(&self, marks: Option<MarkWord>, now_s: u32) -> Option<MarkWord> {
        let marks = marks.filter(|_| self.store.marks)?;
        let recent = marks.idle_s(now_s) < self.access_grain_s();
        if marks.has(MarkWord::FETCHED) && recent {
            return None;
        }
        let access_s = if recent { marks.access_s() } else { now_s };
        Some(MarkWord::new(marks.flags() | MarkWord::FETCHED, access_s))
    }

    /// An access by an operation that found the item by another way than a read: policy, curve, marks and hot keys
    /// learn of it. One more lookup; nothing where the item has gone meanwhile.
    pub(super) fn accessed_by_touch(&self, key: &[u8]) {
        let store = &self.store;
        let hash = store.hash(key);
        let pin = store.pin();
        let Some(found) = store.find(hash, key) else {
            return;
        };
        let Some(seen) = store.see(found.slot.place()) else {
            return;
        };
        store.index.bump(&found);
        let now_s = if store.marks { store.time.now_s() } else { 0 };
        self.mark_access(&seen, now_s);
        self.sample(hash, key);
        let bytes = plain_item_bytes(&seen, store.value_bytes(&seen));
        drop(pin);
        self.accessed(Access::Request, hash, bytes);
    }

    #[inline(always)]
    fn access_grain_s(&self) -> u32 {
        match self.store.idle_s {
            0 => ACCESS_GRAIN_S,
            idle => (idle / 8).clamp(1, ACCESS_GRAIN_S),
        }
    }
}

/// Takes facts only.
struct Peek {
    meta: Option<Meta>,
    buffer: Vec<u8>,
}

impl ReadSink for Peek {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
    fn copy_max(&self) -> usize {
        PLAIN_MAX
    }
    fn wants_value(&self, _index: usize) -> bool {
        false
    }
    fn head(&mut self, _index: usize, _meta: &Meta) {}
    fn tail(&mut self, _index: usize, meta: &Meta) {
        self.meta = Some(*meta);
    }
    fn held(&mut self, _index: usize, guard: Guard) {
        self.meta = Some(*guard.meta());
    }
    fn miss(&mut self, _index: usize) {}
}
