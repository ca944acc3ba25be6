//! Any bytes as operations on a small cache, against a map: a hit equals the map, a miss is legal only once
//! something was evicted, and the books balance.
#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use thermocline::{Cache, Config, Expiry, Mode, SetOptions, Stored};

/// Four bytes an operation: which, key, size, rest.
const OPERATION_BYTES: usize = 4;
const OPERATIONS_MAX: usize = 400;

struct Run {
    cache: Cache,
    map: HashMap<Vec<u8>, Vec<u8>>,
    values: u8,
}

fuzz_target!(|input: &[u8]| {
    let mut config = Config::new(16 << 20);
    config.background = false;
    config.seed = Some(1);
    let mut run = Run {
        cache: Cache::new(config).expect("16 MiB are enough"),
        map: HashMap::new(),
        values: 0,
    };
    for bytes in input.chunks_exact(OPERATION_BYTES).take(OPERATIONS_MAX) {
        run.operation(bytes[0], bytes[1], bytes[2], bytes[3]);
    }
    run.finish();
});

impl Run {
    fn operation(&mut self, what: u8, key: u8, size: u8, rest: u8) {
        let key = key_of(key);
        match what % 12 {
            0..=3 => self.set(&key, size, rest),
            4 => self.stream(&key, size, rest),
            5 => {
                let number = format!("{}", u32::from(rest) * 999);
                self.cache.set(&key, number.as_bytes()).expect("room");
                self.map.insert(key, number.into_bytes());
            }
            6 => self.step(&key, rest),
            7 => self.append(&key, size & 0x7F, rest),
            8 => {
                let there = self.cache.delete(&key);
                self.there(&key, there);
                self.map.remove(&key);
            }
            9 => {
                let at = Expiry::AtMs((4_000_000_000 + u64::from(rest) * 500) & !1);
                let there = self
                    .cache
                    .touch(&key, Expiry::AtMs(4_000_000_000_000))
                    .expect("room");
                self.there(&key, there);
                if there && rest < 4 {
                    self.cache.touch(&key, at).expect("room");
                    self.map.remove(&key);
                }
            }
            10 if rest == 0 => {
                self.cache.flush();
                self.map.clear();
            }
            10 if rest < 8 => {
                let memory = 16 + u64::from(size % 16);
                // Too little for segments of this size is refused.
                let _ = self.cache.set_memory(memory << 20);
            }
            10 => self.cache.sweep(),
            _ => self.get(&key),
        }
    }

    fn value(&mut self, size: u8, rest: u8) -> Vec<u8> {
        self.values = self.values.wrapping_add(1);
        // 0 B to 1.2 MB: 32 steps an octave would be dull, 8 reach everything.
        let len = (usize::from(size % 8) + 8 << (size / 8) >> 3) * 2 + usize::from(rest);
        let len = len.min(self.cache.item_size_max() as usize);
        let mut byte = self.values;
        let mut value = Vec::with_capacity(len);
        value.resize_with(len, || {
            byte = byte.wrapping_mul(29).wrapping_add(31);
            byte
        });
        value
    }

    fn set(&mut self, key: &[u8], size: u8, rest: u8) {
        let value = self.value(size % 160, rest);
        let options = SetOptions {
            flags: u32::from(rest & 3),
            mode: match rest >> 4 {
                0 => Mode::Add,
                1 => Mode::Replace,
                2 => Mode::CompareAndSet(self.token(key)),
                _ => Mode::Set,
            },
            want_token: rest & 4 != 0,
            ..SetOptions::default()
        };
        let stored = self.cache.set_with(key, &value, &options).expect("room");
        match (options.mode, stored) {
            (Mode::Add, stored) => self.there(key, !stored.is_stored()),
            (Mode::Replace, stored) => self.there(key, stored.is_stored()),
            (Mode::CompareAndSet(_), stored) => {
                assert_ne!(stored, Stored::Exists, "the token was fresh");
                self.there(key, stored.is_stored());
            }
            _ => assert!(stored.is_stored()),
        }
        if stored.is_stored() {
            self.map.insert(key.to_vec(), value);
        }
    }

    fn token(&self, key: &[u8]) -> u64 {
        let meta = self.cache.peek(key, true);
        meta.and_then(|meta| meta.token).unwrap_or(1)
    }

    fn stream(&mut self, key: &[u8], size: u8, rest: u8) {
        let value = self.value(size % 160, rest);
        let cut = value.len() * usize::from(rest) / 255;
        let options = SetOptions::default();
        let mut writer = self.cache.write(key, value.len(), &options).expect("fits");
        writer.write(&value[..cut]).expect("room");
        if rest % 4 == 0 {
            return;
        }
        writer.write(&value[cut..]).expect("room");
        assert!(writer.commit().expect("room").is_stored());
        self.map.insert(key.to_vec(), value);
    }

    fn step(&mut self, key: &[u8], by: u8) {
        let number = |value: &Vec<u8>| std::str::from_utf8(value).ok()?.parse::<u64>().ok();
        let Ok(answer) = self.cache.incr(key, u64::from(by)) else {
            return;
        };
        self.there(key, answer.is_some());
        if let Some(answer) = answer {
            let old = self.map.get(key).and_then(number);
            // Blanks around a number are legal, and the map does not know them.
            assert!(old.is_none_or(|old| old.wrapping_add(u64::from(by)) == answer));
            self.map
                .insert(key.to_vec(), answer.to_string().into_bytes());
        }
    }

    fn append(&mut self, key: &[u8], size: u8, rest: u8) {
        let more = self.value(size % 64, rest);
        let most = self.cache.item_size_max() as usize;
        let fits = self
            .map
            .get(key)
            .is_none_or(|old| old.len() + more.len() <= most);
        let stored = self.cache.append(key, &more).expect("room");
        if fits {
            self.there(key, stored);
        }
        if let (true, Some(value)) = (stored, self.map.get_mut(key)) {
            value.extend_from_slice(&more);
        }
    }

    fn get(&mut self, key: &[u8]) {
        let got = self.cache.get(key).map(|guard| guard.to_vec());
        self.there(key, got.is_some());
        if let Some(value) = got {
            assert!(self.map[key] == value, "wrong bytes");
        }
    }

    /// The cache said whether `key` is there.
    fn there(&mut self, key: &[u8], there: bool) {
        match there {
            true => assert!(self.map.contains_key(key), "a hit of what is not there"),
            false => {
                let lost = self.map.remove(key).is_some();
                assert!(!lost || self.cache.stats().evicted > 0, "lost without need");
            }
        }
    }

    fn finish(mut self) {
        for key in self.map.keys().cloned().collect::<Vec<_>>() {
            self.get(&key);
        }
        let stats = self.cache.stats();
        assert!(stats.charged_bytes <= stats.memory_bytes, "{stats:?}");
        let left = stats.evicted + stats.expired + stats.deleted + stats.items;
        assert_eq!(stats.inserts, left, "{stats:?}");
        assert!(stats.live_bytes <= stats.used_bytes, "{stats:?}");
    }
}

fn key_of(key: u8) -> Vec<u8> {
    let len = match key % 16 {
        0 => 255,
        1 => 256,
        2 => 3000,
        small => usize::from(small),
    };
    vec![key; len]
}
