//! YCSB's core workload as a stream of operations: the load in key order, the run by proportions and request
//! distribution. Leaves counting, timing and stopping to whoever drives it.

use super::draw::Keys;
use super::inserts::Inserts;
use super::row::{Layout, Rows};
use super::settings::Settings;
use crate::workload::{Batch, Kind, Op, Random, Source, Workload};
use anyhow::Result;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How the core workload is spoken to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dialect {
    pub layout: Layout,
    /// `--value-compress`: the LZ4 ratio of rows; `None` for YCSB's own bytes.
    pub compress: Option<f64>,
    pub seed: u64,
}

/// The core workload, ready to make sources. They share its inserts; how many operations there are is the driver's.
pub struct Ycsb {
    settings: Arc<Settings>,
    dialect: Dialect,
    rows: Arc<Rows>,
    keys: Keys,
    inserts: Arc<Inserts>,
}

impl Ycsb {
    /// Makes the pool of values and the sums of the distribution: milliseconds.
    pub fn new(mut settings: Settings, dialect: Dialect) -> Result<Self> {
        if dialect.layout == Layout::Memcached {
            settings.keys.prefix = format!("{}-", settings.table).into_bytes();
        }
        let rows = Rows::new(&settings, dialect.layout, dialect.compress, dialect.seed)?;
        Ok(Ycsb {
            keys: Keys::new(settings.distribution, settings.space)?,
            inserts: Arc::new(Inserts::new(settings.space.records)),
            rows: Arc::new(rows),
            settings: Arc::new(settings),
            dialect,
        })
    }

    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    pub fn rows(&self) -> &Rows {
        &self.rows
    }

    fn writer(&self) -> Writer {
        Writer {
            settings: self.settings.clone(),
            rows: self.rows.clone(),
            layout: self.dialect.layout,
            key: Vec::with_capacity(self.settings.keys.bytes_max()),
        }
    }
}

impl Workload for Ycsb {
    fn worker(&self, worker: usize, _workers: usize) -> Result<Box<dyn Source>> {
        let mut sum = 0.0;
        let choice = self.settings.proportions.all().map(|(kind, share)| {
            sum += share;
            (kind, sum)
        });
        Ok(Box::new(Run {
            writer: self.writer(),
            choice,
            keys: self.keys.clone(),
            inserts: self.inserts.clone(),
            random: Random::lane(self.dialect.seed, 100 + worker as u64),
            unacknowledged: Vec::new(),
        }))
    }

    fn load(&self, worker: usize, workers: usize) -> Result<Option<Box<dyn Source>>> {
        let space = self.settings.space;
        Ok(Some(Box::new(Load {
            writer: self.writer(),
            next: space.first + worker as u64,
            end: space.first + space.count,
            step: workers.max(1) as u64,
            random: Random::lane(self.dialect.seed, 1_000_000 + worker as u64),
        })))
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        let settings = &self.settings;
        let shares: BTreeMap<&str, f64> = settings
            .proportions
            .all()
            .iter()
            .map(|(kind, share)| (kind.name(), *share))
            .collect();
        let (row_bytes, _) = self.rows.bytes();
        let ratio = self.rows.ratio();
        BTreeMap::from(
            [
                ("workload", json!("ycsb-core")),
                ("records", json!(settings.space.records)),
                ("operations", json!(settings.operations)),
                ("proportions", json!(shares)),
                (
                    "request_distribution",
                    json!(format!("{:?}", settings.distribution)),
                ),
                ("row_bytes_mean", json!(row_bytes)),
                ("layout", json!(format!("{:?}", self.dialect.layout))),
                ("data_integrity", json!(settings.data_integrity)),
                ("lz4_ratio", json!(ratio.lz4)),
                ("zstd_ratio", json!(ratio.zstd)),
                ("seed", json!(self.dialect.seed)),
            ]
            .map(|(name, value)| (name.to_string(), value)),
        )
    }

    fn value_bytes_max(&self) -> u32 {
        self.rows.bytes().1 as u32
    }

    fn items_expected(&self) -> (u64, f64) {
        let key = self.settings.keys.prefix.len() as f64 + 23.0;
        let keys = self.settings.space.records + self.settings.space.expected_new;
        (keys, key + self.rows.bytes().0)
    }

    fn is_stamped(&self) -> bool {
        false
    }
}

/// Writes keys and values into batches.
struct Writer {
    settings: Arc<Settings>,
    rows: Arc<Rows>,
    layout: Layout,
    key: Vec<u8>,
}

impl Writer {
    #[inline]
    fn push(&mut self, batch: &mut Batch, kind: Kind, number: u64, value_bytes: u32) {
        self.key.clear();
        self.settings.keys.write(number, &mut self.key);
        let key = &self.key;
        batch.push(Op::new(kind, number, value_bytes), key.len(), |out| {
            out.copy_from_slice(key)
        });
    }

    /// The key without its table: what integrity values begin with.
    #[inline]
    fn bare_key(&self) -> &[u8] {
        &self.key[self.settings.keys.prefix.len()..]
    }

    #[inline]
    fn push_insert(&mut self, batch: &mut Batch, number: u64, random: &mut Random) {
        let kind = match self.layout {
            Layout::Row => Kind::Insert,
            Layout::Memcached => Kind::Add,
        };
        self.push(batch, kind, number, 0);
        batch.push_value(|out| self.rows.whole(self.bare_key(), random, out));
    }

    #[inline]
    fn push_update(&mut self, batch: &mut Batch, kind: Kind, number: u64, random: &mut Random) {
        self.push(batch, kind, number, 0);
        batch.push_value(|out| self.rows.update(self.bare_key(), random, out));
    }
}

/// Every `step`th record from `next`: workers together insert in key order.
struct Load {
    writer: Writer,
    next: u64,
    end: u64,
    step: u64,
    random: Random,
}

impl Source for Load {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        while batch.len() < count && self.next < self.end {
            self.writer.push_insert(batch, self.next, &mut self.random);
            self.next += self.step;
        }
        Ok(batch.len())
    }
}

struct Run {
    writer: Writer,
    /// Kinds with the sums of their shares.
    choice: [(Kind, f64); 5],
    keys: Keys,
    inserts: Arc<Inserts>,
    random: Random,
    unacknowledged: Vec<u64>,
}

impl Run {
    #[inline]
    fn choose(&mut self) -> Kind {
        let u = self.random.unit();
        self.choice
            .iter()
            .find(|(_, sum)| u < *sum)
            .map_or(Kind::Read, |(kind, _)| *kind)
    }
}

impl Source for Run {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        // Whoever asks for more has finished what it had.
        self.inserts.acknowledge(&mut self.unacknowledged);
        for _ in 0..count {
            let kind = self.choose();
            if kind == Kind::Insert {
                let number = self.inserts.take()?;
                self.unacknowledged.push(number);
                self.writer.push_insert(batch, number, &mut self.random);
                continue;
            }
            let number = self.keys.sample(self.inserts.last(), &mut self.random);
            match kind {
                Kind::Read => self.writer.push(batch, kind, number, 0),
                Kind::Scan => {
                    let records = self.writer.settings.scan_lengths.sample(&mut self.random);
                    self.writer.push(batch, kind, number, records);
                }
                _ => self
                    .writer
                    .push_update(batch, kind, number, &mut self.random),
            }
        }
        Ok(batch.len())
    }

    fn settled(&mut self, _batch: &Batch) {
        self.inserts.acknowledge(&mut self.unacknowledged);
    }
}

impl Drop for Run {
    /// A worker that stops must not keep the newest records from the others' eyes.
    fn drop(&mut self) {
        self.inserts.acknowledge(&mut self.unacknowledged);
    }
}
