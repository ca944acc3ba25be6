//! What the torture tests share: seeds, repeatable bytes, how long to run, panics of other threads.
#![allow(dead_code)] // Each test uses the part it needs.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Once;
use std::time::Duration;

/// A small repeatable generator (splitmix64).
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed ^ 0x5DEE_CE66_D1CE_CAFE)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ word >> 31
    }

    /// 0..bound.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((self.next() as u128 * bound as u128) >> 64) as u64
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Bytes that follow from `seed`: no two seeds share more than chance, and no stretch repeats.
pub fn bytes_of(seed: u64, len: usize) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        bytes.extend_from_slice(&random.next().to_le_bytes());
    }
    bytes.truncate(len);
    bytes
}

/// Text that follows from `seed` and compresses three- to fourfold: words of a short list.
#[allow(dead_code)]
pub fn text_of(seed: u64, len: usize) -> Vec<u8> {
    const WORDS: [&str; 16] = [
        "amber ", "birch ", "cedar ", "delta ", "ember ", "fjord ", "glade ", "heath ", "inlet ",
        "jetty ", "knoll ", "larch ", "marsh ", "north ", "osier ", "plain ",
    ];
    let mut random = Random::new(seed);
    let mut text = Vec::with_capacity(len + 8);
    while text.len() < len {
        text.extend_from_slice(WORDS[random.below(16) as usize].as_bytes());
    }
    text.truncate(len);
    text
}

/// `SEED=n` replays one seed; otherwise `default` of them, new ones each time.
pub fn seeds(default: usize) -> Vec<u64> {
    if let Some(seed) = number("SEED") {
        return vec![seed];
    }
    let since = std::time::UNIX_EPOCH.elapsed().map_or(1, |t| t.as_nanos());
    let mut random = Random::new(since as u64);
    (0..default).map(|_| random.next() >> 32).collect()
}

/// `TORTURE_SECONDS=n` runs each test so long instead of its few seconds in a plain `cargo test`.
pub fn run_time(default: Duration) -> Duration {
    number("TORTURE_SECONDS").map_or(default, Duration::from_secs)
}

pub fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Counts panics of every thread from now on: one of the background thread would pass unnoticed.
pub fn watch_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            PANICS.fetch_add(1, Ordering::SeqCst);
            before(info);
        }));
    });
}

pub fn assert_no_panics() {
    assert_eq!(PANICS.load(Ordering::SeqCst), 0, "a thread panicked");
}
