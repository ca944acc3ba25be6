//! One count of the bytes connections hold: unfinished requests and unsent replies.
//!
//! Must hold: whoever keeps bytes charges them, whoever lets go of them takes the charge back. Nobody is refused
//! here (the bytes have already arrived). At three quarters, connections that hold bytes are no longer read from;
//! past the limit, an event loop closes its largest holder. Connections that hold nothing are never affected.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug)]
pub struct Pool {
    used: AtomicU64,
    limit: u64,
    /// Values in the cache's memory that wait for slow readers, each keeping a segment from being reused.
    held: AtomicU64,
    held_max: u64,
    /// How often a connection was not read from because the pool was full.
    waits: AtomicU64,
}

impl Pool {
    /// `memory` is the whole budget: slow readers together may hold one value for each 256 MiB of it, but at least
    /// two. A held value keeps up to one segment (2 MiB) condemned, of which the engine allows 2 %.
    pub fn new(limit: u64, memory: u64) -> Pool {
        Pool {
            used: AtomicU64::new(0),
            limit,
            held: AtomicU64::new(0),
            held_max: (memory >> 28).max(2),
            waits: AtomicU64::new(0),
        }
    }

    /// Whether `bytes` more may be taken in. Several threads may be told yes at once: the limit can be passed by
    /// one read per thread, which the memory reserve at start counts.
    pub fn has_room(&self, bytes: u64) -> bool {
        let room = self.used.load(Relaxed).saturating_add(bytes) <= self.limit / 4 * 3;
        if !room {
            self.waits.fetch_add(1, Relaxed);
        }
        room
    }

    pub fn is_over(&self) -> bool {
        self.used.load(Relaxed) > self.limit
    }

    /// Whether slow readers may hold `more` values beyond those they hold already.
    pub fn may_hold(&self, more: u64) -> bool {
        self.held.load(Relaxed) + more <= self.held_max
    }

    pub fn recount_held(&self, before: u64, after: u64) {
        self.held.fetch_add(after, Relaxed);
        self.held.fetch_sub(before, Relaxed);
    }

    /// The charge of one holder changes from `before` to `after` bytes.
    pub fn recharge(&self, before: u64, after: u64) {
        if after >= before {
            self.used.fetch_add(after - before, Relaxed);
        } else {
            self.used.fetch_sub(before - after, Relaxed);
        }
    }

    pub fn used(&self) -> u64 {
        self.used.load(Relaxed)
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }

    pub fn waits(&self) -> u64 {
        self.waits.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charges_come_and_go() {
        let pool = Pool::new(100, 1 << 30);
        pool.recharge(0, 60);
        assert!(pool.has_room(15) && !pool.has_room(16));
        pool.recharge(60, 101);
        assert!(pool.is_over());
        pool.recharge(101, 10);
        assert!(!pool.is_over() && pool.has_room(65));
        assert_eq!((pool.used(), pool.waits()), (10, 1));
        assert!(pool.may_hold(4) && !pool.may_hold(5));
        pool.recount_held(0, 3);
        assert!(pool.may_hold(1) && !pool.may_hold(2));
    }
}
