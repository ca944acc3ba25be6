//! The mix as a workload: popularity, value sizes and a share of reads over one key space.

use super::stream::{fill_with_writes, Mix, Stream};
use super::{Batch, Source, Workload, KEY_BYTES_MIN};
use crate::settings::Settings;
use anyhow::{bail, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::ops::Range;

/// Longest key of the mix, bytes: memcached's limit.
const KEY_BYTES_MAX: u64 = 250;

/// The mix, checked.
#[derive(Clone, Debug)]
pub struct MixWorkload(Mix);

impl MixWorkload {
    pub fn new(mix: Mix) -> Self {
        MixWorkload(mix)
    }

    /// Reads `keys`, `key_bytes`, `popularity`, `value_bytes`, `read_ratio`, `resize`.
    pub fn read(settings: &mut Settings, seed: u64) -> Result<Self> {
        let mix = Mix {
            keys: settings.count("keys")?.unwrap_or(1_000_000),
            key_bytes: settings.bytes("key_bytes")?.unwrap_or(16).min(1 << 20) as usize,
            popularity: settings
                .parsed("popularity", str::parse)?
                .unwrap_or(super::Popularity::Zipf(0.99)),
            sizes: settings
                .parsed("value_bytes", str::parse)?
                .unwrap_or(super::ValueSize::Fixed(100)),
            read_ratio: settings.number("read_ratio")?.unwrap_or(0.95),
            resize: settings.truth("resize")?.unwrap_or(false),
            seed,
        };
        if mix.keys == 0 {
            bail!("`{}` is at least 1", settings.name("keys"));
        }
        if !(KEY_BYTES_MIN as u64..=KEY_BYTES_MAX).contains(&(mix.key_bytes as u64)) {
            bail!(
                "`{}` lies between {KEY_BYTES_MIN} and {KEY_BYTES_MAX} bytes",
                settings.name("key_bytes")
            );
        }
        if !(0.0..=1.0).contains(&mix.read_ratio) {
            bail!("`{}` lies between 0 and 1", settings.name("read_ratio"));
        }
        Ok(MixWorkload(mix))
    }
}

impl Workload for MixWorkload {
    fn worker(&self, worker: usize, _workers: usize) -> Result<Box<dyn Source>> {
        Ok(Box::new(Stream::new(&self.0, worker as u64)))
    }

    fn load(&self, worker: usize, workers: usize) -> Result<Option<Box<dyn Source>>> {
        let part =
            |index: usize| (u128::from(self.0.keys) * index as u128 / workers as u128) as u64;
        Ok(Some(Box::new(Loading {
            mix: self.0.clone(),
            left: part(worker)..part(worker + 1),
        })))
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        let mix = &self.0;
        [
            ("workload", Value::from("mix")),
            ("keys", Value::from(mix.keys)),
            ("key_bytes", Value::from(mix.key_bytes)),
            ("popularity", Value::from(mix.popularity.to_string())),
            ("value_bytes", Value::from(mix.sizes.to_string())),
            ("read_ratio", Value::from(mix.read_ratio)),
            ("resize", Value::from(mix.resize)),
            ("seed", Value::from(mix.seed)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn value_bytes_max(&self) -> u32 {
        self.0.sizes.max()
    }

    fn items_expected(&self) -> (u64, f64) {
        let mix = &self.0;
        (mix.keys, mix.key_bytes as f64 + mix.sizes.mean())
    }

    /// With sizes that change, a reader cannot know the length; the stamp it still could.
    fn is_stamped(&self) -> bool {
        !self.0.resize
    }
}

impl Source for Stream {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        Stream::fill(self, batch, count);
        Ok(count)
    }
}

/// Every key of a range once.
struct Loading {
    mix: Mix,
    left: Range<u64>,
}

impl Source for Loading {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        let to = self
            .left
            .end
            .min(self.left.start.saturating_add(count as u64));
        fill_with_writes(&self.mix, self.left.start..to, batch);
        self.left.start = to;
        Ok(batch.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn read(values: Value) -> Result<MixWorkload> {
        let mut settings = Settings::new("workload", serde_json::from_value(values).unwrap());
        let mix = MixWorkload::read(&mut settings, 1)?;
        settings.finish()?;
        Ok(mix)
    }

    #[test]
    fn loading_covers_every_key_once_over_all_workers() {
        let mix = read(json!({ "keys": 1003, "value_bytes": "8..64" })).unwrap();
        let mut seen = vec![0; 1003];
        for worker in 0..4 {
            let mut source = mix.load(worker, 4).unwrap().unwrap();
            let mut batch = Batch::default();
            while source.fill(&mut batch, 100).unwrap() > 0 {
                for op in &batch.ops {
                    seen[op.id as usize] += 1;
                }
            }
        }
        assert!(seen.iter().all(|times| *times == 1));
    }

    #[test]
    fn settings_are_checked_by_name() {
        for (values, said) in [
            (json!({ "keys": 0 }), "workload.keys"),
            (json!({ "key_bytes": 8 }), "workload.key_bytes"),
            (json!({ "read_ratio": 1.5 }), "workload.read_ratio"),
            (json!({ "popularity": "zipfy" }), "workload.popularity"),
            (json!({ "value_byte": 1 }), "did you mean `value_bytes`"),
        ] {
            let error = read(values).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
