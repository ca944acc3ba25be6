//! Counts by key prefix: `stats detail on|off|dump`.
//!
//! Off by default: every operation then takes one lock. Bounded: a cache with a million prefixes is not worth a
//! million counters.

use crate::wire::push_word;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Prefixes counted; later ones are not.
const PREFIXES_MAX: usize = 10_000;

#[derive(Debug)]
pub struct Detail {
    on: AtomicBool,
    delimiter: u8,
    prefixes: Mutex<BTreeMap<Vec<u8>, Counts>>,
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    get: u64,
    set: u64,
    delete: u64,
}

impl Detail {
    pub fn new(on: bool, delimiter: u8) -> Detail {
        Detail {
            on: on.into(),
            delimiter,
            prefixes: Mutex::default(),
        }
    }

    #[inline]
    pub fn is_on(&self) -> bool {
        self.on.load(Relaxed)
    }

    pub fn switch(&self, on: bool) {
        self.on.store(on, Relaxed);
    }

    pub fn delimiter(&self) -> u8 {
        self.delimiter
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Vec<u8>, Counts>> {
        self.prefixes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self, key: &[u8], count: impl FnOnce(&mut Counts)) {
        let Some(end) = key.iter().position(|&b| b == self.delimiter) else {
            return;
        };
        let mut prefixes = self.lock();
        if let Some(counts) = prefixes.get_mut(&key[..end]) {
            return count(counts);
        }
        if prefixes.len() < PREFIXES_MAX {
            count(prefixes.entry(key[..end].to_vec()).or_default());
        }
    }

    pub fn gets(&self, keys: &[&[u8]]) {
        for key in keys {
            self.count(key, |counts| counts.get += 1);
        }
    }

    pub fn set(&self, key: &[u8]) {
        self.count(key, |counts| counts.set += 1);
    }

    pub fn delete(&self, key: &[u8]) {
        self.count(key, |counts| counts.delete += 1);
    }

    /// memcached's lines, without the END.
    pub fn dump(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (prefix, counts) in self.lock().iter() {
            out.extend_from_slice(b"PREFIX ");
            push_word(&mut out, prefix);
            let Counts { get, set, delete } = counts;
            out.extend_from_slice(
                format!(" get {get} hit 0 set {set} del {delete}\r\n").as_bytes(),
            );
        }
        out
    }

    pub fn reset(&self) {
        self.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_are_counted_apart() {
        let detail = Detail::new(true, b':');
        detail.gets(&[b"a:1", b"a:2", b"b:1", b"none"]);
        detail.set(b"a:1");
        detail.delete(b"b:1");
        let text = String::from_utf8(detail.dump()).unwrap();
        assert_eq!(
            text,
            "PREFIX a get 2 hit 0 set 1 del 0\r\nPREFIX b get 1 hit 0 set 0 del 1\r\n"
        );
        detail.reset();
        detail.set(b"a\r\nEND\r\n:1");
        let text = String::from_utf8(detail.dump()).unwrap();
        assert_eq!(text, "PREFIX a%0D%0AEND%0D%0A get 0 hit 0 set 1 del 0\r\n");
        detail.reset();
        assert!(detail.dump().is_empty());
    }
}
