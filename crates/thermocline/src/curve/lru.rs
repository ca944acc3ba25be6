//! How far back a sampled key was last asked for, in bytes of other keys: what an LRU cache of any size would
//! have hit. For the sizes no miniature has: shapes a curve well that it does not place well.
//!
//! A Fenwick tree over the times of last use holds each key's bytes; the sum behind a key's time is its
//! distance. Times are renumbered when they run out. Memory is bounded by the number of keys.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Keys held, as many as 2,048 slots of a map take; beyond, half of the sample goes. So many place an LRU curve
/// within 1.2 points in the mean.
const KEYS_MAX: usize = 1792;
/// Times before they are renumbered: as many again as there are keys.
const TIMES: usize = 2 * KEYS_MAX;
/// So many keys or times before the last it is time to tidy.
const SLACK: usize = 64;
/// Buckets of distances: a quarter of an octave each.
const PER_OCTAVE: f64 = 4.0;
const BUCKETS: usize = 256;
const ALL_KEYS: u64 = 1 << 32;

#[derive(Clone, Copy)]
struct Last {
    time: u32,
    bytes: u32,
}

/// Keys are bits of a keyed hash already: one multiplication brings them to the top, too.
#[derive(Debug, Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        bytes
            .iter()
            .for_each(|byte| self.0 = self.0 << 8 | u64::from(*byte));
    }

    fn write_u32(&mut self, key: u32) {
        self.0 = u64::from(key).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

pub(super) struct LruStack {
    bound: u64,
    keys: HashMap<u32, Last, BuildHasherDefault<Spread>>,
    /// Fenwick tree of bytes by time, from 1.
    tree: Vec<u64>,
    next_time: u32,
    /// Bytes of all keys beyond which a key is too far back to be of interest.
    limit_bytes: f64,
    /// Requests by distance, estimated for all keys: since the start, and recently.
    total: Vec<f64>,
    recent: Vec<f64>,
}

impl Default for LruStack {
    fn default() -> LruStack {
        LruStack {
            bound: ALL_KEYS,
            keys: HashMap::with_capacity_and_hasher(KEYS_MAX + 1, BuildHasherDefault::default()),
            tree: vec![0; TIMES + 1],
            next_time: 1,
            limit_bytes: f64::MAX,
            total: vec![0.0; BUCKETS],
            recent: vec![0.0; BUCKETS],
        }
    }
}

impl LruStack {
    /// An access; counted if it is a request.
    pub(super) fn access(&mut self, key: u32, bytes: u64, counts: bool) {
        if u64::from(key) >= self.bound {
            return;
        }
        let bytes = bytes.min(u64::from(u32::MAX)) as u32;
        match self.keys.get(&key).copied() {
            Some(last) => self.again(last, bytes, counts),
            None => self.make_room(),
        }
        if u64::from(key) < self.bound {
            self.put(key, bytes);
        }
    }

    /// A key that is held was asked for again.
    fn again(&mut self, last: Last, bytes: u32, counts: bool) {
        let weight = ALL_KEYS as f64 / self.bound as f64;
        let younger = self.sum(TIMES as u32) - self.sum(last.time);
        self.take(last);
        if counts {
            let bucket = bucket((younger + u64::from(bytes)) as f64 * weight);
            self.total[bucket] += weight;
            self.recent[bucket] += weight;
        }
    }

    /// Whether keys or times are about to run out: `tidy` then takes what an access would have to, some tenths of a
    /// millisecond.
    pub(super) fn is_nearly_full(&self) -> bool {
        self.keys.len() + SLACK > KEYS_MAX || self.next_time as usize + SLACK > TIMES
    }

    /// Makes room for further accesses.
    pub(super) fn tidy(&mut self) {
        if self.is_nearly_full() {
            self.renumber();
        }
        while self.keys.len() + SLACK > KEYS_MAX {
            self.thin();
        }
    }

    fn make_room(&mut self) {
        if self.keys.len() >= KEYS_MAX {
            self.renumber();
        }
        while self.keys.len() >= KEYS_MAX {
            self.thin();
        }
    }

    /// Forgets keys further back than so many bytes of other keys.
    pub(super) fn set_limit(&mut self, bytes: f64) {
        self.limit_bytes = bytes;
    }

    /// Keys in use of late whose hashes are below `bound`, as the keys held here would have it.
    pub(super) fn keys_below(&self, bound: u64) -> f64 {
        self.keys.len() as f64 * bound as f64 / self.bound as f64
    }

    pub(super) fn forget(&mut self, key: u32) {
        if let Some(last) = self.keys.remove(&key) {
            self.take(last);
        }
    }

    pub(super) fn halve(&mut self) {
        self.recent.iter_mut().for_each(|weight| *weight /= 2.0);
    }

    /// Requests that an LRU cache of so many bytes would have hit: since the start, and recently.
    pub(super) fn hits(&self, capacity_bytes: f64) -> (f64, f64) {
        // The bucket the capacity falls into counts by the share of it that fits.
        let at = position(capacity_bytes);
        let (whole, part) = (at as usize, at.fract());
        let within = |weights: &[f64]| weights[..whole].iter().sum::<f64>() + weights[whole] * part;
        (within(&self.total), within(&self.recent))
    }

    pub(super) fn bytes(&self) -> u64 {
        // A map slot is key, value and a control byte, filled to seven eighths.
        let slot = (std::mem::size_of::<(u32, Last)>() + 1) as u64;
        let slots = self.keys.capacity() as u64 * 8 / 7;
        slots * slot + (self.tree.len() + 2 * BUCKETS) as u64 * 8
    }

    /// The key is the youngest now. Its bytes are not in the tree.
    fn put(&mut self, key: u32, bytes: u32) {
        if self.next_time as usize > TIMES {
            self.keys.remove(&key);
            self.renumber();
        }
        let time = self.next_time;
        self.next_time += 1;
        self.keys.insert(key, Last { time, bytes });
        self.add(time, u64::from(bytes));
    }

    fn take(&mut self, last: Last) {
        self.add(last.time, u64::from(last.bytes).wrapping_neg());
    }

    fn thin(&mut self) {
        self.bound /= 2;
        let bound = self.bound;
        self.keys.retain(|key, _| u64::from(*key) < bound);
        self.renumber();
    }

    /// Gives the keys new times in their order, and drops those too far back.
    fn renumber(&mut self) {
        let mut order: Vec<(u32, u32)> = self
            .keys
            .iter()
            .map(|(key, last)| (last.time, *key))
            .collect();
        order.sort_unstable();
        let weight = ALL_KEYS as f64 / self.bound as f64;
        let mut held = self.sum(TIMES as u32) as f64 * weight;
        order.retain(|(_, key)| {
            let is_near = held <= self.limit_bytes;
            if !is_near {
                let bytes = self.keys.remove(key).map_or(0, |last| last.bytes);
                held -= f64::from(bytes) * weight;
            }
            is_near
        });
        self.tree.fill(0);
        self.next_time = 1;
        for (_, key) in order {
            let time = self.next_time;
            self.next_time += 1;
            if let Some(last) = self.keys.get_mut(&key) {
                last.time = time;
                let bytes = last.bytes;
                self.add(time, u64::from(bytes));
            }
        }
    }

    fn add(&mut self, time: u32, bytes: u64) {
        let mut at = time as usize;
        while at < self.tree.len() {
            self.tree[at] = self.tree[at].wrapping_add(bytes);
            at += at & at.wrapping_neg();
        }
    }

    /// Bytes last used at this time or before.
    fn sum(&self, time: u32) -> u64 {
        let (mut at, mut sum) = (time as usize, 0u64);
        while at > 0 {
            sum = sum.wrapping_add(self.tree[at]);
            at &= at - 1;
        }
        sum
    }
}

/// Where a distance lies among the buckets.
fn position(bytes: f64) -> f64 {
    (bytes.max(1.0).log2() * PER_OCTAVE).clamp(0.0, BUCKETS as f64 - 1.5)
}

fn bucket(bytes: f64) -> usize {
    position(bytes) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(i: u64) -> u32 {
        (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as u32
    }

    #[test]
    fn distances_are_those_of_a_plain_list() {
        let mut stack = LruStack::default();
        let mut list: Vec<(u32, u64)> = Vec::new();
        let mut word = 3u64;
        let mut expected = vec![0.0; BUCKETS];
        for _ in 0..20_000 {
            word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let (key, bytes) = (spread((word >> 40) % 1000), 1 + (word >> 20) % 300);
            if let Some(at) = list.iter().position(|(other, _)| *other == key) {
                let younger: u64 = list[at + 1..].iter().map(|(_, bytes)| bytes).sum();
                expected[bucket((younger + bytes) as f64)] += 1.0;
                list.remove(at);
            }
            list.push((key, bytes));
            stack.access(key, bytes, true);
        }
        assert!(stack.bytes() < 128 << 10, "{} bytes", stack.bytes());
        assert_eq!(stack.total, expected);
        let (all, recent) = stack.hits(1e15);
        assert_eq!((all, recent), (expected.iter().sum(), all));
        stack.halve();
        assert_eq!(stack.hits(1e15), (all, all / 2.0));
    }

    #[test]
    fn many_keys_are_sampled_in_fixed_memory() {
        let mut stack = LruStack::default();
        let empty = stack.bytes();
        // 100,000 keys of 10 bytes round and round: an LRU cache below a million bytes hits nothing.
        for i in 0..400_000u64 {
            stack.access(spread(i % 100_000), 10, true);
        }
        assert!(
            stack.bytes() <= 2 * empty,
            "{} bytes from {empty}",
            stack.bytes()
        );
        let (small, _) = stack.hits(700_000.0);
        let (large, _) = stack.hits(1_300_000.0);
        assert!(
            small < 3_000.0 && (large / 300_000.0 - 1.0).abs() < 0.1,
            "{small} {large}"
        );
    }

    #[test]
    fn tidied_in_time_no_access_makes_room() {
        let mut stack = LruStack::default();
        let mut tidied = 0;
        for i in 0..100_000u64 {
            let (bound, time) = (stack.bound, stack.next_time);
            stack.access(spread(i % 5_000), 10, true);
            assert!(stack.bound == bound && stack.next_time >= time);
            if stack.is_nearly_full() {
                stack.tidy();
                tidied += 1;
                assert!(!stack.is_nearly_full());
            }
        }
        assert!(tidied > 10, "{tidied}");
    }

    #[test]
    fn forgotten_keys_leave_nothing_behind() {
        let mut stack = LruStack::default();
        stack.access(1, 100, true);
        stack.access(2, 50, true);
        stack.forget(1);
        stack.forget(7);
        assert_eq!((stack.keys.len(), stack.sum(TIMES as u32)), (1, 50));
    }
}
