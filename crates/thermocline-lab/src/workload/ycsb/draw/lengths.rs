//! How long a field is, and how many records a scan takes: constant, uniform, zipfian or from a histogram file.

use super::zipfian::Zipfian;
use crate::workload::Random;
use anyhow::{bail, Context, Result};
use std::path::Path;

/// The largest block of a histogram, blocks of one, and operations counted in one: all fit Java's int.
const INT_MAX: u64 = i32::MAX as u64;
/// Blocks a histogram file may have: at 1 byte a block that is a 16 MiB field.
const BLOCKS_MAX: usize = 1 << 24;
/// Bytes a histogram file may have.
const FILE_BYTES_MAX: u64 = 64 << 20;

/// A distribution of lengths.
#[derive(Clone, Debug)]
pub enum Lengths {
    Constant(u32),
    Uniform { min: u32, max: u32 },
    Zipfian { min: u32, span: u64, ranks: Zipfian },
    Histogram(Histogram),
}

impl Lengths {
    /// Zipfian lengths, the shortest the commonest.
    pub fn zipfian(min: u32, max: u32) -> Self {
        let span = u64::from(max - min) + 1;
        Lengths::Zipfian {
            min,
            span,
            ranks: Zipfian::new(span),
        }
    }

    #[inline]
    pub fn sample(&self, random: &mut Random) -> u32 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { min, max } => min + random.below(u64::from(max - min) + 1) as u32,
            Lengths::Zipfian { min, span, ranks } => {
                min + ranks.sample(*span, random).min(span - 1) as u32
            }
            Lengths::Histogram(histogram) => histogram.sample(random),
        }
    }

    /// The longest possible.
    pub fn max(&self) -> u32 {
        match self {
            Lengths::Constant(length) => *length,
            Lengths::Uniform { max, .. } => *max,
            Lengths::Zipfian { min, span, .. } => min + (*span - 1) as u32,
            Lengths::Histogram(histogram) => histogram.max(),
        }
    }
}

/// Lengths as counted elsewhere: blocks of so many bytes, each with its count.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    block_bytes: u32,
    /// Counts added up: entry i is how many lie in blocks 0..=i.
    sums: Vec<u64>,
}

impl Histogram {
    /// Reads a histogram file; errors name it.
    pub fn read(path: &Path) -> Result<Self> {
        let size = std::fs::metadata(path)
            .with_context(|| format!("fieldlengthhistogram: cannot read {}", path.display()))?
            .len();
        if size > FILE_BYTES_MAX {
            bail!(
                "fieldlengthhistogram: {} has {size} bytes; at most {FILE_BYTES_MAX} are read",
                path.display()
            );
        }
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("fieldlengthhistogram: cannot read {}", path.display()))?;
        Self::parse(&text, &path.display().to_string())
    }

    /// `BlockSize<tab>bytes` on the first line, then `block<tab>count` lines. `name` is for errors.
    pub fn parse(text: &str, name: &str) -> Result<Self> {
        let mut lines = text.lines().enumerate();
        let block_bytes = match lines.next().map(|(_, line)| pair(line)) {
            Some(Some(("BlockSize", size))) => number(size, 1, INT_MAX)
                .with_context(|| format!("{name}:1: the block size"))?
                as u32,
            _ => bail!("{name}:1: a histogram begins with `BlockSize<tab>bytes`"),
        };
        let mut counts: Vec<u64> = Vec::new();
        for (at, line) in lines {
            if line.trim().is_empty() {
                continue;
            }
            let place = || format!("{name}:{}", at + 1);
            let Some((block, count)) = pair(line) else {
                bail!("{}: write `block<tab>count`, not `{line}`", place());
            };
            let block = number(block, 0, BLOCKS_MAX as u64 - 1)
                .with_context(|| format!("{}: the block", place()))?
                as usize;
            let count =
                number(count, 0, INT_MAX).with_context(|| format!("{}: the count", place()))?;
            if block >= counts.len() {
                counts.resize(block + 1, 0);
            }
            counts[block] = count;
        }
        let longest = counts.len() as u64 * u64::from(block_bytes);
        if longest > INT_MAX {
            bail!("{name}: its longest field has {longest} bytes; at most {INT_MAX} are possible");
        }
        let mut sum = 0;
        let sums: Vec<u64> = counts
            .iter()
            .map(|count| {
                sum += count;
                sum
            })
            .collect();
        if sum == 0 || sum > INT_MAX {
            bail!("{name}: the counts add up to {sum}; between 1 and {INT_MAX} are possible");
        }
        Ok(Histogram { block_bytes, sums })
    }

    /// As YCSB draws: a number below the sum, counted down until nothing is left; the last block gives its
    /// lower bound, all others their upper one.
    #[inline]
    fn sample(&self, random: &mut Random) -> u32 {
        let last = self.sums.len() - 1;
        let number = random.below(self.sums[last]);
        let block = self.sums[..last].partition_point(|&sum| sum < number);
        if block < last {
            (block as u32 + 1) * self.block_bytes
        } else {
            block as u32 * self.block_bytes
        }
    }

    fn max(&self) -> u32 {
        (self.sums.len() as u32 - 1).max(1) * self.block_bytes
    }
}

fn pair(line: &str) -> Option<(&str, &str)> {
    let (left, right) = line.trim_end().split_once('\t')?;
    Some((left.trim(), right.trim()))
}

fn number(text: &str, min: u64, max: u64) -> Result<u64> {
    match text.parse::<u64>() {
        Ok(value) if (min..=max).contains(&value) => Ok(value),
        _ => bail!("`{text}` is not a whole number from {min} to {max}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_stay_in_their_bounds() {
        let mut random = Random::new(3);
        let all = [
            Lengths::Constant(100),
            Lengths::Uniform { min: 1, max: 100 },
            Lengths::zipfian(1, 100),
        ];
        for lengths in all {
            let drawn: Vec<u32> = (0..10_000).map(|_| lengths.sample(&mut random)).collect();
            assert!(drawn.iter().all(|&length| (1..=100).contains(&length)));
            assert_eq!(lengths.max(), 100);
            if let Lengths::Zipfian { .. } = lengths {
                let shortest = drawn.iter().filter(|&&length| length == 1).count();
                assert!((1750..2250).contains(&shortest), "{shortest} of length 1");
            }
        }
    }

    #[test]
    fn the_last_block_of_a_histogram_gives_its_lower_bound() {
        let text = "BlockSize\t10\n0\t500\n1\t0\n2\t300\n3\t200\n";
        let histogram = Histogram::parse(text, "h").unwrap();
        let mut random = Random::new(1);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..100_000 {
            *seen.entry(histogram.sample(&mut random)).or_insert(0u32) += 1;
        }
        // Blocks 2 and 3 both give 30; counting down reaches 0 one draw early, as in YCSB.
        assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [10, 30]);
        assert!((49_300..50_900).contains(&seen[&10]), "{seen:?}");
        assert_eq!(histogram.max(), 30);
    }

    #[test]
    fn wrong_histograms_name_file_and_line() {
        for (text, part) in [
            ("", "h:1"),
            ("Blocks\t3\n", "BlockSize"),
            ("BlockSize\t0\n0\t1\n", "block size"),
            ("BlockSize\t10\n0\t1\nx\t2\n", "h:3"),
            ("BlockSize\t10\n0\t-1\n", "h:2"),
            ("BlockSize\t10\n99999999999\t1\n", "h:2"),
            ("BlockSize\t10\n", "add up to 0"),
            ("BlockSize\t2147483647\n5\t1\n", "longest field"),
            ("BlockSize\t10\n5 1\n", "h:2"),
        ] {
            let error = format!("{:#}", Histogram::parse(text, "h").unwrap_err());
            assert!(error.contains(part), "`{text}`: {error}");
        }
    }
}
