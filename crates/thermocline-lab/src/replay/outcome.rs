//! What a replay came to.

use super::drive::Tally;
use super::options::ReplayOptions;
use super::plan::Plan;
use crate::machine::resident_bytes;
use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};

/// One replay. Absent figures are those the engine does not give.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Outcome {
    pub trace: String,
    pub engine: String,
    pub policy: String,
    pub objective: String,
    pub sizes: String,
    /// Through the policy without bytes.
    pub simulated: bool,
    /// As asked: a share of the trace, or absent.
    pub fraction: Option<f64>,
    /// Room for items, bytes: before scaling where sizes vary, the budget with --memory.
    pub capacity_bytes: u64,
    /// Items of mean size that fill it.
    pub capacity_items: u64,
    /// Segments that there are, and that were asked for at least.
    pub segments: u32,
    pub segments_asked: u32,
    pub segment_bytes: u64,
    /// Bytes an item takes for each of its own: sizes were scaled so that segments are a whole share of the cache.
    pub scale: f64,
    pub requests: u64,
    pub reads: u64,
    pub misses: u64,
    /// Misses over reads.
    pub miss_ratio: f64,
    /// Bytes missed over bytes read.
    pub byte_miss_ratio: f64,
    /// Bytes moved by reclaim for each byte written.
    pub copied_bytes_per_inserted_byte: Option<f64>,
    /// Live bytes over the cache's, in the mean since it was full.
    pub live_share: Option<f64>,
    /// Index and policy, bytes an item; headers are within the item.
    pub metadata_bytes_per_item: Option<f64>,
    pub rss_bytes: Option<u64>,
    pub writes: u64,
    /// Share of hits that wrote the value again.
    pub overwrite_hits: f64,
    /// What a stored item outlives: a share of the cache, or the engine's own floor.
    #[serde(default)]
    pub fresh_floor: String,
    /// Writes refused for want of room or for their size: such keys miss again.
    pub refused: u64,
    /// What the live curve said at the end of the run, before any other size was run.
    #[serde(default)]
    pub curve: Vec<Foretold>,
    pub keys: u64,
    pub keys_are_estimated: bool,
    pub threads: usize,
    pub seed: u64,
    pub seconds: f64,
}

/// The miss ratio that the live curve foretells at a multiple of the cache.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Foretold {
    pub factor: f64,
    pub miss_ratio: f64,
    /// By an LRU curve: beyond the sizes that have a miniature.
    pub is_far: bool,
}

impl Outcome {
    /// What was asked: outcomes of one point are the same.
    pub fn point(&self) -> String {
        let capacity = self
            .fraction
            .map_or(self.capacity_bytes as f64, |share| share);
        format!(
            "{} {} {} {} {} {} {capacity} {} {} {}",
            self.trace,
            self.engine,
            self.policy,
            self.objective,
            self.sizes,
            self.simulated,
            self.segments_asked,
            self.overwrite_hits,
            self.fresh_floor
        )
    }

    /// What the flags, the plan and the count of the calls say; the rest is the engine's to add.
    pub fn of(options: &ReplayOptions, plan: &Plan, tally: &Tally) -> Result<Outcome> {
        if tally.reads == 0 {
            bail!("the trace has no reads, and so no miss ratio");
        }
        if tally.wrong > 0 {
            bail!("{} hits returned another key's bytes", tally.wrong);
        }
        let how = &options.how;
        let shape = plan.shape;
        Ok(Outcome {
            trace: options.trace.name(),
            engine: how.engine.name().into(),
            policy: how.policy.to_string(),
            objective: how.objective.to_string(),
            sizes: options.sizes().name().into(),
            fraction: options.room.fraction,
            capacity_bytes: plan.capacity_bytes(),
            capacity_items: plan.items,
            segments: shape.map_or(0, |shape| shape.segments),
            segments_asked: how.segments,
            segment_bytes: shape.map_or(0, |shape| shape.segment_bytes as u64),
            scale: plan.scale(),
            requests: tally.requests,
            reads: tally.reads,
            misses: tally.misses,
            miss_ratio: tally.misses as f64 / tally.reads as f64,
            byte_miss_ratio: tally.missed_bytes as f64 / tally.read_bytes.max(1) as f64,
            rss_bytes: resident_bytes(std::process::id()),
            writes: tally.writes,
            overwrite_hits: how.overwrite_hits,
            fresh_floor: options.fresh_floor().to_string(),
            refused: tally.refused,
            threads: how.threads,
            seed: how.seed,
            ..Outcome::default()
        })
    }

    /// For people.
    pub fn to_text(&self) -> String {
        let share = |value: f64| format!("{:.4}", value);
        let maybe = |value: Option<f64>| value.map_or("–".to_string(), share);
        format!(
            "{}: {} requests, {} keys{}\n{} ({}, {}), room for {} items\nmiss ratio {} (bytes {}), copied {} bytes for \
             each written, {} live\n",
            self.trace,
            self.requests,
            self.keys,
            if self.keys_are_estimated { " (estimated)" } else { "" },
            self.engine,
            self.policy,
            self.sizes,
            self.capacity_items,
            share(self.miss_ratio),
            share(self.byte_miss_ratio),
            maybe(self.copied_bytes_per_inserted_byte),
            maybe(self.live_share),
        )
    }
}
