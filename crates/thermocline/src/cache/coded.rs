//! Reading what lies compressed: copy under the pin, decode without it, promote now and then.
//!
//! A coded item is an item like any other (same header, locks and moves) but that its value's bytes are a
//! coded form, and that it is never overwritten in place. Owns what a reader does with those bytes. Leaves
//! the codecs to `compress`, and turning the slot of a promoted item to `reclaim`.

use super::value::{pooled_buffer, return_buffer, Guard, Meta, Pieces};
use super::Inner;
use crate::compress::Compress;
use crate::config::Cause;
use crate::item::{Fields, Header, Kind, Measured, Record};
use crate::location::Place;
use crate::reclaim::{promote, take_locked, Version};
use crate::store::Seen;
use std::sync::Arc;

/// A coded value, copied out of its item.
pub(super) struct Coded {
    /// Where it lay, and its header then.
    pub(super) place: Place,
    header: Header,
    /// Birth of its segment: with the place, what no other item is called.
    birth: u64,
    fields: Fields,
    bytes: Vec<u8>,
}

impl Coded {
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Coded {
    fn drop(&mut self) {
        return_buffer(std::mem::take(&mut self.bytes));
    }
}

/// Where the bytes of a value that is read come from.
pub(super) enum Source<'a> {
    Item(&'a Seen<'a>),
    Coded(&'a [u8], &'a Compress),
    Value(&'a [u8]),
}

impl Source<'_> {
    /// Appends the value to `buffer`. False, nothing appended: it could not be decoded.
    #[inline(always)]
    pub(super) fn append(&self, buffer: &mut Vec<u8>) -> bool {
        match self {
            Source::Item(seen) => {
                seen.item.append_value(&seen.layout, buffer);
                true
            }
            Source::Coded(bytes, compress) => compress.decode(bytes, buffer),
            Source::Value(value) => {
                buffer.extend_from_slice(value);
                true
            }
        }
    }
}

impl Inner {
    /// Copies a coded value out. The caller is pinned and checks the header afterwards.
    pub(super) fn copy_coded(self: &Arc<Inner>, seen: &Seen<'_>, meta: Meta) -> Coded {
        let bytes = if seen.header.is_long() {
            // Longer than a pin may copy: held, like all long values.
            let at = seen.item.value_offset(&seen.layout);
            self.hold(at);
            let piece = Pieces::One((at, seen.layout.value_bytes));
            Guard::held(meta, self.clone(), piece).to_vec()
        } else {
            let mut bytes = pooled_buffer();
            seen.item.append_value(&seen.layout, &mut bytes);
            bytes
        };
        Coded {
            place: seen.place,
            header: seen.header,
            birth: self.store.segments.of(seen.place).birth(),
            fields: seen.fields,
            bytes,
        }
    }

    /// Puts the item of a coded value that was just read back into the hot tier, if there is room at hand and
    /// it has not changed meanwhile.
    #[cold]
    pub(super) fn promote(&self, hash: u64, key: &[u8], coded: &Coded, value: &[u8]) {
        let fields = Fields {
            coded: false,
            ..coded.fields
        };
        let new = Measured::new(Record { key, fields, value });
        if new.small || new.bytes <= self.store.segments.bytes() / 4 {
            let from = Version {
                place: coded.place,
                birth: coded.birth,
                header: coded.header,
            };
            let done = promote(&self.store, hash, from, &new);
            self.store.compress.count_promotion(done);
        }
    }

    /// What to do about a value that could not be decoded. If its item is still there the bytes are damaged:
    /// it is dropped and counted, true. Else its dictionary went with it: false, read again.
    #[cold]
    pub(super) fn drop_if_damaged(&self, hash: u64, place: Place) -> bool {
        let store = &self.store;
        let pin = store.pin();
        if store.index.find(hash, |at| at == place).is_none() {
            return false;
        }
        let Some(seen) = store.see(place) else {
            return false;
        };
        if !seen.layout.is_coded() || seen.layout.kind != Kind::Plain {
            return false;
        }
        let (mut bytes, mut value) = (pooled_buffer(), pooled_buffer());
        seen.item.append_value(&seen.layout, &mut bytes);
        let sound = store.compress.decode(&bytes, &mut value);
        let still = seen.header.still(seen.item.header_after_copy());
        return_buffer(bytes);
        return_buffer(value);
        if sound || !still {
            return false;
        }
        store.compress.count_damaged();
        take_locked(store, &pin, hash, &seen, Cause::Evicted).is_ok_and(|gone| gone.is_some())
    }

    /// The same of a large value of which a chunk could not be decoded.
    #[cold]
    pub(super) fn drop_damaged_chunks(self: &Arc<Inner>, hash: u64, place: Place) -> bool {
        let store = &self.store;
        let birth = store.segments.of(place).birth();
        let find = || {
            let found = store.index.find(hash, |at| at == place);
            let seen = found.and_then(|_| store.see(place))?;
            let same = store.segments.of(place).birth() == birth;
            (same && seen.layout.kind == Kind::Chunked).then_some(seen)
        };
        let guard = {
            let _pin = store.pin();
            let seen = find();
            seen.and_then(|seen| {
                self.hold_value(&seen, Meta::new(&seen.fields, seen.layout.value_bytes, 0))
            })
        };
        let Some(guard) = guard else { return false };
        if guard.proved().is_some() {
            return false;
        }
        let pin = store.pin();
        let Some(seen) = find() else { return false };
        store.compress.count_damaged();
        take_locked(store, &pin, hash, &seen, Cause::Evicted).is_ok_and(|gone| gone.is_some())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use crate::item::Item;
    use crate::location::Place;
    use crate::{Cache, CompressMode, Config};

    fn value(n: u32, times: usize) -> String {
        format!("{{\"name\":\"amber {n}\",\"place\":\"fjord\"}} ").repeat(times)
    }

    /// A full cache with a dictionary in force: without one demotion waits.
    fn trained() -> Cache {
        let mut config = Config::new(16 << 20);
        (config.compress, config.threads) = (CompressMode::On, 1);
        let cache = Cache::new(config).expect("a cache");
        let (begun, mut n) = (std::time::Instant::now(), 0);
        while cache.tiers().trained == 0 && begun.elapsed().as_secs() < 30 {
            let key = format!("user:{}", n % 60_000);
            let stored = cache.set(key.as_bytes(), value(n, 12).as_bytes());
            stored.expect("room");
            n += 1;
        }
        cache
    }

    /// Changed bytes are a counted miss: never a wrong value, never a panic.
    #[test]
    fn damaged_bytes_are_a_counted_miss() {
        let cache = trained();
        let value = |n| value(n, 12);
        for n in 0..60_000u32 {
            let key = format!("user:{n}");
            cache
                .set(key.as_bytes(), value(n).as_bytes())
                .expect("room");
        }
        let store = &cache.inner.store;
        let counted = || {
            let count = &store.compress.events.decompress_fail;
            count.load(std::sync::atomic::Ordering::Relaxed)
        };
        let (mut damaged, mut missed, mut evicted) = (0, 0, 0);
        for n in 0..60_000u32 {
            let key = format!("user:{n}");
            let hash = store.hash(key.as_bytes());
            let pin = store.pin();
            let Some(found) = store.find(hash, key.as_bytes()) else {
                continue;
            };
            let seen = store.see(found.slot.place()).expect("nobody writes");
            if !seen.layout.is_coded() {
                continue;
            }
            let at = seen.item.value_offset(&seen.layout) + n as usize % seen.layout.value_bytes;
            let mut byte = Vec::new();
            store.region().append_out(at, 1, &mut byte);
            store.region().copy_in(at, &[byte[0] ^ (1 << (n % 8))]);
            drop(pin);
            damaged += 1;
            let before = counted();
            match cache.get(key.as_bytes()) {
                // The background thread may still be making room: what it evicts this moment is no damage.
                None if counted() == before => evicted += 1,
                None => missed += 1,
                Some(read) => assert_eq!(read, value(n).as_bytes()[..], "key {n}"),
            }
        }
        assert!(
            damaged > 1000 && missed * 10 > damaged * 9,
            "{missed} of {damaged}"
        );
        // The background thread, which codes anew what it copies, may meet some of them too.
        let failed = cache.tiers().decompress_fail;
        assert!(failed >= missed, "{failed} counted, {missed} met");
        assert!(evicted * 10 < damaged, "{evicted} of {damaged} not counted");
    }

    /// A large value of which chunk 1 lies coded, under a key that is told; none may yet.
    fn coded_page(cache: &Cache, n: &mut u32) -> Option<(u32, String)> {
        let key = |n: u32| format!("page:{n}");
        let stored = cache.set(key(*n).as_bytes(), value(*n, 4000).as_bytes());
        stored.expect("room");
        *n += 1;
        let old = n.saturating_sub(150);
        let is_coded = with_chunk(cache, &key(old), |chunk| {
            chunk.layout(chunk.header()).is_coded()
        });
        is_coded?.then(|| (old, key(old)))
    }

    /// Shows chunk 1 of a large value.
    fn with_chunk<R>(cache: &Cache, key: &str, look: impl FnOnce(&Item<'_>) -> R) -> Option<R> {
        let store = &cache.inner.store;
        let hash = store.hash(key.as_bytes());
        let _pin = store.pin();
        let found = store.find(hash, key.as_bytes())?;
        let seen = store.see(found.slot.place()).expect("nobody writes");
        let word = store
            .chunk_word(&seen, 1)
            .load(std::sync::atomic::Ordering::Acquire);
        let chunk = store.item(Place::from_raw(word).expect("it is there"));
        Some(look(&chunk))
    }

    fn damage(cache: &Cache, key: &str, n: u32) {
        let region = cache.inner.store.region();
        let done = with_chunk(cache, key, |chunk| {
            let layout = chunk.layout(chunk.header());
            let at = chunk.value_offset(&layout) + n as usize % layout.value_bytes;
            let mut byte = Vec::new();
            region.append_out(at, 1, &mut byte);
            region.copy_in(at, &[byte[0] ^ 4]);
        });
        done.expect("it is there");
    }

    /// The same of one chunk of a large value: the whole value is the miss, and none of it is handed out.
    #[test]
    fn a_damaged_chunk_is_a_counted_miss() {
        let cache = trained();
        let (mut n, mut missed, mut whole) = (0u32, 0, 0);
        while (missed < 20 || whole < 20) && n < 3000 {
            let Some((old, key)) = coded_page(&cache, &mut n) else {
                continue;
            };
            if n % 2 == 0 {
                damage(&cache, &key, n);
            }
            let before = cache.tiers();
            match cache.get(key.as_bytes()) {
                Some(read) => {
                    whole += 1;
                    assert!(read == value(old, 4000).as_bytes()[..], "key {old}");
                }
                None if cache.tiers().decompress_fail > before.decompress_fail => {
                    missed += 1;
                    assert_eq!(cache.tiers().decoded, before.decoded, "found before");
                    assert!(!cache.contains(key.as_bytes()), "it was dropped");
                }
                None => {}
            }
        }
        assert!(
            missed >= 20 && whole >= 20,
            "{missed} missed, {whole} whole"
        );
    }

    /// Who asks for facts alone is told without a look at the bytes, however many there are: damaged ones stay unnoticed.
    #[test]
    fn facts_of_a_large_value_take_no_look_at_its_chunks() {
        let cache = trained();
        let (mut n, mut told) = (0u32, 0);
        while told < 10 && n < 3000 {
            let Some((old, key)) = coded_page(&cache, &mut n) else {
                continue;
            };
            damage(&cache, &key, n);
            let before = cache.tiers().decompress_fail;
            let meta = cache.peek(key.as_bytes(), true);
            assert_eq!(cache.tiers().decompress_fail, before, "it was looked at");
            // The background thread may be making room at this moment.
            let Some(meta) = meta else { continue };
            told += 1;
            assert_eq!(meta.value_bytes, value(old, 4000).len());
            assert!(meta.token.is_some() && cache.get(key.as_bytes()).is_none());
        }
        assert_eq!(told, 10);
    }

    /// Memory that is changed while a reader has a value: it ends there, and what asks for the whole gets none of it.
    #[test]
    fn a_chunk_damaged_while_it_is_read_ends_the_value() {
        let cache = trained();
        let (mut n, mut ended) = (0u32, 0);
        while ended < 10 && n < 3000 {
            let Some((old, key)) = coded_page(&cache, &mut n) else {
                continue;
            };
            let Some(mut guard) = cache.get(key.as_bytes()).filter(|it| it.is_coded()) else {
                continue;
            };
            damage(&cache, &key, n);
            let damaged = cache.tiers().decompress_fail;
            let first = guard.piece(0).expect("the first is sound").into_owned();
            if guard.piece(1).is_some() {
                continue; // The check behind the chunk was hit, which has been looked at already.
            }
            ended += 1;
            assert!(value(old, 4000).as_bytes().starts_with(&first));
            assert_eq!(guard.chunks().count(), 1);
            assert!(guard.to_vec() == first && guard != value(old, 4000).as_bytes()[..]);
            let mut buffer = b"before".to_vec();
            assert!(!guard.append_to(&mut buffer) && buffer == b"before");
            assert!(guard.make_ready(0) && !guard.make_ready(first.len()));
            assert_eq!(guard.ready_from(first.len()).count(), 0);
            assert!(cache.tiers().decompress_fail > damaged);
        }
        assert_eq!(ended, 10);
    }
}
