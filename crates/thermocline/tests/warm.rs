//! Warm restart, whole: what a cache leaves is what the next one has; what was killed leaves nothing; nobody ever sees
//! a value that is not the last one stored.
//!
//! `ROUNDS=200` lets the kill test run longer; `SEED=n` repeats one.

mod torture;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;
use thermocline::{Cache, Config, PageMode, Start};
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

const CHILD: &str = "THERMOCLINE_WARM_CHILD";

/// What a round does, the same for who does it and who checks it.
fn play(round: u64, mut apply: impl FnMut(u32, Option<Vec<u8>>)) {
    let mut random = Random::new(round * 7919 + 1);
    for step in 0..3000u32 {
        let key = random.below(5000) as u32;
        let bytes = if random.one_in(100) {
            60_000
        } else {
            random.below(1500) as usize
        };
        let new = (!random.one_in(10)).then(|| value(key ^ step ^ (round as u32) << 12, bytes));
        apply(key, new);
    }
}

/// One process's life: attach, check against what the rounds since the last cold start have done, do a round, keep.
#[test]
#[ignore = "the child of the kill test"]
fn the_child() {
    let Ok(task) = std::env::var(CHILD) else {
        return;
    };
    let mut words = task.split_whitespace();
    let directory = PathBuf::from(words.next().unwrap());
    let mut numbers = words.map(|word| word.parse::<u64>().unwrap());
    let round = numbers.next().unwrap();
    let applied: Vec<u64> = numbers.collect();
    let mut config = Config::new(MEMORY);
    config.page_mode = PageMode::Shmem;
    config.memory_dir = Some(directory);
    let cache = Cache::new(config).expect("a cache");
    let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
    let warm = matches!(cache.start(), Start::Warm { .. });
    if warm {
        for &earlier in &applied {
            play(earlier, |key, new| match new {
                Some(new) => drop(model.insert(key, new)),
                None => drop(model.remove(&key)),
            });
        }
    }
    println!("START {}", if warm { "warm" } else { "cold" });
    let mut there = 0;
    for key in 0..5000u32 {
        let found = cache.get(&key.to_be_bytes()).map(|found| found.to_vec());
        if let Some(found) = found {
            assert!(
                model.get(&key) == Some(&found),
                "round {round}: key {key} is wrong"
            );
            there += 1;
        }
    }
    // Nothing had to be evicted: all of it is there.
    assert!(
        there * 1000 >= model.len() * 999,
        "round {round}: {there} of {}",
        model.len()
    );
    let mut steps = 0;
    play(round, |key, new| {
        match new {
            Some(new) => cache.set(&key.to_be_bytes(), &new).expect("room"),
            None => {
                cache.delete(&key.to_be_bytes());
            }
        }
        steps += 1;
        match steps % 1000 {
            // Shrinking and growing between, so that a kill may fall into them. What is live fits the smaller.
            300 => cache.set_memory(MEMORY - (6 << 20)).expect("it fits"),
            600 => cache.set_memory(MEMORY).expect("it fits"),
            900 => cache.sweep(),
            _ => {}
        }
    });
    cache.keep().expect("nobody else uses it");
    println!("KEPT");
}

#[test]
fn killed_at_any_moment_it_is_cold_or_right() {
    let Some(directory) = Directory::new("kill") else {
        return;
    };
    let rounds: u64 = std::env::var("ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(40);
    let seed = torture::seeds(1)[0];
    let mut random = Random::new(seed);
    let program = std::env::current_exe().unwrap();
    let (mut warm, mut killed) = (0, 0);
    // The rounds whose work is in the memory, if the next start is a warm one.
    let mut applied: Vec<u64> = Vec::new();
    for round in 0..rounds {
        let list: Vec<String> = applied.iter().map(u64::to_string).collect();
        let task = format!("{} {round} {}", directory.0.display(), list.join(" "));
        let mut child = Command::new(&program)
            .args(["--exact", "the_child", "--nocapture", "--ignored"])
            .env(CHILD, task)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child process");
        let kill = !random.one_in(3);
        if kill {
            std::thread::sleep(Duration::from_micros(random.below(150_000)));
            let _ended_already = child.kill();
            killed += 1;
        }
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            !errors.contains("panicked"),
            "SEED={seed}, round {round}: {text}{errors}"
        );
        assert!(
            kill || text.contains("KEPT"),
            "SEED={seed}, round {round}: {text}{errors}"
        );
        // Killed before it said how it started, it has changed nothing: the next one is as this one would have been,
        // or cold. Killed later, the next is cold, or this one had come to its end.
        if text.contains("START cold") {
            applied = vec![round];
        } else if text.contains("START warm") {
            applied.push(round);
            warm += 1;
        }
    }
    println!("{rounds} rounds, {killed} killed, {warm} warm starts");
    assert!(
        warm > 0 && killed > 0,
        "SEED={seed}: {rounds} rounds, {warm} warm"
    );
}
