//! What compression costs while everything fits, in instructions: the same calls with it off and on, to be counted by
//! callgrind inside `rounds` alone. `still` holds the sampling of the policy, the curve and the duel still: when they are
//! tidied hangs on the background thread's clock, and differs by more from run to run than the modes do.
//!
//! ```text
//! for MODE in off auto on; do
//!   valgrind --tool=callgrind --toggle-collect='*rounds*' target/release/examples/low_pressure $MODE still
//! done
//! ```

use std::hint::black_box;
use std::time::Duration;
use thermocline::{Cache, CompressMode, Config};

/// Keys of 467 B values in a cache of twice their size.
const KEYS: u64 = 40_000;
const CALLS: u64 = 400_000;

/// Nine reads to a write, skewed.
#[inline(never)]
fn rounds(cache: &Cache, value: &[u8]) -> u64 {
    let (mut state, mut found, mut out) = (7u64, 0, Vec::new());
    for call in 0..CALLS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let unit = (state >> 33) as f64 / (1u64 << 31) as f64;
        let key = ((unit * unit * KEYS as f64) as u64).to_le_bytes();
        out.clear();
        if call % 10 > 0 {
            found += u64::from(cache.get_into(&key, &mut out).is_some());
        } else {
            found += u64::from(cache.set(&key, value).is_ok());
        }
    }
    found
}

fn main() {
    let mut config = Config::new(64 << 20);
    (config.threads, config.seed) = (1, Some(1));
    config.compress = match std::env::args().nth(1).as_deref() {
        Some("auto") => CompressMode::Auto,
        Some("on") => CompressMode::On,
        _ => CompressMode::Off,
    };
    config.sampling = std::env::args().nth(2).as_deref() != Some("still");
    let cache = Cache::new(config).expect("64 MiB are enough");
    let value = [b'v'; 467];
    for key in 0..KEYS {
        cache.set(&key.to_le_bytes(), &value).expect("all fit");
    }
    // The background thread looks ten times a second: by then whoever samples does.
    std::thread::sleep(Duration::from_millis(500));
    let found = black_box(rounds(&cache, &value));
    let tiers = cache.tiers();
    println!(
        "{:?}: {found} of {CALLS} found or stored, {} demoted",
        tiers.mode, tiers.demoted
    );
    assert_eq!((found, tiers.demoted), (CALLS, 0));
}
