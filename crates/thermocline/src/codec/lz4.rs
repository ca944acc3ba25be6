//! LZ4 blocks against a dictionary, coded and decoded by the C library. (A decoder in safe Rust took 1.45 to 1.7 times
//! as long; the tests hold the library against it.)

use super::c_calls::{bound, decompress, Search, Tables, WorkingStream};
use super::frame::DecodeError;
use std::sync::{Arc, OnceLock};

/// Chains of this level find 30 to 70 % more than the fast search; level 9 adds 2 to 15 % for 1.5 to 3
/// times the time.
const HIGH: Search = Search::High(3);

/// A dictionary's tables: 16 KiB for the fast search, 256 KiB for the high one, each made when first used.
pub(super) struct Prepared {
    bytes: Arc<[u8]>,
    fast: OnceLock<Tables>,
    high: OnceLock<Tables>,
}

impl Prepared {
    pub(super) fn new(bytes: Arc<[u8]>) -> Prepared {
        Prepared {
            bytes,
            fast: OnceLock::new(),
            high: OnceLock::new(),
        }
    }

    /// Bytes of the tables made so far.
    pub(super) fn table_bytes(&self) -> usize {
        let made = |tables: &OnceLock<Tables>, bytes| tables.get().map_or(0, |_| bytes);
        made(&self.fast, FAST_TABLE_BYTES) + made(&self.high, HIGH_TABLE_BYTES)
    }
}

/// Size of the library's streams.
const FAST_TABLE_BYTES: usize = 16 << 10;
const HIGH_TABLE_BYTES: usize = 256 << 10;
pub(super) const TABLE_BYTES: usize = FAST_TABLE_BYTES + HIGH_TABLE_BYTES;

/// Working memory of one thread.
#[derive(Default)]
pub(super) struct Working {
    fast: Option<WorkingStream>,
    high: Option<WorkingStream>,
}

impl Working {
    pub(super) fn fast(&mut self, prepared: &Prepared, value: &[u8], payload: &mut Vec<u8>) {
        let tables = &prepared.fast;
        run(
            &mut self.fast,
            tables,
            prepared,
            Search::Fast,
            value,
            payload,
        );
    }

    pub(super) fn high(&mut self, prepared: &Prepared, value: &[u8], payload: &mut Vec<u8>) {
        let tables = &prepared.high;
        run(&mut self.high, tables, prepared, HIGH, value, payload);
    }
}

fn run(
    working: &mut Option<WorkingStream>,
    tables: &OnceLock<Tables>,
    prepared: &Prepared,
    search: Search,
    value: &[u8],
    payload: &mut Vec<u8>,
) {
    let tables = tables.get_or_init(|| Tables::new(search, prepared.bytes.clone()));
    let working = working.get_or_insert_with(|| WorkingStream::new(search));
    payload.resize(bound(value.len()), 0);
    let written = working.compress(tables, value, payload);
    payload.truncate(written);
}

/// Appends the `plain_bytes` behind `payload` to `value`; nothing where that is damaged.
pub(super) fn decode(
    dictionary: &[u8],
    payload: &[u8],
    plain_bytes: usize,
    value: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    match decompress(payload, dictionary, plain_bytes, value) {
        true => Ok(()),
        false => Err(DecodeError::Corrupt),
    }
}
