//! Who decides between off, on and filtered: the mode asked for, or the duel, fed with sampled keys.
//!
//! Owns the duel and its sample. Three shadows take about a two-hundredth of the cache, in small ones up to a fiftieth, for five
//! hundred items, and hold two thousand items at the most. A reader or writer that meets another here passes on.
//!
//! A request counts if somebody waits for its value: a read that finds it, or a store under a key that a read missed
//! before. What is stored otherwise, as while a cache is filled, moves the shadows and counts as nothing. How many
//! requests there were is known from all of them, not from the sample: whether the hottest keys are in that is chance.

use super::duel::{Access, Duel};
use super::options::CompressMode;
use super::price::Prices;
use super::shadow::{Way, World};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};
use std::collections::HashSet;

/// The shadows' share of the cache, its most in small ones, and what an item takes in all three, ghosts included.
const SHADOW_SHARE: f64 = 1.0 / 200.0;
const SHADOW_SHARE_MAX: f64 = 1.0 / 50.0;
const SHADOW_ITEM_BYTES: f64 = 400.0;
/// Items a shadow holds uncompressed: between half the most and the most, which is between these. With two hundred
/// items of the hottest keys hardly one is sampled, and to judge took seconds.
const SHADOW_ITEMS: (f64, f64) = (512.0, 2048.0);
/// Another sample is taken where the shadows would hold so much less than half the most, or more than the most.
const SLACK: f64 = 1.5;
/// Keys that a read missed and nobody has stored yet; where there are more they are stored by nobody.
const MISSED_MAX: usize = 512;
/// Requests counted by which the sample's are corrected, at the least; halved at twice as many.
const CORRECTED_FROM: f64 = 128.0;
/// The range of the 32 hash bits that sample.
const ALL_KEYS: u64 = 1 << 32;
/// Coded over plain bytes until it is measured.
const CODED_SHARE: f64 = 0.5;

/// What the control goes by at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Facts {
    pub(crate) capacity_bytes: u64,
    /// Mean bytes of an item, uncoded.
    pub(crate) mean_bytes: f64,
    pub(crate) hot_share: f64,
    /// Coded over plain bytes of what is demoted, refused values counted as they are; 0: not known yet.
    pub(crate) coded_share: f64,
    pub(crate) prices: Prices,
    /// Reads since the start.
    pub(crate) reads: u64,
}

/// How an item came to be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// A read found it.
    Read,
    /// Stored, under a key that had none or over another.
    Stored,
}

pub(crate) struct Control {
    /// `CompressMode` as a number.
    mode: AtomicU32,
    /// `Way` as a number, for readers.
    way: AtomicU32,
    /// Since when the duel has had it off, by the cache's clock, plus one; 0: it has not.
    off_since: AtomicU64,
    /// Keys whose lower 32 hash bits are below are sampled; 0: none.
    sample_below: AtomicU64,
    /// What the duel takes, as of the last look.
    memory_bytes: AtomicU64,
    duel: Mutex<Option<Running>>,
}

struct Running {
    duel: Duel,
    world: World,
    prices: Prices,
    /// The sample is one key in two to the power of this.
    sampled: u32,
    /// Sampled keys that a read missed.
    missed: HashSet<u32>,
    counted: Counted,
}

/// Requests of the sample and of all keys, lately.
#[derive(Default)]
struct Counted {
    sampled: f64,
    all: f64,
    reads: u64,
}

impl Counted {
    /// Requests there were for each that the sample's share would make of those counted in it.
    fn look(&mut self, reads: u64, sampled: u32) -> f64 {
        self.all += reads.saturating_sub(self.reads) as f64 / (1u64 << sampled) as f64;
        self.reads = reads;
        if self.all.min(self.sampled) < CORRECTED_FROM {
            return 1.0;
        }
        let correction = self.all / self.sampled;
        if self.all > 2.0 * CORRECTED_FROM {
            (self.all, self.sampled) = (self.all / 2.0, self.sampled / 2.0);
        }
        correction
    }
}

/// The duel in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Scores {
    /// What a request costs off, on, filtered, nanoseconds.
    pub(crate) costs_ns: [f64; 3],
    pub(crate) switches: u64,
}

impl Control {
    pub(crate) fn new(mode: CompressMode) -> Control {
        let way = match mode {
            // Auto begins off: until somebody waits for what is not there, nothing is to be gained.
            CompressMode::Off | CompressMode::Auto => Way::Off,
            CompressMode::On => Way::On,
        };
        Control {
            mode: AtomicU32::new(mode.number()),
            way: AtomicU32::new(way as u32),
            off_since: AtomicU64::new(0),
            sample_below: AtomicU64::new(0),
            memory_bytes: AtomicU64::new(0),
            duel: Mutex::new(None),
        }
    }

    pub(crate) fn mode(&self) -> CompressMode {
        CompressMode::of_number(self.mode.load(Ordering::Relaxed))
    }

    /// Asks for another mode. On and off hold at once; auto begins with what there is, and a duel of its own.
    pub(crate) fn set_mode(&self, mode: CompressMode) {
        let mut duel = crate::sync::lock(&self.duel);
        if mode == self.mode() {
            return;
        }
        *duel = None;
        self.off_since.store(0, Ordering::Relaxed);
        self.sample_below.store(0, Ordering::Relaxed);
        self.memory_bytes.store(0, Ordering::Relaxed);
        let way = match mode {
            CompressMode::Off => Way::Off,
            CompressMode::On => Way::On,
            CompressMode::Auto => self.way(),
        };
        self.way.store(way as u32, Ordering::Relaxed);
        self.mode.store(mode.number(), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn way(&self) -> Way {
        match self.way.load(Ordering::Relaxed) {
            0 => Way::Off,
            1 => Way::On,
            _ => Way::Filtered,
        }
    }

    /// Whether the duel wants to see this key's accesses.
    #[inline(always)]
    pub(crate) fn samples(&self, hash: u64) -> bool {
        u64::from(hash as u32) < self.bound()
    }

    /// Keys are sampled whose lower 32 hash bits are below.
    #[inline(always)]
    pub(crate) fn bound(&self) -> u64 {
        self.sample_below.load(Ordering::Relaxed)
    }

    /// An access of a key, whose item takes `bytes` uncoded.
    #[inline(always)]
    pub(crate) fn sees(&self, hash: u64, bytes: usize, came: Came) {
        if self.samples(hash) {
            self.request(hash, bytes, came);
        }
    }

    #[cold]
    fn request(&self, hash: u64, bytes: usize, came: Came) {
        if let Ok(mut running) = self.duel.try_lock() {
            if let Some(running) = &mut *running {
                let key = sample_key(hash);
                let counts = match came {
                    Came::Read => true,
                    Came::Stored => running.missed.remove(&key),
                };
                running.counted.sampled += f64::from(u8::from(counts));
                let access = Access {
                    key,
                    bytes: bytes as u32,
                    counts,
                    found: matches!(came, Came::Read),
                };
                let (world, prices) = (running.world, running.prices);
                running.duel.request(&world, &prices, access);
            }
        }
    }

    /// A read of this key found nothing.
    #[inline(always)]
    pub(crate) fn missed(&self, hash: u64) {
        if self.samples(hash) {
            self.missed_sampled(hash);
        }
    }

    #[cold]
    fn missed_sampled(&self, hash: u64) {
        if let Ok(mut running) = self.duel.try_lock() {
            if let Some(running) = &mut *running {
                if running.missed.len() >= MISSED_MAX {
                    running.missed.clear();
                }
                running.missed.insert(sample_key(hash));
            }
        }
    }

    /// Takes note of what was measured, and lets the duel's verdict come into force. A few times a second,
    /// once the cache is full: before that there is nothing to decide.
    pub(crate) fn look(&self, facts: &Facts, now_ms: u64) {
        if self.mode() != CompressMode::Auto || facts.mean_bytes < 1.0 {
            return;
        }
        let prices = facts.prices;
        let coded_share = match facts.coded_share > 0.0 {
            true => facts.coded_share,
            false => CODED_SHARE,
        };
        let world = World {
            hot_share: facts.hot_share,
            coded_share,
            promote: prices.promote(),
        };
        let mut slot = crate::sync::lock(&self.duel);
        if self.mode() != CompressMode::Auto {
            return;
        }
        let items = facts.capacity_bytes as f64 / facts.mean_bytes;
        let before = slot.as_ref().map(|running| running.sampled);
        let sampled = sampling(facts.capacity_bytes, items, before);
        let capacity = facts.capacity_bytes >> sampled;
        let running = slot.get_or_insert_with(|| Running {
            duel: Duel::new(capacity, self.way(), now_ms),
            world,
            prices,
            sampled,
            missed: HashSet::new(),
            counted: Counted {
                reads: facts.reads,
                ..Counted::default()
            },
        });
        if running.sampled != sampled {
            running.duel.sampled_anew();
            running.sampled = sampled;
        }
        self.sample_below
            .store(ALL_KEYS >> sampled, Ordering::Relaxed);
        (running.world, running.prices) = (world, prices);
        running.duel.set_capacity(capacity);
        running.duel.set_period(items / (1u64 << sampled) as f64);
        let correction = running.counted.look(facts.reads, sampled);
        running.duel.set_correction(correction);
        self.memory_bytes
            .store(running.duel.memory_bytes(), Ordering::Relaxed);
        let way = running.duel.way();
        self.way.store(way as u32, Ordering::Relaxed);
        let since = match self.off_since.load(Ordering::Relaxed) {
            _ if way != Way::Off || running.duel.is_hopeless() || !running.duel.is_judged() => 0,
            0 => now_ms + 1,
            since => since,
        };
        self.off_since.store(since, Ordering::Relaxed);
    }

    /// Since when the duel has had it off though what is demoted shrinks, milliseconds; None: it is on, or nothing was judged yet.
    pub(crate) fn off_since_ms(&self) -> Option<u64> {
        self.off_since.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Bytes of memory the duel takes.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.memory_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn scores(&self) -> Scores {
        let slot = crate::sync::lock(&self.duel);
        slot.as_ref().map_or(Scores::default(), |running| Scores {
            costs_ns: running.duel.costs(),
            switches: running.duel.switches(),
        })
    }
}

/// How a key is called in the sample.
fn sample_key(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

/// The sample for a cache of so many bytes and items: one key in two to the power of what is returned. `now`: the one there
/// is, which stays as long as it is not far off: the size of items wavers.
fn sampling(capacity_bytes: u64, items: f64, now: Option<u32>) -> u32 {
    let (least, most) = SHADOW_ITEMS;
    let held = |share: f64| capacity_bytes as f64 * share / SHADOW_ITEM_BYTES;
    let most = held(SHADOW_SHARE)
        .clamp(least, most)
        .min(held(SHADOW_SHARE_MAX));
    let fits = |sampled: u32| {
        let held = items / (1u64 << sampled) as f64;
        held <= most * SLACK && (held >= most / 2.0 / SLACK || sampled == 0)
    };
    let best = (items / most).max(1.0).log2().ceil() as u32;
    now.filter(|&sampled| fits(sampled)).unwrap_or(best)
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            capacity_bytes: 64 << 20,
            mean_bytes: 400.0,
            hot_share: 0.05,
            coded_share: 0.4,
            prices: Prices::of_times(3_000.0, 300.0, 1e6),
            reads: 0,
        }
    }

    fn hash(n: u64) -> u64 {
        n.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    #[test]
    fn asked_for_it_needs_no_duel() {
        for (mode, way) in [(CompressMode::On, Way::On), (CompressMode::Off, Way::Off)] {
            let control = Control::new(mode);
            control.look(&facts(), 1);
            assert_eq!(control.way(), way);
            assert_eq!(control.scores(), Scores::default());
        }
    }

    #[test]
    fn another_mode_can_be_asked_for_at_any_time() {
        let control = Control::new(CompressMode::Auto);
        control.look(&facts(), 1);
        (0..1000).for_each(|n| control.sees(hash(n), 400, Came::Read));
        assert!(control.samples(0));
        for (mode, way) in [
            (CompressMode::Off, Way::Off),
            (CompressMode::On, Way::On),
            (CompressMode::On, Way::On),
            (CompressMode::Auto, Way::On),
        ] {
            control.set_mode(mode);
            assert_eq!((control.mode(), control.way()), (mode, way));
            assert!(!control.samples(0), "the old duel is over");
        }
        control.look(&facts(), 1);
        assert!(control.samples(0));
    }

    #[test]
    fn cheap_misses_of_what_does_not_compress_turn_it_off() {
        let control = Control::new(CompressMode::On);
        control.set_mode(CompressMode::Auto);
        assert_eq!(control.way(), Way::On);
        let facts = Facts {
            coded_share: 1.0,
            prices: Prices::of_times(3_000.0, 300.0, 10_000.0),
            ..facts()
        };
        control.look(&facts, 1);
        for n in 0..2_000_000u64 {
            control.sees(hash(n % 300_000), 400, Came::Read);
        }
        control.look(&facts, 1);
        assert_eq!(control.way(), Way::Off);
        let [off, on, _] = control.scores().costs_ns;
        assert!(off > 0.0 && on > off);
    }

    #[test]
    fn shadows_are_a_two_hundredth_of_the_cache_and_bounded() {
        let mut seen = Vec::new();
        for capacity_bytes in [4u64 << 20, 16 << 20, 64 << 20, 1 << 30, 64 << 30] {
            let control = Control::new(CompressMode::Auto);
            let facts = Facts {
                capacity_bytes,
                ..facts()
            };
            control.look(&facts, 1);
            let items = capacity_bytes as f64 / 400.0 * (control.bound() as f64 / ALL_KEYS as f64);
            assert!((100.0..=2048.0).contains(&items), "{items}");
            (0..4 << 20).for_each(|n| control.sees(hash(n), 400, Came::Stored));
            control.look(&facts, 2);
            let share = control.memory_bytes() as f64 / capacity_bytes as f64;
            // A hash table may double by chance.
            let most = if items > 512.0 { 0.006 } else { 0.025 };
            assert!(share <= most, "{share} of {capacity_bytes}, {items}");
            seen.push(items);
        }
        assert!(seen[4] >= 1024.0 && seen[1] <= 512.0, "{seen:?}");
    }

    /// The size of items wavers about a step: the sample stays, and what the shadows know with it.
    #[test]
    fn the_sample_stays_while_sizes_waver() {
        let (capacity, items) = (256u64 << 20, 524_288.0);
        let sampled = sampling(capacity, items, None);
        for share in [0.99, 1.01, 0.8, 1.3] {
            assert_eq!(sampling(capacity, items * share, Some(sampled)), sampled);
        }
        assert_ne!(sampling(capacity, items * 4.0, Some(sampled)), sampled);
        assert_ne!(sampling(capacity, items / 4.0, Some(sampled)), sampled);
    }

    /// A filled cache of .8 of its keys, asked for them evenly: all would fit, coded. (It stayed off: the filling counted
    /// as requests, and a step of the sample doubled the keys that the shadows had never seen.)
    #[test]
    fn what_would_all_fit_coded_is_coded_at_once() {
        let control = Control::new(CompressMode::Auto);
        let facts = |reads, mean_bytes| Facts {
            capacity_bytes: 256 << 20,
            mean_bytes,
            coded_share: 0.5,
            prices: Prices::of_times(4_000.0, 300.0, 100_000.0),
            reads,
            ..facts()
        };
        let keys = 671_000u64;
        control.look(&facts(0, 500.0), 1);
        assert_eq!(control.off_since_ms(), None, "nothing to judge by");
        for n in 0..keys {
            control.sees(hash(n), 500, Came::Stored);
            if n % 50_000 == 0 {
                control.look(&facts(0, 500.0 + (n % 3) as f64 * 20.0), n / 100);
            }
        }
        assert_eq!(control.way(), Way::Off, "nobody has asked for anything");
        assert!(control.off_since_ms().is_some());
        let mut state = 7u64;
        for n in 0..keys {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let key = hash((state >> 33) % keys);
            // Eight in ten are found.
            let came = match (state >> 20) % 10 < 8 {
                true => Came::Read,
                false => {
                    control.missed(key);
                    Came::Stored
                }
            };
            control.sees(key, 500, came);
            if n % 20_000 == 0 {
                control.look(&facts(n, 500.0), 10_000 + n / 100);
            }
        }
        assert_ne!(control.way(), Way::Off);
        let [off, on, _] = control.scores().costs_ns;
        assert!(on < off / 4.0, "{on} on, {off} off");
        assert_eq!(control.scores().switches, 1);
    }

    /// The hottest key of the sample may be half of its requests: that they are none of all others' is known.
    #[test]
    fn how_many_requests_there_were_is_known_from_all() {
        let mut counted = Counted {
            sampled: 400.0,
            ..Counted::default()
        };
        assert_eq!(counted.look(100, 0), 1.0, "too few to tell");
        assert_eq!(counted.look(200, 0), 0.5);
    }
}
