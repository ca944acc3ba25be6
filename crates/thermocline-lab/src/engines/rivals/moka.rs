//! moka's sync cache: W-TinyLFU, weigher in bytes.

use super::super::engine::{Engine, Found, Reading};
use super::{Key, Room};
use bytes::Bytes;

pub struct Moka(::moka::sync::Cache<Key, Bytes, ahash::RandomState>);

impl Moka {
    pub fn new(room: Room) -> Self {
        let cache = ::moka::sync::Cache::builder()
            .max_capacity(room.bytes)
            .initial_capacity(room.items as usize)
            .weigher(move |key: &Key, value: &Bytes| {
                room.weight(key, value).min(u64::from(u32::MAX)) as u32
            })
            .build_with_hasher(ahash::RandomState::new());
        Moka(cache)
    }
}

impl Engine for Moka {
    #[inline]
    fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found> {
        let value = self.0.get(key)?;
        Some(Found::read(&value, reading, out))
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) -> bool {
        self.0.insert(key.into(), Bytes::copy_from_slice(value));
        true
    }

    fn delete(&self, key: &[u8]) -> bool {
        self.0.remove(key).is_some()
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.0.contains_key(key)
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}
