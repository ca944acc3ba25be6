//! The engine that does nothing: what the harness itself costs an operation.

use super::engine::{Engine, Found, Reading};
use crate::workload::Stamp;

/// Hits every read with an empty value and takes every write.
pub struct Null;

impl Engine for Null {
    #[inline]
    fn get(&self, key: &[u8], _reading: Reading, _out: &mut Vec<u8>) -> Option<Found> {
        std::hint::black_box(key);
        Some(Found {
            value_bytes: usize::MAX,
            head: Stamp::default(),
        })
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) -> bool {
        std::hint::black_box((key, value));
        true
    }

    fn delete(&self, _key: &[u8]) -> bool {
        true
    }

    fn contains(&self, _key: &[u8]) -> bool {
        false
    }
}
