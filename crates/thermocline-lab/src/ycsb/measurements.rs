//! From what was measured to YCSB's report: which rows each kind of measurement has, and what they are called.

use super::board::Series;
use super::client::{Client, Interval};
use super::names::{status, ANSWERS, OPERATIONS};
use crate::measure::Tally;
use crate::subject::Answer;
use crate::workload::Kind;
use crate::ycsb_report::Report;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::time::Duration;

/// Percentiles of the raw summary.
const RAW_PERCENTILES: [f64; 8] = [1.0, 5.0, 50.0, 90.0, 95.0, 99.0, 99.9, 99.99];

/// A finished run.
pub struct Finished<'a> {
    pub client: &'a Client,
    pub tally: &'a Tally,
    pub elapsed: Duration,
    pub series: Series,
    /// Hits were compared with the values that follow from their keys.
    pub verified: bool,
}

impl Finished<'_> {
    /// All rows.
    pub fn report(&self) -> Report {
        let mut report = Report::default();
        let ms = (self.elapsed.as_millis() as u64).max(1);
        let operations = self.tally.completed() + self.tally.broken();
        report.whole("OVERALL", "RunTime(ms)", ms);
        report.real(
            "OVERALL",
            "Throughput(ops/sec)",
            1000.0 * operations as f64 / ms as f64,
        );
        for (name, kinds) in OPERATIONS {
            self.operation(&mut report, name, kinds);
        }
        if self.verified {
            self.verification(&mut report);
        }
        report
    }

    fn operation(&self, report: &mut Report, name: &'static str, kinds: &[Kind]) {
        // A read-modify-write is a read and an update too: they are counted, and timed under its own name.
        let within = match name {
            "READ" | "UPDATE" => self.done(&[Kind::ReadModifyWrite]),
            _ => 0,
        };
        let (service, response) = (
            join(kinds.iter().filter_map(|&kind| self.tally.service_of(kind))),
            join(
                kinds
                    .iter()
                    .filter_map(|&kind| self.tally.response_of(kind)),
            ),
        );
        let counts = self.counts(kinds);
        let failed: u64 = kinds
            .iter()
            .map(|&kind| self.tally.count(kind, Answer::Failed))
            .sum();
        let total: u64 = counts.values().sum::<u64>() + within;
        if total == 0 {
            return;
        }
        let intended = self.client.interval == Interval::Intended;
        let latencies = match (intended, &response) {
            (true, Some(response)) => Some(response),
            _ => service.as_ref(),
        };
        self.latencies(report, name, total - failed, latencies);
        for (code, count) in counts {
            report.whole(name, &format!("Return={code}"), count);
        }
        if failed > 0 {
            report.whole(&format!("{name}-FAILED"), "Operations", failed);
        }
        if self.client.interval == Interval::Both {
            let intended = response.as_ref().or(service.as_ref());
            self.latencies(
                report,
                &format!("Intended-{name}"),
                total - failed,
                intended,
            );
        }
    }

    /// How often each status was returned.
    fn counts(&self, kinds: &[Kind]) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        for &kind in kinds {
            for answer in ANSWERS {
                let count = self.tally.count(kind, answer);
                if count > 0 {
                    *counts.entry(status(kind, answer)).or_insert(0) += count;
                }
            }
        }
        counts
    }

    fn done(&self, kinds: &[Kind]) -> u64 {
        kinds
            .iter()
            .map(|&kind| self.tally.completed_of(kind))
            .sum()
    }

    fn latencies(
        &self,
        report: &mut Report,
        name: &str,
        operations: u64,
        latencies: Option<&Histogram<u64>>,
    ) {
        let keeping = self.client.keeping;
        if keeping.hdr || keeping.histogram || keeping.series {
            report.whole(name, "Operations", operations);
        }
        let Some(ns) = latencies.filter(|latencies| !latencies.is_empty()) else {
            return;
        };
        if keeping.hdr {
            extremes(report, name, ns);
            for &percent in &self.client.percentiles {
                let us = ns.value_at_percentile(percent) / 1000;
                report.whole(
                    name,
                    &format!("{}PercentileLatency(us)", ordinal(percent)),
                    us,
                );
            }
        }
        if keeping.histogram {
            self.buckets(report, name, ns);
        }
        if keeping.series {
            extremes(report, name, ns);
            let step_ms = self.client.series_step.as_millis() as u64;
            for ((operation, step), (sum, count)) in &self.series {
                if operation == &name {
                    let at = (step * step_ms).to_string();
                    report.real(name, &at, *sum as f64 / *count as f64);
                }
            }
        }
        if keeping.raw && self.client.raw_summary {
            report.whole(name, "Total Operations", operations);
            report.real(name, "Average", ns.mean() / 1000.0);
            report.whole(name, "Min", ns.min() / 1000);
            report.whole(name, "Max", ns.max() / 1000);
            for percent in RAW_PERCENTILES {
                report.whole(
                    name,
                    &format!("p{percent}"),
                    ns.value_at_percentile(percent) / 1000,
                );
            }
        }
    }

    /// Buckets of one millisecond, percentiles by bucket.
    fn buckets(&self, report: &mut Report, name: &str, ns: &Histogram<u64>) {
        let mut counts = vec![0u64; self.client.buckets + 1];
        for value in ns.iter_recorded() {
            let ms = (value.value_iterated_to() / 1_000_000) as usize;
            counts[ms.min(self.client.buckets)] += value.count_since_last_iteration();
        }
        if !self.client.keeping.hdr {
            extremes(report, name, ns);
        }
        for percent in [95u64, 99] {
            let mut sum = 0;
            let bucket = counts.iter().position(|count| {
                sum += count;
                sum * 100 >= ns.len() * percent
            });
            let us = bucket.unwrap_or(0) as u64 * 1000;
            report.whole(name, &format!("{percent}thPercentileLatency(us)"), us);
        }
        if self.client.verbose_histogram {
            for (ms, count) in counts[..self.client.buckets].iter().enumerate() {
                report.whole(name, &ms.to_string(), *count);
            }
        }
        let beyond = counts[self.client.buckets];
        report.whole(name, &format!(">{}", self.client.buckets), beyond);
    }

    fn verification(&self, report: &mut Report) {
        let count = |answer| self.tally.count(Kind::Read, answer);
        let (right, wrong) = (count(Answer::Hit), count(Answer::Wrong));
        report.whole("VERIFY", "Operations", right + wrong);
        for (code, count) in [("OK", right), ("UNEXPECTED_STATE", wrong)] {
            if count > 0 {
                report.whole("VERIFY", &format!("Return={code}"), count);
            }
        }
    }
}

fn extremes(report: &mut Report, name: &str, ns: &Histogram<u64>) {
    report.real(name, "AverageLatency(us)", ns.mean() / 1000.0);
    report.whole(name, "MinLatency(us)", ns.min() / 1000);
    report.whole(name, "MaxLatency(us)", ns.max() / 1000);
}

fn join<'a>(mut parts: impl Iterator<Item = &'a Histogram<u64>>) -> Option<Histogram<u64>> {
    let mut all = parts.next()?.clone();
    for part in parts {
        all.add(part).expect("equal bounds");
    }
    Some(all)
}

/// `50th`, `1st`, `99.9`.
fn ordinal(percent: f64) -> String {
    if percent.fract() != 0.0 {
        return format!("{percent}");
    }
    let whole = percent as u64;
    let ending = match (whole % 10, whole % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{whole}{ending}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Outcomes;
    use crate::workload::ycsb::Properties;
    use crate::workload::{Batch, Op};
    use std::time::Instant;

    fn client(flags: &[&str]) -> Client {
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        Client::read(&Properties::merge(&[] as &[&str], &flags).unwrap()).unwrap()
    }

    fn tally() -> Tally {
        let mut batch = Batch::default();
        let mut outcomes = Outcomes::new(Instant::now());
        let ops = [
            (Kind::Read, Answer::Hit),
            (Kind::Read, Answer::Hit),
            (Kind::Read, Answer::Miss),
            (Kind::Read, Answer::Failed),
            (Kind::Update, Answer::Stored),
            (Kind::ReadModifyWrite, Answer::Hit),
            (Kind::Add, Answer::NotStored),
            (Kind::Scan, Answer::Failed),
        ];
        for (kind, _) in ops {
            batch.push(Op::new(kind, 1, 0), 1, |key| key.fill(b'k'));
        }
        outcomes.reset(ops.len());
        for (index, (_, answer)) in ops.into_iter().enumerate() {
            match answer {
                Answer::Failed => outcomes.fail(index, "why"),
                _ => outcomes.set_timed(index, answer, 0, (index as u64 + 1) * 1_000_000),
            }
        }
        let mut tally = Tally::default();
        tally.add(&batch, &mut outcomes);
        tally
    }

    fn report(flags: &[&str]) -> Report {
        Finished {
            client: &client(flags),
            tally: &tally(),
            elapsed: Duration::from_millis(2000),
            series: BTreeMap::from([(("READ", 3), (500, 2))]),
            verified: false,
        }
        .report()
    }

    #[test]
    fn rows_are_ycsbs() {
        let report = report(&[]);
        let get = |metric, name| report.get(metric, name);
        assert_eq!(report.rows[0].measurement, "RunTime(ms)");
        assert_eq!(get("OVERALL", "Throughput(ops/sec)"), Some(4.0));
        assert_eq!(
            get("READ", "Operations"),
            Some(4.0),
            "three answered, one in a read-modify-write"
        );
        assert_eq!(get("READ", "Return=OK"), Some(2.0));
        assert_eq!(get("READ", "Return=NOT_FOUND"), Some(1.0));
        assert_eq!(get("READ", "Return=ERROR"), Some(1.0));
        assert_eq!(get("READ-FAILED", "Operations"), Some(1.0));
        let average = get("READ", "AverageLatency(us)").unwrap();
        assert!((average / 2000.0 - 1.0).abs() < 0.001, "{average}");
        assert_eq!(
            get("READ", "50thPercentileLatency(us)").map(|us| us.round()),
            Some(2000.0)
        );
        assert_eq!(get("INSERT", "Return=UNEXPECTED_STATE"), Some(1.0));
        assert_eq!(get("SCAN", "Return=NOT_IMPLEMENTED"), Some(1.0));
        assert_eq!(get("READ-MODIFY-WRITE", "Operations"), Some(1.0));
        assert_eq!(get("DELETE", "Operations"), None);
    }

    #[test]
    fn other_measurements_have_rows_of_their_own() {
        let buckets = report(&[
            "measurementtype=histogram",
            "histogram.buckets=2",
            "measurement.histogram.verbose=true",
        ]);
        assert_eq!(buckets.get("READ", "1"), Some(1.0));
        assert_eq!(buckets.get("READ", ">2"), Some(2.0));
        let series = report(&["measurementtype=timeseries", "timeseries.granularity=500"]);
        assert_eq!(series.get("READ", "1500"), Some(250.0));
        let raw = report(&["measurementtype=raw"]);
        assert!(raw.get("READ", "p99.9").is_some() && raw.get("READ", "Operations").is_none());
        let both = report(&["measurement.interval=both"]);
        assert_eq!(both.get("Intended-UPDATE", "Operations"), Some(2.0));
        let percentiles = report(&["hdrhistogram.percentiles=1,22,99.9"]);
        for name in [
            "1stPercentileLatency(us)",
            "22ndPercentileLatency(us)",
            "99.9PercentileLatency(us)",
        ] {
            assert!(percentiles.get("READ", name).is_some(), "{name}");
        }
    }
}
