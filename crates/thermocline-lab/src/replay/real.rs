//! Our engine as it is: `Cache`, by its public calls. Its own counters must say what the calls answered.

use super::drive::{drive, Hit, Tally, Target, KEY_BYTES};
use super::options::ReplayOptions;
use super::outcome::{Foretold, Outcome};
use super::plan::{Footprint, Plan, FOOTPRINT_MAX, ITEMS_MIN};
use crate::trace::Facts;
use crate::workload::STAMP_BYTES;
use anyhow::{bail, Context, Result};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thermocline::{Cache, Clock, Estimate, Expiry, SetOptions, Stats};

/// Header of a small item, and of one that is not (its length in words follows), bytes.
const HEADER_BYTES: usize = 4;
pub const LONG_HEADER_BYTES: usize = 16;
/// Metadata charged an item when memory is what is equal: index 9.7, ghosts and shadows 4.3, bytes.
pub const METADATA_BYTES: f64 = 14.0;
/// Where a manual clock starts: any time later than the engine's own beginning.
const START_MS: u64 = 1_800_000_000_000;

pub fn replay(options: &ReplayOptions, plan: Plan, facts: &Facts) -> Result<Outcome> {
    if plan.items < ITEMS_MIN {
        bail!(
            "{} items: an engine of segments is asked for at least {ITEMS_MIN}; use --simulate",
            plan.items
        );
    }
    let has_times = options.trace.open(options.format)?.has_times();
    let clock = has_times.then(|| Clock::manual(START_MS));
    let mut config = plan.config(options);
    if let Some(clock) = &clock {
        config.clock = clock.clone();
    }
    let cache = Cache::new(config).context("our engine refuses these settings")?;
    let real = Real {
        item_bytes_max: cache.item_size_max(),
        cache,
        footprint: plan.footprint,
        clock: clock.map(|clock| (clock, Mutex::new(None))),
        lives: Mutex::new(Lives::default()),
    };
    let started = Instant::now();
    let tally = drive(&real, options, &plan, facts.requests)?;
    let seconds = started.elapsed().as_secs_f64();
    let stats = real.cache.stats();
    agree(&tally, &stats)?;
    Ok(Outcome {
        segments: stats.segments as u32,
        segment_bytes: stats.segment_bytes,
        copied_bytes_per_inserted_byte: (stats.inserted_bytes > 0)
            .then(|| stats.moved_bytes as f64 / stats.inserted_bytes as f64),
        live_share: real.live_share(),
        metadata_bytes_per_item: metadata(&stats),
        curve: foretold(&real.cache),
        seconds,
        ..Outcome::of(options, &plan, &tally)?
    })
}

/// The engine counts what it answers; if the two differ one of them is wrong, and so is the figure.
fn agree(tally: &Tally, stats: &Stats) -> Result<()> {
    let hits = tally.reads - tally.misses;
    if (stats.hits, stats.misses) != (hits, tally.misses) {
        bail!(
            "the calls answered {hits} hits and {} misses, the engine counted {} and {}",
            tally.misses,
            stats.hits,
            stats.misses
        );
    }
    Ok(())
}

fn foretold(cache: &Cache) -> Vec<Foretold> {
    let curve = cache.miss_ratio_curve();
    let points = curve.iter().flat_map(|curve| &curve.points);
    points
        .map(|point| Foretold {
            factor: point.factor,
            miss_ratio: 1.0 - point.hit_ratio_since_start,
            is_far: point.estimate == Estimate::Lru,
        })
        .collect()
}

fn metadata(stats: &Stats) -> Option<f64> {
    let bytes = stats.index_used_bytes + stats.ghost_bytes;
    (stats.items > 0).then(|| bytes as f64 / stats.items as f64)
}

struct Real {
    cache: Cache,
    footprint: Footprint,
    item_bytes_max: u64,
    /// The clock, and when the trace began.
    clock: Option<(Clock, Mutex<Option<u64>>)>,
    lives: Mutex<Lives>,
}

/// Live shares seen since something was evicted.
#[derive(Default)]
struct Lives {
    sum: f64,
    count: u64,
}

impl Real {
    fn live_share(&self) -> Option<f64> {
        let lives = self.lives.lock().ok()?;
        (lives.count > 0).then(|| lives.sum / lives.count as f64)
    }
}

impl Real {
    /// Bytes of the value of an item that takes `footprint` bytes.
    fn beside_header(&self, footprint: u64) -> usize {
        let beside = match self.footprint {
            Footprint::AsIs => 0,
            _ if footprint <= FOOTPRINT_MAX => HEADER_BYTES + KEY_BYTES,
            _ => LONG_HEADER_BYTES + KEY_BYTES,
        };
        (footprint as usize).saturating_sub(beside)
    }
}

impl Target for Real {
    fn get(&self, key: &[u8; KEY_BYTES]) -> Option<Hit> {
        let guard = self.cache.get(key)?;
        let mut head = [0; STAMP_BYTES];
        let first = guard.ready_from(0).next().unwrap_or_default();
        let count = first.len().min(STAMP_BYTES);
        head[..count].copy_from_slice(&first[..count]);
        Some(Hit {
            // A first piece shorter than a stamp is not compared.
            value_bytes: if count < STAMP_BYTES { 0 } else { guard.len() },
            head,
        })
    }

    fn set(&self, key: &[u8; KEY_BYTES], value: &[u8], ttl_s: u32) -> bool {
        if ttl_s == 0 {
            return self.cache.set(key, value).is_ok();
        }
        let options = SetOptions {
            expiry: Expiry::In(Duration::from_secs(u64::from(ttl_s))),
            ..SetOptions::default()
        };
        self.cache.set_with(key, value, &options).is_ok()
    }

    fn delete(&self, key: &[u8; KEY_BYTES]) {
        self.cache.delete(key);
    }

    fn value_bytes(&self, footprint: u64) -> Option<usize> {
        let bytes = self.beside_header(footprint);
        (bytes as u64 <= self.item_bytes_max).then_some(bytes)
    }

    fn offer(&self, key: &[u8; KEY_BYTES], footprint: u64) {
        // Refused before a byte of it is asked for; what the cache makes of that is its own matter.
        let bytes = self.beside_header(footprint);
        let refused = self.cache.write(key, bytes, &SetOptions::default());
        debug_assert!(refused.is_err(), "{bytes} bytes are over the limit");
    }

    fn time(&self, ns: u64) {
        let Some((clock, began)) = &self.clock else {
            return;
        };
        let Ok(mut began) = began.lock() else { return };
        let began = *began.get_or_insert(ns);
        let now_ms = START_MS + ns.saturating_sub(began) / 1_000_000;
        let behind = now_ms.saturating_sub(self.cache.now_ms());
        if behind > 0 {
            clock.advance_ms(behind);
        }
    }

    fn look(&self) {
        let stats = self.cache.stats();
        if stats.evicted == 0 || stats.segments == 0 {
            return;
        }
        if let Ok(mut lives) = self.lives.lock() {
            lives.sum += stats.live_bytes as f64 / stats.segment_bytes_total as f64;
            lives.count += 1;
        }
    }
}
