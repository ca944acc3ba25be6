//! What a request costs: pure, from measured times, and from what it is that requests wait for.
//!
//! A cache is slowed down by what is scarcest. Where processors are idle that is waiting: a miss costs its time. Where they
//! are busy it is their time: a miss costs what processors do for it, which may be a tenth of its time, and coding costs all
//! it takes. And one thread at a time codes: however many processors there are, its time is shared by all who need room.
//! ```text
//! waiting  a request's time                       W
//! work     its processor time  x under way / processors     each in time a request is held up by it,
//! lane     its coding time     x under way                  if that alone were short
//! cost     (waiting^3 + work^3 + lane^3) ^ 1/3    about the largest; where two are near each other both count
//! ```
//! So what would become scarce if all were coded is counted before it is, and a cache whose processors have time because it
//! does not compress does not begin to for that alone.

/// A promotion takes as long as coding so many items: what is promoted and what leaves hot for it are moved, coded and
/// moved again, and the plain copy leaves less room for others. (Decode over code time alone came to one hit in four where
/// the fast search codes, and cost a quarter of the throughput of a busy cache.)
const PROMOTION_CODES: f64 = 8.0;
/// The rarest.
pub(crate) const PROMOTE_MIN: f64 = 1.0 / 64.0;

/// What is taken for `Prices::move_ns` until it is measured, and at the least: what is measured is the way down alone, not
/// that the item is evicted from another tier later, nor what the threads' meeting at the lanes costs.
pub(crate) const MOVE_NS: f64 = 2_000.0;

/// What a request comes to in the mean.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Mix {
    pub(crate) missed: f64,
    pub(crate) decoded: f64,
    /// Items coded for it.
    pub(crate) coded: f64,
}

/// What things cost, nanoseconds.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Prices {
    pub(crate) code_ns: f64,
    /// What belongs to an item that goes down beside its coding: it is looked at, copied, published anew and evicted once more.
    pub(crate) move_ns: f64,
    pub(crate) decode_ns: f64,
    /// From a miss to its value's arrival.
    pub(crate) miss_ns: f64,
    /// Of that, time of this process's processors.
    pub(crate) miss_cpu_ns: f64,
    /// A request beside all that.
    pub(crate) request_ns: f64,
    /// Requests under way at a time, those that wait included.
    pub(crate) under_way: f64,
    /// Processors there are for them; 0: not known, and waiting alone counts.
    pub(crate) processors: f64,
    /// What requests come to now.
    pub(crate) here: Mix,
}

impl Prices {
    /// Where nothing is known of processors: waiting alone counts.
    #[cfg(any(test, feature = "simulate"))]
    pub(crate) fn of_times(code_ns: f64, decode_ns: f64, miss_ns: f64) -> Prices {
        Prices {
            code_ns,
            move_ns: MOVE_NS,
            decode_ns,
            miss_ns,
            ..Prices::default()
        }
    }

    /// The chance that a compressed hit promotes: what it takes to decode beside what a promotion takes.
    pub(crate) fn promote(&self) -> f64 {
        let promotion_ns = (PROMOTION_CODES * self.code_ns).max(1.0);
        (self.decode_ns / promotion_ns).clamp(PROMOTE_MIN, 1.0 / 16.0)
    }

    /// Requests of this mix, each.
    pub(crate) fn cost_ns(&self, mix: &Mix) -> f64 {
        let cubes = self.parts(mix).map(|part| part * part * part);
        cubes.iter().sum::<f64>().cbrt()
    }

    /// The time of coding that one miss less is worth, as things are.
    pub(crate) fn miss_worth_ns(&self) -> f64 {
        let [waiting, work, lane] = self.parts(&self.here).map(|part| part * part);
        let (share, lanes) = self.shares();
        let coding = waiting + work * share + lane * lanes;
        match coding > 0.0 {
            true => (waiting * self.miss_ns + work * share * self.miss_cpu_ns) / coding,
            false => self.miss_ns,
        }
    }

    /// Waiting, work and lane.
    fn parts(&self, mix: &Mix) -> [f64; 3] {
        let coding = mix.coded * self.code_ns;
        let moving = mix.coded * self.move_ns;
        let anyway = self.request_ns + mix.decoded * self.decode_ns + coding;
        let (share, lanes) = self.shares();
        [
            anyway + mix.missed * self.miss_ns,
            (anyway + moving + mix.missed * self.miss_cpu_ns) * share,
            (coding + moving) * lanes,
        ]
    }

    /// Requests that share a processor, and that share the one that codes.
    fn shares(&self) -> (f64, f64) {
        match self.processors > 0.0 {
            true => (self.under_way / self.processors, self.under_way),
            false => (0.0, 0.0),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    /// Eight threads on two processors, a miss of 100 us of which a tenth is work.
    fn busy(here: Mix) -> Prices {
        Prices {
            miss_cpu_ns: 10_000.0,
            request_ns: 1_000.0,
            under_way: 8.0,
            processors: 2.0,
            here,
            ..Prices::of_times(4_000.0, 300.0, 100_000.0)
        }
    }

    fn mix(missed: f64, coded: f64) -> Mix {
        Mix {
            missed,
            coded,
            decoded: 0.0,
        }
    }

    #[test]
    fn without_processors_waiting_counts_alone() {
        let prices = Prices::of_times(1e3, 200.0, 1e5);
        let cost = prices.cost_ns(&mix(0.5, 0.5));
        assert!((cost - (0.5e5 + 0.5e3)).abs() < 1.0, "{cost}");
        assert_eq!(prices.miss_worth_ns(), 1e5);
    }

    /// Nearly all misses, few of which coding saves: waiting says it costs nothing, processors say it does.
    #[test]
    fn where_processors_are_short_their_time_counts() {
        let (off, on) = (mix(0.95, 0.0), mix(0.92, 0.92));
        let idle = Prices {
            under_way: 1.0,
            ..busy(off)
        };
        let by_waiting = idle.cost_ns(&on) / idle.cost_ns(&off);
        assert!(by_waiting < 1.02, "{by_waiting}");
        let short = Prices {
            under_way: 40.0,
            ..busy(off)
        };
        let by_work = short.cost_ns(&on) / short.cost_ns(&off);
        assert!(by_work > 1.2, "{by_work}");
        assert!(short.miss_worth_ns() < 30_000.0 && idle.miss_worth_ns() > 90_000.0);
    }

    /// What would be short only if all were coded is seen before it is.
    #[test]
    fn a_lane_that_would_fill_up_counts_beforehand() {
        let prices = Prices {
            processors: 64.0,
            under_way: 64.0,
            ..busy(mix(0.5, 0.0))
        };
        let (off, on) = (mix(0.5, 0.0), mix(0.45, 0.5));
        assert!(prices.cost_ns(&on) > 2.0 * prices.cost_ns(&off));
    }

    #[test]
    fn promotion_follows_the_prices_within_bounds() {
        for (code, decode, expected) in [
            (16_000.0, 500.0, 1.0 / 64.0),
            (2500.0, 500.0, 1.0 / 40.0),
            (1000.0, 900.0, 1.0 / 16.0),
        ] {
            assert_eq!(Prices::of_times(code, decode, 1e6).promote(), expected);
        }
    }
}
