//! A value over a third of the cache: let in at once while there is room for all, later when it comes back soon.

use thermocline::{Cache, Config, Error, Objective};

const MEMORY: usize = 32 << 20;

fn cache() -> Cache {
    let mut config = Config::new(MEMORY as u64);
    config.item_size_max = Some(MEMORY as u64 / 2);
    // By the others' size weighs: it must come back the sooner the larger it is.
    config.objective = Objective::Bytes;
    config.background = false;
    config.threads = 1;
    config.seed = Some(7);
    Cache::new(config).unwrap()
}

fn fill(cache: &Cache, from: u32, count: u32) {
    for n in from..from + count {
        cache.set(&n.to_le_bytes(), &[3; 2000]).unwrap();
    }
}

#[test]
fn an_empty_cache_takes_half_of_itself_at_once() {
    let cache = cache();
    let half = vec![9; MEMORY / 2];
    cache.set(b"half", &half).unwrap();
    assert!(cache.get(b"half").unwrap().to_vec() == half);
    assert_eq!(cache.stats().evicted, 0);
}

#[test]
fn a_full_one_takes_it_when_it_comes_back() {
    let cache = cache();
    fill(&cache, 0, 40_000);
    let before = cache.stats();
    assert!(before.evicted > 0, "it is full");
    let large = vec![9; MEMORY * 2 / 5];
    let refused = cache.set(b"large", &large);
    assert!(matches!(refused, Err(Error::NoRoom)), "{refused:?}");
    let after = cache.stats();
    assert_eq!(after.evicted, before.evicted, "nobody left for it");
    assert_eq!(after.refused_room, before.refused_room + 1);
    assert!(!cache.contains(b"large"));
    cache.set(b"large", &large).unwrap();
    fill(&cache, 100_000, 500);
    assert!(
        cache.get(b"large").unwrap().to_vec() == large,
        "and keeps it"
    );
    // What lies there is written over without being asked for again.
    let other = vec![8; MEMORY * 2 / 5];
    cache.set(b"large", &other).unwrap();
    assert!(cache.get(b"large").unwrap().to_vec() == other);
    assert!(cache.stats().charged_bytes <= MEMORY as u64);
}

#[test]
fn a_quarter_of_the_memory_is_never_refused() {
    let cache = cache();
    fill(&cache, 0, 40_000);
    for n in 0..20u8 {
        cache.set(&[n; 9], &vec![n; MEMORY / 4]).unwrap();
        assert!(cache.contains(&[n; 9]));
    }
}
