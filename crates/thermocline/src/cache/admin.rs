//! Operations on the whole cache: statistics, flush, budget, hot keys.

use super::{Cache, Inner};
use crate::config::{Config, MEMORY_MIN};
use crate::error::Error;
use crate::metrics::Counter;
use crate::models_switch::{mutant, Mutant};
use crate::sketch::HotKey;
use crate::sync::{lock, Ordering};

/// What a cache has done and holds. Counters since it was made; sizes as of now.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Stats {
    /// Items in the index, gone ones included until they are reclaimed.
    pub items: u64,
    /// Reads that found their item, and reads that did not.
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// Of the misses, reads that found an item whose time was over, and one that a flush or a drop had hidden: not yet
    /// reclaimed.
    pub reads_expired: u64,
    /// See `reads_expired`.
    pub reads_flushed: u64,
    /// Items stored under a key that had none.
    pub inserts: u64,
    /// Items that replaced another at a new place.
    pub replaced: u64,
    /// Items overwritten in place.
    pub overwritten_in_place: u64,
    /// Overwrites of equal size, and how many of them happened in place.
    pub equal_size_overwrites: u64,
    /// See `equal_size_overwrites`.
    pub equal_size_in_place: u64,
    /// Items removed by callers.
    pub deleted: u64,
    /// Live items dropped for want of room.
    pub evicted: u64,
    /// Items dropped because their time was over (expiry, idleness), or a flush or a drop of their group had hidden them.
    pub expired: u64,
    /// Writes refused for want of room.
    pub refused_room: u64,
    /// Of these, because all that could go was younger than `Config::min_ttl`.
    pub refused_min_ttl: u64,
    /// Writes refused because of their size.
    pub refused_size: u64,
    /// Items and bytes reclaim copied.
    pub moved: u64,
    /// See `moved`.
    pub moved_bytes: u64,
    /// Bytes appended by writers.
    pub inserted_bytes: u64,
    /// Of these, bytes written into the room of dead items, where they lay.
    pub reused_bytes: u64,
    /// Insertions whose ghost was still there (the kernel's `workingset_refault`).
    pub refaults: u64,
    /// Records reclaim walked over (the kernel's `pgscan`).
    pub scanned: u64,
    /// Segments emptied, compacted, and relinked whole.
    pub segments_drained: u64,
    /// See `segments_drained`.
    pub segments_compacted: u64,
    /// See `segments_drained`.
    pub segments_relinked: u64,
    /// Bounded passes of reclaim made by writers.
    pub direct_passes: u64,
    /// Waits of writers for pinned or held memory.
    pub reclaim_stalled: u64,
    /// Reads that started again because a writer raced.
    pub read_retries: u64,
    /// The budget, bytes.
    pub memory_bytes: u64,
    /// Charged to it, bytes.
    pub charged_bytes: u64,
    /// Of these, not the cache's own (`Config::reserved_bytes`).
    pub reserved_bytes: u64,
    /// Of these, lent to the embedder at the moment (`Cache::lease`).
    pub leased_bytes: u64,
    /// Bytes of tables of fixed size.
    pub table_bytes: u64,
    /// Bytes the index holds, and those of them in use.
    pub index_bytes: u64,
    /// See `index_bytes`.
    pub index_used_bytes: u64,
    /// Bytes of the ghost table.
    pub ghost_bytes: u64,
    /// Bytes of the shadows that the policy's settings, and the ways to compress, are duelled in.
    pub shadow_bytes: u64,
    /// The setting in force, counted from 0, and how often another one came into force.
    pub policy_setting: u64,
    /// See `policy_setting`.
    pub policy_switches: u64,
    /// One in so many keys feeds the duel; 0 = none.
    pub policy_sampling: u64,
    /// Bytes of segments, free ones included.
    pub segment_bytes_total: u64,
    /// Bytes of one segment.
    pub segment_bytes: u64,
    /// Segments free, and in all.
    pub segments_free: u64,
    /// See `segments_free`.
    pub segments: u64,
    /// Sealed segments of the two pools.
    pub probation_segments: u64,
    /// See `probation_segments`.
    pub main_segments: u64,
    /// Bytes of records that a slot points to.
    pub live_bytes: u64,
    /// Bytes appended to segments in use.
    pub used_bytes: u64,
    /// Retired memory that a pin or a guard still keeps.
    pub condemned_bytes: u64,
    /// Youngest generation.
    pub generation: u64,
    /// Mean size of inserted items, bytes.
    pub mean_item_bytes: f64,
    /// Units of the index rebuilt, and split.
    pub index_rebuilds: u64,
    /// See `index_rebuilds`.
    pub index_splits: u64,
    /// Waits for a unit's lock.
    pub index_lock_waits: u64,
}

impl Cache {
    /// Items in the cache, gone ones included until they are reclaimed.
    pub fn len(&self) -> u64 {
        self.inner.store.index.items()
    }

    /// Whether there is no item.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The budget, bytes.
    pub fn memory(&self) -> u64 {
        self.inner.store.budget.limit_bytes()
    }

    /// The smallest budget `set_memory` takes, bytes.
    pub fn memory_min(&self) -> u64 {
        self.inner.least_memory()
    }

    /// Charged to the budget now, bytes. More than `memory()` while memory is on its way back.
    pub fn charged(&self) -> u64 {
        self.inner.store.budget.charged_bytes()
    }

    /// The largest budget `set_memory` takes, bytes.
    pub fn memory_max(&self) -> u64 {
        self.inner.memory_max
    }

    /// The largest value, bytes.
    pub fn item_size_max(&self) -> u64 {
        self.inner.item_size_max.load(Ordering::Relaxed)
    }

    /// The longest key, bytes.
    pub fn key_size_max(&self) -> usize {
        self.inner.key_size_max
    }

    /// The time this cache goes by, milliseconds since the Unix epoch.
    pub fn now_ms(&self) -> u64 {
        self.inner.store.time.now_ms()
    }

    /// First and last-plus-one address of the item memory, to look it up in the kernel's books.
    pub fn item_address_range(&self) -> (usize, usize) {
        self.inner.store.region().address_range()
    }

    /// As `set_memory`, but never waits: the limit holds for what is taken from now on, and the background
    /// thread gives back what is too much.
    pub fn set_memory_soon(&self, bytes: u64) -> Result<(), Error> {
        self.inner.set_limit(bytes)?;
        if let Some(bell) = &self.inner.bell {
            bell.ring();
        }
        Ok(())
    }

    /// Changes the budget. Growing is at once; shrinking evicts until enough has gone back to the system
    /// and returns when it has, or with `Error::NoRoom` when guards hold too much (the new bound stands and
    /// the background thread goes on).
    pub fn set_memory(&self, bytes: u64) -> Result<(), Error> {
        let inner = &self.inner;
        inner.set_limit(bytes)?;
        match inner.reclaim.shrink(&inner.store) {
            true => Ok(()),
            false => Err(Error::NoRoom),
        }
    }

    /// Makes everything that is stored now invisible. O(1); the memory comes back by reclaim.
    pub fn flush(&self) {
        self.inner.flush_now(false);
    }

    /// Does so at a time, Unix seconds; as with memcached, what is stored during that very second goes too.
    pub fn flush_at(&self, unix_s: u64) {
        if self.inner.flush_is_due() {
            self.inner.flush_now(true);
        }
        let due_ms = unix_s.saturating_mul(1000);
        let flush = &self.inner.store.flush;
        flush.dark_from_ms.store(due_ms, Ordering::Relaxed);
        flush.due_ms.store(due_ms, Ordering::Release);
        if self.inner.flush_is_due() {
            self.inner.flush_now(true);
        }
    }

    /// Bytes of the cache that guards keep from being reused now: the whole segments their values lie in, each once
    /// whoever holds it. Walks the segment table.
    pub fn held_bytes(&self) -> u64 {
        self.inner.store.segments.held_bytes()
    }

    /// Empties every segment of which a tenth or more is dead, expired or flushed, now: for tests and quiet
    /// hours. (Reclaim does so by itself when room is wanted.) Copies what is live in them.
    pub fn sweep(&self) {
        while self.inner.reclaim.sweep(&self.inner.store, 0.0) {}
    }

    /// The most read keys, hottest first, by the sketch (`Config::hot_keys`; empty without it).
    pub fn hot_keys(&self, count: usize) -> Vec<HotKey> {
        match &self.inner.hot {
            Some(hot) => lock(hot).top(count),
            None => Vec::new(),
        }
    }

    /// What the cache has done and holds. Walks the segment table.
    pub fn stats(&self) -> Stats {
        let inner = &self.inner;
        let store = &inner.store;
        let sum = |counter| store.counters.sum(counter);
        let (probation, main) = inner.reclaim.queued();
        let (used_bytes, live_bytes) = store.used_and_live();
        let index = store.index.stats();
        let load = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        Stats {
            items: store.index.items(),
            hits: sum(Counter::Hits),
            misses: sum(Counter::Misses),
            reads_expired: sum(Counter::ReadsExpired),
            reads_flushed: sum(Counter::ReadsFlushed),
            inserts: sum(Counter::Inserts),
            replaced: sum(Counter::Replaced),
            overwritten_in_place: sum(Counter::EqualSizeInPlace) + sum(Counter::OtherInPlace),
            equal_size_overwrites: sum(Counter::EqualSizeInPlace)
                + sum(Counter::EqualSizeElsewhere),
            equal_size_in_place: sum(Counter::EqualSizeInPlace),
            deleted: sum(Counter::Deleted),
            evicted: sum(Counter::Evicted),
            expired: sum(Counter::Expired),
            refused_room: sum(Counter::RefusedRoom),
            refused_min_ttl: sum(Counter::RefusedMinTtl),
            refused_size: sum(Counter::RefusedSize),
            moved: sum(Counter::Moved),
            moved_bytes: sum(Counter::MovedBytes),
            inserted_bytes: sum(Counter::InsertedBytes),
            reused_bytes: sum(Counter::ReusedBytes),
            refaults: sum(Counter::Refaults),
            scanned: sum(Counter::Scanned),
            segments_drained: sum(Counter::SegmentsDrained),
            segments_compacted: sum(Counter::SegmentsCompacted),
            segments_relinked: sum(Counter::SegmentsRelinked),
            direct_passes: sum(Counter::DirectPasses),
            reclaim_stalled: sum(Counter::ReclaimStalled),
            read_retries: sum(Counter::ReadRetries),
            memory_bytes: store.budget.limit_bytes(),
            charged_bytes: store.budget.charged_bytes(),
            reserved_bytes: inner.reserved_bytes,
            leased_bytes: inner.leased_bytes.load(Ordering::Relaxed),
            table_bytes: inner.table_bytes,
            index_bytes: store.index.bytes(),
            index_used_bytes: store.index.used_bytes(),
            ghost_bytes: store.ghost_bytes(),
            shadow_bytes: store.policy.steering().bytes() + store.compress.control.memory_bytes(),
            policy_setting: store.policy.steering().current() as u64,
            policy_switches: store.policy.steering().switches(),
            policy_sampling: store.policy.steering().sampling(),
            segment_bytes_total: (store.segments.owned() * store.segments.bytes()) as u64,
            segment_bytes: store.segments.bytes() as u64,
            segments_free: store.segments.free() as u64,
            segments: store.segments.owned() as u64,
            probation_segments: probation as u64,
            main_segments: main as u64,
            live_bytes,
            used_bytes,
            condemned_bytes: inner.reclaim.condemned_bytes(),
            generation: store.facts.now.load(Ordering::Relaxed) as u64,
            mean_item_bytes: store.policy.mean_size(),
            index_rebuilds: load(&index.rebuilds),
            index_splits: load(&index.splits) + load(&index.reread_splits),
            index_lock_waits: load(&index.lock_waits),
        }
    }
}

impl Inner {
    /// Checks and sets the budget.
    fn set_limit(&self, bytes: u64) -> Result<(), Error> {
        let mut probe = Config::new(bytes);
        probe.memory_max = Some(self.memory_max.max(bytes));
        probe.reserved_bytes = self.reserved_bytes;
        probe.check()?;
        let least = self.least_memory();
        if bytes > self.memory_max || bytes < least {
            return Err(Error::Config(format!(
                "memory = {bytes} bytes: between {least} and memory_max = {} bytes",
                self.memory_max
            )));
        }
        if !self.store.segments.extents().gives_back() {
            return Err(Error::Config(format!(
                "memory = {bytes} bytes: with page_mode = hugetlb-1g the budget is fixed at the start"
            )));
        }
        let grows = bytes > self.store.budget.limit_bytes();
        self.store.budget.set_limit(bytes);
        if grows {
            // The new room is cold: main fills first, as at the start.
            self.store.facts.evicted.store(false, Ordering::Relaxed);
        }
        self.store.refresh_capacity();
        Ok(())
    }

    fn least_memory(&self) -> u64 {
        MEMORY_MIN.max(8 * self.store.segments.bytes() as u64)
            + self.reserved_bytes
            + self.table_bytes
            + self.reclaim.dictionary_bytes_max(&self.store)
    }

    /// Raises the mark. Under the reclaim lock, so that no old item is carried to a young segment meanwhile.
    pub(crate) fn flush_now(&self, due_only: bool) {
        let store = &self.store;
        self.reclaim.while_still(|| {
            if due_only && !self.flush_is_due() {
                // Another thread saw it due as well and was first.
                return;
            }
            if store.flush.due_ms.load(Ordering::Relaxed) != u64::MAX && !due_only {
                // As with memcached, a flush now takes the place of one that was to come.
                store.flush.dark_from_ms.store(u64::MAX, Ordering::Relaxed);
            }
            self.raise_mark(|mark| {
                store.flush.birth.fetch_max(mark, Ordering::AcqRel);
                store.flush.any.fetch_max(mark, Ordering::AcqRel);
                store.flush.due_ms.store(u64::MAX, Ordering::Release);
            });
        });
        if let Some(hot) = &self.hot {
            lock(hot).forget(|_| true);
        }
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Hands `raise` the birth that divides what was published from what will be. No segment is opened between
    /// taking the mark and raising it. Under the reclaim lock.
    pub(super) fn raise_mark(&self, raise: impl FnOnce(u64)) {
        let store = &self.store;
        let held: Vec<_> = store
            .lanes
            .all()
            .filter(|_| !mutant(Mutant::NoHold))
            .map(|lane| lane.hold())
            .collect();
        let mark = store.segments.last_birth();
        for lane in store.lanes.all() {
            lane.close(store);
        }
        if !mutant(Mutant::FlushKeepsHoles) {
            crate::reclaim::close_holes(store, 0);
        }
        raise(mark);
        drop(held);
    }
}
