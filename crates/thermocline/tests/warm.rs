//! Warm restart, whole: what a cache leaves is what the next one has, and nobody ever sees a value that is not the last
//! one stored. Killed processes: `warm_kill.rs`. `SEED=n` repeats a run.

mod torture;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thermocline::{Cache, CompressMode, Config, ExtentUse, PageMode, Start};
use torture::Random;

const MEMORY: u64 = 32 << 20;

/// A directory on tmpfs, gone at the end. None: this machine has none.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Option<Directory> {
        let path =
            Path::new("/dev/shm").join(format!("thermocline-warm-{name}-{}", std::process::id()));
        match fs::create_dir_all(&path) {
            Ok(()) => Some(Directory(path)),
            Err(error) => {
                println!("skipped: no tmpfs in /dev/shm: {error}");
                None
            }
        }
    }

    fn config(&self) -> Config {
        let mut config = Config::new(MEMORY);
        config.page_mode = PageMode::Shmem;
        config.memory_dir = Some(self.0.clone());
        config
    }

    fn open(&self) -> Cache {
        Cache::new(self.config()).expect("a cache")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn warm_items(cache: &Cache) -> u64 {
    match cache.start() {
        Start::Warm { items, .. } => *items,
        other => panic!("{other:?}"),
    }
}

fn cold_reason(cache: &Cache) -> String {
    match cache.start() {
        Start::ColdBecause(why) => why.clone(),
        other => panic!("{other:?}"),
    }
}

fn value(n: u32, bytes: usize) -> Vec<u8> {
    (0..bytes)
        .map(|i| (n as usize * 131 + i * 17) as u8)
        .collect()
}

/// Values of changing sizes over each other, in a cache full of them; each is read before it is replaced.
fn churn(cache: &Cache, random: &mut Random, last: &mut [(u32, usize)], operations: u32) {
    for _ in 0..operations {
        let n = random.below(last.len() as u64) as usize;
        let key = (n as u32).to_be_bytes();
        let (seed, bytes) = last[n];
        if let Some(found) = cache.get(&key) {
            assert!(found.to_vec() == value(seed, bytes), "item {n}");
        }
        let next = (seed + 1, 600 + random.below(14_000) as usize);
        let stored = cache.set(&key, &value(next.0, next.1));
        stored.expect("something can leave");
        last[n] = next;
    }
}

#[test]
fn dead_room_is_used_again_after_a_restart_too() {
    let Some(directory) = Directory::new("reuse") else {
        return;
    };
    let seed = torture::seeds(1)[0];
    println!("SEED={seed}");
    let mut random = Random::new(seed);
    let mut last = vec![(0, 0); 3_000];
    let cache = directory.open();
    churn(&cache, &mut random, &mut last, 30_000);
    let before = cache.stats().reused_bytes;
    cache.keep().expect("nobody else uses it");
    let cache = directory.open();
    assert!(warm_items(&cache) > 1_000);
    churn(&cache, &mut random, &mut last, 3_000);
    let after = cache.stats().reused_bytes;
    println!("{before} bytes reused before the restart, {after} after it");
    assert!(before > 0 && after > 0);
}

#[test]
fn everything_is_there_again_expiry_tokens_and_large_values_too() {
    let Some(directory) = Directory::new("all") else {
        return;
    };
    let cache = directory.open();
    assert_eq!(*cache.start(), Start::Cold);
    for n in 0..20_000u32 {
        cache
            .set(&n.to_be_bytes(), &value(n, (n % 700) as usize))
            .unwrap();
    }
    for n in 0..20_000u32 {
        // A third overwritten, a seventh gone.
        if n % 3 == 0 {
            cache
                .set(&n.to_be_bytes(), &value(n + 1, (n % 900) as usize))
                .unwrap();
        }
        if n % 7 == 0 {
            cache.delete(&n.to_be_bytes());
        }
    }
    cache.set(b"large", &value(5, 1_000_000)).unwrap();
    let token = cache.get(b"large").unwrap().meta().token;
    let before = cache.len();
    let kept = cache.keep().expect("nobody else uses it");
    assert_eq!(kept.items, before);

    let cache = directory.open();
    assert_eq!(warm_items(&cache), before);
    for n in 0..20_000u32 {
        let found = cache.get(&n.to_be_bytes()).map(|found| found.to_vec());
        let wanted = match (n % 7, n % 3) {
            (0, _) => None,
            (_, 0) => Some(value(n + 1, (n % 900) as usize)),
            _ => Some(value(n, (n % 700) as usize)),
        };
        assert!(found == wanted, "item {n}");
    }
    let large = cache.get(b"large").unwrap();
    assert!(large.to_vec() == value(5, 1_000_000));
    assert_eq!(large.meta().token, token);
    drop(large);
    // It works on: reclaim knows the old segments, the index grows from where it was.
    for n in 0..200_000u32 {
        cache
            .set(&n.to_le_bytes(), &value(n, 300))
            .expect("reclaim makes room");
    }
    let stats = cache.stats();
    assert!(
        stats.evicted > 0 && stats.charged_bytes <= stats.memory_bytes,
        "{stats:?}"
    );
    cache.keep().unwrap();
    assert!(warm_items(&directory.open()) > 10_000);
}

#[test]
fn broken_extents_are_taken_over_as_they_are() {
    let Some(directory) = Directory::new("team") else {
        return;
    };
    let mut config = directory.config();
    config.extent_use = ExtentUse::Team;
    config.collapse_percent = 0;
    let cache = Cache::new(config.clone()).unwrap();
    let large = |n: u32| value(n, 9_000);
    for n in 0..2_500u32 {
        cache.set(&n.to_be_bytes(), &large(n)).unwrap();
    }
    for n in (0..2_500u32).filter(|n| n % 10 < 4) {
        cache.delete(&n.to_be_bytes());
    }
    for n in 2_500..4_000u32 {
        cache.set(&n.to_be_bytes(), &large(n)).unwrap();
    }
    let until = std::time::Instant::now() + Duration::from_secs(20);
    while cache.pages().broken_bytes == 0 {
        assert!(std::time::Instant::now() < until, "{:?}", cache.pages());
        std::thread::sleep(Duration::from_millis(20));
    }
    let items = cache.keep().unwrap().items;
    for extent_use in [ExtentUse::Compound, ExtentUse::Team] {
        config.extent_use = extent_use;
        let cache = Cache::new(config.clone()).unwrap();
        assert_eq!(warm_items(&cache), items);
        let pages = cache.pages();
        assert!(pages.broken_bytes > 0, "{pages:?}");
        let stats = cache.stats();
        assert!(stats.charged_bytes <= stats.memory_bytes, "{stats:?}");
        for n in 0..4_000u32 {
            if let Some(found) = cache.get(&n.to_be_bytes()) {
                assert!(found == *large(n), "item {n}");
            }
        }
        assert_eq!(cache.len(), items);
        cache.keep().unwrap();
    }
}

#[test]
fn what_is_in_use_is_not_kept() {
    let Some(directory) = Directory::new("use") else {
        return;
    };
    let cache = directory.open();
    cache.set(b"large", &value(1, 500_000)).unwrap();
    let guard = cache.get(b"large").unwrap();
    let error = cache
        .clone()
        .keep()
        .expect_err("another handle")
        .to_string();
    assert!(error.contains("another handle"), "{error}");
    let error = cache.keep().expect_err("a guard").to_string();
    assert!(error.contains("a guard"), "{error}");
    assert!(
        guard.to_vec() == value(1, 500_000),
        "the guard's bytes stay"
    );
    drop(guard);
    let cache = directory.open();
    assert!(
        cold_reason(&cache).contains("killed early"),
        "{:?}",
        cache.start()
    );
    assert!(cache.get(b"large").is_none());
}

#[test]
fn another_size_or_seed_is_a_cold_start_that_says_so() {
    let Some(directory) = Directory::new("other") else {
        return;
    };
    let filled = |config: &Config| {
        let cache = Cache::new(config.clone()).unwrap();
        cache.set(b"k", b"v").unwrap();
        cache.keep().unwrap();
    };
    let cold = |change: &dyn Fn(&mut Config)| {
        filled(&directory.config());
        let mut config = directory.config();
        change(&mut config);
        let cache = Cache::new(config).unwrap();
        assert!(cache.get(b"k").is_none());
        cold_reason(&cache)
    };
    assert!(cold(&|c| c.memory = 2 * MEMORY).contains("memory is 67108864 and was 33554432"));
    assert!(cold(&|c| c.memory_max = Some(MEMORY)).contains("memory_max"));
    assert!(cold(&|c| c.marks = true).contains("marks"));
    assert!(cold(&|c| c.seed = Some(7)).contains("hash seed"));
    let mut seeded = directory.config();
    seeded.seed = Some(7);
    filled(&seeded);
    assert_eq!(warm_items(&Cache::new(seeded).unwrap()), 1);
}

#[test]
fn damaged_books_are_never_believed() {
    let Some(directory) = Directory::new("damage") else {
        return;
    };
    let file = directory.0.join("thermocline.memory");
    let seed = torture::seeds(1)[0];
    let mut random = Random::new(seed);
    let kept = || {
        let cache = directory.open();
        for n in 0..2000u32 {
            cache.set(&n.to_be_bytes(), &value(n, 100)).unwrap();
        }
        cache.keep().unwrap();
    };
    kept();
    let whole = fs::metadata(&file).unwrap().len();
    for round in 0..30 {
        // The books lie behind the regions: in the file's last extents. The header is its first page.
        use std::os::unix::fs::FileExt;
        let opened = fs::File::options()
            .read(true)
            .write(true)
            .open(&file)
            .unwrap();
        let at = match round % 3 {
            0 => random.below(112),
            1 => whole - (2 << 20) + random.below(20_000),
            _ => {
                opened.set_len(whole - 1 - random.below(3 << 20)).unwrap();
                0
            }
        };
        let mut byte = [0];
        opened.read_at(&mut byte, at).unwrap();
        opened
            .write_at(&[byte[0] ^ (1 + random.below(255) as u8)], at)
            .unwrap();
        drop(opened);
        let cache = directory.open();
        // Bytes of the header that mean nothing, and the seed's own, may be any.
        for n in 0..2000u32 {
            if let Some(found) = cache.get(&n.to_be_bytes()) {
                assert!(
                    found == *value(n, 100),
                    "seed {seed}, round {round}, item {n}"
                );
            }
        }
        drop(cache);
        kept();
    }
}

#[test]
fn a_compressed_cache_says_why_it_is_cold() {
    let Some(directory) = Directory::new("coded") else {
        return;
    };
    let cache = directory.open();
    cache.set(b"k", b"v").unwrap();
    cache.keep().unwrap();
    let mut config = directory.config();
    config.compress = CompressMode::On;
    let cache = Cache::new(config).unwrap();
    assert!(
        cold_reason(&cache).contains("compress"),
        "{:?}",
        cache.start()
    );
    assert!(cache.get(b"k").is_none());
    let error = cache.keep().expect_err("it is not kept").to_string();
    assert!(error.contains("without compression"), "{error}");
}
