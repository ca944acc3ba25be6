//! quick_cache's sync cache: Clock-PRO, weighter in bytes, its default (fast) hasher and shard count.

use super::super::engine::{Engine, Found, Reading};
use super::{Key, Room};
use ::quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use bytes::Bytes;

#[derive(Clone)]
struct ByBytes(Room);

impl Weighter<Key, Bytes> for ByBytes {
    fn weight(&self, key: &Key, value: &Bytes) -> u64 {
        self.0.weight(key, value)
    }
}

pub struct QuickCache(::quick_cache::sync::Cache<Key, Bytes, ByBytes>);

impl QuickCache {
    pub fn new(room: Room) -> Self {
        let mut options = OptionsBuilder::new();
        options
            .weight_capacity(room.bytes)
            .estimated_items_capacity(room.items.max(1) as usize);
        if let Some(shards) = room.shards {
            options.shards(shards);
        }
        let options = options
            .build()
            .expect("capacity and item estimate are given");
        QuickCache(::quick_cache::sync::Cache::with_options(
            options,
            ByBytes(room),
            DefaultHashBuilder::default(),
            ::quick_cache::sync::DefaultLifecycle::default(),
        ))
    }
}

impl Engine for QuickCache {
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
}
