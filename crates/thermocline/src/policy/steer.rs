//! Which setting is in force, and the door by which sampled accesses reach the duel.
//!
//! Owns the duel behind a lock that is only ever tried: an access that finds it taken is not sampled, so no
//! reader and no writer waits. Everybody else reads two words.
//!
//! What is an access: a read that hit, and a write, whether the key was there or not. A read that missed is
//! not: its size is unknown, and when the caller stores the value that write is the access. So a miss and the
//! set that follows are one request, and a miss that nobody fills is none: no setting could have served it.

use super::duel::Duel;
use super::setting::{Objective, ReclaimPolicy, Setting};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::Mutex;

/// Capacities nearer than this share are the same to the duel: what the index takes comes and goes.
const CAPACITY_GRAIN: f64 = 1.0 / 32.0;

/// Apart from words that writers change: every access reads `bound`.
#[derive(Debug)]
#[repr(align(64))]
pub struct Steering {
    /// Keys are sampled whose lower 32 hash bits are below.
    bound: AtomicU64,
    current: AtomicUsize,
    settings: &'static [Setting],
    books: Mutex<Books>,
    bytes: AtomicU64,
    switches: AtomicU64,
    sampling: AtomicU64,
}

#[derive(Debug)]
struct Books {
    duel: Duel,
    capacity_bytes: u64,
}

impl Steering {
    pub fn new(
        policy: ReclaimPolicy,
        objective: Objective,
        capacity_bytes: u64,
        seed: u64,
    ) -> Steering {
        let duel = Duel::new(policy, objective, capacity_bytes, seed);
        Steering {
            bound: AtomicU64::new(duel.bound()),
            current: AtomicUsize::new(0),
            settings: policy.settings(objective),
            bytes: AtomicU64::new(0),
            switches: AtomicU64::new(0),
            sampling: AtomicU64::new(0),
            books: Mutex::new(Books {
                duel,
                capacity_bytes,
            }),
        }
    }

    /// Keys are sampled whose lower 32 hash bits are below.
    pub fn bound(&self) -> u64 {
        self.bound.load(Relaxed)
    }

    #[inline(always)]
    pub fn is_sampled(&self, hash: u64) -> bool {
        u64::from(hash as u32) < self.bound.load(Relaxed)
    }

    #[inline(always)]
    pub fn setting(&self) -> &'static Setting {
        &self.settings[self.current.load(Relaxed)]
    }

    /// One access of a sampled key. Costs a shadow operation a setting (0.1 us each), or nothing where
    /// another thread is at it.
    #[cold]
    #[inline(never)]
    pub fn sample(&self, hash: u64, size: u64, mean: f64) {
        self.try_change(|books| {
            books.duel.request(hash, size, mean);
        });
    }

    /// A sampled key was removed by a caller.
    #[cold]
    #[inline(never)]
    pub fn forget(&self, hash: u64) {
        self.try_change(|books| books.duel.forget(hash));
    }

    /// The cache holds so many bytes now, and probation at least this share of them.
    pub fn set_capacity(&self, capacity_bytes: u64, share_min: f64) {
        self.try_change(|books| {
            books.duel.set_share_min(share_min);
            let apart = capacity_bytes.abs_diff(books.capacity_bytes) as f64;
            if apart > books.capacity_bytes as f64 * CAPACITY_GRAIN {
                books.capacity_bytes = capacity_bytes;
                books.duel.set_capacity(capacity_bytes);
            }
        });
    }

    fn try_change(&self, change: impl FnOnce(&mut Books)) {
        // A poisoned lock is a panic in plain arithmetic: the setting in force stays.
        let Ok(mut books) = self.books.try_lock() else {
            return;
        };
        change(&mut books);
        self.current.store(books.duel.current(), Relaxed);
        self.bound.store(books.duel.bound(), Relaxed);
        self.bytes.store(books.duel.bytes(), Relaxed);
        self.switches.store(books.duel.switches(), Relaxed);
        self.sampling
            .store(u64::from(books.duel.sampling()), Relaxed);
    }

    /// Number of the setting in force among the policy's.
    pub fn current(&self) -> usize {
        self.current.load(Relaxed)
    }

    /// Bytes of memory of the shadows.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How often another setting came into force.
    pub fn switches(&self) -> u64 {
        self.switches.load(Relaxed)
    }

    /// One in so many keys is sampled; 0 = none.
    pub fn sampling(&self) -> u64 {
        self.sampling.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_finds_the_duel_taken_goes_on() {
        let steering = Steering::new(ReclaimPolicy::GenDuel, Objective::Balanced, 1000, 1);
        assert!(steering.is_sampled(5));
        let held = steering.books.lock();
        steering.sample(5, 1, 1.0);
        steering.forget(5);
        steering.set_capacity(10, 0.0);
        drop(held);
        assert_eq!(steering.sampling(), 0, "nothing got through");
        steering.sample(5, 1, 1.0);
        assert_eq!(steering.sampling(), 4);
        assert!(steering.bytes() > 0);
    }

    #[test]
    fn small_changes_of_capacity_are_none() {
        let steering = Steering::new(ReclaimPolicy::GenDuel, Objective::Balanced, 1000, 1);
        steering.set_capacity(1020, 0.0);
        let capacity = || {
            steering
                .books
                .lock()
                .map_or(0, |books| books.capacity_bytes)
        };
        assert_eq!(capacity(), 1000);
        steering.set_capacity(1100, 0.0);
        assert_eq!(capacity(), 1100);
    }

    #[test]
    fn a_policy_of_one_setting_samples_nothing() {
        let steering = Steering::new(ReclaimPolicy::Lru, Objective::Balanced, 1000, 1);
        assert!((0..1000).all(|hash| !steering.is_sampled(hash)));
    }
}
