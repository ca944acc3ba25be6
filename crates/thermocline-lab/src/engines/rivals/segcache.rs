//! segcache: segments of 1 MiB (smaller in a small heap, larger where values need it), a table at half load so that its fixed buckets
//! refuse few inserts, no expiry. The heap must be a multiple of the segment size.

use super::super::engine::{Engine, Found, Reading};
use super::Room;
use ::segcache::Policy;
use ::segcache::Value;
use std::time::Duration;

/// Its eviction policy.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    clap::ValueEnum,
    serde::Serialize,
    serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum SegPolicy {
    #[default]
    Fifo,
    S3Fifo,
    Merge,
}

/// Its usual segment, and the smallest, bytes: a heap wants at least a few dozen, or evicting one empties a good
/// part of it. An item must fit in one with its header.
const SEGMENT_BYTES: u64 = 1 << 20;
const SEGMENT_BYTES_MIN: u64 = 64 << 10;
const SEGMENTS_WANTED: u64 = 64;

pub struct Segcache(::segcache::Segcache);

impl Segcache {
    pub fn new(room: Room, policy: SegPolicy) -> anyhow::Result<Self> {
        let usual = (room.bytes / SEGMENTS_WANTED)
            .next_power_of_two()
            .clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES);
        let needed = (u64::from(room.value_bytes_max) + 4096).next_power_of_two();
        let segment = usual.max(needed);
        let heap = room.bytes.div_ceil(segment) * segment;
        // Seven of eight slots hold items; twice the room keeps buckets from filling.
        let slots = (room.items.max(1) * 2 * 8 / 7).next_power_of_two();
        let cache = ::segcache::Segcache::builder()
            .heap_size(heap as usize)
            .segment_size(i32::try_from(segment)?)
            .hash_power((slots.trailing_zeros() as u8).max(10))
            .eviction(match policy {
                SegPolicy::Fifo => Policy::Fifo,
                SegPolicy::S3Fifo => Policy::S3Fifo {
                    admission_ratio: 0.10,
                },
                SegPolicy::Merge => Policy::Merge {
                    max: 8,
                    merge: 4,
                    compact: 2,
                },
            })
            .build()?;
        Ok(Segcache(cache))
    }
}

impl Engine for Segcache {
    #[inline]
    fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found> {
        let item = self.0.get(key)?;
        match item.value() {
            Value::Bytes(value) => Some(Found::read(value, reading, out)),
            Value::U64(number) => Some(Found::read(&number.to_le_bytes(), reading, out)),
        }
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) -> bool {
        self.0.insert(key, value, None, Duration::ZERO).is_ok()
    }

    fn delete(&self, key: &[u8]) -> bool {
        self.0.delete(key)
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.0.get_no_freq_incr(key).is_some()
    }
}
