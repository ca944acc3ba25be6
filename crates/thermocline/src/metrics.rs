//! Counters that many threads add to without sharing a cache line.
//!
//! Each pinned thread has a number of its own (`Pin::number`) and a block of counters nobody else
//! writes: adding is a load and a store, no locked instruction. Reading sums all blocks. Counts are
//! exact once the counting threads have finished their calls.

use crate::mem::{Pin, THREADS_MAX};
use crate::sync::{AtomicU64, Ordering};
use std::sync::OnceLock;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// What is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum Counter { $($(#[$doc])* $name),* }
        /// How many there are.
        const COUNTERS: usize = [$(Counter::$name),*].len();
    };
}

counters! {
    /// Reads that found their item.
    Hits,
    /// Reads that did not.
    Misses,
    /// Items written under a key that had none.
    Inserts,
    /// Items written over another, at a new place.
    Replaced,
    /// Items overwritten in place by one of the same reserved size.
    EqualSizeInPlace,
    /// Items overwritten in place by a smaller one.
    OtherInPlace,
    /// Items of the same reserved size written elsewhere all the same.
    EqualSizeElsewhere,
    /// Items removed by a caller.
    Deleted,
    /// Live items dropped for want of room.
    Evicted,
    /// Items dropped because their time was over, or idle, or flushed.
    Expired,
    /// Writes refused for want of room.
    RefusedRoom,
    /// Of these, because everything that could go was too young (`min_ttl`).
    RefusedMinTtl,
    /// Writes refused because of their size.
    RefusedSize,
    /// Items reclaim moved to another segment.
    Moved,
    /// Bytes reclaim copied.
    MovedBytes,
    /// Bytes appended by writers.
    InsertedBytes,
    /// Of these, bytes written where a dead record lay.
    ReusedBytes,
    /// Insertions whose ghost was still there.
    Refaults,
    /// Segments drained.
    SegmentsDrained,
    /// Segments relinked whole to the young end.
    SegmentsRelinked,
    /// Segments compacted.
    SegmentsCompacted,
    /// Passes of reclaim made by a writer.
    DirectPasses,
    /// Waits of a writer for pinned memory.
    ReclaimStalled,
    /// Reads that had to start again because a writer raced.
    ReadRetries,
    /// Reads that found an item whose time was over.
    ReadsExpired,
    /// Reads that found an item that a flush or a drop had hidden.
    ReadsFlushed,
    /// Records walked by reclaim.
    Scanned,
}

const CHUNK: usize = 64;

#[repr(align(128))]
struct Block([AtomicU64; COUNTERS]);

/// The counters of one cache.
pub(crate) struct Counters {
    chunks: Vec<OnceLock<Box<[Block]>>>,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        Counters {
            chunks: (0..THREADS_MAX / CHUNK).map(|_| OnceLock::new()).collect(),
        }
    }

    #[inline(always)]
    pub(crate) fn add(&self, pin: &Pin, counter: Counter, by: u64) {
        let cell = &self.block(pin).0[counter as usize];
        cell.store(cell.load(Ordering::Relaxed) + by, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(crate) fn one(&self, pin: &Pin, counter: Counter) {
        self.add(pin, counter, 1);
    }

    /// What this thread has counted.
    pub(crate) fn own(&self, pin: &Pin, counter: Counter) -> u64 {
        self.block(pin).0[counter as usize].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn block(&self, pin: &Pin) -> &Block {
        let chunk = self.chunks[pin.number() / CHUNK].get_or_init(|| {
            (0..CHUNK)
                .map(|_| Block(std::array::from_fn(|_| AtomicU64::new(0))))
                .collect()
        });
        &chunk[pin.number() % CHUNK]
    }

    /// The sum over all threads that ever counted.
    pub(crate) fn sum(&self, counter: Counter) -> u64 {
        self.chunks
            .iter()
            .filter_map(OnceLock::get)
            .flat_map(|chunk| chunk.iter())
            .map(|block| block.0[counter as usize].load(Ordering::Relaxed))
            .sum()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::mem::Domain;

    #[test]
    fn sums_over_threads() {
        let counters = Counters::new();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..1000 {
                        let pin = Pin::new(Domain::global());
                        counters.add(&pin, Counter::Hits, 2);
                        counters.one(&pin, Counter::Scanned);
                    }
                });
            }
        });
        assert_eq!(counters.sum(Counter::Hits), 8000);
        assert_eq!(counters.sum(Counter::Scanned), 4000);
        assert_eq!(counters.sum(Counter::Misses), 0);
    }
}
