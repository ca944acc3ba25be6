//! One cache, filled several times over with distinct keys: how many items it then holds, and what the process
//! took for it.

use crate::machine::{resident_bytes, resident_peak_bytes};
use crate::workload::records::{key_into, Values, KEY_BYTES};
use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};
use thermocline::{Cache, CompressMode, Config};

/// Budgets' worth of what fits that are written: the dictionaries have settled then.
const TIMES: f64 = 3.0;
/// At most so many times what fits with the tier off: no set compresses better.
const TIMES_OFF: f64 = 20.0;
/// What is written before the first dictionary comes does not count: large values fill the cache three times in 0.3 s,
/// and the dictionary of html2k came before that or after, at 4.7 times the items or at 0.93. Values that do not
/// compress never get one.
const WAIT_MAX: Duration = Duration::from_secs(3);

/// What a cache came to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Filled {
    pub set: String,
    pub on: bool,
    pub items: u64,
    /// Most memory of the process, the cache's and all else of it.
    pub peak_bytes: u64,
    pub plain_bytes: u64,
    pub coded_bytes: u64,
    pub trained: u64,
    pub decompress_fail: u64,
}

/// Fills a cache of `memory` bytes. What the process took before it was made is left out of its peak. `background`:
/// with the cache's own thread; without it what is found does not depend on how fast that is.
pub fn fill(values: &Values, memory: u64, on: bool, background: bool) -> Result<Filled> {
    let pid = std::process::id();
    let mut config = Config::new(memory);
    config.threads = 1;
    config.background = background;
    config.compress = match on {
        true => CompressMode::On,
        false => CompressMode::Off,
    };
    let before = resident_bytes(pid).unwrap_or(0);
    let cache = Cache::new(config).context("cannot make the cache")?;
    let mut key = [0; KEY_BYTES];
    let (mut id, mut most, off_fits) = (0u64, 0u64, memory as f64 / values.mean_bytes());
    let begun = Instant::now();
    let waits = |cache: &Cache| on && cache.tiers().trained == 0 && begun.elapsed() < WAIT_MAX;
    let mut from = 0;
    loop {
        for _ in 0..1000 {
            key_into(id, &mut key);
            let _ = cache.set(&key, values.of_key(id));
            id += 1;
        }
        most = most.max(cache.len());
        if waits(&cache) {
            from = id;
        }
        let written = (id - from) as f64;
        if written >= most as f64 * TIMES + off_fits || written >= off_fits * TIMES_OFF {
            break;
        }
    }
    let tiers = cache.tiers();
    let peak = resident_peak_bytes(pid).unwrap_or(0);
    Ok(Filled {
        set: values.name.clone(),
        on,
        items: cache.len(),
        peak_bytes: peak.saturating_sub(before),
        plain_bytes: tiers.plain_bytes,
        coded_bytes: tiers.coded_bytes,
        trained: tiers.trained,
        decompress_fail: tiers.decompress_fail,
    })
}
