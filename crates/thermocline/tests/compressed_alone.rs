//! How many items fit with the compressed tier and without, counted in a process of its own: no other test's pins keep
//! segments, and without a thread nothing depends on who is faster.

mod torture;

use std::time::Duration;
use thermocline::{Cache, Clock, CompressMode, Config};
use torture::{bytes_of, text_of};

const MEMORY: u64 = 64 << 20;
const VALUE_BYTES: usize = 600;

/// A cache after three times as many items as fit plain were written, once each.
fn filled(mode: CompressMode, value: fn(u64, usize) -> Vec<u8>) -> Cache {
    let mut config = Config::new(MEMORY);
    config.compress = mode;
    config.background = false;
    config.threads = 1;
    config.seed = Some(7);
    config.clock = Clock::manual(1_800_000_000_000);
    // Cheap misses want the fast search: the better one takes 15 us in a test.
    config.miss_cost = Some(Duration::from_micros(1));
    let cache = Cache::new(config).expect("a cache");
    for n in 0..3 * MEMORY / VALUE_BYTES as u64 {
        let key = format!("user:{n:010}");
        let stored = cache.set(key.as_bytes(), &value(n, VALUE_BYTES));
        stored.expect("room can always be made");
    }
    cache
}

#[test]
fn what_compresses_fits_more_often_and_what_does_not_pays_for_nothing() {
    // Nothing is set aside where nothing compresses: no dictionary, no samples, no segment kept back.
    let (off, on) = (
        filled(CompressMode::Off, bytes_of),
        filled(CompressMode::On, bytes_of),
    );
    assert!(
        on.len() * 1000 >= off.len() * 995,
        "{} items with, {} without",
        on.len(),
        off.len()
    );
    let tiers = on.tiers();
    assert!(tiers.held_back, "nothing is demoted");
    assert_eq!((tiers.trained, tiers.compressed_used_bytes), (0, 0));
    assert!(tiers.reject_compress_poor > 0, "it was tried");

    // The index grows while memory is full, by as many items again: no write is refused, though segments could take
    // what was made free for it.
    let on = filled(CompressMode::On, text_of);
    assert!(
        on.len() * 10 > off.len() * 15,
        "{} items with, {} without",
        on.len(),
        off.len()
    );
    assert_eq!(on.stats().refused_room, 0);
}
