//! The schema of `points.jsonl`, version 1: the results of an experiment as lines of JSON, in the order they
//! were taken. First the run, then environments where a new one was met, then one line a point.
//!
//! Owns the words and the reading; `run` writes. A file cut in its last line (a crash, a full disk) is read up to
//! there and says so; any other line that cannot be read is an error with its number.

use anyhow::{bail, Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// Bumped when an old reader would misread a new file.
pub const SCHEMA: u32 = 1;

/// The file's name inside a run's directory.
pub const POINTS_FILE: &str = "points.jsonl";

/// Longest line read, bytes: a point with its series and histograms is 100 KiB.
pub const LINE_BYTES_MAX: u64 = 16 << 20;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Line {
    Run(RunLine),
    Environment(EnvironmentLine),
    Point(PointLine),
    Stopped(StoppedLine),
}

/// What was to be measured: enough to resume it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RunLine {
    pub schema: u32,
    pub experiment: String,
    /// The whole TOML file, as it was.
    pub experiment_text: String,
    pub experiment_sha256: String,
    pub seed: u64,
    /// Every point, in the order in which they are taken.
    pub planned: Vec<Planned>,
    /// RFC 3339, UTC.
    pub started: String,
    pub thermolab_version: String,
}

/// One point to be taken.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Planned {
    pub index: usize,
    pub block: usize,
    pub arm: String,
    /// What this arm sets, by dotted key.
    pub params: BTreeMap<String, Value>,
}

/// The machine as it was found; a point names it by hash.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnvironmentLine {
    pub hash: String,
    /// Group -> field -> value, or `{"unread": why}`.
    pub groups: BTreeMap<String, BTreeMap<String, Value>>,
}

/// How a point ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    #[default]
    Ok,
    /// Something broke: `reason` says what.
    Failed,
    /// It worked, but not to its end: a result too, and no mean is made with it.
    DidNotComplete,
    /// It was not begun, because this machine or user cannot.
    Refused,
}

/// One measured repeat of one arm.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PointLine {
    pub index: usize,
    pub block: usize,
    pub arm: String,
    #[serde(default)]
    pub params: BTreeMap<String, Value>,
    pub status: Status,
    /// Why, unless `ok`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The cause of the measured part's end: `duration`, `operations`, `source`, `exit 0`.
    #[serde(default)]
    pub end: String,
    /// RFC 3339, UTC.
    pub started: String,
    /// Length of the measured part.
    pub seconds: f64,
    #[serde(default)]
    pub metrics: BTreeMap<String, f64>,
    /// `[seconds since the measured part began, value]`, at most [`SERIES_POINTS_MAX`] each.
    #[serde(default)]
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// HDR V2, base64, by name (`service_ns`, `response_ns`).
    #[serde(default)]
    pub histograms: BTreeMap<String, String>,
    /// [`EnvironmentLine::hash`].
    #[serde(default)]
    pub environment: String,
    #[serde(default)]
    pub deltas: BTreeMap<String, BTreeMap<String, f64>>,
    /// What the subject said of itself: version, settings in force.
    #[serde(default)]
    pub facts: BTreeMap<String, Value>,
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// A group-sequential plan ended before its last look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StoppedLine {
    /// The look, from 1, and of how many.
    pub look: usize,
    pub looks: usize,
    /// Points of each arm it was taken on.
    pub repeats: usize,
    /// The two-sided p that stops at this look.
    pub p_bound: f64,
    /// What was found, in words.
    pub reason: String,
}

/// Points kept of one series; a longer run keeps every second, fourth, ... one.
pub const SERIES_POINTS_MAX: usize = 600;

/// A file, read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Results {
    pub run: RunLine,
    pub environments: Vec<EnvironmentLine>,
    /// In the order taken.
    pub points: Vec<PointLine>,
    /// Set if the plan was ended early.
    pub stopped: Option<StoppedLine>,
    /// Bytes at the end that are no whole line, left out.
    pub torn_bytes: u64,
    /// Bytes of whole lines: where the next line goes.
    pub whole_bytes: u64,
}

impl Results {
    /// Reads a points file, or the one in a run's directory.
    pub fn read(path: &Path) -> Result<Results> {
        let path = if path.is_dir() {
            path.join(POINTS_FILE)
        } else {
            path.to_path_buf()
        };
        let file = std::fs::File::open(&path)
            .with_context(|| format!("cannot open {}", path.display()))?;
        Self::read_from(BufReader::new(file)).with_context(|| path.display().to_string())
    }

    /// Reads from anywhere. The first line must be the run's.
    pub fn read_from(mut input: impl BufRead) -> Result<Results> {
        let mut results = Results::default();
        let mut text = Vec::new();
        for number in 1.. {
            text.clear();
            let bytes = read_line(&mut input, &mut text)?;
            if bytes == 0 {
                break;
            }
            if text.last() != Some(&b'\n') {
                results.torn_bytes = bytes;
                break;
            }
            // A crash may leave zeros or half a page where the last line was to be.
            let line = match serde_json::from_slice::<Line>(&text) {
                Ok(line) => line,
                Err(_) if number > 1 && input.fill_buf()?.is_empty() => {
                    results.torn_bytes = bytes;
                    break;
                }
                Err(error) => bail!("line {number} is not a line of results: {error}"),
            };
            results.take(line, number)?;
            results.whole_bytes += bytes;
        }
        if results.run.schema == 0 {
            bail!("holds no run: the first line is missing or torn");
        }
        Ok(results)
    }

    fn take(&mut self, line: Line, number: u64) -> Result<()> {
        match (line, number) {
            (Line::Run(run), 1) if run.schema == SCHEMA => self.run = run,
            (Line::Run(run), 1) => bail!(
                "is of schema {}, this thermolab reads {SCHEMA}: use the version that wrote it ({})",
                run.schema,
                run.thermolab_version
            ),
            (Line::Run(_), _) => bail!("line {number}: a second run in one file"),
            (_, 1) => bail!("line 1 is not the run's: is this a points file?"),
            (Line::Environment(environment), _) => self.environments.push(environment),
            (Line::Point(point), _) => self.points.push(point),
            (Line::Stopped(stopped), _) => self.stopped = Some(stopped),
        }
        Ok(())
    }

    /// What to tell the user about the end of the file, if anything.
    pub fn torn_note(&self) -> Option<String> {
        (self.torn_bytes > 0).then(|| {
            format!(
                "the last line is torn ({} bytes): dropped, its point counts as not taken",
                self.torn_bytes
            )
        })
    }

    /// The environment a point was taken in.
    pub fn environment_of(&self, point: &PointLine) -> Option<&EnvironmentLine> {
        self.environments
            .iter()
            .find(|environment| environment.hash == point.environment)
    }
}

/// Reads one line with its end, of at most [`LINE_BYTES_MAX`].
fn read_line(input: &mut impl BufRead, text: &mut Vec<u8>) -> Result<u64> {
    use std::io::Read;
    let bytes = input.take(LINE_BYTES_MAX).read_until(b'\n', text)? as u64;
    if bytes == LINE_BYTES_MAX {
        bail!("a line is longer than {LINE_BYTES_MAX} bytes: this is not a points file");
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    fn lines() -> String {
        let run = Line::Run(RunLine {
            schema: SCHEMA,
            experiment: "quick".into(),
            planned: vec![Planned::default()],
            ..RunLine::default()
        });
        let environment = Line::Environment(EnvironmentLine {
            hash: "ab".into(),
            groups: [(
                "kernel".to_string(),
                [("release".to_string(), Value::from("6.1"))].into(),
            )]
            .into(),
        });
        let point = |index| {
            Line::Point(PointLine {
                index,
                arm: "lru".into(),
                environment: "ab".into(),
                metrics: [("ops_per_s".to_string(), 1.5e6)].into(),
                series: [("rss_bytes".to_string(), vec![(0.5, 1.0), (1.5, 2.0)])].into(),
                ..PointLine::default()
            })
        };
        [run, environment, point(0), point(1)]
            .iter()
            .map(|line| serde_json::to_string(line).unwrap() + "\n")
            .collect()
    }

    #[test]
    fn whole_files_are_read_back() {
        let text = lines();
        let results = Results::read_from(text.as_bytes()).unwrap();
        assert_eq!(
            (
                results.points.len(),
                results.torn_bytes,
                results.whole_bytes
            ),
            (2, 0, text.len() as u64)
        );
        assert_eq!(results.points[1].series["rss_bytes"][1], (1.5, 2.0));
        let environment = results.environment_of(&results.points[0]).unwrap();
        assert_eq!(environment.groups["kernel"]["release"], "6.1");
    }

    #[test]
    fn a_file_cut_anywhere_loses_its_last_line_only() {
        let text = lines();
        let first = text.find('\n').unwrap() + 1;
        for cut in first..text.len() {
            let results = Results::read_from(&text.as_bytes()[..cut]).unwrap();
            let whole = text[..cut].rfind('\n').unwrap() + 1;
            assert_eq!(results.whole_bytes as usize, whole);
            assert_eq!(results.torn_bytes as usize, cut - whole);
            assert_eq!(results.torn_note().is_some(), cut != whole);
        }
        assert!(Results::read_from(&text.as_bytes()[..first - 1]).is_err());
    }

    #[test]
    fn a_last_line_of_zeros_is_torn_but_one_in_the_middle_is_an_error() {
        let text = lines();
        let torn = text.clone() + "\0\0\0\0\n";
        assert_eq!(Results::read_from(torn.as_bytes()).unwrap().torn_bytes, 5);
        let mut in_the_middle: Vec<&str> = text.lines().collect();
        in_the_middle.insert(2, "{}");
        let error = Results::read_from((in_the_middle.join("\n") + "\n").as_bytes()).unwrap_err();
        assert!(error.to_string().contains("line 3"), "{error}");
    }

    #[test]
    fn random_damage_never_panics() {
        let text = lines().into_bytes();
        let mut random = Random::new(3);
        for _ in 0..3000 {
            let mut bytes = text.clone();
            for _ in 0..=random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.word() as u8;
            }
            let _ = Results::read_from(bytes.as_slice());
        }
    }

    #[test]
    fn another_schema_is_refused_by_name() {
        let text = lines().replacen("\"schema\":1", "\"schema\":9", 1);
        let error = Results::read_from(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("schema 9"), "{error}");
    }
}
