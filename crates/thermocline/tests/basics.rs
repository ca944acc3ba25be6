//! Whole stories through the public door, one thread.

use std::time::Duration;
use thermocline::{Cache, Clock, Config, Error, Expiry, Mode, SetOptions, Stored};

fn cache() -> Cache {
    Cache::new(Config::new(32 << 20)).expect("a cache of 32 MiB")
}

fn value(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    cache.get(key).map(|guard| guard.to_vec())
}

#[test]
fn stores_reads_overwrites_deletes() {
    let cache = cache();
    assert_eq!(value(&cache, b"k"), None);
    cache.set(b"k", b"one").unwrap();
    assert_eq!(value(&cache, b"k").as_deref(), Some(&b"one"[..]));
    cache.set(b"k", b"two").unwrap();
    assert_eq!(value(&cache, b"k").as_deref(), Some(&b"two"[..]));
    assert_eq!(cache.stats().overwritten_in_place, 1);
    cache.set(b"k", &[7; 3000]).unwrap();
    assert_eq!(value(&cache, b"k").unwrap(), vec![7; 3000]);
    assert!(cache.delete(b"k"));
    assert!(!cache.delete(b"k"));
    assert!(!cache.contains(b"k"));
    assert_eq!(cache.len(), 0);
}

#[test]
fn every_value_size_up_to_the_limit_reads_back() {
    let cache = cache();
    let max = cache.item_size_max() as usize;
    for len in [
        0,
        1,
        3,
        4,
        5,
        100,
        1000,
        4079,
        4080,
        4081,
        4092,
        4096,
        10_000,
        65_535,
        65_536,
        70_000,
        200_000,
        1 << 20,
        max - 1,
        max,
    ] {
        let bytes: Vec<u8> = (0..len).map(|i| (i * 31 + i / 251) as u8).collect();
        cache.set(b"key", &bytes).unwrap();
        assert!(value(&cache, b"key").unwrap() == bytes, "length {len}");
    }
    let refused = cache.set(b"key", &vec![0; max + 1]);
    assert!(matches!(refused, Err(Error::ValueTooLarge { .. })));
    assert!(!cache.contains(b"key"), "a refused set leaves no old value");
}

#[test]
fn keys_from_one_byte_to_the_limit() {
    let cache = Cache::new(Config::new(256 << 20)).unwrap();
    for len in [1, 2, 250, 254, 255, 256, 1000, 65_535, 65_536] {
        let key = vec![b'k'; len];
        cache.set(&key, b"v").unwrap();
        assert_eq!(value(&cache, &key).as_deref(), Some(&b"v"[..]), "{len}");
    }
    assert_eq!(cache.len(), 9);
    for bad in [0, 65_537] {
        let refused = cache.set(&vec![b'k'; bad], b"v");
        assert!(matches!(refused, Err(Error::KeySize { .. })));
    }
}

#[test]
fn conditions_and_tokens() {
    let cache = cache();
    assert!(!cache.replace(b"k", b"x").unwrap());
    assert!(cache.add(b"k", b"1").unwrap());
    assert!(!cache.add(b"k", b"2").unwrap());
    assert!(cache.replace(b"k", b"3").unwrap());
    assert!(cache.append(b"k", b"4").unwrap());
    assert!(cache.prepend(b"k", b"2").unwrap());
    assert_eq!(value(&cache, b"k").unwrap(), b"234");
    let token = cache.peek(b"k", true).unwrap().token.unwrap();
    assert_eq!(
        cache.compare_and_set(b"k", b"new", token).unwrap(),
        Stored::Stored(None)
    );
    assert_eq!(
        cache.compare_and_set(b"k", b"newer", token).unwrap(),
        Stored::Exists
    );
    assert_eq!(
        cache.compare_and_set(b"none", b"v", token).unwrap(),
        Stored::NotFound
    );
    cache.set(b"n", b"9").unwrap();
    assert_eq!(cache.incr(b"n", 3).unwrap(), Some(12));
    assert_eq!(cache.decr(b"n", 100).unwrap(), Some(0));
    assert_eq!(cache.incr(b"none", 1).unwrap(), None);
    assert!(matches!(cache.incr(b"k", 1), Err(Error::NotANumber)));
}

#[test]
fn expiry_and_touch_by_an_injected_clock() {
    let clock = Clock::manual(1_800_000_000_000);
    let mut config = Config::new(32 << 20);
    config.clock = clock.clone();
    config.time_to_live = Some(Duration::from_secs(10));
    let cache = Cache::new(config).unwrap();
    cache.set(b"default", b"v").unwrap();
    let options = |expiry| SetOptions {
        expiry,
        ..SetOptions::default()
    };
    let never = options(Expiry::Never);
    cache.set_with(b"never", b"v", &never).unwrap();
    let millis = options(Expiry::In(Duration::from_millis(1500)));
    cache.set_with(b"millis", b"v", &millis).unwrap();
    let past = options(Expiry::AtMs(1));
    assert!(cache.set_with(b"past", b"v", &past).unwrap().is_stored());
    assert!(!cache.contains(b"past"));
    clock.advance_ms(1499);
    assert!(cache.contains(b"millis"));
    let token = cache.peek(b"default", true).unwrap().token;
    assert!(cache
        .touch(b"default", Expiry::AtMs(1_800_000_100_000))
        .unwrap());
    assert_eq!(cache.peek(b"default", true).unwrap().token, token);
    clock.advance_ms(1);
    assert!(!cache.contains(b"millis"));
    clock.advance_ms(20_000);
    assert!(cache.contains(b"default") && cache.contains(b"never"));
    clock.advance_ms(100_000);
    assert!(!cache.contains(b"default") && cache.contains(b"never"));
    assert_eq!(value(&cache, b"default"), None);
    assert!(cache.stats().expired >= 1);
}

#[test]
fn flush_hides_everything_at_once_and_new_items_show() {
    let cache = cache();
    for i in 0..1000u32 {
        cache.set(&i.to_le_bytes(), &[1; 100]).unwrap();
    }
    cache.flush();
    assert!((0..1000u32).all(|i| !cache.contains(&i.to_le_bytes())));
    cache.set(b"new", b"v").unwrap();
    assert!(cache.contains(b"new"));
    assert!(cache.add(&5u32.to_le_bytes(), b"again").unwrap());
    assert!(cache.contains(&5u32.to_le_bytes()));
}

#[test]
fn fills_far_over_and_stays_in_its_budget() {
    for (len, count) in [
        (100, 600_000u32),
        (1000, 100_000),
        (50_000, 4_000),
        (3_000_000, 60),
    ] {
        let mut config = Config::new(32 << 20);
        // Without the thread nothing moves between the two counts below.
        config.background = false;
        let cache = Cache::new(config).unwrap();
        let bytes = vec![5; len];
        for i in 0..count {
            cache.set(&i.to_le_bytes(), &bytes).unwrap();
        }
        let stats = cache.stats();
        assert!(stats.evicted > 0, "{len}: {stats:?}");
        assert!(stats.charged_bytes <= stats.memory_bytes, "{len}");
        let found = (0..count).filter(|i| value(&cache, &i.to_le_bytes()).is_some());
        let found = found.count() as u64;
        assert_eq!(found, cache.len());
        assert!(
            found * len as u64 > (32 << 20) / 2,
            "{len}: {found} {stats:?}"
        );
        assert!(cache.contains(&(count - 1).to_le_bytes()));
        assert_eq!(stats.inserts, stats.evicted + cache.len());
    }
}

#[test]
fn shrinks_and_grows_at_run_time() {
    let mut config = Config::new(64 << 20);
    config.memory_max = Some(128 << 20);
    let cache = Cache::new(config).unwrap();
    let fill = || {
        for i in 0..200_000u32 {
            cache.set(&i.to_le_bytes(), &[5; 1000]).unwrap();
        }
        cache.stats()
    };
    let at_64 = fill();
    cache.set_memory(32 << 20).unwrap();
    let stats = cache.stats();
    assert!(stats.charged_bytes <= 32 << 20, "{stats:?}");
    assert!(stats.items < at_64.items * 6 / 10 && stats.items > at_64.items * 3 / 10);
    cache.set_memory(128 << 20).unwrap();
    let at_128 = fill();
    assert!(at_128.items > at_64.items * 18 / 10, "{at_128:?}");
    assert!(cache.set_memory(1 << 20).is_err());
    assert!(cache.set_memory(129 << 20).is_err());
}

#[test]
fn modes_do_not_remove_what_they_do_not_replace() {
    let cache = cache();
    cache.set(b"k", b"v").unwrap();
    let large = vec![0; cache.item_size_max() as usize + 1];
    let options = SetOptions {
        mode: Mode::Add,
        ..SetOptions::default()
    };
    assert!(cache.set_with(b"k", &large, &options).is_err());
    assert!(cache.contains(b"k"));
}

#[test]
fn walks_every_key_once() {
    let cache = cache();
    for i in 0..20_000u32 {
        cache.set(&i.to_le_bytes(), b"v").unwrap();
    }
    let mut keys: Vec<Vec<u8>> = cache.keys().collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 20_000);
    let removal = cache
        .remove_if(|key, _, _| key[0] % 2 == 0)
        .expect("a thread");
    assert_eq!(removal.join(), 10_000);
    assert_eq!(cache.len(), 10_000);
}

/// A touch leaves the version alone: an increment that has seen the item before must not undo it.
#[test]
fn increments_and_touches_keep_each_other() {
    const ROUNDS: u64 = 20_000;
    const START_MS: u64 = 1_800_000_000_000;
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.clock = clock;
    let cache = Cache::new(config).unwrap();
    let at = |n: u64| Expiry::AtMs(START_MS + (1000 + n) * 1000);
    let options = SetOptions {
        expiry: at(0),
        ..SetOptions::default()
    };
    cache.set_with(b"n", b"0", &options).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..ROUNDS {
                assert!(cache.incr(b"n", 1).unwrap().is_some());
            }
        });
        scope.spawn(|| {
            for n in 1..=ROUNDS {
                assert!(cache.touch(b"n", at(n)).unwrap());
                let expires = cache.peek(b"n", false).unwrap().expires_at_ms;
                assert_eq!(
                    expires,
                    Some(START_MS + (1000 + n) * 1000),
                    "touch {n} was undone"
                );
            }
        });
    });
    assert_eq!(value(&cache, b"n").unwrap(), ROUNDS.to_string().as_bytes());
}

#[test]
fn a_part_of_a_value_is_what_the_whole_has_there() {
    let cache = Cache::new(Config::new(64 << 20)).unwrap();
    let flags = SetOptions {
        flags: 7,
        ..SetOptions::default()
    };
    // Small, long in one piece, in several pieces; plain and with an option.
    for bytes in [0usize, 1, 100, 4000, 20_000, 700_000] {
        let value: Vec<u8> = (0..bytes).map(|i| (i * 31 + i / 256) as u8).collect();
        for options in [SetOptions::default(), flags] {
            cache.set_with(b"key", &value, &options).unwrap();
            for part in [
                0..0,
                0..8,
                5..5,
                3..90,
                50..4_000_000,
                19_990..600_010,
                700_000..700_001,
                800_000..usize::MAX,
            ] {
                let mut out = b"kept".to_vec();
                let meta = cache.get_part(b"key", part.clone(), &mut out).unwrap();
                assert_eq!(meta.value_bytes, bytes);
                assert_eq!(meta.flags, options.flags);
                let (from, end) = (part.start.min(bytes), part.end.min(bytes));
                assert_eq!(&out[4..], &value[from..end], "{bytes} {part:?}");
                assert_eq!(&out[..4], b"kept");
            }
        }
    }
    assert!(cache.get_part(b"none", 0..8, &mut Vec::new()).is_none());
}

/// The tables grow with `memory_max`: what is refused for them names what is enough.
#[test]
fn the_least_that_is_named_is_enough() {
    let mut config = Config::new(64 << 20);
    config.memory_max = Some(1 << 40);
    let Err(Error::Config(text)) = Cache::new(config.clone()) else {
        panic!("64 MiB hold no tables for 1 TiB");
    };
    let least = text.split("at least ").nth(1).expect("it names the least");
    config.memory = least.split(' ').next().unwrap().parse().expect("bytes");
    assert!(Cache::new(config).is_ok(), "{text}");
}

#[test]
fn a_removal_whose_test_panics_says_so() {
    let cache = cache();
    cache.set(b"k", b"v").unwrap();
    let removal = cache.remove_if(|_, _, _| panic!("of the test")).unwrap();
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| removal.join()));
    assert!(joined.is_err());
    assert!(cache.contains(b"k"));
}

#[test]
fn many_values_come_in_the_order_of_their_keys() {
    let cache = cache();
    let sizes = [0, 10, 5_000, 300_000];
    let name = |n: usize| format!("key {n}").into_bytes();
    for n in (0..200).filter(|n| n % 3 != 0) {
        cache.set(&name(n), &vec![n as u8; sizes[n % 4]]).unwrap();
    }
    let names: Vec<Vec<u8>> = (0..200).chain([1, 1]).map(name).collect();
    let keys: Vec<&[u8]> = names.iter().map(Vec::as_slice).collect();
    let one_by_one: Vec<_> = keys.iter().map(|key| value(&cache, key)).collect();
    assert_eq!(cache.get_all(&keys), one_by_one);
    assert!(cache.get_all(&[]).is_empty());
}

/// A cache whose budget leaves less than an extent over, which no segment can take, is as full as any other: it has
/// ghosts. (A rest of more than an eighth of a small cache counted as room, and some sizes never had them.)
#[test]
fn small_caches_of_every_size_remember_what_left() {
    for memory_kib in (16 << 10..20 << 10).step_by(256) {
        let mut config = Config::new(memory_kib << 10);
        (config.threads, config.background, config.seed) = (1, false, Some(1));
        let cache = Cache::new(config).expect("16 MiB are enough");
        let mut n = 0u64;
        while cache.stats().evicted < 10_000 {
            for _ in 0..1000 {
                cache.set(&n.to_le_bytes(), &[7; 400]).expect("room");
                n += 1;
            }
        }
        assert!(cache.stats().ghost_bytes > 0, "{memory_kib} KiB");
    }
}
