//! What one engine came to, as data and as text.

use super::oracle::Oracle;
use crate::measure::Measured;
use crate::report::Table;
use crate::units::show_bytes;
use crate::workload::Kind;
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// One engine's result.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OhcResult {
    pub engine: String,
    pub capacity_bytes: u64,
    pub threads: usize,
    pub seconds: f64,
    pub end: String,
    pub reads: Side,
    pub writes: Side,
    pub hit_rate: Option<f64>,
    pub refused: u64,
    pub fills: u64,
    pub broken: u64,
    pub cpu_ns_per_op: Option<f64>,
    /// At the end of the measured part, and the most there was.
    pub resident_bytes: Option<f64>,
    pub resident_peak_bytes: Option<f64>,
    pub values: String,
    pub oracle: Option<Oracle>,
    /// Why there is no oracle.
    pub no_oracle: Option<String>,
    pub warnings: Vec<String>,
}

/// Reads or writes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Side {
    pub count: u64,
    pub per_second: f64,
    /// Milliseconds; absent if none was timed.
    pub times: Option<Times>,
}

/// Latencies in milliseconds, exact to three digits.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Times {
    pub min: f64,
    pub max: f64,
    pub mean: f64,
    pub stddev: f64,
    pub p50: f64,
    pub p75: f64,
    pub p95: f64,
    pub p98: f64,
    pub p99: f64,
    pub p999: f64,
}

impl Side {
    /// Of one kind; latencies from the intended start where there was one.
    pub fn of(measured: &Measured, kind: Kind) -> Side {
        let tally = &measured.tally;
        let count = tally.completed_of(kind);
        let times = tally.response_of(kind).or_else(|| tally.service_of(kind));
        Side {
            count,
            per_second: count as f64 / measured.seconds.max(1e-9),
            times: times.filter(|times| !times.is_empty()).map(Times::of),
        }
    }
}

impl Times {
    fn of(ns: &Histogram<u64>) -> Times {
        let at = |quantile: f64| ns.value_at_quantile(quantile) as f64 / 1e6;
        Times {
            min: ns.min() as f64 / 1e6,
            max: ns.max() as f64 / 1e6,
            mean: ns.mean() / 1e6,
            stddev: ns.stdev() / 1e6,
            p50: at(0.5),
            p75: at(0.75),
            p95: at(0.95),
            p98: at(0.98),
            p99: at(0.99),
            p999: at(0.999),
        }
    }

    fn columns(&self) -> [f64; 10] {
        [
            self.min,
            self.max,
            self.mean,
            self.stddev,
            self.p75,
            self.p95,
            self.p98,
            self.p99,
            self.p999,
            self.p50,
        ]
    }
}

impl OhcResult {
    /// Everything, for people.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let _ = writeln!(
            out,
            "{}: {} for {:.1} s (ended by {}), {} threads, values: {}",
            self.engine,
            show_bytes(self.capacity_bytes),
            self.seconds,
            self.end,
            self.threads,
            self.values
        );
        for (name, side) in [("Reads", &self.reads), ("Writes", &self.writes)] {
            let _ = writeln!(out, "  {name}: {} ({:.0}/s)", side.count, side.per_second);
            if let Some(times) = &side.times {
                let c = times.columns();
                let _ = writeln!(
                    out,
                    "    min/max/mean/stddev: {:.5}/{:.5}/{:.5}/{:.5} ms",
                    c[0], c[1], c[2], c[3]
                );
                let _ = writeln!(
                    out,
                    "    75/95/98/99/999/median: {:.5}/{:.5}/{:.5}/{:.5}/{:.5}/{:.5} ms",
                    c[4], c[5], c[6], c[7], c[8], c[9]
                );
            }
        }
        if let Some(bytes) = self.resident_peak_bytes {
            let ratio = bytes / self.capacity_bytes.max(1) as f64;
            let _ = writeln!(
                out,
                "  resident at most: {} ({ratio:.2} of the capacity)",
                show_bytes(bytes as u64)
            );
        }
        self.oracle_text(&mut out);
        for warning in &self.warnings {
            let _ = writeln!(out, "  warning: {warning}");
        }
        out
    }

    fn oracle_text(&self, out: &mut String) {
        let Some(oracle) = &self.oracle else {
            let why = self.no_oracle.as_deref().unwrap_or("not asked for");
            let _ = writeln!(out, "  no oracle: {why}");
            return;
        };
        let _ = writeln!(
            out,
            "  oracle: {} of {} keys resident, f = {:.4} (capacity / (keys x {:.0} B) = {:.4})",
            oracle.resident,
            oracle.keys,
            oracle.resident_share,
            oracle.entry_bytes,
            oracle.predicted_share
        );
        let _ = writeln!(
            out,
            "    hit rate {:.4} for f = {:.4}; evictions a write {:.4} for 1 - f = {:.4}: {}",
            oracle.hit_rate,
            oracle.resident_share,
            oracle.evictions_per_write,
            1.0 - oracle.resident_share,
            if oracle.holds() {
                "holds to two digits"
            } else {
                "DOES NOT HOLD"
            }
        );
        if let Some(histogram) = &oracle.histogram {
            let _ = writeln!(
                out,
                "  Histogram: {} entries in {} buckets, load {:.3}; by chance (Poisson) beside; worst row {:.1} sigma off",
                histogram.entries,
                histogram.buckets,
                histogram.load(),
                histogram.worst_sigma()
            );
            for (from, to, got, expected) in histogram.lines() {
                let _ = writeln!(out, "    [{from}..{to}]: {got} ({expected:.0})");
            }
        }
    }

    /// One row of the CSV.
    pub fn csv(&self) -> String {
        let mut row = format!("{};{:.0}", self.engine, self.seconds * 1000.0);
        for side in [&self.reads, &self.writes] {
            let _ = write!(row, ";{};{:.1}", side.count, side.per_second);
            match &side.times {
                Some(times) => times.columns().iter().for_each(|ms| {
                    let _ = write!(row, ";{ms:.5}");
                }),
                None => row.push_str(&";".repeat(10)),
            }
        }
        let oracle = self.oracle.as_ref();
        let _ = write!(
            row,
            ";{};{};{}",
            shown(self.hit_rate),
            shown(oracle.map(|oracle| oracle.resident_share)),
            shown(oracle.map(|oracle| oracle.evictions_per_write))
        );
        row
    }
}

/// The CSV's head.
pub const CSV_HEAD: &str = "engine;runtime_ms;\
read_count;read_rate;read_min;read_max;read_mean;read_stddev;read_p75;read_p95;read_p98;read_p99;read_p999;read_median;\
write_count;write_rate;write_min;write_max;write_mean;write_stddev;write_p75;write_p95;write_p98;write_p99;write_p999;\
write_median;hit_rate;resident_share;evictions_per_write";

fn shown(value: Option<f64>) -> String {
    value.map_or(String::new(), |value| format!("{value:.5}"))
}

/// All engines side by side.
pub fn table(results: &[OhcResult]) -> Table {
    let mut table = Table::new([
        "engine",
        "reads/s",
        "writes/s",
        "read p99 µs",
        "write p99 µs",
        "CPU ns/op",
        "hit rate",
        "f",
        "f by capacity",
        "evictions/write",
        "1 - f",
        "oracle",
        "peak RSS / capacity",
        "refused",
    ]);
    for result in results {
        let oracle = result.oracle.as_ref();
        let share =
            |of: fn(&Oracle) -> f64| oracle.map_or("–".into(), |o| format!("{:.3}", of(o)));
        let p99 = |side: &Side| {
            side.times.as_ref().map_or("–".to_string(), |times| {
                format!("{:.1}", times.p99 * 1000.0)
            })
        };
        table.row([
            result.engine.clone(),
            format!("{:.0}", result.reads.per_second),
            format!("{:.0}", result.writes.per_second),
            p99(&result.reads),
            p99(&result.writes),
            result
                .cpu_ns_per_op
                .map_or("–".into(), |ns| format!("{ns:.0}")),
            result
                .hit_rate
                .map_or("–".into(), |rate| format!("{rate:.3}")),
            share(|o| o.resident_share),
            share(|o| o.predicted_share),
            share(|o| o.evictions_per_write),
            share(|o| 1.0 - o.resident_share),
            oracle.map_or("–".into(), |o| {
                if o.holds() { "holds" } else { "FAILS" }.to_string()
            }),
            result.resident_peak_bytes.map_or("–".into(), |bytes| {
                format!("{:.2}", bytes / result.capacity_bytes.max(1) as f64)
            }),
            result.refused.to_string(),
        ]);
    }
    table
}
