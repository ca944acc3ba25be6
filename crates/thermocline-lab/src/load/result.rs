//! The figures of one load run, as JSON fields and as a table. Decides what makes a run a failure.

use super::options::LoadOptions;
use super::outcome::{Outcome, Quantiles};
use super::wire::Dialect;
use crate::machine::Machine;
use crate::report::{Report, Table};
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything a run measured. Fields that were not asked for or could not be read are absent.
#[derive(Clone, Debug, Serialize)]
pub struct LoadResult {
    pub target: String,
    pub dialect: Dialect,
    pub connections: usize,
    pub pipeline: usize,
    pub threads: usize,
    pub value_size: String,
    pub keys: u64,
    pub key_distribution: String,
    pub read_ratio: f64,
    pub rate: Option<f64>,
    pub requested: Option<u64>,
    /// Requested operations answered as they should be: reads + writes.
    pub completed: u64,
    pub reads: u64,
    pub hits: u64,
    pub misses: u64,
    pub writes: u64,
    pub fills: u64,
    pub preloaded: u64,
    pub failed: BTreeMap<String, u64>,
    pub connections_dropped: u64,
    pub connections_reopened: u64,
    pub elapsed_s: f64,
    pub ops_per_s: f64,
    pub hit_ratio: Option<f64>,
    pub bytes_in: u64,
    pub bytes_out: u64,
    pub service: Option<Quantiles>,
    pub response: Option<Quantiles>,
    /// Throughput x mean service time over connections x pipeline; 1 but for the loader's own turn-around.
    pub littles_law: Option<f64>,
    /// Share of its threads' time the loader was on a core: near 1 it is the limit, not the server.
    pub loader_busy: f64,
    pub loader_cpu_us_per_op: f64,
    pub server_cpu_us_per_op: Option<f64>,
    pub server_syscalls_per_op: Option<f64>,
    pub server_syscalls_by: Option<String>,
}

impl LoadResult {
    pub fn new(options: &LoadOptions, dialect: Dialect) -> Self {
        LoadResult {
            target: options.target.clone(),
            dialect,
            connections: options.connections,
            pipeline: options.pipeline,
            threads: options.threads,
            value_size: options.value_size.to_string(),
            keys: options.keys,
            key_distribution: options.key_distribution.to_string(),
            read_ratio: options.read_ratio,
            rate: options.rate,
            requested: options.requests,
            completed: 0,
            reads: 0,
            hits: 0,
            misses: 0,
            writes: 0,
            fills: 0,
            preloaded: 0,
            failed: BTreeMap::new(),
            connections_dropped: 0,
            connections_reopened: 0,
            elapsed_s: 0.0,
            ops_per_s: 0.0,
            hit_ratio: None,
            bytes_in: 0,
            bytes_out: 0,
            service: None,
            response: None,
            littles_law: None,
            loader_busy: 0.0,
            loader_cpu_us_per_op: 0.0,
            server_cpu_us_per_op: None,
            server_syscalls_per_op: None,
            server_syscalls_by: None,
        }
    }

    pub fn failures(&self) -> u64 {
        self.failed.values().sum()
    }

    pub fn preload(&mut self, outcome: &Outcome) {
        self.preloaded = outcome.writes;
        self.add_failures("loading: ", outcome);
    }

    pub fn add_failures(&mut self, phase: &str, outcome: &Outcome) {
        for (why, count) in &outcome.failed {
            *self.failed.entry(format!("{phase}{why}")).or_default() += count;
        }
        self.connections_dropped += outcome.connections_dropped;
        self.connections_reopened += outcome.connections_reopened;
    }

    pub fn measured(
        &mut self,
        options: &LoadOptions,
        outcome: &Outcome,
        server_cpu_ns: Option<u64>,
    ) {
        self.add_failures("", outcome);
        self.completed = outcome.completed();
        self.reads = outcome.reads;
        self.hits = outcome.hits;
        self.misses = outcome.misses;
        self.writes = outcome.writes;
        self.fills = outcome.fills;
        self.bytes_in = outcome.bytes_in;
        self.bytes_out = outcome.bytes_out;
        self.elapsed_s = outcome.elapsed_ns as f64 / 1e9;
        self.ops_per_s = self.completed as f64 / self.elapsed_s;
        self.hit_ratio = (self.reads > 0).then(|| self.hits as f64 / self.reads as f64);
        self.service = Quantiles::of(&outcome.service);
        self.response = Quantiles::of(&outcome.response);
        let sent = (self.completed + self.fills) as f64;
        if let (Some(service), None) = (self.service, options.rate) {
            let in_flight = sent / self.elapsed_s * service.mean_us / 1e6;
            self.littles_law = Some(in_flight / (self.connections * self.pipeline) as f64);
        }
        let loader_cpu = outcome.loader_cpu_ns as f64;
        self.loader_busy = loader_cpu / (outcome.elapsed_ns as f64 * self.threads as f64);
        self.loader_cpu_us_per_op = loader_cpu / 1e3 / sent;
        self.server_cpu_us_per_op = server_cpu_ns.map(|ns| ns as f64 / 1e3 / sent);
        self.refuse_empty_runs(options);
    }

    /// A run that measured nothing is a failure, not a fast result.
    fn refuse_empty_runs(&mut self, options: &LoadOptions) {
        if self.completed == 0 {
            self.failed.insert("nothing was completed".into(), 1);
        } else if self.reads > 0 && self.hits == 0 && !options.allow_misses {
            self.failed.insert(
                "no read hit anything: were the keys ever inserted? (--allow-misses if this is meant)".into(),
                self.reads,
            );
        }
    }

    pub fn syscalls(&mut self, tool: &str, calls: u64, outcome: &Outcome) {
        self.add_failures("counting system calls: ", outcome);
        let sent = outcome.completed() + outcome.fills;
        if sent > 0 {
            self.server_syscalls_per_op = Some(calls as f64 / sent as f64);
            self.server_syscalls_by = Some(format!("{tool}, {sent} operations of their own"));
        }
    }

    /// The report of a run on its own.
    pub fn report(&self) -> Report {
        let mut table = Table::new(["what", "value"]);
        self.counts(|name, value| table.row([name.to_string(), value]));
        self.times(|name, value| table.row([name.to_string(), value]));
        self.costs(|name, value| table.row([name.to_string(), value]));
        for (why, count) in &self.failed {
            table.row(["**failed**".to_string(), format!("{count}: {why}")]);
        }
        let mut report = Report::new(format!("load of {}", self.target), Machine::read(), table);
        report.notes = self.doubts();
        report.failures = self.failures();
        report.points = serde_json::to_value(self).unwrap_or_default();
        report
    }

    fn counts(&self, mut row: impl FnMut(&str, String)) {
        let asked = self
            .requested
            .map_or(String::new(), |n| format!(" of {n} asked for"));
        let (completed, reads, writes) = (self.completed, self.reads, self.writes);
        row(
            "operations",
            format!("{completed}{asked} ({reads} reads, {writes} writes)"),
        );
        row(
            "throughput",
            format!("{:.0} op/s over {:.3} s", self.ops_per_s, self.elapsed_s),
        );
        if let Some(ratio) = self.hit_ratio {
            row("hit ratio", format!("{ratio:.4} ({} filled)", self.fills));
        }
    }

    fn times(&self, mut row: impl FnMut(&str, String)) {
        // In a closed loop they are one.
        let response = self.response.filter(|_| self.rate.is_some());
        for (name, quantiles) in [("service time", self.service), ("response time", response)] {
            if let Some(q) = quantiles {
                row(
                    name,
                    format!(
                        "mean {:.1} µs, p50 {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
                        q.mean_us, q.p50_us, q.p90_us, q.p99_us, q.p999_us, q.max_us
                    ),
                );
            }
        }
        if let (Some(ratio), Some(q)) = (self.littles_law, self.service) {
            let sent = (self.completed + self.fills) as f64 / self.elapsed_s;
            row(
                "Little's law",
                format!(
                    "{sent:.0} op/s x {:.1} µs = {:.1} in flight, {:.2} of connections x pipeline = {}",
                    q.mean_us,
                    sent * q.mean_us / 1e6,
                    ratio,
                    self.connections * self.pipeline
                ),
            );
        }
    }

    fn costs(&self, mut row: impl FnMut(&str, String)) {
        let (cpu_us, busy) = (self.loader_cpu_us_per_op, self.loader_busy * 100.0);
        row("loader", format!("{cpu_us:.2} µs CPU/op, busy {busy:.0} %"));
        if let Some(us) = self.server_cpu_us_per_op {
            row(
                "server CPU",
                format!("{us:.3} µs/op (user + system, all threads)"),
            );
        }
        if let (Some(calls), Some(by)) = (self.server_syscalls_per_op, &self.server_syscalls_by) {
            row("server system calls", format!("{calls:.3} an op ({by})"));
        }
        let (dropped, reopened) = (self.connections_dropped, self.connections_reopened);
        row(
            "connections",
            format!("{dropped} dropped, {reopened} reopened"),
        );
    }

    /// What may make these figures say something else than they seem to.
    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        if self.loader_busy > 0.95 {
            doubts.push(
                "the loader was busy all the time: throughput may be its limit, CPU per op is not"
                    .into(),
            );
        }
        if self
            .littles_law
            .is_some_and(|ratio| !(0.8..=1.05).contains(&ratio))
        {
            doubts.push("throughput x latency does not match what was in flight: the loader lagged or a connection idled".into());
        }
        doubts
    }
}
