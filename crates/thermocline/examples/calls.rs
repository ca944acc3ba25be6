//! One kind of call in a loop, for counting instructions: `scripts/instructions` runs it under callgrind, which
//! collects inside `hits`, `sets` and `mix` only.
//!
//! `calls KEYS CALLS VALUE_BYTES KIND SAMPLING`: KIND is hits, sets (in place) or mix (90/10, read-through, a third of
//! the keys fit); SAMPLING on or off (of accesses, for the duel and the curve).

use std::hint::black_box;
use thermocline::{Cache, Config};

struct Keys {
    state: u64,
    count: u64,
}

impl Keys {
    /// Skewed much like zipf 0.99: the rank is count^u.
    fn next(&mut self) -> [u8; 16] {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let unit = (self.state >> 11) as f64 / (1u64 << 53) as f64;
        key(((self.count as f64).powf(unit)) as u64 % self.count)
    }
}

fn key(id: u64) -> [u8; 16] {
    let mut key = *b"key-000000000000";
    key[4..12].copy_from_slice(&id.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    key
}

#[inline(never)]
fn hits(cache: &Cache, keys: &[[u8; 16]], buffer: &mut Vec<u8>) -> u64 {
    let mut found = 0;
    for key in keys {
        buffer.clear();
        found += u64::from(cache.get_into(key, buffer).is_some());
    }
    found
}

#[inline(never)]
fn sets(cache: &Cache, keys: &[[u8; 16]], value: &[u8]) -> u64 {
    keys.iter()
        .map(|key| u64::from(cache.set(key, value).is_ok()))
        .sum()
}

#[inline(never)]
fn mix(cache: &Cache, keys: &[[u8; 16]], value: &[u8], buffer: &mut Vec<u8>) -> u64 {
    let mut found = 0;
    for (n, key) in keys.iter().enumerate() {
        buffer.clear();
        let reads = n % 10 != 0;
        if reads && cache.get_into(key, buffer).is_some() {
            found += 1;
        } else {
            let _ = cache.set(key, value);
        }
    }
    found
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, otherwise: u64| {
        words
            .get(at)
            .map_or(otherwise, |word| word.parse().expect("a number"))
    };
    let (count, calls, bytes) = (number(0, 300_000), number(1, 200_000), number(2, 1024));
    let kind = words.get(3).map_or("hits", String::as_str);
    let all = count * (bytes + 64);
    let mut config = Config::new(if kind == "mix" { all / 3 } else { all * 5 / 4 } + (8 << 20));
    config.sampling = words.get(4).is_none_or(|word| word == "on");
    config.seed = Some(1);
    // In a mix, what makes room is counted with who asks for it.
    config.background = kind != "mix";
    let cache = Cache::new(config).expect("a cache of this size");
    let value = vec![7u8; bytes as usize];
    let mut keys = Keys { state: 1, count };
    let mut buffer = Vec::new();
    for id in 0..count {
        cache.set(&key(id), &value).expect("room is made");
    }
    // Every item has been hit before, so no counter is left to raise.
    for _ in 0..3 {
        for id in 0..count {
            buffer.clear();
            cache.get_into(&key(id), &mut buffer);
        }
    }
    let drawn: Vec<[u8; 16]> = (0..calls).map(|_| keys.next()).collect();
    let found = match kind {
        "sets" => sets(&cache, &drawn, &value),
        "mix" => mix(&cache, &drawn, &value, &mut buffer),
        _ => hits(&cache, &drawn, &mut buffer),
    };
    println!("{kind}: {} of {calls}", black_box(found));
}
