//! The kinds of workload by name: from a `[workload]` table to a workload.

use crate::settings::{unknown, Settings, Table};
use crate::trace::{Format, Origin, Pace, TraceWorkload};
use crate::workload::ohc::{Content, Distribution, Ohc, OhcSettings};
use crate::workload::records::Records;
use crate::workload::size::VALUE_BYTES_MAX;
use crate::workload::ycsb::{self, Dialect, Layout, Properties, Ycsb};
use crate::workload::{MixWorkload, Workload};
use anyhow::{bail, Context, Result};
use serde_json::Value;
use std::path::PathBuf;

/// Their names.
pub const KINDS: [&str; 5] = ["mix", "ycsb", "ohc", "records", "trace"];

/// Reads `[workload]`: its `kind` says which (`mix` if it is not there), the rest is the kind's own. `seed` is the
/// block's: the arms of a block get the same operations.
pub fn read_workload(table: Table, seed: u64) -> Result<Box<dyn Workload>> {
    let mut settings = Settings::new("workload", table);
    let kind = settings.text("kind")?.unwrap_or_else(|| "mix".into());
    let seed = settings.count("seed")?.unwrap_or(seed);
    let workload: Box<dyn Workload> = match kind.as_str() {
        "mix" => Box::new(MixWorkload::read(&mut settings, seed)?),
        "ycsb" => Box::new(ycsb(&mut settings, seed)?),
        "ohc" => Box::new(ohc(&mut settings, seed)?),
        "records" => Box::new(Records::read(&mut settings, seed)?),
        "trace" => Box::new(trace(&mut settings)?),
        other => bail!("`workload.kind`: {}", unknown(other, &KINDS)),
    };
    settings.finish()?;
    Ok(workload)
}

/// `files` of properties first, then every other key as a property; `layout` and `compress` are the lab's own. Reads
/// always know the row that `subject.fill` writes.
fn ycsb(settings: &mut Settings, seed: u64) -> Result<Ycsb> {
    let layouts = [("row", Layout::Row), ("memcached", Layout::Memcached)];
    let dialect = Dialect {
        layout: settings.choice("layout", &layouts)?.unwrap_or_default(),
        compress: settings.number("compress")?,
        fill: true,
        seed,
    };
    let files: Vec<PathBuf> = settings
        .words("files")?
        .unwrap_or_default()
        .into_iter()
        .map(PathBuf::from)
        .collect();
    let flags: Vec<String> = settings
        .rest()
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => format!("{name}={text}"),
            other => format!("{name}={other}"),
        })
        .collect();
    let properties = Properties::merge(&files, &flags).context("`workload.files`")?;
    ycsb::known::check_names(&properties).context("`workload`")?;
    let read = ycsb::Settings::read(&properties).context("`workload`")?;
    Ycsb::new(read, dialect)
}

/// The distributions are written as OHC's own flags have them: `uniform(1..1000000)`.
fn ohc(settings: &mut Settings, seed: u64) -> Result<Ohc> {
    let usual = |text: &str| text.parse::<Distribution>().map_err(anyhow::Error::msg);
    let read_keys = match settings.parsed("read_keys", str::parse)? {
        Some(keys) => keys,
        None => usual("uniform(1..10000)")?,
    };
    let write_keys = match settings.parsed("write_keys", str::parse)? {
        Some(keys) => keys,
        None => usual("uniform(1..10000)")?,
    };
    let value_bytes = match settings.parsed("value_bytes", str::parse)? {
        Some(bytes) => bytes,
        None => usual("fixed(512)")?,
    };
    let contents = [("zero", Content::Zero), ("random", Content::Random)];
    let content = match settings.number("compress")? {
        Some(ratio) => Content::Ratio(ratio),
        None => settings
            .choice("content", &contents)?
            .unwrap_or(Content::Zero),
    };
    Ohc::new(OhcSettings {
        read_ratio: settings.number("read_ratio")?.unwrap_or(0.5),
        read_keys,
        write_keys,
        value_bytes,
        key_extra_bytes: settings.bytes("key_extra_bytes")?.unwrap_or(0).min(1 << 16) as usize,
        content,
        fill_first: settings.truth("fill_first")?.unwrap_or(true),
        seed,
    })
}

/// A recorded trace, or a synthetic one by its recipe.
fn trace(settings: &mut Settings) -> Result<TraceWorkload> {
    let Some(origin) = settings.parsed("file", |text| text.parse::<Origin>())? else {
        return Err(settings.missing("file", "the trace, or the recipe of a synthetic one"));
    };
    let format = settings.parsed("format", |text| {
        <Format as clap::ValueEnum>::from_str(text, true)
    })?;
    let pace = settings
        .parsed("pace", |text| text.parse::<Pace>())?
        .unwrap_or(Pace::Full);
    let value_bytes_max = settings.bytes("value_bytes_max")?.unwrap_or(1 << 20);
    if value_bytes_max == 0 || value_bytes_max > VALUE_BYTES_MAX {
        bail!("`workload.value_bytes_max` lies between 1 and {VALUE_BYTES_MAX} bytes");
    }
    let keys = settings.count("keys_expected")?.unwrap_or(1_000_000);
    let item_bytes = settings.number("item_bytes_expected")?.unwrap_or(1000.0);
    TraceWorkload::new(
        origin,
        format,
        pace,
        value_bytes_max as u32,
        (keys, item_bytes),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Kind;
    use serde_json::json;

    fn read(values: Value) -> Result<Box<dyn Workload>> {
        read_workload(serde_json::from_value(values).unwrap(), 1)
    }

    #[test]
    fn every_kind_is_made_and_gives_operations() {
        for values in [
            json!({ "keys": 100 }),
            json!({ "kind": "ycsb", "recordcount": 100, "requestdistribution": "zipfian" }),
            json!({ "kind": "ohc", "read_keys": "uniform(1..100)" }),
            json!({ "kind": "records", "class": "user200", "keys": 100, "popularity": "exponential" }),
        ] {
            let workload = read(values.clone()).unwrap();
            let mut batch = crate::workload::Batch::default();
            let mut source = workload.worker(0, 1).unwrap();
            assert_eq!(source.fill(&mut batch, 50).unwrap(), 50, "{values}");
            assert!(!workload.describe().is_empty());
            // What a read that misses would write: no cache is filled with empty items.
            for op in batch.ops.iter().filter(|op| op.kind == Kind::Read) {
                assert!(op.value_bytes > 0, "{values}: {op:?}");
            }
        }
    }

    #[test]
    fn slips_are_named() {
        for (values, said) in [
            (json!({ "kind": "ycbs" }), "did you mean `ycsb`"),
            (json!({ "kind": "ycsb", "recordcont": 5 }), "recordcount"),
            (
                json!({ "kind": "ohc", "read_keys": "uniforn(1..5)" }),
                "workload.read_keys",
            ),
            (
                json!({ "kind": "ohc", "reed_ratio": 1 }),
                "did you mean `read_ratio`",
            ),
            (json!({ "kind": "trace" }), "`workload.file` is missing"),
            (
                json!({ "kind": "trace", "file": "/no/such/trace" }),
                "/no/such/trace",
            ),
        ] {
            let error = format!("{:#}", read(values).err().unwrap());
            assert!(error.contains(said), "{error} lacks {said}");
        }
    }
}
