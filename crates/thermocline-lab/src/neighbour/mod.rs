//! `thermolab neighbour`: a cache server is filled, then somebody beside it takes memory in steps; who lives? The command
//! that the pressure experiment measures, inside a control group that cannot hold both.
//!
//! Without `--server` it is the neighbour itself. Prints one figure a line: name, value.

mod server;

use crate::units::{parse_bytes, parse_duration};
use anyhow::{Context, Result};
use clap::{Args, ValueEnum};
use server::Cache;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Who is killed may take a moment to be gone.
const SETTLES: Duration = Duration::from_millis(500);
/// How long the neighbour keeps what it took.
const KEEPS: Duration = Duration::from_millis(500);

/// The cache beside the neighbour.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Product {
    Thermocline,
    Memcached,
    Redis,
}

/// Fill a cache server, then take memory beside it in steps, and say who lives
#[derive(Args, Debug)]
pub struct NeighbourOptions {
    /// The cache; without one, only memory is taken
    #[arg(long)]
    server: Option<Product>,
    /// Its program, if not the one beside this one or on the path
    #[arg(long)]
    binary: Option<String>,
    /// What the cache may use
    #[arg(long, value_parser = parse_bytes, default_value = "192MiB", value_name = "SIZE")]
    memory: u64,
    /// Bytes of values written to it first
    #[arg(long, value_parser = parse_bytes, default_value = "250MiB", value_name = "SIZE")]
    fill: u64,
    /// Bytes of a value
    #[arg(long, value_parser = parse_bytes, default_value = "100KiB", value_name = "SIZE")]
    value: u64,
    /// What the neighbour takes
    #[arg(long, value_parser = parse_bytes, default_value = "180MiB", value_name = "SIZE")]
    take: u64,
    /// In steps of so much
    #[arg(long, value_parser = parse_bytes, default_value = "4MiB", value_name = "SIZE")]
    step: u64,
    /// Time between two steps
    #[arg(long, value_parser = parse_duration, default_value = "30ms", value_name = "TIME")]
    every: Duration,
    /// More flags for the cache
    #[arg(last = true)]
    flags: Vec<String>,
}

pub fn run(options: &NeighbourOptions) -> Result<()> {
    match options.server {
        None => take(options),
        Some(product) => beside(product, options),
    }
}

/// Takes memory in steps, keeps it a moment, and looks whether it is still there.
fn take(options: &NeighbourOptions) -> Result<()> {
    let step = options.step.max(4096) as usize;
    let mut held = Vec::new();
    for _ in 0..options.take / step as u64 {
        // Written, not only reserved.
        held.push(vec![1u8; step]);
        std::thread::sleep(options.every);
    }
    std::thread::sleep(KEEPS);
    let whole = held.iter().all(|step| step.iter().all(|&byte| byte == 1));
    anyhow::ensure!(whole, "what was taken is not what it was");
    Ok(())
}

fn beside(product: Product, options: &NeighbourOptions) -> Result<()> {
    let mut cache = Cache::start(product, options)?;
    cache.fill(options.fill, options.value as usize)?;
    let (resident, items) = (cache.resident_bytes(), cache.items()?);
    let begin = Instant::now();
    let neighbour = the_neighbour(options)?;
    let took = begin.elapsed();
    std::thread::sleep(SETTLES);
    let lives = cache.lives()?;
    say("neighbour_finished", u8::from(neighbour.success()));
    say("neighbour_killed", u8::from(neighbour.signal() == Some(9)));
    say("neighbour_s", format!("{:.3}", took.as_secs_f64()));
    say("server_lives", u8::from(lives));
    say(
        "somebody_killed",
        u8::from(!lives || neighbour.signal() == Some(9)),
    );
    say("items_before", items);
    say("resident_before_bytes", resident);
    let (after, left) = match lives {
        true => (cache.resident_bytes(), cache.items()?),
        false => (0, 0),
    };
    say("items_after", left);
    say("resident_after_bytes", after);
    let given = if lives {
        resident.saturating_sub(after)
    } else {
        0
    };
    say("given_back_bytes", given);
    Ok(())
}

fn the_neighbour(options: &NeighbourOptions) -> Result<ExitStatus> {
    let own = std::env::current_exe().context("the path of this program")?;
    Command::new(own)
        .arg("neighbour")
        .args(["--take", &options.take.to_string()])
        .args(["--step", &options.step.to_string()])
        .args(["--every", &format!("{}us", options.every.as_micros())])
        .stdout(Stdio::null())
        .status()
        .context("starting the neighbour")
}

fn say(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}
