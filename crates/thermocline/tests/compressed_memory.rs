//! What training a dictionary took is the system's again, in a process of its own: nothing else allocates meanwhile.
#![cfg(target_os = "linux")]

mod torture;

use thermocline::{Cache, CompressMode, Config};
use torture::bytes_of;

const MEMORY: u64 = 64 << 20;
const VALUE_BYTES: usize = 600;
/// glibc keeps up to 128 KiB free at the end of each thread's heap (M_TRIM_THRESHOLD); there are three: the test's own, the
/// background thread's and the last training's.
const ALLOCATOR_KEEPS: u64 = 3 * (128 << 10);

/// Anonymous memory of this process, bytes: neither files' nor the program's text.
fn anonymous_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc is mounted");
    let line = status.lines().find(|line| line.starts_with("RssAnon:"));
    let kib = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
    kib.expect("the kernel says it in KiB") << 10
}

#[test]
fn a_training_without_a_result_leaves_nothing_with_the_allocator() {
    let mut config = Config::new(MEMORY);
    config.compress = CompressMode::On;
    (config.threads, config.seed) = (1, Some(7));
    let before = anonymous_bytes();
    let cache = Cache::new(config).expect("a cache");
    for n in 0..8 * MEMORY / VALUE_BYTES as u64 {
        let key = format!("user:{n:010}");
        let stored = cache.set(key.as_bytes(), &bytes_of(n, VALUE_BYTES));
        stored.expect("room can always be made");
    }
    let tiers = cache.tiers();
    assert!(tiers.reject_compress_poor > 0, "it was tried");
    assert_eq!(tiers.trained, 0, "nothing came of it");
    // 1.9 MB stayed at the end of the training thread's heap, charged to nobody.
    let took = anonymous_bytes() - before;
    assert!(took <= MEMORY + ALLOCATOR_KEEPS, "{took} bytes of {MEMORY}");
}
