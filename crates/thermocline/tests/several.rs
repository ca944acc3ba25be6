//! Several caches in one process, and what is left of one that was dropped. One test: it reads the
//! process's own memory and threads.

use std::fs;
use thermocline::{Cache, Config};

/// Resident memory of this process, bytes; pages of a pool, which the kernel counts apart, among them.
fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let kib_of = |name: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|rest| rest.split_whitespace().next()?.parse().ok())
            .unwrap()
    };
    (kib_of("VmRSS:") + kib_of("HugetlbPages:")) << 10
}

/// Address space of this process, bytes.
fn mapped() -> u64 {
    let statm = fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').next().unwrap().parse().unwrap();
    pages * 4096
}

/// Threads of caches in this process.
fn threads() -> usize {
    fs::read_dir("/proc/self/task")
        .unwrap()
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "thermocline")
        .count()
}

#[test]
fn caches_live_side_by_side_and_leave_nothing_behind() {
    const MEMORY: u64 = 64 << 20;
    const MIB: u64 = 1 << 20;
    let fill = |cache: &Cache, name: &str| {
        for n in 0..60_000u32 {
            let value = format!("{name} {n} ").repeat(100);
            cache.set(&n.to_be_bytes(), value.as_bytes()).unwrap();
        }
    };
    // What is there once and for all: the domain, thread-locals, the allocator's arenas.
    let first = Cache::new(Config::new(MEMORY)).unwrap();
    fill(&first, "first");
    drop(first);
    let (resident_before, mapped_before) = (resident(), mapped());
    assert_eq!(threads(), 0);

    let caches: Vec<_> = ["a", "b", "c"]
        .map(|name| (name, Cache::new(Config::new(MEMORY)).unwrap()))
        .to_vec();
    for (name, cache) in &caches {
        fill(cache, name);
    }
    assert_eq!(threads(), 3);
    for (name, cache) in &caches {
        let mut seen = 0;
        for key in cache.keys() {
            let n = u32::from_be_bytes(key[..].try_into().unwrap());
            let value = cache.get(&key).unwrap().to_vec();
            assert!(value.starts_with(format!("{name} {n} ").as_bytes()));
            seen += 1;
        }
        assert!(seen > 10_000, "{name}: {seen} items");
    }
    let full = resident();
    assert!(
        full > resident_before + 2 * MEMORY,
        "the caches are not full"
    );
    assert!(
        full < resident_before + 3 * MEMORY + 24 * MIB,
        "{} MiB over three budgets",
        (full - resident_before - 3 * MEMORY) / MIB
    );

    // A handle more does not keep a dropped one's cache, and a guard of a large value keeps its bytes.
    caches[2].1.set(b"large", &vec![5; 1 << 20]).unwrap();
    let guard = caches[2].1.get(b"large").unwrap();
    let handle = caches[1].1.clone();
    drop(caches);
    assert_eq!(threads(), 1, "dropped caches have joined their threads");
    assert!(guard.to_vec() == vec![5; 1 << 20]);
    drop(guard);
    assert!(handle.get(&59_999u32.to_be_bytes()).is_some());
    drop(handle);
    assert_eq!(threads(), 0);
    let left = resident().saturating_sub(resident_before);
    assert!(left < 8 * MIB, "{} MiB left resident", left / MIB);
    // Address space: 128 MiB a cache, so that one kept of twenty would show.
    for _ in 0..20 {
        let cache = Cache::new(Config::new(MEMORY)).unwrap();
        cache.set(b"k", b"v").unwrap();
    }
    let left = mapped().saturating_sub(mapped_before);
    assert!(left < 20 * 128 * MIB / 2, "{} MiB left mapped", left / MIB);
    assert_eq!(threads(), 0);
}
