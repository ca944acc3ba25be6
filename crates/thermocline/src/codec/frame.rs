//! The coded form of a value: which codec, which dictionary, how long it was, and a check of what it was.
//!
//! The check is of the plain value, so a wrong dictionary is found as surely as a changed byte: 24 bits let
//! one damaged value in 16 million through; a wider one would cost 1 % of the items of 100 B.

use rapidhash::v3::{rapidhash_v3_inline, DEFAULT_RAPID_SECRETS};

/// Longest value that is coded in one piece, bytes: a quarter of the largest segment. Longer values are stored in chunks
/// no longer than that, and each is coded alone.
pub const PLAIN_BYTES_MAX: usize = 512 << 10;
/// The largest number a dictionary can have.
pub const DICTIONARY_ID_MAX: u8 = 63;
/// Bytes of the check.
const CHECK_BYTES: usize = 3;
const CHECK_MASK: u32 = 0xFF_FFFF;

/// Why a coded value could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecodeError {
    /// Cut short, changed, or coded with other content under the same dictionary number.
    Corrupt,
    /// Coded with a dictionary of another number.
    OtherDictionary,
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DecodeError::Corrupt => "the coded value is damaged",
            DecodeError::OtherDictionary => "the value was coded with another dictionary",
        })
    }
}

impl std::error::Error for DecodeError {}

/// What the payload is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Coding {
    Lz4Fast = 0,
    Zstd = 1,
    /// One byte, repeated.
    SameFilled = 2,
    /// The same form as `Lz4Fast`, better searched: nothing is gained by coding it again.
    Lz4High = 3,
}

/// The head of a coded value, as read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodedHead {
    pub(super) coding: Coding,
    /// Number of the dictionary it was coded with.
    pub dictionary: u8,
    /// Bytes of the value when decoded.
    pub plain_bytes: usize,
    check: u32,
    /// Bytes of this head.
    pub(super) bytes: usize,
}

impl CodedHead {
    /// Reads the head of a coded value. Copies and allocates nothing.
    pub fn read(coded: &[u8]) -> Result<CodedHead, DecodeError> {
        let (&id, rest) = coded.split_first().ok_or(DecodeError::Corrupt)?;
        let coding = match id >> 6 {
            0 => Coding::Lz4Fast,
            1 => Coding::Zstd,
            2 => Coding::SameFilled,
            _ => Coding::Lz4High,
        };
        let (plain_bytes, length_bytes) = read_length(rest).ok_or(DecodeError::Corrupt)?;
        let check = rest.get(length_bytes..length_bytes + CHECK_BYTES);
        let check = check.ok_or(DecodeError::Corrupt)?;
        Ok(CodedHead {
            coding,
            dictionary: id & DICTIONARY_ID_MAX,
            plain_bytes,
            check: u32::from_le_bytes([check[0], check[1], check[2], 0]),
            bytes: 1 + length_bytes + CHECK_BYTES,
        })
    }

    /// Coded by LZ4's fast search: the high one would make it shorter.
    pub fn is_fast(&self) -> bool {
        self.coding == Coding::Lz4Fast
    }

    /// Which codec: "lz4", "zstd" or "same".
    pub fn codec(&self) -> &'static str {
        match self.coding {
            Coding::Lz4Fast | Coding::Lz4High => "lz4",
            Coding::Zstd => "zstd",
            Coding::SameFilled => "same",
        }
    }

    pub(super) fn check(&self, value: &[u8]) -> Result<(), DecodeError> {
        match value.len() == self.plain_bytes && check_of(value) == self.check {
            true => Ok(()),
            false => Err(DecodeError::Corrupt),
        }
    }
}

/// A head to be written.
pub(super) struct Head {
    id: u8,
    plain_bytes: usize,
    check: u32,
}

impl Head {
    pub(super) fn of(coding: Coding, dictionary: u8, value: &[u8]) -> Head {
        assert!(dictionary <= DICTIONARY_ID_MAX && value.len() <= PLAIN_BYTES_MAX);
        Head {
            id: (coding as u8) << 6 | dictionary,
            plain_bytes: value.len(),
            check: check_of(value),
        }
    }

    pub(super) fn bytes(&self) -> usize {
        1 + length_bytes(self.plain_bytes) + CHECK_BYTES
    }

    pub(super) fn append(&self, coded: &mut Vec<u8>) {
        coded.push(self.id);
        let mut left = self.plain_bytes;
        while left >= 0x80 {
            coded.push(left as u8 | 0x80);
            left >>= 7;
        }
        coded.push(left as u8);
        coded.extend_from_slice(&self.check.to_le_bytes()[..CHECK_BYTES]);
    }
}

/// Whether a value is one byte repeated (of two or more: a single byte gains nothing).
pub(super) fn is_same_filled(value: &[u8]) -> bool {
    value.len() > 1 && value[1..] == value[..value.len() - 1]
}

fn check_of(value: &[u8]) -> u32 {
    hash_of(value) as u32 & CHECK_MASK
}

/// What checks are made of: a tenth of the time of a CRC, which was a quarter of a decode of 221 B.
#[inline]
pub(crate) fn hash_of(bytes: &[u8]) -> u64 {
    rapidhash_v3_inline::<true, false, true>(bytes, &DEFAULT_RAPID_SECRETS)
}

fn length_bytes(plain_bytes: usize) -> usize {
    match plain_bytes {
        0..=0x7F => 1,
        0x80..=0x3FFF => 2,
        _ => 3,
    }
}

/// The length and the bytes it took.
fn read_length(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut length = 0usize;
    for (at, &byte) in bytes.iter().take(3).enumerate() {
        length |= (byte as usize & 0x7F) << (7 * at);
        if byte < 0x80 {
            return (length <= PLAIN_BYTES_MAX).then_some((length, at + 1));
        }
    }
    None
}
