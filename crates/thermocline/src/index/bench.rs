//! How long a lookup takes, with real items in a region of huge pages: 16 B keys, 100 B values. Run by
//! `cargo test --release -p thermocline --lib index::bench -- --ignored --nocapture`; ITEMS=n, default
//! 4,000,000. Prints thread CPU time; a dependent random read of the same footprint stands beside it,
//! because machines and their neighbours differ.

use super::*;
use crate::mem::Pin;
use crate::sync::Ordering::Relaxed;
use std::hint::black_box;

const ITEM_BYTES: usize = 120;
const LOOKUPS: usize = 4_000_000;
const BATCH: usize = 16;

struct Bench {
    index: Index,
    arena: Region,
    items: u64,
}

fn key_bytes(key: u64) -> [u8; 16] {
    let mut bytes = *b"key:____________";
    bytes[8..].copy_from_slice(&key.to_le_bytes());
    bytes
}

#[inline(always)]
fn hash_bytes(key: &[u8; 16]) -> u64 {
    let a = u64::from_le_bytes(key[..8].try_into().expect("8 bytes"));
    let b = u64::from_le_bytes(key[8..].try_into().expect("8 bytes"));
    let wide = (a ^ 0x9E37_79B9_7F4A_7C15) as u128 * (b ^ 0xD6E8_FEB8_6659_FD93) as u128;
    let x = (wide as u64) ^ (wide >> 64) as u64;
    let wide = x as u128 * 0xA076_1D64_78BD_642Fu128;
    (wide as u64) ^ (wide >> 64) as u64
}

struct Random(u64);

impl Random {
    #[inline(always)]
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 as u128 * n as u128) >> 64) as u64
    }
}

impl Bench {
    fn new(items: u64) -> Bench {
        let memory = items * (ITEM_BYTES as u64 + 12);
        let budget = Arc::new(Budget::new(1 << 40));
        let index =
            Index::new(Domain::global(), budget, memory, &Backing::anonymous(true)).unwrap();
        let bytes = (items as usize * ITEM_BYTES).next_multiple_of(EXTENT_BYTES);
        let arena = Region::reserve(bytes, Grain::Items, true).unwrap();
        let bench = Bench {
            index,
            arena,
            items,
        };
        bench.fill();
        bench
    }

    fn fill(&self) {
        let start = Region::thread_cpu_ns();
        for n in 0..self.items {
            let (key, offset) = (key_bytes(n), n as usize * ITEM_BYTES);
            self.arena.copy_in(offset + 4, &key);
            self.arena.copy_in(offset + 20, &n.to_le_bytes());
            let place = Place::from_offset(offset);
            let rejected = self.rejected(&key);
            let h = hash_bytes(&key);
            // The value is the key's number.
            let rehash = |place| Some(hash_bytes(&key_bytes(self.value(place))));
            let done = self.index.publish(h, None, &rejected, place, None, &rehash);
            assert_eq!(done, Publish::Done);
        }
        let ns = (Region::thread_cpu_ns() - start) as f64 / self.items as f64;
        println!("insert {ns:.0} ns, first touch of all pages included");
    }

    fn rejected(&self, key: &[u8; 16]) -> Vec<Place> {
        let mut rejected = Vec::new();
        let _ = self.index.find(hash_bytes(key), |place| {
            rejected.push(place);
            false
        });
        rejected
    }

    #[inline(always)]
    fn get(&self, key: u64) -> Option<u64> {
        let bytes = key_bytes(key);
        let found = self.index.find(hash_bytes(&bytes), |place| {
            self.arena.equals(place.offset() + 4, &bytes)
        })?;
        Some(self.value(found.slot.place()))
    }

    #[inline(always)]
    fn value(&self, place: Place) -> u64 {
        let at = place.offset() + 20;
        let low = self.arena.u32(at).load(Relaxed) as u64;
        low | (self.arena.u32(at + 4).load(Relaxed) as u64) << 32
    }

    fn one_by_one(&self, from: u64) -> f64 {
        let mut random = Random(0x1234_5678);
        let start = Region::thread_cpu_ns();
        for _ in 0..LOOKUPS {
            let _pin = Pin::new(self.index.domain());
            let key = from + random.below(self.items);
            assert_eq!(self.get(key).is_some(), from == 0);
        }
        (Region::thread_cpu_ns() - start) as f64 / LOOKUPS as f64
    }

    fn batched(&self, from: u64) -> f64 {
        let mut random = Random(0x1234_5678);
        let start = Region::thread_cpu_ns();
        for _ in 0..LOOKUPS / BATCH {
            let _pin = Pin::new(self.index.domain());
            let keys: [u64; BATCH] = std::array::from_fn(|_| from + random.below(self.items));
            let hashes = keys.map(|key| hash_bytes(&key_bytes(key)));
            for hash in hashes {
                self.index.prefetch_directory(hash);
            }
            for hash in hashes {
                self.index.prefetch_bucket(hash);
            }
            for hash in hashes {
                if let Some(place) = self.index.prefetch_place(hash) {
                    self.arena.prefetch(place.offset());
                    self.arena.prefetch(place.offset() + 27);
                }
            }
            for key in keys {
                assert_eq!(self.get(key).is_some(), from == 0);
            }
        }
        (Region::thread_cpu_ns() - start) as f64 / LOOKUPS as f64
    }

    /// One read after the other, each at an address the one before decides.
    fn dependent(&self) -> f64 {
        let mut at = 0u64;
        let start = Region::thread_cpu_ns();
        for n in 0..LOOKUPS as u64 {
            let place = Place::from_offset(at as usize * ITEM_BYTES);
            let mixed = (self.value(place) + n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            at = ((mixed as u128 * self.items as u128) >> 64) as u64;
        }
        black_box(at);
        (Region::thread_cpu_ns() - start) as f64 / LOOKUPS as f64
    }
}

#[test]
#[ignore = "a measurement: 5 s and 600 MB"]
fn lookups() {
    let items = std::env::var("ITEMS").ok().and_then(|n| n.parse().ok());
    let bench = Bench::new(items.unwrap_or(4_000_000));
    for _ in 0..3 {
        println!(
            "hit {:.0}  miss {:.0}  batch hit {:.0}  batch miss {:.0}  dependent read {:.0} ns",
            bench.one_by_one(0),
            bench.one_by_one(bench.items),
            bench.batched(0),
            bench.batched(bench.items),
            bench.dependent()
        );
    }
}

/// Thread CPU time of inserts that restructure a unit, by kind, and of those that do not.
#[test]
#[ignore = "a measurement: 20 s and 1.5 GB"]
fn restructuring() {
    let items = std::env::var("ITEMS").ok().and_then(|n| n.parse().ok());
    let items: u64 = items.unwrap_or(10_000_000);
    let budget = Arc::new(Budget::new(1 << 40));
    let memory = items * (ITEM_BYTES as u64 + 12);
    let index = Index::new(Domain::global(), budget, memory, &Backing::anonymous(true)).unwrap();
    let hash_of = |n: u64| hash_bytes(&key_bytes(n));
    let rehash = |place: Place| Some(hash_of(place.raw() - 1));
    let done = |counter: fn(&IndexStats) -> &std::sync::atomic::AtomicU64| {
        counter(index.stats()).load(std::sync::atomic::Ordering::Relaxed)
    };
    let done = || (done(|stats| &stats.rebuilds), done(|stats| &stats.splits));
    let (mut plain, mut rebuilds, mut splits) = (Vec::new(), Vec::new(), Vec::new());
    let mut before = (0, 0);
    for n in 0..items {
        let place = Place::from_offset(n as usize * 4);
        let mut rejected = Vec::new();
        let _ = index.find(hash_of(n), |other| {
            rejected.push(other);
            false
        });
        let start = Region::thread_cpu_ns();
        let outcome = index.publish(hash_of(n), None, &rejected, place, None, &rehash);
        let ns = (Region::thread_cpu_ns() - start) as u32;
        assert_eq!(outcome, Publish::Done);
        let now = done();
        if now.1 > before.1 {
            splits.push(ns);
        } else if now.0 > before.0 {
            rebuilds.push(ns);
        } else if n % 16 == 0 {
            plain.push(ns);
        }
        before = now;
    }
    let all = [&rebuilds[..], &splits[..]].concat();
    let kinds = [
        ("plain", plain),
        ("rebuilding", rebuilds),
        ("splitting", splits),
        ("restructuring", all),
    ];
    for (name, mut ns) in kinds {
        ns.sort_unstable();
        let at = |q: f64| ns[((ns.len() - 1) as f64 * q) as usize];
        println!(
            "{name} inserts: {} of them, p50 {} p99 {} p99.9 {} p99.99 {} ns, longest {}",
            ns.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(0.9999),
            at(1.0)
        );
    }
}
