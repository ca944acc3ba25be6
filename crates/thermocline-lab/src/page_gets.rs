//! `thermolab page-gets`: what a get of a random item costs our engine on pages of one kind, and which pages it stood on. The
//! command that the page-modes experiment measures; one mode a process, so that arms share nothing.
//!
//! The cache is filled with items of one size that all fit, then asked in three ways: each key follows from the value before
//! it (dependent: latency), keys known beforehand one by one, and those by batches as a server's pipeline asks. Every value
//! is copied out whole. Beside the figures stands what the kernel says of the cache's own memory, read after the gets.

use crate::machine::thread_cpu_ns;
use crate::units::{parse_bytes, parse_count};
use anyhow::{anyhow, bail, ensure, Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use thermocline::{Cache, Config, Guard, Meta, PageMode, ReadSink, Want, PAGE_MODES};

/// Windows that a measurement is cut in: their spread says how quiet the machine was.
const WINDOWS: u64 = 10;
const BATCH: usize = 16;
/// Item memory beside the values: header, key, index, ghosts, open segments. What is filled stays below what fits.
const BESIDE_BYTES: u64 = 64;
/// Making huge what was small when it was touched may take so long.
const COLLAPSE_MAX: Duration = Duration::from_secs(90);

/// Time random gets of our engine on one kind of pages
#[derive(Args, Debug)]
pub struct PageGetsOptions {
    /// The cache's memory
    #[arg(long, value_parser = parse_bytes, default_value = "1GiB", value_name = "SIZE")]
    memory: u64,
    /// base, thp, collapse, hugetlb-2m, hugetlb-1g, shmem
    #[arg(long, value_parser = page_mode, value_name = "MODE")]
    page_mode: PageMode,
    /// Where the memory file lies (shmem); nameless without it
    #[arg(long, value_name = "DIR")]
    memory_dir: Option<PathBuf>,
    /// Bytes of a value
    #[arg(long, value_parser = parse_bytes, default_value = "1KiB", value_name = "SIZE")]
    value: u64,
    /// Gets of each kind
    #[arg(long, value_parser = parse_count, default_value = "2M", value_name = "COUNT")]
    gets: u64,
    /// Seed of the items asked for
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn page_mode(name: &str) -> Result<PageMode, String> {
    let found = PAGE_MODES.iter().find(|(other, _)| *other == name);
    found
        .map(|(_, mode)| *mode)
        .ok_or_else(|| "base, thp, collapse, hugetlb-2m, hugetlb-1g or shmem".into())
}

/// Prints one figure a line: name, value.
pub fn run(options: &PageGetsOptions) -> Result<()> {
    ensure!(options.value >= 8, "--value: 8 bytes at least");
    let cache = open(options)?;
    let items = options.memory * 85 / 100 / (options.value + BESIDE_BYTES);
    ensure!(items >= BATCH as u64, "--memory: too small for a batch");
    let started = Instant::now();
    fill(&cache, items, options.value as usize)?;
    say("items", items);
    say("fill_s", format!("{:.3}", started.elapsed().as_secs_f64()));
    if matches!(options.page_mode, PageMode::Collapse | PageMode::Shmem) {
        wait_until_huge(&cache);
    }
    let mut place = options.seed;
    let mut value = Vec::with_capacity(options.value as usize);
    measure("dependent", options.gets, |gets| {
        dependent(&cache, items, gets, &mut place, &mut value)
    })?;
    measure("independent", options.gets, |gets| {
        independent(&cache, items, gets, &mut place, &mut value)
    })?;
    measure("batched", options.gets, |gets| {
        batched(&cache, items, gets, &mut place)
    })?;
    pages(&cache)
}

fn open(options: &PageGetsOptions) -> Result<Cache> {
    let mut config = Config::new(options.memory);
    config.memory_max = Some(options.memory);
    config.page_mode = options.page_mode;
    config.memory_dir.clone_from(&options.memory_dir);
    // Nobody is served meanwhile: whoever collapses in the background may take half of the time.
    config.collapse_percent = 50;
    Cache::new(config).with_context(|| format!("--page-mode {}", options.page_mode.name()))
}

/// Each value begins with its item's number.
fn fill(cache: &Cache, items: u64, bytes: usize) -> Result<()> {
    let mut value = vec![0x5A; bytes];
    for n in 0..items {
        value[..8].copy_from_slice(&n.to_le_bytes());
        cache
            .set(&n.to_le_bytes(), &value)
            .map_err(|error| anyhow!("item {n} of {items}: {error}"))?;
    }
    Ok(())
}

fn wait_until_huge(cache: &Cache) {
    let begin = Instant::now();
    let covered = || cache.pages().bytes.unwrap_or_default().coverage_percent() > 98.0;
    while !covered() && begin.elapsed() < COLLAPSE_MAX {
        std::thread::sleep(Duration::from_millis(300));
    }
    say(
        "collapse_s",
        format!("{:.1}", begin.elapsed().as_secs_f64()),
    );
}

/// The item after `n` in a walk that no prefetcher foresees.
fn scattered(n: u64, items: u64) -> u64 {
    let mut word = n.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((u128::from(word ^ (word >> 31)) * u128::from(items)) >> 64) as u64
}

/// CPU time of this thread a get, the mean over all windows and the lowest and highest.
fn measure(name: &str, gets: u64, mut some: impl FnMut(u64) -> Result<()>) -> Result<()> {
    let gets = gets.max(WINDOWS * BATCH as u64) / WINDOWS;
    let mut windows = Vec::new();
    // One window goes before: what was done last has left its lines in the processor's caches.
    for window in 0..=WINDOWS {
        let before = thread_cpu_ns();
        some(gets)?;
        if window > 0 {
            windows.push((thread_cpu_ns() - before) as f64 / gets as f64);
        }
    }
    windows.sort_by(f64::total_cmp);
    let mean = windows.iter().sum::<f64>() / windows.len() as f64;
    let (low, high) = (windows[0], windows[windows.len() - 1]);
    say(
        &format!("ns_{name}"),
        format!("{mean:.2} (windows {low:.2} to {high:.2})"),
    );
    Ok(())
}

fn dependent(
    cache: &Cache,
    items: u64,
    gets: u64,
    place: &mut u64,
    value: &mut Vec<u8>,
) -> Result<()> {
    for step in 0..gets {
        let n = scattered(*place, items);
        look(cache, n, value)?;
        // All of the value is waited for: its last byte is part of what comes next.
        let last = u64::from(value[value.len() - 1]);
        *place = word(value).wrapping_add(step << 32) ^ last;
    }
    Ok(())
}

fn independent(
    cache: &Cache,
    items: u64,
    gets: u64,
    place: &mut u64,
    value: &mut Vec<u8>,
) -> Result<()> {
    for _ in 0..gets {
        *place = place.wrapping_add(1);
        look(cache, scattered(*place, items), value)?;
    }
    Ok(())
}

/// One get; another item's value is the end of it all.
fn look(cache: &Cache, n: u64, value: &mut Vec<u8>) -> Result<()> {
    value.clear();
    if cache.get_into(&n.to_le_bytes(), value).is_none() {
        bail!("item {n} is gone: less fits than was reckoned with");
    }
    ensure!(word(value) == n, "item {n} has another's value");
    Ok(())
}

fn word(value: &[u8]) -> u64 {
    u64::from_le_bytes(value[..8].try_into().expect("values hold eight bytes"))
}

fn batched(cache: &Cache, items: u64, gets: u64, place: &mut u64) -> Result<()> {
    let mut sink = Copied::default();
    for _ in 0..gets / BATCH as u64 {
        let mut names = [[0; 8]; BATCH];
        for name in &mut names {
            *place = place.wrapping_add(1);
            *name = scattered(*place, items).to_le_bytes();
        }
        let keys: [&[u8]; BATCH] = std::array::from_fn(|at| names[at].as_slice());
        sink.right = 0;
        sink.buffer.clear();
        sink.names = names;
        cache.get_many(&keys, Want::default(), &mut sink);
        ensure!(sink.right == BATCH, "{} of {BATCH} were right", sink.right);
    }
    Ok(())
}

/// Copies every value, as a server does, one batch after the other into the same buffer.
#[derive(Default)]
struct Copied {
    names: [[u8; 8]; BATCH],
    buffer: Vec<u8>,
    begins: usize,
    right: usize,
}

impl ReadSink for Copied {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    fn copy_max(&self) -> usize {
        usize::MAX
    }

    fn head(&mut self, _: usize, _: &Meta) {
        self.begins = self.buffer.len();
    }

    fn tail(&mut self, index: usize, _: &Meta) {
        let value = &self.buffer[self.begins..];
        self.right += usize::from(value.len() >= 8 && value[..8] == self.names[index]);
    }

    /// Not with such a `copy_max`; if it came to that, the batch would be short of one.
    fn held(&mut self, _: usize, _: Guard) {}

    fn miss(&mut self, _: usize) {}
}

fn pages(cache: &Cache) -> Result<()> {
    let pages = cache.pages();
    let bytes = pages
        .bytes
        .context("the kernel tells nothing of our pages")?;
    say("AnonHugePages_bytes", bytes.anon_huge);
    say("ShmemPmdMapped_bytes", bytes.shmem_pmd_mapped);
    say("hugetlb_bytes", bytes.hugetlb);
    say("resident_bytes", bytes.resident);
    say("huge_percent", format!("{:.2}", bytes.coverage_percent()));
    Ok(())
}

fn say(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}
