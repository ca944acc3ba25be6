//! The compressed tier's rows: items resident with it and without, coding and decoding beside the C library in
//! the same run, and what a compressed hit costs beside a hot one.

use super::compressed_codec as codec_rows;
use super::compressed_fill::{self, Filled};
use super::row::{Bound, Rows};
use crate::machine::{thread_cpu_ns, Machine};
use crate::report::{Report, Spread};
use crate::units::parse_bytes;
use crate::workload::records::{key_into, Class, Values, KEY_BYTES};
use crate::workload::Random;
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use thermocline::{Cache, CompressMode, Config};

/// The compressed tier: items resident on and off, decode and compress times, compressed hits beside hot ones
#[derive(Args, Clone, Debug)]
pub struct CompressedOptions {
    /// Directory of the data sets that scripts/data-sets makes; values made up here without it
    #[arg(long)]
    pub data: Option<PathBuf>,
    #[arg(long, value_parser = parse_bytes, default_value = "64MiB")]
    pub memory: u64,
    #[arg(long, default_value_t = 3)]
    pub rounds: usize,
    /// Leave the rows of resident items out
    #[arg(long)]
    pub no_resident: bool,
    /// Leave the rows of times out
    #[arg(long)]
    pub no_times: bool,
    /// Fill one cache and say what it holds, as JSON: a step of the whole
    #[arg(long, hide = true)]
    pub one: Option<String>,
    #[arg(long, hide = true)]
    pub off: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// The six classes of small JSON.
const JSON_SETS: [&str; 6] = [
    "user200",
    "user300",
    "user500",
    "product300",
    "movies400",
    "emoji_all",
];

pub fn run(options: &CompressedOptions) -> Result<Report> {
    let machine = Machine::read();
    if let Some(set) = &options.one {
        let values = values(set, options.data.as_deref())?.context("no such data set")?;
        let filled = compressed_fill::fill(&values, options.memory, !options.off, true)?;
        let mut report = Report::new("one cache", machine, Rows::default().into_table());
        report.points = serde_json::to_value(&filled)?;
        return Ok(report);
    }
    let mut rows = Rows::default();
    let mut points = Vec::new();
    if !options.no_times {
        codec_rows::rows(&mut rows, options)?;
        gets(&mut rows, options)?;
    }
    if !options.no_resident {
        resident(&mut rows, options, &mut points)?;
    }
    let mut report = Report::new("the compressed tier", machine, rows.into_table());
    report.notes.push(match &options.data {
        Some(_) => "values of the data sets of scripts/data-sets".into(),
        None => "values made up from word lists; --data takes the sets of scripts/data-sets".into(),
    });
    report.points = serde_json::to_value(points)?;
    Ok(report)
}

/// A data set by name; None: there is no file of it, and none can be made up.
pub fn values(set: &str, data: Option<&Path>) -> Result<Option<Values>> {
    if let Some(path) = data.map(|data| data.join(format!("{set}.jsonl"))) {
        if path.exists() {
            return Values::read(&path).map(Some);
        }
    }
    let class = Class::ALL.into_iter().find(|class| class.name() == set);
    Ok(class.map(|class| Values::made(class, 42)))
}

fn resident(rows: &mut Rows, options: &CompressedOptions, points: &mut Vec<Filled>) -> Result<()> {
    let (mut logs, mut peaks) = (Vec::new(), Vec::new());
    for set in JSON_SETS
        .into_iter()
        .chain(["rec2k", "html2k", "random500"])
    {
        let what = format!("{set}: items resident, on / off");
        if values(set, options.data.as_deref())?.is_none() {
            rows.show(what, None, 2);
            continue;
        }
        let on = in_child(options, set, true)?;
        let off = in_child(options, set, false)?;
        let ratio = on.items as f64 / off.items as f64;
        let (least, ambition) = match set {
            "rec2k" => (Bound::AtLeast(2.8), Bound::AtLeast(3.3)),
            "html2k" => (Bound::AtLeast(4.5), Bound::AtLeast(5.2)),
            "random500" => (Bound::AtLeast(0.995), Bound::AtLeast(1.0)),
            _ => (Bound::Free, Bound::Free),
        };
        rows.add(what, super::row::one(ratio), 2, least, ambition);
        if JSON_SETS.contains(&set) {
            logs.push(ratio.ln());
        }
        peaks.push(on.peak_bytes as f64 / options.memory as f64);
        points.extend([on, off]);
    }
    let mean = (logs.iter().sum::<f64>() / logs.len().max(1) as f64).exp();
    let name = format!("geometric mean of {} JSON classes", logs.len());
    let (least, ambition) = (Bound::AtLeast(2.0), Bound::AtLeast(2.5));
    rows.add(name, super::row::one(mean), 2, least, ambition);
    let worst = peaks.into_iter().fold(0.0, f64::max);
    let (least, ambition) = (Bound::AtMost(1.02), Bound::AtMost(1.0));
    rows.add(
        "VmHWM / budget, worst of these",
        super::row::one(worst),
        3,
        least,
        ambition,
    );
    Ok(())
}

/// A cache of its own process, whose whole memory is the budget.
fn in_child(options: &CompressedOptions, set: &str, on: bool) -> Result<Filled> {
    let mut command = std::process::Command::new(std::env::current_exe()?);
    command.args(["bench", "compressed", "--json", "--one", set]);
    command.args(["--memory", &options.memory.to_string()]);
    if let Some(data) = &options.data {
        command.arg("--data").arg(data);
    }
    if !on {
        command.arg("--off");
    }
    let output = command.output().context("cannot start a child")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let page: serde_json::Value = serde_json::from_str(&text)
        .with_context(|| format!("{set}: {}", String::from_utf8_lossy(&output.stderr)))?;
    Ok(serde_json::from_value(page["points"].clone())?)
}

/// Whole GETs of 467 B values in random order over far more than the processor's caches hold.
fn gets(rows: &mut Rows, options: &CompressedOptions) -> Result<()> {
    let values = values("user500", options.data.as_deref())?.context("user500 can be made")?;
    let hot = cache_of(256 << 20, false)?;
    let compressed = cache_of(256 << 20, true)?;
    let (hot_keys, compressed_keys) = (300_000, 900_000);
    fill(&hot, &values, hot_keys)?;
    fill(&compressed, &values, compressed_keys)?;
    let mut key = [0; KEY_BYTES];
    let mut is_coded = |id: &u64| {
        key_into(*id, &mut key);
        let meta = compressed.peek(&key, false);
        meta.is_some_and(|meta| meta.stored_bytes < meta.value_bytes)
    };
    let coded: Vec<u64> = (0..compressed_keys).filter(|id| is_coded(id)).collect();
    anyhow::ensure!(coded.len() > 50_000, "only {} items are coded", coded.len());
    let (mut of_hot, mut of_coded, mut over) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds as u64 {
        let one = timed(&hot, round, |random| random.below(hot_keys));
        let other = timed(&compressed, round, |random| {
            coded[random.below(coded.len() as u64) as usize]
        });
        over.push((other - one) / 1000.0);
        of_hot.push(one / 1000.0);
        of_coded.push(other / 1000.0);
    }
    let (least, ambition) = (Bound::AtMost(0.6), Bound::AtMost(0.35));
    rows.add(
        "GET of a compressed item over a hot one, cold, 467 B (us)",
        Spread::of(over),
        2,
        least,
        ambition,
    );
    rows.show("  hot (us)", Spread::of(of_hot), 2);
    rows.show("  compressed (us)", Spread::of(of_coded), 2);
    Ok(())
}

fn cache_of(memory: u64, on: bool) -> Result<Cache> {
    let mut config = Config::new(memory);
    config.threads = 1;
    config.compress = match on {
        true => CompressMode::On,
        false => CompressMode::Off,
    };
    Cache::new(config).context("cannot make the cache")
}

fn fill(cache: &Cache, values: &Values, keys: u64) -> Result<()> {
    let mut key = [0; KEY_BYTES];
    for id in 0..keys {
        key_into(id, &mut key);
        cache
            .set(&key, values.of_key(id))
            .context("a write while filling")?;
    }
    Ok(())
}

/// CPU ns of a read of keys that `draw` gives.
fn timed(cache: &Cache, seed: u64, draw: impl Fn(&mut Random) -> u64) -> f64 {
    const READS: usize = 100_000;
    let mut random = Random::new(seed);
    let keys: Vec<u64> = (0..READS).map(|_| draw(&mut random)).collect();
    let (mut key, mut out) = ([0; KEY_BYTES], Vec::new());
    let before = thread_cpu_ns();
    for id in keys {
        key_into(id, &mut key);
        out.clear();
        let _ = std::hint::black_box(cache.get_into(&key, &mut out));
    }
    (thread_cpu_ns() - before) as f64 / READS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_compress_fits_as_often() {
        let values_of = |set| values(set, None).unwrap().unwrap();
        // Other tests of this process pin, and segments come free later then, on a busy machine much later: the most
        // of a few fills is what fits.
        let fill = |set, on| {
            let fills = (0..5).map(|_| compressed_fill::fill(&values_of(set), 16 << 20, on, false));
            fills
                .map(|filled| filled.unwrap())
                .max_by_key(|filled| filled.items)
                .unwrap()
        };
        let (on, off) = (fill("random500", true), fill("random500", false));
        let ratio = on.items as f64 / off.items as f64;
        assert!((0.93..1.07).contains(&ratio), "{ratio}");
        assert_eq!((on.trained, on.coded_bytes, on.on), (0, 0, true));
        assert!(values("html2k", None).unwrap().is_none());
    }
}
