//! The cache without bytes: verdicts, ghosts and generations at segment grain, as the engine wires them.
//! Single-threaded, sizes fixed per key, copies are instant. Used by `replays`.

use std::collections::VecDeque;

use super::*;
use crate::generation::{Generations, Source};
use crate::ghost::Ghosts;

const SEGMENTS: u64 = 128;

struct Segment {
    id: u32,
    generation: u32,
    used_bytes: u64,
    keys: Vec<u32>,
}

#[derive(Default)]
struct Queue {
    open: Option<Segment>,
    sealed: VecDeque<Segment>,
    used_bytes: u64,
}

/// Where a key's item lies. It is live while the segment that names it has this id.
#[derive(Clone, Copy)]
struct Resident {
    segment: u32,
    counter: u8,
}

struct Simulation<'a> {
    sizes: &'a dyn Fn(u32) -> u64,
    setting: Setting,
    policy: Policy,
    generations: Generations,
    ghosts: Ghosts,
    residents: Vec<Option<Resident>>,
    probation: Queue,
    main: Queue,
    segment_bytes: u64,
    segments_max: u64,
    segments_used: u64,
    next_id: u32,
    evicted_before: bool,
    inserted_bytes: u64,
    copied_bytes: u64,
    live_bytes: u64,
}

impl<'a> Simulation<'a> {
    fn new(
        setting: Setting,
        capacity_bytes: u64,
        mean: u64,
        keys: usize,
        sizes: &'a dyn Fn(u32) -> u64,
    ) -> Simulation<'a> {
        let segment_bytes = (capacity_bytes / SEGMENTS).max(mean);
        Simulation {
            sizes,
            setting,
            policy: Policy::new(1),
            generations: Generations::new(capacity_bytes),
            ghosts: Ghosts::new(Ghosts::lines_for(capacity_bytes / mean)),
            residents: vec![None; keys],
            probation: Queue::default(),
            main: Queue::default(),
            segment_bytes,
            segments_max: capacity_bytes / segment_bytes,
            segments_used: 0,
            next_id: 0,
            evicted_before: false,
            inserted_bytes: 0,
            copied_bytes: 0,
            live_bytes: 0,
        }
    }

    /// True on a hit.
    fn request(&mut self, key: u32) -> bool {
        if let Some(resident) = &mut self.residents[key as usize] {
            resident.counter = (resident.counter + 1).min(COUNTER_MAX);
            return true;
        }
        let size = (self.sizes)(key);
        self.policy.inserted(1, size);
        let pool = self.policy.admit(&self.setting, &self.insert(key, size));
        self.make_room(pool, size);
        self.append(pool, key, 0);
        self.inserted_bytes += size;
        self.live_bytes += size;
        if pool == Pool::Main {
            self.generations.put_main(size, Source::New);
        }
        false
    }

    fn insert(&self, key: u32, size: u64) -> Insert {
        let now = self.generations.now();
        Insert {
            size,
            ghost_age: self.ghosts.take(mixed(1, u64::from(key)), now),
            now,
            oldest_main: self.main.sealed.front().map(|segment| segment.generation),
            evicted_before: self.evicted_before,
            main_bytes: self.main.used_bytes,
            capacity_bytes: self.capacity_bytes(),
            reserve_bytes: self.segment_bytes,
            segment_bytes: self.segment_bytes,
        }
    }

    fn capacity_bytes(&self) -> u64 {
        self.segments_max * self.segment_bytes
    }

    /// Frees until a reserve of one segment stays free behind the append.
    fn make_room(&mut self, pool: Pool, size: u64) {
        let mut steps = 0;
        loop {
            let needed = 1 + u64::from(!self.has_room(pool, size));
            if self.segments_used + needed <= self.segments_max {
                return;
            }
            match next(&self.setting, &self.facts()) {
                Next::Drain(pool) => self.drain(pool),
                Next::Seal(pool) => self.seal(pool),
                Next::Nothing => return,
                other => unreachable!("nothing dies or expires here: {other:?}"),
            }
            steps += 1;
            assert!(
                steps < 10 * self.segments_max + 100,
                "making room never ends"
            );
        }
    }

    fn facts(&self) -> PoolFacts {
        PoolFacts {
            probation: side(&self.probation),
            main: side(&self.main),
            capacity_bytes: self.capacity_bytes(),
            segment_bytes: self.segment_bytes,
            fresh_min_bytes: 0,
            most_freed: None,
        }
    }

    fn drain(&mut self, pool: Pool) {
        let queue = self.queue(pool);
        let mut segment = queue
            .sealed
            .pop_front()
            .expect("next drains what is sealed");
        if self.relinks(pool, &segment) {
            for key in &segment.keys {
                let resident = self.residents[*key as usize]
                    .as_mut()
                    .expect("live until drained");
                resident.counter = resident.counter.saturating_sub(1);
            }
            segment.generation = self.generations.relink_main(segment.generation);
            self.generations.put_main(segment.used_bytes, Source::New);
            self.main.sealed.push_back(segment);
            return;
        }
        self.queue(pool).used_bytes -= segment.used_bytes;
        for key in &segment.keys {
            self.judge(pool, &segment, *key);
        }
        if pool == Pool::Main {
            self.generations.free_main(segment.generation);
        }
        self.segments_used -= 1;
    }

    fn relinks(&self, pool: Pool, drained: &Segment) -> bool {
        let counter =
            |key: &&u32| self.residents[**key as usize].map_or(0, |resident| resident.counter);
        let referenced = drained.keys.iter().filter(|key| counter(key) > 0);
        let facts = SegmentFacts {
            pool,
            used_bytes: drained.used_bytes,
            referenced_bytes: referenced.map(|key| (self.sizes)(*key)).sum(),
        };
        segment(&facts) == Whole::Relink
    }

    fn judge(&mut self, pool: Pool, segment: &Segment, key: u32) {
        let resident = self.residents[key as usize].expect("live until drained");
        assert_eq!(resident.segment, segment.id);
        let size = (self.sizes)(key);
        let facts = ItemFacts {
            pool,
            counter: resident.counter,
            size,
        };
        match self.policy.item(&self.setting, &facts) {
            Verdict::Keep { counter } => {
                self.copy(key, counter, Source::SecondChance(segment.generation))
            }
            Verdict::Promote => self.copy(key, 0, Source::New),
            Verdict::Evict { ghost } => {
                self.residents[key as usize] = None;
                self.evicted_before = true;
                self.live_bytes -= size;
                if ghost {
                    let now = self.generations.now();
                    self.ghosts
                        .insert(mixed(1, u64::from(key)), segment.generation, now);
                }
            }
        }
    }

    fn copy(&mut self, key: u32, counter: u8, source: Source) {
        self.copied_bytes += (self.sizes)(key);
        self.append(Pool::Main, key, counter);
        self.generations.put_main((self.sizes)(key), source);
    }

    fn append(&mut self, pool: Pool, key: u32, counter: u8) {
        let size = (self.sizes)(key);
        if !self.has_room(pool, size) {
            self.seal(pool);
            let generation = match pool {
                Pool::Main => self.generations.open_main(),
                Pool::Probation => self.generations.now(),
            };
            let id = self.next_id;
            self.next_id += 1;
            self.segments_used += 1;
            // Survivors of a drain may use the reserve and the segment being drained, nothing more.
            assert!(
                self.segments_used <= self.segments_max + 1,
                "the reserve is overdrawn"
            );
            let open = Segment {
                id,
                generation,
                used_bytes: 0,
                keys: Vec::new(),
            };
            self.queue(pool).open = Some(open);
        }
        let queue = self.queue(pool);
        let open = queue.open.as_mut().expect("opened above");
        open.keys.push(key);
        open.used_bytes += size;
        queue.used_bytes += size;
        let segment = open.id;
        self.residents[key as usize] = Some(Resident { segment, counter });
    }

    fn has_room(&mut self, pool: Pool, size: u64) -> bool {
        let segment_bytes = self.segment_bytes;
        let open = self.queue(pool).open.as_ref();
        open.is_some_and(|open| open.used_bytes + size <= segment_bytes)
    }

    fn seal(&mut self, pool: Pool) {
        let queue = self.queue(pool);
        queue.sealed.extend(queue.open.take());
    }

    fn queue(&mut self, pool: Pool) -> &mut Queue {
        match pool {
            Pool::Probation => &mut self.probation,
            Pool::Main => &mut self.main,
        }
    }
}

fn side(queue: &Queue) -> PoolSide {
    PoolSide {
        used_bytes: queue.used_bytes,
        sealed: queue.sealed.len() as u32,
        open_bytes: queue.open.as_ref().map_or(0, |open| open.used_bytes),
    }
}

pub struct Outcome {
    pub object_miss: f64,
    pub byte_miss: f64,
    /// Bytes copied by survivors and promotions per byte inserted.
    pub copied: f64,
    /// Live bytes over capacity at the end.
    pub live: f64,
}

pub fn replay(
    trace: &[u32],
    capacity_bytes: u64,
    setting: Setting,
    sizes: &dyn Fn(u32) -> u64,
) -> Outcome {
    let keys = *trace.iter().max().expect("a trace") as usize + 1;
    let mean = (0..keys as u32).map(sizes).sum::<u64>() / keys as u64;
    let mut simulation = Simulation::new(setting, capacity_bytes, mean, keys, sizes);
    let (mut misses, mut missed_bytes, mut bytes) = (0u64, 0u64, 0u64);
    for key in trace {
        bytes += sizes(*key);
        if !simulation.request(*key) {
            misses += 1;
            missed_bytes += sizes(*key);
        }
    }
    Outcome {
        object_miss: misses as f64 / trace.len() as f64,
        byte_miss: missed_bytes as f64 / bytes as f64,
        copied: simulation.copied_bytes as f64 / simulation.inserted_bytes as f64,
        live: simulation.live_bytes as f64 / capacity_bytes as f64,
    }
}

/// Word i of a stream of random words.
pub fn mixed(stream: u64, i: u64) -> u64 {
    let z = stream.wrapping_add((i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ z >> 31
}
