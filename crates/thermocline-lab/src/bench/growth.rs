//! One cache grown to 10 million small items: what the index and all metadata cost an item on the way, and how
//! long the slowest inserts take.
//!
//! The first cache is only asked for its sizes; inserts are timed in caches of their own (`tails`).

mod tails;

use super::row::{one, Bound, Rows};
use crate::machine::Machine;
use crate::report::{Report, Spread};
use crate::units::{parse_bytes, parse_count};
use crate::workload::key_into;
use anyhow::{Context, Result};
use clap::Args;
use tails::Tails;
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
    /// Do not time inserts
    #[arg(long)]
    pub no_tails: bool,
    /// Caches of one seed in which each insert is timed; its median is judged
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=9), default_value_t = 5)]
    pub passes: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

const KEY_BYTES: u64 = 16;
/// Looks at the sizes between nothing and all.
const LOOKS: u64 = 256;

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
    report.notes.push(format!("tails: thread CPU of whole inserts, each the median of {} passes over caches of one seed, less the median of reading the clock with nothing between (single passes and fixed work are with it); fresh pages told apart by the thread's page faults", options.passes));
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
