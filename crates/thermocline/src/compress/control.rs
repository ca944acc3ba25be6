//! Who decides between off, on and filtered: the mode asked for, or the duel, fed with sampled keys.
//!
//! Owns the duel and its sample. The sample is as small as holds a thousand items a shadow, so that three
//! shadows take under 0.6 MiB, whatever the cache's size. A reader or writer that meets another here passes on.

use super::duel::{Access, Duel};
use super::options::CompressMode;
use super::price::Prices;
use super::shadow::{Way, World};
use crate::sync::{AtomicU32, AtomicU64, Mutex, Ordering};

/// Items a shadow holds, uncompressed, at the least.
const SHADOW_ITEMS: f64 = 1024.0;
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
}

/// How an item came to be accessed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Came {
    /// A read found it.
    Read,
    /// Stored under a key that had none: a read may have missed it before.
    Stored,
    /// Written over: nobody asked for it.
    Over,
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
    duel: Mutex<Option<Running>>,
}

struct Running {
    duel: Duel,
    world: World,
    prices: Prices,
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
            CompressMode::Off => Way::Off,
            // Auto begins by the prices taken for granted: a miss costs a millisecond.
            CompressMode::On | CompressMode::Auto => Way::On,
        };
        Control {
            mode: AtomicU32::new(mode.number()),
            way: AtomicU32::new(way as u32),
            off_since: AtomicU64::new(0),
            sample_below: AtomicU64::new(0),
            duel: Mutex::new(None),
        }
    }

    pub(crate) fn mode(&self) -> CompressMode {
        CompressMode::of_number(self.mode.load(Ordering::Relaxed))
    }

    /// Asks for another mode. On and off hold at once; auto begins on, with a duel of its own.
    pub(crate) fn set_mode(&self, mode: CompressMode) {
        let mut duel = crate::sync::lock(&self.duel);
        if mode == self.mode() {
            return;
        }
        *duel = None;
        self.off_since.store(0, Ordering::Relaxed);
        self.sample_below.store(0, Ordering::Relaxed);
        let way = match mode {
            CompressMode::Off => Way::Off,
            CompressMode::On | CompressMode::Auto => Way::On,
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
                let (world, prices) = (running.world, running.prices);
                let weight = match came {
                    Came::Read => 1.0,
                    Came::Stored => prices.asked,
                    Came::Over => 0.0,
                };
                let access = Access {
                    key: (hash ^ hash >> 32) as u32,
                    bytes: bytes as u32,
                    weight,
                };
                running.duel.request(&world, &prices, access);
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
        let items = facts.capacity_bytes as f64 / facts.mean_bytes;
        let sampled = (items / SHADOW_ITEMS).max(1.0).log2().floor() as u32;
        let capacity = facts.capacity_bytes >> sampled;
        let mut slot = crate::sync::lock(&self.duel);
        if self.mode() != CompressMode::Auto {
            return;
        }
        self.sample_below
            .store(ALL_KEYS >> sampled, Ordering::Relaxed);
        let running = slot.get_or_insert_with(|| Running {
            duel: Duel::new(capacity, &prices, now_ms),
            world,
            prices,
        });
        (running.world, running.prices) = (world, prices);
        running.duel.set_capacity(capacity);
        running.duel.set_period(items / (1u64 << sampled) as f64);
        running.duel.look(&prices);
        let way = running.duel.way();
        self.way.store(way as u32, Ordering::Relaxed);
        let since = match self.off_since.load(Ordering::Relaxed) {
            _ if way != Way::Off || running.duel.is_hopeless() => 0,
            0 => now_ms + 1,
            since => since,
        };
        self.off_since.store(since, Ordering::Relaxed);
    }

    /// Since when the duel has had it off though what is demoted shrinks, milliseconds; None: it is on, or not decided here.
    pub(crate) fn off_since_ms(&self) -> Option<u64> {
        self.off_since.load(Ordering::Relaxed).checked_sub(1)
    }

    pub(crate) fn scores(&self) -> Scores {
        let slot = crate::sync::lock(&self.duel);
        slot.as_ref().map_or(Scores::default(), |running| Scores {
            costs_ns: running.duel.costs(),
            switches: running.duel.switches(),
        })
    }
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
        let control = Control::new(CompressMode::Auto);
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
    fn the_sample_holds_a_thousand_items_whatever_the_size() {
        for capacity_bytes in [100_000, 64 << 20, 64 << 30] {
            let control = Control::new(CompressMode::Auto);
            control.look(
                &Facts {
                    capacity_bytes,
                    ..facts()
                },
                1,
            );
            let share = control.bound() as f64 / ALL_KEYS as f64;
            let items = capacity_bytes as f64 / 400.0 * share;
            assert!((1000.0..2100.0).contains(&items) || share == 1.0, "{items}");
        }
    }
}
