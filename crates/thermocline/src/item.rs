//! The bytes of an item: header, optional fields, key, value. Owns their layout, nothing else.
//!
//! ```text
//! small (reserved <= 4092 B), 4-byte aligned, overwritten in place under its lock:
//!   header u32 | options u8 if OPTIONS | key | pad to 4 | fields | value | slack
//! long, 8-byte aligned, immutable once published (but for single words):
//!   header u32 | reserved/4 u32 | value bytes u32 | options u8 | kind u8 | key bytes - 1 u16 | key | pad | fields | value
//!
//! header u32:  reserved/4 10 (0: long) | key bytes 8 (0: filler) | version 8 | spare 1 | SLACK | OPTIONS | TOKEN_OUT | FROZEN | LOCK
//! ```
//! The value of a small item ends where its slack begins: with SLACK the last byte counts the slack
//! (itself included), or is 0 and the two bytes before it count. Most slack is the padding an item
//! has anyway, so lengths cost nothing. Key bytes and reserved length never change in a place's life:
//! a key compare and a segment walk need no validation. Everything behind the key may be torn while
//! LOCK is set or the version moves on; readers copy first and compare headers afterwards.

use crate::mem::Region;
use crate::sync::{AtomicU32, Ordering};

/// Largest reserved size of a small item, bytes. Above it an item is immutable.
pub(crate) const PLAIN_MAX: usize = 1023 * 4;
/// Longest key of a small item, bytes.
const SMALL_KEY_MAX: usize = 255;
/// Most slack a small item can record, bytes; an overwrite that would leave more goes elsewhere.
const SLACK_MAX: usize = 1020;
/// Bytes before the key of a long item.
const LONG_PREFIX: usize = 16;
/// Fixed bytes of a chunk record: the long prefix, owner hash, chunk number, padding.
pub(crate) const CHUNK_PREFIX: usize = LONG_PREFIX + 16;
pub(crate) const VERSION_MAX: u32 = 255;

#[cfg(target_endian = "big")]
compile_error!("the engine's memory layout is little-endian");

/// The first word of every record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header(pub(crate) u32);

impl Header {
    pub(crate) const LOCK: u32 = 1;
    pub(crate) const FROZEN: u32 = 1 << 1;
    pub(crate) const TOKEN_OUT: u32 = 1 << 2;
    const OPTIONS: u32 = 1 << 3;
    const SLACK: u32 = 1 << 4;
    const VERSION_SHIFT: u32 = 6;
    const KEY_SHIFT: u32 = 14;
    const UNITS_SHIFT: u32 = 22;

    #[inline(always)]
    pub(crate) fn locked(self) -> bool {
        self.0 & Header::LOCK != 0
    }
    /// Locked or frozen: somebody else is changing or moving it.
    #[inline(always)]
    pub(crate) fn busy(self) -> bool {
        self.0 & (Header::LOCK | Header::FROZEN) != 0
    }
    #[inline(always)]
    pub(crate) fn token_out(self) -> bool {
        self.0 & Header::TOKEN_OUT != 0
    }
    pub(crate) fn with_token_out(self) -> Header {
        Header(self.0 | Header::TOKEN_OUT)
    }
    #[inline(always)]
    fn options(self) -> bool {
        self.0 & Header::OPTIONS != 0
    }
    #[inline(always)]
    fn slack(self) -> bool {
        self.0 & Header::SLACK != 0
    }
    #[inline(always)]
    pub(crate) fn version(self) -> u32 {
        self.0 >> Header::VERSION_SHIFT & 0xFF
    }
    #[inline(always)]
    fn small_key_bytes(self) -> usize {
        (self.0 >> Header::KEY_SHIFT & 0xFF) as usize
    }
    #[inline(always)]
    fn units(self) -> usize {
        (self.0 >> Header::UNITS_SHIFT) as usize
    }
    #[inline(always)]
    pub(crate) fn is_long(self) -> bool {
        self.units() == 0
    }

    /// Whether what was copied under `self` is whole, given the header read afterwards: frozen items
    /// stand still and a token handed out changes no byte.
    #[inline(always)]
    pub(crate) fn still(self, after: Header) -> bool {
        let ignore = !(Header::FROZEN | Header::TOKEN_OUT);
        self.0 & ignore == after.0 & ignore
    }
}

/// What a record in a segment is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Key and value in one piece.
    Plain = 0,
    /// Key and a table of the places of the value's chunks.
    Chunked = 1,
    /// A piece of a large value.
    Chunk = 2,
    /// Nothing: alignment, or a reservation that was given up.
    Filler = 3,
}

/// memcached's marks on an item, one word of their own so that they change without the item's lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct MarkWord(pub(crate) u32);

impl MarkWord {
    pub(crate) const FETCHED: u32 = 1 << 31;
    pub(crate) const STALE: u32 = 1 << 30;
    pub(crate) const WON: u32 = 1 << 29;
    pub(crate) const BASE64: u32 = 1 << 28;
    /// Seconds since 2024-01-01 fit 28 bits until mid 2032; later times saturate.
    const ACCESS_MASK: u32 = (1 << 28) - 1;
    const ACCESS_BASE_S: u32 = 1_704_067_200;

    pub(crate) fn new(flags: u32, access_s: u32) -> MarkWord {
        let since = access_s.saturating_sub(MarkWord::ACCESS_BASE_S);
        MarkWord(flags | since.min(MarkWord::ACCESS_MASK))
    }
    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
    pub(crate) fn access_s(self) -> u32 {
        (self.0 & MarkWord::ACCESS_MASK) + MarkWord::ACCESS_BASE_S
    }
    pub(crate) fn flags(self) -> u32 {
        self.0 & !MarkWord::ACCESS_MASK
    }
}

const OPT_MARKS: u8 = 1;
const OPT_FLAGS: u8 = 2;
const OPT_EXPIRY: u8 = 4;
const OPT_MILLIS: u8 = 8;
const OPT_TOKEN: u8 = 16;
const OPT_ALL: u8 = 31;

/// The optional fields of an item, only those present take bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Fields {
    pub(crate) marks: Option<MarkWord>,
    /// Client flags; 0 takes no bytes.
    pub(crate) flags: u32,
    /// Unix milliseconds; 0 = never. Whole seconds take 4 bytes, others 8.
    pub(crate) expires_ms: u64,
    /// A CAS token that does not follow from place and version.
    pub(crate) token: Option<u64>,
}

/// The latest expiry that can be kept, unix milliseconds (2106). Later ones are cut to it.
pub(crate) const EXPIRY_MAX_MS: u64 = u32::MAX as u64 * 1000 + 999;

impl Fields {
    fn options(&self) -> u8 {
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        bit(self.marks.is_some(), OPT_MARKS)
            | bit(self.flags != 0, OPT_FLAGS)
            | bit(self.expires_ms != 0, OPT_EXPIRY)
            | bit(self.expires_ms % 1000 != 0, OPT_MILLIS)
            | bit(self.token.is_some(), OPT_TOKEN)
    }

    fn words(&self) -> ([u32; 6], usize) {
        let mut words = [0; 6];
        let mut count = 0;
        let mut push = |word: u32| {
            words[count] = word;
            count += 1;
        };
        if let Some(marks) = self.marks {
            push(marks.0);
        }
        if self.flags != 0 {
            push(self.flags);
        }
        if self.expires_ms != 0 {
            push((self.expires_ms / 1000) as u32);
        }
        if self.expires_ms % 1000 != 0 {
            push((self.expires_ms % 1000) as u32);
        }
        if let Some(token) = self.token {
            push(token as u32);
            push((token >> 32) as u32);
        }
        (words, count)
    }
}

#[inline(always)]
fn field_bytes(options: u8) -> usize {
    4 * (options & 0xF).count_ones() as usize + if options & OPT_TOKEN != 0 { 8 } else { 0 }
}

/// What is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record<'a> {
    pub(crate) key: &'a [u8],
    pub(crate) fields: Fields,
    pub(crate) value: &'a [u8],
}

impl Record<'_> {
    /// Reserved bytes as a small item.
    #[inline(always)]
    fn small_bytes(&self, options: u8) -> usize {
        let head = if options == 0 {
            4 + self.key.len()
        } else {
            (5 + self.key.len()).next_multiple_of(4) + field_bytes(options)
        };
        (head + self.value.len()).next_multiple_of(4)
    }
}

/// A record with what is computed of it once: its options byte, its size, whether it is small.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measured<'a> {
    pub(crate) record: Record<'a>,
    /// Reserved bytes.
    pub(crate) bytes: usize,
    pub(crate) small: bool,
    options: u8,
    /// The writer hands the new version's token out: in the header from the start, else a move between
    /// the write and a later mark would change the token under the client.
    pub(crate) token_out: bool,
}

impl<'a> Measured<'a> {
    #[inline(always)]
    pub(crate) fn new(record: Record<'a>) -> Measured<'a> {
        let options = record.fields.options();
        let bytes = record.small_bytes(options);
        let small = record.key.len() <= SMALL_KEY_MAX && bytes <= PLAIN_MAX;
        Measured {
            bytes: match small {
                true => bytes,
                false => long_bytes(record.key.len(), &record.fields, record.value.len(), 4),
            },
            record,
            small,
            options,
            token_out: false,
        }
    }
}

fn token_bit(new: &Measured<'_>) -> u32 {
    match new.token_out {
        true => Header::TOKEN_OUT,
        false => 0,
    }
}

/// Reserved bytes of a long item with `payload` bytes of value or table.
pub(crate) fn long_bytes(key_bytes: usize, fields: &Fields, payload: usize, align: usize) -> usize {
    let head = (LONG_PREFIX + key_bytes).next_multiple_of(4) + field_bytes(fields.options());
    (head.next_multiple_of(align) + payload).next_multiple_of(8)
}

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

/// A record in a region. Copy: it is an address.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    region: &'a Region,
    at: usize,
}

impl<'a> Item<'a> {
    #[inline(always)]
    pub(crate) fn at(region: &'a Region, at: usize) -> Item<'a> {
        Item { region, at }
    }

    #[inline(always)]
    fn word(&self) -> &'a AtomicU32 {
        self.region.u32(self.at)
    }

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
            let at = if header.options() { 5 } else { 4 };
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
    fn slack_bytes(&self, reserved: usize) -> usize {
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
        if layout.options & OPT_TOKEN != 0 {
            let low = next() as u64;
            fields.token = Some((next() as u64) << 32 | low);
        }
        fields
    }

    /// The marks' word, if the item has one.
    pub(crate) fn marks_word(&self, layout: &Layout) -> Option<&'a AtomicU32> {
        (layout.options & OPT_MARKS != 0).then(|| self.region.u32(self.at + layout.fields_at))
    }

    /// The expiry's word of an item that has one in whole seconds: the one word `touch` may store.
    pub(crate) fn expiry_word(&self, layout: &Layout) -> Option<&'a AtomicU32> {
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

    // --- Writing -------------------------------------------------------------------------------

    /// Writes a new small item and its header. The place is not yet published.
    #[inline]
    pub(crate) fn write_small(&self, new: &Measured<'_>) {
        let (record, options) = (&new.record, new.options);
        let key_at = if options != 0 { 5 } else { 4 };
        self.region.copy_in(self.at + key_at, record.key);
        let bits = self.write_tail(record, options, options != 0, new.bytes)
            | token_bit(new)
            | (record.key.len() as u32) << Header::KEY_SHIFT
            | (new.bytes as u32 / 4) << Header::UNITS_SHIFT;
        self.word().store(bits, Ordering::Release);
    }

    /// Options byte, fields, value and slack: all that an overwrite replaces. Returns the header bits
    /// OPTIONS and SLACK.
    #[inline]
    fn write_tail(&self, record: &Record, options: u8, wide: bool, reserved: usize) -> u32 {
        let mut bits = 0;
        let value_at = if wide {
            bits |= Header::OPTIONS;
            self.region.copy_in(self.at + 4, &[options]);
            let fields_at = (5 + record.key.len()).next_multiple_of(4);
            let (words, count) = record.fields.words();
            for (i, word) in words[..count].iter().enumerate() {
                self.region
                    .u32(self.at + fields_at + 4 * i)
                    .store(*word, Ordering::Relaxed);
            }
            fields_at + 4 * count
        } else {
            4 + record.key.len()
        };
        self.region.copy_in(self.at + value_at, record.value);
        let slack = reserved - value_at - record.value.len();
        if slack > 0 {
            bits |= Header::SLACK;
            self.write_slack(reserved, slack);
        }
        bits
    }

    #[inline]
    fn write_slack(&self, reserved: usize, slack: usize) {
        debug_assert!(slack <= SLACK_MAX);
        if slack <= 255 {
            self.region.copy_in(self.at + reserved - 1, &[slack as u8]);
        } else {
            let count = (slack as u16).to_le_bytes();
            self.region
                .copy_in(self.at + reserved - 3, &[count[0], count[1], 0]);
        }
    }

    /// Whether `new` (of the same key) can overwrite this small item where it lies.
    #[inline(always)]
    pub(crate) fn fits(&self, header: Header, new: &Measured<'_>) -> bool {
        if header.is_long() || header.version() == VERSION_MAX {
            return false;
        }
        let reserved = 4 * header.units();
        let wide = header.options();
        if wide == (new.options != 0) {
            // Within the padding of the same size, or with slack that can be recorded.
            return new.small && new.bytes <= reserved && reserved - new.bytes <= SLACK_MAX - 4;
        }
        let head = (5 + new.record.key.len()).next_multiple_of(4);
        let needed = head + new.record.value.len();
        wide && needed <= reserved && reserved - needed <= SLACK_MAX
    }

    /// Takes the item's lock if its header still is `header`.
    #[inline(always)]
    pub(crate) fn try_lock(&self, header: Header) -> bool {
        debug_assert!(!header.busy());
        self.swap_header(header, header.0 | Header::LOCK, Ordering::Acquire)
    }

    /// Gives the lock back, nothing changed.
    #[inline(always)]
    pub(crate) fn unlock(&self, header: Header) {
        self.word().store(header.0, Ordering::Release);
    }

    /// Gives the lock back and leaves the item frozen: its successor has been published.
    pub(crate) fn unlock_frozen(&self, header: Header) {
        self.word()
            .store(header.0 | Header::FROZEN, Ordering::Release);
    }

    /// Overwrites a locked small item that `fits`, and unlocks it with the next version.
    #[inline]
    pub(crate) fn overwrite(&self, header: Header, new: &Measured<'_>) {
        // Readers that see any new byte must also see the lock or the new version.
        crate::sync::fence(Ordering::Release);
        let reserved = 4 * header.units();
        let tail = self.write_tail(&new.record, new.options, header.options(), reserved);
        let keep = header.0 & !(Header::SLACK | Header::OPTIONS | Header::TOKEN_OUT);
        let next = (keep | tail | token_bit(new)) + (1 << Header::VERSION_SHIFT);
        self.word().store(next, Ordering::Release);
    }

    /// Stops all change of the item, so that its bytes can be used to publish a successor.
    pub(crate) fn try_freeze(&self, header: Header) -> bool {
        !header.busy() && self.swap_header(header, header.0 | Header::FROZEN, Ordering::Acquire)
    }

    pub(crate) fn unfreeze(&self) {
        self.word().fetch_and(!Header::FROZEN, Ordering::Release);
    }

    /// Remembers that a client holds the token of the present version. False if the item changed.
    pub(crate) fn mark_token_out(&self, header: Header) -> bool {
        header.token_out()
            || (!header.busy()
                && self.swap_header(header, header.0 | Header::TOKEN_OUT, Ordering::Relaxed))
    }

    #[inline(always)]
    fn swap_header(&self, from: Header, to: u32, order: Ordering) -> bool {
        self.word()
            .compare_exchange(from.0, to, order, Ordering::Relaxed)
            .is_ok()
    }

    /// Writes the fixed part of a long record; the payload is copied in by the caller.
    pub(crate) fn write_long_head(
        &self,
        kind: Kind,
        key: &[u8],
        fields: &Fields,
        value_bytes: usize,
        reserved: usize,
    ) {
        debug_assert_eq!(self.at % 8, 0);
        let options = fields.options();
        let words = [
            (4, reserved as u32 / 4),
            (8, value_bytes as u32),
            (
                12,
                options as u32 | (kind as u32) << 8 | (key.len().saturating_sub(1) as u32) << 16,
            ),
        ];
        for (at, word) in words {
            self.region.u32(self.at + at).store(word, Ordering::Relaxed);
        }
        self.region.copy_in(self.at + LONG_PREFIX, key);
        let fields_at = (LONG_PREFIX + key.len()).next_multiple_of(4);
        let (words, count) = fields.words();
        for (i, word) in words[..count].iter().enumerate() {
            self.region
                .u32(self.at + fields_at + 4 * i)
                .store(*word, Ordering::Relaxed);
        }
        self.word().store(0, Ordering::Release);
    }

    /// Writes the fixed part of a chunk: whose it is and which.
    pub(crate) fn write_chunk_head(&self, owner: u64, number: u32, bytes: usize, reserved: usize) {
        let words = [
            (4, reserved as u32 / 4),
            (8, bytes as u32),
            (12, (Kind::Chunk as u32) << 8),
            (16, owner as u32),
            (20, (owner >> 32) as u32),
            (24, number),
            (28, 0),
        ];
        for (at, word) in words {
            self.region.u32(self.at + at).store(word, Ordering::Relaxed);
        }
        self.word().store(0, Ordering::Release);
    }

    /// Owner hash and number of a chunk.
    pub(crate) fn chunk_owner(&self) -> (u64, u32) {
        let word = |at: usize| self.region.u32(self.at + at).load(Ordering::Relaxed);
        ((word(20) as u64) << 32 | word(16) as u64, word(24))
    }

    /// Makes a reserved stretch a filler that walks step over.
    pub(crate) fn write_filler(&self, reserved: usize) {
        debug_assert!(reserved >= 4 && reserved % 4 == 0);
        if reserved <= PLAIN_MAX {
            self.word().store(
                (reserved as u32 / 4) << Header::UNITS_SHIFT,
                Ordering::Release,
            );
        } else {
            self.region
                .u32(self.at + 4)
                .store(reserved as u32 / 4, Ordering::Relaxed);
            self.region.u32(self.at + 8).store(0, Ordering::Relaxed);
            self.region
                .u32(self.at + 12)
                .store((Kind::Filler as u32) << 8, Ordering::Relaxed);
            self.word().store(0, Ordering::Release);
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::mem::{Grain, EXTENT_BYTES};

    fn region() -> Region {
        Region::reserve(EXTENT_BYTES, Grain::Items, false).unwrap()
    }

    fn fields(bits: u32) -> Fields {
        Fields {
            marks: (bits & 1 != 0).then(|| MarkWord::new(MarkWord::STALE, 1_800_000_000)),
            flags: if bits & 2 != 0 { 0xDEAD_BEEF } else { 0 },
            expires_ms: match bits >> 2 & 3 {
                0 => 0,
                1 => 1_800_000_000_000,
                2 => 1_800_000_000_123,
                _ => EXPIRY_MAX_MS,
            },
            token: (bits & 16 != 0).then_some(0x0123_4567_89AB_CDEF),
        }
    }

    fn check(item: &Item, record: &Record) {
        let header = item.header();
        let layout = item.layout(header);
        assert_eq!(layout.key_bytes, record.key.len());
        assert!(item.key_is(record.key));
        assert_eq!(item.fields(&layout), record.fields);
        let mut value = Vec::new();
        item.append_value(&layout, &mut value);
        assert_eq!(value, record.value, "key {} bytes", record.key.len());
        let mut key = Vec::new();
        item.append_key(&layout, &mut key);
        assert_eq!(key, record.key);
    }

    #[test]
    fn every_small_shape_reads_back() {
        let region = region();
        for key_bytes in [1, 2, 3, 4, 5, 16, 17, 254, 255] {
            for value_bytes in (0..40).chain([255, 256, 1000, 3000]) {
                for bits in 0..32 {
                    let (key, value) = (vec![b'k'; key_bytes], vec![0xA5; value_bytes]);
                    let record = Record {
                        key: &key,
                        fields: fields(bits),
                        value: &value,
                    };
                    assert!(Measured::new(record).small);
                    let item = Item::at(&region, 4096);
                    item.write_small(&Measured::new(record));
                    check(&item, &record);
                    assert_eq!(item.reserved(item.header()), Measured::new(record).bytes);
                    assert!(!item.key_is(&vec![b'k'; key_bytes + 1]));
                }
            }
        }
    }

    #[test]
    fn a_plain_item_costs_four_bytes_and_padding() {
        let record = Record {
            key: &[1; 16],
            fields: Fields::default(),
            value: &[2; 100],
        };
        assert_eq!(Measured::new(record).bytes, 120);
    }

    #[test]
    fn overwrites_of_other_lengths_keep_place_and_bump_the_version() {
        let region = region();
        let item = Item::at(&region, 0);
        let first = Record {
            key: b"key",
            fields: fields(3),
            value: &[7; 900],
        };
        item.write_small(&Measured::new(first));
        for (n, len) in [900usize, 899, 640, 0, 12, 900].into_iter().enumerate() {
            let value = vec![n as u8; len];
            let record = Record {
                key: b"key",
                fields: fields(n as u32 & 3),
                value: &value,
            };
            let header = item.header();
            assert!(item.fits(header, &Measured::new(record)));
            assert!(item.try_lock(header));
            assert!(!item.try_lock(header));
            item.overwrite(header, &Measured::new(record));
            check(&item, &record);
            assert_eq!(item.header().version(), n as u32 + 1);
            assert_eq!(item.reserved(item.header()), Measured::new(first).bytes);
        }
        let long = Record {
            value: &[0; 906],
            ..first
        };
        assert!(!item.fits(item.header(), &Measured::new(long)));
    }

    #[test]
    fn no_overwrite_in_place_past_the_last_version_or_beyond_recordable_slack() {
        let region = region();
        let item = Item::at(&region, 0);
        let record = Record {
            key: b"k",
            fields: Fields::default(),
            value: &[1; 2000],
        };
        item.write_small(&Measured::new(record));
        let tiny = Record {
            value: b"x",
            ..record
        };
        assert!(!item.fits(item.header(), &Measured::new(tiny)));
        for _ in 0..VERSION_MAX {
            let header = item.header();
            assert!(item.fits(header, &Measured::new(record)) && item.try_lock(header));
            item.overwrite(header, &Measured::new(record));
        }
        assert_eq!(item.header().version(), VERSION_MAX);
        assert!(!item.fits(item.header(), &Measured::new(record)));
    }

    #[test]
    fn freezing_and_tokens() {
        let region = region();
        let item = Item::at(&region, 0);
        let record = Record {
            key: b"k",
            fields: Fields::default(),
            value: b"v",
        };
        item.write_small(&Measured::new(record));
        let before = item.header();
        assert!(item.mark_token_out(before));
        assert!(!item.mark_token_out(before), "the header has moved on");
        let header = item.header();
        assert!(before.still(header));
        assert!(item.try_freeze(header));
        assert!(header.still(item.header()));
        assert!(!item.try_freeze(item.header()));
        item.unfreeze();
        assert!(item.try_lock(item.header()));
        assert!(!header.still(item.header()));
    }

    #[test]
    fn long_items_chunks_and_fillers_walk() {
        let region = region();
        let key = vec![9u8; 65_536];
        let value = vec![3u8; 10_000];
        let record = Record {
            key: &key,
            fields: fields(31),
            value: &value,
        };
        assert!(!Measured::new(record).small);
        let item = Item::at(&region, 8);
        item.write_long_head(
            Kind::Plain,
            &key,
            &record.fields,
            value.len(),
            Measured::new(record).bytes,
        );
        let layout = item.layout(item.header());
        region.copy_in(item.value_offset(&layout), &value);
        check(&item, &record);
        let next = Item::at(&region, 8 + layout.reserved);
        next.write_chunk_head(0xFEED_0000_BEEF, 7, 4096, CHUNK_PREFIX + 4096);
        assert_eq!(next.chunk_owner(), (0xFEED_0000_BEEF, 7));
        assert_eq!(next.layout(next.header()).kind, Kind::Chunk);
        assert_eq!(next.layout(next.header()).value_bytes, 4096);
        for reserved in [4, 8, PLAIN_MAX, PLAIN_MAX + 4, 100_000] {
            next.write_filler(reserved);
            let layout = next.layout(next.header());
            assert_eq!((layout.kind, layout.reserved), (Kind::Filler, reserved));
        }
    }
}
