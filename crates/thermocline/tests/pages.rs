//! Page modes, whole: a cache in each mode is filled, read back, shrunk, and says which pages the kernel gave.
//!
//! Modes the machine cannot give are skipped with a reason; the hugetlb tests need root, grow the pool by a few
//! pages and put it back as it was.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use thermocline::{Cache, Config, Error, PageMode, Pages};

const MEMORY: u64 = 64 << 20;
const VALUE: usize = 1000;

fn config(mode: PageMode) -> Config {
    let mut config = Config::new(MEMORY);
    config.page_mode = mode;
    config
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

fn value(n: u32) -> Vec<u8> {
    (0..VALUE)
        .map(|i| (n as usize * 31 + i * 7) as u8)
        .collect()
}

/// Fills the cache half, so that nothing has to go, and reads everything back.
fn fill(cache: &Cache) -> u32 {
    let items = (MEMORY as usize / 2 / VALUE) as u32;
    for n in 0..items {
        cache.set(&key(n), &value(n)).expect("room for all");
    }
    check(cache, items);
    items
}

fn check(cache: &Cache, items: u32) {
    for n in 0..items {
        let found = cache
            .get(&key(n))
            .unwrap_or_else(|| panic!("item {n} is gone"));
        assert!(found == *value(n), "item {n} is another");
    }
}

fn coverage(pages: &Pages) -> f64 {
    pages.bytes.expect("smaps is readable").coverage_percent()
}

fn made(config: Config) -> Option<Cache> {
    match Cache::new(config) {
        Ok(cache) => Some(cache),
        Err(Error::Config(text)) => {
            println!("skipped: {text}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn base_pages_are_small() {
    let cache = Cache::new(config(PageMode::Base)).unwrap();
    fill(&cache);
    let pages = cache.pages();
    assert_eq!(coverage(&pages), 0.0, "{pages:?}");
    assert_eq!(pages.mode, PageMode::Base);
    assert!(pages.bytes.unwrap().resident > MEMORY / 2);
}

#[test]
fn transparent_huge_pages_cover_what_is_resident() {
    let Some(cache) = made(config(PageMode::Thp)) else {
        return;
    };
    fill(&cache);
    let pages = cache.pages();
    let free = free_memory_is_whole();
    println!("coverage {:.1} %", coverage(&pages));
    assert!(coverage(&pages) > 90.0 || !free, "{pages:?}");
}

/// Whether the machine has huge pages to give without moving others'.
fn free_memory_is_whole() -> bool {
    let text = fs::read_to_string("/proc/buddyinfo").unwrap_or_default();
    let tail = |line: &str| -> u64 {
        let counts: Vec<u64> = line
            .split_whitespace()
            .filter_map(|w| w.parse().ok())
            .collect();
        counts.iter().rev().take(2).sum()
    };
    text.lines().map(tail).sum::<u64>() > 100
}

#[test]
fn auto_is_never_refused() {
    let cache = Cache::new(config(PageMode::Auto)).unwrap();
    fill(&cache);
    let pages = cache.pages();
    assert_eq!(pages.asked, PageMode::Auto);
    assert_ne!(pages.mode, PageMode::Auto);
}

/// Waits until most of what is resident has been made huge, values untouched.
fn becomes_huge(cache: &Cache, items: u32) {
    let until = Instant::now() + Duration::from_secs(20);
    while coverage(&cache.pages()) < 60.0 {
        let collapse = cache.pages().collapse;
        if Instant::now() > until {
            assert!(
                collapse.failed > 0 || collapse.collapsed > 0,
                "nothing was tried"
            );
            return println!("skipped: this machine is too slow to collapse: {collapse:?}");
        }
        check(cache, items);
    }
    check(cache, items);
    let collapse = cache.pages().collapse;
    assert!(
        collapse.collapsed > 0 && collapse.stall_us > 0,
        "{collapse:?}"
    );
    assert_eq!(
        collapse.stalls.iter().sum::<u64>(),
        collapse.collapsed + collapse.failed
    );
}

#[test]
fn small_pages_become_huge_under_readers() {
    let mut config = config(PageMode::Collapse);
    config.collapse_percent = 50;
    let Some(cache) = made(config) else { return };
    let items = fill(&cache);
    becomes_huge(&cache, items);
}

#[test]
fn nameless_shared_memory_works_and_becomes_huge() {
    let mut config = config(PageMode::Shmem);
    config.collapse_percent = 50;
    let cache = Cache::new(config).unwrap();
    let items = fill(&cache);
    becomes_huge(&cache, items);
    cache.set_memory(MEMORY / 2).expect("memory goes back");
    let resident = cache.pages().bytes.unwrap().resident;
    assert!(resident <= MEMORY / 2, "{resident}");
}

struct Directory(PathBuf);

impl Directory {
    fn on(parent: &str, name: &str) -> Directory {
        let path = Path::new(parent).join(format!("thermocline-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory for the test");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_file_of_memory_is_for_one_cache_alone() {
    if !Path::new("/dev/shm").is_dir() {
        return println!("skipped: no /dev/shm");
    }
    let directory = Directory::on("/dev/shm", "alone");
    let mut config = config(PageMode::Shmem);
    config.memory_dir = Some(directory.0.clone());
    let cache = Cache::new(config.clone()).unwrap();
    fill(&cache);
    let error = Cache::new(config.clone())
        .expect_err("it is in use")
        .to_string();
    assert!(error.contains("in use by another process"), "{error}");
    drop(cache);
    fill(&Cache::new(config).unwrap());
}

#[test]
fn a_file_system_smaller_than_the_cache_is_refused() {
    let Some(whole) = file_system_bytes("/dev/shm") else {
        return println!("skipped: no /dev/shm of limited size");
    };
    let directory = Directory::on("/dev/shm", "small");
    let mut config = config(PageMode::Shmem);
    config.memory_dir = Some(directory.0.clone());
    config.memory = whole + (64 << 20);
    let early = config.check_memory_file().expect_err("known beforehand");
    let error = Cache::new(config).expect_err("it does not fit").to_string();
    assert_eq!(early.to_string(), error);
    let wanted = format!(
        "the file system of {} holds {} MiB",
        directory.0.display(),
        whole >> 20
    );
    assert!(error.contains(&wanted), "{error}");
    assert!(error.contains("or lower memory"), "{error}");
}

/// Bytes that a mounted file system holds, as `df` has it. None: it is not there, or has no limit.
fn file_system_bytes(mounted_at: &str) -> Option<u64> {
    let df = std::process::Command::new("df")
        .args(["-B1", "--output=size", mounted_at])
        .output()
        .ok()?;
    let text = String::from_utf8(df.stdout).ok()?;
    text.lines().last()?.trim().parse().ok().filter(|&n| n > 0)
}

#[test]
fn settings_that_contradict_are_refused_by_name() {
    let refusal = |change: fn(&mut Config)| {
        let mut config = config(PageMode::Thp);
        change(&mut config);
        Cache::new(config).expect_err("refused").to_string()
    };
    assert!(refusal(|c| c.collapse_percent = 51).contains("collapse_percent = 51"));
    assert!(refusal(|c| c.memory_dir = Some("/dev/shm".into())).contains("page_mode is thp"));
    let error = refusal(|c| {
        c.page_mode = PageMode::Shmem;
        c.memory_dir = Some("/proc".into());
    });
    assert!(error.contains("/proc/"), "{error}");
}

#[test]
fn memory_touched_ahead_is_used_by_items_and_index() {
    let cache = Cache::new(config(PageMode::Base)).unwrap();
    let (mut calls, mut last) = (0, (0, 0));
    let touched = cache.prefault(&mut |done, of| {
        calls += 1;
        last = (done, of);
    });
    assert_eq!(last, (touched, touched));
    assert_eq!(calls, touched >> 21);
    assert!(touched > MEMORY * 3 / 4, "{touched}");
    let resident = cache.pages().bytes.unwrap().resident;
    assert!(resident >= touched, "{resident}");
    fill(&cache);
    // Small items want more index than the 16th that was left to it.
    for n in 0..1_000_000u32 {
        cache
            .set(&n.to_le_bytes(), b"small")
            .expect("the index gets room");
    }
    let stats = cache.stats();
    assert!(
        stats.index_bytes > MEMORY / 16 && stats.charged_bytes <= MEMORY,
        "{stats:?}"
    );
}

/// The pool of one page size, made to hold so many free pages for a test and put back.
struct Pool {
    knob: PathBuf,
    before: u64,
    _alone: std::sync::MutexGuard<'static, ()>,
}

static POOL: Mutex<()> = Mutex::new(());

impl Pool {
    fn with_free(size: &str, pages: u64) -> Option<Pool> {
        let alone = POOL.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let directory = PathBuf::from(format!("/sys/kernel/mm/hugepages/hugepages-{size}"));
        let count = |name: &str| -> Option<u64> {
            let text = fs::read_to_string(directory.join(name)).ok()?;
            text.trim().parse().ok()
        };
        let knob = directory.join("nr_hugepages");
        let (before, free) = (count("nr_hugepages")?, count("free_hugepages")?);
        if let Err(error) = fs::write(&knob, (before - free + pages).to_string()) {
            println!("skipped: {}: {error}", knob.display());
            return None;
        }
        let pool = Pool {
            knob,
            before,
            _alone: alone,
        };
        let got = count("free_hugepages")?;
        if got != pages {
            println!("skipped: asked for {pages} free pages of {size} the kernel has {got}");
            return None;
        }
        Some(pool)
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let _restored = fs::write(&self.knob, self.before.to_string());
    }
}

#[test]
fn the_pool_gives_huge_pages_and_gets_them_back() {
    let Some(_pool) = Pool::with_free("2048kB", 100) else {
        return;
    };
    let Some(cache) = made(config(PageMode::Hugetlb2M)) else {
        return;
    };
    let items = fill(&cache);
    let pages = cache.pages();
    let bytes = pages.bytes.unwrap();
    assert!(bytes.hugetlb > MEMORY / 2, "{pages:?}");
    assert_eq!(
        bytes.hugetlb + pages.ordinary_bytes,
        bytes.resident,
        "{pages:?}"
    );
    cache.set_memory(MEMORY / 2).expect("pages go back");
    assert!(cache.pages().bytes.unwrap().hugetlb <= MEMORY / 2);
    cache.set_memory(MEMORY).unwrap();
    for n in 0..items {
        cache.set(&key(n), &value(n)).expect("pages come again");
    }
    check(&cache, items);
}

#[test]
fn a_pool_that_runs_dry_kills_nobody() {
    let Some(_pool) = Pool::with_free("2048kB", 36) else {
        return;
    };
    // Each of the two may have what the pool holds; together they want twice as much.
    let caches = [
        made(config(PageMode::Hugetlb2M)),
        made(config(PageMode::Hugetlb2M)),
    ];
    let [Some(first), Some(second)] = caches else {
        return;
    };
    let items = [fill(&first), fill(&second)];
    let ordinary = first.pages().ordinary_bytes + second.pages().ordinary_bytes;
    assert!(ordinary > 0, "{:?}", (first.pages(), second.pages()));
    let error = Cache::new(config(PageMode::Hugetlb2M))
        .expect_err("the pool is empty")
        .to_string();
    assert!(error.contains("vm.nr_hugepages="), "{error}");
    check(&first, items[0]);
    check(&second, items[1]);
    drop(first);
    second
        .set_memory(MEMORY / 2)
        .expect("ordinary memory goes back, too");
}

#[test]
fn gigantic_pages_are_taken_whole_and_kept() {
    let Some(_pool) = Pool::with_free("1048576kB", 1) else {
        return;
    };
    let mut config = config(PageMode::Hugetlb1G);
    config.memory = 1300 << 20;
    let Some(cache) = made(config) else { return };
    let pages = cache.pages();
    assert!(pages.bytes.unwrap().hugetlb == 1 << 30, "{pages:?}");
    let items = 400_000;
    for n in 0..items {
        cache.set(&key(n), &value(n)).expect("room for all");
    }
    check(&cache, items);
    let error = cache.set_memory(1 << 30).expect_err("fixed").to_string();
    assert!(error.contains("hugetlb-1g the budget is fixed"), "{error}");
    // Far more than fits: reclaim works within the pages there are.
    for n in items..3 * items {
        cache.set(&key(n), &value(n)).expect("reclaim makes room");
    }
    let stats = cache.stats();
    assert!(
        stats.evicted > 0 && stats.charged_bytes <= stats.memory_bytes,
        "{stats:?}"
    );
}
