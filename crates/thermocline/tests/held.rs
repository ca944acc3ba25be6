//! Guards and half-written values kept for long: reclaim passes over the segments they keep, and writes go on as long as
//! there are others. Their bytes stay.

mod torture;

use std::time::Duration;
use thermocline::{Cache, CompressMode, Config, Error, Guard, SetOptions, Writer};
use torture::{bytes_of, text_of};

const MEMORY: u64 = 64 << 20;
/// Held by where it lies, not copied.
const VALUE: usize = 20_000;
const FULL: u32 = (MEMORY as usize * 8 / 10 / VALUE) as u32;

fn value(n: u32) -> Vec<u8> {
    (0..VALUE)
        .map(|i| (n as usize * 31 + i * 7) as u8)
        .collect()
}

/// A full cache, and guards on one in `every` of its first `among` items.
fn full_and_held(among: u32, every: u32) -> (Cache, Vec<(u32, Guard)>) {
    let cache = Cache::new(Config::new(MEMORY)).unwrap();
    for n in 0..FULL {
        cache.set(&n.to_be_bytes(), &value(n)).unwrap();
    }
    let held = (0..among).filter(|n| n % every == 0);
    let guards = held.map(|n| (n, cache.get(&n.to_be_bytes()).unwrap()));
    let guards = guards.collect();
    (cache, guards)
}

#[test]
fn a_few_guards_stop_no_writer() {
    let (cache, guards) = full_and_held(84, 10);
    // Three times what the cache holds: the turn of every segment that a guard holds comes meanwhile.
    for n in FULL..4 * FULL {
        cache.set(&n.to_be_bytes(), &value(n)).unwrap();
    }
    assert!(cache.held_bytes() > 0);
    assert_eq!(cache.stats().refused_room, 0);
    for (n, guard) in &guards {
        assert!(*guard == *value(*n), "item {n}");
    }
}

#[test]
fn when_all_is_held_writes_are_refused_and_come_back_when_guards_go() {
    let (cache, mut guards) = full_and_held(FULL, 5);
    let mut refused = 0;
    for n in FULL..2 * FULL {
        match cache.set(&n.to_be_bytes(), &value(n)) {
            Ok(()) if n % 5 == 0 => {
                guards.extend(cache.get(&n.to_be_bytes()).map(|guard| (n, guard)))
            }
            Ok(()) => {}
            Err(Error::NoRoom) => {
                refused += 1;
                if refused == 3 {
                    break;
                }
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 0, "guards on every segment, yet none refused");
    let cap = MEMORY / 8;
    let condemned = cache.stats().condemned_bytes;
    assert!(
        condemned <= cap + (1 << 20),
        "{condemned} condemned, cap {cap}"
    );
    for (n, guard) in &guards {
        assert!(*guard == *value(*n), "item {n}");
    }
    drop(guards);
    std::thread::sleep(Duration::from_millis(20));
    for n in 2 * FULL..3 * FULL {
        cache.set(&n.to_be_bytes(), &value(n)).unwrap();
    }
}

/// A cache that nobody works for in the background.
fn quiet_cache(memory: u64) -> Cache {
    let mut config = Config::new(memory);
    config.background = false;
    Cache::new(config).expect("a cache")
}

fn set(cache: &Cache, number: usize, bytes: usize) {
    let value = vec![number as u8; bytes];
    cache
        .set(format!("key{number}").as_bytes(), &value)
        .unwrap_or_else(|error| panic!("set {number}: {error}: {:?}", cache.stats()));
}

/// Guards on a third of the cache, as clients that read slowly hold: twice what may be condemned.
#[test]
fn guards_on_a_third_of_the_cache_stop_nobody() {
    let cache = quiet_cache(32 << 20);
    let mut held: Vec<(usize, Guard)> = Vec::new();
    for number in 0..1000 {
        set(&cache, number, 40_000);
        if number % 10 == 0 && held.len() < 80 {
            let key = format!("key{number}");
            held.push((number, cache.get(key.as_bytes()).expect("just stored")));
        }
    }
    for number in 1000..10_000 {
        set(&cache, number, 40_000);
    }
    let stats = cache.stats();
    assert!(stats.evicted > 8000 && stats.refused_room == 0, "{stats:?}");
    assert!(cache.held_bytes() > 8 << 20, "{}", cache.held_bytes());
    for (number, guard) in &held {
        assert!(guard.as_slice().iter().all(|&byte| byte == *number as u8));
    }
    assert_eq!(held.len(), 80);
}

/// Values of which the first bytes have come, one in each of a third of the segments.
#[test]
fn half_written_values_stop_nobody() {
    let cache = quiet_cache(32 << 20);
    let mut half: Vec<Writer> = Vec::new();
    for number in 0..10_000 {
        set(&cache, number, 40_000);
        if number % 10 == 0 && half.len() < 40 {
            let options = SetOptions::default();
            let key = format!("half{number}");
            let writer = cache.write(key.as_bytes(), 900_000, &options);
            let mut writer = writer.expect("it is not too large");
            writer.write(&[7; 100]).expect("room for the first piece");
            half.push(writer);
        }
    }
    assert_eq!(cache.stats().refused_room, 0);
    for mut writer in half {
        writer.write(&vec![7; writer.remaining()]).expect("room");
        assert!(writer.commit().expect("room").is_stored());
    }
}

/// A value that streams in holds its own segments. Where probation has no others, main gives the room.
#[test]
fn a_value_larger_than_probation_is_stored() {
    for fresh_min in [None, Some(0)] {
        let mut config = Config::new(MEMORY);
        config.background = false;
        config.threads = 1;
        config.fresh_min = fresh_min;
        let cache = Cache::new(config).unwrap();
        for n in 0..100_000u32 {
            let key = n.to_be_bytes();
            cache.set(&key, &[7; 1000]).unwrap();
            assert!(cache.contains(&key) && cache.get(&key).is_some() && cache.get(&key).is_some());
        }
        let large = vec![9; MEMORY as usize / 8];
        for n in 0..10u8 {
            cache.set(&[n], &large).expect("an eighth is not too large");
        }
        assert_eq!(cache.stats().refused_room, 0);
    }
}

/// The same where most of the cache lies compressed: the value is larger than hot, and while it streams in, and then under a
/// guard, it keeps all that hot has. The compressed tier gives the room.
#[test]
fn a_value_larger_than_hot_is_stored_and_may_be_held() {
    let mut config = Config::new(32 << 20);
    (config.compress, config.threads) = (CompressMode::On, 1);
    let cache = Cache::new(config).expect("a cache");
    let small = |from: u32| {
        for n in from..from + 150_000 {
            let stored = cache.set(&n.to_be_bytes(), &text_of(n.into(), 600));
            stored.unwrap_or_else(|error| panic!("{n}: {error}: {:?}", cache.stats()));
        }
    };
    small(0);
    let large = bytes_of(1, 4_000_000);
    for n in 0..5u8 {
        cache.set(&[n], &large).expect("an eighth is not too large");
    }
    let guard = cache.get(&[4]).expect("it was stored");
    small(150_000);
    small(300_000);
    assert_eq!(cache.stats().refused_room, 0);
    assert!(cache.tiers().compressed_used_bytes > 8 << 20);
    assert!(guard == large[..] && cache.held_bytes() >= 4_000_000);
}
