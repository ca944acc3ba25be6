//! The kernel's `lru_gen` interface: what it shows, what `+` and `-` do, whom it never holds up.

use std::sync::atomic::{AtomicBool, Ordering};
use thermocline::{Cache, Clock, Config, Expiry, ReclaimPolicy, SetOptions};

const START_MS: u64 = 1_800_000_000_000;

fn cache(change: impl FnOnce(&mut Config)) -> (Cache, Clock) {
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.clock = clock.clone();
    config.background = false;
    config.threads = 1;
    change(&mut config);
    (Cache::new(config).unwrap(), clock)
}

fn put(cache: &Cache, name: &str, count: u32) {
    for n in 0..count {
        cache
            .set(format!("{name} {n}").as_bytes(), &[7; 1000])
            .unwrap();
    }
}

fn there(cache: &Cache, name: &str, count: u32) -> u32 {
    let has = |n: &u32| cache.contains(format!("{name} {n}").as_bytes());
    (0..count).filter(has).count() as u32
}

#[test]
fn the_text_is_the_kernels_and_adds_up() {
    let (cache, clock) = cache(|_| {});
    put(&cache, "old", 3000);
    clock.advance_ms(5000);
    cache.lru_gen_command("+").unwrap();
    put(&cache, "new", 2000);
    clock.advance_ms(700);
    for n in 0..500 {
        cache.delete(format!("old {n}").as_bytes());
    }
    let text = cache.lru_gen();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("memcg     0 /"));
    assert_eq!(lines.next(), Some(" node     0"));
    let rows: Vec<Vec<u64>> = lines
        .map(|line| {
            let words = line.split_whitespace();
            words
                .map(|word| word.parse().expect("numbers only"))
                .collect()
        })
        .collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert_eq!(rows[0][..2], [0, 5700], "{text}");
    assert_eq!(rows[1][..2], [1, 700], "{text}");
    let sum = |column: usize| rows.iter().map(|row| row[column]).sum::<u64>();
    assert_eq!(sum(2), cache.stats().live_bytes);
    assert_eq!(sum(3), cache.len());
    // A new generation shows at the next segment opened: one holds 250 such items.
    assert!((2500..=2750).contains(&rows[0][3]), "{text}");
}

#[test]
fn minus_evicts_what_is_old_and_was_not_read() {
    for policy in ReclaimPolicy::ALL {
        let (cache, _clock) = cache(|config| config.policy = policy);
        put(&cache, "old", 5000);
        cache.lru_gen_command("+").unwrap();
        put(&cache, "new", 5000);
        cache.lru_gen_command("+, +").unwrap();
        for n in 0..100 {
            for _ in 0..3 {
                assert!(cache.get(format!("old {n}").as_bytes()).is_some());
            }
        }
        let before = cache.stats();
        let charged = cache.charged();
        let first = cache.generations()[0].number;
        let left = cache.lru_gen_command(&format!("- 0 0 {first}")).unwrap();
        let old = there(&cache, "old", 5000);
        // A new generation shows at the next segment opened: the first of the new lie in an old one.
        let new = there(&cache, "new", 5000);
        assert!(new >= 4750, "{policy}: {new} of those too young to go");
        if policy != ReclaimPolicy::Lru && policy != ReclaimPolicy::Fifo {
            assert_eq!(there(&cache, "old", 100), 100, "{policy}: they were read");
        }
        assert!(
            old <= 400,
            "{policy}: {old} of the old ones are still there"
        );
        let after = cache.stats();
        assert_eq!(before.live_bytes - after.live_bytes, left, "{policy}");
        assert_eq!(
            after.evicted - before.evicted,
            u64::from(10_000 - old - new)
        );
        assert!(
            cache.charged() + (2 << 20) <= charged,
            "{policy}: extents go back to the system"
        );
        // The room is cold again: what comes now displaces nothing.
        put(&cache, "more", 3000);
        assert_eq!(cache.stats().evicted, after.evicted, "{policy}");
        assert_eq!(there(&cache, "more", 3000), 3000, "{policy}");
    }
}

#[test]
fn minus_stops_when_enough_has_left() {
    let (cache, _clock) = cache(|_| {});
    put(&cache, "old", 5000);
    cache.lru_gen_command("+; +").unwrap();
    let left = cache.lru_gen_command("- 0 0 0 200 1000000").unwrap();
    // A segment more at most.
    assert!(
        (1_000_000..1_000_000 + (256 << 10)).contains(&left),
        "{left}"
    );
}

#[test]
fn errors_are_the_kernels() {
    let (cache, _clock) = cache(|_| {});
    put(&cache, "a", 10);
    cache.lru_gen_command("+ 0 0 0").unwrap();
    assert_eq!(cache.stats().generation, 1);
    cache.lru_gen_command("+ 0 0 0").unwrap();
    assert_eq!(cache.stats().generation, 1, "that one is old already");
    for wrong in [
        "+ 0 0 2", "- 0 0 0", "- 0 0 1", "- 5", "-", "* 1", "+ 1 0 0",
    ] {
        let error = cache.lru_gen_command(wrong).expect_err(wrong);
        assert!(error.to_string().contains(wrong), "{error}");
    }
    assert_eq!(cache.stats().generation, 1);
    cache.lru_gen_command("+ 0 0 1\n- 0 0 0").unwrap();
    assert_eq!(there(&cache, "a", 10), 0);
    // 64 are told apart; without force no two are merged.
    put(&cache, "b", 10);
    for _ in 0..100 {
        cache.lru_gen_command("+").unwrap();
    }
    assert_eq!(cache.generations().len(), 64);
    let youngest = cache.stats().generation;
    assert!(cache
        .lru_gen_command(&format!("+ 0 0 {youngest} 1 0"))
        .is_err());
}

#[test]
fn walks_do_not_keep_expired_items_alive() {
    let (cache, clock) = cache(|_| {});
    let soon = SetOptions {
        expiry: Expiry::AtMs(START_MS + 1000),
        ..SetOptions::default()
    };
    let value = [7u8; 1000];
    for n in 0..10_000u32 {
        cache.set(format!("live {n}").as_bytes(), &value).unwrap();
        cache
            .set_with(format!("soon {n}").as_bytes(), &value, &soon)
            .unwrap();
    }
    assert_eq!(cache.stats().evicted, 0, "all must fit at first");
    clock.advance_ms(2000);
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // Walks all the while, and one that stands still in the middle.
        let mut parked = cache.scan();
        parked.step(|_, _| {});
        for walk in [0, 1] {
            let (cache, done) = (&cache, &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    match walk {
                        0 => assert!(cache.lru_gen().len() > 20),
                        _ => assert!(cache.keys().count() > 0),
                    }
                }
            });
        }
        // More than there is room for beside what has expired.
        for n in 0..14_000u32 {
            cache.set(format!("new {n}").as_bytes(), &value).unwrap();
        }
        done.store(true, Ordering::Relaxed);
        while parked.step(|_, _| {}) {}
    });
    let stats = cache.stats();
    assert!(stats.expired >= 2_000, "{} expired", stats.expired);
    // A walker preempted inside its pin keeps two segments or three from coming free at the wrong moment; that
    // costs some hundred items at worst, not the thousands a held-up expiry would.
    assert!(stats.evicted < 1_000, "{} live items went", stats.evicted);
}
