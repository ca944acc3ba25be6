//! What to drain next: the queues of sealed segments, and the facts the policy asks for.

use super::drain::{Drain, Mode};
use super::{Books, Reclaim, CANDIDATES_MAX};
use crate::location::{Tier, COUNTER_MAX};
use crate::models_switch::{mutant, Mutant};
use crate::policy::{self, Candidate, Next, Pool, PoolFacts, PoolSide};
use crate::segment::SegmentId;
use crate::store::{Store, NO_MAIN};
use crate::sync::{lock, Ordering};
use std::collections::VecDeque;

impl Reclaim {
    /// Takes newly sealed segments into the queues.
    pub(super) fn queue_sealed(&self, store: &Store, books: &mut Books) {
        let sealed = std::mem::take(&mut *lock(&store.sealed));
        if !sealed.is_empty() {
            books.unsettled = true;
            self.reopens.store(true, Ordering::Relaxed);
            books.compact.follow(store);
        }
        for id in sealed {
            let segment = store.segment(id);
            let (queue, bytes) = books.of(segment.tier(), segment.pool());
            *bytes += segment.used() as u64;
            match segment.pool() {
                Pool::Probation => queue.push_back(id),
                Pool::Main => {
                    let generation = segment.generation();
                    let at = queue
                        .partition_point(|&other| store.segment(other).generation() <= generation);
                    queue.insert(at, id);
                }
            }
        }
        self.publish_oldest(store, books);
    }

    pub(super) fn publish_oldest(&self, store: &Store, books: &Books) {
        let main = match store.compress.is_on() && !books.compressed_main.is_empty() {
            true => &books.compressed_main,
            false => &books.main,
        };
        let oldest = main
            .front()
            .map_or(NO_MAIN, |&id| store.segment(id).generation());
        store.facts.oldest_main.store(oldest, Ordering::Relaxed);
    }

    /// Chooses and starts the next drain. False: nothing can be drained now.
    pub(super) fn start(&self, store: &Store, books: &mut Books) -> bool {
        // A segment that a guard holds is in nobody's way, but nobody knows when it comes free.
        let unheld = |&&(id, _): &&(SegmentId, u64)| !is_held(store, id);
        let waiting = books.condemned.iter().filter(unheld).count();
        let enough = self.available(store) + waiting > self.high(store) && !self.owes(store);
        let waiting_bytes = (waiting * store.segments.bytes()) as u64;
        if waiting_bytes >= Reclaim::condemned_cap(store) || waiting > 0 && enough {
            // Evicting more would free no sooner: wait for the pins.
            return false;
        }
        if waiting > 0 && store.segments.free() == 0 && store.segments.could_add() == 0 {
            // Survivors would have nowhere to go and be evicted; what is condemned comes free soon.
            return false;
        }
        if books.unsettled {
            // What was sealed a moment ago can be drained two epochs later.
            let passed = store.domain.try_advance() && store.domain.try_advance();
            books.unsettled = !passed;
        }
        let evict = self.evicts(store);
        if self.owes(store) && self.is_debts_turn(store, books) {
            if store.segments.give_back_extent() {
                return true;
            }
            // Where an extent holds several segments, freeing others would not bring it nearer.
            if evict && store.segments.per_extent() > 1 {
                return self.start_emptying(store, books);
            }
        }
        if evict && closes_compressed(store, books) {
            return true;
        }
        let facts = self.pool_facts(store, books);
        self.too_young.store(false, Ordering::Relaxed);
        if facts.most_freed.is_none() && evict {
            if let Some(id) = self.recodable(store, books) {
                return self.unqueue(store, books, id)
                    && self.begin(store, books, id, Mode::Compact);
            }
            if let Some(pool) = self.next_compressed(store, books, &facts) {
                let hits = &store.compress.events.pool_limit_hit;
                hits.fetch_add(1, Ordering::Relaxed);
                return self.drain_oldest(store, books, Tier::Compressed, pool);
            }
        }
        match policy::next(store.setting(), &facts) {
            Next::Expire(candidate) | Next::Compact(candidate) => {
                let id = SegmentId(candidate.segment);
                let mode = Mode::Compact;
                self.unqueue(store, books, id) && self.begin(store, books, id, mode)
            }
            _ if !evict => false,
            Next::Drain(pool) => self.drain_oldest(store, books, Tier::Hot, pool),
            Next::Deactivate => {
                self.start_oldest(store, books, Tier::Hot, Pool::Main, Some(Mode::Deactivate))
            }
            Next::Age => {
                let mut generations = lock(&store.generations);
                generations.age();
                store.publish_now(&generations);
                true
            }
            Next::Seal(pool) => {
                let mut closed = false;
                for lane in store.lanes.of_pool(pool) {
                    closed |= lane.close(store);
                }
                if !closed && pool == Pool::Probation {
                    closed |= store.lanes.probation_compaction.close(store);
                }
                if !closed && pool == Pool::Main {
                    closed |= store.lanes.survivors.close(store);
                    closed |= store.lanes.compaction.close(store);
                }
                closed
            }
            Next::Nothing => false,
        }
    }

    /// Whether the next drain is for an extent that is owed. Where no writer could open a segment, every other one is
    /// for them: a debt may be many extents (a ghost table that doubles), and they would wait for all.
    fn is_debts_turn(&self, store: &Store, books: &mut Books) -> bool {
        books.paid_last = self.available(store) > 0 || !books.paid_last;
        books.paid_last
    }

    /// Whether live items may be made to leave.
    pub(super) fn evicts(&self, store: &Store) -> bool {
        self.evict.load(Ordering::Relaxed) || store.budget.excess_bytes() > 0
    }

    /// Drains the oldest segment of a pool, or where guards and half-written values keep all of it, of the other.
    fn drain_oldest(&self, store: &Store, books: &mut Books, tier: Tier, pool: Pool) -> bool {
        let Some(pool) = self.ripe_pool(store, books, tier, pool) else {
            return false;
        };
        if self.start_oldest(store, books, tier, pool, None) {
            return true;
        }
        let (queue, _) = books.of(tier, pool);
        let soon = |&id: &SegmentId| !store.domain.passed(store.segment(id).sealed_epoch());
        if queue.iter().any(soon) {
            // Only pins are in the way: what the policy asked for can be drained in a moment.
            return false;
        }
        let other = pool.other();
        self.ripe_pool(store, books, tier, other) == Some(other)
            && self.start_oldest(store, books, tier, other, None)
    }

    /// The pool to drain under `min_ttl`: the one asked for, or the other of its tier where its oldest segment is
    /// too young; None where both are. What hot gives to the compressed tier is not evicted and may be young.
    fn ripe_pool(&self, store: &Store, books: &mut Books, tier: Tier, pool: Pool) -> Option<Pool> {
        let demotes = tier == Tier::Hot && store.compress.is_on();
        if demotes || store.min_ttl_ms == 0 {
            return Some(pool);
        }
        let ripe = [pool, pool.other()].into_iter().find(|&pool| {
            let (queue, _) = books.of(tier, pool);
            let mut drainable = queue.iter().filter(|&&id| can_drain(store, id));
            drainable.next().is_some_and(|&id| is_ripe(store, id))
        });
        if ripe.is_none() {
            self.too_young.store(true, Ordering::Relaxed);
        }
        ripe
    }

    /// Drains the oldest segment of a pool that nobody is still writing in, and that no guard holds. Not one of an extent
    /// that is being emptied: nobody could open it.
    pub(super) fn start_oldest(
        &self,
        store: &Store,
        books: &mut Books,
        tier: Tier,
        pool: Pool,
        mode: Option<Mode>,
    ) -> bool {
        let (queue, _) = books.of(tier, pool);
        let relinks = mode == Some(Mode::Deactivate);
        let emptying = store.segments.emptying();
        let fits = |&id: &SegmentId| {
            emptying != Some(store.segments.extent_of(id))
                && (can_drain(store, id) || relinks && is_settled(store, id))
        };
        let Some(id) = queue.iter().copied().find(fits) else {
            return false;
        };
        let mode = mode.unwrap_or(match (tier, pool) {
            (_, Pool::Probation) => Mode::Probation,
            (Tier::Hot, Pool::Main) => Mode::Main,
            // Nothing is relinked there: a copy is when an item gets a better code.
            (Tier::Compressed, Pool::Main) => Mode::Empty,
        });
        self.unqueue(store, books, id) && self.begin(store, books, id, mode)
    }

    /// A drain that found no room for what lives in its segment: the segment goes back among the others, and is left
    /// alone until room was made elsewhere.
    pub(super) fn give_up(&self, store: &Store, books: &mut Books, id: SegmentId) {
        let segment = store.segment(id);
        segment.stop_drain();
        books.given_up.push(id);
        let (queue, bytes) = books.of(segment.tier(), segment.pool());
        *bytes += segment.used() as u64;
        let older = |&other: &SegmentId| store.segment(other).generation() < segment.generation();
        let at = match segment.pool() {
            Pool::Probation => 0,
            Pool::Main => queue.partition_point(older),
        };
        queue.insert(at, id);
        self.publish_oldest(store, books);
    }

    pub(super) fn unqueue(&self, store: &Store, books: &mut Books, id: SegmentId) -> bool {
        let segment = store.segment(id);
        let (queue, bytes) = books.of(segment.tier(), segment.pool());
        let Some(at) = queue.iter().position(|&other| other == id) else {
            return false;
        };
        queue.remove(at);
        *bytes -= segment.used() as u64;
        self.publish_oldest(store, books);
        true
    }

    pub(super) fn begin(
        &self,
        store: &Store,
        books: &mut Books,
        id: SegmentId,
        mode: Mode,
    ) -> bool {
        let segment = store.segment(id);
        segment.start_drain();
        let mut strictness = u32::from(books.fruitless.strictness());
        let hot_bytes = books.sealed_bytes.iter().sum::<u64>();
        let tier = segment.tier();
        if tier == Tier::Hot && store.compress.is_on() && hot_bytes > 2 * self.hot_bytes_max(store)
        {
            // Nothing is lost by going a tier down, and second chances would keep hot from its share.
            strictness = COUNTER_MAX;
        }
        let mut drain = Drain::new(id, segment.live() as u64, mode, strictness);
        drain.promise(store.promised());
        if mode == Mode::Compact && !self.evicts(store) {
            drain.spare_all();
        }
        books.drain = Some(drain);
        true
    }

    pub(super) fn pool_facts(&self, store: &Store, books: &mut Books) -> PoolFacts {
        let segment_bytes = store.segments.bytes() as u64;
        let side = |pool: Pool, sealed: u32, sealed_bytes: u64| {
            let open_bytes: u64 = store
                .lanes
                .of_pool(pool)
                .iter()
                .filter_map(|lane| lane.open())
                .map(|(_, used)| used as u64)
                .sum();
            PoolSide {
                used_bytes: sealed_bytes + open_bytes,
                sealed,
                open_bytes,
            }
        };
        let largest = self.item_bytes_max.load(Ordering::Relaxed);
        PoolFacts {
            probation: side(
                Pool::Probation,
                books.probation.len() as u32,
                books.sealed_bytes[0],
            ),
            main: side(
                Pool::Main,
                books.main.len() as u32,
                books.sealed_bytes[1] + store.holes.segments() as u64 * segment_bytes,
            ),
            capacity_bytes: self.hot_bytes_max(store),
            segment_bytes,
            fresh_min_bytes: store.fresh_min_bytes(largest),
            wants_ageing: store.setting().rules.classes && lock(&store.generations).wants_ageing(),
            most_freed: self.most_freed(store, books, self.evicts(store)),
        }
    }

    /// The segment whose dead and expired bytes are most worth a copy of the rest; looks at a window of
    /// the table at a time. `drains`: room is made, and what is old is drained soon.
    pub(super) fn most_freed(
        &self,
        store: &Store,
        books: &mut Books,
        drains: bool,
    ) -> Option<Candidate> {
        let now_s = store.time.now_s();
        let probation_bytes = books.sealed_bytes[0] + books.compressed_bytes[0];
        let queued: usize = books.queues().into_iter().map(VecDeque::len).sum();
        if queued == 0 {
            return None;
        }
        let window = queued.min(CANDIDATES_MAX);
        let start = books.candidate_at % queued;
        books.candidate_at = start + window;
        let places = |queue: &VecDeque<SegmentId>| {
            let sealed = queue.len();
            (0..sealed).map(move |at| (at, sealed))
        };
        let queues = books.queues();
        let ids = queues
            .iter()
            .flat_map(|queue| queue.iter().copied().zip(places(queue)))
            .cycle()
            .skip(start)
            .take(window);
        let flushed = store.flush.birth.load(Ordering::Acquire);
        let any = store.flush.any.load(Ordering::Acquire);
        let dropped = |id: SegmentId, birth: u64| match &store.groups {
            Some(groups) if birth <= any => groups.dark_bytes(id.0, birth),
            _ => 0,
        };
        let stuck = |id: &SegmentId| books.given_up.contains(id);
        let ids = ids.filter(|(id, _)| can_drain(store, *id) && !stuck(id));
        let candidates = ids.map(|(id, (at, sealed))| {
            let segment = store.segment(id);
            let in_turn = drains && segment.tier() == Tier::Hot;
            let gone = segment.birth() <= flushed;
            Candidate {
                segment: id.0,
                pool: segment.pool(),
                // What was given back already is no gain.
                used_bytes: (segment.used() - segment.dead() + segment.dead_there()) as u64,
                dead_bytes: segment.dead_there() as u64,
                expired_bytes: if gone {
                    segment.live() as u64
                } else {
                    segment.expiring.expired(now_s) + dropped(id, segment.birth())
                },
                soon: in_turn && policy::is_soon_drained(segment.pool(), at, sealed),
            }
        });
        let capacity = store.facts.capacity_bytes.load(Ordering::Relaxed);
        let shares = policy::Shares {
            main: books.compact.share(),
            probation: policy::probation_compact_share(probation_bytes, capacity),
        };
        policy::most_freed(candidates, store.segments.bytes() as u64, shares)
    }
}

/// Whether `min_ttl` lets a segment's live items be evicted: it does where memory must go back.
pub(super) fn is_ripe(store: &Store, id: SegmentId) -> bool {
    let least = store.min_ttl_ms;
    least == 0
        || store.budget.excess_bytes() > 0
        || store
            .time
            .now_ms()
            .saturating_sub(store.segment(id).sealed_ms())
            >= least
}

/// Whether all who reserved in a sealed segment have published.
pub(super) fn is_settled(store: &Store, id: SegmentId) -> bool {
    let segment = store.segment(id);
    // In this order: a writer pinned since before the sealing counts itself in before it unpins.
    let passed = store.domain.passed(segment.sealed_epoch()) || mutant(Mutant::NotSettled);
    passed && (segment.writers.load(Ordering::SeqCst) == 0 || mutant(Mutant::WritersIgnored))
}

/// Whether a guard holds the segment.
pub(super) fn is_held(store: &Store, id: SegmentId) -> bool {
    store.segment(id).holds.load(Ordering::SeqCst) != 0
}

/// Whether draining the segment would bring room: under a guard its items would be lost, and nothing come free before
/// the guard goes.
pub(super) fn can_drain(store: &Store, id: SegmentId) -> bool {
    is_settled(store, id) && !is_held(store, id)
}

/// The same now or in a moment, when pins have passed.
pub(super) fn can_drain_soon(store: &Store, id: SegmentId) -> bool {
    let soon = || !store.domain.passed(store.segment(id).sealed_epoch());
    !is_held(store, id) && (soon() || is_settled(store, id))
}

/// Where nothing is demoted any more, the rest of what lies coded is in segments that nobody would fill: they are closed,
/// and leave as the others did. True if there were any.
fn closes_compressed(store: &Store, books: &Books) -> bool {
    let gone = books.compressed_main.is_empty() && books.compressed_probation.is_empty();
    if store.compress.is_on() || !gone || !store.compress.is_in_use() {
        return false;
    }
    let lanes = &store.lanes;
    let open = [
        &lanes.compressed_main,
        &lanes.compressed_probation,
        &lanes.compressed_compaction,
    ];
    open.into_iter()
        .fold(false, |closed, lane| lane.close(store) | closed)
}
