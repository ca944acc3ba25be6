//! Single calls, timed by the thread's CPU clock: lookup, hot overwrite, guard against copy.
//!
//! Keys are drawn outside the clocks in batches; kinds of call take turns, round by round, in one cache, so a
//! noisy machine meets all of them. Figures are ns of CPU an operation.

use super::row::{Bound, Rows};
use crate::machine::{thread_cpu_ns, Machine};
use crate::report::{Report, Spread};
use crate::units::{parse_bytes, parse_count};
use crate::workload::{
    key_into, stamp, Batch, Kind, Mix, Op, Popularity, Random, Stream, ValueSize,
};
use anyhow::{Context, Result};
use clap::Args;
use std::hint::black_box;
use thermocline::{Cache, Config, Guard, Meta, ReadSink, Want};

/// Keys read as one batch.
const BATCH: usize = 16;

/// Index lookup, one by one and in batches, beside a dependent random read of the same footprint
#[derive(Args, Clone, Debug)]
pub struct LookupOptions {
    #[arg(long, value_parser = parse_count, default_value = "4M")]
    pub items: u64,
    /// Lookups of each kind in a round
    #[arg(long, value_parser = parse_count, default_value = "2M")]
    pub lookups: u64,
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Overwriting one hot item in place, beside inserting new ones
#[derive(Args, Clone, Debug)]
pub struct OverwriteOptions {
    #[arg(long, default_value = "100")]
    pub value_size: ValueSize,
    #[arg(long, value_parser = parse_count, default_value = "2M")]
    pub writes: u64,
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A guard on a large value against copying it out
#[derive(Args, Clone, Debug)]
pub struct GuardOptions {
    #[arg(long, value_parser = parse_bytes, default_value = "64KiB")]
    pub value_size: u64,
    /// Bytes of items
    #[arg(long, value_parser = parse_bytes, default_value = "600MiB")]
    pub footprint: u64,
    #[arg(long, value_parser = parse_count, default_value = "200k")]
    pub reads: u64,
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

fn uniform(keys: u64, value_bytes: u32, seed: u64) -> Mix {
    Mix {
        keys,
        key_bytes: 16,
        popularity: Popularity::Uniform,
        sizes: ValueSize::Fixed(value_bytes),
        read_ratio: 1.0,
        resize: false,
        seed,
    }
}

/// A cache that `items` of `value_bytes` nearly fill, holding them.
fn filled(items: u64, value_bytes: u32) -> Result<Cache> {
    let item_bytes = u64::from(value_bytes) + 16 + 32;
    let cache = Cache::new(Config::new((items * item_bytes * 11 / 10).max(256 << 20)))
        .context("cannot make the cache")?;
    let (mut key, mut value) = ([0u8; 16], vec![7u8; value_bytes as usize]);
    for id in 0..items {
        key_into(id, &mut key);
        value[..8].copy_from_slice(&stamp(id));
        cache.set(&key, &value).context("a write while filling")?;
    }
    Ok(cache)
}

/// CPU ns of one call of `call` over `count` keys drawn from `stream`; `call` gets a batch at a time.
fn timed(stream: &mut Stream, count: u64, mut call: impl FnMut(&Batch)) -> f64 {
    const OPS: u64 = 2048;
    let (mut batch, mut spent) = (Batch::default(), 0);
    for _ in 0..count.div_ceil(OPS) {
        stream.fill(&mut batch, OPS as usize);
        let before = thread_cpu_ns();
        call(&batch);
        spent += thread_cpu_ns() - before;
    }
    spent as f64 / (count.div_ceil(OPS) * OPS) as f64
}

/// Counts what a batch finds.
#[derive(Default)]
struct Count {
    buffer: Vec<u8>,
    hits: u64,
    misses: u64,
}

impl ReadSink for Count {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn copy_max(&self) -> usize {
        8192
    }

    fn head(&mut self, _index: usize, _meta: &Meta) {}

    fn tail(&mut self, _index: usize, _meta: &Meta) {
        self.hits += 1;
    }

    fn held(&mut self, _index: usize, _guard: Guard) {
        self.hits += 1;
    }

    fn miss(&mut self, _index: usize) {
        self.misses += 1;
    }
}

fn batches(cache: &Cache, batch: &Batch, sink: &mut Count) {
    let mut keys: [&[u8]; BATCH] = [&[]; BATCH];
    for first in (0..batch.ops.len()).step_by(BATCH) {
        for (offset, key) in keys.iter_mut().enumerate() {
            *key = batch.key(first + offset);
        }
        sink.buffer.clear();
        cache.get_many(&keys, Want::default(), sink);
    }
}

/// The kinds of lookup, each a list of one figure a round.
#[derive(Default, serde::Serialize)]
struct Lookups {
    hit: Vec<f64>,
    hit_part: Vec<f64>,
    hit_closure: Vec<f64>,
    hit_zipf: Vec<f64>,
    miss: Vec<f64>,
    batch: Vec<f64>,
    dependent_read: Vec<f64>,
    wrong: u64,
}

pub fn lookup(options: &LookupOptions) -> Result<Report> {
    let machine = Machine::read();
    let cache = filled(options.items, 100)?;
    let mut chase = Chase::new(options.items * 128, options.seed)?;
    let mix = uniform(options.items, 100, options.seed);
    let zipf = Mix {
        popularity: Popularity::Zipf(0.99),
        ..mix.clone()
    };
    let mut found = Lookups::default();
    let mut buffer = Vec::with_capacity(4096);
    for round in 0..options.rounds as u64 {
        let mut stream = Stream::new(&mix, round);
        let mut wrong = 0u64;
        let mut one_by_one = |batch: &Batch| {
            for (index, op) in batch.ops.iter().enumerate() {
                buffer.clear();
                let hit = cache.get_into(batch.key(index), &mut buffer);
                wrong += u64::from(hit.is_none() || buffer[..8] != stamp(op.id));
            }
        };
        found
            .hit
            .push(timed(&mut stream, options.lookups, &mut one_by_one));
        found.hit_zipf.push(timed(
            &mut Stream::new(&zipf, round),
            options.lookups,
            &mut one_by_one,
        ));
        let mut part = Vec::with_capacity(64);
        found
            .hit_part
            .push(timed(&mut stream, options.lookups, |batch| {
                for (index, op) in batch.ops.iter().enumerate() {
                    part.clear();
                    let hit = cache.get_part(batch.key(index), 0..8, &mut part);
                    wrong += u64::from(hit.is_none() || part != stamp(op.id));
                }
            }));
        found
            .hit_closure
            .push(timed(&mut stream, options.lookups, |batch| {
                for (index, op) in batch.ops.iter().enumerate() {
                    let right =
                        cache.get_with(batch.key(index), |_, value| value[..8] == stamp(op.id));
                    wrong += u64::from(right != Some(true));
                }
            }));
        let mut sink = Count::default();
        found
            .batch
            .push(timed(&mut stream, options.lookups, |batch| {
                batches(&cache, batch, &mut sink)
            }));
        found.wrong += wrong + sink.misses;
        // Keys of numbers never written: the stream draws from the space above the items.
        let mut absent = Absent::new(options.items, options.seed ^ round);
        found.miss.push(absent.timed(options.lookups, |key| {
            cache.get_into(key, &mut buffer).is_some()
        }));
        found.wrong += absent.found;
        found.dependent_read.push(chase.timed(options.lookups));
    }
    Ok(lookup_report(options, machine, &found, chase.is_huge))
}

fn lookup_report(options: &LookupOptions, machine: Machine, found: &Lookups, huge: bool) -> Report {
    let of = |values: &[f64]| Spread::of(values.iter().copied());
    let mut rows = Rows::default();
    let (most, free) = (Bound::AtMost, Bound::Free);
    let what = |kind: &str| {
        format!(
            "lookup of {:.0} M items, THP, uniform, {kind}, ns CPU",
            options.items as f64 / 1e6
        )
    };
    rows.add(
        what("hit, 8 B of the value read"),
        of(&found.hit_part),
        0,
        most(142.0),
        most(105.0),
    );
    rows.add(
        what("hit, 100 B copied out"),
        of(&found.hit),
        0,
        most(142.0),
        most(105.0),
    );
    rows.add(what("miss"), of(&found.miss), 0, most(120.0), most(60.0));
    rows.add(
        what("batch of 16, 100 B copied out"),
        of(&found.batch),
        0,
        most(72.0),
        most(67.0),
    );
    rows.add(
        what("hit by get_with"),
        of(&found.hit_closure),
        0,
        free,
        free,
    );
    rows.add(
        "the same, zipf 0.99, hit",
        of(&found.hit_zipf),
        0,
        free,
        free,
    );
    rows.add(
        "dependent random read of the same footprint",
        of(&found.dependent_read),
        0,
        free,
        free,
    );
    for (kind, spent) in [
        ("a hit, 8 B read", &found.hit_part),
        ("a hit, 100 B copied out", &found.hit),
        ("a miss", &found.miss),
        ("one of a batch", &found.batch),
    ] {
        let pairs = spent.iter().zip(&found.dependent_read);
        rows.add(
            format!("{kind}, in dependent reads of its round"),
            Spread::of(pairs.map(|(spent, read)| spent / read)),
            2,
            free,
            free,
        );
    }
    let mut report = Report::new("index lookup", machine, rows.into_table());
    report.notes.push(format!(
        "16 B keys, 100 B values; the bounds are another machine's: judge by the dependent read beside them ({})",
        if huge { "in huge pages" } else { "in base pages: huge ones were not to be had" }
    ));
    report.failures = found.wrong;
    report.points = serde_json::to_value(found).unwrap_or_default();
    report
}

/// Keys that were never written.
struct Absent {
    random: Random,
    above: u64,
    found: u64,
}

impl Absent {
    fn new(above: u64, seed: u64) -> Self {
        Absent {
            random: Random::new(seed),
            above,
            found: 0,
        }
    }

    fn timed(&mut self, count: u64, mut look: impl FnMut(&[u8]) -> bool) -> f64 {
        const OPS: usize = 2048;
        let (mut keys, mut spent) = (vec![[0u8; 16]; OPS], 0);
        let rounds = count.div_ceil(OPS as u64);
        for _ in 0..rounds {
            for key in &mut keys {
                key_into(self.above + self.random.below(1 << 40), key);
            }
            let before = thread_cpu_ns();
            for key in &keys {
                self.found += u64::from(look(key));
            }
            spent += thread_cpu_ns() - before;
        }
        spent as f64 / (rounds * OPS as u64) as f64
    }
}

/// One cycle through all cache lines of a buffer in random order: each read waits for the one before.
struct Chase {
    memory: memmap2::MmapMut,
    at: usize,
    is_huge: bool,
}

const LINE: usize = 64;

impl Chase {
    fn new(bytes: u64, seed: u64) -> Result<Self> {
        let bytes = (bytes as usize).next_multiple_of(2 << 20);
        let mut memory =
            memmap2::MmapMut::map_anon(bytes).context("no memory for the dependent read")?;
        // Where huge pages are refused the figure is of base pages, and the report says so.
        let is_huge = memory.advise(memmap2::Advice::HugePage).is_ok();
        let lines = bytes / LINE;
        let mut order: Vec<u32> = (0..lines as u32).collect();
        let mut random = Random::new(seed);
        // Sattolo's shuffle leaves a single cycle.
        for i in (1..lines).rev() {
            order.swap(i, random.below(i as u64) as usize);
        }
        for (line, next) in order.iter().enumerate() {
            memory[line * LINE..line * LINE + 4].copy_from_slice(&next.to_le_bytes());
        }
        Ok(Chase {
            memory,
            at: 0,
            is_huge,
        })
    }

    fn timed(&mut self, reads: u64) -> f64 {
        let before = thread_cpu_ns();
        let mut at = self.at;
        for _ in 0..reads {
            let word: [u8; 4] = self.memory[at * LINE..at * LINE + 4]
                .try_into()
                .expect("4 bytes");
            at = u32::from_le_bytes(word) as usize;
        }
        self.at = black_box(at);
        (thread_cpu_ns() - before) as f64 / reads as f64
    }
}

pub fn overwrite(options: &OverwriteOptions) -> Result<Report> {
    let machine = Machine::read();
    let bytes = options.value_size.max();
    let cache = filled(1000, bytes.max(8))?;
    let (mut key, mut value) = ([0u8; 16], vec![1u8; bytes as usize]);
    let (mut hot, mut fresh, mut failures) = (Vec::new(), Vec::new(), 0u64);
    let mut next = 1u64 << 32;
    for _ in 0..options.rounds {
        key_into(1, &mut key);
        let before = thread_cpu_ns();
        for n in 0..options.writes {
            if let Some(first) = value.first_mut() {
                *first = n as u8;
            }
            failures += u64::from(cache.set(&key, &value).is_err());
        }
        hot.push((thread_cpu_ns() - before) as f64 / options.writes as f64);
        let mut spent = 0;
        let mut keys = vec![[0u8; 16]; 2048];
        for _ in 0..options.writes.div_ceil(2048) {
            for key in &mut keys {
                key_into(next, key);
                next += 1;
            }
            let before = thread_cpu_ns();
            for key in &keys {
                failures += u64::from(cache.set(key, &value).is_err());
            }
            spent += thread_cpu_ns() - before;
        }
        fresh.push(spent as f64 / (options.writes.div_ceil(2048) * 2048) as f64);
    }
    let mut rows = Rows::default();
    rows.add(
        format!("overwrite in place of a hot item of {} B, ns CPU", bytes),
        Spread::of(hot.iter().copied()),
        0,
        Bound::AtMost(80.0),
        Bound::AtMost(45.0),
    );
    rows.show(
        "insert of a new item of that size, eviction included",
        Spread::of(fresh.iter().copied()),
        0,
    );
    let mut report = Report::new("overwrite in place", machine, rows.into_table());
    report.failures = failures;
    report.points = serde_json::json!({ "hot_ns": hot, "insert_ns": fresh });
    Ok(report)
}

pub fn guard(options: &GuardOptions) -> Result<Report> {
    let machine = Machine::read();
    let bytes = options.value_size as u32;
    let items = (options.footprint / options.value_size).max(1);
    let cache = filled(items, bytes)?;
    let mix = uniform(items, bytes, 1);
    let (mut guards, mut copies, mut wrong) = (Vec::new(), Vec::new(), 0u64);
    let mut buffer = Vec::with_capacity(bytes as usize);
    for round in 0..options.rounds as u64 {
        let mut stream = Stream::new(&mix, round);
        guards.push(timed(&mut stream, options.reads, |batch| {
            for (index, op) in batch.ops.iter().enumerate() {
                let right = cache
                    .get(batch.key(index))
                    .is_some_and(|guard| head_is(&guard, op));
                wrong += u64::from(!right);
            }
        }));
        copies.push(timed(&mut stream, options.reads / 10, |batch| {
            for (index, op) in batch.ops.iter().enumerate() {
                buffer.clear();
                let hit = cache.get_into(batch.key(index), &mut buffer);
                wrong += u64::from(hit.is_none() || buffer[..8] != stamp(op.id));
            }
        }));
    }
    let ratios = copies.iter().zip(&guards).map(|(copy, guard)| copy / guard);
    let mut rows = Rows::default();
    let what = format!(
        "guard get against copy-out, {}",
        crate::units::show_bytes(options.value_size)
    );
    rows.add(
        what,
        Spread::of(ratios),
        1,
        Bound::AtLeast(10.0),
        Bound::AtLeast(20.0),
    );
    rows.show(
        "guard get, 8 bytes read, ns CPU",
        Spread::of(guards.iter().copied()),
        0,
    );
    rows.show(
        "copy into the caller's buffer, ns CPU",
        Spread::of(copies.iter().copied()),
        0,
    );
    let mut report = Report::new("guard against copy", machine, rows.into_table());
    report.failures = wrong;
    report.points = serde_json::json!({ "guard_ns": guards, "copy_ns": copies });
    Ok(report)
}

fn head_is(guard: &Guard, op: &Op) -> bool {
    debug_assert_eq!(op.kind, Kind::Read);
    guard
        .chunks()
        .next()
        .is_some_and(|piece| piece[..8] == stamp(op.id))
}
