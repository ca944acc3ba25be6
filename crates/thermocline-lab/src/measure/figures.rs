//! From tallies to named figures: what a point's `metrics` hold, and what is to be warned of.

use super::series::Lines;
use super::steady::drift;
use super::worker::Cause;
use super::{Job, Loop, Tally};
use crate::histogram;
use crate::machine::{cpu_ns_of, process_cpu_ns, resident_bytes, resident_peak_bytes};
use crate::subject::{Answer, Subject};
use crate::workload::Kind;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// One phase, ended.
pub struct Ended {
    pub tally: Tally,
    pub cause: Cause,
    pub elapsed: Duration,
    /// Operations a second of each tick.
    pub windows: Vec<f64>,
}

/// What is read just before and just after the measured part.
pub struct Edge {
    own_cpu_ns: u64,
    server_cpu_ns: Option<u64>,
    counters: BTreeMap<String, f64>,
}

impl Edge {
    pub fn read(subject: &dyn Subject) -> Edge {
        Edge {
            server_cpu_ns: subject.pid().and_then(cpu_ns_of),
            counters: subject.counters(),
            own_cpu_ns: process_cpu_ns(),
        }
    }
}

/// A measured point.
#[derive(Default)]
pub struct Measured {
    pub metrics: BTreeMap<String, f64>,
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    pub histograms: BTreeMap<String, String>,
    pub end: String,
    pub seconds: f64,
    pub warnings: Vec<String>,
    /// The counts behind the figures, for reports of other shapes.
    pub tally: Tally,
}

/// Makes the figures of a point.
pub fn measured(
    job: &Job<'_>,
    loaded: Option<Ended>,
    ended: Ended,
    before: &Edge,
    after: &Edge,
    lines: Lines,
) -> Measured {
    let mut point = Measured {
        series: lines.finish(),
        end: ended.cause.name().to_string(),
        seconds: ended.elapsed.as_secs_f64(),
        ..Measured::default()
    };
    point.counts(&ended);
    point.latencies(&ended.tally);
    point.costs(job, &ended, before, after);
    point.counters(before, after);
    if let Some(loaded) = loaded {
        point.loading(&loaded);
    }
    point.checks(job, &ended);
    point.tally = ended.tally;
    point
}

/// `numerator / denominator`, unless there is nothing to divide by.
fn ratio(numerator: f64, denominator: f64) -> Option<f64> {
    (denominator > 0.0).then(|| numerator / denominator)
}

impl Measured {
    fn put(&mut self, name: impl Into<String>, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.metrics.insert(name.into(), value);
        }
    }

    fn counts(&mut self, ended: &Ended) {
        let tally = &ended.tally;
        let completed = tally.completed() as f64;
        self.put("ops_per_s", ratio(completed, self.seconds));
        self.put("operations_total", completed);
        let (hits, misses) = (tally.hits() as f64, tally.misses() as f64);
        self.put("hit_ratio", ratio(hits, hits + misses));
        self.put("hits_total", hits);
        self.put("misses_total", misses);
        for kind in Kind::ALL {
            let count = tally.completed_of(kind);
            if count > 0 {
                self.put(format!("{}s_total", kind.name()), count as f64);
            }
        }
        self.put("refused_total", tally.answered(Answer::Refused) as f64);
        self.put("not_stored_total", tally.answered(Answer::NotStored) as f64);
        self.put("wrong_total", tally.answered(Answer::Wrong) as f64);
        self.put("failed_total", tally.broken() as f64);
        self.put("fills_total", tally.fills as f64);
        self.put("fills_refused_total", tally.fills_refused as f64);
    }

    fn latencies(&mut self, tally: &Tally) {
        for (name, histogram) in [
            ("service_ns", tally.service()),
            ("response_ns", tally.response()),
        ] {
            let Some(histogram) = histogram else {
                continue;
            };
            self.quantiles(name, &histogram);
            match histogram::to_text(&histogram) {
                Ok(text) => drop(self.histograms.insert(name.to_string(), text)),
                Err(error) => self.warnings.push(format!("{name}: {error:#}")),
            }
        }
    }

    fn quantiles(&mut self, name: &str, histogram: &Histogram<u64>) {
        self.put(format!("{name}_mean"), histogram.mean());
        for (suffix, quantile) in [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p999", 0.999)] {
            let value = histogram.value_at_quantile(quantile) as f64;
            self.put(format!("{name}_{suffix}"), value);
        }
        self.put(format!("{name}_max"), histogram.max() as f64);
    }

    fn costs(&mut self, job: &Job<'_>, ended: &Ended, before: &Edge, after: &Edge) {
        let ops = ended.tally.completed() as f64;
        let own_ns = (after.own_cpu_ns - before.own_cpu_ns) as f64;
        let workers = job.setup.workers() as f64;
        match job.subject.pid() {
            Some(pid) => {
                let server_ns = after
                    .server_cpu_ns
                    .zip(before.server_cpu_ns)
                    .and_then(|(after, before)| after.checked_sub(before));
                self.put(
                    "cpu_ns_per_op",
                    server_ns.and_then(|ns| ratio(ns as f64, ops)),
                );
                self.put("client_cpu_ns_per_op", ratio(own_ns, ops));
                let busy = own_ns / 1e9 / (self.seconds * workers).max(1e-9);
                self.put("client_busy", busy);
                self.put("peak_rss_bytes", resident_peak_bytes(pid).map(|b| b as f64));
                self.put("rss_bytes", resident_bytes(pid).map(|b| b as f64));
            }
            None => {
                let pid = std::process::id();
                self.put("cpu_ns_per_op", ratio(own_ns, ops));
                // Of one processor: two that are busy are 200.
                self.put("cpu_percent", ratio(own_ns / 1e7, self.seconds));
                self.put("peak_rss_bytes", resident_peak_bytes(pid).map(|b| b as f64));
                self.put("rss_bytes", resident_bytes(pid).map(|b| b as f64));
            }
        }
        let in_subject_ns = ended.tally.in_subject_ns as f64;
        if job.mode == Loop::Closed && in_subject_ns > 0.0 {
            let all_ns = self.seconds * 1e9 * workers;
            self.put(
                "harness_ns_per_op",
                ratio((all_ns - in_subject_ns).max(0.0), ops),
            );
            let inside = ratio(ops * workers, in_subject_ns / 1e9);
            self.put("ops_per_s_in_subject", inside);
        }
    }

    /// Counters as differences over the measured part, gauges as they stand at its end.
    fn counters(&mut self, before: &Edge, after: &Edge) {
        for (name, value) in &after.counters {
            let value = match before.counters.get(name) {
                Some(earlier) if name.ends_with("_total") => value - earlier,
                _ => *value,
            };
            self.put(name.clone(), value);
        }
    }

    fn loading(&mut self, loaded: &Ended) {
        self.put("loaded_total", loaded.tally.completed() as f64);
        self.put("load_seconds", loaded.elapsed.as_secs_f64());
        let refused = loaded.tally.answered(Answer::Refused);
        if refused > 0 {
            self.put("load_refused_total", refused as f64);
            self.warnings.push(format!(
                "{refused} of {} loaded items were refused",
                loaded.tally.completed()
            ));
        }
        if loaded.tally.broken() > 0 {
            self.warnings
                .push(format!("loading: {:#}", super::broken(&loaded.tally)));
        }
    }

    fn checks(&mut self, job: &Job<'_>, ended: &Ended) {
        if let Some(drift) = drift(&ended.windows) {
            self.put("drift_percent", drift.percent);
            if drift.is_marked() {
                self.warnings.push(format!(
                    "not a steady state: the rate changed by {:+.1} % over the measured part; lengthen the warm-up",
                    drift.percent
                ));
            }
        }
        let tally = &ended.tally;
        if tally.misses() > 0 && tally.hits() == 0 {
            self.warnings
                .push("every read missed: is anything loaded or filled?".into());
        }
        self.littles_law(job, ended);
        if job.mode == Loop::Open {
            self.rate_kept(job, ended);
        }
        if self
            .metrics
            .get("client_busy")
            .is_some_and(|busy| *busy > 0.9)
        {
            self.warnings.push(
                "the client's threads were on a core for over 90 % of the time: it may be the limit, not the server"
                    .into(),
            );
        }
    }

    /// Throughput x mean service time is the number of operations under way: no more than there can be, and in
    /// a closed loop just that many but for the client's own part.
    fn littles_law(&mut self, job: &Job<'_>, ended: &Ended) {
        let (Some(rate), Some(mean_ns)) = (
            self.metrics.get("ops_per_s").copied(),
            self.metrics.get("service_ns_mean").copied(),
        ) else {
            return;
        };
        let under_way = rate * mean_ns / 1e9;
        let places = job.concurrency as f64;
        self.put("operations_under_way", under_way);
        self.put("operations_under_way_max", places);
        // Clock readings are part of very short times, and drained ends of very short runs.
        let is_telling = mean_ns > 1000.0 && ended.elapsed > Duration::from_millis(500);
        if is_telling && under_way > 1.1 * places {
            self.warnings.push(format!(
                "throughput x mean service time is {under_way:.1}, but only {places} operations can be under way: \
                 the figures do not fit each other"
            ));
        }
    }

    fn rate_kept(&mut self, job: &Job<'_>, ended: &Ended) {
        let Some(rate) = job.setup.rate else {
            return;
        };
        self.put("rate_asked_per_s", rate);
        let done = (ended.tally.completed() + ended.tally.broken()) as f64;
        if ended.cause != Cause::Duration {
            return;
        }
        let due = rate * job.setup.duration.as_secs_f64();
        let unsent = (due - done).max(0.0);
        self.put("unsent_total", unsent.round());
        if unsent > 0.01 * due {
            self.warnings.push(format!(
                "{unsent:.0} of {due:.0} operations were not begun by the end: the subject does not keep this \
                 rate, and response times grow with the length of the run"
            ));
        }
    }
}
