//! Making small pages huge, in a thread of its own and within a budget of stalls.
//!
//! A collapse copies 2 MiB and has every thread that touches them wait: 0.5 ms on a quiet machine, 54 ms in the
//! mean and 441 ms at worst on a busy one. So it is never done by a thread that serves, and after each one the
//! thread rests so long that collapsing takes at most `collapse_percent` of the time: a machine that is slow at
//! it is left alone by itself. Where a whole round finds nothing to do, it looks again more and more seldom.
//!
//! Must hold: the thread keeps nothing locked while it collapses or rests.

use crate::mem::{Collapsed, ExtentId, Extents};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Upper bounds of the histogram's buckets, microseconds; one more bucket takes what is above.
pub const STALL_BOUNDS_US: [u64; 10] = [
    100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000, 3_000_000,
];
/// The thread never rests less, and after a round without success at first and at most so long.
const REST_MIN: Duration = Duration::from_millis(1);
const IDLE_MIN: Duration = Duration::from_millis(500);
const IDLE_MAX: Duration = Duration::from_secs(60);
/// A stall this long is followed by so long a rest at most.
const REST_MAX: Duration = Duration::from_secs(60);

/// What collapsing has come to. The stalls are what a thread touching that memory may have waited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CollapseStats {
    /// Extents made huge, or found so.
    pub collapsed: u64,
    /// Tries the kernel refused: no free huge page, or nothing there yet.
    pub failed: u64,
    /// Stalls by length: bucket n counts those up to `STALL_BOUNDS_US[n]`, the last one all longer.
    pub stalls: [u64; STALL_BOUNDS_US.len() + 1],
    /// All stalls together, microseconds.
    pub stall_us: u64,
}

#[derive(Default)]
pub(crate) struct Collapses {
    collapsed: AtomicU64,
    failed: AtomicU64,
    stalls: [AtomicU64; STALL_BOUNDS_US.len() + 1],
    stall_us: AtomicU64,
}

impl Collapses {
    fn book(&self, huge: bool, took: Duration) {
        let us = took.as_micros() as u64;
        match huge {
            true => &self.collapsed,
            false => &self.failed,
        }
        .fetch_add(1, Relaxed);
        self.stalls[bucket(us)].fetch_add(1, Relaxed);
        self.stall_us.fetch_add(us, Relaxed);
    }

    pub(crate) fn stats(&self) -> CollapseStats {
        CollapseStats {
            collapsed: self.collapsed.load(Relaxed),
            failed: self.failed.load(Relaxed),
            stalls: std::array::from_fn(|n| self.stalls[n].load(Relaxed)),
            stall_us: self.stall_us.load(Relaxed),
        }
    }
}

fn bucket(us: u64) -> usize {
    STALL_BOUNDS_US.partition_point(|&bound| bound < us)
}

/// How long to rest after work of `took`, so that it takes `percent` of the time.
fn rest(took: Duration, percent: u32) -> Duration {
    let share = 100.0 / f64::from(percent.max(1)) - 1.0;
    took.mul_f64(share).clamp(REST_MIN, REST_MAX)
}

/// Whose memory it is.
pub(crate) trait Spans: Send + Sync + 'static {
    fn spans(&self) -> [&Extents; 2];
}

/// The thread. Stopping joins it, after at most the one collapse under way.
pub(crate) struct Collapser {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Collapser {
    pub(crate) fn start(
        whose: Arc<impl Spans>,
        books: Arc<Collapses>,
        percent: u32,
    ) -> std::io::Result<Collapser> {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let told = stop.clone();
        let thread = std::thread::Builder::new()
            .name("collapse".into())
            .stack_size(128 << 10)
            .spawn(move || run(&*whose, &books, percent, &told))?;
        Ok(Collapser {
            stop,
            thread: Some(thread),
        })
    }
}

impl Drop for Collapser {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            if thread.thread().id() != std::thread::current().id() {
                let _ended = thread.join();
            }
        }
    }
}

fn lock(stop: &Mutex<bool>) -> std::sync::MutexGuard<'_, bool> {
    stop.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Rests so long, or until told to stop. Whether to go on.
fn rested(stop: &(Mutex<bool>, Condvar), time: Duration) -> bool {
    let guard = lock(&stop.0);
    let waited = stop.1.wait_timeout_while(guard, time, |stop| !*stop);
    let (stopped, _) = waited.unwrap_or_else(|poisoned| poisoned.into_inner());
    !*stopped
}

fn run(whose: &impl Spans, books: &Collapses, percent: u32, stop: &(Mutex<bool>, Condvar)) {
    let mut idle = IDLE_MIN;
    while rested(stop, idle) {
        let mut done = false;
        for extents in whose.spans() {
            for n in 0..extents.capacity() {
                let begin = Instant::now();
                let huge = match extents.collapse(ExtentId(n)) {
                    Collapsed::Skipped => continue,
                    Collapsed::Huge => true,
                    Collapsed::Failed => false,
                };
                let took = begin.elapsed();
                books.book(huge, took);
                done |= huge;
                if !rested(stop, rest(took, percent)) {
                    return;
                }
            }
        }
        idle = match done {
            true => IDLE_MIN,
            false => (idle * 2).min(IDLE_MAX),
        };
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn a_stall_is_paid_for_with_rest() {
        let ms = Duration::from_millis;
        assert_eq!(rest(ms(10), 50), ms(10));
        assert_eq!(rest(ms(10), 2), ms(490));
        assert_eq!(rest(ms(441), 2).as_millis(), 21_609);
        assert_eq!(rest(Duration::ZERO, 2), REST_MIN);
        assert_eq!(rest(ms(5000), 1), REST_MAX);
    }

    #[test]
    fn stalls_fall_into_their_buckets() {
        let books = Collapses::default();
        for (huge, us) in [(true, 100), (true, 101), (false, 5_000_000)] {
            books.book(huge, Duration::from_micros(us));
        }
        let stats = books.stats();
        assert_eq!((stats.collapsed, stats.failed), (2, 1));
        assert_eq!(stats.stalls[..2], [1, 1]);
        assert_eq!(stats.stalls[STALL_BOUNDS_US.len()], 1);
        assert_eq!(stats.stall_us, 5_000_201);
    }
}
