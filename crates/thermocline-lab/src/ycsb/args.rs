//! The command line of `thermolab ycsb`: YCSB's own flags with their single dashes, and the lab's with two.

use crate::nearest::did_you_mean;
use crate::settings::{assignment, Table};
use crate::units::{parse_bytes, parse_duration};
use crate::workload::ycsb::properties::Origin;
use crate::workload::ycsb::{Layout, Properties};
use anyhow::{bail, Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// What is printed for `--help`.
pub const HELP: &str = "\
Runs YCSB's core workload against a cache and prints YCSB's report

Usage: thermolab ycsb load|run TARGET [OPTIONS]

TARGET: embedded (our engine in this process), embedded:moka (or quick_cache, foyer, segcache), null,
  memcached://HOST:PORT, unix:///PATH, or memcached with -p memcached.hosts=HOST:PORT
  An engine in this process begins empty: `run` loads it first.

As YCSB writes them:
  -P FILE             Properties file; later ones win
  -p NAME=VALUE       A property; wins over all files
  -threads N          Threads [threadcount]
  -target N           Operations a second over all threads, an open loop [target]
  -s                  Status lines on stderr [status]
  -l LABEL            Before each status line [label]

Ours:
  --layout row|memcached      How a record is stored [default: row]
  --value-compress R          Rows that LZ4 makes R times smaller; YCSB's own bytes do not compress
  --memory SIZE               What an engine in this process gets [default: 1GiB]
  --fill                      Write what a read missed
  --warmup TIME               Run so long before measuring [default: 0]
  --time-every N              Time one operation in N, engines in this process [default: 1]
  --set NAME=VALUE            A setting of the subject, as in [subject] of an experiment
  --seed N                    [default: 1]

docs/ycsb.md lists the properties. Files for workloads A to F: workloads/
";

/// Load or run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Load,
    Run,
}

/// The command line, read.
#[derive(Debug)]
pub struct Args {
    pub action: Action,
    pub target: String,
    pub properties: Properties,
    pub layout: Layout,
    pub compress: Option<f64>,
    pub memory: u64,
    pub fill: bool,
    pub warmup: Duration,
    pub time_every: u64,
    pub set: Table,
    pub seed: u64,
}

const FLAGS: [&str; 15] = [
    "-P",
    "-p",
    "-threads",
    "-target",
    "-s",
    "-l",
    "--layout",
    "--value-compress",
    "--memory",
    "--fill",
    "--warmup",
    "--time-every",
    "--set",
    "--seed",
    "--help",
];

impl Args {
    /// `words` is what follows `ycsb`. `None`: help was asked for.
    pub fn read(words: &[String]) -> Result<Option<Args>> {
        if words.is_empty() || words.iter().any(|word| word == "--help" || word == "-h") {
            return Ok(None);
        }
        let action = match words[0].as_str() {
            "load" => Action::Load,
            "run" => Action::Run,
            other => bail!(
                "`{other}`{}: begin with `load` or `run`, then the target",
                did_you_mean(other, ["load", "run"])
            ),
        };
        let mut args = Args {
            action,
            target: String::new(),
            properties: Properties::default(),
            layout: Layout::Row,
            compress: None,
            memory: 1 << 30,
            fill: false,
            warmup: Duration::ZERO,
            time_every: 1,
            set: Table::new(),
            seed: 1,
        };
        let mut files: Vec<PathBuf> = Vec::new();
        let mut flags: Vec<String> = Vec::new();
        let mut short: Vec<(&str, String, String)> = Vec::new();
        let mut rest = words[1..].iter();
        while let Some(word) = rest.next() {
            let mut value = || {
                rest.next()
                    .cloned()
                    .with_context(|| format!("{word} needs a value after it"))
            };
            match word.as_str() {
                "-P" => files.push(PathBuf::from(value()?)),
                "-p" => flags.push(value()?),
                "-s" => short.push(("status", "true".into(), "-s".into())),
                "-threads" | "-target" | "-l" => {
                    let value = value()?;
                    let name = match word.as_str() {
                        "-threads" => "threadcount",
                        "-target" => "target",
                        _ => "label",
                    };
                    let said = format!("{word} {value}");
                    short.push((name, value, said));
                }
                "--fill" => args.fill = true,
                flag if flag.starts_with('-') => args.own_flag(flag, value)?,
                target if args.target.is_empty() => args.target = target.to_string(),
                more => bail!("`{more}`: the target is `{}` already", args.target),
            }
        }
        if args.target.is_empty() {
            bail!(
                "no target: write `embedded` or memcached://HOST:PORT after `{}`",
                words[0]
            );
        }
        args.properties = Properties::merge(&files, &flags)?;
        for (name, value, said) in short {
            args.properties
                .set(name.to_string(), value, Origin::Flag(said))?;
        }
        Ok(Some(args))
    }

    fn own_flag(&mut self, flag: &str, value: impl FnOnce() -> Result<String>) -> Result<()> {
        if !FLAGS.contains(&flag) {
            bail!("no flag `{flag}`{}; see --help", did_you_mean(flag, FLAGS));
        }
        let value = value()?;
        let wrong = |why: String| anyhow::anyhow!("{flag} {value}: {why}");
        match flag {
            "--layout" => {
                self.layout = match value.as_str() {
                    "row" => Layout::Row,
                    "memcached" => Layout::Memcached,
                    _ => bail!("{flag} {value}: row or memcached"),
                }
            }
            "--value-compress" => match value.parse::<f64>() {
                Ok(ratio) if (1.0..=1000.0).contains(&ratio) => self.compress = Some(ratio),
                _ => bail!("{flag} {value}: a ratio from 1 to 1000"),
            },
            "--memory" => self.memory = parse_bytes(&value).map_err(wrong)?,
            "--warmup" => self.warmup = parse_duration(&value).map_err(wrong)?,
            "--time-every" | "--seed" => {
                let number: u64 = value
                    .parse()
                    .map_err(|_| wrong("a whole number".to_string()))?;
                match flag {
                    "--seed" => self.seed = number,
                    _ => self.time_every = number.max(1),
                }
            }
            _ => {
                let Some((name, setting)) = assignment(&value) else {
                    bail!("{flag} {value}: write --set NAME=VALUE");
                };
                self.set.insert(name, setting);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn read(line: &str) -> Result<Option<Args>> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Args::read(&words)
    }

    #[test]
    fn ycsbs_flags_and_ours_are_read_in_any_order() {
        let args = read("run memcached -s -p a.b=1 -threads 4 --layout memcached -p recordcount=7 -target 100 --set policy=lru --set marks=true")
            .unwrap()
            .unwrap();
        assert_eq!(
            (args.action, args.target.as_str()),
            (Action::Run, "memcached")
        );
        let said = |name: &str| args.properties.get(name).unwrap().value.clone();
        assert_eq!(said("threadcount"), "4");
        assert_eq!(
            (said("status"), said("target"), said("recordcount")),
            ("true".into(), "100".into(), "7".into())
        );
        assert_eq!(args.layout, Layout::Memcached);
        assert_eq!(args.set["policy"], Value::from("lru"));
        assert_eq!(args.set["marks"], Value::from(true));
        assert!(read("").unwrap().is_none());
        assert!(read("run --help").unwrap().is_none());
    }

    #[test]
    fn slips_are_named() {
        for (line, part) in [
            ("rum embedded", "`run`"),
            ("run", "no target"),
            ("run a b", "already"),
            ("run a -P", "needs a value"),
            ("run a -P /no/such/file", "/no/such/file"),
            ("run a -thread 4", "`-threads`"),
            ("run a --layout column", "row or memcached"),
            ("run a --value-compress 0.5", "0.5"),
            ("run a --memory x", "--memory x"),
            ("run a -p nonsense", "name=value"),
        ] {
            let error = format!("{:#}", read(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
