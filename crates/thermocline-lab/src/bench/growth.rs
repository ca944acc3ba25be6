//! One cache grown to 10 million small items: what the index and all metadata cost an item on the way, and how
//! long the slowest inserts take.
//!
//! Two passes over two caches. The first watches sizes only. The second times each insert by the thread's CPU
//! clock and asks the kernel for page faults after each, so that inserts that had to be given a fresh page are
//! told apart; over its last million it also asks the engine whether the index was restructured. In turns with the inserts
//! runs a fixed piece of work, timed the same way and as often: a worst one can only be judged beside as many. (Instructions,
//! which no neighbour lengthens, are callgrind's: virtual machines often have no hardware counters to read here.)

use super::row::{one, Bound, Rows};
use crate::machine::{thread_cpu_ns, Machine};
use crate::report::{Report, Spread};
use crate::units::{parse_bytes, parse_count};
use crate::workload::key_into;
use anyhow::{Context, Result};
use clap::Args;
use hdrhistogram::Histogram;
use nix::sys::resource::{getrusage, UsageWho};
use thermocline::{Cache, Config, Stats};

/// Index and metadata bytes an item and insert tails, growing to 10 M items of 16 B keys and 100 B values
#[derive(Args, Clone, Debug)]
pub struct GrowthOptions {
    #[arg(long, value_parser = parse_count, default_value = "10M")]
    pub items: u64,
    /// Budget: the items about fill it
    #[arg(long, value_parser = parse_bytes, default_value = "1536MiB")]
    pub memory: u64,
    #[arg(long, default_value_t = 100)]
    pub value_size: u32,
    /// Skip the second pass
    #[arg(long)]
    pub no_tails: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const KEY_BYTES: u64 = 16;
/// Looks at the sizes between nothing and all.
const LOOKS: u64 = 256;
/// Inserts over which restructurings are told apart.
const WATCHED: u64 = 1_000_000;

/// One look at the sizes.
#[derive(serde::Serialize)]
struct Look {
    items: u64,
    index_bytes_per_item: f64,
    metadata_bytes_per_item: f64,
}

impl Look {
    fn at(stats: &Stats, value_bytes: u64) -> Look {
        let items = stats.items.max(1) as f64;
        let all = stats.index_bytes + stats.ghost_bytes + stats.table_bytes + stats.live_bytes;
        Look {
            items: stats.items,
            index_bytes_per_item: stats.index_bytes as f64 / items,
            metadata_bytes_per_item: all as f64 / items - (KEY_BYTES + value_bytes) as f64,
        }
    }
}

pub fn run(options: &GrowthOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    let most = Bound::AtMost;
    let Grown {
        looks,
        full,
        refused,
    } = sizes(options)?;
    let doubling: Vec<f64> = looks
        .iter()
        .filter(|look| look.items > options.items / 2)
        .map(|look| look.index_bytes_per_item)
        .collect();
    let mean = doubling.iter().sum::<f64>() / doubling.len().max(1) as f64;
    let worst = Spread::of(doubling.iter().copied()).and_then(|s| one(s.max));
    rows.add(
        "index bytes an item, last doubling, mean",
        one(mean),
        2,
        most(10.0),
        most(9.3),
    );
    rows.add("the same, worst", worst, 2, most(10.5), most(9.7));
    // Judged where everything that policy needs is there: full, evicting, ghosts and all.
    let look = Look::at(&full, u64::from(options.value_size));
    let per_item = |bytes: u64| one(bytes as f64 / look.items.max(1) as f64);
    let payload = look.items * (KEY_BYTES + u64::from(options.value_size));
    rows.add(
        "metadata bytes a live item, full and evicting, all policy memory included",
        one(look.metadata_bytes_per_item),
        2,
        most(21.0),
        most(17.5),
    );
    rows.show("of it: index", per_item(full.index_bytes), 2);
    rows.show(
        "of it: item headers and padding",
        per_item(full.live_bytes.saturating_sub(payload)),
        2,
    );
    rows.show("of it: ghosts", per_item(full.ghost_bytes), 2);
    rows.show("of it: tables of fixed size", per_item(full.table_bytes), 2);
    rows.show("items held when full (M)", one(look.items as f64 / 1e6), 3);
    rows.show(
        "before the first eviction, metadata bytes an item",
        looks.last().and_then(|l| one(l.metadata_bytes_per_item)),
        2,
    );
    let mut points = serde_json::json!({ "looks": looks });
    let mut failures = refused;
    if !options.no_tails {
        let tails = Tails::measure(options)?;
        tails.rows(&mut rows);
        failures += tails.refused;
        points["tails"] = tails.json();
    }
    let mut report = Report::new(
        format!("growing to {} items", options.items),
        machine,
        rows.into_table(),
    );
    report.notes.push("tails: thread CPU of whole inserts, the clock's own cost included; fresh pages told apart by the thread's page faults".into());
    report.failures = failures;
    report.points = points;
    Ok(report)
}

/// What the first pass saw.
struct Grown {
    looks: Vec<Look>,
    /// After as many inserts again, the cache full and evicting.
    full: Stats,
    refused: u64,
}

fn sizes(options: &GrowthOptions) -> Result<Grown> {
    let cache = Cache::new(Config::new(options.memory)).context("cannot make the cache")?;
    let value = vec![7u8; options.value_size as usize];
    let (mut key, mut looks, mut refused) = ([0u8; KEY_BYTES as usize], Vec::new(), 0);
    let step = (options.items / LOOKS).max(1);
    for id in 0..options.items * 2 {
        key_into(id, &mut key);
        refused += u64::from(cache.set(&key, &value).is_err());
        if id < options.items && (id + 1) % step == 0 {
            looks.push(Look::at(&cache.stats(), u64::from(options.value_size)));
        }
    }
    Ok(Grown {
        looks,
        full: cache.stats(),
        refused,
    })
}

/// Thread CPU of inserts, ns.
struct Tails {
    inserts: Histogram<u64>,
    fresh_pages: Histogram<u64>,
    restructurings: Histogram<u64>,
    /// The clock read twice with nothing between: what it adds to each figure.
    clock: Histogram<u64>,
    /// A fixed piece of work in registers, done after each insert and timed the same way: tails that it has too are the
    /// machine's (interrupts, a hypervisor).
    control: Histogram<u64>,
    worst: Vec<Slow>,
    refused: u64,
}

/// One of the slowest inserts that were given no fresh page.
#[derive(Clone, Copy, Debug, serde::Serialize)]
struct Slow {
    insert: u64,
    ns: u64,
}

const CONTROL_STEPS: u32 = 2_500;

/// Slowest inserts kept for the report's points.
const WORST_KEPT: usize = 40;
/// Inserts faster than this are not among them, ns.
const SLOW_NS: u64 = 50_000;
/// What an insert may take at the most, ns.
const BOUND_NS: u64 = 100_000;

impl Tails {
    fn measure(options: &GrowthOptions) -> Result<Tails> {
        let histogram =
            || Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are in order");
        let mut tails = Tails {
            inserts: histogram(),
            fresh_pages: histogram(),
            restructurings: histogram(),
            clock: histogram(),
            control: histogram(),
            worst: Vec::new(),
            refused: 0,
        };
        for _ in 0..10_000 {
            let before = thread_cpu_ns();
            tails
                .clock
                .saturating_record((thread_cpu_ns() - before).max(1));
        }
        let cache = Cache::new(Config::new(options.memory)).context("cannot make the cache")?;
        let value = vec![7u8; options.value_size as usize];
        let mut key = [0u8; KEY_BYTES as usize];
        let watched_from = options.items.saturating_sub(WATCHED);
        let (mut faults, mut restructured) = (page_faults()?, 0);
        for id in 0..options.items {
            if id == watched_from {
                restructured = restructurings(&cache);
                faults = page_faults()?;
            }
            key_into(id, &mut key);
            let before = thread_cpu_ns();
            let stored = cache.set(&key, &value).is_ok();
            let spent = (thread_cpu_ns() - before).max(1);
            tails.refused += u64::from(!stored);
            let now = page_faults()?;
            if spent > SLOW_NS && now == faults {
                tails.slow(Slow {
                    insert: id,
                    ns: spent,
                });
            }
            if now != faults {
                tails.fresh_pages.saturating_record(spent);
            } else {
                tails.inserts.saturating_record(spent);
            }
            if id >= watched_from {
                let count = restructurings(&cache);
                if count != restructured && now == faults {
                    tails.restructurings.saturating_record(spent);
                }
                restructured = count;
                // Asking for statistics may itself touch a page.
                faults = page_faults()?;
            } else {
                faults = now;
            }
            let before = thread_cpu_ns();
            work_in_registers();
            tails
                .control
                .saturating_record((thread_cpu_ns() - before).max(1));
        }
        Ok(tails)
    }

    fn slow(&mut self, slow: Slow) {
        self.worst.push(slow);
        self.worst.sort_by_key(|slow| std::cmp::Reverse(slow.ns));
        self.worst.truncate(WORST_KEPT);
    }

    fn rows(&self, rows: &mut Rows) {
        let (most, free) = (Bound::AtMost, Bound::Free);
        let us = |histogram: &Histogram<u64>, q: f64| {
            (!histogram.is_empty())
                .then(|| histogram.value_at_quantile(q) as f64 / 1e3)
                .and_then(one)
        };
        let restructured = &self.restructurings;
        rows.show(
            "inserts that restructured the index, of the last million",
            one(restructured.len() as f64),
            0,
        );
        rows.show("thread CPU of one, p50, µs", us(restructured, 0.5), 1);
        rows.add(
            "thread CPU of one, p99, µs",
            us(restructured, 0.99),
            1,
            most(6.0),
            most(4.0),
        );
        rows.add(
            "thread CPU of one, p99.9, µs",
            us(restructured, 0.999),
            1,
            most(50.0),
            most(30.0),
        );
        rows.add(
            "thread CPU of any insert, fresh pages apart, worst, µs",
            us(&self.inserts, 1.0),
            1,
            most(100.0),
            most(50.0),
        );
        rows.add(
            "the same, p99.99, µs",
            us(&self.inserts, 0.9999),
            1,
            free,
            free,
        );
        rows.show("the same, p50, µs", us(&self.inserts, 0.5), 2);
        rows.show("of it the clock itself, p50, µs", us(&self.clock, 0.5), 2);
        let over = |histogram: &Histogram<u64>| {
            one(histogram.count_between(BOUND_NS + 1, u64::MAX) as f64)
        };
        rows.show("of them inserts over 100 µs", over(&self.inserts), 0);
        rows.show(
            "fixed work over 100 µs, as many rounds",
            over(&self.control),
            0,
        );
        for (name, at) in [
            ("p50", 0.5),
            ("p99", 0.99),
            ("p99.9", 0.999),
            ("worst", 1.0),
        ] {
            rows.show(
                format!("fixed work without memory, {name}, µs (what the machine adds)"),
                us(&self.control, at),
                1,
            );
        }
        rows.show(
            "inserts with a fresh page",
            one(self.fresh_pages.len() as f64),
            0,
        );
        rows.show(
            "thread CPU of one, p99, µs (fresh page)",
            us(&self.fresh_pages, 0.99),
            1,
        );
    }

    fn json(&self) -> serde_json::Value {
        let quantiles = |histogram: &Histogram<u64>| {
            let at = |q: f64| histogram.value_at_quantile(q);
            serde_json::json!({
                "count": histogram.len(), "p50_ns": at(0.5), "p99_ns": at(0.99), "p999_ns": at(0.999),
                "p9999_ns": at(0.9999), "p99999_ns": at(0.99999), "max_ns": histogram.max(),
            })
        };
        serde_json::json!({
            "inserts": quantiles(&self.inserts), "fresh_pages": quantiles(&self.fresh_pages),
            "clock": quantiles(&self.clock), "control": quantiles(&self.control), "worst": self.worst,
            "restructurings": quantiles(&self.restructurings),
        })
    }
}

/// Some µs of steps that each wait for the one before.
#[inline(never)]
fn work_in_registers() {
    let mut state = std::hint::black_box(1u64);
    for _ in 0..CONTROL_STEPS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
    }
    std::hint::black_box(state);
}

fn restructurings(cache: &Cache) -> u64 {
    let stats = cache.stats();
    stats.index_rebuilds + stats.index_splits
}

/// Page faults of this thread so far.
fn page_faults() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).context("getrusage")?;
    Ok(usage.minor_page_faults() + usage.major_page_faults())
}
