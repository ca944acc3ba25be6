//! What is simulated, and what is told of it.

use crate::policy::{Objective, ReclaimPolicy};

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimulationConfig {
    /// Bytes of items, open segments and reserve together.
    pub capacity_bytes: u64,
    /// Bytes of a segment; 0 = a 128th of the capacity. Not below the mean item: give it when that is known.
    pub segment_bytes: u64,
    /// Which policy.
    pub policy: ReclaimPolicy,
    /// What it should save.
    pub objective: Objective,
    /// Of the policy's coin tosses.
    pub seed: u64,
    /// Bytes of later inserts that a stored item outlives at least; 0 = no floor.
    pub fresh_min_bytes: u64,
    /// One of the policy's settings for good, instead of a duel.
    pub setting: Option<usize>,
    /// What an engine does with its room; None: what a policy without bytes would.
    pub engine: Option<EngineRoom>,
}

/// How an engine uses its room: sizes are those of its records then, and a segment those of its segments.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EngineRoom {
    /// An item up to so many bytes is one record; a larger one lies in chunks.
    pub record_bytes_max: u64,
    /// Larger items are never stored.
    pub item_bytes_max: u64,
    /// Bytes beside the value: of a large item's record (its key and header), and of one of its chunks. Its record
    /// has a word a chunk, too.
    pub head_bytes: u64,
    pub chunk_head_bytes: u64,
}

impl SimulationConfig {
    /// A cache of `capacity_bytes` in 128 segments under the default policy.
    pub fn new(capacity_bytes: u64) -> SimulationConfig {
        SimulationConfig {
            capacity_bytes,
            segment_bytes: 0,
            policy: ReclaimPolicy::default(),
            objective: Objective::default(),
            seed: 1,
            fresh_min_bytes: 0,
            setting: None,
            engine: None,
        }
    }
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimulationCounters {
    /// Requests, and how many of them missed.
    pub requests: u64,
    pub misses: u64,
    /// Bytes of the items requested, and of those that missed.
    pub requested_bytes: u64,
    pub missed_bytes: u64,
    /// Bytes appended by misses and overwrites.
    pub inserted_bytes: u64,
    /// Bytes copied by promotions and second chances, and by compaction.
    pub copied_bytes: u64,
    pub compacted_bytes: u64,
    pub evicted: u64,
    /// Segments drained, relinked and compacted.
    pub drained: u64,
    pub relinked: u64,
    pub compacted: u64,
    /// How often the duel chose another setting.
    pub switches: u64,
    /// Bytes over the capacity at the worst moment: the largest item in flight beyond the reserve.
    pub overdrawn_bytes_max: u64,
}

impl SimulationCounters {
    /// Misses by requests.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses, self.requests)
    }

    /// Bytes missed by bytes requested.
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.missed_bytes, self.requested_bytes)
    }

    /// Bytes copied by reclaim and compaction per byte inserted.
    pub fn copied_per_inserted(&self) -> f64 {
        ratio(
            self.copied_bytes + self.compacted_bytes,
            self.inserted_bytes,
        )
    }
}

/// A part of a whole; of nothing 0.
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}
