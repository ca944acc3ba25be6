//! Dead bytes and expiring ones: what is booked when a record is published, and when it is no more. Chunks of large
//! values and the heads of coded ones, which both need.
//!
//! Must hold: bytes are buried once, by whoever took the slot (or the chunk's word) that pointed to them.

use super::{Seen, Store};
use crate::compress::Compress;
use crate::item::{Kind, Layout, CHUNK_PREFIX};
use crate::location::Place;
use crate::sync::{AtomicU64, Ordering};

impl Store {
    /// Books the bytes at `place` as dead. Call once, after its slot was taken or turned away.
    #[inline]
    pub(crate) fn bury(&self, place: Place, reserved: usize, expires_ms: u64) {
        let segment = self.segments.of(place);
        segment.bury(reserved);
        self.unbook_expiry(place, reserved, expires_ms);
    }

    /// Books an item that is about to be published: once it can be found, others may remove it.
    #[inline]
    pub(crate) fn book_expiry(&self, place: Place, reserved: usize, expires_ms: u64) {
        if expires_ms != 0 {
            let segment = self.segments.of(place);
            segment.expiring.add(expiry_s(expires_ms), reserved as u32);
        }
    }

    /// The opposite of `book_expiry`.
    pub(crate) fn unbook_expiry(&self, place: Place, reserved: usize, expires_ms: u64) {
        if expires_ms != 0 {
            let segment = self.segments.of(place);
            let expires_s = expiry_s(expires_ms);
            segment.expiring.remove(expires_s, reserved as u32);
        }
    }

    /// Buries an item whose slot was taken: its record and, if it has any, its chunks.
    pub(crate) fn bury_item(&self, seen: &Seen<'_>) {
        self.ungroup(seen.place, seen.layout.reserved);
        self.bury(seen.place, seen.layout.reserved, seen.fields.expires_ms);
        if seen.layout.is_coded() {
            self.compress
                .lower(&self.coded_head(seen), seen.layout.value_bytes);
        }
        if seen.layout.kind == Kind::Chunked {
            self.bury_chunks(seen);
        }
    }

    fn bury_chunks(&self, seen: &Seen<'_>) {
        for number in 0..self.chunk_count(&seen.layout) {
            let word = self.chunk_word(seen, number);
            // Whoever swaps the place out buries it: reclaim may be moving the chunk right now.
            if let Some(chunk) = Place::from_raw(word.swap(0, Ordering::AcqRel)) {
                let item = self.item(chunk);
                self.bury_chunk(chunk, &item.layout(item.header()));
            }
        }
    }

    /// Books a coded chunk about to be published.
    pub(crate) fn raise_chunk(&self, place: Place, coded_bytes: usize) {
        let at = place.offset() + CHUNK_PREFIX;
        self.compress.raise(&self.word_bytes(at), coded_bytes);
    }

    /// Buries a chunk that its owner's table no longer names.
    pub(crate) fn bury_chunk(&self, place: Place, layout: &Layout) {
        if layout.is_coded() {
            let at = place.offset() + layout.value_at;
            self.compress
                .lower(&self.word_bytes(at), layout.value_bytes);
        }
        self.bury(place, layout.reserved, 0);
    }

    /// The first bytes of a coded value: enough to know its codec, its dictionary and its length. Validate
    /// afterwards.
    pub(crate) fn coded_head(&self, seen: &Seen<'_>) -> [u8; 8] {
        // A coded value starts at a word (its item has an options byte) and has six bytes at the least.
        self.word_bytes(seen.item.value_offset(&seen.layout))
    }

    fn word_bytes(&self, at: usize) -> [u8; 8] {
        let word = |at: usize| u64::from(self.region().u32(at).load(Ordering::Relaxed));
        (word(at) | word(at + 4) << 32).to_le_bytes()
    }

    /// Bytes of an item's value, as its reader gets it. Validate afterwards.
    #[inline]
    pub(crate) fn value_bytes(&self, seen: &Seen<'_>) -> usize {
        match seen.layout.is_coded() {
            false => seen.layout.value_bytes,
            true => Compress::plain_bytes(&self.coded_head(seen)).unwrap_or(0),
        }
    }

    /// How many chunks a chunked item has: all table words up to the end of the record.
    pub(crate) fn chunk_count(&self, layout: &Layout) -> usize {
        (layout.reserved - layout.value_at) / 8
    }

    /// The place of a chunk in the table of its owner; 0 once the item was removed.
    pub(crate) fn chunk_word(&self, seen: &Seen<'_>, number: usize) -> &AtomicU64 {
        self.region()
            .u64(seen.item.value_offset(&seen.layout) + 8 * number)
    }
}

/// The second at which an item is over, for the segment's histogram (rounded up).
pub(crate) fn expiry_s(expires_ms: u64) -> u32 {
    expires_ms.div_ceil(1000).min(u32::MAX as u64) as u32
}
