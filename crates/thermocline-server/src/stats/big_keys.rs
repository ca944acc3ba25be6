//! The keys with the largest values stored since the start.
//!
//! A store pays one comparison with the smallest of the largest; only a new large one takes the lock. Whether a key
//! is still there, and how large it is now, is looked up when the list is shown.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many are kept.
const KEPT: usize = 200;
/// Bytes of keys that are kept: 200 keys of memcached's longest, or one of the longest there is.
const KEY_BYTES_KEPT: usize = 64 << 10;
/// Values under a kilobyte are never called big: keeps the lock out of the way while the list fills.
const BIG_BYTES_MIN: u64 = 1 << 10;

#[derive(Debug)]
pub struct BigKeys {
    /// Values of at most this size do not enter.
    floor: AtomicU64,
    keys: Mutex<Vec<(u64, Box<[u8]>)>>,
}

impl Default for BigKeys {
    fn default() -> BigKeys {
        BigKeys {
            floor: AtomicU64::new(BIG_BYTES_MIN),
            keys: Mutex::default(),
        }
    }
}

impl BigKeys {
    fn lock(&self) -> MutexGuard<'_, Vec<(u64, Box<[u8]>)>> {
        self.keys.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline]
    pub fn note(&self, key: &[u8], bytes: u64) {
        if bytes > self.floor.load(Relaxed) {
            self.enter(key, bytes);
        }
    }

    fn enter(&self, key: &[u8], bytes: u64) {
        let mut keys = self.lock();
        if let Some(entry) = keys.iter_mut().find(|(_, other)| **other == *key) {
            entry.0 = entry.0.max(bytes);
            return;
        }
        while is_full(&keys, key.len()) {
            let smallest = keys.iter().enumerate().min_by_key(|(_, (size, _))| *size);
            match smallest.map(|(at, (size, _))| (at, *size)) {
                Some((at, size)) if size < bytes => drop(keys.swap_remove(at)),
                _ => return,
            }
        }
        keys.push((bytes, key.into()));
        if keys.len() == KEPT {
            let smallest = keys.iter().map(|(bytes, _)| *bytes).min();
            self.floor.store(smallest.unwrap_or(BIG_BYTES_MIN), Relaxed);
        }
    }

    /// The `count` largest by what `size_now` says; gone ones (None) leave the list.
    pub fn largest(
        &self,
        count: usize,
        size_now: impl Fn(&[u8]) -> Option<u64>,
    ) -> Vec<(u64, Vec<u8>)> {
        let mut keys = self.lock();
        keys.retain_mut(|(bytes, key)| match size_now(key) {
            Some(now) => {
                *bytes = now;
                true
            }
            None => false,
        });
        if keys.len() < KEPT {
            self.floor.store(BIG_BYTES_MIN, Relaxed);
        }
        let mut list: Vec<(u64, Vec<u8>)> = keys
            .iter()
            .map(|(bytes, key)| (*bytes, key.to_vec()))
            .collect();
        list.sort_by(|a, b| b.cmp(a));
        list.truncate(count);
        list
    }
}

/// Whether there is no place for one more key of so many bytes.
fn is_full(keys: &[(u64, Box<[u8]>)], more: usize) -> bool {
    let bytes: usize = keys.iter().map(|(_, key)| key.len()).sum();
    keys.len() == KEPT || bytes + more > KEY_BYTES_KEPT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_keys_are_kept_up_to_a_number_of_bytes() {
        let big = BigKeys::default();
        for size in 0..100u64 {
            let key = format!("{size:060000}");
            big.note(key.as_bytes(), 2000 + size);
        }
        big.note(b"usual", 1500);
        let list = big.largest(10, |key| Some(if key == b"usual" { 1500 } else { 2099 }));
        let keys: Vec<usize> = list.iter().map(|(_, key)| key.len()).collect();
        assert_eq!(keys, [60_000, 5]);
    }

    #[test]
    fn the_largest_are_kept_and_the_gone_are_dropped() {
        let big = BigKeys::default();
        for size in 0..1000u64 {
            big.note(format!("k{size}").as_bytes(), 2000 + size);
        }
        big.note(b"small", 10);
        let list = big.largest(3, |key| match key {
            b"k999" => None,
            key => std::str::from_utf8(&key[1..])
                .ok()?
                .parse::<u64>()
                .ok()
                .map(|n| n + 2000),
        });
        let keys: Vec<&[u8]> = list.iter().map(|(_, key)| key.as_slice()).collect();
        assert_eq!(keys, [b"k998".as_slice(), b"k997", b"k996"]);
    }
}
