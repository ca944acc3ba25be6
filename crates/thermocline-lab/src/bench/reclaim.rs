//! What reclaim costs others: reads beside it, the slowest write while it works, and the memory of its policy.
//!
//! One cache, full and evicting. A writer stores new keys without end, so that the background thread and the writer's
//! own passes reclaim all the while; a reader asks for a hot set that stays. Reads are counted by the reader's CPU
//! time, so that a core shared with others is no cost of reclaim.

use super::row::{one, Bound, Rows};
use crate::machine::{thread_cpu_ns, Machine};
use crate::report::{Report, Spread};
use crate::units::{parse_bytes, parse_count};
use crate::workload::{key_into, Random};
use anyhow::{Context, Result};
use clap::Args;
use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thermocline::{Cache, Config};

/// Reads beside reclaim, the slowest write while it works, memory of the policy
#[derive(Args, Clone, Debug)]
pub struct ReclaimOptions {
    #[arg(long, value_parser = parse_bytes, default_value = "256MiB")]
    pub memory: u64,
    #[arg(long, default_value_t = 1024)]
    pub value_size: u32,
    /// Writes timed, the cache full
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    pub writes: u64,
    #[arg(long, default_value_t = 5)]
    pub rounds: u64,
    /// How long the reader reads in each half of a round, milliseconds
    #[arg(long, default_value_t = 1000)]
    pub half_ms: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Keys that the reader asks for; new ones are numbered from here on.
const HOT: u64 = 20_000;
/// Longest write told apart, ns.
const TAIL_MAX_NS: u64 = 10_000_000_000;
/// Reads between looks at the clock.
const BURST: u64 = 256;
/// Value bytes where the policy's memory an item is taken: many small items.
const SMALL: usize = 100;

/// Steps of a round of arithmetic, and the words it goes over: about 2 us.
const COMPUTED_STEPS: usize = 2000;
const COMPUTED_WORDS: usize = 512;

pub fn run(options: &ReclaimOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    let mut filled = Filled::new(options.memory, options.value_size as usize)?;
    let ratios: Vec<f64> = (0..options.rounds)
        .map(|round| filled.round(Duration::from_millis(options.half_ms), round))
        .collect();
    let least = Bound::AtLeast;
    rows.add(
        "gets a CPU second with reclaim running over gets without",
        Spread::of(ratios),
        3,
        least(0.9),
        least(0.97),
    );
    let tails = filled.tails(options.writes)?;
    let at = |tail: &Histogram<u64>, q: f64| one(tail.value_at_quantile(q) as f64 / 1e3);
    let us = |q: f64| at(&tails.sets, q);
    let most = Bound::AtMost;
    rows.add(
        "thread CPU of the longest SET, steady state, µs",
        us(1.0),
        1,
        most(500.0),
        most(100.0),
    );
    rows.show("the same, p99.99, µs", us(0.9999), 1);
    rows.show("the same, p99, µs", us(0.99), 1);
    rows.show("the same, p50, µs", us(0.5), 2);
    rows.show(
        "in turns with them, a loop that only computes: longest round, µs (what the machine adds)",
        at(&tails.computed, 1.0),
        1,
    );
    rows.show("the same, p99.99, µs", at(&tails.computed, 0.9999), 1);
    let stats = filled.cache.stats();
    rows.show(
        "direct passes a thousand writes",
        one(stats.direct_passes as f64 * 1e3 / (stats.inserts + stats.replaced).max(1) as f64),
        1,
    );
    drop(filled);
    let small = Filled::new(options.memory, SMALL)?.cache.stats();
    let per_item = |bytes: u64| one(bytes as f64 / small.items.max(1) as f64);
    rows.add(
        "memory of the policy (ghosts, shadows), bytes an item",
        per_item(small.ghost_bytes + small.shadow_bytes),
        2,
        most(5.0),
        most(4.3),
    );
    rows.show("of it shadows", per_item(small.shadow_bytes), 2);
    let mut report = Report::new("reclaim beside others", machine, rows.into_table());
    report.notes.push(format!(
        "{} MiB, values of {} bytes, {HOT} hot keys; one reader, one writer of new keys; counters of accesses lie in the index; memory with values of {SMALL} bytes, {} items",
        options.memory >> 20,
        options.value_size,
        small.items
    ));
    Ok(report)
}

/// Thread CPU of as many writes as of rounds of arithmetic, in turns, ns. What the rounds have at their worst the machine
/// adds to both (interrupts, and on a virtual machine what its host does meanwhile).
struct Tails {
    sets: Histogram<u64>,
    computed: Histogram<u64>,
}

/// A round of arithmetic, about as long as a write.
fn compute(words: &mut [u64; COMPUTED_WORDS], round: u64) {
    for at in 0..COMPUTED_STEPS {
        let word = &mut words[at % COMPUTED_WORDS];
        *word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(round);
    }
    std::hint::black_box(&words);
}

/// A cache that is full and evicting.
struct Filled {
    cache: Cache,
    value: Vec<u8>,
    next: u64,
}

impl Filled {
    fn new(memory: u64, value_bytes: usize) -> Result<Filled> {
        let cache = Cache::new(Config::new(memory)).context("cannot make the cache")?;
        let mut filled = Filled {
            cache,
            value: vec![b'v'; value_bytes],
            next: HOT,
        };
        for hot in 0..HOT {
            filled.set(hot)?;
        }
        // Twice over, so that ghosts, shadows and queues are as they stay; the hot ones are read meanwhile.
        let items = 2 * memory / (value_bytes as u64 + 20);
        let mut random = Random::lane(1, 0);
        for _ in 0..items {
            let new = filled.new_key();
            filled.set(new)?;
            filled.get((random.unit() * HOT as f64) as u64);
        }
        Ok(filled)
    }

    fn new_key(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    fn set(&self, number: u64) -> Result<()> {
        let mut key = [0; 16];
        key_into(number, &mut key);
        self.cache
            .set(&key, &self.value)
            .with_context(|| format!("write {number} was refused"))
    }

    fn get(&self, number: u64) -> bool {
        let mut key = [0; 16];
        key_into(number, &mut key);
        self.cache.get(&key).is_some()
    }

    /// Gets a CPU second with a writer at work over gets without, one after the other in turn.
    fn round(&mut self, half: Duration, round: u64) -> f64 {
        let mut rates = [0.0; 2];
        for at in [round % 2, 1 - round % 2] {
            let stop = AtomicBool::new(false);
            let this = &*self;
            rates[at as usize] = std::thread::scope(|scope| {
                let writer = (at == 1).then(|| scope.spawn(|| this.write_until(&stop)));
                let rate = this.read_for(half, round);
                stop.store(true, Ordering::Relaxed);
                let written = writer.map_or(0, |writer| writer.join().unwrap_or(0));
                (rate, written)
            })
            .0;
            self.next += 1 << 32;
        }
        rates[1] / rates[0]
    }

    fn write_until(&self, stop: &AtomicBool) -> u64 {
        let mut written = 0;
        while !stop.load(Ordering::Relaxed) {
            written += 1;
            // Refused under pressure: the reader is what is measured.
            let _ = self.set(self.next + written);
        }
        written
    }

    fn read_for(&self, time: Duration, seed: u64) -> f64 {
        let mut random = Random::lane(seed, 7);
        let (start, cpu) = (Instant::now(), thread_cpu_ns());
        let mut gets = 0;
        while start.elapsed() < time {
            for _ in 0..BURST {
                self.get((random.unit() * HOT as f64) as u64);
            }
            gets += BURST;
        }
        gets as f64 / (thread_cpu_ns() - cpu).max(1) as f64 * 1e9
    }

    /// So many writes of new keys.
    fn tails(&mut self, writes: u64) -> Result<Tails> {
        let histogram = || Histogram::new_with_max(TAIL_MAX_NS, 3).context("a histogram");
        let (mut sets, mut computed) = (histogram()?, histogram()?);
        let mut words = [1u64; COMPUTED_WORDS];
        for round in 0..writes {
            let number = self.new_key();
            let before = thread_cpu_ns();
            self.set(number)?;
            let between = thread_cpu_ns();
            compute(&mut words, round);
            computed.saturating_record(thread_cpu_ns() - between);
            sets.saturating_record(between - before);
        }
        Ok(Tails { sets, computed })
    }
}
