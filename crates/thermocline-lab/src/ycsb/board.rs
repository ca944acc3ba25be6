//! What the measuring loop does not keep: latencies since the last status line, averages over time, HDR logs and
//! raw latencies. Its size does not grow with operations: intervals are emptied, raw lines are written out.

use super::client::{Client, Interval};
use super::names::{operation, OPERATIONS};
use crate::histogram::latency_histogram;
use crate::subject::observed::Eye;
use crate::subject::{Answer, Outcomes};
use crate::workload::{Batch, UNSCHEDULED};
use anyhow::{Context, Result};
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::Histogram;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Steps of a time line kept; a run of a day at one a second has 86,400. Later ones are added to the last.
const STEPS_MAX: u64 = 100_000;

/// Sum of latencies (µs) and their count, by operation and step.
pub type Series = BTreeMap<(&'static str, u64), (u64, u64)>;

/// See the file's head.
pub struct Board {
    cells: Vec<Mutex<Cell>>,
    operations: AtomicU64,
    intended: bool,
    series_step_ns: Option<u64>,
    keeps_intervals: bool,
    raw: Option<Mutex<Box<dyn Write + Send>>>,
    raw_failed: AtomicBool,
    /// One moment by both clocks.
    born: (Instant, SystemTime),
}

#[derive(Default)]
struct Cell {
    latencies: BTreeMap<&'static str, Histogram<u64>>,
    series: Series,
}

impl Board {
    /// `None` if the client asks for nothing of this.
    pub fn new(client: &Client) -> Result<Option<Self>> {
        let keeping = client.keeping;
        let keeps_intervals = client.status.is_some() || client.hdr_path.is_some();
        if !keeps_intervals && !keeping.raw && !keeping.series {
            return Ok(None);
        }
        let raw: Option<Box<dyn Write + Send>> = match (&client.raw_path, keeping.raw) {
            (_, false) => None,
            (None, true) => Some(Box::new(std::io::stdout())),
            (Some(path), true) => {
                let file = File::create(path).with_context(|| {
                    format!(
                        "measurement.raw.output_file: cannot write {}",
                        path.display()
                    )
                })?;
                Some(Box::new(BufWriter::new(file)))
            }
        };
        Ok(Some(Board {
            cells: (0..client.threads).map(|_| Mutex::default()).collect(),
            operations: AtomicU64::new(0),
            intended: client.interval == Interval::Intended,
            series_step_ns: keeping
                .series
                .then_some(client.series_step.as_nanos() as u64),
            keeps_intervals,
            raw: raw.map(Mutex::new),
            raw_failed: AtomicBool::new(false),
            born: (Instant::now(), SystemTime::now()),
        }))
    }

    pub fn operations(&self) -> u64 {
        self.operations.load(Ordering::Relaxed)
    }

    /// Latencies (ns) since the last call, by operation in the report's order.
    pub fn take_interval(&self) -> Vec<(String, Histogram<u64>)> {
        let mut all: BTreeMap<&str, Histogram<u64>> = BTreeMap::new();
        for cell in &self.cells {
            let taken =
                std::mem::take(&mut cell.lock().unwrap_or_else(|e| e.into_inner()).latencies);
            for (name, histogram) in taken {
                match all.get_mut(name) {
                    Some(sum) => sum.add(&histogram).expect("equal bounds"),
                    None => drop(all.insert(name, histogram)),
                }
            }
        }
        OPERATIONS
            .iter()
            .filter_map(|(name, _)| Some((name.to_string(), all.remove(name)?)))
            .collect()
    }

    /// The time lines of all workers added up.
    pub fn series(&self) -> Series {
        let mut all = Series::new();
        for cell in &self.cells {
            let cell = cell.lock().unwrap_or_else(|e| e.into_inner());
            for (step, (sum, count)) in &cell.series {
                let entry = all.entry(*step).or_default();
                entry.0 += sum;
                entry.1 += count;
            }
        }
        all
    }

    /// Writes out what is buffered; an error if raw lines were lost.
    pub fn finish(&self) -> Result<()> {
        if let Some(raw) = &self.raw {
            let flushed = raw.lock().unwrap_or_else(|e| e.into_inner()).flush();
            anyhow::ensure!(
                flushed.is_ok() && !self.raw_failed.load(Ordering::Relaxed),
                "measurement.raw.output_file: not all latencies could be written (is the disk full?)"
            );
        }
        Ok(())
    }
}

impl Eye for Board {
    fn see(&self, worker: usize, batch: &Batch, outcomes: &Outcomes) {
        self.operations
            .fetch_add(batch.len() as u64, Ordering::Relaxed);
        let Some(cell) = self.cells.get(worker) else {
            return;
        };
        let mut cell = cell.lock().unwrap_or_else(|e| e.into_inner());
        let mut lines = Vec::new();
        for (op, outcome) in batch.ops.iter().zip(&outcomes.all) {
            if outcome.service_ns == 0 || outcome.answer == Answer::Failed {
                continue;
            }
            let ended_ns = outcome.started_ns + outcome.service_ns;
            let latency_ns = match self.intended && op.intended_ns != UNSCHEDULED {
                true => ended_ns.saturating_sub(op.intended_ns),
                false => outcome.service_ns,
            };
            let name = operation(op.kind);
            if self.keeps_intervals {
                cell.latencies
                    .entry(name)
                    .or_insert_with(latency_histogram)
                    .saturating_record(latency_ns.max(1));
            }
            if let Some(step_ns) = self.series_step_ns {
                let step = (ended_ns / step_ns).min(STEPS_MAX);
                let entry = cell.series.entry((name, step)).or_default();
                entry.0 += latency_ns / 1000;
                entry.1 += 1;
            }
            if self.raw.is_some() {
                let at = self.wall(outcomes.zero, ended_ns).as_millis();
                let _ = writeln!(lines, "{name},{at},{}", latency_ns / 1000);
            }
        }
        if let Some(raw) = self.raw.as_ref().filter(|_| !lines.is_empty()) {
            let written = raw
                .lock()
                .unwrap_or_else(|e| e.into_inner())
                .write_all(&lines);
            if written.is_err() {
                self.raw_failed.store(true, Ordering::Relaxed);
            }
        }
    }
}

impl Board {
    fn wall(&self, zero: Instant, ns: u64) -> Duration {
        let at = zero + Duration::from_nanos(ns);
        let since = at.saturating_duration_since(self.born.0);
        (self.born.1 + since)
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default()
    }
}

/// HDR interval logs, one file an operation, latencies in µs.
pub struct HdrLogs {
    path: String,
    files: BTreeMap<String, File>,
    started: SystemTime,
}

impl HdrLogs {
    /// Files are `<path><OPERATION>.hdr`, made when an operation is first seen.
    pub fn new(path: String) -> Self {
        HdrLogs {
            path,
            files: BTreeMap::new(),
            started: SystemTime::now(),
        }
    }

    /// Appends an interval that began `start` after the log and lasted so long.
    pub fn append(
        &mut self,
        start: Duration,
        length: Duration,
        latencies: &[(String, Histogram<u64>)],
    ) -> Result<()> {
        for (name, histogram) in latencies {
            let path = format!("{}{name}.hdr", self.path);
            let mut text = Vec::new();
            let mut serializer = V2DeflateSerializer::new();
            let is_new = !self.files.contains_key(name);
            {
                let mut builder = IntervalLogWriterBuilder::new();
                if is_new {
                    builder
                        .add_comment("latencies in microseconds")
                        .with_start_time(self.started);
                }
                let mut log = builder
                    .begin_log_with(&mut text, &mut serializer)
                    .with_context(|| format!("{path}: an interval log"))?;
                log.write_histogram(&in_microseconds(histogram), start, length, None::<Tag>)
                    .map_err(|error| anyhow::anyhow!("{path}: {error:?}"))?;
            }
            if is_new {
                let file = File::create(&path)
                    .with_context(|| format!("hdrhistogram.output.path: cannot write {path}"))?;
                self.files.insert(name.clone(), file);
            }
            if let Some(file) = self.files.get_mut(name) {
                file.write_all(&text)
                    .with_context(|| format!("cannot write {path}"))?;
            }
        }
        Ok(())
    }
}

/// The same latencies in µs, cut to whole ones as YCSB does.
pub fn in_microseconds(histogram: &Histogram<u64>) -> Histogram<u64> {
    let mut micros = latency_histogram();
    for value in histogram.iter_recorded() {
        let us = value.value_iterated_to() / 1000;
        micros.saturating_record_n(us.max(1), value.count_since_last_iteration());
    }
    micros
}
