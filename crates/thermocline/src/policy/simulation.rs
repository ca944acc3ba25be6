//! The cache without bytes: verdicts, ghosts, generations and duel at segment grain, wired as in the engine.
//!
//! Owns queues of segments whose items are a hash and a size. One thread, instant copies, sizes fixed per key;
//! nothing expires. What it answers is which requests hit, and what was copied to get there.
//!
//! ```text
//! request -> resident? counter + 1 : admit -> make room (next: compact, drain, deactivate, age, seal) -> append
//! ```
//! An item over a quarter of a segment spills over the end of its segment and is charged exactly: that
//! stands for the engine's chunks.
//!
//! One file, though long: it is the engine's reclaim loop retold without bytes, to be read from end to end beside it.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasherDefault, Hasher};

use super::classes::class;
use super::*;
use crate::generation::{Generations, Source};
use crate::ghost::Ghosts;

/// Segments of a cache whose segment size is not given.
const SEGMENTS: u64 = 128;
/// Inserts between two looks at whether the ghost table fits.
const GHOSTS_LOOK: u64 = 1024;
/// Steps of one making of room; more would be a rule that frees nothing.
const STEPS_MAX: u64 = 1_000_000;

/// What is simulated.
#[derive(Debug, Clone)]
pub struct SimulationConfig {
    /// Bytes of items, open segments and reserve together.
    pub capacity_bytes: u64,
    /// Bytes of a segment; 0 = a 128th of the capacity. Not below the mean item: give it when that is known.
    pub segment_bytes: u64,
    /// Which policy.
    pub policy: ReclaimPolicy,
    /// What it should save.
    pub objective: Objective,
    /// Of the policy's coin tosses.
    pub seed: u64,
    /// Bytes of later inserts that a stored item outlives at least; 0 = no floor.
    pub fresh_min_bytes: u64,
    /// One of the policy's settings for good, instead of a duel.
    pub setting: Option<usize>,
}

impl SimulationConfig {
    /// A cache of `capacity_bytes` in 128 segments under the default policy.
    pub fn new(capacity_bytes: u64) -> SimulationConfig {
        SimulationConfig {
            capacity_bytes,
            segment_bytes: 0,
            policy: ReclaimPolicy::default(),
            objective: Objective::default(),
            seed: 1,
            fresh_min_bytes: 0,
            setting: None,
        }
    }
}

/// What happened so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SimulationCounters {
    /// Requests, and how many of them missed.
    pub requests: u64,
    pub misses: u64,
    /// Bytes of the items requested, and of those that missed.
    pub requested_bytes: u64,
    pub missed_bytes: u64,
    /// Bytes appended by misses and overwrites.
    pub inserted_bytes: u64,
    /// Bytes copied by promotions and second chances, and by compaction.
    pub copied_bytes: u64,
    pub compacted_bytes: u64,
    pub evicted: u64,
    /// Segments drained, relinked and compacted.
    pub drained: u64,
    pub relinked: u64,
    pub compacted: u64,
    /// How often the duel chose another setting.
    pub switches: u64,
    /// Bytes over the capacity at the worst moment: the largest item in flight beyond the reserve.
    pub overdrawn_bytes_max: u64,
}

impl SimulationCounters {
    /// Misses by requests.
    pub fn miss_ratio(&self) -> f64 {
        ratio(self.misses, self.requests)
    }

    /// Bytes missed by bytes requested.
    pub fn byte_miss_ratio(&self) -> f64 {
        ratio(self.missed_bytes, self.requested_bytes)
    }

    /// Bytes copied by reclaim and compaction per byte inserted.
    pub fn copied_per_inserted(&self) -> f64 {
        ratio(
            self.copied_bytes + self.compacted_bytes,
            self.inserted_bytes,
        )
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[derive(Debug, Clone, Copy)]
struct Record {
    hash: u64,
    size: u32,
}

#[derive(Debug)]
struct Segment {
    id: u32,
    generation: u32,
    used_bytes: u64,
    dead_bytes: u64,
    records: Vec<Record>,
}

/// What is filled from one side: a lane of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lane {
    Fresh(Pool),
    Survivors,
    Compaction,
}

#[derive(Debug, Default)]
struct Queue {
    sealed: VecDeque<Segment>,
    used_bytes: u64,
}

/// Where a key's item lies: the segment of this id, and which of its records.
#[derive(Debug, Clone, Copy)]
struct Resident {
    segment: u32,
    record: u32,
    counter: u8,
}

/// Keys are hashes already.
#[derive(Debug, Default)]
struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[derive(Debug)]
pub struct Simulation {
    config: SimulationConfig,
    policy: Policy,
    duel: Duel,
    setting: &'static Setting,
    generations: Generations,
    ghosts: Option<Ghosts>,
    residents: HashMap<u64, Resident, BuildHasherDefault<Hashed>>,
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
        let pool = self.kill(old);
        self.residents.remove(&hash);
        self.counters.inserted_bytes += size;
        let counter = (old.counter + 1).min(COUNTER_MAX);
        self.make_room(Lane::Fresh(pool), size);
        self.append(Lane::Fresh(pool), hash, size, counter);
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
        self.kill(old);
        self.residents.remove(&hash);
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
        if size + self.config.segment_bytes > self.config.capacity_bytes {
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
        self.make_room(Lane::Fresh(pool), size);
        self.append(Lane::Fresh(pool), hash, size, 0);
        self.counters.inserted_bytes += size;
        if pool == Pool::Main {
            self.generations.put_main(size, Source::New);
        }
        if self.inserts % GHOSTS_LOOK == 0 {
            self.fit_ghosts();
        }
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
            main_bytes: self.pool_side(Pool::Main).used_bytes,
            capacity_bytes: self.config.capacity_bytes,
            reserve_bytes: self.config.segment_bytes,
            segment_bytes: self.config.segment_bytes,
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
                Next::Drain(pool) => self.drain(pool),
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
        size > self.config.segment_bytes / 4 && open.used_bytes < self.config.segment_bytes
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
            let places = sealed.iter().enumerate();
            places.map(move |(at, segment)| Candidate {
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
            let (hash, size) = (record.hash, u64::from(record.size));
            self.append_as(lane, hash, size, resident.counter, source);
        }
        self.counters.compacted += 1;
        self.release(pool, segment);
    }

    fn drain(&mut self, pool: Pool) {
        let Some(segment) = self.queues[pool as usize].sealed.pop_front() else {
            return;
        };
        debug_assert!(
            pool == Pool::Probation || !self.has_older_than(segment.generation),
            "a younger generation is drained before an older one"
        );
        self.queues[pool as usize].used_bytes -= segment.used_bytes;
        if self.relinks(pool, &segment) {
            return self.relink(segment);
        }
        for (at, record) in segment.records.iter().enumerate() {
            if let Some(resident) = self.lives(&segment, at) {
                self.judge(pool, segment.generation, *record, resident);
            }
        }
        self.counters.drained += 1;
        self.release(pool, segment);
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
                    records += 1;
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
        let resident = self.residents.get(&segment.records[at].hash)?;
        let here = resident.segment == segment.id && resident.record == at as u32;
        here.then_some(*resident)
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

    fn judge(&mut self, pool: Pool, generation: u32, record: Record, resident: Resident) {
        let size = u64::from(record.size);
        let facts = ItemFacts {
            pool,
            counter: resident.counter,
            size,
        };
        match self.policy.item(self.setting, &facts) {
            Verdict::Keep { counter } => {
                self.copy(record, counter, Source::SecondChance(generation))
            }
            Verdict::Promote => self.copy(record, 0, Source::New),
            Verdict::Evict { ghost } => {
                self.residents.remove(&record.hash);
                self.evicted_before = true;
                self.counters.evicted += 1;
                self.live_bytes -= size;
                if ghost {
                    self.remember(record.hash, generation, resident.counter);
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
        self.append(Lane::Survivors, record.hash, size, counter);
        self.live_bytes -= size;
        self.generations.put_main(size, source);
    }

    fn append(&mut self, lane: Lane, hash: u64, size: u64, counter: u8) {
        self.append_as(lane, hash, size, counter, None);
        self.live_bytes += size;
    }

    fn append_as(&mut self, lane: Lane, hash: u64, size: u64, counter: u8, source: Option<u32>) {
        let segment_bytes = self.config.segment_bytes;
        let slot = self.slot(lane);
        let has_room = self.open[slot].as_ref().is_some_and(|(_, open)| {
            open.used_bytes + size <= segment_bytes || self.spills(open, size)
        });
        if !has_room {
            self.seal(lane);
            self.open_segment(lane, source);
        }
        let growth = match &mut self.open[slot] {
            Some((_, open)) => {
                self.residents.insert(
                    hash,
                    Resident {
                        segment: open.id,
                        record: open.records.len() as u32,
                        counter,
                    },
                );
                open.records.push(Record {
                    hash,
                    size: size as u32,
                });
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
            self.seal(lane);
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
            (lane, None) => Origin::Fresh(lane_pool(lane)),
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

    /// Survivors share main's open segment, but where the kernel puts them one generation above the oldest.
    fn slot(&self, lane: Lane) -> usize {
        match lane {
            Lane::Fresh(Pool::Probation) => 0,
            Lane::Survivors if self.setting.rules.classes => 2,
            Lane::Fresh(Pool::Main) | Lane::Survivors => 1,
            Lane::Compaction => 3,
        }
    }

    fn seal_pool(&mut self, pool: Pool) {
        for at in 0..self.open.len() {
            if self.open[at].as_ref().is_some_and(|(of, _)| *of == pool) {
                self.seal_at(at);
            }
        }
    }

    fn seal(&mut self, lane: Lane) {
        self.seal_at(self.slot(lane));
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

    /// Books a resident's bytes as dead. Returns the pool its segment belongs to.
    fn kill(&mut self, old: Resident) -> Pool {
        let open = self.open.iter_mut().flatten();
        let open = open.map(|(pool, segment)| (*pool, segment));
        let [probation, main] = &mut self.queues;
        let all = open
            .chain(probation.sealed.iter_mut().map(|s| (Pool::Probation, s)))
            .chain(main.sealed.iter_mut().map(|s| (Pool::Main, s)));
        for (pool, segment) in all {
            if segment.id == old.segment {
                let size = u64::from(segment.records[old.record as usize].size);
                segment.dead_bytes += size;
                self.dead_bytes += size;
                self.live_bytes -= size;
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

fn lane_pool(lane: Lane) -> Pool {
    match lane {
        Lane::Fresh(pool) => pool,
        Lane::Survivors | Lane::Compaction => Pool::Main,
    }
}

/// Word i of a stream of random words: the recipes of the lab's synthetic traces.
pub fn mixed(stream: u64, i: u64) -> u64 {
    let z = stream.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
