//! Writers, and changes of the budget, that wait for room: they work for it, or wait for whoever does.
//!
//! How long is `patience`'s matter. Must hold: nobody waits under a pin or with the books.

use super::patience::Patience;
use super::{Books, Progress, Reclaim};
use crate::config::STALL_WAIT;
use crate::metrics::Counter;
use crate::store::Store;
use crate::sync::{lock, MutexGuard, Ordering};
use std::sync::TryLockError;
use std::time::{Duration, Instant};

/// How long a writer waits at a time for the news of another thread's pass.
const NEWS_WAIT: Duration = Duration::from_millis(1);

/// An extent's worth of budget that is the index's to take.
pub(crate) struct Claim<'a> {
    reclaim: &'a Reclaim,
    store: &'a Store,
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.reclaim.extents_wanted.fetch_sub(1, Ordering::Relaxed);
        self.reclaim.withhold(self.store);
    }
}

impl Reclaim {
    /// Makes room for a writer that found none. False: refused, nothing came free in time.
    /// No pin may be held.
    pub(crate) fn make_room(&self, store: &Store) -> bool {
        let made = self.work_until(store, Patience::of_write(), |reclaim| {
            u64::from(reclaim.available(store) == 0)
        });
        if !made && self.too_young.load(Ordering::Relaxed) {
            store.counters.one(&store.pin(), Counter::RefusedMinTtl);
        }
        made
    }

    /// Makes an extent's worth of budget free for the index, and keeps segments off it until the claim is dropped: else
    /// the next segment a writer opens takes it, be it for the very record whose slot the extent was wanted for. None:
    /// refused.
    pub(crate) fn make_extent<'a>(&'a self, store: &'a Store) -> Option<Claim<'a>> {
        self.extents_wanted.fetch_add(1, Ordering::Relaxed);
        self.withhold(store);
        let claim = Claim {
            reclaim: self,
            store,
        };
        let wanted = crate::mem::EXTENT_BYTES as u64;
        let made = self.work_until(store, Patience::of_write(), |_| {
            let missing = wanted.saturating_sub(store.budget.free_bytes());
            // Each segment emptied of an extent brings it nearer, though it is given back whole.
            let nearer = missing.saturating_sub(store.segments.emptied_bytes());
            nearer.max(u64::from(missing > 0))
        });
        made.then_some(claim)
    }

    /// Works until `missing` says 0. False: the patience is at its end, or nothing can be done.
    pub(super) fn work_until(
        &self,
        store: &Store,
        mut patience: Patience,
        missing: impl Fn(&Reclaim) -> u64,
    ) -> bool {
        let made = self.work_patiently(store, &mut patience, missing);
        patience.settle(made);
        made
    }

    fn work_patiently(
        &self,
        store: &Store,
        patience: &mut Patience,
        missing: impl Fn(&Reclaim) -> u64,
    ) -> bool {
        let mut idle_since = None;
        let (mut least, mut nearer_at) = (u64::MAX, None);
        let mut asked = false;
        loop {
            let now_missing = missing(self);
            if now_missing == 0 {
                return true;
            }
            if now_missing < least {
                (least, nearer_at, idle_since) = (now_missing, None, None);
            }
            let look = patience.look();
            if look - *nearer_at.get_or_insert(look) > patience.busy {
                return missing(self) == 0;
            }
            let progress = {
                let Some(mut books) = self.try_books() else {
                    // Another thread works for all.
                    let began = Instant::now();
                    store
                        .compress
                        .waiting(|| self.wait_for_news(NEWS_WAIT, || missing(self) < now_missing));
                    match patience.has_waited(began.elapsed()) {
                        true => continue,
                        false => return missing(self) == 0,
                    }
                };
                if !std::mem::replace(&mut asked, true) {
                    books.given_up.clear();
                }
                let pin = store.pin();
                store.counters.one(&pin, Counter::DirectPasses);
                drop(pin);
                let progress = self.pass(store, &mut books, self.direct_items(store));
                self.finish(store, books);
                progress
            };
            let limit = match progress {
                Progress::Some => {
                    idle_since = None;
                    continue;
                }
                Progress::None => return missing(self) == 0,
                Progress::Held => patience.idle,
                Progress::Guarded => patience.guarded,
                Progress::Pinned => patience.pinned,
            };
            let look = patience.look();
            if limit.is_zero() || look - *idle_since.get_or_insert(look) > limit {
                return missing(self) == 0;
            }
            let now = Instant::now();
            self.wait_for_pins(store);
            if !patience.has_waited(now.elapsed()) {
                return missing(self) == 0;
            }
        }
    }

    /// The books, unless another thread has them. (Waiting for the lock itself a writer slept on while its holder took
    /// it again and again: 4 ms.)
    fn try_books(&self) -> Option<MutexGuard<'_, Books>> {
        if cfg!(shuttle) {
            // Its waits have no end but a call.
            return Some(lock(&self.books));
        }
        match self.books.try_lock() {
            Ok(books) => Some(books),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits until something came free, or for a while; not at all if that `is_old` news.
    fn wait_for_news(&self, most: Duration, is_old: impl Fn() -> bool) {
        let waiting = lock(&self.waiting);
        if is_old() {
            return;
        }
        let _ = self
            .freed
            .wait_timeout(waiting, most)
            .unwrap_or_else(|poisoned| poisoned.into_inner());
    }

    /// Something came free.
    pub(super) fn tell_news(&self) {
        // Whoever has looked and does not wait yet must not miss it.
        drop(lock(&self.waiting));
        self.freed.notify_all();
    }

    /// Waits a moment for readers to unpin, writers to publish, guards to go.
    pub(super) fn wait_for_pins(&self, store: &Store) {
        let pin = store.pin();
        store.counters.one(&pin, Counter::ReclaimStalled);
        drop(pin);
        self.wait_for_news(STALL_WAIT, || false);
    }
}
