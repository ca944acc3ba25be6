//! What the index counts about itself.
//!
//! Plain atomics of the standard library even under the model checker: nothing is decided by them,
//! and each would be one more point to schedule at.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Counters since the index was made.
#[derive(Default)]
pub(crate) struct Stats {
    /// Units rebuilt in another block of another size.
    pub(crate) rebuilds: AtomicU64,
    /// Blocks of other units moved to fill a freed place.
    pub(crate) block_moves: AtomicU64,
    /// Places that could not be filled at once, because the last block's unit was busy.
    pub(crate) holes: AtomicU64,
    /// Units split by their tags.
    pub(crate) splits: AtomicU64,
    /// Units split by reading their keys again.
    pub(crate) reread_splits: AtomicU64,
    pub(crate) lock_waits: AtomicU64,
    pub(crate) parks: AtomicU64,
    /// Misses looked up again because the unit had changed.
    pub(crate) restarts: AtomicU64,
    /// Inserts refused for want of a slab.
    pub(crate) refusals: AtomicU64,
    items: Stripes,
}

impl Stats {
    pub(super) fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Relaxed);
    }

    pub(super) fn items_changed(&self, stripe: usize, by: i64) {
        self.items.0[stripe % STRIPES].0.fetch_add(by, Relaxed);
    }

    pub(super) fn items(&self) -> u64 {
        let sum: i64 = self.items.0.iter().map(|s| s.0.load(Relaxed)).sum();
        sum.max(0) as u64
    }
}

const STRIPES: usize = 16;

/// The item count in pieces, one cache line each: writers of different units seldom meet.
#[derive(Default)]
struct Stripes([Stripe; STRIPES]);

#[derive(Default)]
#[repr(align(64))]
struct Stripe(AtomicI64);
