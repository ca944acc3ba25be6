//! Expired items are reclaimed before live ones are evicted. One test: pins of other threads in the process
//! delay what may be reclaimed, and then something live may have to go.

use thermocline::{Cache, Clock, Config, Expiry, SetOptions};

const START_MS: u64 = 1_800_000_000_000;

#[test]
fn expired_items_go_before_live_ones_and_nobody_has_to_read() {
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.clock = clock.clone();
    config.background = false;
    let cache = Cache::new(config).unwrap();
    let soon = SetOptions {
        expiry: Expiry::AtMs(START_MS + 1000),
        ..SetOptions::default()
    };
    // A third lives for good, a third expires, and then as many again come in.
    let value = [7u8; 1000];
    for n in 0..10_000u32 {
        cache.set(format!("live {n}").as_bytes(), &value).unwrap();
        cache
            .set_with(format!("soon {n}").as_bytes(), &value, &soon)
            .unwrap();
    }
    assert_eq!(cache.stats().evicted, 0, "all must fit at first");
    clock.advance_ms(2000);
    for n in 0..14_000u32 {
        cache.set(format!("new {n}").as_bytes(), &value).unwrap();
    }
    let stats = cache.stats();
    assert_eq!(stats.evicted, 0, "a live item went before an expired one");
    assert!(stats.expired >= 2_000, "{} expired", stats.expired);
    for n in 0..10_000u32 {
        assert!(cache.contains(format!("live {n}").as_bytes()), "live {n}");
    }
    for n in 0..14_000u32 {
        assert!(cache.contains(format!("new {n}").as_bytes()), "new {n}");
    }
}
