//! How long misses take to be served: the time between a miss and the SET of the same key.
//!
//! Whoever fills a cache reads it first, fetches the value elsewhere and stores it. One key in 64 is timed, in
//! a table of a thousand marks: a mark that another key took, or that is a minute old, tells nothing.
//!
//! Where one thread does all that, and reads nothing else meanwhile, its processor time in between is what a miss costs
//! beside waiting.

use crate::mem::thread_cpu_ns;
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;

/// One key in so many is timed.
const SAMPLED: u64 = 64;
const MARKS: usize = 1024;
/// A longer gap is no load, bytes came for another reason.
const GAP_MAX_US: u64 = 60_000_000;
const TIME_BITS: u32 = 44;

/// One mark: 20 bits of the key's hash, 44 of the time in microseconds.
pub(crate) struct MissClock(Box<[AtomicU64]>);

impl MissClock {
    pub(crate) fn new() -> MissClock {
        MissClock((0..MARKS).map(|_| AtomicU64::new(0)).collect())
    }

    /// Whether this key is timed.
    #[inline(always)]
    pub(crate) fn samples(hash: u64) -> bool {
        (hash >> 20) % SAMPLED == 0
    }

    fn mark(&self, hash: u64) -> &AtomicU64 {
        &self.0[(hash >> 26) as usize % MARKS]
    }

    /// A sampled key was read and not found.
    pub(crate) fn missed(&self, hash: u64, now_us: u64) {
        let time = now_us & ((1 << TIME_BITS) - 1);
        self.mark(hash)
            .store(hash >> TIME_BITS << TIME_BITS | time, Ordering::Relaxed);
    }

    /// A sampled key was stored: nanoseconds since it was missed, if it was.
    pub(crate) fn stored(&self, hash: u64, now_us: u64) -> Option<u64> {
        let mark = self.mark(hash).swap(0, Ordering::Relaxed);
        let time = mark & ((1 << TIME_BITS) - 1);
        let gap = (now_us & ((1 << TIME_BITS) - 1)).checked_sub(time)?;
        let same = mark != 0 && mark >> TIME_BITS == hash >> TIME_BITS;
        (same && gap <= GAP_MAX_US).then_some(gap.max(1) * 1000)
    }
}

/// A thread's latest timed miss: key, its processor time then, and what it had read.
#[derive(Clone, Copy)]
struct Mine {
    hash: u64,
    cpu_ns: u64,
    reads: Reads,
}

/// Reads a thread has made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Reads {
    pub(crate) hits: u64,
    pub(crate) misses: u64,
}

thread_local! {
    static MINE: Cell<Option<Mine>> = const { Cell::new(None) };
}

/// This thread missed a sampled key, and had read so much then.
pub(crate) fn work_begins(hash: u64, reads: Reads) {
    let cpu_ns = thread_cpu_ns();
    let mine = Mine {
        hash,
        cpu_ns,
        reads,
    };
    let _ = MINE.try_with(|cell| cell.set(Some(mine)));
}

/// This thread stores a sampled key: its processor time since it missed it, if it has read nothing else.
pub(crate) fn work_ends(hash: u64, reads: Reads) -> Option<u64> {
    let mine = MINE.try_with(Cell::take).ok()??;
    // Whether the miss itself was counted before or after depends on the way it went.
    let alone = reads.hits == mine.reads.hits && reads.misses <= mine.reads.misses + 1;
    if mine.hash != hash || !alone || mine.cpu_ns == 0 {
        return None;
    }
    Some(thread_cpu_ns().saturating_sub(mine.cpu_ns).max(1))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_gap_of_the_same_key_counts_and_only_once() {
        let clock = MissClock::new();
        let (key, other) = (0xABCD_E000_0000_0000, 0x1234_5000_0000_0000);
        assert!(MissClock::samples(key) && MissClock::samples(other));
        clock.missed(key, 1_000_000);
        assert_eq!(clock.stored(key, 1_000_250), Some(250_000));
        assert_eq!(clock.stored(key, 1_000_300), None);
        clock.missed(key, 2_000_000);
        assert_eq!(clock.stored(other, 2_000_100), None, "another key");
        clock.missed(key, 3_000_000);
        assert_eq!(clock.stored(key, 3_000_000 + GAP_MAX_US + 1), None);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn a_thread_that_did_nothing_else_tells_what_a_miss_takes() {
        let reads = |hits, misses| Reads { hits, misses };
        let begun = thread_cpu_ns();
        work_begins(7, reads(5, 5));
        while thread_cpu_ns() < begun + 3_000_000 {
            std::hint::spin_loop();
        }
        let worked = work_ends(7, reads(5, 6)).expect("nothing in between");
        assert!(worked > 1_000_000, "{worked}");
        assert_eq!(work_ends(7, reads(5, 6)), None, "told once");
        work_begins(7, reads(5, 5));
        assert_eq!(work_ends(8, reads(5, 6)), None, "another key");
        work_begins(7, reads(5, 5));
        assert_eq!(work_ends(7, reads(6, 6)), None, "it read another");
    }

    #[test]
    fn one_key_in_64_is_timed() {
        let hashes = (0..64_000u64).map(|n| n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let sampled = hashes.filter(|&hash| MissClock::samples(hash)).count();
        assert!((800..1200).contains(&sampled), "{sampled}");
    }
}
