//! Whether to compress: three ways run in miniature on sampled keys, and the cheapest leads.
//!
//! ```text
//! start: coding costs at most 1 % of a miss -> On, else Off
//! each period: cost of each way x 0.75 + cost of the period; a way 2 % cheaper takes over and holds 4 periods,
//!              twice as many each time it changes again soon (at most 64)
//! ```
//! Where what is demoted does not shrink by a tenth, off leads whatever the costs.
//! Pure: requests and measured costs in, a way out. With the tier on, cost can exceed "off" by about
//! code time / miss time when nothing is gained, so the start decides little where that is small.

use super::shadow::{Found, Shadow, Way, World};

/// Coding may cost this share of a miss for the tier to start on.
const START_ON: f64 = 0.01;
const DECAY: f64 = 0.75;
const MARGIN: f64 = 0.02;
/// Coded over plain bytes from which there is nothing to gain: not worth a front of 5 % and one reference bit.
const HOPELESS: f64 = 0.9;
const HOLD_PERIODS: u32 = 4;
const HOLD_PERIODS_MAX: u32 = 64;
/// Least requests of a period.
const PERIOD_MIN: u64 = 256;
/// Capacities' worth of requests in a period, started on or off.
const PERIOD_ON: f64 = 2.0;
const PERIOD_OFF: f64 = 0.25;

/// A promotion takes as long as coding so many items: what is promoted and what leaves hot for it are moved, coded and
/// moved again, and the plain copy leaves less room for others. (Decode over code time alone came to one hit in four where
/// the fast search codes: docs/compressed.md has what that cost.)
const PROMOTION_CODES: f64 = 8.0;
/// The rarest.
pub(crate) const PROMOTE_MIN: f64 = 1.0 / 64.0;

/// What the ways are judged by, nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Prices {
    pub(crate) code_ns: f64,
    pub(crate) decode_ns: f64,
    pub(crate) miss_ns: f64,
}

impl Prices {
    /// The chance that a compressed hit promotes: what it takes to decode beside what a promotion takes.
    pub(crate) fn promote(&self) -> f64 {
        let promotion_ns = (PROMOTION_CODES * self.code_ns).max(1.0);
        (self.decode_ns / promotion_ns).clamp(PROMOTE_MIN, 1.0 / 16.0)
    }

    fn starts_on(&self) -> bool {
        self.code_ns <= self.miss_ns * START_ON
    }
}

pub(crate) struct Duel {
    shadows: [Shadow; 3],
    costs: [f64; 3],
    current: usize,
    held: u32,
    /// How long the next to take over will hold.
    hold: u32,
    requests: u64,
    period: u64,
    started_on: bool,
    hopeless: bool,
    switches: u64,
}

impl Duel {
    /// Shadows of `capacity_bytes` each, the cache's share of the sampled keys.
    pub(crate) fn new(capacity_bytes: u64, prices: &Prices, seed: u64) -> Duel {
        let started_on = prices.starts_on();
        let shadow = |way, salt| Shadow::new(way, capacity_bytes, seed ^ salt);
        Duel {
            shadows: [
                shadow(Way::Off, 0x51),
                shadow(Way::On, 0x7A3),
                shadow(Way::Filtered, 0x1F05),
            ],
            costs: [0.0; 3],
            current: usize::from(started_on),
            held: 0,
            hold: HOLD_PERIODS,
            requests: 0,
            period: PERIOD_MIN,
            started_on,
            hopeless: false,
            switches: 0,
        }
    }

    pub(crate) fn way(&self) -> Way {
        match self.hopeless {
            true => Way::Off,
            false => self.shadows[self.current].way(),
        }
    }

    /// Decayed cost of each way in the order off, on, filtered; ns.
    pub(crate) fn costs(&self) -> [f64; 3] {
        self.costs
    }

    pub(crate) fn switches(&self) -> u64 {
        self.switches
    }

    pub(crate) fn set_capacity(&mut self, bytes: u64) {
        self.shadows
            .iter_mut()
            .for_each(|shadow| shadow.set_capacity(bytes));
    }

    /// One access of a sampled key.
    pub(crate) fn request(&mut self, world: &World, prices: &Prices, key: u32, bytes: u32) {
        self.hopeless = world.coded_share > HOPELESS;
        for (shadow, cost) in self.shadows.iter_mut().zip(&mut self.costs) {
            let outcome = shadow.request(world, key, bytes);
            *cost += f64::from(outcome.coded) * prices.code_ns
                + match outcome.found {
                    Found::Hot => 0.0,
                    Found::Compressed => prices.decode_ns,
                    Found::Nowhere => prices.miss_ns,
                };
        }
        self.requests += 1;
        if self.requests >= self.period {
            self.judge();
        }
    }

    /// How long the next period is: `items` is what a shadow holds uncompressed.
    pub(crate) fn set_period(&mut self, items: f64, world: &World) {
        let capacities = match self.started_on {
            true => PERIOD_ON,
            false => PERIOD_OFF,
        };
        let requests = capacities * items / world.coded_share.max(0.05);
        self.period = (requests as u64).max(PERIOD_MIN);
    }

    fn judge(&mut self) {
        self.requests = 0;
        let now = self.costs[self.current];
        let takes_over =
            |&way: &usize| way != self.current && self.costs[way] < now * (1.0 - MARGIN);
        if self.held > 0 {
            self.held -= 1;
        } else {
            let rivals = (0..3).filter(takes_over);
            if let Some(best) = rivals.min_by(|&a, &b| self.costs[a].total_cmp(&self.costs[b])) {
                (self.current, self.held) = (best, self.hold);
                self.hold = (2 * self.hold).min(HOLD_PERIODS_MAX);
                self.switches += 1;
            } else {
                self.hold = (self.hold - 1).max(HOLD_PERIODS);
            }
        }
        self.costs.iter_mut().for_each(|cost| *cost *= DECAY);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const WORLD: World = World {
        hot_share: 0.05,
        coded_share: 0.4,
        promote: 1.0 / 16.0,
    };

    fn prices(code_ns: f64, decode_ns: f64, miss_ns: f64) -> Prices {
        Prices {
            code_ns,
            decode_ns,
            miss_ns,
        }
    }

    fn run(duel: &mut Duel, prices: &Prices, keys: impl Iterator<Item = u32>, world: &World) {
        duel.set_period(1000.0, world);
        keys.for_each(|key| duel.request(world, prices, key, 100));
    }

    fn skewed(count: u64, keys: f64, seed: u64) -> impl Iterator<Item = u32> {
        let mut state = seed;
        (0..count).map(move |_| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let unit = (state >> 33) as f64 / (1u64 << 31) as f64;
            (unit.powi(4) * keys) as u32
        })
    }

    #[test]
    fn it_starts_by_the_price_of_a_miss() {
        assert_eq!(Duel::new(1000, &prices(1e3, 200.0, 1e6), 1).way(), Way::On);
        assert_eq!(Duel::new(1000, &prices(1e3, 200.0, 1e4), 1).way(), Way::Off);
    }

    #[test]
    fn where_it_pays_it_goes_on_and_stays() {
        let prices = prices(1e3, 200.0, 3e4);
        let mut duel = Duel::new(100_000, &prices, 3);
        assert_eq!(duel.way(), Way::Off);
        run(&mut duel, &prices, skewed(200_000, 20_000.0, 5), &WORLD);
        assert_ne!(duel.way(), Way::Off);
        assert!(duel.switches() <= 4, "{} switches", duel.switches());
    }

    #[test]
    fn where_nothing_compresses_and_misses_are_cheap_it_goes_off() {
        let world = World {
            coded_share: 1.0,
            ..WORLD
        };
        let prices = prices(5e3, 1.5e3, 1e4);
        let mut duel = Duel::new(100_000, &prices, 3);
        duel.current = 1;
        run(&mut duel, &prices, skewed(200_000, 20_000.0, 5), &world);
        assert_eq!(duel.way(), Way::Off);
    }

    #[test]
    fn promotion_follows_the_prices_within_bounds() {
        for (code, decode, expected) in [
            (16_000.0, 500.0, 1.0 / 64.0),
            (2500.0, 500.0, 1.0 / 40.0),
            (1000.0, 900.0, 1.0 / 16.0),
        ] {
            assert_eq!(prices(code, decode, 1e6).promote(), expected);
        }
    }

    /// Two loads that want different things, in turn: it follows, and does not flutter.
    #[test]
    fn changing_loads_do_not_make_it_flutter() {
        let prices = prices(1e3, 200.0, 1e5);
        let mut duel = Duel::new(100_000, &prices, 3);
        for round in 0..10 {
            run(&mut duel, &prices, skewed(30_000, 20_000.0, round), &WORLD);
            let scan = (0..30_000).map(|n| 1_000_000 + n + 30_000 * round as u32);
            run(&mut duel, &prices, scan, &WORLD);
        }
        assert!(duel.switches() <= 20, "{} switches", duel.switches());
    }
}
