//! The operation stream: reads and writes over a key space, made in batches outside the timed region, so that
//! drawing keys and sizes costs the subject nothing and 10^9 operations need no 10^9 words of memory.

use super::popularity::Ranks;
use super::{key_into, Batch, Kind, Op, Popularity, Random, ValueSize};

/// The mix, as given on the command line.
#[derive(Clone, Debug, serde::Serialize, serde::Deserialize)]
pub struct Mix {
    pub keys: u64,
    pub key_bytes: usize,
    pub popularity: Popularity,
    pub sizes: ValueSize,
    /// Share of reads, 0..=1.
    pub read_ratio: f64,
    /// Writes change the size of a value; else a key keeps its size for life.
    pub resize: bool,
    pub seed: u64,
}

/// Operations in a batch: 2,048 with their keys are 88 KiB, so a batch stays in the second-level cache and the
/// two clock readings around it cost 0.3 ns an operation.
pub const BATCH_OPS: usize = 2048;

/// One lane's stream.
pub struct Stream {
    mix: Mix,
    ranks: Ranks,
    random: Random,
    write_below: u64,
}

impl Stream {
    pub fn new(mix: &Mix, lane: u64) -> Self {
        let write_ratio = 1.0 - mix.read_ratio;
        Stream {
            ranks: Ranks::new(mix.popularity, mix.keys),
            random: Random::lane(mix.seed, lane),
            write_below: (write_ratio * (1u64 << 53) as f64).round() as u64,
            mix: mix.clone(),
        }
    }

    #[inline]
    pub fn next_op(&mut self) -> Op {
        let id = self.ranks.sample(&mut self.random);
        let word = self.random.word();
        let kind = if word >> 11 < self.write_below {
            Kind::Write
        } else {
            Kind::Read
        };
        let version = if self.mix.resize && kind == Kind::Write {
            word
        } else {
            0
        };
        Op::new(kind, id, self.mix.sizes.of(id, version))
    }

    /// Fills `batch` with the next `count` operations.
    pub fn fill(&mut self, batch: &mut Batch, count: usize) {
        batch.clear();
        for _ in 0..count {
            let op = self.next_op();
            batch.push(op, self.mix.key_bytes, |key| key_into(op.id, key));
        }
    }
}

/// Fills `batch` with writes of the key numbers of `ids`: the loading phase.
pub fn fill_with_writes(mix: &Mix, ids: std::ops::Range<u64>, batch: &mut Batch) {
    batch.clear();
    for id in ids {
        let op = Op::new(Kind::Write, id, mix.sizes.of(id, 0));
        batch.push(op, mix.key_bytes, |key| key_into(id, key));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mix() -> Mix {
        Mix {
            keys: 1000,
            key_bytes: 16,
            popularity: Popularity::Zipf(0.99),
            sizes: "1..4096".parse().unwrap(),
            read_ratio: 0.9,
            resize: false,
            seed: 3,
        }
    }

    #[test]
    fn the_mix_is_kept_and_the_stream_repeats() {
        let (mut a, mut b) = (Stream::new(&mix(), 0), Stream::new(&mix(), 0));
        let mut batch = Batch::default();
        a.fill(&mut batch, 20_000);
        let writes = batch.ops.iter().filter(|op| op.kind == Kind::Write).count();
        assert!(
            (1850..2150).contains(&writes),
            "{writes} writes of 20,000 at 90/10"
        );
        for op in &batch.ops {
            let again = b.next_op();
            assert_eq!(
                (op.id, op.value_bytes, op.kind),
                (again.id, again.value_bytes, again.kind)
            );
            assert_eq!(op.value_bytes, mix().sizes.of(op.id, 0));
        }
    }

    #[test]
    fn all_reads_and_all_writes_are_exact() {
        for (ratio, kind) in [(1.0, Kind::Read), (0.0, Kind::Write)] {
            let mut stream = Stream::new(
                &Mix {
                    read_ratio: ratio,
                    ..mix()
                },
                1,
            );
            assert!((0..10_000).all(|_| stream.next_op().kind == kind));
        }
    }

    #[test]
    fn keys_lie_beside_their_operations() {
        let mut batch = Batch::default();
        fill_with_writes(&mix(), 5..8, &mut batch);
        let mut key = [0u8; 16];
        key_into(6, &mut key);
        assert_eq!((batch.ops.len(), batch.ops[1].id), (3, 6));
        assert_eq!(batch.key(1), key);
    }
}
