//! Writing a record, and the steps by which its header changes hands.

use super::{
    field_bytes, key_at, key_end, shape_of, token_bit, Fields, Header, Item, Kind, Measured,
    Record, HOLE, HOLE_PREFIX, LONG_PREFIX, OPT_CODED, PLAIN_MAX, SLACK_MAX,
};
use crate::location::UNIT_BYTES;
use crate::models_switch::{mutant, Mutant};
use crate::sync::Ordering;

impl Item<'_> {
    /// Writes a new small item and its header. The place is not yet published.
    #[inline]
    pub(crate) fn write_small(&self, new: &Measured<'_>) {
        let (record, options) = (&new.record, new.options);
        let shape = shape_of(options);
        self.region.copy_in(self.at + key_at(shape), record.key);
        let bits = self.write_tail(record, options, shape, new.bytes)
            | token_bit(new)
            | (record.key.len() as u32) << Header::KEY_SHIFT
            | (new.bytes as u32 / 4) << Header::UNITS_SHIFT;
        self.word().store(bits, Ordering::Release);
    }

    /// Options byte, fields, value and slack: all that an overwrite replaces. Returns the header bits
    /// OPTIONS, MARKED and SLACK.
    #[inline]
    fn write_tail(&self, record: &Record, options: u8, shape: u32, reserved: usize) -> u32 {
        let mut bits = shape;
        let value_at = if shape != 0 {
            if shape == Header::OPTIONS {
                self.region.copy_in(self.at + 4, &[options]);
            }
            let fields_at = key_end(shape, record.key.len());
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
    pub(super) fn write_slack(&self, reserved: usize, slack: usize) {
        debug_assert!(slack <= SLACK_MAX);
        if slack <= 255 {
            self.region.copy_in(self.at + reserved - 1, &[slack as u8]);
        } else {
            let count = (slack as u16).to_le_bytes();
            self.region
                .copy_in(self.at + reserved - 3, &[count[0], count[1], 0]);
        }
    }

    /// Takes over all bytes of a record that stands still, as its first version. The place is not yet published.
    pub(crate) fn copy_from(&self, from: Item<'_>, header: Header, reserved: usize) {
        let (source, rest) = (from.at + UNIT_BYTES, reserved - UNIT_BYTES);
        self.region.copy_within(source, self.at + UNIT_BYTES, rest);
        let first = 0xFF << Header::VERSION_SHIFT;
        let fresh = header.0 & !(first | Header::TOKEN_OUT | Header::FROZEN | Header::LOCK);
        self.word().store(fresh, Ordering::Release);
    }

    /// The version of a record that was just written where others lay before. It is not yet published.
    pub(crate) fn begin_at(&self, version: u32) {
        let word = self.word();
        let first = word.load(Ordering::Relaxed) & !(0xFF << Header::VERSION_SHIFT);
        word.store(first | version << Header::VERSION_SHIFT, Ordering::Release);
    }

    /// Whether `new` (of the same key) can overwrite this small item where it lies.
    #[inline(always)]
    pub(crate) fn fits(&self, header: Header, new: &Measured<'_>) -> bool {
        if header.is_long() || header.is_last_version() {
            return false;
        }
        let reserved = 4 * header.units();
        let shape = header.shape();
        if shape == shape_of(new.options) {
            // Within the padding of the same size, or with slack that can be recorded.
            return new.small && new.bytes <= reserved && reserved - new.bytes <= SLACK_MAX - 4;
        }
        // An item with an options byte takes any options; where the key lies cannot change.
        let head = key_end(shape, new.record.key.len()) + field_bytes(new.options);
        let needed = head + new.record.value.len();
        shape == Header::OPTIONS && needed <= reserved && reserved - needed <= SLACK_MAX
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
        let tail = self.write_tail(&new.record, new.options, header.shape(), reserved);
        let keep = header.0 & !(Header::SLACK | Header::TOKEN_OUT);
        let next = (keep | tail | token_bit(new)) + (1 << Header::VERSION_SHIFT);
        self.word().store(next, Ordering::Release);
    }

    /// Stops all change of the item, so that its bytes can be used to publish a successor.
    pub(crate) fn try_freeze(&self, header: Header) -> bool {
        mutant(Mutant::NoFreezeNorDrainingCheck)
            || !header.busy()
                && self.swap_header(header, header.0 | Header::FROZEN, Ordering::Acquire)
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
        self.write_chunk(owner, number, bytes, reserved, 0);
    }

    /// The same of a chunk whose bytes are a coded form.
    pub(crate) fn write_coded_chunk_head(
        &self,
        owner: u64,
        number: u32,
        bytes: usize,
        reserved: usize,
    ) {
        self.write_chunk(owner, number, bytes, reserved, OPT_CODED);
    }

    fn write_chunk(&self, owner: u64, number: u32, bytes: usize, reserved: usize, options: u8) {
        let words = [
            (4, reserved as u32 / 4),
            (8, bytes as u32),
            (12, (Kind::Chunk as u32) << 8 | u32::from(options)),
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
            self.write_long_filler(reserved, Kind::Filler as u32, 0);
        }
    }

    fn write_long_filler(&self, reserved: usize, kind: u32, stamp: u32) {
        self.region
            .u32(self.at + 4)
            .store(reserved as u32 / 4, Ordering::Relaxed);
        self.region.u32(self.at + 8).store(stamp, Ordering::Relaxed);
        self.region
            .u32(self.at + 12)
            .store(kind << 8, Ordering::Relaxed);
        self.word().store(0, Ordering::Release);
    }

    /// Makes `reserved` dead bytes a filler whose whole pages, from `HOLE_PREFIX` on, are given back; they are until
    /// their segment's next mending.
    pub(crate) fn write_hole(&self, reserved: usize, mends: u32) {
        debug_assert!(reserved > HOLE_PREFIX && reserved % 4 == 0);
        self.write_long_filler(reserved, HOLE, mends);
    }

    /// Whether it is such a filler, not mended since.
    pub(crate) fn is_hole(&self, mends: u32) -> bool {
        self.header().is_long()
            && self.region.u32(self.at + 8).load(Ordering::Relaxed) == mends
            && self.region.u32(self.at + 12).load(Ordering::Relaxed) >> 8 & 0xFF == HOLE
    }
}
