//! The kernel's access classes and their feedback loop, in bytes.
//!
//! An item's class is the logarithm of its accesses: stored and never read 0, read once 1, more often 2. What
//! is evicted leaves its class with its ghost; a refault counts for that class. A class that refaults more
//! than twice as often as class 0 is protected from eviction, as long as it does.
//!
//! Counters are those of the generation now being evicted; when it is gone they are folded into moving
//! averages of which each older generation weighs half. Relaxed: a lost count is one item of thousands.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

pub const CLASSES: usize = 3;
/// Generations a ghost may be old and still count as a refault.
pub const RECENT: u32 = 4;
/// Mean items that must have refaulted before a class can be protected at all.
const CONFIDENCE: f64 = 64.0;
/// A class is protected when its refault rate is more than so many times class 0's.
const PROTECT_RATIO: f64 = 2.0;

#[derive(Debug, Default)]
struct Flow {
    evicted: AtomicU64,
    protected: AtomicU64,
    refaulted: AtomicU64,
    refaulted_before: AtomicU64,
    total_before: AtomicU64,
}

impl Flow {
    fn refaulted(&self) -> f64 {
        (self.refaulted_before.load(Relaxed) + self.refaulted.load(Relaxed)) as f64
    }

    fn total(&self) -> f64 {
        let now = self.evicted.load(Relaxed) + self.protected.load(Relaxed);
        (self.total_before.load(Relaxed) + now) as f64
    }

    fn fold(&self) {
        let halved = |before: &AtomicU64, now: u64| {
            before.store((before.load(Relaxed) + now) / 2, Relaxed);
        };
        halved(&self.refaulted_before, self.refaulted.swap(0, Relaxed));
        let left = self.evicted.swap(0, Relaxed) + self.protected.swap(0, Relaxed);
        halved(&self.total_before, left);
    }
}

#[derive(Debug, Default)]
pub struct Classes {
    flows: [Flow; CLASSES],
    /// The oldest generation when the counters were last folded.
    folded_at: AtomicU32,
}

/// The class of an item with so many hits since it was stored, moved or protected.
pub fn class(counter: u8) -> usize {
    usize::from(counter).min(CLASSES - 1)
}

impl Classes {
    /// A key of this class came back; `age` generations after it was evicted.
    pub fn refaulted(&self, class: usize, bytes: u64, age: u32) {
        if age < RECENT {
            self.flows[class.min(CLASSES - 1)]
                .refaulted
                .fetch_add(bytes, Relaxed);
        }
    }

    /// Whether an item of the oldest generation is kept; counts it either way.
    pub fn protects(&self, counter: u8, bytes: u64, mean: f64) -> bool {
        let class = class(counter);
        let protects = counter >= super::COUNTER_MAX || class > self.evictable(mean);
        let flow = &self.flows[class];
        match protects {
            true => flow.protected.fetch_add(bytes, Relaxed),
            false => flow.evicted.fetch_add(bytes, Relaxed),
        };
        protects
    }

    /// The oldest generation is now this one: one step of the averages if it has moved on.
    pub fn fold(&self, oldest: u32) {
        if self.folded_at.swap(oldest, Relaxed) != oldest {
            self.flows.iter().for_each(Flow::fold);
        }
    }

    /// The highest class that may be evicted.
    fn evictable(&self, mean: f64) -> usize {
        let base = &self.flows[0];
        let may_go = |flow: &Flow| {
            flow.refaulted() < CONFIDENCE * mean
                || flow.refaulted() * (base.total() + CONFIDENCE * mean)
                    <= (base.refaulted() + mean) * flow.total() * PROTECT_RATIO
        };
        let first_kept = (1..CLASSES).find(|class| !may_go(&self.flows[*class]));
        first_kept.unwrap_or(CLASSES) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Class 1: 100 of 1000 evicted came back; class 0: `base` of 1000.
    fn after(base: u64, one: u64) -> Classes {
        let classes = Classes::default();
        for _ in 0..1000 {
            classes.protects(0, 1, 1.0);
            classes.protects(1, 1, 1.0);
        }
        classes.refaulted(0, base, 0);
        classes.refaulted(1, one, 0);
        classes
    }

    #[test]
    fn a_class_that_refaults_twice_as_often_is_kept() {
        assert!(!after(100, 180).protects(1, 1, 1.0));
        assert!(after(100, 230).protects(1, 1, 1.0));
    }

    #[test]
    fn few_refaults_protect_nothing() {
        assert!(!after(0, 63).protects(1, 1, 1.0));
        assert!(after(0, 80).protects(1, 1, 1.0));
        assert!(
            !after(0, 80).protects(1, 1, 2.0),
            "in mean items, not in bytes"
        );
    }

    #[test]
    fn a_saturated_counter_is_always_kept() {
        assert!(Classes::default().protects(3, 1, 1.0));
        assert!(!Classes::default().protects(2, 1, 1.0));
    }

    #[test]
    fn past_generations_weigh_half_each() {
        let classes = after(0, 1000);
        assert!(classes.protects(1, 1, 1.0));
        for oldest in 1..5 {
            classes.fold(oldest);
            classes.fold(oldest);
        }
        assert_eq!(classes.flows[1].refaulted(), 62.0);
        assert!(
            !classes.protects(1, 1, 1.0),
            "below the confidence floor again"
        );
    }

    #[test]
    fn old_ghosts_do_not_count() {
        let classes = after(0, 0);
        classes.refaulted(1, 500, RECENT);
        assert_eq!(classes.flows[1].refaulted(), 0.0);
    }

    #[test]
    fn protecting_one_class_protects_those_above() {
        let classes = after(10, 900);
        assert!(classes.protects(2, 1, 1.0));
    }
}
