//! The workload of records: keys by a popularity, each with the value that follows from its number, which reads
//! know too: so that a cache that lost a byte is found out.

use super::{Class, Maker};
use crate::settings::Settings;
use crate::workload::compressible::Pool;
use crate::workload::popularity::{Popularity, Ranks};
use crate::workload::{Batch, Kind, Op, Random, Source, Workload};
use anyhow::{bail, Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

/// Values made beforehand; keys share them in turn. A dictionary of 64 KiB holds a hundredth of them.
const POOL_VALUES: usize = 40_000;
/// Of values that do not compress as many as `POOL_BYTES_MAX` lets be: where they came again while a dictionary is trained, it was
/// made of those that did, and they compressed.
const POOL_RANDOM_VALUES: usize = 160_000;
const POOL_BYTES_MAX: usize = 64 << 20;
/// YCSB's default exponential: 95 % of the draws fall on this share of the keys.
const EXPONENTIAL_SHARE: f64 = 0.857_142_857_1;
const EXPONENTIAL_PERCENTILE: f64 = 95.0;

/// Values by the number of their key: made up, or the lines of a file.
#[derive(Clone, Debug)]
pub struct Values {
    pub name: String,
    pool: Arc<Pool>,
    count: u64,
}

impl Values {
    /// Records of a class. Those made last are kept: the arms of an experiment ask for the same.
    pub fn made(class: Class, seed: u64) -> Values {
        static LAST: Mutex<Option<(Class, u64, Values)>> = Mutex::new(None);
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((of, by, values)) if (*of, *by) == (class, seed) => values.clone(),
            _ => {
                let values = Values::make(class, seed);
                *last = Some((class, seed, values.clone()));
                values
            }
        }
    }

    fn make(class: Class, seed: u64) -> Values {
        let (maker, mut id) = (Maker::new(seed), 0);
        let values = match class {
            Class::Random500 => POOL_RANDOM_VALUES,
            _ => POOL_VALUES,
        };
        let pool = Pool::new(values, POOL_BYTES_MAX, |out| {
            maker.append(class, id, out);
            id += 1;
        });
        Values::of(class.name().into(), pool)
    }

    /// The lines of a file as `scripts/data-sets` writes it; a line that is a JSON string stands for its bytes.
    pub fn read(path: &Path) -> Result<Values> {
        let text =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut lines = text
            .split(|&byte| byte == b'\n')
            .filter(|line| !line.is_empty());
        let count = lines.clone().count().min(POOL_VALUES);
        if count == 0 {
            bail!("{}: no values in it", path.display());
        }
        let pool = Pool::new(count, POOL_BYTES_MAX, |out| {
            let line = lines.next().unwrap_or_default();
            match serde_json::from_slice::<String>(line) {
                Ok(string) => out.extend(string.chars().map(|c| c as u32 as u8)),
                Err(_) => out.extend_from_slice(line),
            }
        });
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Ok(Values::of(name.into_owned(), pool))
    }

    fn of(name: String, pool: Pool) -> Values {
        Values {
            name,
            count: pool.values().count() as u64,
            pool: Arc::new(pool),
        }
    }

    /// The value of key number `id`.
    pub fn of_key(&self, id: u64) -> &[u8] {
        self.lent_of_key(id)
    }

    fn lent_of_key(&self, id: u64) -> &Arc<[u8]> {
        self.pool.value((id % self.count) as usize)
    }

    /// How many different ones there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn mean_bytes(&self) -> f64 {
        self.pool.mean_bytes()
    }
}

/// Writes the key of record `id`: 20 bytes, whose beginning names the class.
pub fn key_into(id: u64, out: &mut [u8]) {
    out.copy_from_slice(b"record:0000000000000");
    let (mut left, mut at) = (id, out.len());
    while left > 0 && at > 7 {
        at -= 1;
        out[at] = b'0' + (left % 10) as u8;
        left /= 10;
    }
}

/// Bytes of a key.
pub const KEY_BYTES: usize = 20;

/// How often a key is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Draw {
    By(Popularity),
    /// YCSB's exponential at its defaults; the first keys are the popular ones.
    Exponential,
}

impl std::str::FromStr for Draw {
    type Err = String;

    fn from_str(text: &str) -> Result<Draw, String> {
        match text {
            "exponential" => Ok(Draw::Exponential),
            text => text
                .parse()
                .map(Draw::By)
                .map_err(|error: String| format!("{error}, or `exponential`")),
        }
    }
}

impl std::fmt::Display for Draw {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Draw::By(popularity) => popularity.fmt(f),
            Draw::Exponential => f.write_str("exponential"),
        }
    }
}

/// What a run of records is.
#[derive(Clone, Debug)]
pub struct RecordsSettings {
    pub keys: u64,
    pub draw: Draw,
    pub read_ratio: f64,
    pub seed: u64,
}

/// The workload.
#[derive(Clone, Debug)]
pub struct Records {
    values: Values,
    settings: RecordsSettings,
}

impl Records {
    pub fn new(values: Values, settings: RecordsSettings) -> Records {
        Records { values, settings }
    }

    /// Reads `class` or `file`, `keys`, `popularity`, `read_ratio`.
    pub fn read(settings: &mut Settings, seed: u64) -> Result<Records> {
        let classes = Class::ALL.map(|class| (class.name(), class));
        let class = settings.choice("class", &classes)?;
        let values = match (settings.text("file")?, class) {
            (Some(path), None) => Values::read(Path::new(&path))?,
            (None, class) => Values::made(class.unwrap_or(Class::User500), 42),
            (Some(_), Some(_)) => {
                bail!("`{}` and `file`: give one of them", settings.name("class"))
            }
        };
        let read = RecordsSettings {
            keys: settings.count("keys")?.unwrap_or(200_000),
            draw: settings
                .parsed("popularity", str::parse)?
                .unwrap_or(Draw::By(Popularity::Zipf(0.99))),
            read_ratio: settings.number("read_ratio")?.unwrap_or(1.0),
            seed,
        };
        if read.keys == 0 {
            bail!("`{}` is at least 1", settings.name("keys"));
        }
        if !(0.0..=1.0).contains(&read.read_ratio) {
            bail!("`{}` lies between 0 and 1", settings.name("read_ratio"));
        }
        Ok(Records::new(values, read))
    }
}

impl Workload for Records {
    fn worker(&self, worker: usize, _workers: usize) -> Result<Box<dyn Source>> {
        let settings = &self.settings;
        let scale =
            EXPONENTIAL_SHARE * settings.keys as f64 / -(1.0 - EXPONENTIAL_PERCENTILE / 100.0).ln();
        Ok(Box::new(Drawing {
            values: self.values.clone(),
            keys: settings.keys,
            ranks: match settings.draw {
                Draw::By(popularity) => Some(Ranks::new(popularity, settings.keys)),
                Draw::Exponential => None,
            },
            scale,
            read_ratio: settings.read_ratio,
            random: Random::lane(settings.seed, worker as u64),
        }))
    }

    fn load(&self, worker: usize, workers: usize) -> Result<Option<Box<dyn Source>>> {
        let part = |index: usize| {
            (u128::from(self.settings.keys) * index as u128 / workers as u128) as u64
        };
        Ok(Some(Box::new(Loading {
            values: self.values.clone(),
            left: part(worker)..part(worker + 1),
        })))
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        let settings = &self.settings;
        [
            ("workload", Value::from("records")),
            ("class", Value::from(self.values.name.clone())),
            ("value_bytes_mean", Value::from(self.values.mean_bytes())),
            ("values", Value::from(self.values.count())),
            ("keys", Value::from(settings.keys)),
            ("popularity", Value::from(settings.draw.to_string())),
            ("read_ratio", Value::from(settings.read_ratio)),
            ("seed", Value::from(settings.seed)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn value_bytes_max(&self) -> u32 {
        self.values.pool.max_bytes() as u32
    }

    fn items_expected(&self) -> (u64, f64) {
        (
            self.settings.keys,
            KEY_BYTES as f64 + self.values.mean_bytes(),
        )
    }

    /// Reads bring the whole value to compare with instead.
    fn is_stamped(&self) -> bool {
        false
    }
}

fn push(batch: &mut Batch, values: &Values, kind: Kind, id: u64) {
    batch.push(Op::new(kind, id, 0), KEY_BYTES, |key| key_into(id, key));
    batch.lend_value(values.lent_of_key(id));
}

struct Drawing {
    values: Values,
    keys: u64,
    /// None: exponential.
    ranks: Option<Ranks>,
    scale: f64,
    read_ratio: f64,
    random: Random,
}

impl Drawing {
    fn key(&mut self) -> u64 {
        if let Some(ranks) = &self.ranks {
            return ranks.sample(&mut self.random);
        }
        loop {
            let key = -(1.0 - self.random.unit()).ln() * self.scale;
            if key < self.keys as f64 {
                return key as u64;
            }
        }
    }
}

impl Source for Drawing {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        for _ in 0..count {
            let id = self.key();
            let kind = match self.read_ratio >= 1.0 || self.random.unit() < self.read_ratio {
                true => Kind::Read,
                false => Kind::Write,
            };
            push(batch, &self.values, kind, id);
        }
        Ok(count)
    }
}

/// From the last key to the first: the popular ones come last, so that a cache smaller than the data holds some of
/// them when the run begins.
struct Loading {
    values: Values,
    left: Range<u64>,
}

impl Source for Loading {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        for id in self.left.by_ref().rev().take(count) {
            push(batch, &self.values, Kind::Write, id);
        }
        Ok(batch.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(draw: &str) -> Records {
        let settings = RecordsSettings {
            keys: 10_000,
            draw: draw.parse().unwrap(),
            read_ratio: 1.0,
            seed: 3,
        };
        Records::new(Values::made(Class::User200, 42), settings)
    }

    #[test]
    fn reads_know_the_value_that_the_load_wrote() {
        let records = records("zipf:0.99");
        let (mut load, mut batch) = (records.load(1, 2).unwrap().unwrap(), Batch::default());
        assert_eq!(load.fill(&mut batch, 10).unwrap(), 10);
        assert_eq!(batch.key(0), b"record:0000000009999");
        let written = batch.value(3).unwrap().to_vec();
        assert_eq!(written, records.values.of_key(9996));
        let mut source = records.worker(0, 1).unwrap();
        source.fill(&mut batch, 100).unwrap();
        for index in 0..100 {
            let id = batch.ops[index].id;
            assert_eq!(batch.expected(index).unwrap(), records.values.of_key(id));
        }
        let mut left = 0;
        while load.fill(&mut batch, 999).unwrap() > 0 {
            left += batch.len();
        }
        assert_eq!(left, 4990);
    }

    #[test]
    fn the_exponential_is_ycsbs() {
        let records = records("exponential");
        let (mut source, mut batch) = (records.worker(0, 1).unwrap(), Batch::default());
        source.fill(&mut batch, 50_000).unwrap();
        let below = |bound: f64| {
            let count = batch.ops.iter().filter(|op| (op.id as f64) < bound).count();
            count as f64 / 50_000.0
        };
        // 95 % lie in the share, less what is drawn again beyond the last key (3 %).
        assert!(
            (below(8571.0) - 0.95 / 0.9697).abs() < 0.01,
            "{}",
            below(8571.0)
        );
        assert!((below(1000.0) - (1.0 - (-3.495e-4f64 * 1000.0).exp()) / 0.9697).abs() < 0.01);
        assert!("hot".parse::<Draw>().is_err());
    }

    #[test]
    fn a_file_gives_its_lines() {
        let path =
            std::env::temp_dir().join(format!("thermolab-records-{}.jsonl", std::process::id()));
        std::fs::write(&path, "{\"a\":1}\n\"x\\u00ff\"\n").unwrap();
        let values = Values::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(
            (values.of_key(0), values.of_key(1)),
            (&b"{\"a\":1}"[..], &b"x\xff"[..])
        );
        assert_eq!(values.of_key(2), values.of_key(0));
    }
}
