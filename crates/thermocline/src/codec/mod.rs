//! Codecs: one value in, one coded value out, with a dictionary both sides know.
//!
//! Owns the coded form of a value (`frame`), LZ4 and zstd with prepared dictionaries, and their training.
//! Leaves to others which value is worth coding, and when.
//!
//! ```text
//! value --encode(dictionary, Method)--> coded value --decode(dictionary)--> value, or an error
//! coded value = id u8: codec 2 | dictionary 6 | plain bytes varint | check 24 bits | payload
//! ```
//! Must hold: decoding never panics and never hands out a value whose check differs, whatever the bytes and
//! whichever dictionary. LZ4 with a 64 KiB dictionary wins below 1 kB: ratio 2 to 5 on JSON of 150 to 500 B
//! where plain LZ4 and zstd reach 1.0 to 1.2, decoded in 0.05 to 0.3 us.

mod c_calls;
mod dictionary;
mod frame;
mod lz4;
#[doc(hidden)]
pub mod reference;
mod train;
mod zstd;

pub use dictionary::{Dictionary, ZSTD_VALUE_MIN};
pub(crate) use frame::hash_of;
pub use frame::{CodedHead, DecodeError, DICTIONARY_ID_MAX, PLAIN_BYTES_MAX};
pub use train::{train, training_bytes, with_zstd_tables, TrainError, SAMPLE_FACTOR};

use frame::Coding;

/// How hard to try.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// LZ4's fast search: about 1 us for 467 B.
    Lz4Fast,
    /// LZ4's hash chains, level 3: 30 to 70 % better ratio for 4 to 6 times the time; the same decoder.
    Lz4High,
    /// zstd at this level (1 to 19): pays above about 1 kB of wordy text; decodes 2 to 3 times slower.
    Zstd(i32),
}

/// Scratch of one encoding thread: LZ4's and zstd's working memory, made when first needed (16 KiB for
/// `Lz4Fast`, 256 KiB for `Lz4High`, about 250 KiB for `Zstd`).
#[derive(Default)]
pub struct Encoder {
    lz4: lz4::Working,
    zstd: zstd::Working,
    payload: Vec<u8>,
}

impl Encoder {
    /// Bytes of working memory an encoder comes to that uses LZ4's searches, and zstd where `zstd`.
    pub fn working_bytes(zstd: bool) -> usize {
        (16 << 10) + (256 << 10) + if zstd { 290 << 10 } else { 0 }
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Encoder").finish_non_exhaustive()
    }
}

impl Encoder {
    /// An encoder without working memory yet.
    pub fn new() -> Encoder {
        Encoder::default()
    }

    /// Appends the coded form of `value` to `coded`; false, and nothing appended, where it would take more
    /// than `most` bytes or the value is longer than [`PLAIN_BYTES_MAX`].
    ///
    /// A value of one repeated byte takes one byte beside the head, whatever the method.
    pub fn encode(
        &mut self,
        dictionary: &Dictionary,
        method: Method,
        value: &[u8],
        most: usize,
        coded: &mut Vec<u8>,
    ) -> bool {
        if value.is_empty() || value.len() > PLAIN_BYTES_MAX {
            return false;
        }
        self.payload.clear();
        let coding = if frame::is_same_filled(value) {
            self.payload.push(value[0]);
            Coding::SameFilled
        } else {
            self.compress(dictionary, method, value)
        };
        let head = frame::Head::of(coding, dictionary.id(), value);
        if head.bytes() + self.payload.len() > most {
            return false;
        }
        head.append(coded);
        coded.extend_from_slice(&self.payload);
        true
    }

    fn compress(&mut self, dictionary: &Dictionary, method: Method, value: &[u8]) -> Coding {
        match method {
            Method::Lz4Fast => {
                self.lz4.fast(dictionary.lz4(), value, &mut self.payload);
                Coding::Lz4Fast
            }
            Method::Lz4High => {
                self.lz4.high(dictionary.lz4(), value, &mut self.payload);
                Coding::Lz4High
            }
            Method::Zstd(level) => {
                let prepared = dictionary.zstd_encoder(level);
                self.zstd.compress(prepared, value, &mut self.payload);
                Coding::Zstd
            }
        }
    }
}

/// Scratch of one decoding thread (zstd's alone: 96 KiB, made when first needed).
#[derive(Default)]
pub struct Decoder {
    zstd: zstd::Reading,
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decoder").finish_non_exhaustive()
    }
}

impl Decoder {
    /// A decoder without working memory yet.
    pub fn new() -> Decoder {
        Decoder::default()
    }

    /// Appends the value behind `coded` to `value`. On an error nothing is appended: the bytes were cut or
    /// changed, or `dictionary` is not the one they were coded with.
    pub fn decode(
        &mut self,
        dictionary: &Dictionary,
        coded: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let head = CodedHead::read(coded)?;
        if head.dictionary != dictionary.id() && head.coding != Coding::SameFilled {
            return Err(DecodeError::OtherDictionary);
        }
        let before = value.len();
        let done = self.fill(dictionary, &head, &coded[head.bytes..], value);
        let checked = done.and_then(|()| head.check(&value[before..]));
        if checked.is_err() {
            value.truncate(before);
        }
        checked
    }

    fn fill(
        &mut self,
        dictionary: &Dictionary,
        head: &CodedHead,
        payload: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<(), DecodeError> {
        let before = value.len();
        match head.coding {
            Coding::SameFilled => {
                let [byte] = payload else {
                    return Err(DecodeError::Corrupt);
                };
                value.resize(before + head.plain_bytes, *byte);
                Ok(())
            }
            Coding::Lz4Fast | Coding::Lz4High => {
                lz4::decode(dictionary.bytes(), payload, head.plain_bytes, value)
            }
            Coding::Zstd => {
                value.resize(before + head.plain_bytes, 0);
                let prepared = dictionary.zstd_decoder();
                self.zstd
                    .decompress(prepared, payload, &mut value[before..])
            }
        }
    }
}

#[cfg(test)]
mod tests;
