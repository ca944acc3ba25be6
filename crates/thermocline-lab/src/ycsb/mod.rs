//! `thermolab ycsb`: YCSB's client over the core workload.
//!
//! - `args`, `client`: the command line and the client's properties; `target`: what is measured.
//! - `board`, `status`: what is said while it runs; `measurements`, `report`: what is said at the end.
//! - `retry`: failed inserts once more.
//!
//! The measuring itself is `measure`'s: one pool of operations for all threads, an open loop for `-target`.

pub mod args;
mod board;
pub mod client;
mod measurements;
mod names;
mod retry;
mod status;
mod target;

use crate::measure::{self, Events, Job, Loop, Measured, Phase, Setup};
use crate::pace::Arrivals;
use crate::subject::observed::Observed;
use crate::subject::wrapped::Wrapped;
use crate::subject::{StartContext, Subject};
use crate::workload::ycsb::{Dialect, Settings, Ycsb};
use crate::workload::{Source, Workload};
use crate::ycsb_report::Report;
use anyhow::{bail, Context, Result};
use args::{Action, Args};
use board::{Board, HdrLogs};
use client::Client;
use measurements::Finished;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// `words` is what follows `ycsb`. Returns failed operations.
pub fn run(words: &[String]) -> Result<u64> {
    let Some(args) = Args::read(words)? else {
        print!("{}", args::HELP);
        return Ok(0);
    };
    let settings = Settings::read(&args.properties)?;
    let client = Client::read(&args.properties)?;
    for name in &settings.ignored {
        eprintln!("{name}: a binding's own property, without effect here");
    }
    let (report, failed) = Session::begin(&args, settings, client)?.run()?;
    drop(report);
    Ok(failed)
}

/// One load or run.
struct Session<'a> {
    args: &'a Args,
    client: Client,
    workload: Ycsb,
    board: Option<Arc<Board>>,
}

impl<'a> Session<'a> {
    fn begin(args: &'a Args, settings: Settings, client: Client) -> Result<Self> {
        eprintln!(
            "Command line: {}",
            std::env::args().skip(1).collect::<Vec<_>>().join(" ")
        );
        eprintln!(
            "YCSB Client thermolab {}\n\nLoading workload...",
            env!("CARGO_PKG_VERSION")
        );
        let dialect = Dialect {
            layout: args.layout,
            compress: args.compress,
            seed: args.seed,
            fill: args.fill,
        };
        let board = Board::new(&client)?.map(Arc::new);
        Ok(Session {
            args,
            workload: Ycsb::new(settings, dialect)?,
            client,
            board,
        })
    }

    fn run(&self) -> Result<(Report, u64)> {
        self.introduce();
        let recipe = target::recipe(self.args, &self.client)?;
        let is_embedded = !recipe.is_server();
        let scratch = tempfile::tempdir().context("a directory for sockets and logs")?;
        let (items, item_bytes) = self.workload.items_expected();
        let context = StartContext {
            workers: self.client.threads,
            value_bytes_max: self.workload.value_bytes_max(),
            items,
            item_bytes,
            is_stamped: false,
            seed: self.args.seed,
            scratch: scratch.path().to_path_buf(),
            members: Vec::new(),
        };
        let subject = self.dress(recipe.start(&context)?);
        let loading = self.args.action == Action::Load;
        let setup = Setup {
            workers: self.client.threads,
            load: is_embedded && !loading,
            warmup: self.args.warmup,
            duration: self.client.time_max,
            operations: self.operations(),
            rate: self.client.target,
            arrivals: Arrivals::Even,
            wanted: None,
        };
        let load_only = LoadOnly(&self.workload);
        let workload: &dyn Workload = if loading { &load_only } else { &self.workload };
        let job = Job {
            subject: subject.as_ref(),
            workload,
            setup: &setup,
            mode: if setup.rate.is_some() {
                Loop::Open
            } else {
                Loop::Closed
            },
            seed: self.args.seed,
            concurrency: recipe.concurrency(self.client.threads),
        };
        let measured = self.watched(|| measure::measure(&job, &mut Progress));
        let stopped = subject.stop();
        let measured = measured?;
        stopped?;
        self.finish(&measured)
    }

    /// Operations of the measured part; `None`: until its time is over or its source dry.
    fn operations(&self) -> Option<u64> {
        match self.args.action {
            Action::Load => None,
            Action::Run => self.workload.settings().operations,
        }
    }

    fn introduce(&self) {
        let (mean, _) = self.workload.rows().bytes();
        eprintln!(
            "rows: {mean:.0} bytes in the mean, compressed alone: {}",
            self.workload.rows().ratio()
        );
        if let Some(skew) = self.workload.skew() {
            eprintln!("keys: {skew}");
        }
        if self.args.layout == crate::workload::ycsb::Layout::Memcached
            && !self.workload.settings().write_all_fields
        {
            eprintln!("warning: an update replaces its row by one field, so rows shrink as they are updated (YCSB's memcached binding does so)");
        }
        eprintln!("Starting test.");
        if self.client.time_max < Duration::from_secs(86_400) {
            eprintln!(
                "Maximum execution time specified as: {} secs",
                self.client.time_max.as_secs()
            );
        }
    }

    /// Wraps the subject in what the properties ask for.
    fn dress(&self, mut subject: Box<dyn Subject>) -> Box<dyn Subject> {
        if self.client.retries > 0 {
            let retrying = retry::Retrying {
                times: self.client.retries,
                after: self.client.retry_after,
                seed: self.args.seed,
            };
            subject = Box::new(Wrapped::new(subject, retrying));
        }
        match &self.board {
            Some(board) => Box::new(Wrapped::new(subject, Observed(board.clone()))),
            None => subject,
        }
    }

    /// Runs `work` with a thread beside it that says how it goes.
    fn watched<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(board) = &self.board else {
            return work();
        };
        let (done, is_done) = channel::<()>();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut teller = Teller::new(self, board);
                let step = self.client.status.unwrap_or(Duration::from_secs(10));
                while let Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(step) {
                    teller.tell();
                }
                teller.tell();
            });
            let result = work();
            drop(done);
            result
        })
    }

    fn finish(&self, measured: &Measured) -> Result<(Report, u64)> {
        if let Some(board) = &self.board {
            board.finish()?;
        }
        let finished = Finished {
            client: &self.client,
            tally: &measured.tally,
            elapsed: Duration::from_secs_f64(measured.seconds),
            series: self
                .board
                .as_ref()
                .map(|board| board.series())
                .unwrap_or_default(),
            // A server's replies are looked at by their length only.
            verified: self.workload.rows().is_checkable() && !target::is_server(&self.args.target),
        };
        let mut report = finished.report();
        self.add_cache_rows(&mut report, measured);
        let text = report.write(self.client.exporter);
        match &self.client.export_path {
            None => print!("{text}"),
            Some(path) => std::fs::write(path, text)
                .with_context(|| format!("exportfile: cannot write {}", path.display()))?,
        }
        std::io::stdout().flush().context("standard output")?;
        for warning in &measured.warnings {
            eprintln!("warning: {warning}");
        }
        eprintln!("ended by: {}", measured.end);
        Ok((report, measured.tally.broken()))
    }

    /// What a cache has to say beside YCSB's rows.
    fn add_cache_rows(&self, report: &mut Report, measured: &Measured) {
        let tally = &measured.tally;
        let (hits, misses) = (tally.hits(), tally.misses());
        if hits + misses > 0 {
            report.whole("CACHE", "Hits", hits);
            report.whole("CACHE", "Misses", misses);
            report.real("CACHE", "HitRatio", hits as f64 / (hits + misses) as f64);
        }
        report.whole("CACHE", "Fills", tally.fills);
        report.real("CACHE", "RowLz4Ratio", self.workload.rows().ratio().lz4);
        for (metric, name) in [
            ("cpu_ns_per_op", "CpuPerOperation(ns)"),
            ("peak_rss_bytes", "PeakResident(bytes)"),
        ] {
            if let Some(value) = measured.metrics.get(metric) {
                report.real("CACHE", name, *value);
            }
        }
        for (why, count) in &tally.failures {
            eprintln!("{count} operations failed: {why}");
        }
    }
}

/// Says on stderr how it goes, and appends to the HDR logs.
struct Teller<'a> {
    session: &'a Session<'a>,
    board: &'a Board,
    logs: Option<HdrLogs>,
    began: Instant,
    last: (Instant, u64),
}

impl<'a> Teller<'a> {
    fn new(session: &'a Session<'a>, board: &'a Board) -> Self {
        let now = Instant::now();
        Teller {
            session,
            board,
            logs: session.client.hdr_path.clone().map(HdrLogs::new),
            began: now,
            last: (now, 0),
        }
    }

    fn tell(&mut self) {
        let (now, operations) = (Instant::now(), self.board.operations());
        let (before, done) = std::mem::replace(&mut self.last, (now, operations));
        let latencies = self.board.take_interval();
        if let Some(logs) = &mut self.logs {
            if let Err(error) = logs.append(before - self.began, now - before, &latencies) {
                eprintln!("warning: {error:#}");
                self.logs = None;
            }
        }
        if self.session.client.status.is_none() {
            return;
        }
        let status = status::Status {
            label: &self.session.client.label,
            now: SystemTime::now(),
            elapsed: now - self.began,
            operations,
            operations_per_s: (operations - done) as f64 / (now - before).as_secs_f64().max(1e-9),
            left: self.session.left(operations),
            latencies,
        };
        eprintln!("{}", status.line());
    }
}

impl Session<'_> {
    /// Operations still to do, where their number is known. Those of a load before a run count too.
    fn left(&self, done: u64) -> Option<u64> {
        let space = self.workload.settings().space;
        let total = match self.args.action {
            Action::Load => space.count,
            Action::Run if target::is_server(&self.args.target) => self.operations()?,
            Action::Run => space.count + self.operations()?,
        };
        Some(total.saturating_sub(done))
    }
}

/// Says when a phase begins; nothing can stop it.
struct Progress;

impl Events for Progress {
    fn begins(&mut self, phase: Phase, _limit: Option<Duration>, _pid: u32) -> Result<()> {
        match phase {
            Phase::Load => eprintln!("loading the engine first: it begins empty"),
            Phase::Warmup => eprintln!("warming up"),
            Phase::Measured => {}
        }
        Ok(())
    }

    fn ended(&mut self, _phase: Phase, _pid: u32) -> Result<()> {
        Ok(())
    }
}

/// The load as the thing measured.
struct LoadOnly<'a>(&'a Ycsb);

impl Workload for LoadOnly<'_> {
    fn worker(&self, worker: usize, workers: usize) -> Result<Box<dyn Source>> {
        match self.0.load(worker, workers)? {
            Some(source) => Ok(source),
            None => bail!("this workload has nothing to load"),
        }
    }

    fn load(&self, _worker: usize, _workers: usize) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        self.0.describe()
    }

    fn value_bytes_max(&self) -> u32 {
        self.0.value_bytes_max()
    }

    fn items_expected(&self) -> (u64, f64) {
        self.0.items_expected()
    }

    fn is_stamped(&self) -> bool {
        self.0.is_stamped()
    }
}
