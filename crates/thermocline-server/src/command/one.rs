//! Reading a single item with a choice of what the read records.

use crate::net::{Out, COPY_BYTES_MAX};
use thermocline::{Cache, Error, Expiry, Guard, Meta, ReadSink, Want};

/// An item that was read: its facts and its value, small ones copied, large ones held.
pub(super) struct Found {
    pub meta: Meta,
    value: Vec<u8>,
    held: Option<Guard>,
}

impl Found {
    pub(super) fn copied(meta: Meta, value: Vec<u8>) -> Found {
        Found {
            meta,
            value,
            held: None,
        }
    }

    /// Bytes of the heap that a long value takes: one that had to be decoded, or its piece that is.
    pub fn heap_bytes(&self) -> usize {
        self.held.as_ref().map_or(0, Guard::heap_bytes)
    }

    /// Bytes of the heap that it takes at most: a chunk at a time where it lies compressed in chunks.
    pub fn heap_bytes_max(&self, segment_bytes: u64) -> u64 {
        match &self.held {
            Some(guard) if guard.is_coded() => segment_bytes / 4,
            _ => self.heap_bytes() as u64,
        }
    }

    /// Bytes of the value from `at` on, as many as lie together; None: memory was changed, and it cannot be had.
    pub fn bytes_at(&mut self, at: usize) -> Option<&[u8]> {
        match &mut self.held {
            Some(guard) => guard
                .make_ready(at)
                .then(|| guard.ready_from(at).next().unwrap_or_default()),
            None => self.value.get(at..),
        }
    }

    /// Puts the value into the reply.
    pub fn put(self, out: &mut Out) {
        match self.held {
            Some(guard) => out.hold(guard),
            None => out.push(&self.value),
        }
    }
}

/// `value`: false asks for facts alone, and the bytes of a long value are not touched.
pub(super) fn read_one(cache: &Cache, key: &[u8], want: Want, value: bool) -> Option<Found> {
    let mut one = One {
        facts: !value,
        ..One::default()
    };
    cache.get_many(&[key], want, &mut one);
    let meta = one.meta?;
    Some(Found {
        meta,
        value: one.value,
        held: one.held,
    })
}

/// Reads and gives another expiry. A small value is copied; a large one is held, and both steps are made again when a
/// writer came between them, so that what is read is what was touched. An error: there is no room for the copy that the
/// new expiry needs. `value`: as in `read_one`.
pub(super) fn read_and_touch(
    cache: &Cache,
    key: &[u8],
    expiry: Expiry,
    want: Want,
    value: bool,
) -> Result<Option<Found>, Error> {
    let is_large = |meta: Meta| meta.value_bytes > COPY_BYTES_MAX;
    if !cache.peek(key, false).is_some_and(is_large) {
        let found = cache.get_and_touch_as(key, expiry, want)?;
        return Ok(found.map(|(meta, value)| Found::copied(meta, value)));
    }
    let want = Want {
        token: true,
        ..want
    };
    loop {
        let Some(found) = read_one(cache, key, want, value) else {
            return Ok(None);
        };
        if !cache.touch_unseen(key, expiry)? {
            return Ok(None);
        }
        // Nothing there: the new expiry is over already, or somebody removed the item after us.
        match cache.peek(key, true) {
            Some(meta) if meta.token != found.meta.token => {}
            _ => return Ok(Some(found)),
        }
    }
}

#[derive(Default)]
struct One {
    facts: bool,
    meta: Option<Meta>,
    value: Vec<u8>,
    held: Option<Guard>,
}

impl ReadSink for One {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.value
    }

    fn copy_max(&self) -> usize {
        COPY_BYTES_MAX
    }

    fn wants_value(&self, _index: usize) -> bool {
        !self.facts
    }

    fn head(&mut self, _index: usize, _meta: &Meta) {}

    fn tail(&mut self, _index: usize, meta: &Meta) {
        self.meta = Some(*meta);
    }

    fn held(&mut self, _index: usize, guard: Guard) {
        self.meta = Some(*guard.meta());
        self.held = Some(guard);
    }

    fn miss(&mut self, _index: usize) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline::Config;

    #[test]
    fn large_values_are_touched_without_a_copy() {
        let cache = Cache::new(Config::new(32 << 20)).expect("a small cache");
        for bytes in [100, COPY_BYTES_MAX, COPY_BYTES_MAX + 1, 300_000] {
            cache.set(b"k", &vec![7; bytes]).expect("stored");
            let at = Expiry::AtMs((cache.now_ms() / 1000 + 100) * 1000);
            let found = read_and_touch(&cache, b"k", at, Want::default(), true).expect("room");
            let found = found.expect("there");
            assert_eq!(found.held.is_some(), bytes > COPY_BYTES_MAX);
            let facts = read_and_touch(&cache, b"k", at, Want::default(), false).expect("room");
            let facts = facts.expect("there");
            assert!(facts.held.is_none() && facts.meta.value_bytes == bytes);
            let mut out = Out::default();
            assert_eq!(found.meta.value_bytes, bytes);
            found.put(&mut out);
            assert!(cache
                .peek(b"k", false)
                .expect("there")
                .expires_at_ms
                .is_some());
        }
        let over = Expiry::AtMs(1);
        let is_there = || {
            read_and_touch(&cache, b"k", over, Want::default(), true)
                .expect("room")
                .is_some()
        };
        assert!(is_there() && !is_there());
    }
}
