//! What requests cost this process lately, beside each other: pure, totals in, prices out.
//!
//! A machine whose processors others use has none to spare either: those that count are what this process used and what
//! lay idle.

use super::price::{Mix, Prices};

/// Totals are halved once they are of so long: what goes on now counts most.
const HALVED_AT_NS: f64 = 2e9;
/// Fewer requests, or a shorter time, tell nothing.
const REQUESTS_FROM: f64 = 1_000.0;
const TIME_FROM_NS: f64 = 2e8;
/// A cache that codes more items than so many for each read is being filled: what processors do is not for requests.
const FILLS_FROM: f64 = 1.0;
const PAUSE_NS: u64 = 250_000_000;
/// A miss ends in an insertion, which is not timed with it.
const INSERT_NS: f64 = 1_000.0;

/// Since the start, as of now.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Totals {
    pub(crate) wall_ns: u64,
    /// Of all threads of this process; 0: not known.
    pub(crate) cpu_ns: u64,
    /// Of all processors, idle; None: not known, and all that are not used by this process count as free.
    pub(crate) idle_ns: Option<u64>,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) coded: u64,
    pub(crate) decoded: u64,
    /// Threads waited so long for room that others made.
    pub(crate) waited_ns: u64,
}

/// The same, lately.
#[derive(Clone, Copy, Default, Debug)]
struct Lately {
    wall_ns: f64,
    cpu_ns: f64,
    idle_ns: f64,
    hits: f64,
    misses: f64,
    coded: f64,
    decoded: f64,
    waited_ns: f64,
}

/// See above.
#[derive(Debug)]
pub(crate) struct Spent {
    processors: f64,
    last: Option<Totals>,
    lately: Lately,
}

impl Spent {
    /// `processors`: as many as this process may use.
    pub(crate) fn new(processors: usize) -> Spent {
        Spent {
            processors: processors as f64,
            last: None,
            lately: Lately::default(),
        }
    }

    /// Whether totals are to be had again: four times a second.
    pub(crate) fn is_due(&self, wall_ns: u64) -> bool {
        self.last
            .is_none_or(|last| wall_ns >= last.wall_ns + PAUSE_NS)
    }

    /// Takes note of the totals.
    pub(crate) fn look(&mut self, now: Totals) {
        let Some(last) = self.last.replace(now) else {
            return;
        };
        let since = |of: fn(&Totals) -> u64| of(&now).saturating_sub(of(&last)) as f64;
        let reads = since(|t| t.hits) + since(|t| t.misses);
        if since(|t| t.coded) > FILLS_FROM * reads {
            return;
        }
        let wall_ns = since(|t| t.wall_ns);
        let cpu_ns = since(|t| t.cpu_ns);
        let idle_ns = match (now.idle_ns, last.idle_ns) {
            (Some(now), Some(last)) => now.saturating_sub(last) as f64,
            _ => (wall_ns * self.processors - cpu_ns).max(0.0),
        };
        let lately = &mut self.lately;
        let grown = [
            (&mut lately.wall_ns, wall_ns),
            (&mut lately.cpu_ns, cpu_ns),
            (&mut lately.idle_ns, idle_ns),
            (&mut lately.hits, since(|t| t.hits)),
            (&mut lately.misses, since(|t| t.misses)),
            (&mut lately.coded, since(|t| t.coded)),
            (&mut lately.decoded, since(|t| t.decoded)),
            (&mut lately.waited_ns, since(|t| t.waited_ns)),
        ];
        let too_long = *grown[0].0 + grown[0].1 > HALVED_AT_NS;
        for (sum, more) in grown {
            *sum = (*sum + more) * if too_long { 0.5 } else { 1.0 };
        }
    }

    /// Of the processors' time there is for this process, the share that it uses; 1 where that is not known.
    pub(crate) fn busy(&self) -> f64 {
        let lately = &self.lately;
        if lately.wall_ns < TIME_FROM_NS || lately.cpu_ns < 1.0 {
            return 1.0;
        }
        (lately.cpu_ns / lately.wall_ns / self.free()).min(1.0)
    }

    /// Processors there are for this process: what it uses and what lies idle.
    fn free(&self) -> f64 {
        let free = (self.lately.cpu_ns + self.lately.idle_ns) / self.lately.wall_ns;
        free.clamp(0.05, self.processors)
    }

    /// These prices, with what is known of processors. `miss_cpu_ns`: 0 where it was not measured.
    pub(crate) fn price(&self, times: Prices) -> Prices {
        let lately = &self.lately;
        let requests = lately.hits + lately.misses;
        if requests < REQUESTS_FROM || lately.wall_ns < TIME_FROM_NS || lately.cpu_ns < 1.0 {
            return times;
        }
        let here = Mix {
            missed: lately.misses / requests,
            decoded: lately.decoded / requests,
            coded: lately.coded / requests,
        };
        let tier = here.decoded * times.decode_ns + here.coded * times.code_ns;
        let work = lately.cpu_ns / requests - tier - here.coded * times.move_ns;
        // A miss that nobody could time is one more request: that of storing what it brings.
        let untimed = work.max(0.0) / (1.0 + here.missed);
        let miss_cpu_ns = match times.miss_cpu_ns > 0.0 {
            true => times.miss_cpu_ns + INSERT_NS,
            false => untimed,
        };
        let request_ns = (work - here.missed * miss_cpu_ns).max(0.0);
        let waiting = request_ns + tier + here.missed * times.miss_ns;
        Prices {
            miss_cpu_ns,
            request_ns,
            under_way: (waiting * requests + lately.waited_ns) / lately.wall_ns,
            processors: self.free(),
            here,
            ..times
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const TIMES: Prices = Prices {
        code_ns: 3_000.0,
        move_ns: 2_000.0,
        decode_ns: 400.0,
        miss_ns: 100_000.0,
        miss_cpu_ns: 10_000.0,
        request_ns: 0.0,
        under_way: 0.0,
        processors: 0.0,
        here: Mix {
            missed: 0.0,
            decoded: 0.0,
            coded: 0.0,
        },
    };

    /// A second of 80,000 requests, half of them misses.
    fn second(at: u64) -> Totals {
        Totals {
            wall_ns: at * 1_000_000_000,
            cpu_ns: at * 600_000_000,
            idle_ns: None,
            hits: at * 40_000,
            misses: at * 40_000,
            coded: 0,
            decoded: 0,
            waited_ns: 0,
        }
    }

    fn seen(idle_ns: Option<u64>, miss_cpu_ns: f64) -> Prices {
        let mut spent = Spent::new(2);
        for at in 0..6 {
            spent.look(Totals {
                idle_ns: idle_ns.map(|ns| at * ns),
                ..second(at)
            });
        }
        spent.price(Prices {
            miss_cpu_ns,
            ..TIMES
        })
    }

    #[test]
    fn it_tells_a_miss_from_a_request() {
        let prices = seen(None, 10_000.0);
        assert_eq!(prices.here.missed, 0.5);
        // 7.5 us a request, of which half a miss of 11.
        assert!((prices.request_ns - 2_000.0).abs() < 1.0, "{prices:?}");
        assert!((prices.under_way - 4.16).abs() < 0.1, "{prices:?}");
        assert_eq!(prices.processors, 2.0);
        let untimed = seen(None, 0.0);
        assert!((untimed.miss_cpu_ns - 5_000.0).abs() < 1.0, "{untimed:?}");
    }

    #[test]
    fn processors_that_others_use_are_not_ours() {
        assert!((seen(Some(0), 1e4).processors - 0.6).abs() < 0.01);
        assert!((seen(Some(900_000_000), 1e4).processors - 1.5).abs() < 0.01);
        assert_eq!(seen(Some(9_000_000_000), 1e4).processors, 2.0);
    }

    /// .6 of two processors, of .6 that others leave, and of what is not known.
    #[test]
    fn how_busy_they_are_is_told() {
        let busy = |idle_ns| {
            let mut spent = Spent::new(2);
            (0..6).for_each(|at| {
                spent.look(Totals {
                    idle_ns: Some(at * idle_ns),
                    ..second(at)
                })
            });
            spent.busy()
        };
        assert!((busy(1_400_000_000) - 0.3).abs() < 0.01);
        assert!((busy(600_000_000) - 0.5).abs() < 0.01);
        assert_eq!(busy(0), 1.0);
        assert_eq!(Spent::new(2).busy(), 1.0);
    }

    #[test]
    fn too_little_tells_nothing() {
        let mut spent = Spent::new(2);
        assert_eq!(spent.price(TIMES), TIMES);
        spent.look(second(0));
        spent.look(Totals {
            hits: 10,
            misses: 10,
            ..second(1)
        });
        assert_eq!(spent.price(TIMES), TIMES);
    }

    /// What goes on while a cache is filled is no price of requests.
    #[test]
    fn a_cache_that_is_filled_tells_nothing() {
        let mut spent = Spent::new(2);
        for at in 0..6 {
            spent.look(Totals {
                coded: at * 200_000,
                ..second(at)
            });
        }
        assert_eq!(spent.price(TIMES), TIMES);
    }
}
