//! OHC's driving as a stream of operations: each worker draws read or write, a key, and for a write a size, each
//! independent of the others. A miss is followed by a fill only in the read-through mode that this lab adds.

use super::distribution::Distribution;
use crate::workload::compressible::{self, Pool, Ratio};
use crate::workload::{Batch, Kind, Op, Random, Source, Workload};
use anyhow::{bail, Result};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes before a value's own: its length.
pub const LENGTH_BYTES: u64 = 4;
/// Bytes of the key's number, before the extra ones.
pub const NUMBER_BYTES: usize = 8;

/// What value bytes are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Content {
    /// All zero, as OHC's own: a best case for any compression.
    Zero,
    Random,
    /// LZ4 makes them so many times smaller.
    Ratio(f64),
}

/// What is asked for.
#[derive(Clone, Debug)]
pub struct OhcSettings {
    pub read_ratio: f64,
    pub read_keys: Distribution,
    pub write_keys: Distribution,
    pub value_bytes: Distribution,
    /// Zero bytes after the key's number: `-kl`.
    pub key_extra_bytes: usize,
    pub content: Content,
    /// Every key is written once before anything else.
    pub fill_first: bool,
    pub seed: u64,
}

/// OHC's workload.
pub struct Ohc {
    settings: OhcSettings,
    filler: Arc<[u8]>,
    ratio: Ratio,
}

impl Ohc {
    pub fn new(settings: OhcSettings) -> Result<Self> {
        let bytes = (settings.value_bytes.max() + LENGTH_BYTES) as usize;
        let mean = settings.value_bytes.mean() as usize;
        let filler = filler(settings.content, bytes, mean, settings.seed)?;
        let sample = Pool::new(1, 1, |out| {
            out.extend_from_slice(&filler[..mean.min(bytes)])
        });
        Ok(Ohc {
            ratio: compressible::measure(&sample),
            filler: filler.into(),
            settings,
        })
    }

    pub fn settings(&self) -> &OhcSettings {
        &self.settings
    }

    /// How well a value of mean length compresses, measured.
    pub fn ratio(&self) -> Ratio {
        self.ratio
    }

    /// Key numbers that writes may use.
    pub fn keys(&self) -> u64 {
        self.settings.write_keys.max() - self.settings.write_keys.min() + 1
    }

    /// Bytes of a key.
    pub fn key_bytes(&self) -> usize {
        NUMBER_BYTES + self.settings.key_extra_bytes
    }

    /// Writes the key of a number: eight bytes, high first, then zeros.
    #[inline]
    pub fn key_into(number: u64, out: &mut [u8]) {
        out[..NUMBER_BYTES].copy_from_slice(&number.to_be_bytes());
        out[NUMBER_BYTES..].fill(0);
    }

    /// Adds an operation on key `number`.
    #[inline]
    pub fn push(&self, batch: &mut Batch, kind: Kind, number: u64, value_bytes: u64) {
        let bytes = (value_bytes + LENGTH_BYTES) as u32;
        batch.push(Op::new(kind, number, bytes), self.key_bytes(), |key| {
            Ohc::key_into(number, key)
        });
    }

    /// A batch whose values are this workload's.
    pub fn share(&self, batch: &mut Batch) {
        batch.share_filler(&self.filler);
    }

    fn source(&self, lane: u64) -> Ohc {
        Ohc {
            settings: OhcSettings {
                seed: self.settings.seed ^ (lane << 32),
                ..self.settings.clone()
            },
            filler: self.filler.clone(),
            ratio: self.ratio,
        }
    }
}

fn filler(content: Content, bytes: usize, mean: usize, seed: u64) -> Result<Vec<u8>> {
    let random = |bytes: usize| -> Vec<u8> {
        let mut random = Random::lane(seed, 7);
        (0..bytes).map(|_| random.word() as u8).collect()
    };
    match content {
        Content::Zero => Ok(vec![0; bytes]),
        Content::Random => Ok(random(bytes)),
        Content::Ratio(ratio) => {
            // The share is found on a value of mean length and holds for the others, whose stretches are alike.
            let fresh = random(bytes);
            let length = mean.clamp(1, bytes);
            let mut share = (0.0, 1.0);
            let made = |share: f64| {
                Pool::new(1, 1, |out| {
                    out.extend_from_slice(&fresh[..length]);
                    compressible::repeat(out, share);
                })
            };
            if ratio.is_nan() || compressible::measure(&made(0.0)).lz4 < ratio {
                bail!("values of {length} bytes cannot be made {ratio} times smaller");
            }
            for _ in 0..16 {
                let middle = (share.0 + share.1) / 2.0;
                if compressible::measure(&made(middle)).lz4 > ratio {
                    share.0 = middle;
                } else {
                    share.1 = middle;
                }
            }
            let mut value = fresh;
            compressible::repeat(&mut value, (share.0 + share.1) / 2.0);
            Ok(value)
        }
    }
}

impl Workload for Ohc {
    fn worker(&self, worker: usize, _workers: usize) -> Result<Box<dyn Source>> {
        let random = Random::lane(self.settings.seed, 100 + worker as u64);
        Ok(Box::new(Mixed {
            ohc: self.source(0),
            random,
        }))
    }

    fn load(&self, worker: usize, workers: usize) -> Result<Option<Box<dyn Source>>> {
        if !self.settings.fill_first {
            return Ok(None);
        }
        Ok(Some(Box::new(Fill {
            next: self.settings.write_keys.min() + worker as u64,
            step: workers.max(1) as u64,
            random: Random::lane(self.settings.seed, 1_000_000 + worker as u64),
            ohc: self.source(0),
        })))
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        let settings = &self.settings;
        BTreeMap::from(
            [
                ("workload", json!("ohc")),
                ("read_ratio", json!(settings.read_ratio)),
                ("read_keys", json!(settings.read_keys.to_string())),
                ("write_keys", json!(settings.write_keys.to_string())),
                ("value_bytes", json!(settings.value_bytes.to_string())),
                ("value_bytes_mean", json!(settings.value_bytes.mean())),
                ("key_bytes", json!(self.key_bytes())),
                ("content", json!(format!("{:?}", settings.content))),
                ("fill_first", json!(settings.fill_first)),
                ("lz4_ratio", json!(self.ratio.lz4)),
                ("zstd_ratio", json!(self.ratio.zstd)),
                ("seed", json!(settings.seed)),
            ]
            .map(|(name, value)| (name.to_string(), value)),
        )
    }

    fn value_bytes_max(&self) -> u32 {
        (self.settings.value_bytes.max() + LENGTH_BYTES) as u32
    }

    fn items_expected(&self) -> (u64, f64) {
        let value = self.settings.value_bytes.mean() + LENGTH_BYTES as f64;
        (self.keys(), self.key_bytes() as f64 + value)
    }

    fn is_stamped(&self) -> bool {
        false
    }
}

struct Mixed {
    ohc: Ohc,
    random: Random,
}

impl Source for Mixed {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        self.ohc.share(batch);
        let settings = &self.ohc.settings;
        for _ in 0..count {
            let is_read = self.random.unit() < settings.read_ratio;
            let (kind, keys) = if is_read {
                (Kind::Read, &settings.read_keys)
            } else {
                (Kind::Write, &settings.write_keys)
            };
            let number = keys.sample(&mut self.random);
            // Drawn for reads too: it is the size of the fill, should the read miss.
            let bytes = settings.value_bytes.sample(&mut self.random);
            self.ohc.push(batch, kind, number, bytes);
        }
        Ok(count)
    }
}

/// Every key once.
struct Fill {
    ohc: Ohc,
    next: u64,
    step: u64,
    random: Random,
}

impl Source for Fill {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        self.ohc.share(batch);
        while batch.len() < count && self.next <= self.ohc.settings.write_keys.max() {
            let bytes = self.ohc.settings.value_bytes.sample(&mut self.random);
            self.ohc.push(batch, Kind::Write, self.next, bytes);
            self.next += self.step;
        }
        Ok(batch.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(content: Content) -> OhcSettings {
        OhcSettings {
            read_ratio: 0.75,
            read_keys: "uniform(1..1000)".parse().unwrap(),
            write_keys: "uniform(1..500)".parse().unwrap(),
            value_bytes: "gaussian(1024..4096,2)".parse().unwrap(),
            key_extra_bytes: 3,
            content,
            fill_first: true,
            seed: 1,
        }
    }

    #[test]
    fn operations_follow_the_options() {
        let ohc = Ohc::new(settings(Content::Zero)).unwrap();
        let mut source = ohc.worker(0, 1).unwrap();
        let mut batch = Batch::default();
        assert_eq!(source.fill(&mut batch, 20_000).unwrap(), 20_000);
        let reads = batch.ops.iter().filter(|op| op.kind == Kind::Read).count();
        assert!((14_700..15_300).contains(&reads), "{reads} reads");
        for (index, op) in batch.ops.iter().enumerate() {
            let key = batch.key(index);
            assert_eq!(key.len(), 11);
            assert_eq!(key[..8], op.id.to_be_bytes());
            assert!(op.id >= 1 && op.id <= if op.kind == Kind::Read { 1000 } else { 500 });
            let value = batch.value(index).unwrap();
            assert_eq!(value.len(), op.value_bytes as usize);
            assert!((1028..=4100).contains(&value.len()) && value.iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn filling_writes_each_key_once() {
        let ohc = Ohc::new(settings(Content::Random)).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for worker in 0..3 {
            let mut source = ohc.load(worker, 3).unwrap().unwrap();
            let mut batch = Batch::default();
            while source.fill(&mut batch, 64).unwrap() > 0 {
                for op in &batch.ops {
                    assert!(seen.insert(op.id));
                }
            }
        }
        assert_eq!(
            (seen.len(), seen.first(), seen.last()),
            (500, Some(&1), Some(&500))
        );
    }

    #[test]
    fn contents_compress_as_asked() {
        let ratio = |content| Ohc::new(settings(content)).map(|ohc| ohc.ratio().lz4);
        assert!(ratio(Content::Zero).unwrap() > 50.0);
        assert!(ratio(Content::Random).unwrap() < 1.01);
        let half = ratio(Content::Ratio(2.0)).unwrap();
        assert!((half - 2.0).abs() < 0.1, "{half}");
        assert!(ratio(Content::Ratio(1e6)).is_err());
    }
}
