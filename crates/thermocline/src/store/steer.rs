//! The policy's numbers: which pool a key belongs to, ghosts, and the capacity everything is reckoned with.

use super::{Store, NO_MAIN};
use crate::compress::Reads;
use crate::generation::Generations;
use crate::ghost::Ghosts;
use crate::mem::{current_core, Pin};
use crate::metrics::Counter;
use crate::policy::{Insert, Pool, Setting, LARGE_PART};
use crate::sync::{lock, Ordering};
use std::sync::Arc;

/// Caches of so many items and more know their mean size from one key in 16, which spares writers a shared line: 4,096
/// resident keys, a mean within 3 % where sizes are lognormal. Of the 28 sampled keys of 441 items it is anything:
/// 3 points of miss ratio.
const MEAN_OF_ALL_ITEMS: f64 = 65_536.0;
const MEAN_MASK: u64 = 15;

impl Store {
    /// Which pool a new key belongs to. Asks (and forgets) its ghost.
    pub(crate) fn admit(&self, pin: &Pin, hash: u64, bytes: usize) -> Pool {
        let insert = self.insert_facts(pin, hash, bytes);
        self.admit_by(pin, hash, &insert)
    }

    /// The same of a value that may be too large to be let in: then None, and its ghost stays.
    pub(crate) fn admit_large(&self, pin: &Pin, hash: u64, bytes: usize) -> Option<Pool> {
        let insert = self.insert_facts(pin, hash, bytes);
        if self.policy.refuses(self.setting(), &insert) {
            self.remember(hash, insert.now, 0);
            return None;
        }
        Some(self.admit_by(pin, hash, &insert))
    }

    fn admit_by(&self, pin: &Pin, hash: u64, insert: &Insert) -> Pool {
        if self.compress.times(hash) {
            self.compress.stored(hash, self.reads(pin));
        }
        if hash & self.facts.mean_mask.load(Ordering::Relaxed) == 0 {
            self.policy.inserted(1, insert.size);
        }
        self.policy.admit(self.setting(), insert)
    }

    fn insert_facts(&self, pin: &Pin, hash: u64, bytes: usize) -> Insert {
        let evicted = self.facts.evicted.load(Ordering::Relaxed);
        let now = self.facts.now.load(Ordering::Relaxed);
        let setting = self.setting();
        let ghost_age = match evicted {
            true => self
                .with_ghosts(|ghosts| match setting.rules.classes {
                    true => self.take_class(ghosts, hash, now, bytes),
                    false => ghosts.take(hash, now),
                })
                .flatten(),
            false => None,
        };
        if ghost_age.is_some() {
            self.counters.one(pin, Counter::Refaults);
        }
        let oldest = self.facts.oldest_main.load(Ordering::Relaxed);
        let segment_bytes = self.segments.bytes() as u64;
        Insert {
            size: bytes as u64,
            ghost_age,
            now,
            oldest_main: (oldest != NO_MAIN).then_some(oldest),
            evicted_before: evicted,
            main_bytes: self.facts.main_segments.load(Ordering::Relaxed) as u64 * segment_bytes,
            capacity_bytes: self.facts.capacity_bytes.load(Ordering::Relaxed),
            reserve_bytes: self.reserve_segments() as u64 * segment_bytes,
            segment_bytes,
        }
    }

    /// A read found nothing under this key.
    #[inline]
    pub(crate) fn missed(&self, pin: &Pin, hash: u64) {
        self.compress.control.missed(hash);
        if self.compress.times(hash) {
            self.compress.missed(hash, self.reads(pin));
        }
    }

    fn reads(&self, pin: &Pin) -> Reads {
        Reads {
            hits: self.counters.own(pin, Counter::Hits),
            misses: self.counters.own(pin, Counter::Misses),
        }
    }

    fn take_class(&self, ghosts: &Ghosts, hash: u64, now: u32, bytes: usize) -> Option<u32> {
        let (age, class) = ghosts.take_class(hash, now)?;
        self.policy.classes().refaulted(class, bytes as u64, age);
        Some(age)
    }

    /// Remembers an evicted key of a segment of this generation.
    pub(crate) fn remember(&self, hash: u64, generation: u32, counter: u32) {
        let now = self.facts.now.load(Ordering::Relaxed);
        let classes = self.setting().rules.classes;
        self.with_ghosts(|ghosts| match classes {
            true => ghosts.insert_class(hash, generation, crate::policy::class(counter as u8)),
            false => ghosts.insert(hash, generation, now),
        });
    }

    /// Tells everybody which generation is the youngest, and the clock when it began. The caller holds the
    /// generations' lock.
    pub(crate) fn publish_now(&self, generations: &Generations) {
        let now = generations.now();
        let before = self.facts.now.swap(now, Ordering::Relaxed);
        if before != now {
            self.facts.births.begin(before, now, self.time.now_ms());
        }
    }

    /// The setting that steers the policy at the moment.
    #[inline]
    pub(crate) fn setting(&self) -> &'static Setting {
        self.policy.steering().setting()
    }

    /// Bytes of later inserts that a stored item outlives at least: what was configured, else the larger of
    /// 2 % of the cache and 4 segments; at most a quarter of the cache. But an item of up to a third,
    /// which is let in at once, outlives itself: else it could be gone when its writer is told that it is stored.
    pub(crate) fn fresh_min_bytes(&self, largest: u64) -> u64 {
        let capacity = self.facts.capacity_bytes.load(Ordering::Relaxed);
        let segment = self.segments.bytes() as u64;
        if let Some(configured) = self.fresh_min {
            return configured.min(capacity / 4);
        }
        let share = (capacity as f64 * crate::config::FRESH_SHARE) as u64;
        let itself = largest.min(capacity / LARGE_PART + segment);
        share.max(4 * segment).min(capacity / 4).max(itself)
    }

    pub(crate) fn with_ghosts<R>(&self, use_them: impl FnOnce(&Ghosts) -> R) -> Option<R> {
        let handle = &self.ghosts[current_core() % self.ghosts.len()];
        let table = handle
            .0
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        table.as_ref().map(|ghosts| use_them(ghosts))
    }

    pub(crate) fn set_ghosts(&self, table: Option<Arc<Ghosts>>) {
        for handle in &self.ghosts {
            let mut slot = handle
                .0
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            *slot = table.clone();
        }
    }

    /// Hardly any budget is left that segments have not taken, or none they can take: what is less than an extent is
    /// more than an eighth of a small cache.
    pub(crate) fn is_nearly_full(&self) -> bool {
        let eighth = self.facts.capacity_bytes.load(Ordering::Relaxed) / 8;
        self.segments.room_bytes() < eighth.max(crate::mem::EXTENT_BYTES as u64)
    }

    /// Lines of a ghost table for the items that the cache holds, or would hold if all had the mean size: where sizes vary
    /// small ones are kept by preference and are more (0.3 points of miss ratio with lognormal sizes). None: none is
    /// wanted yet.
    pub(crate) fn ghost_lines_wanted(&self, have: u64) -> Option<u64> {
        let wanted = self.setting().rules.ghosts_per_item;
        let mean = self.policy.mean_size();
        if wanted <= 0.0 || mean <= 0.0 || have == 0 && !self.is_nearly_full() {
            return None;
        }
        let capacity = self.facts.capacity_bytes.load(Ordering::Relaxed);
        let of_mean = capacity as f64 / mean;
        let items = match self.compress.is_on() {
            // What the compressed tier holds beyond that is another's.
            true => of_mean,
            false => of_mean.max(self.index.items() as f64),
        };
        Some(Ghosts::lines_for(items * wanted))
    }

    /// A ghost table is to be made, or made anew.
    #[inline]
    pub(crate) fn ghosts_due(&self) -> bool {
        self.facts.ghosts_due.load(Ordering::Relaxed)
    }

    /// Bytes of the ghost table.
    pub(crate) fn ghost_bytes(&self) -> u64 {
        self.with_ghosts(Ghosts::bytes).unwrap_or(0)
    }

    /// Refreshes the capacity the policy reckons with.
    pub(crate) fn refresh_capacity(&self) {
        let owned = (self.segments.owned() * self.segments.bytes()) as u64;
        let capacity = owned + self.segments.room_bytes();
        self.facts.capacity_bytes.store(capacity, Ordering::Relaxed);
        lock(&self.generations).set_capacity(capacity);
        let floor = self.fresh_min_bytes(0) + self.segments.bytes() as u64;
        let share_min = floor as f64 / capacity.max(1) as f64;
        self.policy.steering().set_capacity(capacity, share_min);
        let items = capacity as f64 / self.policy.mean_size().max(1.0);
        let mask = u64::from(items > MEAN_OF_ALL_ITEMS) * MEAN_MASK;
        self.facts.mean_mask.store(mask, Ordering::Relaxed);
        let have = self.with_ghosts(Ghosts::lines).unwrap_or(0);
        let due = self
            .ghost_lines_wanted(have)
            .is_some_and(|lines| have == 0 || !Ghosts::is_close(have, lines));
        self.facts.ghosts_due.store(due, Ordering::Relaxed);
    }
}
