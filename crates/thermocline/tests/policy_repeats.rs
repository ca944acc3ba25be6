//! One thread, one seed, no background: two caches behave the same to the last counter. Alone in its file:
//! other threads of the process would move the shared epoch on, and with it the moment a segment is free.

use thermocline::{Cache, Clock, Config, PageMode, ReclaimPolicy};

fn run(policy: ReclaimPolicy) -> String {
    let mut config = Config::new(16 << 20);
    config.page_mode = PageMode::Base;
    config.policy = policy;
    config.background = false;
    config.threads = 1;
    config.seed = Some(11);
    config.clock = Clock::manual(1_800_000_000_000);
    let cache = Cache::new(config).expect("a cache");
    let mut word = 3u64;
    for step in 0..200_000u64 {
        word = word.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
        let key = ((word >> 40) % 40_000)
            .min((word >> 20) % 60_000)
            .to_be_bytes();
        if word % 100 == 0 {
            cache.delete(&key);
        } else if cache.get(&key).is_none() {
            let bytes = 100 + (word >> 30) as usize % 1_000;
            cache
                .set(&key, &vec![step as u8; bytes])
                .expect("room is made");
        }
    }
    format!("{:?}", cache.stats())
}

#[test]
fn one_thread_and_one_seed_behave_the_same() {
    for policy in ReclaimPolicy::ALL {
        assert_eq!(run(policy), run(policy), "{policy}");
    }
}
