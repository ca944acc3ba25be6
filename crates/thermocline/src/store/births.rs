//! When each generation began, by the cache's clock: what `lru_gen` shows as age.

use crate::generation::GENERATIONS_MAX;
use crate::sync::{AtomicU64, Ordering};

/// Unix ms at which generation g began, at place g mod GENERATIONS_MAX. Written under the generations' lock, read
/// without: a reader may see the time of a generation that has just merged away.
pub(crate) struct Births([AtomicU64; GENERATIONS_MAX]);

impl Births {
    /// All generations there are began now.
    pub(crate) fn new(now_ms: u64) -> Births {
        Births(std::array::from_fn(|_| AtomicU64::new(now_ms)))
    }

    /// Generations above `before`, up to `youngest`, began now.
    pub(crate) fn begin(&self, before: u32, youngest: u32, now_ms: u64) {
        let first = before.max(youngest.saturating_sub(GENERATIONS_MAX as u32));
        for generation in first..youngest {
            self.at(generation + 1).store(now_ms, Ordering::Relaxed);
        }
    }

    /// Unix ms.
    pub(crate) fn of(&self, generation: u32) -> u64 {
        self.at(generation).load(Ordering::Relaxed)
    }

    fn at(&self, generation: u32) -> &AtomicU64 {
        &self.0[generation as usize % GENERATIONS_MAX]
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn each_generation_has_its_time_until_64_later() {
        let births = Births::new(100);
        births.begin(0, 1, 200);
        births.begin(1, 3, 300);
        assert_eq!([0, 1, 2, 3].map(|g| births.of(g)), [100, 200, 300, 300]);
        births.begin(3, 1_000_000, 400);
        assert_eq!(births.of(1_000_000), 400);
        assert_eq!(births.of(1_000_000 - 63), 400);
    }
}
