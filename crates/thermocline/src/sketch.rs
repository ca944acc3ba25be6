//! The hottest keys, from sampled reads, in fixed memory.
//!
//! Owns counters for COUNTERS keys and their bytes. The caller samples (one read in 16, drawn at random: every
//! 16th read of a loop would always be the same key) and locks; where the lock is taken it should skip the
//! sample rather than wait.
//!
//! Space-Saving behind a filter: a key that has no counter first counts in a cell it shares with others, and
//! takes over the smallest counter when the cell's count is above it. Plain Space-Saving hands a counter, and
//! copies a key, for every stranger, and finds 94 to 96 of the hottest hundred where this finds 97, which is
//! all that sampling leaves to be found (a million keys, zipf 0.99, 5 M reads: the first test below).
//!
//! Must hold: a key's count is never below its sampled reads since the last halving, or since it was forgotten.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys that have a counter.
pub const COUNTERS: usize = 1024;
/// Key bytes kept: memcached's longest key. Of a longer key the first 250 are shown.
pub const KEY_BYTES_MAX: usize = 250;
/// Samples after which every count is halved, so that yesterday's hot keys fade: about 16 M reads at 1/16.
pub const HALVE_AFTER: u64 = 1 << 20;

/// Filter cells: 8 a counter, each a u32.
const CELLS: usize = COUNTERS * 8;

/// The map gets room for twice the counters, so that it clears its removed places within its memory and
/// never grows.
const MAP_ROOM: usize = COUNTERS * 2;

const _: () = assert!(CELLS.is_power_of_two());
const _: () = assert!(COUNTERS <= u16::MAX as usize);
const _: () = assert!(HALVE_AFTER * 2 <= u32::MAX as u64);

/// A key and its share of the sampled reads.
#[derive(Debug, Clone, PartialEq)]
pub struct HotKey {
    /// At most KEY_BYTES_MAX bytes.
    pub key: Vec<u8>,
    /// False if the key is longer than what is shown.
    pub whole: bool,
    /// Of all recent reads, 0..=1; an upper estimate.
    pub share: f64,
}

#[derive(Debug)]
pub struct HotKeys {
    counters: Vec<Counter>,
    /// Counter numbers, a binary heap with the smallest count first.
    heap: Vec<u16>,
    places: HashMap<u64, u16, BuildHasherDefault<AsItIs>>,
    keys: Box<[u8]>,
    cells: Box<[u32]>,
    samples: u64,
}

#[derive(Debug, Clone, Copy)]
struct Counter {
    hash: u64,
    count: u32,
    heap_place: u16,
    key_bytes: u8,
    whole: bool,
}

const _: () = assert!(KEY_BYTES_MAX <= u8::MAX as usize);

impl Default for HotKeys {
    fn default() -> HotKeys {
        HotKeys {
            counters: Vec::with_capacity(COUNTERS),
            heap: Vec::with_capacity(COUNTERS),
            places: HashMap::with_capacity_and_hasher(MAP_ROOM, BuildHasherDefault::default()),
            keys: vec![0; COUNTERS * KEY_BYTES_MAX].into_boxed_slice(),
            cells: vec![0; CELLS].into_boxed_slice(),
            samples: 0,
        }
    }
}

impl HotKeys {
    /// What it costs the budget; the map's table has twice the places it has room for, at most.
    pub fn bytes() -> u64 {
        let counter = std::mem::size_of::<Counter>() + 2 + KEY_BYTES_MAX;
        let map = (MAP_ROOM * 2) * (std::mem::size_of::<(u64, u16)>() + 1);
        (COUNTERS * counter + map + CELLS * 4) as u64
    }

    /// Counts one sampled read. `hash` is the key's full hash. O(log COUNTERS), no allocation.
    pub fn record(&mut self, hash: u64, key: &[u8]) {
        self.samples += 1;
        if let Some(number) = self.places.get(&hash) {
            self.raise(*number);
        } else if self.counters.len() < COUNTERS {
            self.open(hash, key);
        } else {
            self.filter(hash, key);
        }
        if self.samples >= HALVE_AFTER {
            self.halve();
        }
    }

    /// The hottest `n` keys known, hottest first. Sorts all counters and copies `n` keys.
    pub fn top(&self, n: usize) -> Vec<HotKey> {
        let mut numbers: Vec<u16> = self.heap.clone();
        numbers.sort_by_key(|number| std::cmp::Reverse(self.counters[usize::from(*number)].count));
        numbers
            .into_iter()
            .take(n)
            .map(|number| self.hot_key(number))
            .collect()
    }

    /// Forgets the keys of which `gone` says so (of a longer key it is shown what is kept): they are no longer in the
    /// cache. The others keep their counts. Copies them once.
    pub fn forget(&mut self, gone: impl Fn(&[u8]) -> bool) {
        let numbers = self.heap.iter().copied();
        let kept: Vec<(Counter, HotKey)> = numbers
            .map(|number| (self.counters[usize::from(number)], self.hot_key(number)))
            .filter(|(_, hot)| !gone(&hot.key))
            .collect();
        self.counters.clear();
        self.heap.clear();
        self.places.clear();
        // In the order of the heap, of which a part in that order need not be a heap.
        for (counter, hot) in kept {
            let number = self.counters.len() as u16;
            self.open_with(counter.hash, &hot.key, counter.count);
            self.counters[usize::from(number)].whole = counter.whole;
        }
    }

    fn hot_key(&self, number: u16) -> HotKey {
        let counter = &self.counters[usize::from(number)];
        let start = usize::from(number) * KEY_BYTES_MAX;
        HotKey {
            key: self.keys[start..start + usize::from(counter.key_bytes)].to_vec(),
            whole: counter.whole,
            share: (f64::from(counter.count) / self.samples.max(1) as f64).min(1.0),
        }
    }

    /// A key without counter: it counts in its cell, until that exceeds the smallest counter.
    fn filter(&mut self, hash: u64, key: &[u8]) {
        let smallest = self.heap[0];
        let old = self.counters[usize::from(smallest)];
        let cell = &mut self.cells[cell_of(hash)];
        *cell += 1;
        let count = *cell;
        if count <= old.count {
            return;
        }
        let cell = &mut self.cells[cell_of(old.hash)];
        *cell = old.count.max(*cell);
        self.places.remove(&old.hash);
        self.fill(smallest, hash, key, count, old.heap_place);
        self.sift_down(usize::from(old.heap_place));
    }

    fn open(&mut self, hash: u64, key: &[u8]) {
        self.open_with(hash, key, self.cells[cell_of(hash)] + 1);
    }

    fn open_with(&mut self, hash: u64, key: &[u8], count: u32) {
        let number = self.counters.len() as u16;
        self.counters.push(Counter {
            hash,
            count,
            heap_place: number,
            key_bytes: 0,
            whole: true,
        });
        self.heap.push(number);
        self.fill(number, hash, key, count, number);
        self.sift_up(usize::from(number));
    }

    fn fill(&mut self, number: u16, hash: u64, key: &[u8], count: u32, heap_place: u16) {
        let shown = &key[..key.len().min(KEY_BYTES_MAX)];
        let start = usize::from(number) * KEY_BYTES_MAX;
        self.keys[start..start + shown.len()].copy_from_slice(shown);
        self.counters[usize::from(number)] = Counter {
            hash,
            count,
            heap_place,
            key_bytes: shown.len() as u8,
            whole: shown.len() == key.len(),
        };
        self.places.insert(hash, number);
    }

    fn raise(&mut self, number: u16) {
        let counter = &mut self.counters[usize::from(number)];
        counter.count += 1;
        let place = counter.heap_place;
        self.sift_down(usize::from(place));
    }

    /// Halving all keeps their order, so the heap stays a heap.
    fn halve(&mut self) {
        self.counters
            .iter_mut()
            .for_each(|counter| counter.count /= 2);
        self.cells.iter_mut().for_each(|cell| *cell /= 2);
        self.samples /= 2;
    }

    fn sift_up(&mut self, mut place: usize) {
        while place > 0 && self.count_at(place) < self.count_at((place - 1) / 2) {
            self.swap(place, (place - 1) / 2);
            place = (place - 1) / 2;
        }
    }

    fn sift_down(&mut self, mut place: usize) {
        loop {
            let children = 2 * place + 1..self.heap.len().min(2 * place + 3);
            let Some(child) = children.min_by_key(|child| self.count_at(*child)) else {
                return;
            };
            if self.count_at(place) <= self.count_at(child) {
                return;
            }
            self.swap(place, child);
            place = child;
        }
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.heap.swap(a, b);
        for place in [a, b] {
            self.counters[usize::from(self.heap[place])].heap_place = place as u16;
        }
    }

    fn count_at(&self, place: usize) -> u32 {
        self.counters[usize::from(self.heap[place])].count
    }
}

fn cell_of(hash: u64) -> usize {
    hash as usize % CELLS
}

/// The key's hash is good already: the map takes it as it is.
#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0 << 8 | u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mixed(i: u64) -> u64 {
        let z = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    /// Ranks 0.. drawn with weight (rank + 1)^-0.99, by inverting the running sums from a table of first guesses.
    struct Zipf {
        sums: Vec<f64>,
        guesses: Vec<u32>,
    }

    impl Zipf {
        fn new(keys: usize) -> Zipf {
            let mut sum = 0.0;
            let weight = |rank: usize| (rank as f64).powf(-0.99);
            let sums: Vec<f64> = (1..=keys)
                .map(|rank| {
                    sum += weight(rank);
                    sum
                })
                .collect();
            let mut guesses = Vec::with_capacity(keys);
            let mut rank = 0;
            for step in 0..keys {
                while sums[rank] < sum * step as f64 / keys as f64 {
                    rank += 1;
                }
                guesses.push(rank as u32);
            }
            Zipf { sums, guesses }
        }

        fn draw(&self, word: u64) -> usize {
            let part = (word >> 11) as f64 / (1u64 << 53) as f64;
            let mut rank = self.guesses[(part * self.guesses.len() as f64) as usize] as usize;
            while self.sums[rank] < part * self.sums[self.sums.len() - 1] {
                rank += 1;
            }
            rank
        }
    }

    /// Recall of the true hottest 100 of 5 M reads over 1 M keys, one read in 16 sampled.
    fn recall(seed: u64) -> f64 {
        let zipf = Zipf::new(1_000_000);
        let mut reads = vec![0u32; 1_000_000];
        let mut hot = HotKeys::default();
        for i in 0..5_000_000 {
            let word = mixed(seed << 32 | i);
            let rank = zipf.draw(word);
            reads[rank] += 1;
            if mixed(word) % 16 == 0 {
                hot.record(mixed(rank as u64), &(rank as u64).to_le_bytes());
            }
        }
        let mut ranks: Vec<usize> = (0..reads.len()).collect();
        ranks.sort_by_key(|rank| std::cmp::Reverse(reads[*rank]));
        let found = hot.top(100);
        assert_eq!(found.len(), 100);
        let known = |rank: &&usize| {
            found
                .iter()
                .any(|hot| hot.key == (**rank as u64).to_le_bytes())
        };
        ranks[..100].iter().filter(known).count() as f64 / 100.0
    }

    #[test]
    fn nine_of_ten_of_the_hottest_hundred_are_found() {
        for seed in [1, 2, 3] {
            let recall = recall(seed);
            println!("SEED={seed}: recall {recall}");
            assert!(recall >= 0.9, "SEED={seed}: recall {recall}");
        }
    }

    #[test]
    fn few_keys_are_counted_exactly() {
        let mut hot = HotKeys::default();
        for i in 0..100u64 {
            for _ in 0..=i {
                hot.record(mixed(i), format!("key{i}").as_bytes());
            }
        }
        let top = hot.top(3);
        let keys: Vec<&[u8]> = top.iter().map(|hot| hot.key.as_slice()).collect();
        assert_eq!(keys, [b"key99", b"key98", b"key97"]);
        assert!((top[0].share - 100.0 / 5050.0).abs() < 1e-12);
    }

    #[test]
    fn a_key_that_turns_hot_late_is_found() {
        let mut hot = HotKeys::default();
        for i in 0..50_000 {
            hot.record(mixed(i), b"cold");
        }
        for i in 0..2_000 {
            hot.record(mixed(1 << 40), b"late");
            hot.record(mixed(100_000 + i), b"cold");
        }
        assert_eq!(hot.top(1)[0].key, b"late");
        assert!(
            hot.top(1)[0].share >= 2_000.0 / 54_000.0,
            "never below the truth"
        );
    }

    #[test]
    fn a_key_that_lost_its_counter_returns_with_its_count() {
        let mut hot = HotKeys::default();
        let mut read = |hash: u64, times: u32| {
            for _ in 0..times {
                hot.record(hash, &hash.to_le_bytes());
            }
        };
        // Hash 0 has the smallest of all counters, so the stranger's 101st read takes it over.
        read(0, 100);
        (1..COUNTERS as u64).for_each(|other| read(other, 101));
        read(5000, 101);
        read(0, 2);
        let samples = 100.0 + (COUNTERS - 1) as f64 * 101.0 + 101.0 + 2.0;
        let top = hot.top(1);
        assert_eq!(top[0].key, 0u64.to_le_bytes());
        assert!(
            top[0].share * samples >= 102.0 - 1e-6,
            "{}",
            top[0].share * samples
        );
    }

    #[test]
    fn yesterdays_hot_keys_fade() {
        let mut hot = HotKeys::default();
        for _ in 0..HALVE_AFTER - 1 {
            hot.record(1, b"yesterday");
        }
        for _ in 0..HALVE_AFTER * 4 {
            hot.record(2, b"today");
        }
        let top = hot.top(2);
        assert_eq!(top[0].key, b"today");
        assert!(top[1].share < 0.1, "{top:?}");
    }

    #[test]
    fn long_keys_are_cut_and_told_apart() {
        let mut hot = HotKeys::default();
        let long = vec![b'x'; 4000];
        hot.record(1, &long);
        hot.record(2, &long);
        hot.record(3, b"");
        let top = hot.top(10);
        assert_eq!(top.len(), 3);
        let cut = top
            .iter()
            .filter(|hot| !hot.whole && hot.key.len() == KEY_BYTES_MAX)
            .count();
        assert_eq!(cut, 2);
        assert!(top.iter().any(|hot| hot.whole && hot.key.is_empty()));
    }

    #[test]
    fn memory_does_not_grow_and_the_heap_holds() {
        let mut hot = HotKeys::default();
        let held = (hot.counters.capacity(), hot.heap.capacity());
        let map_room = hot.places.capacity();
        for i in 0..200_000u64 {
            hot.record(mixed(i * i % 30_011), &i.to_le_bytes());
        }
        assert_eq!(held, (hot.counters.capacity(), hot.heap.capacity()));
        assert!(hot.places.capacity() <= map_room, "the map grew");
        assert_eq!((hot.counters.len(), hot.places.len()), (COUNTERS, COUNTERS));
        for place in 1..hot.heap.len() {
            assert!(hot.count_at((place - 1) / 2) <= hot.count_at(place));
            assert_eq!(
                usize::from(hot.counters[usize::from(hot.heap[place])].heap_place),
                place
            );
        }
        assert!(HotKeys::bytes() < 512 << 10);
        hot.forget(|_| true);
        assert!(hot.top(5).is_empty());
    }

    #[test]
    fn forgotten_keys_are_listed_no_more_and_others_keep_their_order() {
        let mut hot = HotKeys::default();
        for i in 0..2_000u64 {
            for _ in 0..=i % 500 {
                hot.record(mixed(i), format!("{}:{i}", i % 3).as_bytes());
            }
        }
        let long = [b"1:".as_slice(), &[b'x'; 400]].concat();
        (0..3_000).for_each(|_| hot.record(mixed(9_999), &long));
        let before: Vec<HotKey> = hot.top(COUNTERS);
        hot.forget(|key| key.starts_with(b"0:"));
        let after = hot.top(COUNTERS);
        let wanted = before.iter().filter(|hot| !hot.key.starts_with(b"0:"));
        let shares = |hot: &HotKey| (hot.share, hot.whole);
        assert_eq!(
            after.iter().map(shares).collect::<Vec<_>>(),
            wanted.map(shares).collect::<Vec<_>>()
        );
        assert!(after.iter().all(|hot| !hot.key.starts_with(b"0:")));
        assert!(!after[0].whole && after.len() < before.len());
        // Their counters are there for others.
        (0..5_000).for_each(|_| hot.record(mixed(77_777), b"0:again"));
        assert_eq!(hot.top(1)[0].key, b"0:again");
    }
}
