//! Values larger than a quarter of a segment: written by streaming, published when whole.
//!
//! The value is a list of chunks, each a record of its own, and a head that holds key and table. Until
//! the head is published the segments written to are counted (`writers`) and not drained. Chunks are cut
//! to fill the open segment's tail, so that large values waste no more room than small ones.

use super::options::{SetOptions, Stored};
use super::write::{condition, Condition};
use super::{Cache, Inner};
use crate::error::Error;
use crate::item::{long_bytes, Fields, Kind, Measured, Record, CHUNK_PREFIX};
use crate::location::Place;
use crate::metrics::Counter;
use crate::policy::Pool;
use crate::sync::Ordering;
use crate::writer::Reserved;
use std::sync::Arc;

/// Values up to so many bytes are gathered on the heap; larger ones go straight to where they will lie.
const GATHERED_MAX: usize = 8 << 10;
/// A chunk is not made smaller than this share of a segment to fill a tail.
const TAIL_SHARE: usize = 16;

/// A value on its way in. Dropped before `commit`, it never was; its room is dead until reclaimed.
pub struct Writer {
    inner: Arc<Inner>,
    key: Vec<u8>,
    fields: Fields,
    condition: Condition,
    want_token: bool,
    total: usize,
    written: usize,
    body: Body,
    /// Where it goes, once that was asked.
    pool: Option<Pool>,
    /// A plain `set`: a failure removes the old value.
    removes_old: bool,
}

enum Body {
    /// Gathered here.
    Small(Vec<u8>),
    /// Fits one piece, which is taken with the first byte.
    Piece(Option<Piece>),
    Chunks(Vec<Chunk>),
}

struct Piece {
    place: Place,
    reserved: usize,
    value_at: usize,
}

struct Chunk {
    place: Place,
    bytes: usize,
    filled: usize,
    reserved: usize,
}

impl Cache {
    /// Starts to store a value of exactly `value_bytes` bytes that arrives in pieces. Takes room only as
    /// bytes arrive. Refuses what is too large at once (and, in mode `Set`, removes the old value).
    pub fn write(
        &self,
        key: &[u8],
        value_bytes: usize,
        options: &SetOptions,
    ) -> Result<Writer, Error> {
        self.inner.begin_write(key)?;
        if let Err(error) = self.inner.check_value(value_bytes as u64) {
            self.refuse_over_limit(key, value_bytes, options.mode);
            return Err(error);
        }
        let fields = self.inner.fields(options);
        let condition = condition(options.mode);
        let mut writer = self.inner.writer(key, value_bytes, fields, condition);
        writer.removes_old = options.mode == super::options::Mode::Set;
        writer.want_token = options.want_token;
        Ok(writer)
    }

    pub(crate) fn set_large(
        &self,
        key: &[u8],
        value: &[u8],
        options: &SetOptions,
    ) -> Result<Stored, Error> {
        let mut writer = self.write(key, value.len(), options)?;
        writer.write(value)?;
        writer.commit()
    }
}

impl Inner {
    fn writer(
        self: &Arc<Inner>,
        key: &[u8],
        total: usize,
        fields: Fields,
        condition: Condition,
    ) -> Writer {
        let long = long_bytes(key.len(), &fields, total, 4);
        let one_piece = long <= self.store.segments.bytes() / 4;
        Writer {
            inner: self.clone(),
            key: key.to_vec(),
            fields,
            condition,
            want_token: false,
            total,
            written: 0,
            body: match one_piece {
                true if total <= GATHERED_MAX => Body::Small(Vec::with_capacity(total)),
                true => Body::Piece(None),
                false => Body::Chunks(Vec::new()),
            },
            pool: None,
            removes_old: false,
        }
    }

    /// Where a value of `bytes` belongs: where the one it replaces lies, else where the policy admits it. Uses up
    /// its ghost. Refused, if it is too large a part of a full cache to be let in this time.
    fn pool_for(&self, key: &[u8], bytes: usize) -> Result<Pool, Error> {
        let store = &self.store;
        let hash = store.hash(key);
        {
            let pin = store.pin();
            let pool = match store.find(hash, key) {
                Some(found) => Some(store.segments.of(found.slot.place()).pool()),
                None => store.admit_large(&pin, hash, bytes),
            };
            if let Some(pool) = pool {
                return Ok(pool);
            }
        }
        self.refused(hash, bytes);
        Err(self.no_room())
    }

    pub(crate) fn large_writer(
        self: &Arc<Inner>,
        key: &[u8],
        total: usize,
        fields: Fields,
        condition: Condition,
    ) -> Result<Writer, Error> {
        let mut writer = self.writer(key, total, fields, condition);
        writer.want_token = true;
        Ok(writer)
    }

    /// Room for a long record of `bytes`, its segment counted as being written to.
    fn reserve_long(&self, pool: Pool, bytes: usize) -> Result<Place, Error> {
        // A value that came in many short chunks may have a table that no segment holds, however much is freed.
        if bytes > self.store.segments.bytes() {
            return Err(self.no_room());
        }
        loop {
            let pin = self.store.pin();
            if let Reserved::At(place) = self.store.reserve(&pin, pool, bytes, true) {
                let segment = self.store.segments.of(place);
                segment.writers.fetch_add(1, Ordering::SeqCst);
                // A walk steps over it until it is a record.
                self.store.item(place).write_filler(bytes);
                return Ok(place);
            }
            drop(pin);
            if !self.reclaim.make_room(&self.store) {
                return Err(self.no_room());
            }
        }
    }

    fn no_room(&self) -> Error {
        let pin = self.store.pin();
        self.store.counters.one(&pin, Counter::RefusedRoom);
        Error::NoRoom
    }

    /// A long record of one piece, its head written, its value yet to come.
    fn new_piece(
        &self,
        key: &[u8],
        fields: &Fields,
        total: usize,
        pool: Pool,
    ) -> Result<Piece, Error> {
        let reserved = long_bytes(key.len(), fields, total, 4);
        let place = self.reserve_long(pool, reserved)?;
        let item = self.store.item(place);
        item.write_long_head(Kind::Plain, key, fields, total, reserved);
        Ok(Piece {
            place,
            reserved,
            value_at: item.value_offset(&item.layout(item.header())),
        })
    }

    /// The token of a long record about to be published, marked as handed out if it is wanted.
    fn publish_token(&self, place: Place, fields: &Fields, wanted: bool) -> Option<u64> {
        if !wanted {
            return None;
        }
        let item = self.store.item(place);
        let _ = item.mark_token_out(item.header());
        let own = fields.token;
        Some(own.unwrap_or_else(|| self.store.segments.token(place, 0)))
    }

    fn end_long_write(&self, place: Place) {
        let segment = self.store.segments.of(place);
        segment.writers.fetch_sub(1, Ordering::SeqCst);
    }

    /// Bytes left in the open segment of this core's lane, if that is worth a chunk.
    fn tail_bytes(&self, pool: Pool) -> Option<usize> {
        let segment = self.store.segments.bytes();
        let (_, used) = self.store.lanes.of(pool).open()?;
        let left = (segment - used).saturating_sub(8);
        (left >= segment / TAIL_SHARE).then_some(left)
    }
}

impl Writer {
    /// Bytes still to be written.
    pub fn remaining(&self) -> usize {
        self.total - self.written
    }

    /// Takes the next bytes. Panics if more arrive than were announced. May reclaim; copies once.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), Error> {
        assert!(
            bytes.len() <= self.remaining(),
            "more bytes than the {} announced",
            self.total
        );
        self.written += bytes.len();
        while !bytes.is_empty() {
            let taken = self.take(bytes).inspect_err(|_| self.forget_old())?;
            bytes = &bytes[taken..];
        }
        Ok(())
    }

    /// Asked once for the whole value, so that it is admitted as one item of its size.
    fn pool(&mut self) -> Result<Pool, Error> {
        if let Some(pool) = self.pool {
            return Ok(pool);
        }
        let bytes = long_bytes(self.key.len(), &self.fields, self.total, 4);
        let pool = self.inner.pool_for(&self.key, bytes)?;
        self.pool = Some(pool);
        Ok(pool)
    }

    fn take(&mut self, bytes: &[u8]) -> Result<usize, Error> {
        let left = self.remaining() + bytes.len();
        let pool = match &self.body {
            // Stored as one record at the end, and admitted then.
            Body::Small(_) => Pool::Probation,
            Body::Piece(_) | Body::Chunks(_) => self.pool()?,
        };
        let chunks = match &mut self.body {
            Body::Small(value) => {
                value.extend_from_slice(bytes);
                return Ok(bytes.len());
            }
            Body::Piece(piece) => {
                let at = match piece {
                    Some(piece) => piece.value_at,
                    None => {
                        let new =
                            self.inner
                                .new_piece(&self.key, &self.fields, self.total, pool)?;
                        let at = new.value_at;
                        *piece = Some(new);
                        at
                    }
                };
                let filled = self.total - left;
                self.inner.store.region().copy_in(at + filled, bytes);
                return Ok(bytes.len());
            }
            Body::Chunks(chunks) => chunks,
        };
        if chunks
            .last()
            .is_none_or(|chunk| chunk.filled == chunk.bytes)
        {
            let number = chunks.len() as u32;
            let chunk = new_chunk(&self.inner, pool, &self.key, number, left)?;
            chunks.push(chunk);
        }
        let chunk = chunks.last_mut().expect("just pushed");
        let taken = bytes.len().min(chunk.bytes - chunk.filled);
        let at = chunk.place.offset() + CHUNK_PREFIX + chunk.filled;
        self.inner.store.region().copy_in(at, &bytes[..taken]);
        chunk.filled += taken;
        Ok(taken)
    }

    /// Publishes the value. Panics if bytes are missing.
    pub fn commit(mut self) -> Result<Stored, Error> {
        assert_eq!(self.remaining(), 0, "bytes are missing");
        // A flush that fell due while the bytes arrived goes first: the value is written now.
        self.inner.carry_out_flush();
        let stored = match &self.body {
            Body::Small(value) => {
                let mut record = Measured::new(Record {
                    key: &self.key,
                    fields: self.fields,
                    value,
                });
                record.token_out = self.want_token;
                self.inner.store_record(&record, self.condition)
            }
            Body::Piece(_) => self.commit_piece(),
            Body::Chunks(_) => self.commit_chunks(),
        };
        if stored.is_err() {
            self.forget_old();
        }
        stored
    }

    fn commit_piece(&mut self) -> Result<Stored, Error> {
        let inner = self.inner.clone();
        let Body::Piece(Some(piece)) = &self.body else {
            unreachable!("a value of one piece is longer than what is gathered");
        };
        let pool = inner.store.segments.of(piece.place).pool();
        let token = inner.publish_token(piece.place, &self.fields, self.want_token);
        let expires_ms = self.fields.expires_ms;
        let stored = inner.publish_written(
            &self.key,
            piece.place,
            piece.reserved,
            expires_ms,
            self.condition,
        )?;
        let Some(stored) = stored else {
            // A flush came while the bytes arrived: the value is written now, so it must lie behind the mark.
            return self.commit_anew();
        };
        if !stored.is_stored() {
            return Ok(stored);
        }
        inner.note_size(piece.reserved);
        inner.end_long_write(piece.place);
        self.body = Body::Piece(None);
        inner.after_append(pool);
        Ok(Stored::Stored(token))
    }

    /// Copies the value to a new place and publishes it there; the old one is given up with the writer.
    fn commit_anew(&mut self) -> Result<Stored, Error> {
        let Body::Piece(Some(piece)) = &self.body else {
            unreachable!("only called for a piece");
        };
        let mut value = Vec::new();
        let region = self.inner.store.region();
        region.append_out(piece.value_at, self.total, &mut value);
        let mut record = Measured::new(Record {
            key: &self.key,
            fields: self.fields,
            value: &value,
        });
        record.token_out = self.want_token;
        self.inner.store_record(&record, self.condition)
    }

    fn commit_chunks(&mut self) -> Result<Stored, Error> {
        loop {
            // None: a flush came before the head was published. The next one lies behind the mark.
            if let Some(stored) = self.publish_chunks()? {
                return Ok(stored);
            }
        }
    }

    fn publish_chunks(&mut self) -> Result<Option<Stored>, Error> {
        let inner = self.inner.clone();
        let store = &inner.store;
        let pool = self.pool()?;
        let Body::Chunks(chunks) = &mut self.body else {
            unreachable!("only called for chunks");
        };
        let bytes = long_bytes(self.key.len(), &self.fields, 8 * chunks.len(), 8);
        let place = inner.reserve_long(pool, bytes)?;
        let head = store.item(place);
        head.write_long_head(Kind::Chunked, &self.key, &self.fields, self.total, bytes);
        {
            let _pin = store.pin();
            let seen = store.see(place).expect("nobody else knows this place");
            for (number, chunk) in chunks.iter().enumerate() {
                store
                    .chunk_word(&seen, number)
                    .store(chunk.place.raw(), Ordering::Release);
            }
        }
        let token = inner.publish_token(place, &self.fields, self.want_token);
        let stored = inner.publish_written(
            &self.key,
            place,
            bytes,
            self.fields.expires_ms,
            self.condition,
        );
        let published = matches!(stored, Ok(Some(Stored::Stored(_))));
        if published {
            inner.note_size(self.total);
            for chunk in chunks.drain(..) {
                inner.end_long_write(chunk.place);
            }
        } else {
            store.bury(place, bytes, 0);
        }
        inner.end_long_write(place);
        inner.after_append(pool);
        Ok(stored?.map(|stored| match stored {
            Stored::Stored(_) => Stored::Stored(token),
            other => other,
        }))
    }

    /// A refused `set` leaves no old value behind.
    fn forget_old(&self) {
        if self.removes_old {
            self.inner.delete(&self.key);
        }
    }
}

fn new_chunk(
    inner: &Arc<Inner>,
    pool: Pool,
    key: &[u8],
    number: u32,
    left: usize,
) -> Result<Chunk, Error> {
    let quarter = inner.store.segments.bytes() / 4;
    let most = inner
        .tail_bytes(pool)
        .map_or(quarter, |tail| tail.min(quarter));
    let bytes = left.min((most - CHUNK_PREFIX) & !7);
    let reserved = (CHUNK_PREFIX + bytes).next_multiple_of(8);
    let place = inner.reserve_long(pool, reserved)?;
    let owner = inner.store.hash(key);
    inner
        .store
        .item(place)
        .write_chunk_head(owner, number, bytes, reserved);
    let pin = inner.store.pin();
    inner
        .store
        .counters
        .add(&pin, Counter::InsertedBytes, reserved as u64);
    Ok(Chunk {
        place,
        bytes,
        filled: 0,
        reserved,
    })
}

impl Drop for Writer {
    fn drop(&mut self) {
        match &mut self.body {
            Body::Small(_) | Body::Piece(None) => {}
            Body::Piece(Some(piece)) => {
                self.inner.store.bury(piece.place, piece.reserved, 0);
                self.inner.end_long_write(piece.place);
            }
            Body::Chunks(chunks) => {
                for chunk in chunks.drain(..) {
                    self.inner.store.bury(chunk.place, chunk.reserved, 0);
                    self.inner.end_long_write(chunk.place);
                }
            }
        }
    }
}
