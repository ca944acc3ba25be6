//! What a trace holds in all: requests, different keys, and their bytes. One pass, in bounded memory: up to
//! four million keys are counted exactly, beyond that a sample of them, chosen by hash, is counted and scaled.

use super::Request;
use crate::workload::mix;
use anyhow::Result;
use std::collections::HashMap;

/// Keys up to which counts are exact; the sample above holds half as many at least, so that the number of
/// keys is then known to 0.1 % (two standard errors).
pub const KEYS_EXACT_MAX: usize = 4 << 20;

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Facts {
    pub requests: u64,
    /// Different keys.
    pub keys: u64,
    /// Bytes of all different keys' items, each at the size of its first request.
    pub bytes: u64,
    /// `keys` and `bytes` are estimates.
    pub is_estimate: bool,
    /// Bytes asked for, over all requests.
    pub requested_bytes: u64,
    /// Largest item, bytes.
    pub item_bytes_max: u64,
}

impl Facts {
    /// Reads all of `requests`; `size` is the bytes of an item.
    pub fn of(
        requests: impl Iterator<Item = Result<Request>>,
        size: impl Fn(&Request) -> u64,
    ) -> Result<Facts> {
        Facts::within(requests, size, KEYS_EXACT_MAX)
    }

    fn within(
        requests: impl Iterator<Item = Result<Request>>,
        size: impl Fn(&Request) -> u64,
        keys_max: usize,
    ) -> Result<Facts> {
        let mut facts = Facts::default();
        let mut sample = Sample {
            sizes: HashMap::default(),
            below: u64::MAX,
            keys_max,
        };
        for request in requests {
            let request = request?;
            let bytes = size(&request);
            facts.requests += 1;
            facts.requested_bytes = facts.requested_bytes.saturating_add(bytes);
            facts.item_bytes_max = facts.item_bytes_max.max(bytes);
            sample.take(request.id, bytes);
        }
        let scale = 2f64.powi(64) / (sample.below as f64 + 1.0);
        facts.is_estimate = sample.below != u64::MAX;
        facts.keys = (sample.sizes.len() as f64 * scale).round() as u64;
        let sampled: u128 = sample.sizes.values().map(|bytes| u128::from(*bytes)).sum();
        facts.bytes = match facts.is_estimate {
            true => (sampled as f64 * scale).round() as u64,
            false => sampled.min(u128::from(u64::MAX)) as u64,
        };
        Ok(facts)
    }

    /// Bytes of an item in the mean over keys.
    pub fn item_bytes_mean(&self) -> f64 {
        self.bytes as f64 / self.keys.max(1) as f64
    }
}

/// Sizes of the keys whose hash lies at or below a bound that is halved whenever there are too many.
struct Sample {
    sizes: HashMap<u64, u64, ahash::RandomState>,
    below: u64,
    keys_max: usize,
}

impl Sample {
    fn take(&mut self, id: u64, bytes: u64) {
        if rank(id) > self.below {
            return;
        }
        self.sizes.entry(id).or_insert(bytes);
        while self.sizes.len() > self.keys_max {
            self.below >>= 1;
            let below = self.below;
            self.sizes.retain(|id, _| rank(*id) <= below);
        }
    }
}

/// Not the hash that any engine, or the policy's own sampling, goes by.
fn rank(id: u64) -> u64 {
    mix(id ^ 0x5EED_FAC7_5EED_FAC7)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(keys: u64, keys_max: usize) -> Facts {
        let twice = (0..keys).chain(0..keys);
        let requests = twice.map(|id| Ok(Request::read(id, 10 + id % 7)));
        Facts::within(requests, Request::item_bytes, keys_max).unwrap()
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let facts = facts(700, 1000);
        assert_eq!((facts.requests, facts.keys, facts.bytes), (1400, 700, 9100));
        assert_eq!((facts.item_bytes_max, facts.is_estimate), (16, false));
        assert_eq!(facts.requested_bytes, 18_200);
        assert_eq!(facts.item_bytes_mean(), 13.0);
    }

    #[test]
    fn many_keys_are_estimated_in_bounded_memory() {
        let facts = facts(200_000, 10_000);
        assert!(facts.is_estimate);
        let off = facts.keys as f64 / 200_000.0 - 1.0;
        // 6,250 sampled: a standard error of 1.3 %.
        assert!(off.abs() < 0.05, "{} keys", facts.keys);
        assert!((facts.item_bytes_mean() - 13.0).abs() < 0.2);
    }

    #[test]
    fn an_empty_trace_has_nothing() {
        assert_eq!(facts(0, 10), Facts::default());
    }
}
