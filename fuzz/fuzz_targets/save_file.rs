//! A save file, damaged in any way, and any bytes as one: loading never panics and never makes up an item.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::io::Cursor;
use std::sync::OnceLock;
use thermocline::{Cache, Config, Which};

fn cache() -> Cache {
    let mut config = Config::new(16 << 20);
    config.background = false;
    config.seed = Some(1);
    Cache::new(config).expect("16 MiB are enough")
}

/// What is saved: small, large and chunked values.
fn items() -> HashMap<Vec<u8>, Vec<u8>> {
    (0..20u8)
        .map(|n| (vec![n; 1 + usize::from(n)], vec![n ^ 0x5A; 7 << (n % 14)]))
        .collect()
}

fn saved() -> &'static [u8] {
    static SAVED: OnceLock<Vec<u8>> = OnceLock::new();
    SAVED.get_or_init(|| {
        let cache = cache();
        for (key, value) in items() {
            cache.set(&key, &value).expect("room");
        }
        let mut file = Vec::new();
        cache.save_to(&mut file, Which::All).expect("memory");
        file
    })
}

fuzz_target!(|input: &[u8]| {
    let _ = cache().load_from(Cursor::new(input));
    let damaged = damage(saved(), input);
    let cache = cache();
    if cache.load_from(Cursor::new(&damaged)).is_err() {
        return;
    }
    let items = items();
    for key in cache.keys() {
        let value = cache.get(&key).map(|guard| guard.to_vec());
        assert!(
            value.is_none() || items.get(&key) == value.as_ref(),
            "made up"
        );
    }
});

/// Four bytes a blow: where (24 bits of a share of the file) and how.
fn damage(file: &[u8], input: &[u8]) -> Vec<u8> {
    let mut damaged = file.to_vec();
    for blow in input.chunks_exact(4).take(16) {
        if damaged.is_empty() {
            break;
        }
        let share = usize::from(blow[0]) << 16 | usize::from(blow[1]) << 8 | usize::from(blow[2]);
        let at = share % damaged.len();
        match blow[3] {
            0 => damaged.truncate(at),
            1 => drop(damaged.remove(at)),
            2 => damaged.insert(at, blow[2]),
            3 => {
                let piece = damaged[at..(at + 64).min(damaged.len())].to_vec();
                damaged.splice(at..at, piece);
            }
            bits => damaged[at] ^= bits,
        }
    }
    damaged
}
