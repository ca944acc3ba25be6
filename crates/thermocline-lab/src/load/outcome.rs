//! What came of a phase: exact counts, latencies, failures apart. Pure bookkeeping.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

/// Latencies are kept from 100 ns to 1,000 s at three digits; longer ones are counted at the top.
const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// Different failure texts kept; the rest are counted together.
const FAILURE_KINDS_MAX: usize = 32;

/// Counts of one loader thread, or of all of them merged.
pub struct Outcome {
    pub reads: u64,
    pub hits: u64,
    pub misses: u64,
    pub writes: u64,
    /// Writes made because a read missed (`--fill`); not among the requested operations.
    pub fills: u64,
    pub failed: BTreeMap<String, u64>,
    pub connections_dropped: u64,
    pub connections_reopened: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// From the send to the reply.
    pub service: Histogram<u64>,
    /// From the intended start to the reply; the same as service in a closed loop.
    pub response: Histogram<u64>,
    pub loader_cpu_ns: u64,
    pub elapsed_ns: u64,
}

impl Default for Outcome {
    fn default() -> Self {
        let histogram =
            || Histogram::new_with_bounds(100, LATENCY_NS_MAX, 3).expect("the bounds are in order");
        Outcome {
            reads: 0,
            hits: 0,
            misses: 0,
            writes: 0,
            fills: 0,
            failed: BTreeMap::new(),
            connections_dropped: 0,
            connections_reopened: 0,
            bytes_in: 0,
            bytes_out: 0,
            service: histogram(),
            response: histogram(),
            loader_cpu_ns: 0,
            elapsed_ns: 0,
        }
    }
}

impl Outcome {
    /// Requested operations that were answered as they should be.
    pub fn completed(&self) -> u64 {
        self.reads + self.writes
    }

    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    pub fn fail(&mut self, why: &str, count: u64) {
        if count == 0 {
            return;
        }
        let why = if self.failed.contains_key(why) || self.failed.len() < FAILURE_KINDS_MAX {
            why
        } else {
            "other"
        };
        *self.failed.entry(why.to_string()).or_default() += count;
    }

    /// Notes one answered operation's times.
    pub fn latency(&mut self, service_ns: u64, response_ns: u64) {
        self.service.saturating_record(service_ns.max(1));
        self.response.saturating_record(response_ns.max(1));
    }

    pub fn merge(&mut self, other: Outcome) {
        self.reads += other.reads;
        self.hits += other.hits;
        self.misses += other.misses;
        self.writes += other.writes;
        self.fills += other.fills;
        for (why, count) in &other.failed {
            self.fail(why, *count);
        }
        self.connections_dropped += other.connections_dropped;
        self.connections_reopened += other.connections_reopened;
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.service.add(&other.service).expect("equal bounds");
        self.response.add(&other.response).expect("equal bounds");
        self.loader_cpu_ns += other.loader_cpu_ns;
        self.elapsed_ns = self.elapsed_ns.max(other.elapsed_ns);
    }
}

/// The quantiles people ask for, in µs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Quantiles {
    pub mean_us: f64,
    pub p50_us: f64,
    pub p90_us: f64,
    pub p99_us: f64,
    pub p999_us: f64,
    pub max_us: f64,
}

impl Quantiles {
    /// `None` when nothing was recorded.
    pub fn of(histogram: &Histogram<u64>) -> Option<Quantiles> {
        if histogram.is_empty() {
            return None;
        }
        let at = |q: f64| histogram.value_at_quantile(q) as f64 / 1e3;
        Some(Quantiles {
            mean_us: histogram.mean() / 1e3,
            p50_us: at(0.50),
            p90_us: at(0.90),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max() as f64 / 1e3,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_apart_from_completions_and_bounded_in_kind() {
        let mut a = Outcome {
            reads: 3,
            writes: 2,
            ..Outcome::default()
        };
        for i in 0..100 {
            a.fail(&format!("kind {i}"), 1);
        }
        let mut b = Outcome::default();
        b.fail("kind 0", 5);
        a.merge(b);
        assert_eq!((a.completed(), a.failures()), (5, 105));
        assert_eq!(a.failed["kind 0"], 6);
        assert!(a.failed.len() <= FAILURE_KINDS_MAX + 1);
    }

    #[test]
    fn nothing_recorded_is_no_quantile() {
        let mut outcome = Outcome::default();
        assert!(Quantiles::of(&outcome.service).is_none());
        outcome.latency(1_000_000, 2_000_000);
        let (service, response) = (
            Quantiles::of(&outcome.service),
            Quantiles::of(&outcome.response),
        );
        assert!((990.0..1010.0).contains(&service.unwrap().p50_us));
        assert!((1990.0..2010.0).contains(&response.unwrap().p99_us));
    }
}
