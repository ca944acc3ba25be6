//! What following the duel costs, beside each of its ways alone: for tests and the lab.
//!
//! The cache that follows is a shadow of all keys that changes its way as the duel says, without moving anything for
//! it; the duel sees a sample, as in the engine. Costs are sums of measured prices: a model, not a system.

use super::duel::{Access, Duel};
use super::price::{Mix, Prices};
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
    /// Who is waited for; None: for the time of things alone.
    pub crowd: Option<Crowd>,
}

/// Many requests at a time, and few processors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Crowd {
    /// Requests under way at a time.
    pub under_way: f64,
    /// Processors for them.
    pub processors: f64,
    /// What of a miss is their work, nanoseconds.
    pub miss_cpu_ns: f64,
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
    world: World,
    prices: Prices,
    fixed: [Shadow; 3],
    follows: Shadow,
    duel: Duel,
    sample_below: u32,
    window: Window,
    costs: [f64; 4],
    requests: u64,
}

/// What became of the latest requests in each cache.
#[derive(Clone, Copy, Default)]
struct Window {
    mixes: [Mix; 4],
    requests: f64,
}

/// Items of a sample's shadow, as in the engine.
const SAMPLE_ITEMS: u64 = 1024;
const ITEM_BYTES: u32 = 100;
/// Requests over which costs are reckoned.
const WINDOW: f64 = 1000.0;

impl Scoring {
    /// Four caches of `assumed`.
    pub fn new(assumed: Assumed, seed: u64) -> Scoring {
        let prices = prices_of(&assumed);
        let world = world_of(&assumed, &prices);
        let sampled = (assumed.items / SAMPLE_ITEMS).max(1).ilog2();
        let capacity = assumed.items * u64::from(ITEM_BYTES);
        let mut duel = Duel::new(capacity >> sampled, Way::Off, seed);
        duel.set_period((assumed.items >> sampled) as f64);
        let fixed = [Way::Off, Way::On, Way::Filtered];
        Scoring {
            fixed: fixed.map(|way| Shadow::new(way, capacity, seed)),
            follows: Shadow::new(duel.way(), capacity, seed),
            duel,
            sample_below: u32::MAX >> sampled,
            world,
            prices,
            window: Window::default(),
            costs: [0.0; 4],
            requests: 0,
        }
    }

    /// From now on the world is like this; the caches keep their size.
    pub fn assume(&mut self, assumed: Assumed) {
        self.close_window();
        let here = self.prices.here;
        self.prices = Prices {
            here,
            ..prices_of(&assumed)
        };
        self.world = world_of(&assumed, &self.prices);
    }

    /// One access of a key, by its hash.
    pub fn request(&mut self, hash: u64) {
        let key = (hash ^ hash >> 32) as u32;
        if (hash >> 32) as u32 <= self.sample_below {
            let access = Access {
                key,
                bytes: ITEM_BYTES,
                counts: true,
                found: false,
            };
            self.duel.request(&self.world, &self.prices, access);
            self.follows.set_way(self.duel.way());
        }
        let world = self.world;
        let all = self.fixed.iter_mut().chain([&mut self.follows]);
        for (shadow, mix) in all.zip(&mut self.window.mixes) {
            book(mix, shadow.request(&world, key, ITEM_BYTES));
        }
        self.requests += 1;
        self.window.requests += 1.0;
        if self.window.requests >= WINDOW {
            self.close_window();
        }
    }

    /// What it came to.
    pub fn scored(&mut self) -> Scored {
        self.close_window();
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

    fn close_window(&mut self) {
        let Window { mixes, requests } = std::mem::take(&mut self.window);
        if requests == 0.0 {
            return;
        }
        let each = mixes.map(|mix| Mix {
            missed: mix.missed / requests,
            decoded: mix.decoded / requests,
            coded: mix.coded / requests,
        });
        for (cost, mix) in self.costs.iter_mut().zip(&each) {
            *cost += requests * self.prices.cost_ns(mix);
        }
        self.prices.here = each[3];
    }
}

impl Scored {
    /// The cheapest way that does not change.
    pub fn best_ns(&self) -> f64 {
        self.off_ns.min(self.on_ns).min(self.filtered_ns)
    }
}

fn prices_of(assumed: &Assumed) -> Prices {
    let times = Prices {
        request_ns: assumed.base_ns,
        ..Prices::of_times(assumed.code_ns, assumed.decode_ns, assumed.miss_ns)
    };
    match assumed.crowd {
        None => times,
        Some(crowd) => Prices {
            under_way: crowd.under_way,
            processors: crowd.processors,
            miss_cpu_ns: crowd.miss_cpu_ns,
            ..times
        },
    }
}

fn world_of(assumed: &Assumed, prices: &Prices) -> World {
    World {
        hot_share: 0.05,
        coded_share: assumed.coded_share,
        promote: prices.promote(),
    }
}

fn book(mix: &mut Mix, outcome: Outcome) {
    mix.coded += f64::from(outcome.coded + outcome.once);
    match outcome.found {
        Found::Hot => {}
        Found::Compressed => mix.decoded += 1.0,
        Found::Nowhere => mix.missed += 1.0,
    }
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
            crowd: None,
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

    /// Busy processors: a miss of 100 us costs them 12, coding an item 4; two to sixty-four requests share each.
    fn crowded(items: u64, under_way: f64) -> Assumed {
        Assumed {
            base_ns: 1_000.0,
            crowd: Some(Crowd {
                under_way,
                processors: 2.0,
                miss_cpu_ns: 12_000.0,
            }),
            ..assumed(items, 0.4, 4e3, 1e5)
        }
    }

    /// Memory for a twentieth, a tenth, three tenths and eight tenths of the data, uniform and skewed, few and many requests
    /// at a time: what coding costs busy processors is not paid where it brings nothing, and what it brings is had.
    #[test]
    fn busy_processors_are_not_kept_busier_for_nothing() {
        let items = 2048;
        let mut draw = Draw(3);
        let (mut off, mut on, mut auto, mut seen) = (0.0, 0.0, 0.0, 0.0);
        for share in [0.05, 0.1, 0.3, 0.8] {
            let (keys, requests) = (items as f64 / share, 100 * items);
            let loads: [Vec<u64>; 2] = [
                (0..requests).map(|_| (draw.unit() * keys) as u64).collect(),
                (0..requests).map(|_| draw.skewed(keys)).collect(),
            ];
            for (load, under_way) in loads.iter().flat_map(|l| [(l, 2.0), (l, 8.0), (l, 128.0)]) {
                let scored = score(crowded(items, under_way), load);
                let loss = scored.auto_ns / scored.off_ns - 1.0;
                assert!(loss <= 0.015, "{share}, {under_way}: {loss:.4}, {scored:?}");
                assert!(scored.switches <= 4, "{share}, {under_way}: {scored:?}");
                off += scored.off_ns / scored.best_ns();
                on += scored.on_ns / scored.best_ns();
                auto += scored.auto_ns / scored.best_ns();
                seen += 1.0;
            }
        }
        assert!(off / seen > 1.10 && on / seen > 1.05, "no contest");
        assert!(auto / seen < 1.03, "{} beside the best", auto / seen);
    }

    /// Misses become a hundred times cheaper in the middle, and dear again: it follows.
    #[test]
    fn a_price_that_changes_is_followed() {
        let items = 2048;
        let (dear, cheap) = (assumed(items, 0.4, 3e3, 1e6), assumed(items, 0.4, 3e3, 4e3));
        let mut draw = Draw(5);
        let mut scoring = Scoring::new(dear, 5);
        let mut ways = Vec::new();
        for world in [dear, cheap, dear] {
            scoring.assume(world);
            for _ in 0..60 * items {
                scoring.request(hash((draw.unit() * 5.0 * items as f64) as u64));
            }
            ways.push(scoring.duel.way());
        }
        assert_ne!(ways[0], Way::Off);
        assert_ne!(ways[1], Way::On, "coding all costs as much as it saves");
        assert_ne!(ways[2], Way::Off);
        assert!(scoring.scored().switches <= 6);
    }
}
