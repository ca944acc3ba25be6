//! What a record looks like as one value: the fields one after the other, or the JSON object that YCSB's memcached
//! binding writes. Values are taken from a pool made beforehand by YCSB's rule, so that a value costs a slice; only
//! `dataintegrity`, whose bytes follow from the key, is written out each time.

use super::field;
use super::settings::Settings;
use crate::workload::compressible::{self, Pool, Ratio};
use crate::workload::Random;
use anyhow::Result;
use std::sync::Arc;

/// Values in the pool, and their bytes: enough that repeats are rare, few enough to make in milliseconds.
const POOL_ROWS: usize = 1024;
const POOL_BYTES_MAX: usize = 8 << 20;
/// The same for rows of a single field, over all fields.
const POOL_FIELD_ROWS: usize = 2048;

/// How a record is stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// All fields, one after the other; every write writes the whole row. Key: `user...`.
    #[default]
    Row,
    /// YCSB's memcached binding: a JSON object; insert = ADD, update = REPLACE by the updated fields alone.
    /// Key: `usertable-user...`.
    Memcached,
}

/// The values of one phase.
#[derive(Clone, Debug)]
pub struct Rows {
    layout: Layout,
    /// Names in the order in which they are stored.
    names: Vec<String>,
    /// Whole rows, and rows of one field by its index (where an update writes no more).
    whole: Pool,
    single: Vec<Pool>,
    /// Length of each field where bytes follow from the key.
    integrity: Option<usize>,
}

impl Rows {
    /// `compress`: the LZ4 ratio that rows are to have; YCSB's own bytes if not given.
    pub fn new(
        settings: &Settings,
        layout: Layout,
        compress: Option<f64>,
        seed: u64,
    ) -> Result<Self> {
        let names = field_names(settings, layout);
        let maker = Maker {
            settings,
            layout,
            names: &names,
            seed,
        };
        let whole = match compress {
            Some(ratio) => compressible::with_ratio(ratio, |share| maker.whole(share))?,
            None => maker.whole(1.0),
        };
        let partial = layout == Layout::Memcached && !settings.write_all_fields;
        let single = if partial { maker.single() } else { Vec::new() };
        Ok(Rows {
            layout,
            whole,
            single,
            integrity: settings
                .data_integrity
                .then_some(settings.lengths.max() as usize),
            names,
        })
    }

    /// A row to be lent; None where its bytes follow from the key and [`Rows::whole`] writes them.
    #[inline]
    pub fn lent_whole(&self, random: &mut Random) -> Option<&Arc<[u8]>> {
        self.integrity.is_none().then(|| self.whole.pick(random))
    }

    /// The same for what an update writes.
    #[inline]
    pub fn lent_update(&self, random: &mut Random) -> Option<&Arc<[u8]>> {
        match (self.integrity, self.single.len()) {
            (Some(_), _) => None,
            (None, 0) => Some(self.whole.pick(random)),
            (None, fields) => Some(self.single[random.below(fields as u64) as usize].pick(random)),
        }
    }

    /// The whole row of `key` (`user...`, without a table), appended.
    #[inline]
    pub fn whole(&self, key: &[u8], random: &mut Random, out: &mut Vec<u8>) {
        match self.integrity {
            None => out.extend_from_slice(self.whole.pick(random)),
            Some(length) => self.write_integrity(key, length, &self.names, out),
        }
    }

    /// What an update writes, appended: the whole row, or one field of it.
    #[inline]
    pub fn update(&self, key: &[u8], random: &mut Random, out: &mut Vec<u8>) {
        if self.single.is_empty() {
            return self.whole(key, random, out);
        }
        let field = random.below(self.single.len() as u64) as usize;
        match self.integrity {
            None => out.extend_from_slice(self.single[field].pick(random)),
            Some(length) => self.write_integrity(key, length, &self.names[field..=field], out),
        }
    }

    fn write_integrity(&self, key: &[u8], length: usize, names: &[String], out: &mut Vec<u8>) {
        write_row(self.layout, names, out, |name, out| {
            field::integrity(key, name.as_bytes(), length, out)
        });
    }

    /// Bytes of a row in the mean and at most.
    pub fn bytes(&self) -> (f64, usize) {
        let singles = self.single.iter().map(Pool::max_bytes).max().unwrap_or(0);
        (self.whole.mean_bytes(), self.whole.max_bytes().max(singles))
    }

    /// How well the rows compress, measured.
    pub fn ratio(&self) -> Ratio {
        compressible::measure(&self.whole)
    }

    /// Hits can be compared with the one right value.
    pub fn is_checkable(&self) -> bool {
        self.integrity.is_some() && self.single.is_empty()
    }
}

fn field_names(settings: &Settings, layout: Layout) -> Vec<String> {
    let names = (0..settings.field_count)
        .map(|n| format!("{}{n}", settings.field_prefix))
        .collect();
    match layout {
        Layout::Row => names,
        Layout::Memcached => field::map_order(names),
    }
}

/// Makes pools.
struct Maker<'a> {
    settings: &'a Settings,
    layout: Layout,
    names: &'a [String],
    seed: u64,
}

impl Maker<'_> {
    /// Rows of which `share` of the bytes are fresh.
    fn whole(&self, share: f64) -> Pool {
        let mut random = Random::lane(self.seed, 1);
        Pool::new(POOL_ROWS, POOL_BYTES_MAX, |out| {
            self.row(self.names, share, &mut random, out)
        })
    }

    fn single(&self) -> Vec<Pool> {
        let fields = self.names.len();
        let mut random = Random::lane(self.seed, 2);
        (0..fields)
            .map(|n| {
                let (rows, bytes) = (POOL_FIELD_ROWS / fields, POOL_BYTES_MAX / fields);
                Pool::new(rows, bytes, |out| {
                    self.row(&self.names[n..=n], 1.0, &mut random, out)
                })
            })
            .collect()
    }

    fn row(&self, names: &[String], share: f64, random: &mut Random, out: &mut Vec<u8>) {
        if self.settings.data_integrity {
            // Stands for the real ones where only their length and ratio are asked for.
            let key = format!("user{}", super::key::hash(random.word()));
            let length = self.settings.lengths.max() as usize;
            return write_row(self.layout, names, out, |name, out| {
                field::integrity(key.as_bytes(), name.as_bytes(), length, out)
            });
        }
        write_row(self.layout, names, out, |_, out| {
            let (from, length) = (out.len(), self.settings.lengths.sample(random) as usize);
            field::random(random, length, out);
            if share < 1.0 {
                compressible::repeat(&mut out[from..], share);
            }
        });
    }
}

/// Appends a row of the given fields, whose bytes `value` appends.
fn write_row(
    layout: Layout,
    names: &[String],
    out: &mut Vec<u8>,
    mut value: impl FnMut(&str, &mut Vec<u8>),
) {
    if layout == Layout::Row {
        for name in names {
            value(name, out);
        }
        return;
    }
    let mut plain = Vec::new();
    out.push(b'{');
    for (n, name) in names.iter().enumerate() {
        if n > 0 {
            out.push(b',');
        }
        write_json(name.as_bytes(), out);
        out.push(b':');
        plain.clear();
        value(name, &mut plain);
        write_json(&plain, out);
    }
    out.push(b'}');
}

/// A JSON string as Jackson writes it: quotes, backslashes and controls escaped, 0x7F not.
fn write_json(text: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in text {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::super::properties::Properties;
    use super::*;

    fn settings(flags: &[&str]) -> Settings {
        let flags: Vec<String> = flags.iter().map(|flag| flag.to_string()).collect();
        Settings::read(&Properties::merge(&[] as &[&str], &flags).unwrap()).unwrap()
    }

    #[test]
    fn rows_are_fields_in_a_row() {
        let rows = Rows::new(&settings(&["fieldlength=200"]), Layout::Row, None, 1).unwrap();
        assert_eq!(rows.bytes(), (2000.0, 2000));
        let mut random = Random::new(1);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        rows.whole(b"user1", &mut random, &mut a);
        rows.update(b"user1", &mut random, &mut b);
        assert_eq!((a.len(), b.len()), (2000, 2000));
        assert!(a.iter().all(|byte| (0x20..0x80).contains(byte)));
    }

    #[test]
    fn the_memcached_layout_is_json_and_its_updates_hold_one_field() {
        let rows = Rows::new(&settings(&[]), Layout::Memcached, None, 1).unwrap();
        let mut random = Random::new(1);
        let mut seen = std::collections::BTreeSet::new();
        for _ in 0..300 {
            let mut whole = Vec::new();
            rows.whole(b"user1", &mut random, &mut whole);
            let json: serde_json::Value = serde_json::from_slice(&whole).unwrap();
            assert_eq!(json.as_object().unwrap().len(), 10);
            assert_eq!(json["field3"].as_str().unwrap().len(), 100);
            assert!(whole.starts_with(b"{\"field1\":\""));
            let mut update = Vec::new();
            rows.update(b"user1", &mut random, &mut update);
            let json: serde_json::Value = serde_json::from_slice(&update).unwrap();
            let fields = json.as_object().unwrap();
            assert_eq!(fields.len(), 1);
            seen.extend(fields.keys().cloned());
        }
        assert_eq!(seen.len(), 10, "{seen:?}");
        let all = Rows::new(
            &settings(&["writeallfields=true"]),
            Layout::Memcached,
            None,
            1,
        )
        .unwrap();
        let mut update = Vec::new();
        all.update(b"user1", &mut random, &mut update);
        assert!(update.len() > 1000);
    }

    #[test]
    fn ycsbs_bytes_do_not_compress_and_ours_do_as_asked() {
        let settings = settings(&["fieldlength=200"]);
        let own = Rows::new(&settings, Layout::Row, None, 1).unwrap().ratio();
        // Measured elsewhere for 2,000-byte rows: LZ4 1.01, zstd-1 1 / 0.815.
        assert!((own.lz4 - 1.0).abs() < 0.02, "{own}");
        let zstd = own.zstd.unwrap();
        assert!((1.0 / zstd - 0.815).abs() < 0.02, "{own}");
        for layout in [Layout::Row, Layout::Memcached] {
            let packed = Rows::new(&settings, layout, Some(3.0), 1).unwrap().ratio();
            assert!((packed.lz4 / 3.0 - 1.0).abs() < 0.02, "{packed}");
        }
    }

    #[test]
    fn integrity_rows_follow_from_the_key() {
        let settings = settings(&["dataintegrity=true"]);
        let rows = Rows::new(&settings, Layout::Row, None, 1).unwrap();
        assert!(rows.is_checkable());
        let mut random = Random::new(1);
        let mut row = Vec::new();
        rows.whole(b"user6284781860667377211", &mut random, &mut row);
        assert_eq!(row.len(), 1000);
        assert!(row.starts_with(b"user6284781860667377211:field0:-56807877:"));
        assert!(row[100..].starts_with(b"user6284781860667377211:field1:"));
    }

    #[test]
    fn controls_and_quotes_are_escaped() {
        let mut out = Vec::new();
        write_json(b"a\"\\\x01\x7f", &mut out);
        assert_eq!(out, b"\"a\\\"\\\\\\u0001\x7f\"");
    }
}
