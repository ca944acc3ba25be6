//! The measured loop of one thread: batches are made outside the clocks, run inside them.

use super::engine::Engine;
use super::spec::Spec;
use crate::machine::thread_cpu_ns;
use crate::workload::stream::{fill_with_writes, BATCH_OPS};
use crate::workload::{stamp, Batch, Kind, Random, Stream, STAMP_BYTES};
use hdrhistogram::Histogram;
use std::ops::Range;
use std::time::Instant;

/// One operation in so many is timed on its own: two clock readings cost 50 ns, spread to less than 1.
const SAMPLE_EVERY: usize = 64;

/// What one thread did.
pub struct Tally {
    pub reads: u64,
    pub hits: u64,
    pub writes: u64,
    pub fills: u64,
    pub refused: u64,
    pub wrong: u64,
    /// CPU inside batches.
    pub cpu_ns: u64,
    /// Wall time inside batches.
    pub wall_ns: u64,
    pub latency: Histogram<u64>,
}

impl Default for Tally {
    fn default() -> Self {
        Tally {
            reads: 0,
            hits: 0,
            writes: 0,
            fills: 0,
            refused: 0,
            wrong: 0,
            cpu_ns: 0,
            wall_ns: 0,
            latency: Histogram::new_with_bounds(1, 10_000_000_000, 3)
                .expect("the bounds are in order"),
        }
    }
}

impl Tally {
    pub fn ops(&self) -> u64 {
        self.reads + self.writes
    }

    pub fn merge(&mut self, other: &Tally) {
        self.reads += other.reads;
        self.hits += other.hits;
        self.writes += other.writes;
        self.fills += other.fills;
        self.refused += other.refused;
        self.wrong += other.wrong;
        self.cpu_ns += other.cpu_ns;
        self.wall_ns += other.wall_ns;
        self.latency.add(&other.latency).expect("equal bounds");
    }
}

/// A thread's buffers and its stream.
pub struct EngineThread<'a, S> {
    engine: &'a S,
    spec: &'a Spec,
    stream: Stream,
    batch: Batch,
    /// The value to write: filler, its first bytes replaced by the key's stamp.
    value: Vec<u8>,
    out: Vec<u8>,
}

impl<'a, S: Engine> EngineThread<'a, S> {
    pub fn new(engine: &'a S, spec: &'a Spec, lane: u64) -> Self {
        let mut random = Random::new(spec.mix.seed);
        let value_bytes_max = spec.mix.sizes.max() as usize;
        EngineThread {
            engine,
            spec,
            stream: Stream::new(&spec.mix, lane),
            batch: Batch::default(),
            value: (0..value_bytes_max).map(|_| random.word() as u8).collect(),
            out: Vec::with_capacity(value_bytes_max),
        }
    }

    /// Writes the keys of `ids` once.
    pub fn load(&mut self, ids: Range<u64>) -> Tally {
        let mut tally = Tally::default();
        let mut from = ids.start;
        while from < ids.end {
            let to = (from + BATCH_OPS as u64).min(ids.end);
            fill_with_writes(&self.spec.mix, from..to, &mut self.batch);
            self.run_batch(&mut tally);
            from = to;
        }
        tally
    }

    /// Runs exactly `ops` operations of the stream.
    pub fn run(&mut self, ops: u64) -> Tally {
        let mut tally = Tally::default();
        let mut left = ops;
        while left > 0 {
            let count = left.min(BATCH_OPS as u64);
            self.stream.fill(&mut self.batch, count as usize);
            self.run_batch(&mut tally);
            left -= count;
        }
        tally
    }

    fn run_batch(&mut self, tally: &mut Tally) {
        let batch = std::mem::take(&mut self.batch);
        let (wall, cpu) = (Instant::now(), thread_cpu_ns());
        for index in 0..batch.ops.len() {
            if index % SAMPLE_EVERY == SAMPLE_EVERY / 2 {
                let start = Instant::now();
                self.run_op(&batch, index, tally);
                tally
                    .latency
                    .saturating_record(start.elapsed().as_nanos() as u64);
            } else {
                self.run_op(&batch, index, tally);
            }
        }
        tally.cpu_ns += thread_cpu_ns() - cpu;
        tally.wall_ns += wall.elapsed().as_nanos() as u64;
        self.batch = batch;
    }

    #[inline]
    fn run_op(&mut self, batch: &Batch, index: usize, tally: &mut Tally) {
        let (op, key) = (batch.ops[index], batch.key(index));
        if op.kind == Kind::Write {
            tally.writes += 1;
            self.write(op.id, key, op.value_bytes, tally);
            return;
        }
        tally.reads += 1;
        match self.engine.get(key, self.spec.reading, &mut self.out) {
            Some(found) => {
                tally.hits += 1;
                let resized = self.spec.mix.resize;
                let is_right = (resized || found.value_bytes == op.value_bytes as usize)
                    && (found.value_bytes < STAMP_BYTES || found.head == stamp(op.id));
                tally.wrong += u64::from(!is_right);
            }
            None if self.spec.fill => {
                tally.fills += 1;
                self.write(op.id, key, op.value_bytes, tally);
            }
            None => {}
        }
    }

    #[inline]
    fn write(&mut self, id: u64, key: &[u8], value_bytes: u32, tally: &mut Tally) {
        let value = &mut self.value[..value_bytes as usize];
        if value.len() >= STAMP_BYTES {
            value[..STAMP_BYTES].copy_from_slice(&stamp(id));
        }
        tally.refused += u64::from(!self.engine.set(key, value));
    }
}

#[cfg(test)]
mod tests {
    use super::super::engine::testing::Map;
    use super::super::engine::Reading;
    use super::super::rivals::SegPolicy;
    use super::super::spec::Arm;
    use super::*;
    use crate::workload::{Mix, Popularity, ValueSize};

    fn spec() -> Spec {
        Spec {
            arm: Arm::Null,
            round: 0,
            mix: Mix {
                keys: 500,
                key_bytes: 16,
                popularity: Popularity::Uniform,
                sizes: ValueSize::Uniform { low: 8, high: 64 },
                read_ratio: 0.75,
                resize: false,
                seed: 1,
            },
            memory_bytes: 0,
            charge_per_item: 0,
            threads: 1,
            ops: 0,
            warm_ops: 0,
            load_all: false,
            fill: true,
            reading: Reading::Head,
            segcache_policy: SegPolicy::Fifo,
            thp: false,
            reserve_harness: false,
        }
    }

    #[test]
    fn counts_are_exact_and_fills_make_hits() {
        let (map, spec) = (Map::default(), spec());
        let tally = EngineThread::new(&map, &spec, 0).run(10_001);
        assert_eq!(tally.reads + tally.writes, 10_001);
        assert!((2300..2700).contains(&tally.writes));
        // Each key is absent once at most: its first read misses, unless it was written before.
        assert_eq!(tally.reads - tally.hits, tally.fills);
        assert!((100..=500).contains(&tally.fills), "{} fills", tally.fills);
        assert_eq!((tally.wrong, tally.refused), (0, 0));
        assert_eq!(tally.latency.len(), 10_001 / 64);
    }

    #[test]
    fn loading_writes_each_key_once() {
        let (map, spec) = (Map::default(), spec());
        let tally = EngineThread::new(&map, &spec, 0).load(0..500);
        assert_eq!((tally.writes, map.items.lock().unwrap().len()), (500, 500));
        let reads = EngineThread::new(&map, &spec, 1).run(1000);
        assert_eq!((reads.hits, reads.fills), (reads.reads, 0));
    }

    #[test]
    fn wrong_values_and_refused_writes_are_seen() {
        let spec = spec();
        let spoiling = Map {
            spoils: true,
            ..Map::default()
        };
        let tally = EngineThread::new(&spoiling, &spec, 0).run(5000);
        assert!(tally.hits > 0 && tally.wrong == tally.hits);
        let refusing = Map {
            refuses: true,
            ..Map::default()
        };
        let tally = EngineThread::new(&refusing, &spec, 0).run(5000);
        assert_eq!((tally.hits, tally.refused), (0, tally.writes + tally.fills));
    }
}
