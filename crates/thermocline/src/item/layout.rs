//! Reading a record: where its parts are, and what they say.

use super::{
    field_bytes, key_at, Fields, Header, Item, Kind, MarkWord, CHUNK_PREFIX, LONG_PREFIX, OPT_ALL,
    OPT_CODED, OPT_EXPIRY, OPT_FLAGS, OPT_MARKS, OPT_MILLIS, OPT_TOKEN,
};
use crate::sync::{AtomicU32, Ordering};

/// Where the parts of a record are, relative to its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Layout {
    pub(crate) kind: Kind,
    pub(crate) key_at: usize,
    pub(crate) key_bytes: usize,
    options: u8,
    fields_at: usize,
    pub(crate) value_at: usize,
    /// Bytes of the value; of the whole value for a chunked item.
    pub(crate) value_bytes: usize,
    /// Bytes reserved: the step to the next record.
    pub(crate) reserved: usize,
}

impl Layout {
    /// No optional fields.
    #[inline(always)]
    pub(crate) fn is_bare(&self) -> bool {
        self.options == 0
    }

    /// The value's bytes are its coded form.
    #[inline(always)]
    pub(crate) fn is_coded(&self) -> bool {
        self.options & OPT_CODED != 0
    }
}

impl Item<'_> {
    #[inline(always)]
    pub(crate) fn header(&self) -> Header {
        Header(self.word().load(Ordering::Acquire))
    }

    /// The header again, for validation: after the bytes were copied.
    #[inline(always)]
    pub(crate) fn header_after_copy(&self) -> Header {
        crate::sync::fence(Ordering::Acquire);
        Header(self.word().load(Ordering::Relaxed))
    }

    /// Whether the key is `key`. Needs no validation: keys never change.
    #[inline(always)]
    pub(crate) fn key_is(&self, key: &[u8]) -> bool {
        let header = Header(self.word().load(Ordering::Acquire));
        if !header.is_long() {
            let at = key_at(header.shape());
            header.small_key_bytes() == key.len() && self.region.equals(self.at + at, key)
        } else {
            self.long_key_is(key)
        }
    }

    #[cold]
    fn long_key_is(&self, key: &[u8]) -> bool {
        let (kind, key_bytes) = self.long_kind();
        matches!(kind, Kind::Plain | Kind::Chunked)
            && key_bytes == key.len()
            && self.region.equals(self.at + LONG_PREFIX, key)
    }

    fn long_kind(&self) -> (Kind, usize) {
        let word = self.region.u32(self.at + 12).load(Ordering::Relaxed);
        let kind = match word >> 8 & 0xFF {
            0 => Kind::Plain,
            1 => Kind::Chunked,
            2 => Kind::Chunk,
            _ => Kind::Filler,
        };
        (kind, (word >> 16) as usize + 1)
    }

    /// Bytes this record takes in its segment. Needs no validation.
    #[inline(always)]
    pub(crate) fn reserved(&self, header: Header) -> usize {
        if header.is_long() {
            4 * self.region.u32(self.at + 4).load(Ordering::Relaxed) as usize
        } else {
            4 * header.units()
        }
    }

    /// Where the parts are. For a small item that is being written the answer may be wrong, never out
    /// of the record's bounds; validation of the header tells.
    #[inline(always)]
    pub(crate) fn layout(&self, header: Header) -> Layout {
        if header.is_long() {
            return self.long_layout();
        }
        let reserved = 4 * header.units();
        let key_bytes = header.small_key_bytes();
        if key_bytes == 0 {
            return Layout {
                kind: Kind::Filler,
                key_at: 4,
                key_bytes: 0,
                options: 0,
                fields_at: 4,
                value_at: 4,
                value_bytes: 0,
                reserved,
            };
        }
        let (key_at, options, fields_at) = if header.options() {
            let options = self.region.u32(self.at + 4).load(Ordering::Relaxed) as u8 & OPT_ALL;
            (5, options, (5 + key_bytes).next_multiple_of(4))
        } else if header.marked() {
            (4, OPT_MARKS, (4 + key_bytes).next_multiple_of(4))
        } else {
            (4, 0, 4 + key_bytes)
        };
        let value_at = fields_at + field_bytes(options);
        let slack = if header.slack() {
            self.slack_bytes(reserved)
        } else {
            0
        };
        Layout {
            kind: Kind::Plain,
            key_at,
            key_bytes,
            options,
            fields_at,
            value_at: value_at.min(reserved),
            value_bytes: reserved.saturating_sub(value_at).saturating_sub(slack),
            reserved,
        }
    }

    #[inline(always)]
    pub(super) fn slack_bytes(&self, reserved: usize) -> usize {
        let last = self
            .region
            .u32(self.at + reserved - 4)
            .load(Ordering::Relaxed);
        let short = (last >> 24) as usize;
        if short != 0 {
            short
        } else {
            (last >> 8 & 0xFFFF) as usize
        }
    }

    fn long_layout(&self) -> Layout {
        let reserved = 4 * self.region.u32(self.at + 4).load(Ordering::Relaxed) as usize;
        let value_bytes = self.region.u32(self.at + 8).load(Ordering::Relaxed) as usize;
        let options = self.region.u32(self.at + 12).load(Ordering::Relaxed) as u8 & OPT_ALL;
        let (kind, key_bytes) = self.long_kind();
        let (key_bytes, fields_at) = match kind {
            Kind::Plain | Kind::Chunked => {
                (key_bytes, (LONG_PREFIX + key_bytes).next_multiple_of(4))
            }
            Kind::Chunk => (0, CHUNK_PREFIX),
            Kind::Filler => (0, LONG_PREFIX),
        };
        let mut value_at = fields_at + field_bytes(options);
        if kind == Kind::Chunked {
            value_at = value_at.next_multiple_of(8);
        }
        Layout {
            kind,
            key_at: LONG_PREFIX,
            key_bytes,
            options,
            fields_at,
            value_at,
            value_bytes,
            reserved,
        }
    }

    /// The optional fields. Validate afterwards.
    #[inline(always)]
    pub(crate) fn fields(&self, layout: &Layout) -> Fields {
        let mut fields = Fields::default();
        if layout.options == 0 {
            return fields;
        }
        let mut at = self.at + layout.fields_at;
        let mut next = || {
            let word = self.region.u32(at).load(Ordering::Relaxed);
            at += 4;
            word
        };
        if layout.options & OPT_MARKS != 0 {
            fields.marks = Some(MarkWord(next()));
        }
        if layout.options & OPT_FLAGS != 0 {
            fields.flags = next();
        }
        if layout.options & OPT_EXPIRY != 0 {
            fields.expires_ms = next() as u64 * 1000;
        }
        if layout.options & OPT_MILLIS != 0 {
            fields.expires_ms += (next() % 1000) as u64;
        }
        fields.coded = layout.is_coded();
        if layout.options & OPT_TOKEN != 0 {
            let low = next() as u64;
            fields.token = Some((next() as u64) << 32 | low);
        }
        fields
    }

    /// Whether a copy of it, byte by byte, is what would be written anew: a plain value as long as its room, and no
    /// token that only its place tells.
    pub(crate) fn is_as_new(&self, header: Header, layout: &Layout) -> bool {
        if layout.kind != Kind::Plain || layout.is_coded() {
            return false;
        }
        let slack = layout
            .reserved
            .saturating_sub(layout.value_at + layout.value_bytes);
        let padding = if header.is_long() { 8 } else { 4 };
        let told = header.token_out() && layout.options & OPT_TOKEN == 0;
        let idle_options = header.options() && layout.options == 0;
        slack < padding && !told && !idle_options
    }

    /// The marks' word, if the item has one.
    pub(crate) fn marks_word(&self, layout: &Layout) -> Option<&AtomicU32> {
        (layout.options & OPT_MARKS != 0).then(|| self.region.u32(self.at + layout.fields_at))
    }

    /// The expiry's word of an item that has one in whole seconds: the one word `touch` may store.
    pub(crate) fn expiry_word(&self, layout: &Layout) -> Option<&AtomicU32> {
        if layout.options & (OPT_EXPIRY | OPT_MILLIS) != OPT_EXPIRY {
            return None;
        }
        let before = field_bytes(layout.options & (OPT_MARKS | OPT_FLAGS));
        Some(self.region.u32(self.at + layout.fields_at + before))
    }

    pub(crate) fn append_key(&self, layout: &Layout, out: &mut Vec<u8>) {
        self.region
            .append_out(self.at + layout.key_at, layout.key_bytes, out);
    }

    /// The first bytes of the key, at most `bytes`. They never change while the item is there.
    pub(crate) fn key_start(&self, layout: &Layout, bytes: usize) -> Vec<u8> {
        let mut start = Vec::new();
        let bytes = layout.key_bytes.min(bytes);
        self.region
            .append_out(self.at + layout.key_at, bytes, &mut start);
        start
    }

    /// Appends the value's bytes; validate afterwards.
    #[inline(always)]
    pub(crate) fn append_value(&self, layout: &Layout, out: &mut Vec<u8>) {
        self.region
            .append_out(self.at + layout.value_at, layout.value_bytes, out);
    }

    /// Offset of the value in the region.
    pub(crate) fn value_offset(&self, layout: &Layout) -> usize {
        self.at + layout.value_at
    }
}
