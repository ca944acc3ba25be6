//! foyer's in-memory cache: S3-FIFO (its own recommendation for hit ratio), weighter in bytes, shards enough
//! that threads rarely meet.

use super::super::engine::{Engine, Found, Reading};
use super::{Key, Room};
use bytes::Bytes;
use foyer_memory::{Cache, CacheBuilder, CacheProperties, S3FifoConfig};

/// Capacity is split among shards, so more of them than locks need would only refuse large values.
const SHARDS_PER_THREAD: usize = 8;

pub struct Foyer(Cache<Key, Bytes, ahash::RandomState, CacheProperties>);

impl Foyer {
    pub fn new(room: Room) -> Self {
        let usual = (room.threads * SHARDS_PER_THREAD)
            .next_power_of_two()
            .clamp(8, 64);
        let shards = room.shards.unwrap_or(usual);
        let cache = CacheBuilder::new(room.bytes as usize)
            .with_shards(shards)
            .with_eviction_config(S3FifoConfig::default())
            .with_hash_builder(ahash::RandomState::new())
            .with_weighter(move |key: &Key, value: &Bytes| room.weight(key, value) as usize)
            .build();
        Foyer(cache)
    }
}

impl Engine for Foyer {
    #[inline]
    fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found> {
        let entry = self.0.get(key)?;
        Some(Found::read(entry.value(), reading, out))
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
        self.0.contains(key)
    }
}
