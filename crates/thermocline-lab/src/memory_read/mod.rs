//! `thermolab memory-read`: what a random read of a mapped file costs, and whether huge pages backed it. The command that
//! the huge-tmpfs experiment measures.
//!
//! The file is made, mapped, filled with random words, and read in slots of each size: every word of a slot, the next slot
//! chosen by what the last one held (dependent: latency) or not (independent: several reads in flight).
//! Beside every figure stands what the kernel says is mapped by huge pages, read from smaps of the mapping itself
//! after the reads.

mod reads;
mod smaps;

use crate::machine::thread_cpu_ns;
use crate::units::parse_bytes;
use anyhow::{bail, Context, Result};
use clap::Args;
use reads::{fill, read_slots, Order};
use std::fs::File;
use std::path::PathBuf;
use std::time::Instant;
use thermocline::MappedFile;

const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Windows that a measurement is cut in: their spread says how quiet the machine was.
const WINDOWS: u64 = 10;

/// Time random reads of a mapped file, such as one on a huge-page tmpfs
#[derive(Args, Debug)]
pub struct MemoryReadOptions {
    /// The file; it is made, and removed at the end
    #[arg(long)]
    file: PathBuf,
    /// Its length; rounded up to 2 MiB
    #[arg(long, value_parser = parse_bytes, value_name = "SIZE")]
    bytes: u64,
    /// Bytes of one read, a multiple of 64; several by commas
    #[arg(long, value_parser = parse_bytes, value_delimiter = ',', default_value = "64,1k,4k", value_name = "SIZE")]
    access: Vec<u64>,
    /// Bytes read in all at each size
    #[arg(long, value_parser = parse_bytes, default_value = "2GiB", value_name = "SIZE")]
    volume: u64,
    /// Most reads at each size, however small they are
    #[arg(long, value_parser = crate::units::parse_count, default_value = "4M", value_name = "COUNT")]
    reads: u64,
    /// Ask for huge pages before the file is filled (MADV_HUGEPAGE)
    #[arg(long)]
    advise: bool,
    /// Make huge pages after the file is filled (MADV_COLLAPSE)
    #[arg(long)]
    collapse: bool,
    /// Seed of the places read
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Prints one figure a line: name, value.
pub fn run(options: &MemoryReadOptions) -> Result<()> {
    for access in &options.access {
        if *access == 0 || access % 64 != 0 || *access > options.bytes {
            bail!("--access {access}: a multiple of 64 bytes, at most --bytes");
        }
    }
    let bytes = options.bytes.max(1).next_multiple_of(HUGE_PAGE_BYTES);
    let file = made(options, bytes)?;
    let map = MappedFile::map(&file, bytes as usize)
        .with_context(|| format!("mapping {}", options.file.display()))?;
    if options.advise {
        map.advise_huge().context("MADV_HUGEPAGE")?;
    }
    say("file_bytes", bytes);
    let started = Instant::now();
    fill(&map, options.seed);
    say("fill_s", format!("{:.3}", started.elapsed().as_secs_f64()));
    if options.collapse {
        collapse(&map);
    }
    for access in &options.access {
        for order in [Order::Dependent, Order::Independent] {
            measure(options, &map, *access, order);
        }
    }
    mapped(&map)
}

/// The file, of its full length before anything is mapped: `within_size` goes by the length.
fn made(options: &MemoryReadOptions, bytes: u64) -> Result<File> {
    let path = options.file.display();
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&options.file)
        .with_context(|| format!("--file {path}: it is made here and must not be there"))?;
    // Without its name the file goes with the process, however that ends.
    std::fs::remove_file(&options.file).with_context(|| format!("--file {path}"))?;
    // A hole would be filled page by page and end the process where the file system is full.
    let room = rustix::fs::statvfs(
        options
            .file
            .parent()
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(".".as_ref()),
    )
    .map(|stat| stat.f_bavail.saturating_mul(stat.f_frsize))
    .with_context(|| format!("--file {path}"))?;
    if room < bytes {
        bail!("--file {path}: {bytes} bytes do not fit, its file system has {room} free");
    }
    file.set_len(bytes)
        .with_context(|| format!("--file {path}: {bytes} bytes"))?;
    Ok(file)
}

fn collapse(map: &MappedFile) {
    let started = Instant::now();
    let (made, reason) = map.collapse();
    say("collapsed_huge_pages", made);
    say(
        "collapse_s",
        format!("{:.3}", started.elapsed().as_secs_f64()),
    );
    if let Some(reason) = reason {
        eprintln!("thermolab: some pages were not collapsed: {reason}");
    }
}

/// CPU time of this thread a read, the mean over all and the lowest and highest window.
fn measure(options: &MemoryReadOptions, map: &MappedFile, access: u64, order: Order) {
    let reads = (options.volume / access).clamp(WINDOWS, options.reads.max(WINDOWS)) / WINDOWS;
    let mut windows = Vec::new();
    let mut place = options.seed;
    // One window goes before: what the last size left in the caches is not this one's.
    for window in 0..=WINDOWS {
        let (cpu_ns, wall) = (thread_cpu_ns(), Instant::now());
        place = read_slots(map, access as usize, reads, order, place);
        let ns = (thread_cpu_ns() - cpu_ns) as f64 / reads as f64;
        if window > 0 {
            windows.push((ns, wall.elapsed().as_nanos() as f64 / reads as f64));
        }
    }
    let mean =
        |of: fn(&(f64, f64)) -> f64| windows.iter().map(of).sum::<f64>() / windows.len() as f64;
    let (low, high) = windows
        .iter()
        .fold((f64::MAX, 0.0_f64), |(low, high), (ns, _)| {
            (low.min(*ns), high.max(*ns))
        });
    let name = format!("{access}_{}", order.name());
    say(
        &format!("ns_{name}"),
        format!(
            "{:.2} (windows {low:.2} to {high:.2}, wall {:.2})",
            mean(|w| w.0),
            mean(|w| w.1)
        ),
    );
    // The sum must be used, or there is nothing to measure.
    std::hint::black_box(place);
}

/// What backs the mapping at the end.
fn mapped(map: &MappedFile) -> Result<()> {
    let (start, end) = map.address_range();
    let mut input =
        std::io::BufReader::new(File::open("/proc/self/smaps").context("/proc/self/smaps")?);
    for field in smaps::of_range(&mut input, start, end)? {
        say(field.0, field.1);
    }
    Ok(())
}

fn say(name: &str, value: impl std::fmt::Display) {
    println!("{name} {value}");
}
