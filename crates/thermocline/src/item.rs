//! The bytes of an item: header, optional fields, key, value. Owns their layout, nothing else.
//!
//! ```text
//! small (reserved <= 4092 B), 4-byte aligned, overwritten in place under its lock:
//!   header u32 | options u8 if OPTIONS | key | pad to 4 | fields | value | slack
//! long, 8-byte aligned, immutable once published (but for single words):
//!   header u32 | reserved/4 u32 | value bytes u32 | options u8 | kind u8 | key bytes - 1 u16 | key | pad | fields | value
//!
//! header u32:  reserved/4 10 (0: long) | key bytes 8 (0: filler) | version 8 | MARKED | SLACK | OPTIONS | TOKEN_OUT | FROZEN | LOCK
//! ```
//! The value of a small item ends where its slack begins: with SLACK the last byte counts the slack
//! (itself included), or is 0 and the two bytes before it count. Most slack is the padding an item
//! has anyway, so lengths cost nothing. Key bytes and reserved length never change in a place's life:
//! a key compare and a segment walk need no validation. Everything behind the key may be torn while
//! LOCK is set or the version moves on; readers copy first and compare headers afterwards.

mod bare;
mod change;
mod layout;
#[cfg(all(test, not(shuttle)))]
mod tests;

pub(crate) use layout::Layout;

use crate::mem::Region;
use crate::models_switch::{mutant, Mutant};
use crate::sync::AtomicU32;

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
/// Bytes of a hole that stay: its header.
pub(crate) const HOLE_PREFIX: usize = LONG_PREFIX;
/// A filler of which pages were given back, as the kind byte has it.
const HOLE: u32 = 4;
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
    /// The marks' word is the only field: no options byte (memcached's plainest items).
    const MARKED: u32 = 1 << 5;
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
    fn marked(self) -> bool {
        self.0 & Header::MARKED != 0
    }
    /// OPTIONS and MARKED: what decides where the key lies.
    #[inline(always)]
    fn shape(self) -> u32 {
        self.0 & (Header::OPTIONS | Header::MARKED)
    }
    #[inline(always)]
    fn slack(self) -> bool {
        self.0 & Header::SLACK != 0
    }
    #[inline(always)]
    pub(crate) fn version(self) -> u32 {
        self.0 >> Header::VERSION_SHIFT & 0xFF
    }
    /// Whether one more overwrite in place would run over into the key's length.
    #[inline(always)]
    fn is_last_version(self) -> bool {
        self.version() == VERSION_MAX && !mutant(Mutant::VersionWraps)
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
        if mutant(Mutant::NoHeaderCheck) {
            return true;
        }
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
    /// Seconds since 2024-01-01, of which 28 bits are kept: they wrap in mid 2032 and every 8.5 years. How long ago an
    /// access was follows from them all the same (`idle_s`).
    const ACCESS_MASK: u32 = (1 << 28) - 1;
    const ACCESS_BASE_S: u32 = 1_704_067_200;

    pub(crate) fn new(flags: u32, access_s: u32) -> MarkWord {
        let since = access_s.saturating_sub(MarkWord::ACCESS_BASE_S);
        MarkWord(flags | since & MarkWord::ACCESS_MASK)
    }
    pub(crate) fn has(self, flag: u32) -> bool {
        self.0 & flag != 0
    }
    /// Seconds between the last access and `now_s`; 0 where it seems to lie ahead, for clocks differ a little.
    pub(crate) fn idle_s(self, now_s: u32) -> u32 {
        let now = now_s.saturating_sub(MarkWord::ACCESS_BASE_S);
        match now.wrapping_sub(self.0) & MarkWord::ACCESS_MASK {
            ahead if ahead > MarkWord::ACCESS_MASK / 2 => 0,
            idle => idle,
        }
    }
    /// The last access as a Unix time, right until the bits wrap.
    pub(crate) fn access_s(self) -> u32 {
        (self.0 & MarkWord::ACCESS_MASK) + MarkWord::ACCESS_BASE_S
    }
    pub(crate) fn flags(self) -> u32 {
        self.0 & !MarkWord::ACCESS_MASK
    }
    /// The marks that decide something; being fetched does not.
    fn verdicts(self) -> u32 {
        self.flags() & !MarkWord::FETCHED
    }
}

const OPT_MARKS: u8 = 1;
const OPT_FLAGS: u8 = 2;
const OPT_EXPIRY: u8 = 4;
const OPT_MILLIS: u8 = 8;
const OPT_TOKEN: u8 = 16;
/// The value is coded; takes no field.
const OPT_CODED: u8 = 32;
const OPT_ALL: u8 = 63;

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
    /// The bytes behind are the coded form of the value.
    pub(crate) coded: bool,
}

/// The latest expiry that can be kept, unix milliseconds (2106). Later ones are cut to it.
pub(crate) const EXPIRY_MAX_MS: u64 = u32::MAX as u64 * 1000 + 999;

impl Fields {
    /// Equal in what can change without a new version: expiry and marks (but for accesses).
    #[inline(always)]
    pub(crate) fn same_facts(&self, other: &Fields) -> bool {
        self.expires_ms == other.expires_ms
            && self.marks.map(MarkWord::verdicts) == other.marks.map(MarkWord::verdicts)
    }

    #[inline(always)]
    fn options(&self) -> u8 {
        let bit = |present: bool, bit: u8| if present { bit } else { 0 };
        bit(self.marks.is_some(), OPT_MARKS)
            | bit(self.flags != 0, OPT_FLAGS)
            | bit(self.expires_ms != 0, OPT_EXPIRY)
            | bit(self.expires_ms % 1000 != 0, OPT_MILLIS)
            | bit(self.token.is_some(), OPT_TOKEN)
            | bit(self.coded, OPT_CODED)
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
        (head_bytes(shape_of(options), self.key.len(), options) + self.value.len())
            .next_multiple_of(4)
    }
}

/// The header's OPTIONS and MARKED for these options.
#[inline(always)]
fn shape_of(options: u8) -> u32 {
    match options {
        0 => 0,
        OPT_MARKS => Header::MARKED,
        _ => Header::OPTIONS,
    }
}

/// Bytes before the value of a small item.
#[inline(always)]
fn head_bytes(shape: u32, key_bytes: usize, options: u8) -> usize {
    match shape {
        0 => 4 + key_bytes,
        _ => key_end(shape, key_bytes) + field_bytes(options),
    }
}

/// Where the optional fields of a small item start.
#[inline(always)]
fn key_end(shape: u32, key_bytes: usize) -> usize {
    (key_at(shape) + key_bytes).next_multiple_of(4)
}

#[inline(always)]
fn key_at(shape: u32) -> usize {
    match shape & Header::OPTIONS {
        0 => 4,
        _ => 5,
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
    /// A small record without optional fields, but for the marks.
    #[inline(always)]
    pub(crate) fn is_bare(&self) -> bool {
        self.small && self.options & !OPT_MARKS == 0
    }

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

#[inline(always)]
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
}
