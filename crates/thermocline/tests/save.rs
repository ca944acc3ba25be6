//! Save and load: round trips, damage of every byte, torn tails, full disks, kills.

use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use thermocline::{Cache, Clock, Config, Error, Expiry, LoadReport, SetOptions, Which};

const START_MS: u64 = 1_800_000_000_000;
/// Set in a child process that saves to this path; see `child_saves`.
const CHILD: &str = "THERMOCLINE_TEST_SAVE_TO";

fn cache() -> Cache {
    timed_cache(START_MS)
}

fn timed_cache(now_ms: u64) -> Cache {
    let mut config = Config::new(32 << 20);
    config.clock = Clock::manual(now_ms);
    Cache::new(config).unwrap()
}

/// A directory of its own, removed when done.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Directory {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("save-{name}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Directory(path)
    }

    fn file(&self) -> PathBuf {
        self.0.join("cache.save")
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A value that names its key, so that a mixed-up one shows.
fn value_of(key: &[u8], bytes: usize) -> Vec<u8> {
    key.iter()
        .chain(b"=")
        .copied()
        .cycle()
        .take(bytes)
        .collect()
}

fn saved(cache: &Cache, which: Which) -> Vec<u8> {
    let mut bytes = Vec::new();
    let report = cache.save_to(&mut bytes, which).unwrap();
    assert_eq!(report.bytes, bytes.len() as u64);
    bytes
}

fn loaded(cache: &Cache, bytes: &[u8]) -> LoadReport {
    cache.load_from(Cursor::new(bytes)).unwrap()
}

#[test]
fn everything_comes_back_with_flags_and_expiry() {
    let directory = Directory::new("round-trip");
    let from = cache();
    let sizes = [0, 1, 100, 4095, 4096, 70_000, 200_000, 3 << 20];
    for (n, bytes) in sizes.into_iter().enumerate() {
        let key = format!("key {n}").into_bytes();
        let options = SetOptions {
            flags: n as u32 * 1000,
            expiry: match n % 3 {
                0 => Expiry::Never,
                1 => Expiry::AtMs(START_MS + 60_000),
                _ => Expiry::AtMs(START_MS + 60_123),
            },
            ..SetOptions::default()
        };
        from.set_with(&key, &value_of(&key, bytes), &options)
            .unwrap();
    }
    let long = vec![b'k'; from.key_size_max()];
    from.set(&long, b"long key").unwrap();
    let before = from.stats();
    let report = from.save(directory.file(), Which::All).unwrap();
    assert_eq!(report.items, sizes.len() as u64 + 1);
    assert_eq!(report.bytes, fs::metadata(directory.file()).unwrap().len());
    assert_eq!(directory.names(), ["cache.save"]);
    assert_eq!(from.stats().hits, before.hits, "saving counts no reads");

    let to = cache();
    let report = to.load(directory.file()).unwrap();
    assert_eq!(report.loaded, sizes.len() as u64 + 1);
    assert_eq!((report.bad, report.torn, report.refused), (0, false, 0));
    for (n, bytes) in sizes.into_iter().enumerate() {
        let key = format!("key {n}").into_bytes();
        let guard = to.get(&key).unwrap();
        assert!(guard.to_vec() == value_of(&key, bytes), "{bytes} bytes");
        let meta = from.peek(&key, false).unwrap();
        assert_eq!(guard.meta().flags, meta.flags);
        assert_eq!(guard.meta().expires_at_ms, meta.expires_at_ms);
    }
    assert_eq!(to.get(&long).unwrap().to_vec(), b"long key");
}

#[test]
fn expired_items_stay_out_and_what_is_there_stays() {
    let from = cache();
    let soon = SetOptions {
        expiry: Expiry::AtMs(START_MS + 1000),
        ..SetOptions::default()
    };
    from.set_with(b"soon", b"gone by then", &soon).unwrap();
    from.set(b"both", b"old").unwrap();
    from.set(b"only", b"here").unwrap();
    let bytes = saved(&from, Which::All);
    let to = timed_cache(START_MS + 1000);
    to.set(b"both", b"new").unwrap();
    let report = loaded(&to, &bytes);
    assert_eq!((report.loaded, report.expired, report.present), (1, 1, 1));
    assert_eq!(to.get(b"both").unwrap().to_vec(), b"new");
    assert!(!to.contains(b"soon"));
    // Expired already when saved: not in the file at all.
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.clock = clock.clone();
    let from = Cache::new(config).unwrap();
    from.set_with(b"soon", b"v", &soon).unwrap();
    clock.advance_ms(1000);
    assert_eq!(from.save_to(&mut Vec::new(), Which::All).unwrap().items, 0);
}

#[test]
fn marks_of_memcached_outlive_a_save() {
    let marked = || {
        let mut config = Config::new(32 << 20);
        config.marks = true;
        Cache::new(config).unwrap()
    };
    let from = marked();
    let mut options = SetOptions::default();
    options.marks.base64 = true;
    options.marks.stale = true;
    from.set_with(b"k", b"v", &options).unwrap();
    let to = marked();
    assert_eq!(loaded(&to, &saved(&from, Which::All)).loaded, 1);
    let marks = to.peek(b"k", false).unwrap().marks.unwrap();
    assert!(marks.base64 && marks.stale && !marks.won && !marks.fetched);
}

#[test]
fn items_too_large_for_the_cache_are_skipped_one_by_one() {
    let from = cache();
    from.set(b"large", &vec![7; 3 << 20]).unwrap();
    for n in 0..100u32 {
        from.set(&n.to_be_bytes(), b"small").unwrap();
    }
    let mut config = Config::new(32 << 20);
    config.item_size_max = Some(1 << 20);
    let to = Cache::new(config).unwrap();
    let report = loaded(&to, &saved(&from, Which::All));
    assert_eq!((report.loaded, report.refused), (100, 1));
}

#[test]
fn the_hottest_are_those_read_most() {
    let from = cache();
    for n in 0..1000u32 {
        from.set(&n.to_be_bytes(), &n.to_be_bytes()).unwrap();
    }
    let is_hot = |n: u32| n % 10 == 3;
    for _ in 0..3 {
        for n in (0..1000u32).filter(|&n| is_hot(n)) {
            from.get(&n.to_be_bytes()).unwrap();
        }
    }
    let keys_of = |count| {
        let to = cache();
        let report = loaded(&to, &saved(&from, Which::Hottest(count)));
        assert_eq!(report.loaded, to.len());
        to.keys()
            .map(|key| u32::from_be_bytes(key.try_into().unwrap()))
            .collect::<Vec<_>>()
    };
    let hottest = keys_of(100);
    assert_eq!(hottest.len(), 100);
    assert!(hottest.iter().all(|&n| is_hot(n)), "{hottest:?}");
    assert_eq!(keys_of(40).len(), 40);
    assert!(keys_of(40).iter().all(|&n| is_hot(n)));
    let more = keys_of(150);
    assert_eq!(more.len(), 150);
    assert_eq!(more.iter().filter(|&&n| is_hot(n)).count(), 100);
    assert_eq!(keys_of(0).len(), 0);
    assert_eq!(keys_of(5000).len(), 1000);
}

/// A file of a few small items, one of them a copy of another save file, as a cache may hold one.
fn small_file() -> (Cache, Vec<u8>) {
    let inner = cache();
    inner.set(b"wrong", b"from another file").unwrap();
    let from = cache();
    from.set(b"a", b"alpha").unwrap();
    from.set(b"b", &[0; 40]).unwrap();
    from.set(b"file", &saved(&inner, Which::All)).unwrap();
    from.set(b"c", &value_of(b"c", 100)).unwrap();
    let bytes = saved(&from, Which::All);
    (from, bytes)
}

/// Every item of `to` is as it is in `from`.
fn assert_subset(to: &Cache, from: &Cache, what: &str) {
    for key in to.keys() {
        let (got, stored) = (to.get(&key).unwrap(), from.get(&key));
        let stored = stored.unwrap_or_else(|| panic!("{what}: {key:?} came from nowhere"));
        assert!(got.to_vec() == stored.to_vec(), "{what}: {key:?}");
        assert_eq!(got.meta().flags, stored.meta().flags, "{what}");
    }
}

#[test]
fn damage_of_any_byte_is_skipped_and_counted() {
    let (from, bytes) = small_file();
    let items = from.len();
    for at in 0..bytes.len() {
        for flip in [0x01, 0x80, 0xFF] {
            let mut damaged = bytes.clone();
            damaged[at] ^= flip;
            let to = cache();
            let what = format!("byte {at} ^ {flip:#x}");
            match to.load_from(Cursor::new(&damaged)) {
                Err(Error::Format(_)) => assert!(at < 40, "{what}: the file's header only"),
                Err(other) => panic!("{what}: {other}"),
                Ok(report) => {
                    assert_eq!(report.loaded, to.len(), "{what}");
                    let end = report.torn && report.loaded == items;
                    let one = report.bad == 1 && report.loaded == items - 1;
                    assert!(at >= 40 && (end || one), "{what}: {report:?}");
                }
            }
            assert_subset(&to, &from, &what);
        }
    }
}

#[test]
fn a_file_cut_anywhere_gives_what_came_before() {
    let (from, bytes) = small_file();
    let mut most = 0;
    for cut in 0..bytes.len() {
        let to = cache();
        let what = format!("cut at {cut}");
        match to.load_from(Cursor::new(&bytes[..cut])) {
            Err(Error::Format(_)) => assert!(cut < 40, "{what}"),
            Err(other) => panic!("{what}: {other}"),
            Ok(report) => {
                assert!(report.torn && cut >= 40, "{what}: {report:?}");
                assert_eq!(report.loaded, to.len(), "{what}");
                assert!(report.loaded >= most, "{what}: loaded less than before");
                most = report.loaded;
            }
        }
        assert_subset(&to, &from, &what);
    }
    assert_eq!(most, from.len());
}

#[test]
fn stretches_of_rubbish_cost_only_what_they_cover() {
    let from = cache();
    for n in 0..1000u32 {
        from.set(&n.to_be_bytes(), &value_of(&n.to_be_bytes(), 200))
            .unwrap();
    }
    let mut bytes = saved(&from, Which::All);
    let middle = bytes.len() / 2;
    bytes[middle..middle + 1000].fill(0xA5);
    // And one byte more, so that nothing stands where it stood.
    bytes.insert(middle, 0);
    let to = cache();
    let report = loaded(&to, &bytes);
    assert!(!report.torn);
    assert_eq!(report.loaded + report.bad, 1000);
    assert!((4..=7).contains(&report.bad), "{report:?}");
    assert_subset(&to, &from, "rubbish");
}

#[test]
fn files_of_others_are_refused_with_a_reason() {
    let text = |bytes: &[u8]| match cache().load_from(Cursor::new(bytes)) {
        Err(Error::Format(text)) => text,
        other => panic!("{other:?}"),
    };
    assert!(text(b"").contains("not a Thermocline save file"));
    assert!(text(&[b'x'; 100]).contains("not a Thermocline save file"));
    let (_, mut bytes) = small_file();
    bytes[8] = 200;
    assert!(text(&bytes).contains("version 200"));
    let missing = cache().load("/nonexistent/cache.save").unwrap_err();
    assert!(missing.to_string().contains("/nonexistent/cache.save"));
    let folder = cache().load("/proc/self").unwrap_err();
    assert!(folder.to_string().contains("cannot load /proc/self: "));
}

#[test]
fn a_full_device_is_an_error_that_says_so() {
    let from = cache();
    from.set(b"k", b"v").unwrap();
    let mut full = fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    match from.save_to(&mut full, Which::All) {
        Err(Error::Io(error)) => assert_eq!(error.kind(), std::io::ErrorKind::StorageFull),
        other => panic!("{other:?}"),
    }
    // As a path it is no file to be replaced.
    let refused = from.save("/dev/full", Which::All).unwrap_err();
    assert!(refused.to_string().contains("not a regular file"));
    assert!(from.save("/", Which::All).is_err());
}

#[test]
fn an_earlier_file_is_replaced_whole_and_links_are_followed() {
    let directory = Directory::new("replace");
    let from = cache();
    from.set(b"k", b"1").unwrap();
    from.save(directory.file(), Which::All).unwrap();
    from.set(b"k", b"2").unwrap();
    let link = directory.0.join("link");
    std::os::unix::fs::symlink("cache.save", &link).unwrap();
    // Left over by a process that is no more, and by this one.
    let old = directory.0.join("cache.save.saving-999999999");
    let own = format!("cache.save.saving-{}", std::process::id());
    fs::write(&old, b"half").unwrap();
    fs::write(directory.0.join(own), b"half").unwrap();
    from.save(&link, Which::All).unwrap();
    assert_eq!(directory.names(), ["cache.save", "link"]);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    let to = cache();
    to.load(directory.file()).unwrap();
    assert_eq!(to.get(b"k").unwrap().to_vec(), b"2");
}

#[test]
fn a_file_loads_into_a_cache_half_its_size() {
    let from = Cache::new(Config::new(64 << 20)).unwrap();
    for n in 0..20_000u32 {
        from.set(&n.to_be_bytes(), &value_of(&n.to_be_bytes(), 2000))
            .unwrap();
    }
    let bytes = saved(&from, Which::All);
    let to = Cache::new(Config::new(20 << 20)).unwrap();
    let report = loaded(&to, &bytes);
    assert_eq!((report.bad, report.torn), (0, false));
    // A write is refused when a thread of another test, held up on a busy machine, keeps all that is retired.
    assert!(report.refused < 20 && report.loaded + report.refused == from.len());
    assert!(to.len() > 2000 && to.len() < report.loaded);
    assert_subset(&to, &from, "half");
}

#[test]
fn a_save_while_others_write_holds_whole_items_only() {
    let from = cache();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let bytes = std::thread::scope(|scope| {
        scope.spawn(|| {
            for n in 0u64.. {
                let key = format!("key {}", n % 500).into_bytes();
                let size = (n * 37 % 3000) as usize;
                from.set(&key, &value_of(&key, size)).unwrap();
                if n % 97 == 0 {
                    from.set(b"large", &value_of(b"large", 500_000)).unwrap();
                }
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
            }
        });
        while from.len() < 100 {
            std::thread::yield_now();
        }
        let bytes: Vec<_> = (0..5).map(|_| saved(&from, Which::All)).collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        bytes
    });
    for bytes in bytes {
        let to = cache();
        let report = loaded(&to, &bytes);
        assert!(report.loaded >= 100 && report.bad == 0 && !report.torn);
        for key in to.keys() {
            let value = to.get(&key).unwrap().to_vec();
            assert!(value == value_of(&key, value.len()), "{key:?}");
        }
    }
}

// ---- What happens to the process or the disk, in a child.

fn fill(cache: &Cache, items: u32) {
    for n in 0..items {
        let key = n.to_be_bytes();
        cache.set(&key, &value_of(&key, 2000)).unwrap();
    }
}

/// Not a test of its own: the child of those below. Saves over and over, or once.
#[test]
fn child_saves() {
    let Ok(path) = std::env::var(CHILD) else {
        return;
    };
    let from = Cache::new(Config::new(64 << 20)).unwrap();
    fill(&from, 20_000);
    println!("ready");
    std::io::stdout().flush().unwrap();
    if std::env::var(format!("{CHILD}_ONCE")).is_ok() {
        match from.save(path, Which::All) {
            Ok(report) => println!("saved {} bytes", report.bytes),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    loop {
        from.save(&path, Which::All).unwrap();
    }
}

fn child(shell: &str, path: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", &format!("{shell} exec \"$0\" \"$@\"")])
        .arg(std::env::current_exe().unwrap())
        .args(["child_saves", "--exact", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    command
}

#[test]
fn killed_while_saving_the_earlier_file_is_whole() {
    let directory = Directory::new("kill");
    let from = Cache::new(Config::new(64 << 20)).unwrap();
    fill(&from, 100);
    from.save(directory.file(), Which::All).unwrap();
    for round in 0..8u64 {
        let mut saving = child("", &directory.file()).spawn().unwrap();
        let begun = Instant::now();
        // The temporary file is there: the save is under way.
        while directory.names().len() < 2 {
            assert!(begun.elapsed() < Duration::from_secs(60), "no save began");
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(round * 3));
        saving.kill().unwrap();
        saving.wait().unwrap();
        let to = Cache::new(Config::new(64 << 20)).unwrap();
        let report = to.load(directory.file()).unwrap();
        assert!(!report.torn && report.bad == 0, "{report:?}");
        assert!([100, 20_000].contains(&report.loaded), "{report:?}");
    }
    // The next save clears what the killed ones left.
    from.save(directory.file(), Which::All).unwrap();
    assert_eq!(directory.names(), ["cache.save"]);
}

#[test]
fn a_disk_that_is_full_leaves_the_earlier_file() {
    let directory = Directory::new("limit");
    let from = cache();
    from.set(b"k", b"earlier").unwrap();
    from.save(directory.file(), Which::All).unwrap();
    let earlier = fs::read(directory.file()).unwrap();
    // Files of at most 2 MiB (4096 blocks of 512 bytes), and the signal that says so ignored.
    let mut command = child("ulimit -f 4096; trap '' XFSZ;", &directory.file());
    command.env(format!("{CHILD}_ONCE"), "1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("refused: cannot save to"), "{text}");
    assert!(text.contains("save fewer items"), "{text}");
    assert_eq!(fs::read(directory.file()).unwrap(), earlier);
    assert_eq!(directory.names(), ["cache.save"]);
}

#[test]
fn a_full_file_system_leaves_the_earlier_file() {
    let directory = Directory::new("tmpfs");
    let path = directory.file();
    // A file system of 4 MiB of the child's own; what it holds at the end is printed there.
    let script = format!(
        "mount -t tmpfs -o size=4m none {dir} && echo earlier > {file} && {{ \"$0\" \"$@\"; \
         cat {file}; ls {dir} | wc -l; }}",
        dir = directory.0.display(),
        file = path.display()
    );
    let output = Command::new("unshare")
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .arg(std::env::current_exe().unwrap())
        .args(["child_saves", "--exact", "--nocapture"])
        .env(CHILD, &path)
        .env(format!("{CHILD}_ONCE"), "1")
        .output();
    let output = match output {
        Ok(output) if String::from_utf8_lossy(&output.stdout).contains("ready") => output,
        other => {
            eprintln!("skipped: no file system can be mounted here ({other:?})");
            return;
        }
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("No space left"), "{text}");
    assert!(text.contains("save fewer items"), "{text}");
    assert!(text.contains("earlier\n1\n"), "{text}");
}
