//! Killed at any moment, it is cold or right: a child process attaches a memory file, loads, shrinks, grows, sweeps and
//! stops, and is killed (-9) at a random moment of each; the next one checks every value against the rounds that count.
//!
//! `KILLS=200` for the long run, `SEED=n` to repeat one (`scripts/kill` does the former). The last test shows that the
//! check would notice: it undoes what attaching does to the file's mark.

mod torture;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use thermocline::{Cache, Config, ExtentUse, PageMode, Start};
use torture::Random;

const MEMORY: u64 = 32 << 20;
/// What it is shrunk to: less than what lives, so that reclaim evicts.
const SHRUNK: u64 = 18 << 20;
const KEYS: u64 = 5000;
const STEPS: u32 = 3000;
const CHILD: &str = "THERMOCLINE_WARM_CHILD";
/// A child that has not ended by then has lost its way.
const PATIENCE: Duration = Duration::from_secs(60);
/// Where a child is killed, and for how long after it says that it is there, microseconds.
const MOMENTS: [(&str, u64); 6] = [
    ("start", 30_000),
    ("load", 20_000),
    ("shrink", 8_000),
    ("grow", 8_000),
    ("sweep", 8_000),
    ("stop", 5_000),
];

struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Option<Directory> {
        let name = format!("thermocline-kill-{name}-{}", std::process::id());
        let path = Path::new("/dev/shm").join(name);
        match fs::create_dir_all(&path) {
            Ok(()) => Some(Directory(path)),
            Err(error) => {
                println!("skipped: no tmpfs in /dev/shm: {error}");
                None
            }
        }
    }

    fn file(&self) -> PathBuf {
        self.0.join("thermocline.memory")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _gone = fs::remove_dir_all(&self.0);
    }
}

fn value(n: u32, bytes: usize) -> Vec<u8> {
    let byte = |i: usize| (n as usize * 131 + i * 17) as u8;
    (0..bytes).map(byte).collect()
}

/// What a round does, the same for who does it and who checks it.
fn play(round: u64, mut apply: impl FnMut(u32, Option<Vec<u8>>)) {
    let mut random = Random::new(round * 7919 + 1);
    for step in 0..STEPS {
        let key = random.below(KEYS) as u32;
        let bytes = match random.one_in(100) {
            true => 60_000,
            false => random.below(8_000) as usize,
        };
        let new = (!random.one_in(10)).then(|| value(key ^ step ^ (round as u32) << 12, bytes));
        apply(key, new);
    }
}

/// One process's life: attach, check against what the rounds since the last cold start have done, do a round, keep.
#[test]
#[ignore = "the child of the other tests"]
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
    config.extent_use = [ExtentUse::Compound, ExtentUse::Team][round as usize % 2];
    let cache = Cache::new(config).expect("a cache");
    check(&cache, round, &applied);
    println!("AT load");
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
            300 => at("shrink", || cache.set_memory(SHRUNK).expect("it fits")),
            600 => at("grow", || cache.set_memory(MEMORY).expect("it fits")),
            900 => at("sweep", || cache.sweep()),
            _ => {}
        }
    });
    println!("AT stop");
    let kept = cache.keep().expect("nobody else uses it");
    println!("KEPT {}", kept.items);
}

fn at(moment: &str, work: impl FnOnce()) {
    println!("AT {moment}");
    work();
    println!("AT load");
}

fn check(cache: &Cache, round: u64, applied: &[u64]) {
    let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
    let there = match cache.start() {
        Start::Warm { items, .. } => *items,
        _ => 0,
    };
    if matches!(cache.start(), Start::Warm { .. }) {
        for &earlier in applied {
            play(earlier, |key, new| match new {
                Some(new) => drop(model.insert(key, new)),
                None => drop(model.remove(&key)),
            });
        }
        println!("START warm");
    } else {
        println!("START cold: {:?}", cache.start());
    }
    let mut found = 0;
    for key in 0..KEYS as u32 {
        if let Some(bytes) = cache.get(&key.to_be_bytes()).map(|guard| guard.to_vec()) {
            let right = model.get(&key) == Some(&bytes);
            assert!(right, "round {round}: key {key} is wrong");
            found += 1;
        }
    }
    assert_eq!(found, there, "round {round}: items said to be there");
}

/// A child at work.
struct Running {
    child: Child,
    lines: BufReader<std::process::ChildStdout>,
    text: String,
}

impl Running {
    fn start(directory: &Directory, round: u64, applied: &[u64]) -> Running {
        let list: Vec<String> = applied.iter().map(u64::to_string).collect();
        let task = format!("{} {round} {}", directory.0.display(), list.join(" "));
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "the_child", "--nocapture", "--ignored"])
            .env(CHILD, task)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("a child process");
        let lines = BufReader::new(child.stdout.take().expect("it is piped"));
        Running {
            child,
            lines,
            text: String::new(),
        }
    }

    /// Reads on until the child says that it is there, the n-th time. False: it ended before.
    fn wait_for(&mut self, moment: &str, times: u64) -> bool {
        let wanted = format!("AT {moment}");
        let mut seen = 0;
        while seen < times {
            let mut line = String::new();
            if self.lines.read_line(&mut line).unwrap_or(0) == 0 {
                return false;
            }
            seen += u64::from(line.trim_end().ends_with(&wanted));
            self.text += &line;
        }
        true
    }

    /// Waits for the end; what the child said, and whether it ended well.
    fn end(mut self) -> (String, String, bool) {
        let until = Instant::now() + PATIENCE;
        // What it says is far smaller than a pipe: it never waits for us.
        while self.child.try_wait().expect("a child").is_none() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(1));
        }
        let _too_late = self.child.kill();
        let _cut_off = std::io::Read::read_to_string(&mut self.lines, &mut self.text);
        let output = self.child.wait_with_output().expect("a child");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        (self.text, errors, output.status.success())
    }
}

#[test]
fn killed_at_any_moment_it_is_cold_or_right() {
    let Some(directory) = Directory::new("moments") else {
        return;
    };
    let kills_wanted = torture::number("KILLS").unwrap_or(40);
    let seed = torture::seeds(1)[0];
    let mut random = Random::new(seed);
    let (mut warm, mut cold) = (0, 0);
    let mut killed: BTreeMap<&str, u64> = BTreeMap::new();
    // The rounds whose work is in the memory, if the next start is a warm one.
    let mut applied: Vec<u64> = Vec::new();
    let mut rounds = 0;
    while killed.values().sum::<u64>() < kills_wanted {
        let round = rounds;
        rounds += 1;
        let mut child = Running::start(&directory, round, &applied);
        // Two in five come to their end, or there would be nothing to attach.
        let kills = random.below(5) >= 2;
        if kills {
            let (moment, us) = MOMENTS[random.below(MOMENTS.len() as u64) as usize];
            let times = 1 + random.below(3);
            let times = if matches!(moment, "stop" | "start") {
                1
            } else {
                times
            };
            if moment == "start" || child.wait_for(moment, times) {
                std::thread::sleep(Duration::from_micros(random.below(us)));
                let _ended_already = child.child.kill();
                *killed.entry(moment).or_default() += 1;
            }
        }
        let (text, errors, _) = child.end();
        let context = format!("SEED={seed}, round {round}: {text}{errors}");
        assert!(!errors.contains("panicked"), "{context}");
        assert!(kills || text.contains("KEPT"), "{context}");
        // Killed before it said how it started, it has changed nothing: the next one is as this one would have been,
        // or cold. Killed later, the next is cold, or this one had come to its end.
        if text.contains("START cold") {
            applied = vec![round];
            cold += 1;
        } else if text.contains("START warm") {
            applied.push(round);
            warm += 1;
        }
        if applied.len() > 12 {
            // Replaying all of it takes time: from a new file on.
            fs::remove_file(directory.file()).expect("it is there");
            applied.clear();
        }
    }
    println!("{rounds} rounds, {warm} warm starts, {cold} cold; killed at {killed:?}");
    assert!(warm > 0 && !killed.is_empty(), "SEED={seed}: {killed:?}");
}

/// The header and the books of a memory file, as a stop left them.
struct Mark {
    header: Vec<u8>,
    books: Vec<u8>,
}

impl Mark {
    fn of(file: &Path, regions: u64) -> Mark {
        let opened = File::open(file).unwrap();
        let whole = opened.metadata().unwrap().len();
        let mut mark = Mark {
            header: vec![0; 4096],
            books: vec![0; (whole - regions) as usize],
        };
        opened.read_exact_at(&mut mark.header, 0).unwrap();
        opened.read_exact_at(&mut mark.books, regions).unwrap();
        mark
    }

    fn put_back(&self, file: &Path, regions: u64) {
        let opened = File::options().write(true).open(file).unwrap();
        opened.write_all_at(&self.books, regions).unwrap();
        opened.write_all_at(&self.header, 0).unwrap();
    }
}

/// The bytes before the books: what is left of the file while it is in use.
fn regions_bytes(directory: &Directory) -> u64 {
    let mut child = Running::start(directory, 0, &[]);
    assert!(child.wait_for("load", 1));
    let bytes = fs::metadata(directory.file()).unwrap().len();
    assert!(child.end().2);
    bytes
}

#[test]
fn a_mark_that_is_left_standing_is_noticed() {
    let Some(directory) = Directory::new("mutant") else {
        return;
    };
    let regions = regions_bytes(&directory);
    let mark = Mark::of(&directory.file(), regions);
    // Attached, changed, killed; and the mark as if attaching had not taken it away.
    let mut child = Running::start(&directory, 1, &[0]);
    assert!(child.wait_for("shrink", 1));
    child.child.kill().unwrap();
    child.end();
    mark.put_back(&directory.file(), regions);
    let (text, errors, well) = Running::start(&directory, 2, &[0]).end();
    assert!(
        text.contains("START warm"),
        "the mark was not believed: {text}{errors}"
    );
    assert!(!well, "the check sees nothing: {text}{errors}");
    println!(
        "noticed: {}",
        errors
            .lines()
            .find(|line| line.contains("round 2"))
            .unwrap_or("it did not end")
    );
}
