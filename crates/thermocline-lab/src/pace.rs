//! How much there is to do and when: a pool of operations shared by all workers, and the timetable of an open
//! loop. Pure but for one atomic.

use crate::workload::Random;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Operations not yet taken, shared by the loader's threads.
pub struct Budget {
    taken: AtomicU64,
    total: u64,
}

impl Budget {
    pub fn new(total: u64) -> Self {
        Budget {
            taken: AtomicU64::new(0),
            total,
        }
    }

    /// Takes up to `count`; returns the first index and how many it got, 0 at the end.
    pub fn take(&self, count: u64) -> (u64, u64) {
        let mut first = 0;
        let result = self
            .taken
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
                first = taken;
                (taken < self.total).then(|| (taken + count).min(self.total))
            });
        match result {
            Ok(_) => (first, count.min(self.total - first)),
            Err(_) => (self.total, 0),
        }
    }

    pub fn left(&self) -> u64 {
        self.total - self.taken.load(Ordering::Relaxed).min(self.total)
    }
}

/// When open-loop operations are meant to start.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    /// One every 1/rate
    Even,
    /// A Poisson process of that rate
    Poisson,
}

/// One thread's timetable: its share of the rate, shifted so that threads do not start together.
/// Nothing accumulates while connections open or keys are loaded: time 0 is the phase's start.
#[derive(Clone, Debug)]
pub struct Timetable {
    next_ns: f64,
    step_ns: f64,
    arrivals: Arrivals,
    random: Random,
}

impl Timetable {
    pub fn new(rate: f64, arrivals: Arrivals, thread: usize, threads: usize, seed: u64) -> Self {
        let step_ns = 1e9 * threads as f64 / rate;
        Timetable {
            next_ns: step_ns * thread as f64 / threads as f64,
            step_ns,
            arrivals,
            random: Random::lane(seed ^ 0x7469_6d65, thread as u64),
        }
    }

    /// The intended start of the next operation, ns after the phase's start.
    pub fn next_ns(&self) -> u64 {
        self.next_ns as u64
    }

    pub fn advance(&mut self) {
        self.next_ns += match self.arrivals {
            Arrivals::Even => self.step_ns,
            Arrivals::Poisson => -(1.0 - self.random.unit()).ln() * self.step_ns,
        };
    }

    /// How long the poll may wait before the next start is due. Below 1 ms the loader spins: the kernel's
    /// millisecond grain would show as latency.
    pub fn wait(&self, now_ns: u64) -> Duration {
        let until = Duration::from_nanos(self.next_ns().saturating_sub(now_ns));
        Duration::from_millis(until.as_millis().saturating_sub(1) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_exact_across_threads_and_batches() {
        let budget = Budget::new(100_003);
        let taken: u64 = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..3)
                .map(|_| {
                    scope.spawn(|| {
                        let mut sum = 0;
                        loop {
                            match budget.take(16) {
                                (_, 0) => return sum,
                                (_, count) => sum += count,
                            }
                        }
                    })
                })
                .collect();
            threads.into_iter().map(|t| t.join().unwrap()).sum()
        });
        assert_eq!((taken, budget.left()), (100_003, 0));
    }

    #[test]
    fn timetables_keep_the_rate_and_do_not_burst() {
        for arrivals in [Arrivals::Even, Arrivals::Poisson] {
            let mut table = Timetable::new(10_000.0, arrivals, 0, 2, 1);
            assert!(table.next_ns() < 200_000);
            for _ in 0..50_000 {
                table.advance();
            }
            // 50,000 starts at half of 10,000/s take 10 s.
            assert!((9.8..10.2).contains(&(table.next_ns() as f64 / 1e9)));
        }
    }
}
