//! Whether to compress: three ways run in miniature on sampled keys, and the cheapest leads.
//!
//! ```text
//! start: as it was asked for before; a new cache: off, for what lies coded when it goes off is lost, and read again
//! each period: what became of each way's requests, the older the less, at the prices of now; a way that is cheaper by 2 %
//!              (off: by nothing), and by more than chance may have made of it, takes over and holds for 4 periods,
//!              twice as many each time it changes again soon (at most 64)
//! ```
//! Off knows nothing coded: for as long as it leads the others count what it takes to code what it holds, spread over
//! so many requests as 32 caches hold items. Filtered comes after off only where it is cheaper by a tenth.
//! Where what is demoted does not shrink by a tenth, off leads whatever the costs. A way whose shadow is not full yet is
//! not left: it has not shown what it can keep.
//! Pure: requests and measured prices in, a way out.

use super::price::{Mix, Prices};
use super::shadow::{Found, Shadow, Way, World};

/// What a period's counts are of the counts a period later.
const DECAY: f64 = 0.98;
const MARGIN: f64 = 0.02;
/// Of filtered after off: what it keeps comes to lie coded hit by hit, and meanwhile hot has shrunk.
const MARGIN_FILTERED: f64 = 0.10;
/// Of a cost so much may be chance, over the square root of the misses it was reckoned from. (That two ways are asked the
/// same, so that only what one found and the other missed is chance, does not hold where nothing has come back yet.)
const CHANCE: f64 = 1.5;
/// Coded over plain bytes from which there is nothing to gain: not worth a front of 5 % and one reference bit.
const HOPELESS: f64 = 0.9;
const HOLD_PERIODS: u32 = 4;
const HOLD_PERIODS_MAX: u32 = 64;
/// Least requests of a period.
const PERIOD_MIN: u64 = 128;
/// Capacities' worth of requests in a period.
const PERIOD: f64 = 0.25;
/// What is coded once, when off gives way, is spread over so many capacities' worth of requests.
const SPREAD: f64 = 32.0;
/// A shadow that is not full after so many periods never will be.
const FILLS_PERIODS: u64 = 64;

/// An access of a sampled key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Access {
    pub(crate) key: u32,
    pub(crate) bytes: u32,
    /// Whether anybody waits for the value: not while a cache is filled, nor where it is written over.
    pub(crate) counts: bool,
    /// The cache had it. Where no shadow has, they are younger than what it holds, and it tells nothing.
    pub(crate) found: bool,
}

/// What became of the requests, the older the less.
#[derive(Clone, Copy, Default, Debug)]
struct Counted {
    missed: f64,
    decoded: f64,
    coded: f64,
}

pub(crate) struct Duel {
    shadows: [Shadow; 3],
    counted: [Counted; 3],
    /// Requests counted so, and since the last period.
    weight: f64,
    /// Requests there were for each counted.
    correction: f64,
    requests: u64,
    costs: [f64; 3],
    current: usize,
    held: u32,
    /// How long the next to take over will hold.
    hold: u32,
    period: u64,
    periods: u64,
    /// Shadows that were full when last looked at.
    full: usize,
    hopeless: bool,
    switches: u64,
}

impl Duel {
    /// Shadows of `capacity_bytes` each, the cache's share of the sampled keys. `begins`: what leads until there is something to
    /// judge by.
    pub(crate) fn new(capacity_bytes: u64, begins: Way, seed: u64) -> Duel {
        let shadow = |way, salt| Shadow::new(way, capacity_bytes, seed ^ salt);
        Duel {
            shadows: [
                shadow(Way::Off, 0x51),
                shadow(Way::On, 0x7A3),
                shadow(Way::Filtered, 0x1F05),
            ],
            counted: [Counted::default(); 3],
            weight: 0.0,
            correction: 1.0,
            requests: 0,
            costs: [0.0; 3],
            current: begins as usize,
            held: 0,
            hold: HOLD_PERIODS,
            period: PERIOD_MIN,
            periods: 0,
            full: 0,
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

    /// Whether it is off because hardly anything shrinks.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.hopeless
    }

    /// What a request costs each way, in the order off, on, filtered; ns, 0 before the first period.
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

    /// The sample's requests are so many too few, or too many where this is less than 1: its hottest keys are asked for as
    /// none of the others are.
    pub(crate) fn set_correction(&mut self, correction: f64) {
        self.correction = correction.clamp(0.05, 20.0);
    }

    /// Other keys than before are sampled: what was counted is of shadows that do not know them.
    pub(crate) fn sampled_anew(&mut self) {
        self.shadows.iter_mut().for_each(Shadow::is_to_fill);
        (self.full, self.periods, self.requests) = (0, 0, 0);
        self.forget();
    }

    fn forget(&mut self) {
        (self.counted, self.weight) = ([Counted::default(); 3], 0.0);
    }

    /// Bytes of memory its shadows take.
    pub(crate) fn memory_bytes(&self) -> u64 {
        self.shadows.iter().map(Shadow::memory_bytes).sum()
    }

    /// How long the next period is: `items` is what a shadow holds uncompressed.
    pub(crate) fn set_period(&mut self, items: f64) {
        self.period = ((PERIOD * items) as u64).max(PERIOD_MIN);
    }

    /// One access.
    pub(crate) fn request(&mut self, world: &World, prices: &Prices, access: Access) {
        self.hopeless = world.coded_share > HOPELESS;
        let outcomes = self
            .shadows
            .each_mut()
            .map(|shadow| shadow.request(world, access.key, access.bytes));
        let is_known = outcomes.iter().any(|it| it.found != Found::Nowhere);
        let counts = access.counts && (is_known || !access.found);
        let weight = f64::from(u8::from(counts));
        for (outcome, counted) in outcomes.iter().zip(&mut self.counted) {
            counted.coded += weight * f64::from(outcome.coded);
            match outcome.found {
                Found::Hot => {}
                Found::Compressed => counted.decoded += weight,
                Found::Nowhere => counted.missed += weight,
            }
        }
        self.weight += weight;
        self.requests += 1;
        if self.requests >= self.period {
            self.requests = 0;
            self.end_period(prices);
        }
    }

    fn end_period(&mut self, prices: &Prices) {
        self.periods += 1;
        let full = self.shadows.iter().filter(|shadow| shadow.is_full());
        if std::mem::replace(&mut self.full, full.clone().count()) < full.count() {
            // What came before was of shadows that were being filled.
            self.forget();
            return;
        }
        self.judge(prices);
        for counted in &mut self.counted {
            counted.missed *= DECAY;
            counted.decoded *= DECAY;
            counted.coded *= DECAY;
        }
        self.weight *= DECAY;
    }

    fn judge(&mut self, prices: &Prices) {
        let costs = |once: f64| {
            let weight = (self.weight * self.correction).max(1.0);
            self.counted.map(|counted| {
                prices.cost_ns(&Mix {
                    missed: counted.missed / weight,
                    decoded: counted.decoded / weight,
                    coded: counted.coded / weight + once,
                })
            })
        };
        self.costs = costs(0.0);
        let from_off = costs(1.0 / SPREAD);
        if self.held > 0 {
            self.held -= 1;
            return;
        }
        if !self.is_judged() {
            return;
        }
        match self.cheapest_rival(from_off) {
            Some(best) => {
                (self.current, self.held) = (best, self.hold);
                self.hold = (2 * self.hold).min(HOLD_PERIODS_MAX);
                self.switches += 1;
            }
            None => self.hold = (self.hold - 1).max(HOLD_PERIODS),
        }
    }

    /// Whether the way that leads has shown what it can keep.
    pub(crate) fn is_judged(&self) -> bool {
        self.shadows[self.current].is_full() || self.periods > FILLS_PERIODS
    }

    /// `from_off`: what a request costs where what off holds has to be coded first.
    fn cheapest_rival(&self, from_off: [f64; 3]) -> Option<usize> {
        let is_off = |way: usize| self.shadows[way].way() == Way::Off;
        let is_filtered = |way: usize| self.shadows[way].way() == Way::Filtered;
        let now = self.costs[self.current];
        let then = |way: usize| match is_off(self.current) && !is_off(way) {
            true => from_off[way],
            false => self.costs[way],
        };
        let chance = CHANCE / self.counted[self.current].missed.max(1.0).sqrt();
        let takes_over = |&way: &usize| {
            let margin = match is_off(way) {
                true => chance,
                false if is_off(self.current) && is_filtered(way) => MARGIN_FILTERED + chance,
                false => MARGIN + chance,
            };
            way != self.current && then(way) < now * (1.0 - margin)
        };
        // Off costs nothing that would have to be measured: what is hardly cheaper does not come before it.
        let weighed = |way: usize| match is_off(way) {
            true => self.costs[way] * (1.0 - MARGIN),
            false => self.costs[way],
        };
        let rivals = (0..3).filter(takes_over);
        rivals.min_by(|&a, &b| weighed(a).total_cmp(&weighed(b)))
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
        Prices::of_times(code_ns, decode_ns, miss_ns)
    }

    fn access(key: u32, counts: bool) -> Access {
        Access {
            key,
            bytes: 100,
            counts,
            found: false,
        }
    }

    fn run(duel: &mut Duel, prices: &Prices, keys: impl Iterator<Item = u32>, world: &World) {
        duel.set_period(1000.0);
        keys.for_each(|key| duel.request(world, prices, access(key, true)));
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
    fn where_it_pays_it_goes_on_and_stays() {
        let prices = prices(1e3, 200.0, 3e4);
        let mut duel = Duel::new(100_000, Way::Off, 3);
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
        let mut duel = Duel::new(100_000, Way::Off, 3);
        duel.current = 1;
        run(&mut duel, &prices, skewed(200_000, 20_000.0, 5), &world);
        assert_eq!(duel.way(), Way::Off);
    }

    /// Filling a cache is no evidence against coding, though all that is stored is new.
    #[test]
    fn what_nobody_asked_for_does_not_count() {
        let prices = prices(1e4, 200.0, 3e4);
        let mut duel = Duel::new(100_000, Way::Off, 3);
        (duel.current, duel.switches) = (1, 1);
        duel.set_period(1000.0);
        (0..200_000).for_each(|key| duel.request(&WORLD, &prices, access(key, false)));
        assert_eq!((duel.way(), duel.switches()), (Way::On, 1));
        (0..200_000).for_each(|key| duel.request(&WORLD, &prices, access(key, true)));
        assert_eq!(duel.way(), Way::Off);
    }

    /// Two loads that want different things, in turn: it follows, and does not flutter.
    #[test]
    fn changing_loads_do_not_make_it_flutter() {
        let prices = prices(1e3, 200.0, 1e5);
        let mut duel = Duel::new(100_000, Way::Off, 3);
        for round in 0..10 {
            run(&mut duel, &prices, skewed(30_000, 20_000.0, round), &WORLD);
            let scan = (0..30_000).map(|n| 1_000_000 + n + 30_000 * round as u32);
            run(&mut duel, &prices, scan, &WORLD);
        }
        assert!(duel.switches() <= 20, "{} switches", duel.switches());
    }
}
