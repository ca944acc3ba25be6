//! The flags of `thermolab replay`.

use super::Sizes;
use crate::engines::options::Equal;
use crate::engines::Arm;
use crate::trace::{Format, Origin};
use crate::units::{parse_bytes, parse_count};
use anyhow::{bail, Result};
use clap::Args;
use thermocline::{Objective, ReclaimPolicy};

/// Replay a trace through our engine, or a rival, by its public calls: a read that misses is filled
#[derive(Args, Clone, Debug)]
pub struct ReplayOptions {
    /// A trace file, or syn:NAME (zipf099, uniform, exponential, scanzipf, loop, shift, backf, burst, phase)
    #[arg(long)]
    pub trace: Origin,
    /// The file's format, where its name and content do not say
    #[arg(long, value_enum)]
    pub format: Option<Format>,
    #[command(flatten)]
    pub room: RoomOptions,
    #[command(flatten)]
    pub how: HowOptions,
    /// Through the policy alone where the cache has too few items for an engine of segments
    #[arg(long, hide = true)]
    pub simulate_small: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// How large the cache is
#[derive(Args, Clone, Debug)]
#[group(required = true, multiple = false)]
pub struct RoomOptions {
    /// Everything the engine may use, as its users give it
    #[arg(long, value_parser = parse_bytes)]
    pub memory: Option<u64>,
    /// A share of the bytes of the trace's keys (of their number with --sizes unit), above 0
    #[arg(long)]
    pub fraction: Option<f64>,
    /// So many items of one size
    #[arg(long, value_parser = parse_count)]
    pub capacity_items: Option<u64>,
}

/// What replays it, and how
#[derive(Args, Clone, Debug)]
pub struct HowOptions {
    /// Our engine's policy: gen-duel, lru, mglru, fifo, s3fifo
    #[arg(long, default_value = "gen-duel")]
    pub policy: ReclaimPolicy,
    /// What a miss costs: balanced, objects, bytes
    #[arg(long, default_value = "balanced")]
    pub objective: Objective,
    /// Who replays it
    #[arg(long, value_enum, default_value = "thermocline")]
    pub engine: Arm,
    /// What is equal between engines: metadata on top (payload) or inside the capacity (memory)
    #[arg(long, value_enum, default_value = "payload")]
    pub equal: Equal,
    /// How large items are [default: as recorded]
    #[arg(long, value_enum)]
    pub sizes: Option<Sizes>,
    /// Every item is one unit, as --sizes unit
    #[arg(long)]
    pub unit_size: bool,
    /// Segments the cache is cut into, at least
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=65536))]
    pub segments: u32,
    /// Through the policy alone, without bytes: faster, and for caches of any size
    #[arg(long)]
    pub simulate: bool,
    /// What a stored item outlives: a share of the cache in later inserts, or `engine` for the engine's own floor
    /// [default: 0, as in the published figures; `engine` with --memory]
    #[arg(long, value_parser = fresh_floor)]
    pub fresh_floor: Option<FreshFloor>,
    /// Share of hits that write the value again
    #[arg(long, default_value_t = 0.0)]
    pub overwrite_hits: f64,
    #[arg(long, default_value_t = 1, value_parser = threads)]
    pub threads: usize,
    /// Seed of hashing and of what is drawn
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl HowOptions {
    /// What no point of a suite could be replayed with either.
    pub fn check(&self) -> Result<()> {
        if self.simulate && self.threads > 1 {
            bail!(
                "--simulate runs the policy alone, in one thread: leave --threads {} out, or --simulate",
                self.threads
            );
        }
        Ok(())
    }
}

/// For how many bytes of later inserts a stored item stays at least.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FreshFloor {
    /// What the engine does by default: the larger of 2 % of the cache, four segments and the largest item.
    Engine,
    /// A share of the cache; 0 = no floor.
    Share(f64),
}

impl std::fmt::Display for FreshFloor {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            FreshFloor::Engine => out.write_str("engine"),
            FreshFloor::Share(share) => write!(out, "{share}"),
        }
    }
}

fn fresh_floor(text: &str) -> Result<FreshFloor, String> {
    if text == "engine" {
        return Ok(FreshFloor::Engine);
    }
    match text.parse() {
        Ok(share) if (0.0..=0.25).contains(&share) => Ok(FreshFloor::Share(share)),
        _ => Err(format!("`{text}`: a share between 0 and 0.25, or `engine`")),
    }
}

/// A capacity as it was asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Capacity {
    Memory(u64),
    Fraction(f64),
    Items(u64),
}

fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(threads) if (1..=1024).contains(&threads) => Ok(threads),
        _ => Err(format!("`{text}`: between 1 and 1024 threads")),
    }
}

impl ReplayOptions {
    pub fn check(&self) -> Result<()> {
        if let Some(share) = self.room.fraction {
            if !(share > 0.0 && share <= 100.0) {
                bail!("--fraction lies above 0 and at most at 100 (1: room for every key)");
            }
        }
        if !(0.0..=1.0).contains(&self.how.overwrite_hits) {
            bail!("--overwrite-hits lies between 0 and 1");
        }
        if self.how.unit_size && self.how.sizes.is_some_and(|sizes| sizes != Sizes::Unit) {
            bail!("--unit-size and --sizes contradict each other");
        }
        if self.how.simulate && self.how.engine != Arm::Thermocline {
            bail!(
                "--simulate runs our own policy, not --engine {}",
                self.how.engine.name()
            );
        }
        if self.how.simulate && self.room.memory.is_some() {
            bail!("--simulate knows no metadata: give --fraction or --capacity-items");
        }
        self.how.check()
    }

    pub fn sizes(&self) -> Sizes {
        let unit = self.how.unit_size || self.room.capacity_items.is_some();
        self.how
            .sizes
            .unwrap_or(if unit { Sizes::Unit } else { Sizes::Real })
    }

    /// The floor asked for, or what is meant without a word.
    pub fn fresh_floor(&self) -> FreshFloor {
        self.how.fresh_floor.unwrap_or(match self.room.memory {
            Some(_) => FreshFloor::Engine,
            None => FreshFloor::Share(0.0),
        })
    }

    pub fn capacity(&self) -> Capacity {
        match (
            self.room.memory,
            self.room.fraction,
            self.room.capacity_items,
        ) {
            (Some(memory), _, _) => Capacity::Memory(memory),
            (_, Some(share), _) => Capacity::Fraction(share),
            // One of the three is required.
            (_, _, items) => Capacity::Items(items.unwrap_or(0)),
        }
    }
}
