//! How long it takes from the start of a stall to the first extent given back: by the kernel's trigger alone, by the look
//! ten times a second alone, and by both. A measurement, run by hand; asserts nothing about time.
//!
//! `cargo test --release -p thermocline-server --lib reaction -- --ignored --nocapture` (root, a version 1 memory group)
//!
//! The stall: processes in a control group of 24 MiB read a file of 48 MiB over and over. The clock runs from the moment at
//! which the kernel has counted a fifth of a millisecond of it, looked for from before they are started. The cache is elsewhere and its
//! watch sees PSI alone, no limit and no free memory: what it does, it does because somebody stalls.

use super::*;
use std::fs;
use std::os::unix::fs::{symlink, FileExt};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use thermocline::{Config, PageMode};

const PSI: &str = "/proc/pressure/memory";
const CHILD: &str = "THERMOCLINE_THRASH";
const MEMORY: u64 = 256 << 20;
const EXTENT: u64 = 2 << 20;
const LIMIT: u64 = 24 << 20;
const FILE: u64 = 48 << 20;
const ROUNDS: usize = 8;
/// A stall begins when so much of it has been counted.
const BEGINS_US: u64 = 200;
const PATIENCE: Duration = Duration::from_secs(8);

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let until = Instant::now() + PATIENCE;
        let gone = |path: &Path| fs::remove_dir_all(path).is_ok() || fs::remove_dir(path).is_ok();
        while !gone(&self.0) && self.0.exists() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// As many as it takes for the kernel's trigger: 100 ms of stall in 2 s.
const THRASHERS: usize = 4;

struct Thrasher(Child);

impl Drop for Thrasher {
    fn drop(&mut self) {
        let _ended_already = self.0.kill();
        let _reaped_already = self.0.wait();
    }
}

/// Reads the file in its group until it is killed.
#[test]
#[ignore = "the stalling process of the measurement"]
fn the_thrasher() {
    let Ok(file) = std::env::var(CHILD) else {
        return;
    };
    let mut block = vec![1; 64 << 10];
    let file = fs::File::options()
        .read(true)
        .write(true)
        .create(true)
        .truncate(true)
        .open(file)
        .unwrap();
    for at in (0..FILE).step_by(block.len()) {
        file.write_all_at(&block, at).unwrap();
    }
    file.sync_all().unwrap();
    loop {
        for at in (0..FILE).step_by(block.len()) {
            file.read_exact_at(&mut block, at).unwrap();
        }
    }
}

fn thrash(group: &Path, file: &Path) -> Thrasher {
    let script = format!(
        "echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"",
        group.display()
    );
    let child = Command::new("/bin/sh")
        .args(["-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["the_thrasher", "--ignored", "--nocapture"])
        .env(CHILD, file)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("a shell");
    Thrasher(child)
}

fn stalled_us() -> u64 {
    let text = fs::read_to_string(PSI).unwrap_or_default();
    let total = text
        .lines()
        .next()
        .and_then(|line| line.rsplit_once("total="));
    total
        .and_then(|(_, us)| us.trim().parse().ok())
        .unwrap_or(0)
}

fn full_cache() -> Cache {
    let mut config = Config::new(MEMORY);
    config.page_mode = PageMode::Base;
    let cache = Cache::new(config).unwrap();
    for n in 0..4 * MEMORY / 10_000 {
        cache.set(&n.to_be_bytes(), &[1; 10_000]).unwrap();
    }
    cache
}

/// Milliseconds from the first stall to the first extent that is back; None: nothing came.
fn once(watching: Watching, root: &Path, group: &Path) -> Option<f64> {
    let cache = full_cache();
    let pressure = Arc::new(Pressure::new(MEMORY, MEMORY / 4));
    let watch = Watch::start_as(cache.clone(), pressure, root, watching).unwrap();
    std::thread::sleep(Duration::from_millis(2_500));
    let (charged, quiet_us) = (cache.charged(), stalled_us());
    let files = (0..THRASHERS).map(|n| root.join(format!("file{n}")));
    let thrashers: Vec<Thrasher> = files.map(|file| thrash(group, &file)).collect();
    let (mut begun, until) = (None, Instant::now() + PATIENCE);
    while Instant::now() < until {
        if begun.is_none() && stalled_us() >= quiet_us + BEGINS_US {
            begun = Some(Instant::now());
        }
        if cache.charged() + EXTENT <= charged {
            drop((thrashers, watch));
            return begun.map(|begun| begun.elapsed().as_secs_f64() * 1000.0);
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    None
}

#[test]
#[ignore = "a measurement, for a quiet machine"]
fn reaction_times() {
    let name = format!("thermocline-reaction-{}", std::process::id());
    let group = Directory(Path::new("/sys/fs/cgroup/memory").join(&name));
    if let Err(error) = fs::create_dir(&group.0) {
        return println!("skipped: no version 1 memory group to be made: {error}");
    }
    fs::write(group.0.join("memory.limit_in_bytes"), LIMIT.to_string()).unwrap();
    let root = Directory(Path::new("/var/tmp").join(&name));
    fs::create_dir_all(root.0.join("proc/pressure")).unwrap();
    symlink(PSI, root.0.join("proc/pressure/memory")).unwrap();
    let arms = [
        ("trigger", Watching::Trigger),
        ("poll", Watching::Poll),
        ("both", Watching::Both),
    ];
    let mut times: [Vec<f64>; 3] = Default::default();
    for _ in 0..ROUNDS {
        for ((_, watching), times) in arms.iter().zip(&mut times) {
            times.extend(once(*watching, &root.0, &group.0));
        }
    }
    println!("from the first stall to the first extent back, ms: least, median, most, of");
    for ((name, _), times) in arms.iter().zip(&mut times) {
        times.sort_by(f64::total_cmp);
        let at = |share: usize| {
            times
                .get(times.len().saturating_sub(1) * share / 2)
                .copied()
        };
        println!(
            "{name:8} {:?} {:?} {:?} {}",
            at(0),
            at(1),
            at(2),
            times.len()
        );
    }
}
