//! What a read hands out: facts about an item, and guards on its bytes.

use super::coded_chunks::CodedChunks;
use super::Inner;
use crate::item::{Fields, MarkWord, CHUNK_PREFIX};
use crate::segment::SegmentId;
use crate::sync::Ordering;
use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::Range;
use std::sync::Arc;

/// memcached's marks of an item, as they were before this read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Marks {
    /// Read at least once since it was stored.
    pub fetched: bool,
    /// Marked stale: the next reader may win the right to refresh it.
    pub stale: bool,
    /// Some reader has won that right.
    pub won: bool,
    /// The client sent the key in base64.
    pub base64: bool,
    /// Last access, seconds since the Unix epoch; refreshed at most once a minute.
    pub last_access_s: u32,
}

impl Marks {
    pub(crate) fn from_word(word: MarkWord) -> Marks {
        Marks {
            fetched: word.has(MarkWord::FETCHED),
            stale: word.has(MarkWord::STALE),
            won: word.has(MarkWord::WON),
            base64: word.has(MarkWord::BASE64),
            last_access_s: word.access_s(),
        }
    }

    pub(crate) fn flags(&self) -> u32 {
        let bit = |on: bool, bit: u32| if on { bit } else { 0 };
        bit(self.fetched, MarkWord::FETCHED)
            | bit(self.stale, MarkWord::STALE)
            | bit(self.won, MarkWord::WON)
            | bit(self.base64, MarkWord::BASE64)
    }
}

/// Facts about an item.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Meta {
    /// The client's flags.
    pub flags: u32,
    /// When it expires, Unix milliseconds; None: never.
    pub expires_at_ms: Option<u64>,
    /// The CAS token of this version, where it was asked for. Never repeats for a key.
    pub token: Option<u64>,
    /// Bytes of the value.
    pub value_bytes: usize,
    /// memcached's marks, in a cache that keeps them.
    pub marks: Option<Marks>,
    /// Bytes the item takes in its segment, header and padding included.
    pub stored_bytes: usize,
}

impl Meta {
    pub(crate) fn new(fields: &Fields, value_bytes: usize, stored_bytes: usize) -> Meta {
        Meta {
            flags: fields.flags,
            expires_at_ms: (fields.expires_ms != 0).then_some(fields.expires_ms),
            token: None,
            value_bytes,
            marks: fields.marks.map(Marks::from_word),
            stored_bytes,
        }
    }
}

/// What a batched read should do beside reading.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Want {
    /// Hand out the CAS token.
    pub token: bool,
    /// Record the access: memcached's fetched mark and last access, and the reclaim counter.
    pub mark: bool,
    /// Count a hit or a miss.
    pub count: bool,
}

impl Default for Want {
    fn default() -> Want {
        Want {
            token: false,
            mark: true,
            count: true,
        }
    }
}

/// Where a batched read puts what it finds.
///
/// For a value of at most `copy_max` bytes the engine calls `head`, appends the value to `buffer` and
/// calls `tail`. If a writer raced, the buffer is cut back to where it was before `head` and `head` is
/// called again. Larger values come as guards. Calls come in the order of the keys.
pub trait ReadSink {
    /// The buffer that values are appended to.
    fn buffer(&mut self) -> &mut Vec<u8>;
    /// Largest value to be copied, bytes.
    fn copy_max(&self) -> usize;
    /// The facts of item `index`, before its bytes. May be called more than once.
    fn head(&mut self, index: usize, meta: &Meta);
    /// The bytes are whole and in the buffer.
    fn tail(&mut self, index: usize, meta: &Meta);
    /// A large value, held.
    fn held(&mut self, index: usize, guard: Guard);
    /// Not there.
    fn miss(&mut self, index: usize);
    /// Whether the bytes of item `index` are wanted. Of a long one of which they are not they are not touched: `head` and
    /// `tail` are called with nothing between.
    fn wants_value(&self, _index: usize) -> bool {
        true
    }
    /// Asked before each key: false ends the batch, and the keys that are left are not looked at.
    fn wants_more(&self) -> bool {
        true
    }
}

/// A value that stays as it was read, whatever happens to the cache. Send.
///
/// Small values are copies in a pooled buffer; large ones are the cache's own bytes, whose segments cannot be reused
/// meanwhile: do not hoard guards of large values, they count against a cap (2 % of memory, or 16 MiB or an eighth of it
/// where that is more) above which writes may be refused.
///
/// A value of many pieces may lie compressed. Its bytes were checked when it was read, and each piece is decoded when it is
/// asked for. Should memory be changed in between, by whatever is broken then, that is noticed and counted, and the value
/// ends there: `chunks`, `to_vec` and `as_slice` bring fewer bytes than `len` says; `append_to` brings none.
pub struct Guard {
    meta: Meta,
    bytes: Bytes,
}

enum Bytes {
    Copied(Vec<u8>),
    Held(Held),
    /// A large value that lies compressed.
    Coded(Box<CodedChunks>),
}

/// Pieces of the item region, held by counts on their segments.
pub(super) struct Held {
    pub(super) inner: Arc<Inner>,
    pieces: Pieces,
}

impl Held {
    /// The bytes of a piece as they lie.
    pub(super) fn stored(&self, number: usize) -> &[u8] {
        let (offset, len) = self.pieces.all()[number];
        self.inner.store.region().settled(offset, len)
    }

    /// Bytes of the segments they lie in.
    pub(super) fn segment_bytes(&self) -> usize {
        let bytes = self.inner.store.segments.bytes();
        let of = |&(offset, _): &(usize, usize)| offset / bytes;
        let mut segments: Vec<usize> = self.pieces.all().iter().map(of).collect();
        segments.sort_unstable();
        segments.dedup();
        segments.len() * bytes
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        for &(offset, _) in self.pieces.all() {
            self.inner.release(offset);
        }
    }
}

/// Offset and length of each piece. Most held values lie in one: that takes no allocation.
pub(crate) enum Pieces {
    One((usize, usize)),
    Many(Vec<(usize, usize)>),
    /// Chunks of which some are coded, as said, and not yet looked over.
    Coded(Vec<(usize, usize)>, Vec<bool>),
}

impl Pieces {
    fn all(&self) -> &[(usize, usize)] {
        match self {
            Pieces::One(piece) => std::slice::from_ref(piece),
            Pieces::Many(pieces) | Pieces::Coded(pieces, _) => pieces,
        }
    }
}

/// Buffers kept by a thread for its next guards.
const POOL_MAX: usize = 8;
thread_local! {
    static POOL: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
}

pub(crate) fn pooled_buffer() -> Vec<u8> {
    POOL.try_with(|pool| pool.borrow_mut().pop())
        .ok()
        .flatten()
        .unwrap_or_default()
}

pub(crate) fn return_buffer(mut buffer: Vec<u8>) {
    if buffer.capacity() == 0 || buffer.capacity() > 2 * crate::item::PLAIN_MAX {
        return;
    }
    buffer.clear();
    let _ = POOL.try_with(|pool| {
        let mut pool = pool.borrow_mut();
        if pool.len() < POOL_MAX {
            pool.push(buffer);
        }
    });
}

impl Guard {
    pub(crate) fn copied(meta: Meta, value: Vec<u8>) -> Guard {
        Guard {
            meta,
            bytes: Bytes::Copied(value),
        }
    }

    /// Takes over holds that were counted for the segments of `pieces` (offset, length).
    pub(crate) fn held(meta: Meta, inner: Arc<Inner>, pieces: Pieces) -> Guard {
        Guard {
            meta,
            bytes: Bytes::Held(Held { inner, pieces }),
        }
    }

    /// Whether its pieces have not been looked over yet: see `proved`.
    pub(super) fn is_unproved(&self) -> bool {
        matches!(&self.bytes, Bytes::Held(held) if matches!(held.pieces, Pieces::Coded(..)))
    }

    /// The same with its pieces looked over, where that is to be done. None: the bytes of one were changed, or its dictionary
    /// has gone. No pin may be held.
    pub(super) fn proved(mut self) -> Option<Guard> {
        if !self.is_unproved() {
            return Some(self);
        }
        let bytes = std::mem::replace(&mut self.bytes, Bytes::Copied(Vec::new()));
        let Bytes::Held(mut held) = bytes else {
            return Some(self);
        };
        let Pieces::Coded(_, coded) = &mut held.pieces else {
            return Some(self);
        };
        let coded = std::mem::take(coded);
        let proved = CodedChunks::prove(held, &coded, self.meta.value_bytes)?;
        self.bytes = Bytes::Coded(Box::new(proved));
        Some(self)
    }

    /// Facts about the item.
    pub fn meta(&self) -> &Meta {
        &self.meta
    }

    /// Bytes of the value.
    pub fn len(&self) -> usize {
        self.meta.value_bytes
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes of the heap, outside the cache's budget, that this guard keeps: those of a copy (a value of one piece that was
    /// stored compressed is one, whatever its size), or of the piece that `make_ready` decoded.
    pub fn heap_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Copied(value) => value.capacity(),
            Bytes::Held(_) => 0,
            Bytes::Coded(coded) => coded.heap_bytes(),
        }
    }

    /// Bytes of the cache's memory that cannot be reused while it lives: all of the segments it lies in.
    pub fn kept_bytes(&self) -> usize {
        match &self.bytes {
            Bytes::Copied(_) => 0,
            Bytes::Held(held) => held.segment_bytes(),
            Bytes::Coded(coded) => coded.kept_bytes(),
        }
    }

    /// Whether some of its pieces lie compressed and are decoded when asked for.
    pub fn is_coded(&self) -> bool {
        matches!(self.bytes, Bytes::Coded(_))
    }

    /// The value's bytes in order, in as many pieces as it is stored. Copies nothing but pieces that lie compressed: each
    /// is decoded when it is its turn.
    pub fn chunks(&self) -> impl Iterator<Item = Cow<'_, [u8]>> {
        (0..self.pieces()).map_while(|number| self.piece(number))
    }

    /// How many pieces `chunks` has.
    pub fn pieces(&self) -> usize {
        match &self.bytes {
            Bytes::Copied(_) => 1,
            Bytes::Held(held) => held.pieces.all().len(),
            Bytes::Coded(coded) => coded.pieces(),
        }
    }

    /// One piece; None past the last, and where memory was changed (see above).
    pub fn piece(&self, number: usize) -> Option<Cow<'_, [u8]>> {
        match &self.bytes {
            Bytes::Coded(coded) => coded.piece(number),
            _ => self.lent(number).map(Cow::Borrowed),
        }
    }

    /// One piece of a value that does not lie compressed.
    fn lent(&self, number: usize) -> Option<&[u8]> {
        match &self.bytes {
            Bytes::Copied(value) => (number == 0).then_some(value),
            Bytes::Held(held) => (number < held.pieces.all().len()).then(|| held.stored(number)),
            Bytes::Coded(_) => None,
        }
    }

    /// Makes ready what `ready_from(at)` lends: where that piece lies compressed it is decoded, into the one buffer this guard
    /// has for it. False: memory was changed (see above).
    pub fn make_ready(&mut self, at: usize) -> bool {
        match &mut self.bytes {
            Bytes::Coded(coded) => coded.make_ready(at),
            _ => true,
        }
    }

    /// The value's bytes from `at` on, as far as they can be lent: all of them, or the rest of the one piece that
    /// `make_ready(at)` was called for where some lie compressed.
    pub fn ready_from(&self, at: usize) -> impl Iterator<Item = &[u8]> {
        let one = match &self.bytes {
            Bytes::Coded(coded) => coded.ready_from(at),
            _ => &[],
        };
        let mut skip = at;
        let lent = (0..self.pieces()).map_while(|number| self.lent(number));
        let lent = lent.map(move |piece| {
            let skipped = skip.min(piece.len());
            skip -= skipped;
            &piece[skipped..]
        });
        std::iter::once(one)
            .chain(lent)
            .filter(|piece| !piece.is_empty())
    }

    /// Appends the value to `buffer`. False, and nothing appended: memory was changed (see above).
    pub fn append_to(&self, buffer: &mut Vec<u8>) -> bool {
        if let Bytes::Coded(coded) = &self.bytes {
            buffer.reserve(self.len());
            return coded.append_part(0..self.len(), buffer);
        }
        self.ready_from(0)
            .for_each(|piece| buffer.extend_from_slice(piece));
        true
    }

    /// The same of the bytes that lie in `part`.
    pub(super) fn append_part(&self, part: Range<usize>, buffer: &mut Vec<u8>) -> bool {
        if let Bytes::Coded(coded) = &self.bytes {
            return coded.append_part(part, buffer);
        }
        let mut left = part.end.saturating_sub(part.start);
        for piece in self.ready_from(part.start) {
            let taken = left.min(piece.len());
            buffer.extend_from_slice(&piece[..taken]);
            left -= taken;
        }
        true
    }

    /// The value as one slice: borrowed when it is stored in one piece, else copied together.
    pub fn as_slice(&self) -> Cow<'_, [u8]> {
        match self.lent(0) {
            Some(one) if self.pieces() == 1 => Cow::Borrowed(one),
            _ => Cow::Owned(self.to_vec()),
        }
    }

    /// A copy of the value.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(self.len());
        self.chunks()
            .for_each(|piece| value.extend_from_slice(&piece));
        value
    }
}

impl PartialEq<[u8]> for Guard {
    fn eq(&self, other: &[u8]) -> bool {
        self.len() == other.len() && *self.as_slice() == *other
    }
}

impl std::fmt::Debug for Guard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guard")
            .field("meta", &self.meta)
            .field("pieces", &self.pieces())
            .finish()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Bytes::Copied(value) = &mut self.bytes {
            return_buffer(std::mem::take(value));
        }
    }
}

impl Inner {
    /// Counts a hold on the segment of `offset`. The caller is pinned.
    #[inline]
    pub(crate) fn hold(&self, offset: usize) {
        self.segment_at(offset).holds.fetch_add(1, Ordering::SeqCst);
    }

    pub(crate) fn release(&self, offset: usize) {
        self.segment_at(offset).holds.fetch_sub(1, Ordering::SeqCst);
    }

    fn segment_at(&self, offset: usize) -> &crate::segment::Segment {
        let id = SegmentId((offset / self.store.segments.bytes()) as u32);
        self.store.segment(id)
    }
}

/// Bytes of a chunk before its piece of the value.
pub(crate) const PIECE_AT: usize = CHUNK_PREFIX;
