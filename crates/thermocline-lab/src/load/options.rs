//! The flags of `thermolab load`, and what is refused before anything is sent.

use super::connection::KEY_BYTES_MAX;
use super::target::{Family, Target};
use super::wire::Dialect;
use crate::pace::Arrivals;
use crate::units::{parse_count, parse_duration};
use crate::workload::{Mix, Popularity, ValueSize, KEY_BYTES_MIN};
use anyhow::{bail, Result};
use clap::Args;
use std::time::Duration;

/// Load a memcached or Redis server and report latency, throughput and what it cost the server
#[derive(Args, Clone, Debug)]
pub struct LoadOptions {
    /// memcached://host:port (several by commas), unix:///path, redis://host:port or redis+unix:///path
    pub target: String,
    /// Connections, spread over the addresses and the loader's threads
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Requests in flight on a connection
    #[arg(long, default_value_t = 1)]
    pub pipeline: usize,
    /// Loader threads
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// How reads are asked for; default text-get, or resp-get for Redis
    #[arg(long, value_enum)]
    pub op: Option<Dialect>,
    /// 1KiB, uniform:1KiB..64KiB or lognormal:64..64KiB; a key keeps its size
    #[arg(long, default_value = "1KiB")]
    pub value_size: ValueSize,
    /// Key length in bytes
    #[arg(long, default_value_t = 16)]
    pub key_size: usize,
    /// Different keys
    #[arg(long, default_value = "100k", value_parser = parse_count)]
    pub keys: u64,
    /// uniform or zipf:EXPONENT
    #[arg(long, default_value = "zipf:0.99")]
    pub key_distribution: Popularity,
    /// Share of reads, 0 to 1
    #[arg(long, default_value_t = 1.0)]
    pub read_ratio: f64,
    /// Write each key that a read missed (counted apart)
    #[arg(long)]
    pub fill: bool,
    /// Do not write every key once before the run
    #[arg(long)]
    pub no_preload: bool,
    /// Stop after so many operations, exactly
    #[arg(long, value_parser = parse_count)]
    pub requests: Option<u64>,
    /// Stop after so long [default: 10s unless --requests is given]
    #[arg(long, value_parser = parse_duration)]
    pub duration: Option<Duration>,
    /// Run so long before measuring
    #[arg(long, value_parser = parse_duration, default_value = "0")]
    pub warmup: Duration,
    /// Open loop: operations a second, each with an intended start
    #[arg(long)]
    pub rate: Option<f64>,
    /// Spacing of the open loop's starts
    #[arg(long, value_enum, default_value = "even")]
    pub arrivals: Arrivals,
    /// The server's process: adds its CPU per operation
    #[arg(long)]
    pub pid: Option<u32>,
    /// Count the server's system calls over so many further operations; needs --pid
    #[arg(long, value_parser = parse_count, num_args = 0..=1, default_missing_value = "20k")]
    pub syscalls: Option<u64>,
    /// A connection without a byte for so long is closed and its requests have failed
    #[arg(long, value_parser = parse_duration, default_value = "10s")]
    pub timeout: Duration,
    /// Do not compare values with their keys (for keys another tool wrote)
    #[arg(long)]
    pub no_verify: bool,
    /// Accept a run whose reads all missed
    #[arg(long)]
    pub allow_misses: bool,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl LoadOptions {
    /// The options with everything at its default, for callers inside the lab.
    pub fn for_target(target: &str) -> Self {
        #[derive(clap::Parser)]
        struct Alone {
            #[command(flatten)]
            load: LoadOptions,
        }
        <Alone as clap::Parser>::parse_from(["load", target]).load
    }

    /// Refuses what cannot be measured, each with the flag to change.
    pub fn check(&self) -> Result<Vec<Target>> {
        let targets = Target::parse_all(&self.target)?;
        if self.connections == 0 || self.pipeline == 0 || self.threads == 0 || self.keys == 0 {
            bail!("--connections, --pipeline, --threads and --keys are at least 1");
        }
        if self.threads > self.connections {
            bail!(
                "--threads {} is more than --connections {}: some would idle",
                self.threads,
                self.connections
            );
        }
        if !(0.0..=1.0).contains(&self.read_ratio) {
            bail!("--read-ratio lies between 0 and 1");
        }
        if !(KEY_BYTES_MIN..=KEY_BYTES_MAX).contains(&self.key_size) {
            bail!("--key-size lies between {KEY_BYTES_MIN} and {KEY_BYTES_MAX} bytes");
        }
        if self
            .rate
            .is_some_and(|rate| !(rate > 0.0 && rate.is_finite()))
        {
            bail!("--rate is a number of operations a second above 0");
        }
        if self.syscalls.is_some() && self.pid.is_none() {
            bail!("--syscalls needs --pid of the server");
        }
        if self.timeout.is_zero() {
            bail!("--timeout is above 0: a silent server must not hang the run");
        }
        let resp = self.dialect(targets[0].family) == Dialect::RespGet;
        if resp != (targets[0].family == Family::Redis) {
            bail!("--op does not fit the address: resp-get is for redis://, the others for memcached://");
        }
        Ok(targets)
    }

    pub fn dialect(&self, family: Family) -> Dialect {
        self.op.unwrap_or(match family {
            Family::Memcached => Dialect::TextGet,
            Family::Redis => Dialect::RespGet,
        })
    }

    pub fn mix(&self) -> Mix {
        Mix {
            keys: self.keys,
            key_bytes: self.key_size,
            popularity: self.key_distribution,
            sizes: self.value_size,
            read_ratio: self.read_ratio,
            resize: false,
            seed: self.seed,
        }
    }

    pub fn duration(&self) -> Option<Duration> {
        match (self.requests, self.duration) {
            (None, None) => Some(Duration::from_secs(10)),
            (_, duration) => duration,
        }
    }
}
