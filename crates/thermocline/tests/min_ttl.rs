//! `min_ttl`: rather than turn over faster than that, a full cache refuses what is new to it.

use std::time::Duration;
use thermocline::{Cache, Clock, Config, Error, Expiry, ReclaimPolicy, SetOptions};

const START_MS: u64 = 1_800_000_000_000;
const FLOOR_MS: u64 = 10_000;

fn cache(policy: ReclaimPolicy) -> (Cache, Clock) {
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(16 << 20);
    config.clock = clock.clone();
    config.policy = policy;
    config.min_ttl = Some(Duration::from_millis(FLOOR_MS));
    config.background = false;
    config.threads = 1;
    (Cache::new(config).unwrap(), clock)
}

fn key(n: u32) -> Vec<u8> {
    format!("key {n}").into_bytes()
}

/// Stores new keys from `from` on until one is refused; how many there were.
fn fill(cache: &Cache, from: u32) -> u32 {
    for n in from..from + 100_000 {
        match cache.set(&key(n), &[7; 1000]) {
            Ok(()) => {}
            Err(Error::NoRoom) => return n - from,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("nothing was refused");
}

#[test]
fn what_is_young_stays_and_the_rest_is_refused() {
    for policy in ReclaimPolicy::ALL {
        let (cache, clock) = cache(policy);
        let count = fill(&cache, 0);
        assert!(count > 10_000, "{policy}: {count} fit");
        let stats = cache.stats();
        assert_eq!(stats.evicted, 0, "{policy}");
        assert_eq!((stats.refused_room, stats.refused_min_ttl), (1, 1));
        assert!((0..count).all(|n| cache.contains(&key(n))), "{policy}");
        assert!(!cache.contains(&key(count)), "a refused set leaves nothing");
        // What needs no room goes on: overwriting in place, reading.
        cache.set(&key(7), &[8; 1000]).unwrap();
        // Half the time later still nobody may go; after all of it there is room again.
        clock.advance_ms(FLOOR_MS / 2);
        assert!(fill(&cache, 200_000) < 300, "{policy}");
        assert_eq!(cache.stats().evicted, 0, "{policy}");
        clock.advance_ms(FLOOR_MS / 2 + 1);
        let more = fill(&cache, 400_000);
        // All that was old may be replaced, and no more than that.
        assert!(
            (1000..=count + 600).contains(&more),
            "{policy}: {more} more"
        );
        let evicted = cache.stats().evicted;
        assert!(evicted > 0, "{policy}");
        let kept = (400_000..400_000 + more).filter(|&n| cache.contains(&key(n)));
        assert_eq!(kept.count() as u32, more, "{policy}: none of the new went");
    }
}

#[test]
fn expired_items_make_room_however_young() {
    let (cache, clock) = cache(ReclaimPolicy::GenDuel);
    let soon = SetOptions {
        expiry: Expiry::AtMs(START_MS + 1000),
        ..SetOptions::default()
    };
    let count = fill(&cache, 0) / 2;
    for n in 0..count {
        assert!(cache.delete(&key(n)));
    }
    // Dead bytes come back, too: what is deleted is nobody's any more.
    for n in 0..count - 1000 {
        cache.set_with(&key(n), &[7; 1000], &soon).unwrap();
    }
    clock.advance_ms(2000);
    let again = fill(&cache, 400_000);
    assert!(again > count - 2000, "{again} of {count}");
    assert_eq!(cache.stats().evicted, 0);
}

#[test]
fn memory_that_must_go_back_does() {
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.clock = clock;
    config.min_ttl = Some(Duration::from_secs(3600));
    config.background = false;
    let cache = Cache::new(config).unwrap();
    fill(&cache, 0);
    cache.set_memory(20 << 20).unwrap();
    assert!(cache.charged() <= 20 << 20);
}

#[test]
fn no_time_at_all_is_refused_by_name() {
    let mut config = Config::new(16 << 20);
    config.min_ttl = Some(Duration::ZERO);
    let error = Cache::new(config).expect_err("leave it out").to_string();
    assert!(error.contains("min_ttl"), "{error}");
}
