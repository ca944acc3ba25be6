//! A large value of which chunks lie coded: looked over before the first byte is handed out, then decoded chunk by chunk.
//!
//! ```text
//! held --prove: the check of every chunk--> CodedChunks --make_ready(at), ready_from(at)--> bytes, a chunk at a time
//!                                                       --append_part--> straight into the caller's buffer
//! ```
//! Must hold: its segments are held as long as it lives, and so are the dictionaries it needs, whatever becomes of the item.

use super::value::Held;
use crate::codec::Dictionary;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

pub(super) struct CodedChunks {
    pub(super) held: Held,
    chunks: Vec<Chunk>,
    /// The one chunk that is decoded for whoever reads in order, and its number.
    ready: Vec<u8>,
    ready_number: usize,
    /// Bytes of the segments it lies in.
    kept_bytes: usize,
}

struct Chunk {
    /// Where in the value it ends.
    end: usize,
    /// What it was coded with; None: it lies as it is.
    dictionary: Option<Arc<Dictionary>>,
}

impl CodedChunks {
    /// Looks all chunks over, of which some are `coded`. None: the bytes of one were changed, or its dictionary has gone. No
    /// pin may be held.
    pub(super) fn prove(held: Held, coded: &[bool], value_bytes: usize) -> Option<CodedChunks> {
        let compress = &held.inner.store.compress;
        let (mut chunks, mut end) = (Vec::with_capacity(coded.len()), 0);
        for (number, &coded) in coded.iter().enumerate() {
            let stored = held.stored(number);
            let dictionary = match coded {
                true => {
                    let sound = compress.sound(stored)?;
                    end += sound.plain_bytes;
                    Some(sound.dictionary)
                }
                false => {
                    end += stored.len();
                    None
                }
            };
            chunks.push(Chunk { end, dictionary });
        }
        (end == value_bytes).then(|| CodedChunks {
            kept_bytes: held.segment_bytes(),
            held,
            chunks,
            ready: Vec::new(),
            ready_number: usize::MAX,
        })
    }

    pub(super) fn pieces(&self) -> usize {
        self.chunks.len()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.ready.capacity()
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.kept_bytes
    }

    /// Where in the value a chunk lies.
    fn range(&self, number: usize) -> Range<usize> {
        let start = number.checked_sub(1).map_or(0, |it| self.chunks[it].end);
        start..self.chunks[number].end
    }

    /// The chunk that byte `at` lies in.
    fn number_at(&self, at: usize) -> usize {
        self.chunks.partition_point(|chunk| chunk.end <= at)
    }

    /// Appends a chunk. False, nothing appended: memory was changed since it was proved.
    fn append(&self, number: usize, buffer: &mut Vec<u8>) -> bool {
        let (stored, range) = (self.held.stored(number), self.range(number));
        let Some(dictionary) = &self.chunks[number].dictionary else {
            buffer.extend_from_slice(stored);
            return true;
        };
        let compress = &self.held.inner.store.compress;
        let before = buffer.len();
        let done = compress.decode_chunk(dictionary, stored, buffer)
            && buffer.len() - before == range.len();
        if !done {
            buffer.truncate(before);
            compress.count_damaged();
        }
        done
    }

    /// Appends the bytes of the value that lie in `part`. False, nothing appended: as `append`.
    pub(super) fn append_part(&self, part: Range<usize>, buffer: &mut Vec<u8>) -> bool {
        if part.is_empty() {
            return true;
        }
        let before = buffer.len();
        let mut number = self.number_at(part.start);
        while number < self.chunks.len() && self.range(number).start < part.end {
            let (range, at) = (self.range(number), buffer.len());
            if !self.append(number, buffer) {
                buffer.truncate(before);
                return false;
            }
            buffer.truncate(at + part.end.min(range.end) - range.start);
            buffer.drain(at..at + part.start.saturating_sub(range.start));
            number += 1;
        }
        true
    }

    /// One chunk; None: past the last, or as `append`.
    pub(super) fn piece(&self, number: usize) -> Option<Cow<'_, [u8]>> {
        if self.chunks.get(number)?.dictionary.is_none() {
            return Some(Cow::Borrowed(self.held.stored(number)));
        }
        let mut piece = Vec::with_capacity(self.range(number).len());
        self.append(number, &mut piece).then_some(Cow::Owned(piece))
    }

    /// Decodes the chunk of byte `at`, instead of the one that was. False: as `append`.
    pub(super) fn make_ready(&mut self, at: usize) -> bool {
        let number = self.number_at(at);
        let is_plain = |chunk: &Chunk| chunk.dictionary.is_none();
        if number == self.ready_number || self.chunks.get(number).is_none_or(is_plain) {
            return true;
        }
        let mut ready = std::mem::take(&mut self.ready);
        let bytes = self.range(number).len();
        if ready.capacity() < bytes {
            // What is charged is what is needed.
            drop(ready);
            ready = Vec::with_capacity(bytes);
        }
        ready.clear();
        let done = self.append(number, &mut ready);
        self.ready = ready;
        self.ready_number = if done { number } else { usize::MAX };
        done
    }

    /// The bytes from `at` to the end of its chunk; none, where that one is not ready.
    pub(super) fn ready_from(&self, at: usize) -> &[u8] {
        let number = self.number_at(at);
        let bytes = match self.chunks.get(number) {
            Some(chunk) if chunk.dictionary.is_none() => self.held.stored(number),
            Some(_) if number == self.ready_number => &self.ready,
            _ => return &[],
        };
        &bytes[at - self.range(number).start..]
    }
}
