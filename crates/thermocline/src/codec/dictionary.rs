//! A dictionary: at most 64 KiB of what values have in common, and the tables the codecs make of it.

use super::frame::{hash_of, DICTIONARY_ID_MAX};
use super::{lz4, zstd, Method};
use std::sync::{Arc, OnceLock};
use zstd_safe::{CDict, DDict};

/// Most bytes of a dictionary: as far as LZ4 can look back.
pub(crate) const DICTIONARY_BYTES_MAX: usize = 64 << 10;

/// Shorter values are LZ4's, whatever the dictionary: zstd's tables cost more time than they save bytes.
pub const ZSTD_VALUE_MIN: usize = 768;

/// A numbered dictionary. Shared by all threads; its tables are made when first used.
pub struct Dictionary {
    id: u8,
    bytes: Arc<[u8]>,
    fingerprint: u64,
    lz4: lz4::Prepared,
    /// Long values are coded by zstd at this level.
    zstd_level: Option<i32>,
    zstd_encoder: OnceLock<(i32, CDict<'static>)>,
    zstd_decoder: OnceLock<DDict<'static>>,
}

impl std::fmt::Debug for Dictionary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dictionary")
            .field("id", &self.id)
            .field("bytes", &self.bytes.len())
            .finish_non_exhaustive()
    }
}

impl Dictionary {
    /// A dictionary of number `id` (at most [`DICTIONARY_ID_MAX`](super::DICTIONARY_ID_MAX)) from trained
    /// or plain bytes; of more than 64 KiB the last 64 KiB count. An empty one is valid.
    pub fn new(id: u8, bytes: &[u8]) -> Dictionary {
        assert!(id <= DICTIONARY_ID_MAX, "dictionary numbers are 0 to 63");
        let mut bytes = bytes[bytes.len().saturating_sub(DICTIONARY_BYTES_MAX)..].to_vec();
        zstd::without_number(&mut bytes);
        let bytes: Arc<[u8]> = bytes.into();
        Dictionary {
            id,
            lz4: lz4::Prepared::new(bytes.clone()),
            fingerprint: hash_of(&bytes),
            bytes,
            zstd_level: None,
            zstd_encoder: OnceLock::new(),
            zstd_decoder: OnceLock::new(),
        }
    }

    /// The same for values that zstd at `level` serves better, if they are long.
    pub fn preferring_zstd(self, level: i32) -> Dictionary {
        Dictionary {
            zstd_level: Some(level),
            ..self
        }
    }

    /// The level of zstd that long values are coded with; None: LZ4 codes all.
    pub fn zstd_level(&self) -> Option<i32> {
        self.zstd_level
    }

    /// How a value so long is best coded with it. `high`: there is time for the better search.
    pub fn method(&self, value_bytes: usize, high: bool) -> Method {
        match (self.zstd_level, high) {
            (Some(level), _) if value_bytes >= ZSTD_VALUE_MIN => Method::Zstd(level),
            // Without a dictionary the high search's tables are not worth their 256 KiB.
            (_, true) if !self.bytes.is_empty() => Method::Lz4High,
            _ => Method::Lz4Fast,
        }
    }

    /// Bytes that a dictionary of `bytes` comes to with the tables LZ4 makes of it.
    pub fn lz4_memory_bytes(bytes: usize) -> usize {
        bytes + lz4::TABLE_BYTES
    }

    /// Its number.
    pub fn id(&self) -> u8 {
        self.id
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A hash of its content: what tells it from another of the same number.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Bytes of content and of the tables made so far.
    pub fn memory_bytes(&self) -> usize {
        let encoder = self.zstd_encoder.get().map_or(0, |(_, it)| it.sizeof());
        let decoder = self.zstd_decoder.get().map_or(0, |it| it.sizeof());
        self.bytes.len() + self.lz4.table_bytes() + encoder + decoder
    }

    pub(super) fn lz4(&self) -> &lz4::Prepared {
        &self.lz4
    }

    /// zstd's tables for encoding; the first level asked for stays.
    pub(super) fn zstd_encoder(&self, level: i32) -> &CDict<'static> {
        let made = || (level, zstd_safe::create_cdict(&self.bytes, level));
        &self.zstd_encoder.get_or_init(made).1
    }

    pub(super) fn zstd_decoder(&self) -> &DDict<'static> {
        self.zstd_decoder
            .get_or_init(|| zstd_safe::create_ddict(&self.bytes))
    }
}
