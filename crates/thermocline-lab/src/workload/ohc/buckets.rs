//! The bucket histogram of OHC: how many entries lie in each bucket of its hash table, and what chance would give.
//! The table is OHC's own over the keys that are resident: segments by the hash's top bits, buckets by its low
//! ones, doubled while a segment is loaded above the load factor.

use super::hash::HashMode;

/// The table's shape: `-sc`, `-z`, `-lf`, `-hm`.
#[derive(Clone, Copy, Debug)]
pub struct TableShape {
    pub segments: u64,
    /// Buckets of a segment at the start.
    pub buckets: u64,
    pub load_factor: f64,
    pub hash: HashMode,
}

/// Buckets in all, so that the count fits memory: 4 bytes each.
pub const BUCKETS_MAX: u64 = 1 << 28;

/// Counts of entries in the buckets of each segment.
pub struct Table {
    shape: TableShape,
    segments: Vec<Segment>,
}

#[derive(Default)]
struct Segment {
    hashes: u64,
    counts: Vec<u32>,
    /// Kept until the size is known.
    low: Vec<u64>,
}

impl Table {
    pub fn new(shape: TableShape) -> Self {
        Table {
            segments: (0..shape.segments).map(|_| Segment::default()).collect(),
            shape,
        }
    }

    /// Adds a resident key. Costs 8 bytes of memory.
    pub fn add(&mut self, key: &[u8]) {
        let hash = self.shape.hash.hash(key);
        let bits = self.shape.segments.trailing_zeros();
        let segment = if bits == 0 { 0 } else { hash >> (64 - bits) };
        let segment = &mut self.segments[segment as usize];
        segment.hashes += 1;
        segment.low.push(hash);
    }

    /// Counts: entry n is how many buckets hold n entries. And the buckets in all.
    pub fn histogram(&mut self) -> Histogram {
        let mut rows: Vec<u64> = Vec::new();
        let (mut buckets, mut entries, mut expected) = (0, 0, Vec::new());
        for segment in &mut self.segments {
            let mut size = self.shape.buckets;
            while segment.hashes as f64 >= size as f64 * self.shape.load_factor
                && size * self.shape.segments < BUCKETS_MAX
            {
                size *= 2;
            }
            segment.counts = vec![0; size as usize];
            for hash in segment.low.drain(..) {
                segment.counts[(hash & (size - 1)) as usize] += 1;
            }
            for &count in &segment.counts {
                let count = count as usize;
                if rows.len() <= count {
                    rows.resize(count + 1, 0);
                }
                rows[count] += 1;
            }
            add_poisson(
                &mut expected,
                segment.hashes as f64 / size as f64,
                size as f64,
            );
            buckets += size;
            entries += segment.hashes;
            segment.counts = Vec::new();
        }
        Histogram {
            rows,
            expected,
            buckets,
            entries,
        }
    }
}

/// Rows of the Poisson distribution are added up to this many entries a bucket.
const ROWS_MAX: usize = 64;

fn add_poisson(rows: &mut Vec<f64>, mean: f64, buckets: f64) {
    rows.resize(ROWS_MAX, 0.0);
    let mut share = (-mean).exp();
    for (n, row) in rows.iter_mut().enumerate() {
        *row += share * buckets;
        share *= mean / (n + 1) as f64;
    }
}

/// Buckets by how many entries they hold.
#[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct Histogram {
    pub rows: Vec<u64>,
    /// The same by chance.
    pub expected: Vec<f64>,
    pub buckets: u64,
    pub entries: u64,
}

impl Histogram {
    pub fn load(&self) -> f64 {
        self.entries as f64 / self.buckets.max(1) as f64
    }

    /// Rows as OHC prints them: each a fifth longer than the one before (at least one), with the expected count.
    pub fn lines(&self) -> Vec<(usize, usize, u64, f64)> {
        let mut lines = Vec::new();
        let (mut from, mut bound) = (0usize, 1u64);
        while from < self.rows.len() {
            let next = ((bound as f64 * 1.2).round() as u64).max(bound + 1);
            let to = (bound - 1) as usize;
            let got = self.rows[from..=to.min(self.rows.len() - 1)].iter().sum();
            let expected = (from..=to).filter_map(|n| self.expected.get(n)).sum();
            lines.push((from, to, got, expected));
            from = to + 1;
            bound = next;
        }
        lines
    }

    /// The largest difference of a row from chance, in standard deviations of that row's count.
    pub fn worst_sigma(&self) -> f64 {
        let buckets = self.buckets as f64;
        self.rows
            .iter()
            .zip(&self.expected)
            .filter(|(_, expected)| **expected >= 10.0)
            .map(|(&got, &expected)| {
                let sigma = (expected * (1.0 - expected / buckets)).max(1.0).sqrt();
                (got as f64 - expected).abs() / sigma
            })
            .fold(0.0, f64::max)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(entries: u64, hash: HashMode) -> Histogram {
        let mut table = Table::new(TableShape {
            segments: 4,
            buckets: 256,
            load_factor: 0.75,
            hash,
        });
        for n in 0..entries {
            table.add(&n.to_be_bytes());
        }
        table.histogram()
    }

    #[test]
    fn buckets_fill_by_chance() {
        let histogram = fill(190_000, HashMode::Murmur3);
        assert_eq!(histogram.entries, 190_000);
        // 47,500 a segment: doubled until 65,536 x 0.75 exceeds them.
        assert_eq!(histogram.buckets, 4 * 65_536);
        assert_eq!(histogram.rows.iter().sum::<u64>(), histogram.buckets);
        let entries: u64 = histogram
            .rows
            .iter()
            .zip(0..)
            .map(|(count, n)| count * n)
            .sum();
        assert_eq!(entries, 190_000);
        assert!(histogram.worst_sigma() < 4.0, "{}", histogram.worst_sigma());
        let lines = histogram.lines();
        assert_eq!(
            lines.iter().map(|line| line.2).sum::<u64>(),
            histogram.buckets
        );
        assert_eq!(
            (lines[0].0, lines[0].1, lines[7].0, lines[7].1),
            (0, 0, 7, 7)
        );
    }

    /// The seed's own table: 12.18 M entries in 2^24 buckets; it reports 8,118,604 empty ones.
    #[test]
    fn the_poisson_rows_are_the_documents() {
        let mut rows = Vec::new();
        add_poisson(&mut rows, 12_180_000.0 / 16_777_216.0, 16_777_216.0);
        for (n, seen) in [
            (0, 8_118_604.0),
            (1, 5_892_298.0),
            (2, 2_138_308.0),
            (3, 518_089.0),
        ] {
            assert!(
                (rows[n] / seen - 1.0f64).abs() < 0.003,
                "row {n}: {}",
                rows[n]
            );
        }
    }

    #[test]
    fn an_empty_table_is_all_empty() {
        let histogram = fill(0, HashMode::Xx);
        assert_eq!(histogram.rows, [1024]);
        assert_eq!(histogram.lines()[0].2, 1024);
    }
}
