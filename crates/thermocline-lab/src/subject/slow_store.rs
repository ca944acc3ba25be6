//! What lies behind a cache: a store whose reads take a settable time, so that a miss costs something.
//! Owns the waiting and its account; the reader fills the cache itself.

use rustix::thread::set_current_timer_slack;
use std::num::NonZeroU64;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Below this a thread spins: going to sleep and waking takes as long.
const SPIN_MAX: Duration = Duration::from_micros(10);

/// A store of endless room; reads of different threads do not wait for each other.
#[derive(Debug)]
pub struct SlowStore {
    latency: Duration,
    reads: AtomicU64,
    waited_ns: AtomicU64,
}

impl SlowStore {
    pub fn new(latency: Duration) -> Self {
        SlowStore {
            latency,
            reads: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
        }
    }

    pub fn latency(&self) -> Duration {
        self.latency
    }

    /// Waits as long as a read takes. The thread must have called [`sharpen_sleep`].
    pub fn read(&self) {
        let start = Instant::now();
        if self.latency > SPIN_MAX {
            std::thread::sleep(self.latency);
        } else {
            while start.elapsed() < self.latency {
                std::hint::spin_loop();
            }
        }
        self.note(start.elapsed());
    }

    /// Books a read that was waited for elsewhere.
    pub fn note(&self, waited: Duration) {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.waited_ns
            .fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
    }

    /// Reads, and ns waited for them in all.
    pub fn account(&self) -> (u64, u64) {
        (
            self.reads.load(Ordering::Relaxed),
            self.waited_ns.load(Ordering::Relaxed),
        )
    }
}

/// Lets this thread's sleeps end within a microsecond or so of their time; the kernel's usual slack is 50 µs.
pub fn sharpen_sleep() {
    // Without it sleeps are longer, which `account` shows.
    let _ = set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_take_at_least_their_time_and_are_counted() {
        sharpen_sleep();
        for latency in [Duration::from_micros(3), Duration::from_micros(200)] {
            let store = SlowStore::new(latency);
            let start = Instant::now();
            for _ in 0..20 {
                store.read();
            }
            assert!(start.elapsed() >= latency * 20);
            let (reads, waited_ns) = store.account();
            assert_eq!(reads, 20);
            assert!(u128::from(waited_ns) >= latency.as_nanos() * 20);
        }
    }
}
