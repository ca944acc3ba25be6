//! A smaller budget is reached although nobody calls the cache any more.

use std::time::{Duration, Instant};
use thermocline::{Cache, Config};

/// Far longer than it takes; without the mend it never came.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn the_background_alone_gives_back_what_a_smaller_budget_asks() {
    let cache = Cache::new(Config::new(64 << 20)).unwrap();
    for round in 0..12u64 {
        cache.set_memory(64 << 20).unwrap();
        for n in 0..900u64 {
            cache.set(&n.to_be_bytes(), &vec![1; 100 << 10]).unwrap();
        }
        // Of two rings one falls where the thread is just about its chores.
        std::thread::sleep(Duration::from_millis(20 * round));
        for to in [56 << 20, 48 << 20, 40 << 20] {
            cache.set_memory_soon(to).unwrap();
            let asked = Instant::now();
            while cache.charged() > to {
                let late = asked.elapsed();
                assert!(
                    late < PATIENCE,
                    "round {round}: {} over",
                    cache.charged() - to
                );
                std::thread::sleep(Duration::from_millis(3));
            }
            std::thread::sleep(Duration::from_millis(97));
        }
    }
}
