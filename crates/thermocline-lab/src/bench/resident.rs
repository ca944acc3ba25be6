//! How many small items a server of a given budget holds, and what memory it takes for them.

use super::process::{Product, Server};
use super::row::{one, Bound, Rows};
use crate::load::{self, LoadOptions};
use crate::machine::{resident_peak_bytes, Machine};
use crate::report::Report;
use crate::units::parse_count;
use crate::workload::{Popularity, ValueSize};
use anyhow::{Context, Result};
use clap::Args;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Items of 100 B values resident in a server of 256 MiB, beside memcached
#[derive(Args, Clone, Debug)]
pub struct ResidentOptions {
    /// The thermocline binary
    #[arg(long)]
    pub server: PathBuf,
    #[arg(long, default_value = "memcached")]
    pub memcached: PathBuf,
    #[arg(long, default_value_t = 256)]
    pub memory_mib: u64,
    /// Keys written, well over what fits
    #[arg(long, value_parser = parse_count, default_value = "5M")]
    pub keys: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// What was seen of one server.
#[derive(serde::Serialize)]
struct Seen {
    product: &'static str,
    /// What its `stats` says.
    curr_items: u64,
    /// What a uniform sample of reads finds: hit ratio x keys.
    found_items: f64,
    peak_bytes: Option<u64>,
    /// Operations that failed, by kind.
    failed: BTreeMap<String, u64>,
}

pub fn run(options: &ResidentOptions) -> Result<Report> {
    let machine = Machine::read();
    let look = |product, binary| -> Result<Seen> {
        let server = Server::start(product, binary, options.memory_mib)?;
        let result = load::run(&LoadOptions {
            keys: options.keys,
            value_size: ValueSize::Fixed(100),
            key_distribution: Popularity::Uniform,
            pipeline: 16,
            requests: Some(200_000),
            ..LoadOptions::for_target(&server.url())
        })?;
        Ok(Seen {
            product: product.name(),
            curr_items: server.stat("curr_items")?,
            found_items: result.hit_ratio.context("reads were made")? * options.keys as f64,
            peak_bytes: resident_peak_bytes(server.pid()),
            failed: result.failed,
        })
    };
    let ours = look(Product::Thermocline, &options.server)?;
    let theirs = look(Product::Memcached, &options.memcached)?;
    let mut rows = Rows::default();
    let what = format!(
        "items of 16 B + 100 B in a server of {} MiB, found by reading (M)",
        options.memory_mib
    );
    rows.add(
        what,
        one(ours.found_items / 1e6),
        2,
        Bound::AtLeast(1.8),
        Bound::AtLeast(2.1),
    );
    rows.show(
        "the same by its stats (M)",
        one(ours.curr_items as f64 / 1e6),
        2,
    );
    rows.show(
        "memcached, found by reading (M)",
        one(theirs.found_items / 1e6),
        2,
    );
    let budget = (options.memory_mib << 20) as f64;
    let peak = |seen: &Seen| one(seen.peak_bytes? as f64 / budget);
    rows.add(
        "VmHWM / budget",
        peak(&ours),
        3,
        Bound::AtMost(1.05),
        Bound::AtMost(1.02),
    );
    rows.show("memcached's VmHWM / -m", peak(&theirs), 3);
    let mut report = Report::new("items resident", machine, rows.into_table());
    report.notes.push(format!(
        "{} keys written once over 16 connections, then 200,000 uniform reads",
        options.keys
    ));
    for seen in [&ours, &theirs] {
        let failures: u64 = seen.failed.values().sum();
        report.failures += failures;
        if failures > 0 {
            let (product, failed) = (seen.product, &seen.failed);
            let note = format!("{failures} operations on {product} failed: {failed:?}");
            report.notes.push(note);
        }
    }
    report.points = serde_json::json!([ours, theirs]);
    Ok(report)
}
