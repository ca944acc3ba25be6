//! The file: JSON, readable by eye. Holds the experiment's text, the small files it names, the environment it was
//! made in, the fields that must match, and the means it gave, so that the other side sees at once how far off it is.

use super::matching::{declare, Declared};
use crate::point::{EnvironmentLine, Results, Status};
use crate::stats::Sample;
use anyhow::{bail, ensure, Context, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

/// Bumped when an old reader would misread a new file.
const SCHEMA: u32 = 1;
/// A larger file is no bundle.
pub const BUNDLE_BYTES_MAX: u64 = 64 << 20;
/// Files taken inside: properties, scripts. Larger ones (traces) are named with their hash.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// Files hashed to be named; a larger one is named without.
const HASH_BYTES_MAX: u64 = 4 << 30;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bundle {
    pub kind: String,
    pub schema: u32,
    pub experiment: String,
    pub experiment_text: String,
    pub started: String,
    pub seed: u64,
    pub thermolab_version: String,
    pub must_match: Vec<Declared>,
    /// Path as the experiment writes it -> text.
    pub files: BTreeMap<String, String>,
    pub needed: Vec<Needed>,
    pub environment: EnvironmentLine,
    /// What came out: arm with its parameters -> metric -> figures.
    pub results: Vec<Outcome>,
}

/// A file the experiment names that is not inside.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Needed {
    pub path: String,
    pub why: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub arm: String,
    pub params: BTreeMap<String, serde_json::Value>,
    pub complete: usize,
    pub not_complete: usize,
    pub metrics: BTreeMap<String, Sample>,
}

impl Bundle {
    /// `beside` is the directory against which the experiment's paths are meant.
    pub fn of(results: &Results, must_match: &[String], beside: &Path) -> Result<Bundle> {
        let run = &results.run;
        ensure!(
            !run.experiment_text.is_empty(),
            "the points file does not hold its experiment's text: nothing could be repeated"
        );
        let environment = results
            .points
            .iter()
            .find_map(|point| results.environment_of(point))
            .context(
                "no point names an environment that is in the file: nothing could be matched",
            )?;
        let (files, needed) = named_files(&run.experiment_text, beside)?;
        Ok(Bundle {
            kind: "thermolab-experiment".into(),
            schema: SCHEMA,
            experiment: run.experiment.clone(),
            experiment_text: run.experiment_text.clone(),
            started: run.started.clone(),
            seed: run.seed,
            thermolab_version: run.thermolab_version.clone(),
            must_match: declare(environment, must_match)?,
            files,
            needed,
            environment: environment.clone(),
            results: outcomes(results),
        })
    }

    pub fn write(&self, path: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    pub fn read(path: &Path) -> Result<Bundle> {
        let name = || format!("{}", path.display());
        let bytes = std::fs::metadata(path)
            .with_context(|| format!("cannot read {}", path.display()))?
            .len();
        ensure!(
            bytes <= BUNDLE_BYTES_MAX,
            "{}: {bytes} bytes, more than a bundle may have ({BUNDLE_BYTES_MAX})",
            path.display()
        );
        let text = std::fs::read_to_string(path).with_context(name)?;
        let bundle: Bundle = serde_json::from_str(&text)
            .with_context(|| format!("{} is not an exported experiment", path.display()))?;
        ensure!(
            bundle.kind == "thermolab-experiment" && bundle.schema == SCHEMA,
            "{}: `{}` of schema {}; this thermolab reads thermolab-experiment of schema {SCHEMA}",
            path.display(),
            bundle.kind,
            bundle.schema
        );
        Ok(bundle)
    }

    /// Files of the bundle that are not under `beside` with the same text.
    pub fn files_that_differ(&self, beside: &Path) -> Vec<&str> {
        let differs = |path: &str, text: &str| {
            std::fs::read_to_string(beside.join(path)).map_or(true, |there| there != text)
        };
        let files = self.files.iter().filter(|(path, text)| differs(path, text));
        files.map(|(path, _)| path.as_str()).collect()
    }

    /// Writes the experiment and its files under a directory, over nothing that is there.
    pub fn unpack(&self, into: &Path) -> Result<Vec<PathBuf>> {
        let own = format!("{}.toml", file_name(&self.experiment));
        let files = self.files.iter().map(|(path, text)| (path.as_str(), text));
        let mut planned = Vec::new();
        for (path, text) in files.chain([(own.as_str(), &self.experiment_text)]) {
            let target = into.join(inside(path)?);
            ensure!(
                !target.exists(),
                "{} is already there: unpack into an empty directory",
                target.display()
            );
            planned.push((target, text));
        }
        for (target, text) in &planned {
            if let Some(parent) = target.parent() {
                std::fs::create_dir_all(parent)
                    .with_context(|| format!("cannot make {}", parent.display()))?;
            }
            std::fs::write(target, text)
                .with_context(|| format!("cannot write {}", target.display()))?;
        }
        Ok(planned.into_iter().map(|(target, _)| target).collect())
    }
}

/// A name with nothing in it that leads elsewhere.
fn file_name(name: &str) -> String {
    let safe = |c: char| {
        if c.is_ascii_alphanumeric() || "-_.".contains(c) {
            c
        } else {
            '-'
        }
    };
    let name: String = name.chars().map(safe).collect();
    match name.trim_matches('.') {
        "" => "experiment".into(),
        name => name.to_string(),
    }
}

/// The path, if it stays under the directory it is put in: a bundle comes from a stranger.
fn inside(path: &str) -> Result<&Path> {
    let path = Path::new(path);
    let downward = path
        .components()
        .all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    if !downward || path.as_os_str().is_empty() {
        bail!(
            "the bundle's file `{}` would be written outside",
            path.display()
        );
    }
    Ok(path)
}

/// Every text in the experiment that is the name of a file: small ones inside, the rest named.
fn named_files(experiment: &str, beside: &Path) -> Result<(BTreeMap<String, String>, Vec<Needed>)> {
    let table: toml::Table =
        toml::from_str(experiment).context("the experiment in the points file")?;
    let mut names = BTreeSet::new();
    texts(&toml::Value::Table(table), &mut names);
    let (mut files, mut needed) = (BTreeMap::new(), Vec::new());
    for name in names {
        let path = beside.join(&name);
        let Ok(metadata) = std::fs::metadata(&path) else {
            continue;
        };
        if !metadata.is_file() {
            continue;
        }
        let small = metadata.len() <= FILE_BYTES_MAX && inside(&name).is_ok();
        match small.then(|| std::fs::read_to_string(&path)) {
            Some(Ok(text)) => drop(files.insert(name, text)),
            _ => needed.push(Needed {
                why: described(&path, metadata.len()),
                path: name,
            }),
        }
    }
    Ok((files, needed))
}

fn described(path: &Path, bytes: u64) -> String {
    if bytes > HASH_BYTES_MAX {
        return format!("{bytes} bytes, not hashed");
    }
    let hashed = std::fs::File::open(path).and_then(|mut file| {
        let mut hash = Sha256::new();
        std::io::copy(&mut file, &mut hash)?;
        Ok(hash.finalize())
    });
    match hashed {
        Ok(hash) => {
            let hex: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{bytes} bytes, sha256 {hex}")
        }
        Err(error) => format!("{bytes} bytes, not read: {error}"),
    }
}

fn texts(value: &toml::Value, into: &mut BTreeSet<String>) {
    match value {
        // Longer texts are commands, not names.
        toml::Value::String(text) if !text.is_empty() && text.len() < 1024 => {
            into.insert(text.clone());
        }
        toml::Value::Array(values) => values.iter().for_each(|value| texts(value, into)),
        toml::Value::Table(table) => table.values().for_each(|value| texts(value, into)),
        _ => {}
    }
}

fn outcomes(results: &Results) -> Vec<Outcome> {
    let mut all: Vec<(Outcome, BTreeMap<String, Vec<f64>>)> = Vec::new();
    for point in &results.points {
        let same = |(o, _): &(Outcome, _)| o.arm == point.arm && o.params == point.params;
        let at = all.iter().position(same).unwrap_or_else(|| {
            let outcome = Outcome {
                arm: point.arm.clone(),
                params: point.params.clone(),
                complete: 0,
                not_complete: 0,
                metrics: BTreeMap::new(),
            };
            all.push((outcome, BTreeMap::new()));
            all.len() - 1
        });
        let (outcome, values) = &mut all[at];
        if point.status == Status::Ok {
            outcome.complete += 1;
            for (metric, value) in &point.metrics {
                values.entry(metric.clone()).or_default().push(*value);
            }
        } else {
            outcome.not_complete += 1;
        }
    }
    all.into_iter()
        .map(|(mut outcome, values)| {
            let samples = values
                .into_iter()
                .filter_map(|(metric, values)| Some((metric, Sample::of(&values).ok()?)));
            outcome.metrics = samples.collect();
            outcome
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_of_a_stranger_is_written_outside() {
        for path in ["../x", "/etc/x", "a/../../x", ""] {
            assert!(inside(path).is_err(), "{path}");
        }
        assert!(inside("workloads/a.properties").is_ok());
        assert_eq!(file_name("../../etc/passwd"), "-..-etc-passwd");
        assert_eq!(file_name("..."), "experiment");
    }
}
