//! The C library's own LZ4 calls without our head and check: what the lab compares our times with. No stable API.

use super::c_calls::{self, bound, Search, Tables, WorkingStream};
use std::sync::Arc;

/// A dictionary with both searches' tables.
#[doc(hidden)]
pub struct Lz4 {
    bytes: Arc<[u8]>,
    fast: Tables,
    high: Tables,
}

/// Working memory of one thread.
#[doc(hidden)]
pub struct Working {
    fast: WorkingStream,
    high: WorkingStream,
}

impl Lz4 {
    /// Of at most 64 KiB.
    pub fn new(dictionary: &[u8]) -> Lz4 {
        let bytes: Arc<[u8]> = dictionary.into();
        Lz4 {
            fast: Tables::new(Search::Fast, bytes.clone()),
            high: Tables::new(Search::High(3), bytes.clone()),
            bytes,
        }
    }

    /// Memory to compress with.
    pub fn working(&self) -> Working {
        Working {
            fast: WorkingStream::new(Search::Fast),
            high: WorkingStream::new(Search::High(3)),
        }
    }

    /// Compresses by the fast search into `block`.
    pub fn fast(&self, working: &mut Working, value: &[u8], block: &mut Vec<u8>) {
        block.resize(bound(value.len()), 0);
        let written = working.fast.compress(&self.fast, value, block);
        block.truncate(written);
    }

    /// Compresses by hash chains of level 3 into `block`.
    pub fn high(&self, working: &mut Working, value: &[u8], block: &mut Vec<u8>) {
        block.resize(bound(value.len()), 0);
        let written = working.high.compress(&self.high, value, block);
        block.truncate(written);
    }

    /// Decompresses into `value`, which becomes `bytes` long. False: damaged.
    pub fn decompress(&self, block: &[u8], bytes: usize, value: &mut Vec<u8>) -> bool {
        value.clear();
        c_calls::decompress(block, &self.bytes, bytes, value)
    }
}
