//! Team use of extents, whole: dead bytes go back while their neighbours stay, are charged no more, and come again.
//!
//! With base pages and with shared memory, so that what is resident can be read back to the page.

use std::time::{Duration, Instant};
use thermocline::{Cache, Config, Error, ExtentUse, PageMode, Pages};

const MEMORY: u64 = 64 << 20;
const VALUE: usize = 20_000;

fn config(mode: PageMode, extent_use: ExtentUse) -> Config {
    let mut config = Config::new(MEMORY);
    config.page_mode = mode;
    config.extent_use = extent_use;
    // What is made huge would be resident again in whole.
    config.collapse_percent = 0;
    config
}

fn value(n: u32) -> Vec<u8> {
    let byte = |i: usize| (n as usize * 31 + i * 7) as u8;
    (0..VALUE).map(byte).collect()
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

/// Full, with two of three items deleted in runs too short to empty a segment.
fn full_of_holes(cache: &Cache) -> u32 {
    let items = (MEMORY as usize * 8 / 10 / VALUE) as u32;
    for n in 0..items {
        cache.set(&key(n), &value(n)).expect("room");
    }
    for n in 0..items {
        if dies(n) {
            assert!(cache.delete(&key(n)), "item {n}");
        }
    }
    items
}

/// Four in ten: less than what has a segment compacted.
fn dies(n: u32) -> bool {
    n % 10 < 4
}

/// New items, as many as the holes hold, so that the budget is used up.
fn refill(cache: &Cache, items: u32) -> u32 {
    let more = items / 2;
    for n in items..items + more {
        cache.set(&key(n), &value(n)).expect("room");
    }
    items + more
}

fn check(cache: &Cache, items: std::ops::Range<u32>) -> u32 {
    let mut there = 0;
    for n in items {
        if let Some(found) = cache.get(&key(n)) {
            assert!(found == *value(n), "item {n} is another");
            there += 1;
        }
    }
    there
}

fn wait(cache: &Cache, what: &str, mut until: impl FnMut(&Pages) -> bool) -> Pages {
    let begin = Instant::now();
    loop {
        let pages = cache.pages();
        if until(&pages) {
            return pages;
        }
        assert!(
            begin.elapsed() < Duration::from_secs(30),
            "{what}: {pages:?} {:?}",
            cache.stats()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn gives_back_and_mends(mode: PageMode, extent_use: ExtentUse) {
    let cache = Cache::new(config(mode, extent_use)).unwrap();
    let items = full_of_holes(&cache);
    let all = refill(&cache, items);
    let pages = wait(&cache, "nothing is given back", |pages| {
        pages.released_bytes > 1 << 20
    });
    assert!(
        pages.broken_extents > 0 && pages.broken_bytes > 0,
        "{pages:?}"
    );
    let stats = cache.stats();
    assert!(stats.charged_bytes <= stats.memory_bytes, "{stats:?}");
    // The kernel agrees: what is charged to segments and index is all that is resident of them.
    let resident = pages.bytes.expect("smaps is readable").resident;
    assert!(
        resident <= stats.charged_bytes + (2 << 20),
        "{resident} resident, {} charged: {pages:?}",
        stats.charged_bytes
    );
    let live = check(&cache, 0..items) + check(&cache, items..all);
    println!("{mode:?} {extent_use:?}: {live} of {all} there, {pages:?}");
    // A budget twice as large: nothing has to be broken any more, and what is becomes whole.
    cache.set_memory(2 * MEMORY).unwrap();
    let pages = wait(&cache, "nothing is mended", |pages| {
        pages.broken_extents == 0
    });
    assert!(pages.mended > 0, "{pages:?}");
    assert_eq!(check(&cache, 0..all), live, "mending loses nothing");
    // Down to a third: whole extents go back, broken ones too.
    cache.set_memory(MEMORY / 2).unwrap();
    check(&cache, 0..all);
    let stats = cache.stats();
    assert!(stats.charged_bytes <= stats.memory_bytes, "{stats:?}");
}

#[test]
fn base_pages_are_given_back_in_runs_of_4_kib() {
    gives_back_and_mends(PageMode::Base, ExtentUse::Team);
}

#[test]
fn shared_memory_is_given_back_in_runs_of_4_kib() {
    gives_back_and_mends(PageMode::Shmem, ExtentUse::Team);
}

#[test]
fn longer_runs_only_if_asked() {
    let cache = Cache::new(config(PageMode::Base, ExtentUse::Team64K)).unwrap();
    let items = full_of_holes(&cache);
    refill(&cache, items);
    let pages = wait(&cache, "nothing is given back", |pages| {
        pages.released_bytes > 0
    });
    assert!(
        pages.broken_bytes / pages.broken_extents.max(1) >= 60 << 10,
        "{pages:?}"
    );
}

#[test]
fn compound_use_breaks_nothing() {
    let cache = Cache::new(config(PageMode::Base, ExtentUse::Compound)).unwrap();
    let items = full_of_holes(&cache);
    refill(&cache, items);
    std::thread::sleep(Duration::from_millis(300));
    let pages = cache.pages();
    assert_eq!((pages.broken_extents, pages.released_bytes), (0, 0));
}

#[test]
fn pages_of_a_pool_are_not_given_back_in_parts() {
    for mode in [PageMode::Hugetlb2M, PageMode::Hugetlb1G] {
        match Cache::new(config(mode, ExtentUse::Team)) {
            Err(Error::Config(text)) => assert!(text.contains("extent_use = team"), "{text}"),
            other => panic!("{other:?}"),
        }
    }
    let auto = Cache::new(config(PageMode::Auto, ExtentUse::Team)).unwrap();
    assert!(!matches!(
        auto.page_mode(),
        PageMode::Hugetlb2M | PageMode::Hugetlb1G
    ));
}

#[test]
fn a_guard_keeps_its_bytes() {
    let cache = Cache::new(config(PageMode::Base, ExtentUse::Team)).unwrap();
    let items = (MEMORY as usize * 8 / 10 / VALUE) as u32;
    for n in 0..items {
        cache.set(&key(n), &value(n)).expect("room");
    }
    // In few segments: what guards keep is not free, and a cache that is held all over refuses writes.
    let guards: Vec<_> = (0..items / 32)
        .filter(|&n| dies(n) && n % 10 == 0)
        .map(|n| (n, cache.get(&key(n)).expect("it is there")))
        .collect();
    for n in (0..items).filter(|&n| dies(n)) {
        cache.delete(&key(n));
    }
    refill(&cache, items);
    std::thread::sleep(Duration::from_millis(500));
    for (n, guard) in &guards {
        assert!(*guard == *value(*n), "item {n}");
    }
}
