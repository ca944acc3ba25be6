//! What following the duel costs, beside each of its ways alone: for tests and the lab.
//!
//! The cache that follows is a shadow of all keys that changes its way as the duel says, without moving anything for
//! it; the duel sees a sample, as in the engine. Costs are sums of measured prices: a model, not a system.

use super::duel::{Duel, Prices};
use super::shadow::{Found, Outcome, Shadow, Way, World};

/// What the world is taken to be like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Assumed {
    /// Items of the cache, when nothing is compressed.
    pub items: u64,
    /// Coded over plain bytes.
    pub coded_share: f64,
    /// Time to code an item, to decode one, to serve a miss, nanoseconds.
    pub code_ns: f64,
    /// See `code_ns`.
    pub decode_ns: f64,
    /// See `code_ns`.
    pub miss_ns: f64,
    /// What a hit costs anyway, and a miss beside its service.
    pub base_ns: f64,
}

/// Costs of all requests, nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Scored {
    /// Nothing is compressed; everything; only what had hits.
    pub off_ns: f64,
    /// See `off_ns`.
    pub on_ns: f64,
    /// See `off_ns`.
    pub filtered_ns: f64,
    /// Following the duel.
    pub auto_ns: f64,
    /// How often the duel's verdict changed.
    pub switches: u64,
    /// Requests counted.
    pub requests: u64,
}

/// Runs requests through the four caches.
pub struct Scoring {
    assumed: Assumed,
    world: World,
    prices: Prices,
    fixed: [Shadow; 3],
    follows: Shadow,
    duel: Duel,
    sample_below: u32,
    costs: [f64; 4],
    requests: u64,
}

/// Items of a sample's shadow, as in the engine.
const SAMPLE_ITEMS: u64 = 1024;
const ITEM_BYTES: u32 = 100;

impl Scoring {
    /// Four caches of `assumed`.
    pub fn new(assumed: Assumed, seed: u64) -> Scoring {
        let prices = Prices {
            code_ns: assumed.code_ns,
            decode_ns: assumed.decode_ns,
            miss_ns: assumed.miss_ns,
        };
        let world = World {
            hot_share: 0.05,
            coded_share: assumed.coded_share,
            promote: prices.promote(),
        };
        let sampled = (assumed.items / SAMPLE_ITEMS).max(1).ilog2();
        let capacity = assumed.items * u64::from(ITEM_BYTES);
        let mut duel = Duel::new(capacity >> sampled, &prices, seed);
        duel.set_period((assumed.items >> sampled) as f64, &world);
        let fixed = [Way::Off, Way::On, Way::Filtered];
        Scoring {
            fixed: fixed.map(|way| Shadow::new(way, capacity, seed)),
            follows: Shadow::new(duel.way(), capacity, seed),
            duel,
            sample_below: u32::MAX >> sampled,
            assumed,
            world,
            prices,
            costs: [0.0; 4],
            requests: 0,
        }
    }

    /// One access of a key, by its hash.
    pub fn request(&mut self, hash: u64) {
        let key = (hash ^ hash >> 32) as u32;
        if (hash >> 32) as u32 <= self.sample_below {
            self.duel
                .request(&self.world, &self.prices, key, ITEM_BYTES);
            self.follows.set_way(self.duel.way());
        }
        let (assumed, world) = (self.assumed, self.world);
        let all = self.fixed.iter_mut().chain([&mut self.follows]);
        for (shadow, cost) in all.zip(&mut self.costs) {
            *cost += cost_of(&assumed, shadow.request(&world, key, ITEM_BYTES));
        }
        self.requests += 1;
    }

    /// What it came to.
    pub fn scored(&self) -> Scored {
        let [off_ns, on_ns, filtered_ns, auto_ns] = self.costs;
        Scored {
            off_ns,
            on_ns,
            filtered_ns,
            auto_ns,
            switches: self.duel.switches(),
            requests: self.requests,
        }
    }
}

impl Scored {
    /// The cheapest way that does not change.
    pub fn best_ns(&self) -> f64 {
        self.off_ns.min(self.on_ns).min(self.filtered_ns)
    }
}

fn cost_of(assumed: &Assumed, outcome: Outcome) -> f64 {
    let found = match outcome.found {
        Found::Hot => 0.0,
        Found::Compressed => assumed.decode_ns,
        Found::Nowhere => assumed.miss_ns,
    };
    assumed.base_ns + found + f64::from(outcome.coded) * assumed.code_ns
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn assumed(items: u64, coded_share: f64, code_ns: f64, miss_ns: f64) -> Assumed {
        Assumed {
            items,
            coded_share,
            code_ns,
            decode_ns: 200.0,
            miss_ns,
            base_ns: 300.0,
        }
    }

    fn hash(key: u64) -> u64 {
        (key + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    /// Draws with a skew, about like zipf 0.9.
    struct Draw(u64);

    impl Draw {
        fn unit(&mut self) -> f64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            (self.0 >> 33) as f64 / (1u64 << 31) as f64
        }

        fn skewed(&mut self, keys: f64) -> u64 {
            (self.unit().powi(4) * keys) as u64
        }
    }

    /// Loads of several shapes: skewed, a loop longer than fits, a hot set that moves, uniform, scans in between.
    fn loads(requests: u64, items: u64) -> Vec<(&'static str, Vec<u64>)> {
        let mut draw = Draw(11);
        let n = items;
        let skewed = (0..requests).map(|_| draw.skewed(5.0 * n as f64)).collect();
        let loops = (0..requests).map(|at| at % (6 * n)).collect();
        let moving = (0..requests)
            .map(|at| at / (4 * n) * n / 2 + draw.skewed(2.0 * n as f64))
            .collect();
        let uniform = (0..requests)
            .map(|_| (draw.unit() * 3.0 * n as f64) as u64)
            .collect();
        let scans = (0..requests)
            .map(|at| match at / (3 * n) % 2 {
                0 => draw.skewed(5.0 * n as f64),
                _ => 100 * n + at,
            })
            .collect();
        vec![
            ("skewed", skewed),
            ("loop", loops),
            ("moving", moving),
            ("uniform", uniform),
            ("scans", scans),
        ]
    }

    fn score(assumed: Assumed, keys: &[u64]) -> Scored {
        let mut scoring = Scoring::new(assumed, 5);
        keys.iter().for_each(|&key| scoring.request(hash(key)));
        scoring.scored()
    }

    /// Where coding costs at most 1 % of a miss, following the duel costs at most 1 % more than never compressing,
    /// whatever the load, even where nothing compresses; and where it compresses it gains.
    #[test]
    fn the_loss_is_bounded_and_the_gain_is_had() {
        let items = 2048;
        let (mut gains, mut seen) = (0.0, 0);
        for (name, keys) in loads(100 * items, items) {
            for (coded_share, code_ns, miss_ns) in [
                (0.4, 1e3, 1e5),
                (0.4, 3e3, 1e6),
                (1.0, 1e3, 1e5),
                (1.0, 3e3, 1e6),
            ] {
                let scored = score(assumed(items, coded_share, code_ns, miss_ns), &keys);
                let loss = scored.auto_ns / scored.off_ns - 1.0;
                assert!(loss <= 0.01, "{name}, {coded_share}, {miss_ns}: {loss:.4}");
                if coded_share < 1.0 {
                    (gains, seen) = (gains - loss, seen + 1);
                }
            }
        }
        assert!(
            gains / f64::from(seen) > 0.10,
            "mean gain {}",
            gains / f64::from(seen)
        );
    }

    /// Also where a miss is cheap and the duel has to find out, it does not flutter: at most a change in ten periods.
    #[test]
    fn it_does_not_oscillate() {
        let items = 2048;
        for (name, keys) in loads(100 * items, items) {
            for (coded_share, code_ns, miss_ns) in
                [(0.4, 2e3, 1e4), (0.9, 2e3, 2e4), (0.4, 1e3, 1e5)]
            {
                let scored = score(assumed(items, coded_share, code_ns, miss_ns), &keys);
                assert!(
                    scored.switches <= 16,
                    "{name}, {miss_ns}: {} changes",
                    scored.switches
                );
            }
        }
    }
}
