//! Room for records: which lane, what is kept free, and what opening and sealing a segment means to the policy.

use super::Store;
use crate::generation::Source;
use crate::holes::Room;
use crate::item::{Kind, Measured};
use crate::location::{Place, Tier};
use crate::mem::Pin;
use crate::policy::{Origin, Pool};
use crate::segment::SegmentId;
use crate::sync::{lock, AtomicU32, Ordering};
use crate::writer::{LaneBooks, Opening, Reserved};

impl Store {
    /// Reserves room for a record in the lane of this core.
    pub(crate) fn reserve(&self, pin: &Pin, pool: Pool, bytes: usize, wide: bool) -> Reserved {
        let opening = Opening {
            tier: Tier::Hot,
            origin: Origin::Fresh(pool),
            reserve: self.reserve_segments(),
            now_s: self.time.now_s(),
        };
        let lane = self.lanes.of(pool);
        match lane.reserve(&self.segments, pin, bytes, wide, opening, self) {
            Reserved::At(place) => Reserved::At(place),
            Reserved::Full => self.reserve_elsewhere(pin, bytes, wide),
        }
    }

    /// Reserves room for a record of one piece: a hole among its like, or room in the lane. The version it begins at.
    pub(crate) fn reserve_room(
        &self,
        pin: &Pin,
        pool: Pool,
        bytes: usize,
        wide: bool,
    ) -> Option<Room> {
        if pool == Pool::Main {
            if let Some(room) = self.holes.reserve(&self.segments, bytes, wide) {
                return Some(room);
            }
        }
        match self.reserve(pin, pool, bytes, wide) {
            Reserved::At(place) => Some(Room { place, version: 0 }),
            Reserved::Full => None,
        }
    }

    /// A segment that was open for reuse is sealed anew and waits to be queued.
    pub(crate) fn reseal(&self, id: SegmentId) {
        let now_ms = match self.min_ttl_ms {
            0 => 0,
            _ => self.time.now_ms(),
        };
        self.segments.reseal(id, self.domain.epoch(), now_ms);
        lock(&self.sealed).push(id);
    }

    /// This core's lane is full and no segment is free: room that another lane has left will do.
    #[cold]
    fn reserve_elsewhere(&self, pin: &Pin, bytes: usize, wide: bool) -> Reserved {
        [Pool::Probation, Pool::Main]
            .into_iter()
            .flat_map(|pool| self.lanes.of_pool(pool))
            .find_map(|lane| lane.reserve_open(&self.segments, pin, bytes, wide))
            .map_or(Reserved::Full, Reserved::At)
    }

    /// Writes a record that fits one piece into reserved room.
    #[inline]
    pub(crate) fn write(&self, place: Place, new: &Measured<'_>) {
        let item = self.item(place);
        if new.small {
            item.write_small(new);
            return;
        }
        let record = &new.record;
        item.write_long_head(
            Kind::Plain,
            record.key,
            &record.fields,
            record.value.len(),
            new.bytes,
        );
        if new.token_out {
            let _ = item.mark_token_out(item.header());
        }
        let layout = item.layout(item.header());
        self.region()
            .copy_in(item.value_offset(&layout), record.value);
    }

    /// Free segments kept for survivors of a drain, left alone by writers: one, and one more where they go two ways. A
    /// walked segment keeps at most 0.9 of its bytes, which go where something is open first.
    #[inline]
    pub(crate) fn reserve_segments(&self) -> usize {
        1 + usize::from(self.compress.is_on() || self.has_compressed())
    }

    /// A segment that main's writers filled was sealed.
    fn count_new_in_main(&self, used: u64) {
        let new = self.facts.among_new.new_of(used);
        // While hot is a small front, what counts is what goes into the compressed tier's main.
        if !self.compress.is_on() {
            let mut generations = lock(&self.generations);
            generations.put_main(new, Source::New);
            self.publish_now(&generations);
        }
    }

    /// Whether anything was sealed in the compressed tier.
    fn has_compressed(&self) -> bool {
        let facts = &self.facts;
        let segments = |count: &AtomicU32| count.load(Ordering::Relaxed) > 0;
        segments(&facts.compressed_main_segments) || segments(&facts.compressed_probation_segments)
    }

    /// A segment of this tier, pool and generation is no more.
    pub(crate) fn closed(&self, tier: Tier, pool: Pool, generation: u32) {
        if pool == Pool::Main {
            let mut generations = lock(&self.generations);
            generations.free_main(generation);
            self.policy.classes().fold(generations.oldest());
        }
        self.facts
            .segments_of(tier, pool)
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl LaneBooks for Store {
    fn sealing(&self, id: SegmentId, used: usize, fresh: bool) {
        let now_ms = match self.min_ttl_ms {
            0 => 0,
            _ => self.time.now_ms(),
        };
        self.segments.seal(id, used, self.domain.epoch(), now_ms);
        let segment = self.segments.get(id);
        if fresh && segment.pool() == Pool::Main {
            self.count_new_in_main(used as u64);
        }
        lock(&self.sealed).push(id);
    }

    fn opening(&self, opening: &Opening) -> (Pool, u32) {
        self.refresh_capacity();
        let mut generations = lock(&self.generations);
        let (pool, generation) = match (opening.tier, opening.origin) {
            (Tier::Hot, origin) => origin.open(self.setting(), &mut generations),
            // Young where it is new there, whatever hot's policy; compaction keeps the age.
            (_, Origin::Fresh(Pool::Probation)) => (Pool::Probation, generations.now()),
            (_, Origin::Compacted(source)) => (Pool::Main, generations.open_main_as(source)),
            (_, Origin::Fresh(Pool::Main) | Origin::Survivors) => {
                (Pool::Main, generations.open_main())
            }
        };
        self.facts
            .segments_of(opening.tier, pool)
            .fetch_add(1, Ordering::Relaxed);
        (pool, generation)
    }

    fn not_opened(&self, tier: Tier, pool: Pool, generation: u32) {
        self.closed(tier, pool, generation);
    }
}
