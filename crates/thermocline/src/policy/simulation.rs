//! The cache without bytes: verdicts, ghosts, generations and duel at segment grain, wired as in the engine.
//!
//! Owns queues of segments whose items are a hash and a size. One thread, instant copies, sizes fixed per key;
//! nothing expires. What it answers is which requests hit, and what was copied to get there.
//!
//! ```text
//! request -> resident? counter + 1 : admit -> make room (next: compact, drain, deactivate, age, seal) -> append
//! ```
//! An item over a quarter of a segment spills over the end of its segment and is charged exactly: that
//! stands for the engine's chunks. What an engine has beside the policy (chunks, a segment of their own for survivors,
//! a limit for values) is simulated where its numbers are given (`EngineRoom`).
//!
//! One file, though long: it is the engine's reclaim loop retold without bytes, to be read from end to end beside it.

mod config;
mod records;

use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use super::classes::class;
use super::*;
use crate::generation::{Generations, Source};
use crate::ghost::Ghosts;
use config::ratio;
pub use config::{EngineRoom, SimulationConfig, SimulationCounters};
use records::{Hashed, Lane, Large, Part, Queue, Record, Resident, Segment};

/// Segments of a cache whose segment size is not given.
const SEGMENTS: u64 = 128;
/// Inserts between two looks at whether the ghost table fits.
const GHOSTS_LOOK: u64 = 1024;
/// An engine's numbers: a chunk is at most this part of a segment, and at least that to fill a tail; a word a chunk in its
/// owner's record.
const CHUNK_PART: u64 = 4;
const TAIL_PART: u64 = 16;
const CHUNK_WORD_BYTES: u64 = 8;
/// Steps of one making of room; more would be a rule that frees nothing.
const STEPS_MAX: u64 = 1_000_000;

#[derive(Debug)]
pub struct Simulation {
    config: SimulationConfig,
    policy: Policy,
    duel: Duel,
    setting: &'static Setting,
    generations: Generations,
    ghosts: Option<Ghosts>,
    residents: HashMap<u64, Resident, BuildHasherDefault<Hashed>>,
    large: HashMap<u64, Large, BuildHasherDefault<Hashed>>,
    /// A large item that is being written: its segments are not drained.
    writing: Option<u64>,
    /// What drains of main have walked in a row that freed next to nothing.
    fruitless: Fruitless,
    queues: [Queue; 2],
    /// Open segments by lane.
    open: [Option<(Pool, Segment)>; 4],
    spare: Vec<Vec<Record>>,
    /// Bytes that segments take of the capacity, their unused ends included.
    charged_bytes: u64,
    live_bytes: u64,
    dead_bytes: u64,
    next_id: u32,
    evicted_before: bool,
    counters: SimulationCounters,
    inserts: u64,
}

impl Simulation {
    /// An empty cache. Memory grows with the items it holds: about 60 bytes each.
    pub fn new(config: SimulationConfig) -> Simulation {
        let mut config = config;
        if config.segment_bytes == 0 {
            config.segment_bytes = (config.capacity_bytes / SEGMENTS).max(1);
        }
        let settings = config.policy.settings(config.objective);
        let mut duel = Duel::new(
            config.policy,
            config.objective,
            config.capacity_bytes,
            config.seed,
        );
        duel.set_share_min(share_of_floor(&config));
        Simulation {
            // Verdicts only: the simulation drives its own duel.
            policy: Policy::new(ReclaimPolicy::Fifo, config.objective, 0, config.seed),
            duel,
            setting: &settings[config.setting.unwrap_or(0).min(settings.len() - 1)],
            generations: generations(&config),
            ghosts: None,
            residents: HashMap::default(),
            large: HashMap::default(),
            writing: None,
            fruitless: Fruitless::default(),
            queues: [Queue::default(), Queue::default()],
            open: [None, None, None, None],
            spare: Vec::new(),
            charged_bytes: 0,
            live_bytes: 0,
            dead_bytes: 0,
            next_id: 0,
            evicted_before: false,
            counters: SimulationCounters::default(),
            inserts: 0,
            config,
        }
    }

    /// One request of a key: true on a hit. On a miss the item is stored.
    pub fn request(&mut self, hash: u64, size: u64) -> bool {
        self.counters.requests += 1;
        self.counters.requested_bytes += size;
        self.sample(hash, size);
        if let Some(resident) = self.residents.get_mut(&hash) {
            resident.counter = (resident.counter + 1).min(COUNTER_MAX);
            return true;
        }
        self.counters.misses += 1;
        self.counters.missed_bytes += size;
        self.insert(hash, size);
        false
    }

    /// A write of a key that may be there: an access like any other, appended, the old bytes dead. True if
    /// it was there.
    pub fn overwrite(&mut self, hash: u64, size: u64) -> bool {
        let Some(old) = self.residents.get(&hash).copied() else {
            return self.request(hash, size);
        };
        self.counters.requests += 1;
        self.counters.requested_bytes += size;
        self.sample(hash, size);
        let pool = self.kill(hash, old);
        self.counters.inserted_bytes += size;
        let counter = (old.counter + 1).min(COUNTER_MAX);
        self.store(pool, hash, size, counter);
        if pool == Pool::Main {
            self.generations.put_main(size, Source::New);
        }
        true
    }

    /// The key is removed.
    pub fn remove(&mut self, hash: u64) -> bool {
        let Some(old) = self.residents.get(&hash).copied() else {
            return false;
        };
        self.kill(hash, old);
        self.duel.forget(hash);
        true
    }

    /// From now on another capacity. What no longer fits leaves with the next insert; room that came is
    /// filled as a cold cache's.
    pub fn set_capacity(&mut self, capacity_bytes: u64) {
        if capacity_bytes > self.config.capacity_bytes {
            self.evicted_before = false;
        }
        self.config.capacity_bytes = capacity_bytes;
        self.generations.set_capacity(capacity_bytes);
        self.duel.set_capacity(capacity_bytes);
        self.duel.set_share_min(share_of_floor(&self.config));
    }

    /// What happened so far.
    pub fn counters(&self) -> SimulationCounters {
        SimulationCounters {
            switches: self.duel.switches(),
            ..self.counters
        }
    }

    /// Live bytes by capacity.
    pub fn live_share(&self) -> f64 {
        ratio(self.live_bytes, self.config.capacity_bytes)
    }

    /// Live bytes by appended bytes: 1 without overwrites.
    pub fn live_of_used(&self) -> f64 {
        ratio(self.live_bytes, self.live_bytes + self.dead_bytes)
    }

    /// Items it holds.
    pub fn items(&self) -> u64 {
        self.residents.len() as u64
    }

    /// Number of the setting in force among the policy's.
    pub fn setting(&self) -> usize {
        self.config.setting.unwrap_or(self.duel.current())
    }

    /// One in so many keys feeds the duel; 0 = none.
    pub fn sampling(&self) -> u32 {
        self.duel.sampling()
    }

    /// Bytes of the policy's own memory: ghosts and shadows.
    pub fn policy_bytes(&self) -> u64 {
        self.ghosts.as_ref().map_or(0, Ghosts::bytes) + self.duel.bytes()
    }

    fn sample(&mut self, hash: u64, size: u64) {
        if self.config.setting.is_none() && u64::from(hash as u32) < self.duel.bound() {
            let mean = self.policy.mean_size();
            if self.duel.request(hash, size, mean) {
                self.setting = self.duel.setting();
            }
        }
    }

    fn insert(&mut self, hash: u64, size: u64) {
        self.inserts += 1;
        if size > self.item_bytes_max() {
            return;
        }
        let insert = self.insert_facts(hash, size);
        if self.policy.refuses(self.setting, &insert) {
            if let Some(ghosts) = &self.ghosts {
                ghosts.insert(hash, insert.now, insert.now);
            }
            return;
        }
        self.policy.inserted(1, size);
        let pool = self.policy.admit(self.setting, &insert);
        self.store(pool, hash, size, 0);
        self.counters.inserted_bytes += size;
        if pool == Pool::Main {
            self.generations.put_main(size, Source::New);
        }
        if self.inserts % GHOSTS_LOOK == 0 {
            self.fit_ghosts();
        }
    }

    fn item_bytes_max(&self) -> u64 {
        match self.config.engine {
            Some(engine) => engine.item_bytes_max,
            None => self
                .config
                .capacity_bytes
                .saturating_sub(self.config.segment_bytes),
        }
    }

    /// Makes room for an item and puts it there, in chunks if that is how it lies.
    fn store(&mut self, pool: Pool, hash: u64, size: u64, counter: u8) {
        let lane = Lane::Fresh(pool);
        let record = match self.config.engine {
            Some(engine) if size > engine.record_bytes_max => {
                self.writing = Some(hash);
                self.store_chunks(lane, hash, size, engine)
            }
            _ => size,
        };
        self.make_room(lane, record);
        self.append(lane, Record::item(hash, record), counter);
        self.writing = None;
    }

    /// Stores the chunks of an item, cut to fill the open segment's tail. Returns the bytes of its record.
    fn store_chunks(&mut self, lane: Lane, hash: u64, size: u64, engine: EngineRoom) -> u64 {
        let segment_bytes = self.config.segment_bytes;
        let chunks = Vec::new();
        self.large.insert(hash, Large { size, chunks });
        let mut left = size.saturating_sub(engine.head_bytes);
        let mut count = 0;
        while left > 0 {
            let open = self.open[self.slot(lane)].as_ref();
            let tail = open.map_or(0, |(_, open)| segment_bytes.saturating_sub(open.used_bytes));
            let most = match tail >= segment_bytes / TAIL_PART {
                true => tail.min(segment_bytes / CHUNK_PART),
                false => segment_bytes / CHUNK_PART,
            };
            let value = left.min(most.saturating_sub(engine.chunk_head_bytes).max(1));
            let bytes = value + engine.chunk_head_bytes;
            self.make_room(lane, bytes);
            let part = Part::Chunk(count);
            self.append(
                lane,
                Record {
                    hash,
                    size: bytes as u32,
                    part,
                },
                0,
            );
            left -= value;
            count += 1;
        }
        engine.head_bytes + u64::from(count) * CHUNK_WORD_BYTES
    }

    fn insert_facts(&self, hash: u64, size: u64) -> Insert {
        let now = self.generations.now();
        let rules = self.setting.rules;
        let ghosts = self.ghosts.as_ref();
        let ghost_age = match rules.classes {
            true => ghosts
                .and_then(|ghosts| ghosts.take_class(hash, now))
                .map(|(age, class)| {
                    self.policy.classes().refaulted(class, size, age);
                    age
                }),
            false => ghosts.and_then(|ghosts| ghosts.take(hash, now)),
        };
        Insert {
            size,
            ghost_age,
            now,
            oldest_main: self.queues[1]
                .sealed
                .front()
                .map(|segment| segment.generation),
            evicted_before: self.evicted_before,
            main_bytes: self.main_bytes(),
            capacity_bytes: self.config.capacity_bytes,
            reserve_bytes: self.config.segment_bytes,
            segment_bytes: self.config.segment_bytes,
        }
    }

    /// What main takes for a cold cache: an engine counts its segments.
    fn main_bytes(&self) -> u64 {
        let main = self.pool_side(Pool::Main);
        match self.config.engine {
            None => main.used_bytes,
            Some(_) => {
                let open = self
                    .open
                    .iter()
                    .flatten()
                    .filter(|(pool, _)| *pool == Pool::Main);
                (u64::from(main.sealed) + open.count() as u64) * self.config.segment_bytes
            }
        }
    }

    /// Frees until a reserve of one segment stays free behind the append.
    fn make_room(&mut self, lane: Lane, size: u64) {
        for _ in 0..STEPS_MAX {
            let needed = self.charged_bytes + self.config.segment_bytes + self.growth(lane, size);
            if needed <= self.config.capacity_bytes {
                return;
            }
            match next(self.setting, &self.pool_facts()) {
                Next::Compact(candidate) | Next::Expire(candidate) => self.compact(candidate),
                Next::Drain(pool) if !self.drain(pool) => return,
                Next::Drain(_) => {}
                Next::Deactivate => self.deactivate(),
                Next::Age => self.generations.age(),
                Next::Seal(pool) => self.seal_pool(pool),
                Next::Nothing => return,
            }
        }
        debug_assert!(false, "making room never ends");
    }

    /// Bytes an append needs beside the reserve: a segment, if a new one is to be opened. What spills over
    /// the end overdraws the reserve instead and comes back from probation: making room for it first would
    /// drain main for an item that seldom stays (13 points on a loop with a few large items).
    fn growth(&self, lane: Lane, size: u64) -> u64 {
        let segment_bytes = self.config.segment_bytes;
        match &self.open[self.slot(lane)] {
            Some((_, open)) if open.used_bytes + size <= segment_bytes => 0,
            Some((_, open)) if self.spills(open, size) => 0,
            _ => segment_bytes,
        }
    }

    fn spills(&self, open: &Segment, size: u64) -> bool {
        self.config.engine.is_none()
            && size > self.config.segment_bytes / 4
            && open.used_bytes < self.config.segment_bytes
    }

    fn pool_facts(&self) -> PoolFacts {
        PoolFacts {
            probation: self.pool_side(Pool::Probation),
            main: self.pool_side(Pool::Main),
            capacity_bytes: self.config.capacity_bytes,
            segment_bytes: self.config.segment_bytes,
            fresh_min_bytes: self.config.fresh_min_bytes,
            wants_ageing: self.setting.rules.classes && self.generations.wants_ageing(),
            most_freed: self.most_freed(),
        }
    }

    fn pool_side(&self, pool: Pool) -> PoolSide {
        let open = self.open.iter().flatten().filter(|(of, _)| *of == pool);
        let open_bytes: u64 = open.map(|(_, segment)| segment.used_bytes).sum();
        let queue = &self.queues[pool as usize];
        PoolSide {
            used_bytes: queue.used_bytes + open_bytes,
            sealed: queue.sealed.len() as u32,
            open_bytes,
        }
    }

    fn most_freed(&self) -> Option<Candidate> {
        if self.dead_bytes == 0 {
            return None;
        }
        let candidates = [Pool::Main, Pool::Probation].into_iter().flat_map(|pool| {
            let sealed = &self.queues[pool as usize].sealed;
            let settled = sealed.iter().enumerate();
            let settled = settled.filter(|(_, segment)| !self.is_written(segment));
            settled.map(move |(at, segment)| Candidate {
                segment: segment.id,
                pool,
                used_bytes: segment.used_bytes,
                dead_bytes: segment.dead_bytes,
                expired_bytes: 0,
                soon: is_soon_drained(pool, at, sealed.len()),
            })
        });
        let probation = self.queues[Pool::Probation as usize].used_bytes;
        let share = probation_compact_share(probation, self.config.capacity_bytes);
        let shares = Shares {
            main: COMPACT_SHARE,
            probation: share,
        };
        most_freed(candidates, self.config.segment_bytes, shares)
    }

    fn compact(&mut self, candidate: Candidate) {
        let pool = candidate.pool;
        let queue = &mut self.queues[pool as usize];
        let found = queue.sealed.iter().position(|s| s.id == candidate.segment);
        let Some(segment) = found.and_then(|at| queue.sealed.remove(at)) else {
            return;
        };
        queue.used_bytes -= segment.used_bytes;
        let lane = match pool {
            Pool::Main => Lane::Compaction,
            Pool::Probation => Lane::Fresh(Pool::Probation),
        };
        for (at, record) in segment.records.iter().enumerate() {
            let Some(resident) = self.lives(&segment, at) else {
                continue;
            };
            self.counters.compacted_bytes += u64::from(record.size);
            let generation = segment.generation;
            let source = (pool == Pool::Main).then_some(generation);
            self.append_as(lane, *record, resident.counter, source);
        }
        self.counters.compacted += 1;
        self.release(pool, segment);
    }

    /// False: all that is sealed is being written.
    fn drain(&mut self, pool: Pool) -> bool {
        let (pool, Some(segment)) = self.take_oldest(pool) else {
            return false;
        };
        debug_assert!(
            self.writing.is_some()
                || pool == Pool::Probation
                || !self.has_older_than(segment.generation),
            "a younger generation is drained before an older one"
        );
        self.queues[pool as usize].used_bytes -= segment.used_bytes;
        let strictness = match self.config.engine {
            Some(_) => self.fruitless.strictness(),
            None => 0,
        };
        let walked = segment.records.len() as u64;
        if strictness == 0 && self.relinks(pool, &segment) {
            self.fruitless.ended(true, walked);
            self.relink(segment);
            return true;
        }
        let copied = self.counters.copied_bytes;
        for (at, record) in segment.records.iter().enumerate() {
            if let Some(resident) = self.lives(&segment, at) {
                let counter = resident.counter.saturating_sub(strictness);
                self.judge(
                    pool,
                    &segment,
                    *record,
                    Resident {
                        counter,
                        ..resident
                    },
                );
            }
        }
        let kept = self.counters.copied_bytes - copied;
        let frees_little = pool == Pool::Main && kept * 10 > segment.used_bytes * 9;
        self.fruitless.ended(frees_little, walked);
        self.counters.drained += 1;
        self.release(pool, segment);
        true
    }

    /// The oldest segment of a pool that nobody is still writing in; where there is none, of the other.
    fn take_oldest(&mut self, pool: Pool) -> (Pool, Option<Segment>) {
        for pool in [pool, pool.other()] {
            let sealed = &self.queues[pool as usize].sealed;
            let at = sealed.iter().position(|segment| !self.is_written(segment));
            if let Some(at) = at {
                return (pool, self.queues[pool as usize].sealed.remove(at));
            }
        }
        (pool, None)
    }

    /// Whether a large item that is not whole yet has chunks there.
    fn is_written(&self, segment: &Segment) -> bool {
        let written = self.writing.and_then(|hash| self.large.get(&hash));
        let mut chunks = written.iter().flat_map(|large| &large.chunks);
        chunks.any(|&(id, ..)| id == segment.id)
    }

    fn has_older_than(&self, generation: u32) -> bool {
        let mut sealed = self.queues[Pool::Main as usize].sealed.iter();
        sealed.any(|other| other.generation < generation)
    }

    /// Everything that is counted, counted again. For tests.
    #[cfg(test)]
    pub fn check(&self) {
        let open = self.open.iter().flatten().map(|(_, segment)| segment);
        let sealed = self.queues.iter().flat_map(|queue| &queue.sealed);
        let (mut charged, mut live, mut dead, mut records) = (0, 0, 0, 0);
        for segment in open.chain(sealed) {
            charged += segment.used_bytes.max(self.config.segment_bytes);
            let mut here = 0;
            for (at, record) in segment.records.iter().enumerate() {
                if self.lives(segment, at).is_some() {
                    here += u64::from(record.size);
                    records += u64::from(record.part == Part::Item);
                }
            }
            assert_eq!(here + segment.dead_bytes, segment.used_bytes);
            live += here;
            dead += segment.dead_bytes;
        }
        let counted = (self.charged_bytes, self.live_bytes, self.dead_bytes);
        assert_eq!(counted, (charged, live, dead));
        assert_eq!(records, self.items(), "each item lies in one segment");
        for queue in &self.queues {
            let used: u64 = queue.sealed.iter().map(|s| s.used_bytes).sum();
            assert_eq!(queue.used_bytes, used);
        }
        let generations = self.queues[1].sealed.iter().map(|s| s.generation);
        assert!(generations.is_sorted(), "main drains its oldest first");
    }

    /// The resident that a record of a segment stands for; None if it is dead.
    fn lives(&self, segment: &Segment, at: usize) -> Option<Resident> {
        let record = segment.records[at];
        let resident = self.residents.get(&record.hash)?;
        let here = match record.part {
            Part::Item => (resident.segment, resident.record),
            Part::Chunk(number) => {
                let chunks = &self.large.get(&record.hash)?.chunks;
                let &(id, chunk, _) = chunks.get(number as usize)?;
                (id, chunk)
            }
        };
        (here == (segment.id, at as u32)).then_some(*resident)
    }

    fn relinks(&self, pool: Pool, drained: &Segment) -> bool {
        let referenced = |(at, record): (usize, &Record)| {
            let resident = self.lives(drained, at)?;
            (resident.counter > 0).then_some(u64::from(record.size))
        };
        let facts = SegmentFacts {
            pool,
            used_bytes: drained.used_bytes,
            referenced_bytes: drained
                .records
                .iter()
                .enumerate()
                .filter_map(referenced)
                .sum(),
        };
        segment(self.setting, &facts) == Whole::Relink
    }

    fn relink(&mut self, mut segment: Segment) {
        let clears = self.setting.rules.classes;
        self.set_counters(&segment, |counter| if clears { 0 } else { counter - 1 });
        segment.generation = self.generations.relink_main(segment.generation);
        self.generations.put_main(segment.used_bytes, Source::New);
        self.counters.relinked += 1;
        self.queues[1].used_bytes += segment.used_bytes;
        self.queues[1].sealed.push_back(segment);
    }

    /// Main's oldest segment goes whole to the young end of probation.
    fn deactivate(&mut self) {
        let Some(mut segment) = self.queues[1].sealed.pop_front() else {
            return;
        };
        self.queues[1].used_bytes -= segment.used_bytes;
        self.set_counters(&segment, |_| 0);
        self.generations.free_main(segment.generation);
        segment.generation = self.generations.now();
        self.counters.relinked += 1;
        self.queues[0].used_bytes += segment.used_bytes;
        self.queues[0].sealed.push_back(segment);
    }

    fn set_counters(&mut self, segment: &Segment, change: impl Fn(u8) -> u8) {
        for (at, record) in segment.records.iter().enumerate() {
            if let Some(resident) = self.residents.get_mut(&record.hash) {
                let here = resident.segment == segment.id && resident.record == at as u32;
                if here && resident.counter > 0 {
                    resident.counter = change(resident.counter);
                }
            }
        }
    }

    /// One verdict falls on a record. That on the head of an item in chunks weighs all of it, that on a chunk no size.
    fn judge(&mut self, pool: Pool, from: &Segment, record: Record, resident: Resident) {
        let generation = from.generation;
        let whole = self.large.get(&record.hash).map(|large| large.size);
        let facts = ItemFacts {
            pool,
            counter: resident.counter,
            size: match record.part {
                Part::Item => whole.unwrap_or(u64::from(record.size)),
                Part::Chunk(_) => 0,
            },
        };
        match self.policy.item(self.setting, &facts) {
            Verdict::Keep { counter } => {
                self.copy(record, counter, Source::SecondChance(generation))
            }
            Verdict::Promote => self.copy(record, 0, Source::New),
            Verdict::Evict { ghost } => {
                self.evict(from, record, resident);
                if ghost {
                    self.remember(record.hash, generation, resident.counter);
                }
            }
        }
    }

    /// An item leaves by the verdict on one of its records in a drained segment; what lies elsewhere is dead.
    fn evict(&mut self, from: &Segment, record: Record, resident: Resident) {
        let hash = record.hash;
        self.residents.remove(&hash);
        self.evicted_before = true;
        self.counters.evicted += 1;
        let Some(large) = self.large.remove(&hash) else {
            self.live_bytes -= u64::from(record.size);
            return;
        };
        let head = (resident.segment, u64::from(resident.size));
        let chunks = large.chunks.iter().map(|&(id, _, bytes)| (id, bytes));
        for (id, bytes) in chunks.chain([head]) {
            match id == from.id {
                true => self.live_bytes -= bytes,
                false => {
                    self.bury(id, bytes);
                }
            }
        }
    }

    fn remember(&mut self, hash: u64, generation: u32, counter: u8) {
        if self.ghosts.is_none() {
            self.fit_ghosts();
        }
        if let Some(ghosts) = &self.ghosts {
            match self.setting.rules.classes {
                true => ghosts.insert_class(hash, generation, class(counter)),
                false => ghosts.insert(hash, generation, self.generations.now()),
            }
        }
    }

    fn copy(&mut self, record: Record, counter: u8, source: Source) {
        let size = u64::from(record.size);
        self.counters.copied_bytes += size;
        self.append(Lane::Survivors, record, counter);
        self.live_bytes -= size;
        self.generations.put_main(size, source);
    }

    fn append(&mut self, lane: Lane, record: Record, counter: u8) {
        self.append_as(lane, record, counter, None);
        self.live_bytes += u64::from(record.size);
    }

    fn append_as(&mut self, lane: Lane, record: Record, counter: u8, source: Option<u32>) {
        let size = u64::from(record.size);
        let segment_bytes = self.config.segment_bytes;
        let slot = self.slot_for(lane, size);
        let has_room = self.open[slot].as_ref().is_some_and(|(_, open)| {
            open.used_bytes + size <= segment_bytes || self.spills(open, size)
        });
        if !has_room {
            self.seal_at(slot);
            self.open_segment(lane, source);
        }
        let growth = match &mut self.open[slot] {
            Some((_, open)) => {
                let (segment, at) = (open.id, open.records.len() as u32);
                match record.part {
                    Part::Item => {
                        let resident = Resident {
                            segment,
                            record: at,
                            size: record.size,
                            counter,
                        };
                        self.residents.insert(record.hash, resident);
                    }
                    Part::Chunk(number) => {
                        let large = self.large.get_mut(&record.hash);
                        large.expect("its item is").set(number, (segment, at, size));
                    }
                }
                open.records.push(record);
                let before = open.used_bytes.max(segment_bytes);
                open.used_bytes += size;
                open.used_bytes.max(segment_bytes) - before
            }
            None => 0,
        };
        self.charged_bytes += growth;
        if growth > 0 {
            // Sealed at once: were it still open, probation would be over its share with nothing to drain,
            // and main would pay.
            self.seal_at(slot);
        }
        let over = self
            .charged_bytes
            .saturating_sub(self.config.capacity_bytes);
        self.counters.overdrawn_bytes_max = self.counters.overdrawn_bytes_max.max(over);
    }

    fn open_segment(&mut self, lane: Lane, source: Option<u32>) {
        let origin = match (lane, source) {
            (_, Some(source)) => Origin::Compacted(source),
            (Lane::Survivors, None) => Origin::Survivors,
            (lane, None) => Origin::Fresh(lane.pool()),
        };
        let (pool, generation) = origin.open(self.setting, &mut self.generations);
        self.charged_bytes += self.config.segment_bytes;
        let segment = Segment {
            id: self.next_id,
            generation,
            used_bytes: 0,
            dead_bytes: 0,
            records: self.spare.pop().unwrap_or_default(),
        };
        self.next_id = self.next_id.wrapping_add(1);
        self.open[self.slot(lane)] = Some((pool, segment));
    }

    /// Survivors share main's open segment, but in an engine, and where the kernel puts them one generation above the
    /// oldest.
    fn slot(&self, lane: Lane) -> usize {
        match lane {
            Lane::Fresh(Pool::Probation) => 0,
            Lane::Survivors if self.setting.rules.classes || self.config.engine.is_some() => 2,
            Lane::Fresh(Pool::Main) | Lane::Survivors => 1,
            Lane::Compaction => 3,
        }
    }

    /// The slot a record goes to. An engine's survivors use what is open, the fullest first.
    fn slot_for(&self, lane: Lane, size: u64) -> usize {
        let own = self.slot(lane);
        if lane != Lane::Survivors || self.setting.rules.classes {
            return own;
        }
        let used = |slot: &usize| self.open[*slot].as_ref().map(|(_, open)| open.used_bytes);
        let fits =
            |slot: &usize| used(slot).is_some_and(|used| used + size <= self.config.segment_bytes);
        let open = [self.slot(Lane::Fresh(Pool::Main)), own].into_iter();
        open.filter(fits).max_by_key(used).unwrap_or(own)
    }

    fn seal_pool(&mut self, pool: Pool) {
        for at in 0..self.open.len() {
            if self.open[at].as_ref().is_some_and(|(of, _)| *of == pool) {
                self.seal_at(at);
            }
        }
    }

    /// Queues what is open in a lane: main by generation, the youngest last.
    fn seal_at(&mut self, at: usize) {
        let Some((pool, segment)) = self.open[at].take() else {
            return;
        };
        let queue = &mut self.queues[pool as usize];
        queue.used_bytes += segment.used_bytes;
        let place = match pool {
            Pool::Probation => queue.sealed.len(),
            Pool::Main => queue
                .sealed
                .partition_point(|other| other.generation <= segment.generation),
        };
        queue.sealed.insert(place, segment);
    }

    /// A drained segment is free.
    fn release(&mut self, pool: Pool, segment: Segment) {
        if pool == Pool::Main {
            self.generations.free_main(segment.generation);
            self.policy.classes().fold(self.generations.oldest());
        }
        self.dead_bytes -= segment.dead_bytes;
        self.charged_bytes -= segment.used_bytes.max(self.config.segment_bytes);
        let mut records = segment.records;
        records.clear();
        self.spare.push(records);
    }

    /// Removes a resident and books its bytes as dead. Returns the pool its segment belongs to.
    fn kill(&mut self, hash: u64, old: Resident) -> Pool {
        self.residents.remove(&hash);
        let large = self.large.remove(&hash);
        for (id, _, bytes) in large.into_iter().flat_map(|large| large.chunks) {
            self.bury(id, bytes);
        }
        self.bury(old.segment, u64::from(old.size))
    }

    fn bury(&mut self, id: u32, bytes: u64) -> Pool {
        let open = self.open.iter_mut().flatten();
        let open = open.map(|(pool, segment)| (*pool, segment));
        let [probation, main] = &mut self.queues;
        let all = open
            .chain(probation.sealed.iter_mut().map(|s| (Pool::Probation, s)))
            .chain(main.sealed.iter_mut().map(|s| (Pool::Main, s)));
        for (pool, segment) in all {
            if segment.id == id {
                segment.dead_bytes += bytes;
                self.dead_bytes += bytes;
                self.live_bytes -= bytes;
                return pool;
            }
        }
        Pool::Probation
    }

    /// Makes the ghost table fit the items the cache holds, or would hold if all had the mean size.
    fn fit_ghosts(&mut self) {
        let mean = self.policy.mean_size();
        let wanted = self.setting.rules.ghosts_per_item;
        if mean <= 0.0 || wanted <= 0.0 || !self.evicted_before {
            return;
        }
        let of_mean = self.config.capacity_bytes as f64 / mean;
        let items = of_mean.max(self.residents.len() as f64);
        let lines = Ghosts::lines_for(items * wanted);
        let table = match &self.ghosts {
            None => Ghosts::new(lines),
            Some(ghosts) if Ghosts::is_close(ghosts.lines(), lines) => return,
            // Classes take the bits that say which ghosts are too old to move.
            Some(_) if self.setting.rules.classes => Ghosts::new(lines),
            Some(ghosts) => ghosts.resized(lines, self.generations.now()),
        };
        self.ghosts = Some(table);
    }
}

fn share_of_floor(config: &SimulationConfig) -> f64 {
    match config.fresh_min_bytes {
        0 => 0.0,
        floor => ratio(floor + config.segment_bytes, config.capacity_bytes),
    }
}

fn generations(config: &SimulationConfig) -> Generations {
    let rules = config.policy.settings(config.objective)[0].rules;
    match rules.classes {
        true => Generations::on_demand(),
        false => Generations::new(config.capacity_bytes),
    }
}

/// Word i of a stream of random words: the recipes of the lab's synthetic traces.
pub fn mixed(stream: u64, i: u64) -> u64 {
    let z = stream.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
