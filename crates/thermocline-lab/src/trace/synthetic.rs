//! Synthetic traces of exact recipe: the same keys on any machine, proven by hash (see `tests`).
//!
//! Word i (from 1) of stream s is splitmix64's finalizer of s + i x the golden ratio; popularity is drawn from
//! integer weights, the smallest index whose running sum exceeds the word modulo their total.

use super::Request;
use crate::workload::mix;
use std::str::FromStr;

/// Requests and keys of the first six.
const REQUESTS: u64 = 2_000_000;
const KEYS: u64 = 100_000;
/// Requests of the last three.
const SHORT: u64 = 1_000_000;
const LOOP_KEYS: u64 = 20_000;
/// Keys of the loops within `phase`, requests of each phase.
const PHASE_LOOP_KEYS: u64 = 30_000;
const PHASE: u64 = 200_000;

/// A recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// Zipf, exponent 0.99.
    Zipf099,
    Uniform,
    /// YCSB's: 95 % of requests to 0.857 of the keys.
    Exponential,
    /// Zipf; of every 50,000 requests the last 10,000 scan keys never seen.
    ScanZipf,
    /// 20,000 keys round and round.
    Loop,
    /// A working set of 10,000 keys that moves on every 200,000 requests; a tenth is uniform.
    Shift,
    /// 20,000 keys forwards and backwards.
    BackAndForth,
    /// A third of the requests repeat one of the last 16 new keys, the rest are new.
    Burst,
    /// Zipf, back and forth, loop, Zipf, burst: 200,000 requests each.
    Phase,
}

impl Recipe {
    pub const ALL: [Recipe; 9] = [
        Recipe::Zipf099,
        Recipe::Uniform,
        Recipe::Exponential,
        Recipe::ScanZipf,
        Recipe::Loop,
        Recipe::Shift,
        Recipe::BackAndForth,
        Recipe::Burst,
        Recipe::Phase,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Recipe::Zipf099 => "zipf099",
            Recipe::Uniform => "uniform",
            Recipe::Exponential => "exponential",
            Recipe::ScanZipf => "scanzipf",
            Recipe::Loop => "loop",
            Recipe::Shift => "shift",
            Recipe::BackAndForth => "backf",
            Recipe::Burst => "burst",
            Recipe::Phase => "phase",
        }
    }

    /// Its requests, all reads of one byte.
    pub fn requests(self) -> Box<dyn Iterator<Item = Request> + Send> {
        Box::new(self.keys().map(|key| Request::read(key, 1)))
    }

    /// Its keys.
    pub fn keys(self) -> Box<dyn Iterator<Item = u64> + Send> {
        match self {
            Recipe::Zipf099 => drawn(1, zipf_sums()),
            Recipe::Uniform => Box::new((1..=REQUESTS).map(|i| word(2, i) % KEYS)),
            Recipe::Exponential => drawn(3, exponential_sums()),
            Recipe::ScanZipf => {
                let zipf = drawn(4, zipf_sums());
                Box::new(zipf.zip(0..).map(|(key, r)| match r % 50_000 {
                    within if within >= 40_000 => KEYS + 10_000 * (r / 50_000) + within - 40_000,
                    _ => key,
                }))
            }
            Recipe::Loop => Box::new((0..REQUESTS).map(|r| r % LOOP_KEYS)),
            Recipe::Shift => Box::new((0..REQUESTS).map(shifting)),
            Recipe::BackAndForth => Box::new((0..SHORT).map(|r| back_and_forth(r, LOOP_KEYS))),
            Recipe::Burst => Box::new(Bursts::default().take(SHORT as usize)),
            Recipe::Phase => {
                let zipf = |phase: u64| drawn(10, zipf_sums()).skip((phase * PHASE) as usize);
                let turning = (0..PHASE).map(|r| back_and_forth(r, PHASE_LOOP_KEYS));
                let looping = (0..PHASE).map(|r| r % PHASE_LOOP_KEYS);
                let phase = PHASE as usize;
                Box::new(
                    zipf(0)
                        .take(phase)
                        .chain(turning.map(|key| KEYS + key))
                        .chain(looping.map(|key| KEYS + PHASE_LOOP_KEYS + key))
                        .chain(zipf(1).take(phase))
                        .chain(Bursts::default().take(phase).map(|key| (1 << 32) + key)),
                )
            }
        }
    }
}

impl FromStr for Recipe {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Recipe::ALL.into_iter().find(|recipe| recipe.name() == text);
        found.ok_or_else(|| {
            let names: Vec<&str> = Recipe::ALL.iter().map(|recipe| recipe.name()).collect();
            format!(
                "no synthetic trace `{text}`; there are {}",
                names.join(", ")
            )
        })
    }
}

fn word(stream: u64, i: u64) -> u64 {
    mix(stream.wrapping_add(i.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn drawn(stream: u64, sums: Vec<u64>) -> Box<dyn Iterator<Item = u64> + Send> {
    let total = sums.last().copied().unwrap_or(1);
    Box::new((1..=REQUESTS).map(move |i| {
        let draw = word(stream, i) % total;
        sums.partition_point(|sum| *sum <= draw) as u64
    }))
}

fn running_sums(weights: impl Iterator<Item = f64>) -> Vec<u64> {
    let mut sum = 0;
    let add = |weight: f64| {
        sum += (weight + 0.5).floor() as u64;
        sum
    };
    weights.map(add).collect()
}

fn zipf_sums() -> Vec<u64> {
    running_sums((1..=KEYS).map(|i| (i as f64).powf(-0.99) * (1u64 << 40) as f64))
}

fn exponential_sums() -> Vec<u64> {
    let gamma = -(0.05f64).ln() / (0.857_142_857_1 * KEYS as f64);
    let weight = |i: u64| (-gamma * i as f64).exp() - (-gamma * (i + 1) as f64).exp();
    running_sums((0..KEYS).map(|i| weight(i) * (1u64 << 56) as f64))
}

fn shifting(r: u64) -> u64 {
    let epoch = r / 200_000;
    match word(5, r + 1) % 100 < 90 {
        true => (10_000 * epoch + word(6, r + 1) % 10_000) % KEYS,
        false => word(7, r + 1) % KEYS,
    }
}

fn back_and_forth(r: u64, keys: u64) -> u64 {
    let turn = 2 * keys;
    (r % turn).min(turn - 1 - r % turn)
}

#[derive(Default)]
struct Bursts {
    requests: u64,
    new_keys: u64,
}

impl Iterator for Bursts {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        self.requests += 1;
        if self.new_keys >= 16 && word(8, self.requests).is_multiple_of(3) {
            return Some(self.new_keys - 1 - word(9, self.requests) % 16);
        }
        self.new_keys += 1;
        Some(self.new_keys - 1)
    }
}
