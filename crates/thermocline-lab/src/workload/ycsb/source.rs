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

/// Records up to which the skew is counted, and draws for it: 4 MiB and 60 ms.
const SKEW_RECORDS_MAX: u64 = 1 << 20;
const SKEW_DRAWS: u64 = 1_000_000;

/// How the core workload is spoken to a cache.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Dialect {
    pub layout: Layout,
    /// `--value-compress`: the LZ4 ratio of rows; `None` for YCSB's own bytes.
    pub compress: Option<f64>,
    pub seed: u64,
    /// Reads know the row that a fill after a miss writes.
    pub fill: bool,
}

/// The core workload, ready to make sources. They share its inserts; how many operations there are is the driver's.
pub struct Ycsb {
    settings: Arc<Settings>,
    dialect: Dialect,
    rows: Arc<Rows>,
    keys: Keys,
    inserts: Arc<Inserts>,
    /// The row a fill writes.
    filler: Arc<[u8]>,
}

impl Ycsb {
    /// Makes the pool of values and the sums of the distribution: milliseconds.
    pub fn new(mut settings: Settings, dialect: Dialect) -> Result<Self> {
        if dialect.layout == Layout::Memcached {
            settings.keys.prefix = format!("{}-", settings.table).into_bytes();
        }
        let rows = Rows::new(&settings, dialect.layout, dialect.compress, dialect.seed)?;
        let mut row = Vec::new();
        if dialect.fill {
            rows.whole(b"user0", &mut Random::new(dialect.seed), &mut row);
        }
        Ok(Ycsb {
            filler: row.into(),
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

    /// How the request distribution falls on the records, by a million draws; `None` where there are so many that
    /// this would not tell.
    pub fn skew(&self) -> Option<String> {
        let space = self.settings.space;
        if space.records > SKEW_RECORDS_MAX {
            return None;
        }
        let mut keys = self.keys.fresh();
        let mut random = Random::lane(self.dialect.seed, 9);
        let mut seen = vec![0u32; space.records as usize];
        for _ in 0..SKEW_DRAWS {
            seen[keys.sample(space.records - 1, &mut random) as usize] += 1;
        }
        seen.sort_unstable_by(|a, b| b.cmp(a));
        let share = |top: u64| {
            let sum: u64 = seen[..top as usize].iter().map(|&n| u64::from(n)).sum();
            100.0 * sum as f64 / SKEW_DRAWS as f64
        };
        Some(format!(
            "of {SKEW_DRAWS} draws {:.2} % fell on the hottest key, {:.1} % on the hottest 1 %, {:.1} % on the hottest 10 %",
            share(1),
            share((space.records / 100).max(1)),
            share((space.records / 10).max(1))
        ))
    }

    fn writer(&self) -> Writer {
        Writer {
            settings: self.settings.clone(),
            rows: self.rows.clone(),
            layout: self.dialect.layout,
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
            kinds: Random::lane(self.dialect.seed, 100 + worker as u64),
            numbers: Random::lane(self.dialect.seed, 3_000_000 + worker as u64),
            again: Random::lane(self.dialect.seed, 4_000_000 + worker as u64),
            values: Random::lane(self.dialect.seed, 2_000_000 + worker as u64),
            drawn_kinds: Vec::new(),
            drawn_numbers: Vec::new(),
            unacknowledged: Vec::new(),
            filler: self.filler.clone(),
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
}

impl Writer {
    #[inline]
    fn push(&self, batch: &mut Batch, kind: Kind, number: u64, value_bytes: u32) {
        let op = Op::new(kind, number, value_bytes);
        let keys = &self.settings.keys;
        batch.push_within(op, keys.bytes_max(), |out| keys.write(number, out));
    }

    /// With the value that a hit must have, where it follows from the key.
    #[inline]
    fn push_read(&self, batch: &mut Batch, number: u64, fill_bytes: u32, random: &mut Random) {
        self.push(batch, Kind::Read, number, fill_bytes);
        if self.rows.is_checkable() {
            self.push_whole(batch, random);
        }
    }

    #[inline]
    fn push_insert(&self, batch: &mut Batch, number: u64, random: &mut Random) {
        let kind = match self.layout {
            Layout::Row => Kind::Insert,
            Layout::Memcached => Kind::Add,
        };
        self.push(batch, kind, number, 0);
        self.push_whole(batch, random);
    }

    #[inline]
    fn push_update(&self, batch: &mut Batch, kind: Kind, number: u64, random: &mut Random) {
        self.push(batch, kind, number, 0);
        match self.rows.lent_update(random) {
            Some(value) => batch.lend_value(value),
            None => batch.push_value(|key, out| self.rows.update(self.bare(key), random, out)),
        }
    }

    /// The whole row of the key pushed last.
    #[inline]
    fn push_whole(&self, batch: &mut Batch, random: &mut Random) {
        match self.rows.lent_whole(random) {
            Some(value) => batch.lend_value(value),
            None => batch.push_value(|key, out| self.rows.whole(self.bare(key), random, out)),
        }
    }

    /// The key without its table: what integrity values begin with.
    fn bare<'a>(&self, key: &'a [u8]) -> &'a [u8] {
        &key[self.settings.keys.prefix.len()..]
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
    /// Of kinds, of key numbers, of those that are drawn again, and of what values are lent: apart, so that all follow
    /// from the seed whatever the sizes of batches.
    kinds: Random,
    numbers: Random,
    again: Random,
    values: Random,
    drawn_kinds: Vec<Kind>,
    /// One for each kind that asks for a record that is there.
    drawn_numbers: Vec<u64>,
    unacknowledged: Vec<u64>,
    filler: Arc<[u8]>,
}

impl Run {
    /// Kinds and key numbers of the next batch, before any key is written: the processor works on many draws at a time
    /// where nothing stands between them.
    fn draw(&mut self, count: usize) {
        self.drawn_kinds.clear();
        let mut new = 0;
        for _ in 0..count {
            let u = self.kinds.unit();
            let kind = self.choice.iter().find(|(_, sum)| u < *sum);
            let kind = kind.map_or(Kind::Read, |(kind, _)| *kind);
            new += usize::from(kind == Kind::Insert);
            self.drawn_kinds.push(kind);
        }
        self.drawn_numbers.resize(count - new, 0);
        self.keys.fill(
            self.inserts.last(),
            &mut self.numbers,
            &mut self.again,
            &mut self.drawn_numbers,
        );
    }

    fn push_new(&mut self, batch: &mut Batch) -> Result<()> {
        let number = self.inserts.take()?;
        self.unacknowledged.push(number);
        self.writer.push_insert(batch, number, &mut self.values);
        Ok(())
    }

    #[inline]
    fn push(&mut self, batch: &mut Batch, kind: Kind, number: u64) {
        let (writer, random) = (&self.writer, &mut self.values);
        match kind {
            Kind::Read => writer.push_read(batch, number, self.filler.len() as u32, random),
            Kind::Scan => {
                let records = writer.settings.scan_lengths.sample(random);
                writer.push(batch, kind, number, records);
            }
            _ => writer.push_update(batch, kind, number, random),
        }
    }
}

impl Source for Run {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        if !self.filler.is_empty() {
            batch.share_filler(&self.filler);
        }
        // Whoever asks for more has finished what it had.
        self.inserts.acknowledge(&mut self.unacknowledged);
        self.draw(count);
        let mut drawn = 0;
        for at in 0..count {
            if self.drawn_kinds[at] == Kind::Insert {
                self.push_new(batch)?;
            } else {
                self.push(batch, self.drawn_kinds[at], self.drawn_numbers[drawn]);
                drawn += 1;
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

#[cfg(test)]
mod tests {
    use super::super::properties::Properties;
    use super::*;

    fn ycsb(flags: &[&str], dialect: Dialect) -> Ycsb {
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        let properties = Properties::merge(&[] as &[&str], &flags).unwrap();
        Ycsb::new(Settings::read(&properties).unwrap(), dialect).unwrap()
    }

    #[test]
    fn the_load_writes_every_record_once_in_order() {
        let ycsb = ycsb(&["recordcount=1000", "insertstart=100"], Dialect::default());
        let mut seen = Vec::new();
        for worker in 0..3 {
            let mut source = ycsb.load(worker, 3).unwrap().unwrap();
            let mut batch = Batch::default();
            while source.fill(&mut batch, 7).unwrap() > 0 {
                for (index, op) in batch.ops.iter().enumerate() {
                    assert_eq!(op.kind, Kind::Insert);
                    assert_eq!(batch.value(index).unwrap().len(), 1000);
                    seen.push(op.id);
                }
            }
        }
        seen.sort_unstable();
        assert_eq!(seen, (100..1000).collect::<Vec<u64>>());
    }

    #[test]
    fn the_run_keeps_its_proportions_and_reads_what_is_there() {
        let flags = [
            "recordcount=1000",
            "readproportion=0.5",
            "updateproportion=0.2",
            "insertproportion=0.2",
            "readmodifywriteproportion=0.1",
            "requestdistribution=latest",
        ];
        let ycsb = ycsb(&flags, Dialect::default());
        let mut sources: Vec<_> = (0..2)
            .map(|worker| ycsb.worker(worker, 2).unwrap())
            .collect();
        let mut batch = Batch::default();
        let (mut counts, mut inserted, mut newest) = (BTreeMap::new(), 1000, 999);
        for round in 0..200 {
            sources[round % 2].fill(&mut batch, 100).unwrap();
            for op in &batch.ops {
                *counts.entry(op.kind).or_insert(0) += 1;
                if op.kind == Kind::Insert {
                    assert_eq!(op.id, inserted);
                    inserted += 1;
                } else {
                    assert!(op.id < inserted, "{} of {inserted}", op.id);
                    newest = newest.max(op.id);
                }
            }
            sources[round % 2].settled(&batch);
        }
        for (kind, share) in ycsb.settings().proportions.all() {
            let got = f64::from(*counts.get(&kind).unwrap_or(&0)) / 20_000.0;
            assert!((got - share).abs() < 0.02, "{kind:?}: {got} for {share}");
        }
        assert!(newest > 4000, "new records are read: {newest}");
    }

    #[test]
    fn reads_know_their_value_where_it_follows_from_the_key() {
        let ycsb = ycsb(
            &["recordcount=50", "dataintegrity=true"],
            Dialect::default(),
        );
        let mut batch = Batch::default();
        ycsb.worker(0, 1).unwrap().fill(&mut batch, 200).unwrap();
        for index in 0..batch.len() {
            if batch.ops[index].kind == Kind::Read {
                let expected = batch.expected(index).unwrap();
                assert!(expected.starts_with(batch.key(index)));
            } else {
                assert!(batch.value(index).unwrap().starts_with(batch.key(index)));
            }
        }
    }

    #[test]
    fn the_memcached_layout_adds_and_replaces_under_the_table() {
        let dialect = Dialect {
            layout: Layout::Memcached,
            ..Dialect::default()
        };
        let ycsb = ycsb(&["recordcount=50", "table=t"], dialect);
        let mut batch = Batch::default();
        ycsb.load(0, 1)
            .unwrap()
            .unwrap()
            .fill(&mut batch, 1)
            .unwrap();
        assert_eq!(batch.ops[0].kind, Kind::Add);
        assert_eq!(batch.key(0), b"t-user6284781860667377211");
        assert!(batch.value(0).unwrap().starts_with(b"{\"field1\":\""));
    }

    #[test]
    fn fills_have_a_row_and_the_skew_is_told() {
        let dialect = Dialect {
            fill: true,
            ..Dialect::default()
        };
        let ycsb = ycsb(
            &["recordcount=1000", "requestdistribution=zipfian"],
            dialect,
        );
        let mut batch = Batch::default();
        ycsb.worker(0, 1).unwrap().fill(&mut batch, 100).unwrap();
        for index in 0..batch.len() {
            assert_eq!(batch.value(index).unwrap().len(), 1000);
        }
        let skew = ycsb.skew().unwrap();
        assert!(skew.contains("on the hottest key"), "{skew}");
    }
}
