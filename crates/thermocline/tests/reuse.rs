//! Values of random sizes overwrite each other in a full cache: dead room is used again, and nobody notices but the books.
//!
//! Each key has one writing thread, which knows what must be there: its last value, or nothing. Guards and tokens of
//! former values are kept for a while: bytes under a guard stand still, and a former token never wins.
//!
//! `SEED=n` repeats the choices of the threads (not their timing).

mod torture;

use std::collections::VecDeque;
use thermocline::{Cache, Config, Guard};
use torture::Random;

const THREADS: u64 = 3;
const KEYS_EACH: u64 = 1500;
const OPERATIONS: u64 = 12_000;
const KEPT: usize = 8;

fn value_of(key: u64, number: u64, len: usize) -> Vec<u8> {
    let word = (key << 40 | number).to_le_bytes();
    word.iter().copied().cycle().take(len).collect()
}

/// What one thread knows of its keys.
struct Owner<'a> {
    cache: &'a Cache,
    random: Random,
    /// Number and bytes of the last value of each key; 0: deleted, or never stored.
    last: Vec<(u64, usize)>,
    first_key: u64,
    guards: VecDeque<(Vec<u8>, Guard)>,
    tokens: VecDeque<(u64, u64)>,
}

impl Owner<'_> {
    fn key(&self, n: u64) -> Vec<u8> {
        format!("key-{}", self.first_key + n).into_bytes()
    }

    fn expected(&self, n: u64) -> Vec<u8> {
        let (number, len) = self.last[n as usize];
        value_of(self.first_key + n, number, len)
    }

    fn store(&mut self, n: u64, number: u64) {
        let len = match self.random.below(10) {
            0 => 20 + self.random.below(500),
            _ => 600 + self.random.below(14_000),
        } as usize;
        let value = value_of(self.first_key + n, number, len);
        let key = self.key(n);
        if self.random.below(4) == 0 {
            if let Some(token) = self.cache.peek(&key, true).and_then(|meta| meta.token) {
                self.tokens.push_back((n, token));
            }
        }
        self.cache.set(&key, &value).expect("something can leave");
        self.last[n as usize] = (number, len);
    }

    fn look(&mut self, n: u64) {
        let expected = self.expected(n);
        let Some(guard) = self.cache.get(&self.key(n)) else {
            return;
        };
        assert!(self.last[n as usize].0 != 0, "a deleted key came back");
        assert!(guard.to_vec() == expected, "not the last value of its key");
        self.guards.push_back((expected, guard));
        if self.guards.len() > KEPT {
            self.let_go();
        }
    }

    fn let_go(&mut self) {
        if let Some((expected, guard)) = self.guards.pop_front() {
            assert!(guard.to_vec() == expected, "written under a guard");
        }
    }

    /// A token from before the last store.
    fn try_old_token(&mut self) {
        let Some((n, token)) = self.tokens.pop_front() else {
            return;
        };
        let stored = self.cache.compare_and_set(&self.key(n), b"lost", token);
        let stored = stored.is_ok_and(|stored| stored.is_stored());
        assert!(!stored, "a token came back");
    }

    fn run(mut self) {
        for number in 1..=OPERATIONS {
            let n = self.random.below(KEYS_EACH);
            match self.random.below(100) {
                0..=19 => self.look(n),
                20..=22 => {
                    self.cache.delete(&self.key(n));
                    self.last[n as usize].0 = 0;
                }
                23..=26 => self.try_old_token(),
                _ => self.store(n, number),
            }
        }
        while !self.guards.is_empty() {
            self.let_go();
        }
    }
}

#[test]
fn room_of_dead_items_is_used_again_and_nobody_notices() {
    let mut config = Config::new(24 << 20);
    config.threads = THREADS as usize;
    let cache = Cache::new(config).expect("a cache of 24 MiB");
    let seed = torture::seeds(1)[0];
    println!("SEED={seed}");
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let owner = Owner {
                cache: &cache,
                random: Random::new(seed ^ (thread + 1) << 32),
                last: vec![(0, 0); KEYS_EACH as usize],
                first_key: thread * KEYS_EACH,
                guards: VecDeque::new(),
                tokens: VecDeque::new(),
            };
            scope.spawn(|| owner.run());
        }
    });
    let stats = cache.stats();
    let reused = stats.reused_bytes as f64 / stats.inserted_bytes as f64;
    println!(
        "reused {reused:.2} of what was written, copied {:.2}",
        stats.moved_bytes as f64 / stats.inserted_bytes as f64
    );
    assert!(reused > 0.1, "{reused}: this has shown nothing");
    let (walked, held) = walked(&cache);
    assert_eq!(walked, held);
}

/// How many keys a walk meets, each of them once, and how many the cache says it held then. The background thread may still
/// be making room: it is walked again until nothing was evicted meanwhile.
fn walked(cache: &Cache) -> (u64, u64) {
    for _ in 0..100 {
        let before = cache.len();
        let mut scan = cache.scan();
        let mut keys = Vec::new();
        while scan.step(|key, _| keys.push(key.to_vec())) {}
        let all = keys.len();
        keys.sort();
        keys.dedup();
        assert_eq!(all, keys.len(), "a key was met twice");
        if cache.len() == before {
            return (all as u64, before);
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    panic!("the cache does not come to rest");
}
