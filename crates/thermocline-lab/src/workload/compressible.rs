//! Values of a wanted compressibility: a share of each 64 bytes is kept as it was drawn, the rest repeats what
//! came before it in the same value. The share is found by compressing and looking, so the ratio printed with a
//! result is a measured one. Also the pool such values are taken from.

use super::Random;
use anyhow::{bail, Result};
use std::sync::Arc;

/// Repetition goes on within stretches of so many bytes.
const STRETCH: usize = 64;
/// Bytes compressed for one measurement.
const MEASURED_BYTES_MAX: usize = 1 << 20;
/// How close to the wanted ratio a search comes, relative, before it stops.
const CLOSE: f64 = 0.005;

/// Values made once and taken again and again: a value costs a reference, not its drawing.
#[derive(Clone, Debug, Default)]
pub struct Pool {
    values: Vec<Arc<[u8]>>,
}

impl Pool {
    /// Up to `count` values that `make` appends, fewer if they pass `bytes_max`, but one at least.
    pub fn new(count: usize, bytes_max: usize, mut make: impl FnMut(&mut Vec<u8>)) -> Self {
        let mut pool = Pool::default();
        let (mut value, mut bytes) = (Vec::new(), 0);
        while pool.values.len() < count.max(1) && bytes < bytes_max.max(1) {
            value.clear();
            make(&mut value);
            bytes += value.len();
            pool.values.push(value.as_slice().into());
        }
        pool
    }

    #[inline]
    pub fn pick(&self, random: &mut Random) -> &Arc<[u8]> {
        self.value(random.below(self.values.len() as u64) as usize)
    }

    /// The value at this place, from 0 on.
    #[inline]
    pub fn value(&self, index: usize) -> &Arc<[u8]> {
        &self.values[index]
    }

    pub fn values(&self) -> impl Iterator<Item = &[u8]> {
        self.values.iter().map(|value| &**value)
    }

    /// Mean length, bytes.
    pub fn mean_bytes(&self) -> f64 {
        let bytes: usize = self.values().map(<[u8]>::len).sum();
        bytes as f64 / self.values.len().max(1) as f64
    }

    pub fn max_bytes(&self) -> usize {
        self.values().map(<[u8]>::len).max().unwrap_or(0)
    }
}

/// Raw over compressed bytes, each value compressed alone and without a dictionary.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    pub lz4: f64,
    /// zstd at level 1; `None` if it would not run.
    pub zstd: Option<f64>,
}

impl std::fmt::Display for Ratio {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LZ4 {:.2}", self.lz4)?;
        match self.zstd {
            Some(zstd) => write!(f, ", zstd-1 {zstd:.2}"),
            None => Ok(()),
        }
    }
}

/// Compresses the values, up to 1 MiB of them, and compares.
pub fn measure(pool: &Pool) -> Ratio {
    let zstd = |value: &[u8]| zstd::bulk::compress(value, 1).map(|bytes| bytes.len()).ok();
    Ratio {
        lz4: ratio(pool.values(), |value| {
            Some(lz4_flex::block::compress(value).len())
        })
        .unwrap_or(1.0),
        zstd: ratio(pool.values(), zstd),
    }
}

fn ratio<'a>(
    values: impl Iterator<Item = &'a [u8]>,
    compressed: impl Fn(&[u8]) -> Option<usize>,
) -> Option<f64> {
    let (mut raw, mut packed) = (0, 0);
    for value in values {
        raw += value.len();
        packed += compressed(value)?;
        if raw >= MEASURED_BYTES_MAX {
            break;
        }
    }
    (packed > 0).then(|| raw as f64 / packed as f64)
}

/// The pool whose LZ4 ratio is `wanted`: `make` builds one for a share of fresh bytes, which it applies with
/// [`repeat`]. Costs a dozen pools.
pub fn with_ratio(wanted: f64, make: impl Fn(f64) -> Pool) -> Result<Pool> {
    let lz4 = |pool: &Pool| measure(pool).lz4;
    let fresh = make(1.0);
    if wanted <= lz4(&fresh) * (1.0 + CLOSE) {
        return Ok(fresh);
    }
    let (mut low, mut high) = (0.0, 1.0);
    let best = lz4(&make(low));
    if best < wanted * (1.0 - CLOSE) {
        bail!("these values compress {best:.1} times at most; a ratio of {wanted} is out of reach");
    }
    let mut found = make(low);
    for _ in 0..20 {
        let middle = (low + high) / 2.0;
        let pool = make(middle);
        let got = lz4(&pool);
        found = pool;
        if (got / wanted - 1.0).abs() < CLOSE {
            break;
        }
        if got > wanted {
            low = middle;
        } else {
            high = middle;
        }
    }
    Ok(found)
}

/// Leaves `share` of each 64 bytes of `value` as they are and makes the rest repeat what came before.
pub fn repeat(value: &mut [u8], share: f64) {
    let mut owed = 0.0;
    let mut from = 0;
    while from < value.len() {
        let to = (from + STRETCH).min(value.len());
        owed += share * (to - from) as f64;
        let fresh = (owed.round().max(0.0) as usize).min(to - from);
        owed -= fresh as f64;
        for at in from + fresh..to {
            value[at] = if at >= STRETCH {
                value[at - STRETCH]
            } else if fresh > 0 {
                value[at - fresh]
            } else {
                b'.'
            };
        }
        from = to;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(share: f64, length: usize) -> Pool {
        let mut random = Random::new(9);
        Pool::new(400, 1 << 20, |out| {
            let from = out.len();
            out.extend((0..length).map(|_| random.word() as u8));
            repeat(&mut out[from..], share);
        })
    }

    #[test]
    fn the_wanted_ratio_is_met() {
        for length in [400, 1000, 20_000] {
            for wanted in [1.3, 2.0, 4.0] {
                let found = with_ratio(wanted, |share| pool(share, length)).unwrap();
                let got = measure(&found);
                assert!(
                    (got.lz4 / wanted - 1.0).abs() < 0.03,
                    "{length} B: {got} for {wanted}"
                );
                assert!(got.zstd.is_some());
            }
        }
    }

    #[test]
    fn random_bytes_do_not_compress_and_some_ratios_are_out_of_reach() {
        let fresh = with_ratio(1.0, |share| pool(share, 1000)).unwrap();
        assert!(measure(&fresh).lz4 < 1.01);
        let error = with_ratio(50.0, |share| pool(share, 100))
            .unwrap_err()
            .to_string();
        assert!(error.contains("out of reach"), "{error}");
    }

    #[test]
    fn a_pool_keeps_lengths_and_bounds() {
        let mut length = 0;
        let pool = Pool::new(100, 50, |out| {
            length += 10;
            out.resize(out.len() + length, b'x');
        });
        let lengths: Vec<usize> = pool.values().map(<[u8]>::len).collect();
        assert_eq!(lengths, [10, 20, 30]);
        assert_eq!((pool.mean_bytes(), pool.max_bytes()), (20.0, 30));
        let mut random = Random::new(1);
        assert!((0..100).all(|_| pool.pick(&mut random).len().is_multiple_of(10)));
        assert_eq!(Pool::new(0, 0, |out| out.push(1)).values().count(), 1);
    }
}
