//! What page modes are worth: dependent random gets of 1 KiB values in each mode, with the coverage the kernel tells;
//! and how long a warm restart takes.
//!
//! `cargo run --release --example page_modes -- 8192 base thp hugetlb-2m shmem` (MiB, modes). A mode the machine cannot
//! give says so and is left out.

use std::time::{Duration, Instant};
use thermocline::{Cache, Config, PageMode, Start, PAGE_MODES};

const VALUE: usize = 1024;
const GETS: u64 = 1_000_000;
const BLOCKS: usize = 5;
/// Collapsing what is small before we measure: at most so long.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() {
    let mut args = std::env::args().skip(1);
    let mib: u64 = args.next().and_then(|mib| mib.parse().ok()).unwrap_or(64);
    let named: Vec<PageMode> = args.filter_map(|name| mode(&name)).collect();
    let modes = match named.is_empty() {
        true => vec![PageMode::Base, PageMode::Thp],
        false => named,
    };
    println!("{mib} MiB, {BLOCKS} blocks of gets, CPU ns a get (least, middle, most)");
    for mode in modes {
        measure(mode, mib << 20);
    }
    restart(mib << 20);
}

fn mode(name: &str) -> Option<PageMode> {
    let found = PAGE_MODES.iter().find(|(other, _)| *other == name);
    found.map(|(_, mode)| *mode)
}

/// The item after `n` in a walk that no prefetcher foresees.
fn next(n: u64, items: u64) -> u64 {
    let mut word = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((u128::from(word ^ word >> 31) * u128::from(items)) >> 64) as u64
}

fn fill(cache: &Cache, items: u64) {
    let mut value = [7; VALUE];
    for n in 0..items {
        value[..8].copy_from_slice(&n.to_le_bytes());
        cache.set(&n.to_le_bytes(), &value).expect("room for all");
    }
}

fn measure(mode: PageMode, bytes: u64) {
    let mut config = Config::new(bytes);
    config.page_mode = mode;
    config.memory_max = Some(bytes);
    config.collapse_percent = 50;
    let cache = match Cache::new(config) {
        Ok(cache) => cache,
        Err(error) => return println!("{:11} {error}", mode.name()),
    };
    let items = bytes * 8 / 10 / (VALUE as u64 + 48);
    fill(&cache, items);
    if matches!(mode, PageMode::Collapse | PageMode::Shmem) {
        wait_until_huge(&cache);
    }
    let gets = GETS.min(items);
    let mut times: Vec<f64> = (0..BLOCKS)
        .map(|block| chase(&cache, items, gets, block))
        .collect();
    times.sort_by(f64::total_cmp);
    let pages = cache.pages();
    let facts = pages.bytes.unwrap_or_default();
    println!(
        "{:11} {:4.0} {:4.0} {:4.0}   {:3.0} % huge: AnonHugePages {} ShmemPmdMapped {} hugetlb {} MiB; collapse stalls {:?}",
        mode.name(),
        times[0],
        times[BLOCKS / 2],
        times[BLOCKS - 1],
        facts.coverage_percent(),
        facts.anon_huge >> 20,
        facts.shmem_pmd_mapped >> 20,
        facts.hugetlb >> 20,
        pages.collapse.stalls
    );
}

fn wait_until_huge(cache: &Cache) {
    let begin = Instant::now();
    let covered = || cache.pages().bytes.unwrap_or_default().coverage_percent() > 95.0;
    while !covered() && begin.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(300));
    }
}

/// CPU nanoseconds a get: each key follows from the value before it.
fn chase(cache: &Cache, items: u64, gets: u64, block: usize) -> f64 {
    let before = cpu_ns();
    let mut n = block as u64;
    for _ in 0..gets {
        let key = next(n, items).to_le_bytes();
        let found = cache.get_with(&key, |_, value| {
            u64::from_le_bytes(value[..8].try_into().expect("eight bytes"))
        });
        n = found.expect("everything fits") + block as u64;
    }
    (cpu_ns() - before) as f64 / gets as f64
}

fn cpu_ns() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let ns = text
        .split_whitespace()
        .next()
        .and_then(|ns| ns.parse().ok());
    ns.unwrap_or(0)
}

fn restart(bytes: u64) {
    let directory = std::path::Path::new("/dev/shm")
        .join(format!("thermocline-example-{}", std::process::id()));
    if std::fs::create_dir_all(&directory).is_err() {
        return println!("restart: no tmpfs in /dev/shm");
    }
    let mut config = Config::new(bytes);
    config.page_mode = PageMode::Shmem;
    config.memory_max = Some(bytes);
    config.memory_dir = Some(directory.clone());
    if let Err(error) = kept_and_opened(&config, bytes * 8 / 10 / (VALUE as u64 + 48)) {
        println!("restart: {error}");
    }
    let _gone = std::fs::remove_dir_all(directory);
}

fn kept_and_opened(config: &Config, items: u64) -> Result<(), thermocline::Error> {
    let cache = Cache::new(config.clone())?;
    fill(&cache, items);
    let begin = Instant::now();
    let kept = cache.keep()?;
    let keeping = begin.elapsed();
    let begin = Instant::now();
    let cache = Cache::new(config.clone())?;
    let opened = begin.elapsed();
    let found = (0..items)
        .filter(|n| cache.contains(&n.to_le_bytes()))
        .count();
    println!(
        "restart: kept {} items in {keeping:?} ({} KiB of books), opened in {opened:?}, {found} of {items} there, {:?}",
        kept.items,
        kept.books_bytes >> 10,
        cache.start()
    );
    assert!(matches!(cache.start(), Start::Warm { .. }));
    Ok(())
}
