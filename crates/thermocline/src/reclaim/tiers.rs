//! The two tiers beside each other: how much hot may hold, and what leaves the compressed tier.
//!
//! ```text
//! hot evicts --(on)--> compressed probation (no hit in hot) or compressed main (all others)
//! compressed probation, oldest:  hit -> compressed main's young end     not -> ghost
//! compressed main, oldest:       hit -> its young end, mark cleared     not -> ghost
//! ```
//! Probation inside the compressed tier beats demoting everything alike by 2 to 3 % and demoting only what had
//! hits by 5 to 15 %. One hit counts, not two: with two and rare promotion a moving hot set lost up to 22 %.
//! Any hit promotes by a small chance, which is the reader's doing.

use super::choose::can_drain_soon;
use super::drain::Drain;
use super::{Books, Reclaim};
use crate::compress::{Press, Trained};
use crate::config::{COMPRESSED_PROBATION_SHARE, HOT_SHARE};
use crate::location::Tier;
use crate::policy::{Pool, PoolFacts, Verdict};
use crate::segment::SegmentId;
use crate::store::Store;
use crate::sync::{lock, Ordering};
use std::collections::VecDeque;

/// The first dictionary is trained from what lies in hot once that is so large a share of the cache.
const SAMPLE_FROM: u64 = 8;
/// Segments it is taken from, spread over all there are.
const SAMPLED_SEGMENTS: usize = 16;
/// So many items of each.
const SAMPLED_ITEMS: usize = 320;
/// How long demotion is held back for the first dictionary once the cache evicts. By the clock: the background thread
/// looks as often as writers ring, and twenty looks were over long before a busy machine had trained anything.
const WAIT_MS: u64 = 2_000;
/// Between two looks for samples in hot, where one did not bring enough: each codes up to 5,000 values.
const SAMPLE_PAUSE_MS: u64 = 1_000;
/// What is coded to this share brings nothing: demotion is held back until it is less than `SHARE_WORTH`.
const SHARE_POOR: f64 = 0.97;
const SHARE_WORTH: f64 = 0.9;

/// Bytes of the budget that compression holds for a while, beside what is set aside for it.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Grants {
    /// What is set aside for dictionaries, their tables and the encoder. Nothing where none serves: values that do not
    /// compress pay for nothing.
    fixed: u64,
    samples: u64,
    training: u64,
    /// Dictionaries and tables beyond their share.
    beyond: u64,
}

impl Grants {
    fn sum(&self) -> u64 {
        self.fixed + self.samples + self.training + self.beyond
    }
}

impl Books {
    /// A pool's queue and the used bytes of its sealed segments.
    pub(super) fn of(&mut self, tier: Tier, pool: Pool) -> (&mut VecDeque<SegmentId>, &mut u64) {
        match (tier, pool) {
            (Tier::Hot, Pool::Probation) => (&mut self.probation, &mut self.sealed_bytes[0]),
            (Tier::Hot, Pool::Main) => (&mut self.main, &mut self.sealed_bytes[1]),
            (Tier::Compressed, Pool::Probation) => (
                &mut self.compressed_probation,
                &mut self.compressed_bytes[0],
            ),
            (Tier::Compressed, Pool::Main) => {
                (&mut self.compressed_main, &mut self.compressed_bytes[1])
            }
        }
    }

    /// All queues, main's first.
    pub(super) fn queues(&self) -> [&VecDeque<SegmentId>; 4] {
        [
            &self.main,
            &self.probation,
            &self.compressed_main,
            &self.compressed_probation,
        ]
    }
}

impl Reclaim {
    /// Bytes the hot tier may hold: a small front while the compressed tier is on, else all.
    pub(super) fn hot_bytes_max(&self, store: &Store) -> u64 {
        let capacity = store.facts.capacity_bytes.load(Ordering::Relaxed);
        match store.compress.is_on() {
            true => {
                let share = store.compress.options.hot_share.unwrap_or(HOT_SHARE);
                ((capacity as f64 * share) as u64).max(4 * store.segments.bytes() as u64)
            }
            false => capacity,
        }
    }

    /// A step of the dictionaries' upkeep: asks for the memory of samples and of training, and trains when it
    /// is there. Takes 50 to 200 ms then, without the reclaim lock; the background thread's chore.
    pub(crate) fn train(&self, store: &Store) {
        let Ok(mut grants) = self.grants.try_lock() else {
            return;
        };
        let (shared, mut wanted) = (&store.compress, *grants);
        let mut due = false;
        {
            let mut books = lock(&self.books);
            let mut waits_since = books.waits_since;
            let press = books
                .press
                .get_or_insert_with(|| Press::new(self.dictionary_bytes, shared.options));
            if shared.rests(store.time.now_ms()) {
                press.rest();
                shared.dictionaries.clear();
                books.waits_since = None;
                drop(books);
                // Until there is a dictionary again.
                shared.set_waits(self.dictionary_bytes > 0);
                self.charge_grants(store, &mut grants, Grants::default());
                return;
            }
            shared.set_waits(waits(store, press, &mut waits_since));
            if press.look_around(shared) {
                wanted.samples = 0;
            }
            wanted.fixed = match press.needs_memory(shared) {
                true => self.dictionary_bytes,
                false => 0,
            };
            if let Some(bytes) = press.wants_samples(shared) {
                wanted.samples = bytes;
            }
            wanted.training = press.training_wants(shared);
            wanted.beyond = press.beyond_bytes(shared);
            due |= press.training_due(shared).is_some();
            books.waits_since = waits_since;
        }
        if !self.charge_grants(store, &mut grants, wanted) {
            return;
        }
        let mut books = lock(&self.books);
        let Some(press) = &mut books.press else {
            return;
        };
        if press.wants_samples(shared).is_some() {
            press.grant_samples();
        }
        drop(books);
        self.sample_hot(store);
        let mut books = lock(&self.books);
        let Some(press) = &mut books.press else {
            return;
        };
        let due = due || press.is_first() && press.training_due(shared).is_some();
        if !due {
            return;
        }
        let (room, samples) = (press.room(shared), press.take_samples());
        drop(books);
        let trained = Trained::from(samples, room, shared);
        let mut books = lock(&self.books);
        if let Some(press) = &mut books.press {
            let learned = trained.dictionary.is_some();
            press.install(shared, trained);
            if learned {
                let youngest = |queue: &VecDeque<SegmentId>| {
                    queue.iter().map(|&id| store.segment(id).birth()).max()
                };
                let queues = books.queues().into_iter();
                let below = queues
                    .filter_map(youngest)
                    .max()
                    .map_or(0, |birth| birth + 1);
                self.recode_below.store(below, Ordering::Relaxed);
            }
            let Some(press) = &books.press else { return };
            let less = Grants {
                fixed: match press.needs_memory(shared) {
                    true => grants.fixed,
                    false => 0,
                },
                beyond: press.beyond_bytes(shared),
                ..Grants::default()
            };
            drop(books);
            // What training took lies in the allocator's hands: back to the system first, then it is charged no more, or
            // writers would take the room twice.
            crate::mem::trim_heap((grants.samples + grants.training) as usize);
            self.charge_grants(store, &mut grants, less);
        }
    }

    /// Samples for the first dictionary from what lies in hot: it is there when memory becomes short, and nothing
    /// goes down uncoded for want of it. Takes the reclaim lock for a segment's samples at a time, about a millisecond.
    fn sample_hot(&self, store: &Store) {
        for id in self.segments_to_sample(store) {
            let mut books = lock(&self.books);
            // Others may have emptied it meanwhile.
            let is_there = books.main.contains(&id) || books.probation.contains(&id);
            if !is_there || !super::choose::is_settled(store, id) {
                continue;
            }
            match &mut books.press {
                Some(press) if press.wants_first() => {
                    Drain::sample(store, press, id, SAMPLED_ITEMS);
                }
                _ => return,
            }
        }
    }

    /// Segments of hot, spread over all there are; none where there is no need for samples, or too little in hot.
    fn segments_to_sample(&self, store: &Store) -> Vec<SegmentId> {
        let mut books = lock(&self.books);
        self.queue_sealed(store, &mut books);
        let wanted = books.press.as_ref().is_some_and(Press::wants_first);
        let capacity = store.facts.capacity_bytes.load(Ordering::Relaxed);
        let now_ms = store.time.now_ms();
        let recent = books
            .sampled_ms
            .is_some_and(|at| now_ms.saturating_sub(at) < SAMPLE_PAUSE_MS);
        if !wanted || recent || books.sealed_bytes.iter().sum::<u64>() < capacity / SAMPLE_FROM {
            return Vec::new();
        }
        books.sampled_ms = Some(now_ms);
        // Without traffic nobody else moves the epoch on.
        let _ = store.domain.try_advance() && store.domain.try_advance();
        let settled = |id: &SegmentId| super::choose::is_settled(store, *id);
        let queues = [&books.main, &books.probation].into_iter().flatten();
        let ids: Vec<SegmentId> = queues.copied().filter(settled).collect();
        let step = ids.len().div_ceil(SAMPLED_SEGMENTS).max(1);
        ids.into_iter().step_by(step).collect()
    }

    /// A segment of the compressed tier from before the youngest dictionary: coded with it, what lies there takes less
    /// room, and nothing need leave for that.
    pub(super) fn recodable(&self, store: &Store, books: &Books) -> Option<SegmentId> {
        let below = self.recode_below.load(Ordering::Relaxed);
        if below == 0 || !store.compress.is_on() {
            return None;
        }
        let queues = [&books.compressed_main, &books.compressed_probation];
        let old = |id: &SegmentId| {
            store.segment(*id).birth() < below && super::choose::is_settled(store, *id)
        };
        let found = queues.into_iter().flatten().copied().find(old);
        if found.is_none() {
            self.recode_below.store(0, Ordering::Relaxed);
        }
        found
    }

    /// The kinds of items that were demoted lately, as `Press::kinds` has them.
    pub(crate) fn kinds(&self, store: &Store) -> Vec<(Vec<u8>, u64, f64, u8)> {
        let books = lock(&self.books);
        let press = books.press.as_ref();
        press.map_or(Vec::new(), |press| press.kinds(&store.compress))
    }

    /// What compression sets aside for dictionaries once it has one, bytes; 0 where it was never on.
    pub(crate) fn dictionary_bytes_max(&self, store: &Store) -> u64 {
        match store.compress.is_in_use() {
            true => self.dictionary_bytes,
            false => 0,
        }
    }

    /// Brings what is charged for compression beside its fixed share to what is wanted. False: it cannot be had
    /// yet; segments make room for it meanwhile.
    fn charge_grants(&self, store: &Store, now: &mut Grants, wanted: Grants) -> bool {
        let (have, want) = (now.sum(), wanted.sum());
        let paid = match want.checked_sub(have) {
            Some(more) => store.budget.try_charge(more),
            None => {
                store.budget.uncharge(have - want);
                true
            }
        };
        if paid {
            *now = wanted;
        }
        let owed = if paid { 0 } else { want - have };
        if self.grants_want.swap(owed, Ordering::Relaxed) != owed || owed > 0 {
            self.withhold(store);
        }
        paid
    }

    /// The pool of the compressed tier to drain next; None: hot is over its share, or nothing is compressed.
    pub(super) fn next_compressed(
        &self,
        store: &Store,
        books: &mut Books,
        hot: &PoolFacts,
    ) -> Option<Pool> {
        let hot_bytes = hot.probation.used_bytes + hot.main.used_bytes;
        // Values on their way in, and guards on such, may keep all that is sealed there.
        let mut sealed = books.probation.iter().chain(&books.main);
        let hot_can_give = sealed.any(|&id| can_drain_soon(store, id));
        let hot_is_over = store.compress.is_on() && hot_bytes > hot.capacity_bytes;
        // What does not compress frees nothing on its way down: where writers wait, both give in turn. What does
        // makes the room by itself; evicting what lies coded for every segment demoted would keep that tier empty.
        let in_turn = self.available(store) == 0 && books.hot_gave_last && books.hot_frees_little;
        books.hot_gave_last = hot_is_over && hot_can_give && !in_turn;
        if books.hot_gave_last {
            return None;
        }
        let [probation, main] = books.compressed_bytes;
        let share = ((probation + main) as f64 * COMPRESSED_PROBATION_SHARE) as u64;
        let has_probation = !books.compressed_probation.is_empty();
        match (has_probation, !books.compressed_main.is_empty()) {
            (true, has_main) if probation > share || !has_main => Some(Pool::Probation),
            (_, true) => Some(Pool::Main),
            _ => None,
        }
    }
}

/// Whether demotion is held back: until the first dictionary is there or is known to bring nothing (for two seconds
/// of evicting at most), and while hardly anything compresses and hardly anything lies coded.
fn waits(store: &Store, press: &Press, since: &mut Option<u64>) -> bool {
    let shared = &store.compress;
    if press.is_first() {
        let now_ms = store.time.now_ms();
        if store.facts.evicted.load(Ordering::Relaxed) {
            since.get_or_insert(now_ms);
        }
        let over = since.is_some_and(|since| now_ms.saturating_sub(since) >= WAIT_MS);
        return press.has_memory() && !over;
    }
    let capacity = store.facts.capacity_bytes.load(Ordering::Relaxed);
    let coded_from = shared.dictionaries.plain_bytes();
    match shared.waits() {
        true => shared.coded_share() >= SHARE_WORTH,
        false => shared.coded_share() >= SHARE_POOR && coded_from * 32 < capacity,
    }
}

/// The verdict on an item of the compressed tier.
pub(super) fn compressed_verdict(counter: u8) -> Verdict {
    match counter {
        0 => Verdict::Evict { ghost: true },
        _ => Verdict::Keep { counter: 0 },
    }
}

/// Where in the compressed tier an item goes that hot's `pool` evicts.
pub(super) fn demoted_pool(pool: Pool, counter: u8) -> Pool {
    match (pool, counter) {
        (Pool::Probation, 0) => Pool::Probation,
        _ => Pool::Main,
    }
}
