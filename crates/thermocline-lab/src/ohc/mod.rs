//! `thermolab ohc`: the benchmark of OHC on our engine and the rivals, each in a process of its own, its oracles
//! checked with each result.
//!
//! - `args`: the command line. `oracle`: what must come out. `result`: what did, as data and text.
//!
//! Not as OHC has it: latencies are wall time, exact to three digits and of all operations (or one in so many);
//! a refused put is counted; the seed is fixed.

mod args;
mod oracle;
mod result;

pub use result::OhcResult;

use crate::engines::Arm;
use crate::measure::{measure, Events, Job, Loop, Measured, Phase, Setup};
use crate::pace::Arrivals;
use crate::settings::Table;
use crate::subject::{read_subject, Answer, StartContext, Subject};
use crate::workload::ohc::Ohc;
use crate::workload::{Kind, Workload};
use anyhow::{bail, Context, Result};
use args::{Args, Eviction};
use result::Side;
use serde_json::json;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The word that makes a process the one that measures.
const CHILD: &str = "--child";

/// `words` is what follows `ohc`. Returns failed operations and oracles.
pub fn run(words: &[String]) -> Result<u64> {
    if words.first().is_some_and(|word| word == CHILD) {
        let Some(args) = Args::read(&words[1..])? else {
            bail!("a child needs its arguments");
        };
        println!("{}", serde_json::to_string(&one(&args)?)?);
        return Ok(0);
    }
    let Some(args) = Args::read(words)? else {
        print!("{}", args::HELP);
        return Ok(0);
    };
    for option in &args.without_effect {
        eprintln!("{option}: without a counterpart in these engines");
    }
    let mut results = Vec::new();
    for engine in &args.engines {
        let result = in_child(words, engine)?;
        if !args.json {
            println!("{}", result.text());
        }
        results.push(result);
    }
    if args.json {
        println!("{}", serde_json::to_string_pretty(&results)?);
    } else if results.len() > 1 {
        println!("{}", result::table(&results));
    }
    if let Some(path) = &args.csv {
        let rows: Vec<String> = results.iter().map(OhcResult::csv).collect();
        let text = format!("{}\n{}\n", result::CSV_HEAD, rows.join("\n"));
        std::fs::write(path, text)
            .with_context(|| format!("-csv: cannot write {}", path.display()))?;
    }
    Ok(results.iter().map(|result| result.broken).sum())
}

/// Measures one engine in a process of its own: its memory is nobody else's.
fn in_child(words: &[String], engine: &str) -> Result<OhcResult> {
    let binary = std::env::current_exe().context("cannot find this binary to start children")?;
    let output = Command::new(binary)
        .args(["ohc", CHILD])
        .args(words)
        .args(["--engine", engine])
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a child")?;
    if !output.status.success() {
        bail!(
            "{engine}: the measuring process ended with {}",
            output.status
        );
    }
    let line = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(line.trim())
        .with_context(|| format!("{engine}: the child printed `{line}`"))
}

/// One engine, in this process.
fn one(args: &Args) -> Result<OhcResult> {
    let engine = &args.engines[0];
    let ohc = Ohc::new(args.workload.clone())?;
    let recipe = read_subject(subject_table(args, engine)?)?;
    let scratch = tempfile::tempdir().context("a directory for the subject")?;
    let (items, item_bytes) = ohc.items_expected();
    let subject = recipe.start(&StartContext {
        workers: args.threads,
        value_bytes_max: ohc.value_bytes_max(),
        items,
        item_bytes,
        is_stamped: false,
        seed: args.workload.seed,
        scratch: scratch.path().to_path_buf(),
        members: Vec::new(),
    })?;
    let measured = drive(args, &ohc, subject.as_ref())?;
    let result = judge(args, &ohc, engine, subject.as_ref(), &measured)?;
    subject.stop()?;
    Ok(result)
}

fn subject_table(args: &Args, engine: &str) -> Result<Table> {
    let mut table = Table::new();
    table.insert("kind".into(), json!(engine));
    table.insert("fill".into(), json!(args.read_through));
    table.insert("reading".into(), json!("copy"));
    table.insert("time_every".into(), json!(args.time_every));
    if engine != "null" {
        table.insert("memory".into(), json!(args.capacity_bytes));
    }
    let is_ours = engine == "thermocline";
    if matches!(engine, "moka" | "foyer" | "quick_cache" | "segcache") {
        // As OHC's capacity: the bytes of entries. What the engine adds to them shows in its resident memory.
        table.insert("equal".into(), json!("payload"));
    }
    match args.eviction {
        Eviction::None if is_ours => drop(table.insert("evict".into(), json!(false))),
        Eviction::None if engine != "null" => bail!("-e NONE: {engine} has no such mode"),
        Eviction::Lru if is_ours => drop(table.insert("policy".into(), json!("lru"))),
        Eviction::Lru if engine != "null" => eprintln!("-e LRU: {engine} keeps its own policy"),
        Eviction::TinyLfu if engine != "moka" => {
            eprintln!("-e W_TINY_LFU: {engine} keeps its own policy (moka's is a W-TinyLFU)")
        }
        _ => {}
    }
    if let Some(bytes) = args.entry_bytes_max.filter(|_| is_ours) {
        table.insert("item_size_max".into(), json!(bytes));
    }
    Ok(table)
}

/// Warm-up, idle, and the measured part.
fn drive(args: &Args, ohc: &Ohc, subject: &dyn Subject) -> Result<Measured> {
    let setup = Setup {
        workers: args.threads,
        load: args.workload.fill_first,
        warmup: args.warmup,
        duration: args.duration,
        operations: None,
        rate: args.rate,
        arrivals: Arrivals::Even,
        wanted: None,
    };
    let job = Job {
        subject,
        workload: ohc,
        setup: &setup,
        mode: if args.rate.is_some() {
            Loop::Open
        } else {
            Loop::Closed
        },
        seed: args.workload.seed,
        concurrency: args.threads,
    };
    measure(&job, &mut Idle(args.idle))
}

/// Nothing happens for a while after the warm-up.
struct Idle(Duration);

impl Events for Idle {
    fn begins(&mut self, phase: Phase, _limit: Option<Duration>, _pid: u32) -> Result<()> {
        eprintln!("{phase:?}");
        Ok(())
    }

    fn ended(&mut self, phase: Phase, _pid: u32) -> Result<()> {
        if phase == Phase::Warmup {
            std::thread::sleep(self.0);
        }
        Ok(())
    }
}

fn judge(
    args: &Args,
    ohc: &Ohc,
    engine: &str,
    subject: &dyn Subject,
    measured: &Measured,
) -> Result<OhcResult> {
    let tally = &measured.tally;
    let lookups = tally.hits() + tally.misses();
    let hit_rate = (lookups > 0).then(|| tally.hits() as f64 / lookups as f64);
    let no_oracle = match engine {
        "null" => Some("the null engine holds nothing"),
        _ => oracle::impossible(args),
    };
    let oracle = match (no_oracle, hit_rate) {
        (None, Some(hit_rate)) => {
            Some(oracle::check(args, ohc, subject, hit_rate, charge(engine))?)
        }
        _ => None,
    };
    let metric = |name: &str| measured.metrics.get(name).copied();
    Ok(OhcResult {
        engine: engine.to_string(),
        capacity_bytes: args.capacity_bytes,
        threads: args.threads,
        seconds: measured.seconds,
        end: measured.end.clone(),
        reads: Side::of(measured, Kind::Read),
        writes: Side::of(measured, Kind::Write),
        hit_rate,
        refused: tally.answered(Answer::Refused) + tally.fills_refused,
        fills: tally.fills,
        broken: tally.broken(),
        cpu_ns_per_op: metric("cpu_ns_per_op"),
        resident_bytes: metric("rss_bytes"),
        resident_peak_bytes: metric("peak_rss_bytes"),
        values: format!(
            "{} B in the mean, {}",
            args.workload.value_bytes.mean() as u64,
            ohc.ratio()
        ),
        oracle,
        no_oracle: no_oracle.map(str::to_string),
        warnings: measured.warnings.clone(),
    })
}

/// Bytes an item is charged beside key and value: what an engine's capacity counts. Ours counts all it owns
/// (`docs/performance.md`: index 9.7, header 4, padding 1.5, ghosts 3.1); the rivals' weights are the payload;
/// segcache's segments hold a header of 5 bytes and padding.
fn charge(engine: &str) -> f64 {
    match engine {
        "thermocline" => 18.3,
        "segcache" => f64::from(Arm::Segcache.metadata_bytes()) - 8.0,
        _ => 0.0,
    }
}
