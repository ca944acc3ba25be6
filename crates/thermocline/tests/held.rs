//! Guards held for long: writes go on as long as what they hold is under the cap, and their bytes stay.

use std::time::Duration;
use thermocline::{Cache, Config, Error, Guard};

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
    // Three times what the cache holds: every segment that a guard holds is drained meanwhile.
    for n in FULL..4 * FULL {
        cache.set(&n.to_be_bytes(), &value(n)).unwrap();
    }
    assert!(cache.stats().condemned_bytes > 0);
    assert_eq!(cache.stats().refused_room, 0);
    for (n, guard) in &guards {
        assert!(*guard == *value(*n), "item {n}");
    }
}

#[test]
fn at_the_cap_writes_are_refused_and_come_back_when_guards_go() {
    let (cache, guards) = full_and_held(FULL, 5);
    let mut refused = 0;
    for n in FULL..2 * FULL {
        match cache.set(&n.to_be_bytes(), &value(n)) {
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
