//! Overwrites of equal size in a full cache that evicts: how many find their item where it can be changed.

use thermocline::{Cache, Config};

const KEYS: f64 = 600_000.0;
const OPERATIONS: usize = 600_000;

/// xorshift64*, as a number from 0 to 1.
fn next(state: &mut u64) -> f64 {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 11) as f64 / (1u64 << 53) as f64
}

#[test]
fn four_of_five_equal_size_overwrites_happen_in_place_at_a_50_50_mix() {
    let mut config = Config::new(32 << 20);
    config.threads = 1;
    let cache = Cache::new(config).unwrap();
    let (mut state, mut value) = (7, Vec::new());
    let mut one = |_| {
        // A few keys take most of it, as in a zipf stream, and a third of the keys would fit.
        let key = (next(&mut state).powi(4) * KEYS) as u64;
        let key = key.to_be_bytes();
        value.clear();
        if next(&mut state) < 0.5 || cache.get_into(&key, &mut value).is_none() {
            cache.set(&key, &[1; 100]).unwrap();
        }
    };
    (0..OPERATIONS).for_each(&mut one);
    let before = cache.stats();
    (0..OPERATIONS).for_each(&mut one);
    let after = cache.stats();
    assert!(after.evicted > before.evicted, "the cache is full");
    let in_place = after.overwritten_in_place - before.overwritten_in_place;
    let elsewhere = after.replaced - before.replaced;
    let share = in_place as f64 / (in_place + elsewhere) as f64;
    assert!(
        in_place > 10_000 && share >= 0.8,
        "{in_place} in place, {elsewhere} elsewhere"
    );
}
