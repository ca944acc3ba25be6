//! How long the slowest inserts take.
//!
//! Caches of one seed, filled one after another with the same keys by one thread, do the same work at the same insert. So
//! each insert is timed in every one of them, by the thread's CPU clock, and judged by the median of its times: what an
//! interrupt or a hypervisor adds to an insert it seldom adds to the same one twice. What single passes showed stands
//! beside it, with a fixed piece of work in turns with the inserts, timed as often in the same way: some lines of
//! memory that was touched long before, as much of it as the cache's, for a hypervisor that took a page away and has to
//! bring it back stops who touches memory, and is seen by no counter of the guest. Inserts that were
//! given a fresh page are told apart by the thread's page faults, those that restructured the index by the engine's
//! counters, over the last million. (Instructions, which no neighbour lengthens, are callgrind's: virtual machines often
//! have no hardware counters to read here.)

use super::{GrowthOptions, KEY_BYTES};
use crate::bench::row::{one, Bound, Rows};
use crate::machine::thread_cpu_ns;
use crate::workload::key_into;
use anyhow::{Context, Result};
use hdrhistogram::Histogram;
use nix::sys::resource::{getrusage, UsageWho};
use thermocline::{Cache, Config};

/// Inserts over which restructurings are told apart.
const WATCHED: u64 = 1_000_000;
/// What an insert may take at the most, ns.
const BOUND_NS: u64 = 100_000;
/// Slowest inserts kept for the report's points.
const WORST_KEPT: usize = 40;
/// Lines that a piece of fixed work reads and writes, each known only from the one before.
const FIXED_LINES: usize = 8;
/// Any will do: the caches only have to share it.
const SEED: u64 = 1;
/// Stands for the time of an insert that was given a fresh page. Longer than any other.
const FRESH_PAGE: u32 = u32::MAX;

/// Times of inserts, ns of thread CPU.
pub(super) struct Tails {
    /// Of each insert the median of its passes.
    inserts: Histogram<u64>,
    restructurings: Histogram<u64>,
    /// Every time of every pass.
    single: Histogram<u64>,
    single_restructurings: Histogram<u64>,
    fresh_pages: Histogram<u64>,
    /// The clock read twice with nothing between: what it adds to each figure.
    clock: Histogram<u64>,
    /// A fixed piece of work, done after each insert: tails that it has too are the machine's.
    fixed: Histogram<u64>,
    worst: Vec<Slow>,
    passes: u32,
    pub(super) refused: u64,
}

/// One of the slowest inserts that were given no fresh page.
#[derive(Clone, Debug, serde::Serialize)]
struct Slow {
    insert: u64,
    median_ns: u32,
    passes_ns: Vec<u32>,
}

/// One cache filled.
struct Pass {
    /// By insert; `FRESH_PAGE` or ns.
    ns: Vec<u32>,
    /// Inserts that restructured the index, ascending.
    restructured: Vec<u64>,
}

impl Tails {
    pub(super) fn measure(options: &GrowthOptions) -> Result<Tails> {
        let mut tails = Tails::new(options.passes);
        tails.time_the_clock();
        let mut passes = Vec::new();
        let mut work = FixedWork::over(options.memory);
        for number in 1..=options.passes {
            eprintln!("inserts timed, pass {number} of {}", options.passes);
            passes.push(tails.pass(options, &mut work)?);
        }
        tails.judge(&passes);
        Ok(tails)
    }

    fn new(passes: u32) -> Tails {
        let histogram =
            || Histogram::new_with_bounds(1, 10_000_000_000, 3).expect("the bounds are in order");
        Tails {
            inserts: histogram(),
            restructurings: histogram(),
            single: histogram(),
            single_restructurings: histogram(),
            fresh_pages: histogram(),
            clock: histogram(),
            fixed: histogram(),
            worst: Vec::new(),
            passes,
            refused: 0,
        }
    }

    fn time_the_clock(&mut self) {
        for _ in 0..10_000 {
            let before = thread_cpu_ns();
            self.clock.saturating_record(since(before));
        }
    }

    fn pass(&mut self, options: &GrowthOptions, work: &mut FixedWork) -> Result<Pass> {
        let mut config = Config::new(options.memory);
        config.seed = Some(SEED);
        let cache = Cache::new(config).context("cannot make the cache")?;
        let value = vec![7u8; options.value_size as usize];
        let mut key = [0u8; KEY_BYTES as usize];
        let mut pass = Pass::of(options.items);
        let watched_from = options.items.saturating_sub(WATCHED);
        let (mut faults, mut restructured) = (page_faults()?, 0);
        for id in 0..options.items {
            if id == watched_from {
                restructured = restructurings(&cache);
                faults = page_faults()?;
            }
            key_into(id, &mut key);
            let before = thread_cpu_ns();
            let stored = cache.set(&key, &value).is_ok();
            let spent = since(before);
            self.refused += u64::from(!stored);
            let now = page_faults()?;
            let fresh = now != faults;
            let times = if fresh {
                &mut self.fresh_pages
            } else {
                &mut self.single
            };
            times.saturating_record(spent);
            pass.ns[id as usize] = if fresh { FRESH_PAGE } else { in_u32(spent) };
            if id >= watched_from {
                let count = restructurings(&cache);
                if count != restructured {
                    pass.restructured.push(id);
                }
                restructured = count;
            }
            self.time(work);
            // Statistics and histograms touch pages too.
            faults = page_faults()?;
        }
        Ok(pass)
    }

    fn time(&mut self, work: &mut FixedWork) {
        let before = thread_cpu_ns();
        work.round();
        self.fixed.saturating_record(since(before));
    }

    fn judge(&mut self, passes: &[Pass]) {
        let inserts = passes.first().map_or(0, |pass| pass.ns.len());
        let mut times = vec![0; passes.len()];
        for insert in 0..inserts {
            for (time, pass) in times.iter_mut().zip(passes) {
                *time = pass.ns[insert];
            }
            let Some(median) = median(&mut times) else {
                continue;
            };
            self.inserts.saturating_record(u64::from(median));
            if self.is_slow(median) {
                let passes_ns = passes.iter().map(|pass| pass.ns[insert]).collect();
                self.keep(Slow {
                    insert: insert as u64,
                    median_ns: median,
                    passes_ns,
                });
            }
        }
        // The passes restructure at the same inserts; where a thread of the cache's came between, most do.
        let mut all: Vec<u64> = passes.iter().flat_map(|p| p.restructured.clone()).collect();
        all.sort_unstable();
        for same in all.chunk_by(|a, b| a == b) {
            for (time, pass) in times.iter_mut().zip(passes) {
                *time = pass.ns[same[0] as usize];
                if *time != FRESH_PAGE && pass.restructured.binary_search(&same[0]).is_ok() {
                    self.single_restructurings
                        .saturating_record(u64::from(*time));
                }
            }
            let median = median(&mut times);
            if let (true, Some(median)) = (same.len() * 2 > passes.len(), median) {
                self.restructurings.saturating_record(u64::from(median));
            }
        }
    }

    fn is_slow(&self, ns: u32) -> bool {
        self.worst.len() < WORST_KEPT || self.worst.last().is_some_and(|last| ns > last.median_ns)
    }

    fn keep(&mut self, slow: Slow) {
        self.worst.push(slow);
        self.worst
            .sort_by_key(|slow| std::cmp::Reverse(slow.median_ns));
        self.worst.truncate(WORST_KEPT);
    }

    pub(super) fn rows(&self, rows: &mut Rows) {
        self.rows_of_restructurings(rows);
        self.rows_of_inserts(rows);
        rows.show(
            "inserts with a fresh page, of all passes",
            one(self.fresh_pages.len() as f64),
            0,
        );
        rows.show(
            "thread CPU of one, p99, µs (fresh page)",
            us(&self.fresh_pages, 0.99),
            1,
        );
    }

    fn rows_of_restructurings(&self, rows: &mut Rows) {
        let (judged, most) = (&self.restructurings, Bound::AtMost);
        rows.show(
            "inserts that restructured the index, of the last million",
            one(judged.len() as f64),
            0,
        );
        rows.show("thread CPU of one, p50, µs", self.own(judged, 0.5), 1);
        let p99 = self.own(judged, 0.99);
        rows.add("thread CPU of one, p99, µs", p99, 1, most(6.0), most(4.0));
        let p999 = self.own(judged, 0.999);
        rows.add(
            "thread CPU of one, p99.9, µs",
            p999,
            1,
            most(50.0),
            most(30.0),
        );
        let single = &self.single_restructurings;
        rows.show("single passes, p99, µs", us(single, 0.99), 1);
        rows.show("single passes, p99.9, µs", us(single, 0.999), 1);
    }

    fn rows_of_inserts(&self, rows: &mut Rows) {
        rows.add(
            "thread CPU of any insert, fresh pages apart, worst, µs",
            self.own(&self.inserts, 1.0),
            1,
            Bound::AtMost(100.0),
            Bound::AtMost(50.0),
        );
        rows.show("the same, p99.99, µs", self.own(&self.inserts, 0.9999), 1);
        rows.show("the same, p50, µs", self.own(&self.inserts, 0.5), 2);
        let clock = us(&self.clock, 0.5);
        rows.show("the clock itself, p50, µs, not in these", clock, 2);
        for (what, times) in [
            ("single passes", &self.single),
            ("fixed work, as many rounds", &self.fixed),
        ] {
            for (name, at) in [
                ("p50", 0.5),
                ("p99.9", 0.999),
                ("p99.99", 0.9999),
                ("worst", 1.0),
            ] {
                rows.show(format!("{what}, {name}, µs"), us(times, at), 1);
            }
            let over = times.count_between(BOUND_NS + 1, u64::MAX);
            rows.show(format!("{what}, over 100 µs"), one(over as f64), 0);
        }
    }

    /// A quantile of what is judged, without what reading the clock twice takes.
    fn own(&self, times: &Histogram<u64>, quantile: f64) -> Option<crate::report::Spread> {
        let clock = self.clock.value_at_quantile(0.5);
        let own = times.value_at_quantile(quantile).saturating_sub(clock);
        (!times.is_empty())
            .then_some(own as f64 / 1e3)
            .and_then(one)
    }

    pub(super) fn json(&self) -> serde_json::Value {
        let quantiles = |histogram: &Histogram<u64>| {
            let at = |q: f64| histogram.value_at_quantile(q);
            serde_json::json!({
                "count": histogram.len(), "p50_ns": at(0.5), "p99_ns": at(0.99), "p999_ns": at(0.999),
                "p9999_ns": at(0.9999), "p99999_ns": at(0.99999), "max_ns": histogram.max(),
            })
        };
        serde_json::json!({
            "passes": self.passes, "inserts": quantiles(&self.inserts),
            "restructurings": quantiles(&self.restructurings), "single": quantiles(&self.single),
            "single_restructurings": quantiles(&self.single_restructurings),
            "fresh_pages": quantiles(&self.fresh_pages), "clock": quantiles(&self.clock),
            "fixed": quantiles(&self.fixed), "worst": self.worst,
        })
    }
}

impl Pass {
    /// Room for so many inserts, its pages touched before the first is timed.
    fn of(items: u64) -> Pass {
        Pass {
            ns: vec![FRESH_PAGE; items as usize],
            restructured: Vec::with_capacity(WATCHED.min(items) as usize),
        }
    }
}

/// The middle one of those without a fresh page, of an even number the longer of the two in the middle. None where most
/// were given one.
fn median(times: &mut [u32]) -> Option<u32> {
    times.sort_unstable();
    let own = times.partition_point(|&time| time != FRESH_PAGE);
    (own * 2 > times.len()).then(|| times[own / 2])
}

fn since(before: u64) -> u64 {
    (thread_cpu_ns() - before).max(1)
}

/// Below `FRESH_PAGE`: 4 s are as long as any.
fn in_u32(ns: u64) -> u32 {
    ns.min(u64::from(FRESH_PAGE - 1)) as u32
}

fn us(histogram: &Histogram<u64>, quantile: f64) -> Option<crate::report::Spread> {
    (!histogram.is_empty())
        .then(|| histogram.value_at_quantile(quantile) as f64 / 1e3)
        .and_then(one)
}

/// Work that is the same each time, in memory of its own.
struct FixedWork {
    words: Vec<u64>,
    at: u64,
}

impl FixedWork {
    /// Touches it all.
    fn over(bytes: u64) -> FixedWork {
        FixedWork {
            words: (0..bytes.max(64) / 8).collect(),
            at: 1,
        }
    }

    #[inline(never)]
    fn round(&mut self) {
        // The memory is at least one line long.
        let lines = (self.words.len() / 8) as u128;
        for _ in 0..FIXED_LINES {
            let mixed = self.at.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let line = (u128::from(mixed) * lines) >> 64;
            let word = &mut self.words[line as usize * 8];
            self.at = self.at.wrapping_add(*word | 1);
            *word ^= 2;
        }
    }
}

fn restructurings(cache: &Cache) -> u64 {
    let stats = cache.stats();
    stats.index_rebuilds + stats.index_splits
}

/// Page faults of this thread so far.
fn page_faults() -> Result<i64> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD).context("getrusage")?;
    Ok(usage.minor_page_faults() + usage.major_page_faults())
}

#[cfg(test)]
mod tests {
    use super::{median, FRESH_PAGE};

    #[test]
    fn a_median_leaves_fresh_pages_out() {
        let of = |times: &[u32]| median(&mut times.to_vec());
        assert_eq!(of(&[9, 7, 8, 100, 6]), Some(8));
        assert_eq!(of(&[9, FRESH_PAGE, 8, FRESH_PAGE, 100]), Some(9));
        assert_eq!(of(&[9, FRESH_PAGE, 8, 100, 7]), Some(9));
        assert_eq!(of(&[9, FRESH_PAGE, 8, FRESH_PAGE, FRESH_PAGE]), None);
    }
}
