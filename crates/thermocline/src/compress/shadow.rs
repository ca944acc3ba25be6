//! A cache of two levels in miniature, metadata only: what compression would cost and save.
//!
//! Owns four queues of items (probation and main, hot and compressed) and ghosts, item by item. Its rules are
//! those of the real tiers with one fixed probation of 10 %. What it tells of a request is where it would
//! have been found and how many items would have been coded meanwhile.
//!
//! What lies coded is kept as its plain bytes, and takes the share of them that the world tells at the moment: a
//! dictionary that comes into force makes room at once, as in the cache, which codes anew what it holds.
//!
//! Must hold: resident bytes fit the capacity after every insertion; ghosts are at most one and a half for each item that
//! would fit uncompressed.

use std::collections::{HashMap, VecDeque};
use std::mem::size_of;

/// Probation's share of either level.
const PROBATION_SHARE: f64 = 0.10;
/// A new epoch each time so much of the capacity has gone into main.
const EPOCHS_PER_CAPACITY: u64 = 4;
/// Ghosts for each item that would fit uncompressed, as the engine keeps them.
const GHOSTS_PER_ITEM: f64 = 1.5;
/// While hot holds so many times its share it shrinks to it: that is done once, whatever requests come to later.
const SHRINKS_FROM: u64 = 2;

/// What becomes of items that hot evicts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// They leave.
    Off = 0,
    /// They are compressed.
    On = 1,
    /// Only those with hits, or known from before, are compressed.
    Filtered = 2,
}

/// What the world is like.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    /// Hot's share of the capacity while the tier is on.
    pub(crate) hot_share: f64,
    /// Mean coded over plain bytes.
    pub(crate) coded_share: f64,
    /// Chance that a compressed hit promotes.
    pub(crate) promote: f64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    Hot,
    Compressed,
    Nowhere,
}

/// One request's outcome.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Outcome {
    pub(crate) found: Found,
    /// Items coded to make room.
    pub(crate) coded: u32,
    /// Items coded beyond that while hot shrinks to its share: once, and for no request.
    pub(crate) once: u32,
}

impl Outcome {
    fn found(found: Found) -> Outcome {
        Outcome {
            found,
            coded: 0,
            once: 0,
        }
    }
}

const HOT_PROBATION: usize = 0;
const HOT_MAIN: usize = 1;
const CODED_PROBATION: usize = 2;
const CODED_MAIN: usize = 3;

#[derive(Clone, Copy)]
struct Node {
    /// Uncoded.
    bytes: u32,
    /// The turn it was queued at: older entries of the queues under its key are stale. Wraps: one that is stale by four
    /// thousand million turns is long out of the queue.
    turn: u32,
    queue: u8,
    hits: u8,
}

#[derive(Clone, Copy)]
struct Ghost {
    epoch: u32,
    turn: u32,
}

pub(crate) struct Shadow {
    way: Way,
    capacity_bytes: u64,
    nodes: HashMap<u32, Node>,
    queues: [VecDeque<(u32, u32)>; 4],
    /// Uncoded.
    bytes: [u64; 4],
    ghosts: HashMap<u32, Ghost>,
    ghost_queue: VecDeque<(u32, u32)>,
    turn: u32,
    /// Running mean of what is inserted.
    mean_bytes: f64,
    /// Bytes ever put into the main queue that counts, and the epoch they make.
    main_in: u64,
    /// Epoch of the item main lost last.
    main_oldest: u32,
    random: u64,
    /// It had to let something go that its way would have kept.
    full: bool,
}

impl Shadow {
    pub(crate) fn new(way: Way, capacity_bytes: u64, seed: u64) -> Shadow {
        Shadow {
            way,
            capacity_bytes: capacity_bytes.max(1),
            nodes: HashMap::new(),
            queues: Default::default(),
            bytes: [0; 4],
            ghosts: HashMap::new(),
            ghost_queue: VecDeque::new(),
            turn: 0,
            mean_bytes: 0.0,
            main_in: 0,
            main_oldest: 0,
            random: seed | 1,
            full: false,
        }
    }

    /// Whether it has held all it can at some time: what it misses from then on tells what it is worth.
    pub(crate) fn is_full(&self) -> bool {
        self.full
    }

    pub(crate) fn way(&self) -> Way {
        self.way
    }

    /// From now on what hot evicts goes this way; nothing is moved for it.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn set_way(&mut self, way: Way) {
        self.way = way;
    }

    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.capacity_bytes = bytes.max(1);
    }

    /// Keys it has not seen yet are sampled from now on: until it is full again it tells nothing.
    pub(crate) fn is_to_fill(&mut self) {
        self.full = false;
    }

    /// Bytes of memory it takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        let entry = size_of::<(u32, u32)>();
        let queued: usize = self.queues.iter().map(VecDeque::capacity).sum();
        let tables = table_bytes::<(u32, Node)>(self.nodes.capacity())
            + table_bytes::<(u32, Ghost)>(self.ghosts.capacity());
        ((queued + self.ghost_queue.capacity()) * entry + tables) as u64
    }

    /// One access; a key that is nowhere is inserted.
    pub(crate) fn request(&mut self, world: &World, key: u32, bytes: u32) -> Outcome {
        let found = match self.nodes.get_mut(&key) {
            Some(node) if usize::from(node.queue) <= HOT_MAIN => {
                node.hits = (node.hits + 1).min(3);
                return Outcome::found(Found::Hot);
            }
            Some(node) => {
                node.hits = 1;
                if !self.wins(world.promote) {
                    return Outcome::found(Found::Compressed);
                }
                self.take(key);
                Found::Compressed
            }
            None => Found::Nowhere,
        };
        if u64::from(bytes) > self.capacity_bytes {
            return Outcome::found(found);
        }
        self.mean_bytes = match self.mean_bytes {
            0.0 => f64::from(bytes),
            mean => mean + (f64::from(bytes) - mean) / 256.0,
        };
        let queue = match found {
            Found::Compressed => HOT_MAIN,
            _ if self.comes_back_soon(key) || self.is_cold() => HOT_MAIN,
            _ => HOT_PROBATION,
        };
        let (coded, once) = self.make_room(world, u64::from(bytes));
        self.put(queue, key, bytes, 0);
        Outcome { found, coded, once }
    }

    /// Nothing was evicted yet: main fills first.
    fn is_cold(&self) -> bool {
        self.ghost_queue.is_empty()
            && self.bytes[HOT_MAIN] < self.capacity_bytes - self.capacity_bytes / 10
    }

    /// Its ghost is younger than what main lost last.
    fn comes_back_soon(&mut self, key: u32) -> bool {
        let Some(ghost) = self.ghosts.remove(&key) else {
            return false;
        };
        let now = self.epoch();
        // Epochs are shares of a capacity, which may have grown since.
        now.saturating_sub(ghost.epoch) < now.saturating_sub(self.main_oldest).max(1)
    }

    fn epoch(&self) -> u32 {
        (self.main_in * EPOCHS_PER_CAPACITY / self.capacity_bytes) as u32
    }

    /// Items coded for it, and beyond that once.
    fn make_room(&mut self, world: &World, bytes: u64) -> (u32, u32) {
        let on = self.way != Way::Off;
        let hot_max = match on {
            true => (world.hot_share * self.capacity_bytes as f64) as u64,
            false => self.capacity_bytes,
        };
        let shrinks = on && self.hot_bytes() > SHRINKS_FROM * hot_max.max(bytes);
        let mut coded = 0;
        while self.total(world) + bytes > self.capacity_bytes && !self.nodes.is_empty() {
            let hot = self.hot_bytes();
            if hot + bytes > hot_max && hot > 0 || self.coded_bytes() == 0 {
                coded += self.drain_hot(hot_max);
            } else {
                self.drain_coded();
            }
        }
        self.forget_ghosts();
        match shrinks {
            true => (coded.min(1), coded.saturating_sub(1)),
            false => (coded, 0),
        }
    }

    fn forget_ghosts(&mut self) {
        let items = self.capacity_bytes as f64 / self.mean_bytes.max(1.0);
        let ghosts_max = (GHOSTS_PER_ITEM * items) as usize + 8;
        while self.ghost_queue.len() > ghosts_max {
            let Some((key, turn)) = self.ghost_queue.pop_front() else {
                break;
            };
            if self
                .ghosts
                .get(&key)
                .is_some_and(|ghost| ghost.turn == turn)
            {
                self.ghosts.remove(&key);
            }
        }
    }

    fn hot_bytes(&self) -> u64 {
        self.bytes[HOT_PROBATION] + self.bytes[HOT_MAIN]
    }

    /// Plain bytes of what lies coded.
    fn coded_bytes(&self) -> u64 {
        self.bytes[CODED_PROBATION] + self.bytes[CODED_MAIN]
    }

    fn total(&self, world: &World) -> u64 {
        self.hot_bytes() + (self.coded_bytes() as f64 * world.coded_share).ceil() as u64
    }

    fn drain_hot(&mut self, hot_max: u64) -> u32 {
        let share = (PROBATION_SHARE * hot_max as f64) as u64;
        let from_probation = self.bytes[HOT_PROBATION] > share || self.bytes[HOT_MAIN] == 0;
        let queue = if from_probation {
            HOT_PROBATION
        } else {
            HOT_MAIN
        };
        let Some((key, node)) = self.pop(queue) else {
            return 0;
        };
        match (queue, node.hits) {
            (HOT_PROBATION, 2..) => self.put(HOT_MAIN, key, node.bytes, 0),
            (HOT_MAIN, 1..) => self.put(HOT_MAIN, key, node.bytes, node.hits - 1),
            (_, hits) => return self.leave_hot(key, node.bytes, queue == HOT_MAIN, hits),
        }
        0
    }

    fn leave_hot(&mut self, key: u32, bytes: u32, main: bool, hits: u8) -> u32 {
        let proven = main || hits > 0;
        if self.way == Way::Off || self.way == Way::Filtered && !proven {
            self.full |= self.way == Way::Off;
            self.bury(key, main);
            return 0;
        }
        let queue = if proven { CODED_MAIN } else { CODED_PROBATION };
        self.put(queue, key, bytes, 0);
        1
    }

    fn drain_coded(&mut self) {
        self.full = true;
        let share = (PROBATION_SHARE * self.coded_bytes() as f64) as u64;
        let from_probation = self.bytes[CODED_PROBATION] > share || self.bytes[CODED_MAIN] == 0;
        let queue = if from_probation {
            CODED_PROBATION
        } else {
            CODED_MAIN
        };
        let Some((key, node)) = self.pop(queue) else {
            return;
        };
        match node.hits {
            0 => self.bury(key, queue == CODED_MAIN),
            _ => self.put(CODED_MAIN, key, node.bytes, 0),
        }
    }

    fn bury(&mut self, key: u32, from_main: bool) {
        let (epoch, turn) = (self.epoch(), self.turn);
        if from_main {
            // Everything main holds went through it within a capacity's worth of bytes.
            self.main_oldest = epoch.saturating_sub(EPOCHS_PER_CAPACITY as u32);
        }
        self.turn = self.turn.wrapping_add(1);
        self.ghosts.insert(key, Ghost { epoch, turn });
        self.ghost_queue.push_back((key, turn));
    }

    fn put(&mut self, queue: usize, key: u32, bytes: u32, hits: u8) {
        self.turn = self.turn.wrapping_add(1);
        let turn = self.turn;
        let node = Node {
            bytes,
            turn,
            queue: queue as u8,
            hits,
        };
        if let Some(old) = self.nodes.insert(key, node) {
            self.bytes[usize::from(old.queue)] -= u64::from(old.bytes);
        }
        self.queues[queue].push_back((key, turn));
        self.sweep(queue);
        self.bytes[queue] += u64::from(bytes);
        let counts = match self.way {
            Way::Off => HOT_MAIN,
            Way::On | Way::Filtered => CODED_MAIN,
        };
        if queue == counts {
            self.main_in += u64::from(bytes);
        }
    }

    /// Where promotions leave more stale entries than there are items, they go.
    fn sweep(&mut self, queue: usize) {
        if self.queues[queue].len() > 2 * self.nodes.len() + 64 {
            let nodes = &self.nodes;
            self.queues[queue]
                .retain(|(key, turn)| nodes.get(key).is_some_and(|n| n.turn == *turn));
        }
    }

    fn take(&mut self, key: u32) {
        if let Some(node) = self.nodes.remove(&key) {
            self.bytes[usize::from(node.queue)] -= u64::from(node.bytes);
        }
    }

    /// The oldest of a queue, stale entries passed over.
    fn pop(&mut self, queue: usize) -> Option<(u32, Node)> {
        while let Some((key, turn)) = self.queues[queue].pop_front() {
            let fresh = self.nodes.get(&key).is_some_and(|node| node.turn == turn);
            if fresh {
                let node = self.nodes.remove(&key)?;
                self.bytes[queue] -= u64::from(node.bytes);
                return Some((key, node));
            }
        }
        None
    }

    fn wins(&mut self, chance: f64) -> bool {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((self.random >> 11) as f64) < chance * (1u64 << 53) as f64
    }
}

/// What a hash table of so many places takes: seven of eight may be filled, and each has a byte beside it.
fn table_bytes<T>(places: usize) -> usize {
    places * 8 / 7 * (size_of::<T>() + 1)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    pub(super) const WORLD: World = World {
        hot_share: 0.05,
        coded_share: 0.4,
        promote: 1.0 / 16.0,
    };

    fn misses(way: Way, capacity: u64, keys: impl Iterator<Item = u32>) -> (u32, u32) {
        let mut shadow = Shadow::new(way, capacity, 7);
        let (mut misses, mut coded) = (0, 0);
        for key in keys {
            let outcome = shadow.request(&WORLD, key, 100);
            misses += u32::from(outcome.found == Found::Nowhere);
            coded += outcome.coded;
            assert!(shadow.total(&WORLD) <= capacity);
            assert!(shadow.ghosts.len() <= shadow.ghost_queue.len());
        }
        (misses, coded)
    }

    fn loops(keys: u32, times: u32) -> impl Iterator<Item = u32> {
        (0..times).flat_map(move |_| 0..keys)
    }

    #[test]
    fn what_fits_misses_once_and_codes_nothing() {
        for way in [Way::Off, Way::On, Way::Filtered] {
            assert_eq!(misses(way, 100_000, loops(1000, 10)), (1000, 0), "{way:?}");
        }
    }

    #[test]
    fn a_shadow_that_grows_knows_its_ghosts() {
        let mut shadow = Shadow::new(Way::Off, 100_000, 7);
        let missed = |shadow: &mut Shadow| {
            let found = loops(2000, 4).map(|key| shadow.request(&WORLD, key, 100).found);
            found.filter(|&found| found == Found::Nowhere).count()
        };
        assert!(missed(&mut shadow) > 2000);
        shadow.set_capacity(1_000_000);
        assert!(missed(&mut shadow) <= 2000);
    }

    #[test]
    fn a_loop_that_fits_only_compressed_fits_with_the_tier_on() {
        let keys = 2000; // 200 kB over 100 kB; 80 kB when coded.
        let (off, _) = misses(Way::Off, 100_000, loops(keys, 30));
        let (on, coded) = misses(Way::On, 100_000, loops(keys, 30));
        assert!(on * 4 < off, "{on} on, {off} off");
        assert!(coded > 0);
    }

    /// A cache that was filled before there was a dictionary codes what it holds anew; its shadow must not go on believing
    /// that it is as full as before.
    #[test]
    fn what_lies_coded_takes_the_share_of_now() {
        let poor = World {
            coded_share: 0.95,
            ..WORLD
        };
        let mut shadow = Shadow::new(Way::On, 100_000, 7);
        let mut missed = |world: &World, times: u32| {
            let keys = loops(2000, times);
            let found = keys.map(|key| shadow.request(world, key, 100).found);
            found.filter(|&found| found == Found::Nowhere).count()
        };
        assert!(missed(&poor, 10) > 10_000);
        missed(&WORLD, 1);
        assert_eq!(missed(&WORLD, 10), 0);
    }

    /// From hot alone to nearly all coded: twenty codings make room for one item there, and that is no price of requests.
    #[test]
    fn shrinking_hot_to_its_share_is_no_cost_of_requests() {
        let poor = World {
            coded_share: 0.95,
            ..WORLD
        };
        let mut shadow = Shadow::new(Way::On, 100_000, 7);
        let all: u32 = loops(2000, 3)
            .map(|key| shadow.request(&poor, key, 100).coded)
            .sum();
        assert!((4000..=7000).contains(&all), "{all}");
        assert!(shadow.hot_bytes() <= 10_000, "{}", shadow.hot_bytes());
    }

    #[test]
    fn it_takes_under_two_hundred_bytes_an_item() {
        let mut shadow = Shadow::new(Way::On, 100_000, 7);
        loops(5000, 4).for_each(|key| {
            shadow.request(&WORLD, key, 100);
        });
        assert!(
            shadow.memory_bytes() < 200 * 1000,
            "{}",
            shadow.memory_bytes()
        );
    }

    #[test]
    fn skewed_keys_miss_less_and_each_is_coded_about_once_a_miss() {
        let mut state = 9u64;
        let keys: Vec<u32> = (0..200_000)
            .map(|_| {
                state = state
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                let unit = (state >> 33) as f64 / (1u64 << 31) as f64;
                (unit.powi(4) * 5000.0) as u32
            })
            .collect();
        let (off, _) = misses(Way::Off, 50_000, keys.iter().copied());
        let (on, coded) = misses(Way::On, 50_000, keys.iter().copied());
        assert!(on < off * 8 / 10, "{on} on, {off} off");
        assert!(coded < on * 3, "{coded} coded for {on} misses");
    }
}
