//! The flags of `thermolab engines`.

use super::engine::Reading;
use super::rivals::SegPolicy;
use super::spec::{Arm, Spec};
use crate::units::{parse_bytes, parse_count};
use crate::workload::{Mix, Popularity, ValueSize, KEY_BYTES_MIN};
use anyhow::{bail, Result};
use clap::{Args, ValueEnum};
use serde::Serialize;

/// What is equal between the arms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Equal {
    /// Key and value bytes held; metadata comes on top and is shown
    Payload,
    /// Memory: rivals are charged their metadata for each item
    Memory,
}

/// Run one operation stream over our engine and its rivals, arms interleaved, each in a process of its own
#[derive(Args, Clone, Debug)]
pub struct EngineOptions {
    /// Engines, separated by commas [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    pub arms: Vec<Arm>,
    /// Add the engine that does nothing: the harness's own cost
    #[arg(long)]
    pub null: bool,
    /// Room for key and value bytes, or memory in all: see --equal
    #[arg(long, default_value = "340MiB", value_parser = parse_bytes)]
    pub memory: u64,
    #[arg(long, value_enum, default_value = "payload")]
    pub equal: Equal,
    /// Different keys
    #[arg(long, default_value = "1M", value_parser = parse_count)]
    pub keys: u64,
    /// Key length in bytes
    #[arg(long, default_value_t = 16)]
    pub key_size: usize,
    /// 1KiB, uniform:1KiB..64KiB or lognormal:64..64KiB; a key keeps its size unless --resize
    #[arg(long, default_value = "1KiB")]
    pub value_size: ValueSize,
    /// Overwrites change the size of the value
    #[arg(long)]
    pub resize: bool,
    /// uniform or zipf:EXPONENT
    #[arg(long, default_value = "zipf:0.99")]
    pub key_distribution: Popularity,
    /// Share of reads, 0 to 1
    #[arg(long, default_value_t = 0.9)]
    pub read_ratio: f64,
    /// Do not write what a read missed
    #[arg(long)]
    pub no_fill: bool,
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// Operations measured in each round, over all threads, exactly
    #[arg(long, default_value = "1.2M", value_parser = parse_count)]
    pub ops: u64,
    /// Operations before, not measured
    #[arg(long, default_value = "2.4M", value_parser = parse_count)]
    pub warm_ops: u64,
    /// Write every key once before warming up
    #[arg(long)]
    pub load_all: bool,
    /// What a hit does with the value
    #[arg(long, value_enum, default_value = "head")]
    pub reading: Reading,
    #[arg(long, value_enum, default_value = "fifo")]
    pub segcache_policy: SegPolicy,
    /// Base pages, not huge ones, where the engine can be told
    #[arg(long)]
    pub no_thp: bool,
    /// Count the harness's own buffers inside our engine's budget
    #[arg(long)]
    pub reserve_harness: bool,
    /// Rounds; each runs every arm once, in turn forward and backward
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Do not count refused writes as failures (a fixed table refuses some)
    #[arg(long)]
    pub allow_refused: bool,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl EngineOptions {
    /// Everything at its default, for the target table's presets.
    pub fn preset() -> Self {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            engines: EngineOptions,
        }
        <Alone as clap::Parser>::parse_from(["engines"]).engines
    }

    pub fn check(&self) -> Result<()> {
        if self.threads == 0 || self.keys == 0 || self.ops == 0 || self.rounds == 0 {
            bail!("--threads, --keys, --ops and --rounds are at least 1");
        }
        if self.key_size < KEY_BYTES_MIN {
            bail!("--key-size is at least {KEY_BYTES_MIN} bytes");
        }
        if !(0.0..=1.0).contains(&self.read_ratio) {
            bail!("--read-ratio lies between 0 and 1");
        }
        Ok(())
    }

    /// The arms to run, in their order.
    pub fn arms(&self) -> Vec<Arm> {
        let mut arms = if self.arms.is_empty() {
            Arm::ALL.to_vec()
        } else {
            self.arms.clone()
        };
        if self.null && !arms.contains(&Arm::Null) {
            arms.push(Arm::Null);
        }
        arms.dedup();
        arms
    }

    /// The specification of one arm in one round. All arms of a round get the same stream.
    pub fn spec(&self, arm: Arm, round: usize, memory_bytes: u64) -> Spec {
        Spec {
            arm,
            round,
            mix: Mix {
                keys: self.keys,
                key_bytes: self.key_size,
                popularity: self.key_distribution,
                sizes: self.value_size,
                read_ratio: self.read_ratio,
                resize: self.resize,
                seed: self.seed.wrapping_add(round as u64),
            },
            memory_bytes,
            charge_per_item: match self.equal {
                Equal::Payload => 0,
                Equal::Memory => arm.metadata_bytes(),
            },
            threads: self.threads,
            ops: self.ops,
            warm_ops: self.warm_ops,
            load_all: self.load_all,
            fill: !self.no_fill,
            reading: self.reading,
            segcache_policy: self.segcache_policy,
            thp: !self.no_thp,
            reserve_harness: self.reserve_harness,
        }
    }
}
