//! The command line of `thermolab ohc`: OHC's own options with their single dash, each with an argument, and the
//! lab's with two.

use crate::nearest::did_you_mean;
use crate::units::parse_bytes;
use crate::workload::ohc::{Content, Distribution, HashMode, OhcSettings, TableShape, BUCKETS_MAX};
use anyhow::{bail, Context, Result};
use std::path::PathBuf;
use std::time::Duration;

/// What is printed for `-h`.
pub const HELP: &str = "\
Runs the workload of OHC's benchmark on our engine and the rivals, with its oracles checked

Usage: thermolab ohc [OPTIONS]

OHC's own:
  -cap N          Capacity, bytes (plain, or as 2GiB) [default: 1073741824]
  -d N            Seconds measured [default: 60]
  -wu W,S         Seconds of warm-up, and idle after it; 0,0: none [default: 15,5]
  -t N            Threads, each a closed loop [default: the CPUs, less 1 above 2, less 2 from 8]
  -r F            Chance that an operation is a read [default: 0.5]
  -rkd D, -wkd D  Keys of reads and of writes [default: uniform(1..10000)]
  -vs D           Value sizes, bytes [default: fixed(512)]
  -kl N           Zero bytes after the key's 8 [default: 0]
  -e E            LRU, W_TINY_LFU or NONE
  -mes N          Largest entry, bytes
  -bh B           Bucket histogram, with what chance gives [default: false]
  -z N -lf F -sc N -hm H    Its table: buckets a segment, load factor, segments, hash
  -csv FILE       One row an engine
  -ul B, -cs N, -fks N, -fvs N, -dr N    Read, and without a counterpart in these engines
  Distributions: uniform gaussian exp extreme weibull qextreme fixed zipf, as gaussian(1k..4k,2); ~ mirrors

Ours:
  --engine E,E          thermocline, moka, quick_cache, foyer, segcache, null, all [default: thermocline]
  --value zero|random|R Value bytes: zeros as OHC's, random, or such that LZ4 makes them R times smaller
  --fill-first          Write every key once first: evictions from second 0
  --read-through        Write what a read missed
  --rate N              Open loop: operations a second
  --time-every N        Time one operation in N [default: 1]
  --seed N              [default: 1]
  --json                Print JSON
";

/// Eviction asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// Whatever the engine does.
    Own,
    Lru,
    TinyLfu,
    None,
}

/// The command line, read.
#[derive(Clone, Debug)]
pub struct Args {
    pub capacity_bytes: u64,
    pub duration: Duration,
    pub warmup: Duration,
    pub idle: Duration,
    pub threads: usize,
    pub workload: OhcSettings,
    pub eviction: Eviction,
    pub entry_bytes_max: Option<u64>,
    pub histogram: bool,
    pub table: TableShape,
    pub csv: Option<PathBuf>,
    pub engines: Vec<String>,
    pub read_through: bool,
    pub rate: Option<f64>,
    pub time_every: u64,
    pub json: bool,
    /// Options that were given and mean nothing here.
    pub without_effect: Vec<String>,
}

/// Engines known, in the order of `all`.
pub const ENGINES: [&str; 6] = [
    "thermocline",
    "quick_cache",
    "segcache",
    "foyer",
    "moka",
    "null",
];

const OPTIONS: [&str; 29] = [
    "-cap",
    "-d",
    "-wu",
    "-t",
    "-r",
    "-rkd",
    "-wkd",
    "-vs",
    "-kl",
    "-z",
    "-lf",
    "-sc",
    "-cs",
    "-fks",
    "-fvs",
    "-mes",
    "-ul",
    "-unl",
    "-hm",
    "-e",
    "-bh",
    "-csv",
    "-dr",
    "--engine",
    "--value",
    "--rate",
    "--time-every",
    "--seed",
    "-h",
];

/// Keys written at most: one pass over them is made to count the resident ones.
const KEYS_MAX: u64 = 1 << 32;
const SECONDS_MAX: u64 = 86_400;
const VALUE_BYTES_MAX: u64 = 512 << 20;

impl Args {
    /// `words` is what follows `ohc`. `None`: help was asked for.
    pub fn read(words: &[String]) -> Result<Option<Args>> {
        let mut args = Args::usual();
        let mut rest = words.iter();
        while let Some(word) = rest.next() {
            match word.as_str() {
                "-h" | "--help" => return Ok(None),
                "--fill-first" => args.workload.fill_first = true,
                "--read-through" => args.read_through = true,
                "--json" => args.json = true,
                option if OPTIONS.contains(&option) => {
                    let value = rest
                        .next()
                        .with_context(|| format!("{option} needs a value after it"))?;
                    args.set(option, value)
                        .with_context(|| format!("{option} {value}"))?;
                }
                other => bail!(
                    "no option `{other}`{}; see -h",
                    did_you_mean(other, OPTIONS)
                ),
            }
        }
        args.check()?;
        Ok(Some(args))
    }

    fn usual() -> Args {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        let threads = match cpus {
            0..=2 => cpus,
            3..=7 => cpus - 1,
            _ => cpus - 2,
        };
        let fixed = |text: &str| text.parse::<Distribution>().expect("a default of ours");
        Args {
            capacity_bytes: 1 << 30,
            duration: Duration::from_secs(60),
            warmup: Duration::from_secs(15),
            idle: Duration::from_secs(5),
            threads,
            workload: OhcSettings {
                read_ratio: 0.5,
                read_keys: fixed("uniform(1..10000)"),
                write_keys: fixed("uniform(1..10000)"),
                value_bytes: fixed("fixed(512)"),
                key_extra_bytes: 0,
                content: Content::Zero,
                fill_first: false,
                seed: 1,
            },
            eviction: Eviction::Own,
            entry_bytes_max: None,
            histogram: false,
            table: TableShape {
                segments: (2 * cpus as u64).next_power_of_two(),
                buckets: 8192,
                load_factor: 0.75,
                hash: HashMode::Murmur3,
            },
            csv: None,
            engines: vec!["thermocline".into()],
            read_through: false,
            rate: None,
            time_every: 1,
            json: false,
            without_effect: Vec::new(),
        }
    }

    fn set(&mut self, option: &str, value: &str) -> Result<()> {
        match option {
            "-cap" => self.capacity_bytes = bytes(value)?,
            "-d" => self.duration = Duration::from_secs(whole(value, 1, SECONDS_MAX)?),
            "-wu" => {
                let (warm, idle) = value.split_once(',').context("write seconds,seconds")?;
                self.warmup = Duration::from_secs(whole(warm, 0, SECONDS_MAX)?);
                self.idle = Duration::from_secs(whole(idle, 0, SECONDS_MAX)?);
            }
            "-t" => self.threads = whole(value, 1, 1024)? as usize,
            "-r" => self.workload.read_ratio = real(value, 0.0, 1.0)?,
            "-rkd" => self.workload.read_keys = distribution(value)?,
            "-wkd" => self.workload.write_keys = distribution(value)?,
            "-vs" => self.workload.value_bytes = distribution(value)?,
            "-kl" => self.workload.key_extra_bytes = whole(value, 0, 60_000)? as usize,
            "-z" => self.table.buckets = whole(value, 256, 1 << 29)?.next_power_of_two(),
            "-lf" => self.table.load_factor = real(value, 0.01, 100.0)?,
            "-sc" => self.table.segments = whole(value, 1, 1 << 16)?.next_power_of_two(),
            "-hm" => self.table.hash = named(value, &HashMode::NAMES)?,
            "-mes" => self.entry_bytes_max = Some(bytes(value)?),
            "-bh" => self.histogram = truth(value)?,
            "-csv" => self.csv = Some(PathBuf::from(value)),
            "-e" => {
                self.eviction = named(
                    value,
                    &[
                        ("LRU", Eviction::Lru),
                        ("W_TINY_LFU", Eviction::TinyLfu),
                        ("NONE", Eviction::None),
                    ],
                )?
            }
            "-ul" | "-unl" => {
                truth(value)?;
                self.without_effect.push(option.to_string());
            }
            "-cs" | "-fks" | "-fvs" | "-dr" => {
                whole(value, 1, u64::MAX)?;
                self.without_effect.push(option.to_string());
            }
            "--engine" => self.engines = engines(value)?,
            "--value" => {
                self.workload.content = match value {
                    "zero" => Content::Zero,
                    "random" => Content::Random,
                    ratio => Content::Ratio(
                        real(ratio, 1.0, 1000.0).context("zero, random, or a ratio")?,
                    ),
                }
            }
            "--rate" => self.rate = Some(real(value, 0.001, 1e9)?),
            "--time-every" => self.time_every = whole(value, 1, 1 << 20)?,
            _ => self.workload.seed = whole(value, 0, u64::MAX)?,
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let keys = self.workload.write_keys.max() - self.workload.write_keys.min() + 1;
        if keys > KEYS_MAX {
            bail!(
                "-wkd {}: {keys} keys; at most {KEYS_MAX} are written",
                self.workload.write_keys
            );
        }
        if self.workload.value_bytes.max() > VALUE_BYTES_MAX {
            bail!(
                "-vs {}: values of at most {VALUE_BYTES_MAX} bytes are written",
                self.workload.value_bytes
            );
        }
        if self.table.segments * self.table.buckets > BUCKETS_MAX {
            bail!("-sc x -z: at most {BUCKETS_MAX} buckets are counted");
        }
        Ok(())
    }
}

fn engines(text: &str) -> Result<Vec<String>> {
    if text == "all" {
        return Ok(ENGINES[..5].iter().map(|name| name.to_string()).collect());
    }
    text.split(',')
        .map(|name| match ENGINES.contains(&name) {
            true => Ok(name.to_string()),
            false => bail!(
                "no engine `{name}`{}; there are {}",
                did_you_mean(name, ENGINES),
                ENGINES.join(", ")
            ),
        })
        .collect()
}

fn bytes(text: &str) -> Result<u64> {
    parse_bytes(text).map_err(anyhow::Error::msg)
}

fn distribution(text: &str) -> Result<Distribution> {
    text.parse().map_err(|why: String| anyhow::anyhow!(why))
}

fn whole(text: &str, min: u64, max: u64) -> Result<u64> {
    match text.trim().parse::<u64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => bail!("`{text}` is no whole number from {min} to {max}"),
    }
}

fn real(text: &str, min: f64, max: f64) -> Result<f64> {
    match text.parse::<f64>() {
        Ok(value) if value >= min && value <= max => Ok(value),
        _ => bail!("`{text}` is no number from {min} to {max}"),
    }
}

fn truth(text: &str) -> Result<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => bail!("`{text}` is neither true nor false"),
    }
}

fn named<T: Copy>(text: &str, names: &[(&'static str, T)]) -> Result<T> {
    match names
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(text))
    {
        Some((_, value)) => Ok(*value),
        None => {
            let known: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
            bail!(
                "no `{text}`{}; there are {}",
                did_you_mean(text, known.iter().copied()),
                known.join(", ")
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Option<Args>> {
        let words: Vec<String> = line.split_whitespace().map(str::to_string).collect();
        Args::read(&words)
    }

    /// The document's own command line.
    #[test]
    fn the_documents_options_are_read() {
        let args = read(
            "-rkd uniform(1..20000000) -wkd uniform(1..20000000) -vs gaussian(1024..4096,2) -r .1 -cap 32000000000 \
             -d 86400 -t 500 -dr 8",
        )
        .unwrap()
        .unwrap();
        assert_eq!((args.capacity_bytes, args.threads), (32_000_000_000, 500));
        assert_eq!(args.duration, Duration::from_secs(86_400));
        assert_eq!(args.workload.write_keys.max(), 20_000_000);
        assert_eq!(args.without_effect, ["-dr"]);
    }

    #[test]
    fn defaults_and_the_labs_own() {
        let args = read("").unwrap().unwrap();
        assert_eq!(
            (
                args.capacity_bytes,
                args.warmup.as_secs(),
                args.idle.as_secs()
            ),
            (1 << 30, 15, 5)
        );
        assert_eq!(args.engines, ["thermocline"]);
        let args = read("--engine all --value 2.5 --fill-first -e lru -hm xx -bh TRUE -sc 60")
            .unwrap()
            .unwrap();
        assert_eq!(args.engines.len(), 5);
        assert_eq!(args.workload.content, Content::Ratio(2.5));
        assert_eq!(
            (args.eviction, args.table.hash),
            (Eviction::Lru, HashMode::Xx)
        );
        assert!(args.histogram && args.table.segments == 64);
        assert!(read("-cap 5 -h").unwrap().is_none());
    }

    #[test]
    fn slips_name_their_option() {
        for (line, part) in [
            ("-capp 5", "`-cap`"),
            ("-cap", "needs a value"),
            ("-cap x", "-cap x"),
            ("-vs gausian(1..2)", "`gaussian`"),
            ("-r 1.5", "-r 1.5"),
            ("-wu 5", "-wu 5"),
            ("-e LFU", "-e LFU"),
            ("-hm MURMUR", "`MURMUR3`"),
            ("--engine mokka", "`moka`"),
            ("--value half", "zero, random"),
            ("-wkd uniform(1..5000000000000)", "keys"),
            ("-vs fixed(1b)", "bytes are written"),
            ("-sc 65536 -z 536870912", "buckets"),
            ("-bh maybe", "neither true nor false"),
        ] {
            let error = format!("{:#}", read(line).unwrap_err());
            assert!(error.contains(part), "{line}: {error}");
        }
    }
}
