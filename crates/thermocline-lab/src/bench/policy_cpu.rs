//! What policy, shadows and curve cost an operation: two caches alike, one of which samples no access.
//!
//! Without samples the policy's duel, its shadows and the live curve's miniatures do nothing, and the setting the policy
//! starts with stays in force. Both are given the same operations, in turns of a few milliseconds, so that a noisy
//! machine meets both; figures are CPU of the whole process, the caches' own threads included.

use super::row::{Bound, Rows};
use crate::machine::{process_cpu_ns, Machine};
use crate::report::{Report, Spread};
use crate::units::{parse_bytes, parse_count};
use crate::workload::{key_into, Popularity, Random, Ranks};
use anyhow::{Context, Result};
use clap::Args;
use thermocline::{Cache, Config};

/// CPU of policy, shadows and curve together, of a 1 KiB get/set mix
#[derive(Args, Clone, Debug)]
pub struct PolicyCpuOptions {
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    pub keys: u64,
    /// Each cache's memory: a third of the data
    #[arg(long, value_parser = parse_bytes, default_value = "350MiB")]
    pub memory: u64,
    #[arg(long, default_value_t = 1024)]
    pub value_size: u32,
    #[arg(long, default_value_t = 0.9)]
    pub read_ratio: f64,
    /// Operations of each cache before anything is measured
    #[arg(long, value_parser = parse_count, default_value = "3M")]
    pub warm_ops: u64,
    /// Operations of each cache in a round
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    pub ops: u64,
    #[arg(long, default_value_t = 9)]
    pub rounds: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const KEY_BYTES: usize = 16;
/// Operations of one turn.
const TURN: u64 = 20_000;

struct Op {
    key: [u8; KEY_BYTES],
    reads: bool,
}

/// Draws the operations of a turn, outside the clocks.
struct Draw {
    ranks: Ranks,
    random: Random,
    reads_below: u64,
}

impl Draw {
    fn turn(&mut self) -> Vec<Op> {
        let mut op = |_| {
            let mut key = [0; KEY_BYTES];
            key_into(self.ranks.sample(&mut self.random), &mut key);
            let reads = self.random.below(1 << 20) < self.reads_below;
            Op { key, reads }
        };
        (0..TURN).map(&mut op).collect()
    }
}

/// One of the two caches, and what it did.
struct Arm {
    cache: Cache,
    value: Vec<u8>,
    buffer: Vec<u8>,
    reads: u64,
    hits: u64,
    refused: u64,
}

impl Arm {
    fn new(options: &PolicyCpuOptions, sampling: bool) -> Result<Arm> {
        let mut config = Config::new(options.memory);
        config.sampling = sampling;
        config.threads = 1;
        config.seed = Some(options.seed);
        Ok(Arm {
            cache: Cache::new(config).context("cannot make the cache")?,
            value: vec![7; options.value_size as usize],
            buffer: Vec::new(),
            reads: 0,
            hits: 0,
            refused: 0,
        })
    }

    /// Carries a turn out; ns of CPU.
    fn take(&mut self, ops: &[Op]) -> u64 {
        let before = process_cpu_ns();
        for op in ops {
            self.buffer.clear();
            let hit = op.reads && self.cache.get_into(&op.key, &mut self.buffer).is_some();
            self.reads += u64::from(op.reads);
            self.hits += u64::from(hit);
            if !hit {
                let stored = self.cache.set(&op.key, &self.value);
                self.refused += u64::from(stored.is_err());
            }
        }
        process_cpu_ns() - before
    }

    fn hit_ratio(&self) -> f64 {
        self.hits as f64 / self.reads.max(1) as f64
    }
}

pub fn run(options: &PolicyCpuOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut draw = Draw {
        ranks: Ranks::new(Popularity::Zipf(0.99), options.keys),
        random: Random::new(options.seed),
        reads_below: (options.read_ratio * f64::from(1 << 20)) as u64,
    };
    let mut arms = [Arm::new(options, true)?, Arm::new(options, false)?];
    for _ in 0..options.warm_ops.div_ceil(TURN) {
        let ops = draw.turn();
        arms.iter_mut().for_each(|arm| {
            arm.take(&ops);
        });
    }
    for arm in &mut arms {
        (arm.reads, arm.hits) = (0, 0);
    }
    let (mut shares, mut sampled_ns, mut points) = (Vec::new(), Vec::new(), Vec::new());
    let turns = options.ops.div_ceil(TURN);
    for _ in 0..options.rounds {
        let mut ns = [0; 2];
        for turn in 0..turns {
            let ops = draw.turn();
            let first = turn as usize % 2;
            for arm in [first, 1 - first] {
                ns[arm] += arms[arm].take(&ops);
            }
        }
        let [on, off] = ns.map(|ns| ns as f64 / (turns * TURN) as f64);
        shares.push((on - off) / on * 100.0);
        sampled_ns.push(on);
        points.push(serde_json::json!({ "sampling_ns": on, "without_ns": off }));
    }
    let mut rows = Rows::default();
    rows.add(
        "CPU of policy, shadows and curve together, % of an operation",
        Spread::of(shares),
        1,
        Bound::AtMost(5.0),
        Bound::AtMost(2.0),
    );
    rows.show("an operation, ns CPU", Spread::of(sampled_ns), 0);
    for (name, arm) in ["sampling", "without"].into_iter().zip(&arms) {
        let ratio = Spread::of([arm.hit_ratio()]);
        rows.show(format!("hit ratio, {name}"), ratio, 4);
    }
    let mut report = Report::new("policy, shadows and curve", machine, rows.into_table());
    report.notes.push(format!(
        "{} B values, {:.0} % reads (copied out whole; what a read misses is written), zipf 0.99 over {} keys, {} rounds in turns of {TURN} operations; without: a cache that samples no access",
        options.value_size,
        options.read_ratio * 100.0,
        options.keys,
        options.rounds
    ));
    report.failures = arms.iter().map(|arm| arm.refused).sum();
    report.points = serde_json::json!({ "rounds": points });
    Ok(report)
}
