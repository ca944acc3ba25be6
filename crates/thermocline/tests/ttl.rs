//! Time to live and time to idle: exact, cheap at a million items, and reclaimed unasked.

use std::time::{Duration, Instant};
use thermocline::{Cache, Clock, Config, Expiry, SetOptions};

const START_MS: u64 = 1_800_000_000_000;

fn timed(memory: u64, change: impl FnOnce(&mut Config)) -> (Cache, Clock) {
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(memory);
    config.clock = clock.clone();
    config.seed = Some(1);
    change(&mut config);
    (Cache::new(config).unwrap(), clock)
}

fn at(ms: u64) -> SetOptions {
    SetOptions {
        expiry: Expiry::AtMs(START_MS + ms),
        ..SetOptions::default()
    }
}

/// Fails when a minute has passed.
fn wait_until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(60), "never: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn gone_at_the_very_millisecond_and_not_before() {
    let (cache, clock) = timed(32 << 20, |_| ());
    for ms in [1, 999, 1000, 1001, 59_999, 60_000, 3_600_000, 86_400_123] {
        cache
            .set_with(&ms.to_string().into_bytes(), b"v", &at(ms))
            .unwrap();
    }
    let mut now = 0;
    for ms in [1, 999, 1000, 1001, 59_999, 60_000, 3_600_000, 86_400_123] {
        let key = ms.to_string().into_bytes();
        clock.advance_ms(ms - 1 - now);
        assert!(cache.get(&key).is_some(), "{ms} ms: too early");
        clock.advance_ms(1);
        now = ms;
        assert!(cache.get(&key).is_none(), "{ms} ms: too late");
        assert!(!cache.contains(&key) && cache.peek(&key, false).is_none());
    }
    assert_eq!(cache.stats().expired, 8);
}

#[test]
fn reads_that_came_too_late_are_counted_apart() {
    let (cache, clock) = timed(32 << 20, |config| config.background = false);
    for key in [b"a", b"b", b"c"] {
        cache.set_with(key, b"v", &at(1000)).unwrap();
    }
    cache.set(b"d", b"v").unwrap();
    clock.advance_ms(1000);
    assert!(cache.get(b"a").is_none() && cache.get_all(&[b"b"])[0].is_none());
    cache.flush();
    assert!(cache.get(b"d").is_none() && cache.get(b"never").is_none());
    let stats = cache.stats();
    assert_eq!((stats.reads_expired, stats.reads_flushed), (2, 1));
    assert_eq!(stats.misses, 4);
}

#[test]
fn the_background_thread_reclaims_expired_items_in_a_quiet_cache() {
    let (cache, clock) = timed(32 << 20, |_| ());
    let value = [7u8; 1000];
    for n in 0..10_000u32 {
        let options = if n % 2 == 0 {
            at(1000)
        } else {
            SetOptions::default()
        };
        cache.set_with(&n.to_be_bytes(), &value, &options).unwrap();
    }
    clock.advance_ms(2000);
    // What lies in segments still open is left until they are full.
    let open = 4 * cache.stats().segment_bytes / 1000;
    wait_until("expired items leave unread", || cache.len() <= 5_000 + open);
    let stats = cache.stats();
    assert_eq!((stats.evicted, stats.hits + stats.misses), (0, 0));
    assert!((1..10_000u32)
        .step_by(2)
        .all(|n| cache.contains(&n.to_be_bytes())));
}

#[test]
fn a_million_touches_and_overwrites_walk_over_nothing() {
    const ITEMS: u32 = 1_000_000;
    // One open segment, whichever core this thread is moved to.
    let (cache, clock) = timed(256 << 20, |config| {
        config.background = false;
        config.threads = 1;
    });
    let set = |n: u32, ms| cache.set_with(&n.to_be_bytes(), b"value", &at(ms)).unwrap();
    for n in 0..ITEMS {
        set(n, 60_000);
    }
    let before = cache.stats();
    assert_eq!((before.items, before.evicted), (ITEMS as u64, 0));
    for n in 0..ITEMS {
        let later = Expiry::AtMs(START_MS + 120_000 + 1000 * (n as u64 % 50));
        assert!(cache.touch(&n.to_be_bytes(), later).unwrap());
    }
    for n in (0..ITEMS).step_by(4) {
        set(n, 600_000);
    }
    let after = cache.stats();
    assert_eq!(after.scanned, before.scanned, "records walked");
    assert_eq!(after.inserted_bytes, before.inserted_bytes, "bytes copied");
    assert_eq!(after.overwritten_in_place, ITEMS as u64 / 4);
    // The first expiry passes and nothing goes: all were touched.
    clock.advance_ms(61_000);
    cache.sweep();
    assert_eq!(cache.stats().expired, 0);
    assert_eq!(cache.len(), ITEMS as u64);
    // The second passes and exactly the other three quarters go.
    clock.advance_ms(150_000);
    cache.sweep();
    for n in 0..ITEMS {
        assert_eq!(cache.contains(&n.to_be_bytes()), n % 4 == 0, "item {n}");
    }
    let stats = cache.stats();
    assert_eq!(stats.evicted, 0);
    assert_eq!(stats.items + stats.expired, ITEMS as u64);
    // Segments still open keep theirs.
    let reclaimed = stats.expired as f64 / (ITEMS / 4 * 3) as f64;
    assert!(reclaimed > 0.95, "{reclaimed} of the expired items");
}

#[test]
fn touch_moves_the_expiry_both_ways() {
    let (cache, clock) = timed(32 << 20, |_| ());
    let touch = |key: &[u8], expiry| assert!(cache.touch(key, expiry).unwrap());
    for key in [b"later", b"never", b"sooner", b"millis"] as [&[u8]; 4] {
        cache.set_with(key, b"v", &at(10_000)).unwrap();
    }
    cache.set(b"from never", b"v").unwrap();
    touch(b"later", Expiry::In(Duration::from_secs(20)));
    touch(b"never", Expiry::Never);
    touch(b"sooner", Expiry::In(Duration::from_secs(5)));
    touch(b"millis", Expiry::AtMs(START_MS + 10_001));
    touch(b"from never", Expiry::AtMs(START_MS + 10_000));
    assert!(!cache.touch(b"absent", Expiry::Never).unwrap());
    clock.advance_ms(5_000);
    assert!(!cache.contains(b"sooner"));
    assert!(
        !cache.touch(b"sooner", Expiry::Never).unwrap(),
        "gone is gone"
    );
    clock.advance_ms(5_000);
    assert!(!cache.contains(b"from never") && cache.contains(b"millis"));
    clock.advance_ms(1);
    assert!(!cache.contains(b"millis") && cache.contains(b"later"));
    clock.advance_ms(10_000);
    assert!(!cache.contains(b"later") && cache.contains(b"never"));
}

#[test]
fn items_nobody_reads_are_gone_and_those_read_stay() {
    let (cache, clock) = timed(32 << 20, |config| {
        config.time_to_idle = Some(Duration::from_secs(600));
    });
    cache.set(b"read", b"v").unwrap();
    cache.set(b"unread", b"v").unwrap();
    for _ in 0..20 {
        clock.advance_ms(60_000);
        assert!(cache.get(b"read").is_some());
        // Neither of these is an access.
        cache.contains(b"unread");
        cache.peek(b"unread", false);
    }
    assert!(cache.get(b"unread").is_none());
    // Coarse: the last access is written at most once a minute, so it may go that much early.
    clock.advance_ms(539_000);
    assert!(cache.get(b"read").is_some());
    clock.advance_ms(602_000);
    assert!(cache.get(b"read").is_none());
}

#[test]
fn the_default_applies_where_no_other_is_given() {
    let (cache, clock) = timed(32 << 20, |config| {
        config.time_to_live = Some(Duration::from_secs(10));
    });
    cache.set(b"default", b"v").unwrap();
    cache.set_with(b"own", b"v", &at(20_000)).unwrap();
    let never = SetOptions {
        expiry: Expiry::Never,
        ..SetOptions::default()
    };
    cache.set_with(b"never", b"v", &never).unwrap();
    clock.advance_ms(10_000);
    assert!(!cache.contains(b"default") && cache.contains(b"own"));
    clock.advance_ms(10_000);
    assert!(!cache.contains(b"own") && cache.contains(b"never"));
}
