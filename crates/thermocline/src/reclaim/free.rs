//! What comes after a drain: condemned segments become free, ghosts fit what was evicted.

use super::drain::Drain;
use super::{Books, Reclaim};
use crate::ghost::Ghosts;
use crate::location::Tier;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::policy::Pool;
use crate::segment::SegmentId;
use crate::store::Store;
use crate::sync::{lock, AtomicU64, Ordering};
use std::sync::Arc;

impl Reclaim {
    /// Frees what no pin and no guard holds any more. True if anything came free.
    pub(super) fn free_condemned(&self, store: &Store, books: &mut Books) -> bool {
        let mut freed = false;
        // Any of them: before those that pins are done with there may be one that a guard holds for long.
        let pinned = |&(_, epoch): &(SegmentId, u64)| !store.domain.passed(epoch);
        if books.condemned.iter().any(pinned) {
            // Two steps are needed; without other pinned threads both succeed at once.
            let _ = store.domain.try_advance() && store.domain.try_advance();
        }
        for _ in 0..books.condemned.len() {
            let Some((id, epoch)) = books.condemned.pop_front() else {
                break;
            };
            let segment = store.segment(id);
            // In this order: a reader takes its hold while it is pinned.
            let passed = store.domain.passed(epoch);
            let passed = passed || mutant(Mutant::NoGrace);
            if !passed || segment.holds.load(Ordering::SeqCst) != 0 {
                books.condemned.push_back((id, epoch));
                continue;
            }
            store.segments.free_condemned(id);
            self.condemned_bytes
                .fetch_sub(store.segments.bytes() as u64, Ordering::Relaxed);
            freed = true;
        }
        if freed {
            books.given_up.clear();
            while self.owes(store) && store.segments.give_back_extent() {}
            self.tell_news();
        }
        freed
    }

    /// The drain is done: relink or condemn its segment.
    pub(super) fn end(&self, store: &Store, books: &mut Books, drain: Drain) {
        let id = drain.id();
        let segment = store.segment(id);
        let pin = store.pin();
        if !drain.is_spared() {
            let fruitless = drain.is_fruitless(store);
            books.fruitless.ended(fruitless, drain.walked());
        }
        if segment.tier() == Tier::Hot {
            books.hot_frees_little = drain.frees_little(store);
        }
        books.compact.copied(drain.compacted_bytes());
        self.evicted_bytes
            .fetch_add(drain.evicted_bytes(), Ordering::Relaxed);
        if drain.relinks() {
            match drain.deactivates() {
                true => self.deactivate(store, books, id),
                false => self.relink(store, books, id),
            }
            store.counters.one(&pin, Counter::SegmentsRelinked);
        } else {
            store.closed(segment.tier(), segment.pool(), segment.generation());
            segment.condemn();
            self.condemned_bytes
                .fetch_add(store.segments.bytes() as u64, Ordering::Relaxed);
            books.condemned.push_back((id, store.domain.epoch()));
            store.counters.one(&pin, drain.counter());
        }
        drop(pin);
        self.publish_oldest(store, books);
    }

    /// To main's young end as it is.
    fn relink(&self, store: &Store, books: &mut Books, id: SegmentId) {
        let segment = store.segment(id);
        let mut generations = lock(&store.generations);
        let now = generations.relink_main(segment.generation());
        generations.put_main(segment.used() as u64, crate::generation::Source::New);
        store.policy.classes().fold(generations.oldest());
        store.publish_now(&generations);
        drop(generations);
        segment.relink(Pool::Main, now);
        books.sealed_bytes[1] += segment.used() as u64;
        books.main.push_back(id);
    }

    /// To probation's young end as it is.
    fn deactivate(&self, store: &Store, books: &mut Books, id: SegmentId) {
        let segment = store.segment(id);
        let mut generations = lock(&store.generations);
        generations.free_main(segment.generation());
        let now = generations.now();
        drop(generations);
        store.facts.main_segments.fetch_sub(1, Ordering::Relaxed);
        store
            .facts
            .probation_segments
            .fetch_add(1, Ordering::Relaxed);
        segment.relink(Pool::Probation, now);
        books.sealed_bytes[0] += segment.used() as u64;
        books.probation.push_back(id);
    }

    /// Charges what the duels' shadows have grown by, or asks for the budget to do so. They grow while the
    /// cache fills, by some hundred KiB in all, so what is charged late is little.
    pub(crate) fn charge_shadows(&self, store: &Store) {
        let Ok(_fitting) = self.fitting.try_lock() else {
            return;
        };
        let (have, charged) = (
            store.policy.steering().bytes() + store.compress.control.memory_bytes(),
            self.shadows_charged.load(Ordering::Relaxed),
        );
        let more = have.saturating_sub(charged);
        let paid = more == 0 || store.budget.try_charge(more);
        if have < charged {
            store.budget.uncharge(charged - have);
        }
        if paid {
            self.shadows_charged.store(have, Ordering::Relaxed);
        }
        self.want(store, &self.shadows_want, if paid { 0 } else { more });
    }

    /// Sets what somebody waits for, bytes; 0 once it was got, or is wanted no more.
    fn want(&self, store: &Store, claim: &AtomicU64, bytes: u64) {
        if claim.swap(bytes, Ordering::Relaxed) != bytes {
            self.withhold(store);
        }
    }

    /// Makes the ghost table fit the number of items the cache holds. First made when the cache is nearly
    /// full: a cache that holds everything needs no ghosts. Building takes 0.1 us a line; the background
    /// thread does it without the reclaim lock (what is remembered or forgotten meanwhile may be lost,
    /// which is harmless), writers only where there is no such thread.
    pub(crate) fn fit_ghosts(&self, store: &Store) {
        let Ok(_fitting) = self.fitting.try_lock() else {
            return;
        };
        let have = store.with_ghosts(Ghosts::lines).unwrap_or(0);
        let Some(lines) = store.ghost_lines_wanted(have) else {
            return self.want(store, &self.ghosts_want, 0);
        };
        match have != 0 && Ghosts::is_close(have, lines) {
            true => self.want(store, &self.ghosts_want, 0),
            false => self.replace_ghosts(store, lines),
        }
    }

    /// Pays for a table of `lines` and fills it from the old one, or asks for the budget to do so later.
    fn replace_ghosts(&self, store: &Store, lines: u64) {
        let bytes = lines * crate::ghost::LINE_BYTES;
        let before = store.ghost_bytes();
        if !store.budget.try_charge(bytes) {
            return self.want(store, &self.ghosts_want, bytes);
        }
        self.want(store, &self.ghosts_want, 0);
        let now = store.facts.now.load(Ordering::Relaxed);
        let table = match store.setting().rules.classes {
            // Classes take the bits that say which ghosts are too old to move.
            true => Ghosts::new(lines),
            false => store
                .with_ghosts(|old| old.resized(lines, now))
                .unwrap_or_else(|| Ghosts::new(lines)),
        };
        store.set_ghosts(Some(Arc::new(table)));
        store.budget.uncharge(before);
    }
}

#[cfg(test)]
mod tests {
    use super::super::drain::Mode;
    use super::*;
    use crate::{Cache, Config};

    /// Empties the oldest segment of main; nothing that lives in it is looked at by anybody else.
    fn drained(reclaim: &Reclaim, store: &Store, books: &mut Books) -> SegmentId {
        let id = books.main[0];
        assert!(reclaim.unqueue(store, books, id));
        reclaim.begin(store, books, id, Mode::Empty);
        let mut drain = books.drain.take().expect("just begun");
        while !drain.work(store, books, 1000) {}
        reclaim.end(store, books, drain);
        id
    }

    #[test]
    fn what_a_guard_holds_keeps_nothing_that_was_drained_later() {
        let mut config = Config::new(16 << 20);
        config.background = false;
        let cache = Cache::new(config).expect("a cache");
        for number in 0..3000u32 {
            cache.set(&number.to_be_bytes(), &[7; 4000]).expect("room");
        }
        let (store, reclaim) = (&cache.inner.store, &cache.inner.reclaim);
        let mut books = lock(&reclaim.books);
        reclaim.queue_sealed(store, &mut books);
        let _ = store.domain.try_advance() && store.domain.try_advance();
        let held = store.segment(books.main[0]);
        held.holds.fetch_add(1, Ordering::SeqCst);
        drained(reclaim, store, &mut books);
        assert!(!reclaim.free_condemned(store, &mut books));
        drained(reclaim, store, &mut books);
        assert!(reclaim.free_condemned(store, &mut books), "no pin keeps it");
        held.holds.fetch_sub(1, Ordering::SeqCst);
        assert!(reclaim.free_condemned(store, &mut books));
        assert!(books.condemned.is_empty());
    }
}
