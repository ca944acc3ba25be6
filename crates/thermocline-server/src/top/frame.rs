//! What one look at a server shows, as lines of text: figures of now, and rates since the look before.

use crate::config::Listen;
use crate::wss::bytes;
use serde_json::Value;
use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Instant;

/// Looks kept for the line of hit ratios.
const RATIOS_MAX: usize = 60;
const BAR_WIDTH: usize = 40;
const STEPS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const PRESSURE: [&str; 5] = [
    "quiet",
    "demoting",
    "evicting",
    "thrashing",
    "writers refused",
];

/// The figures of one look. Counters are totals since the server's start.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    taken: Instant,
    version: String,
    uptime_s: f64,
    connections: f64,
    gets: f64,
    sets: f64,
    hits: f64,
    misses: f64,
    items: f64,
    evicted: f64,
    expired: f64,
    limit: f64,
    charged: f64,
    reserved: f64,
    live: f64,
    index: f64,
    resident: f64,
    huge_percent: f64,
    minor_faults: f64,
    major_faults: f64,
    generation: f64,
    refaults: f64,
    scanned: f64,
    probation: f64,
    main: f64,
    free: f64,
    level: String,
    stall_percent: f64,
    headroom: Option<f64>,
    given_back: f64,
    last_change: Option<(f64, f64, String)>,
    tier_pressure: usize,
    hot: f64,
    compressed: f64,
    coded_items: f64,
    coded: f64,
    plain: f64,
    demoted: f64,
    promoted: f64,
}

impl Sample {
    /// None: a figure is missing.
    pub fn of(stats: &Value, pressure: &Value, tiers: &Value) -> Option<Sample> {
        let general = |name: &str| figure(stats.get("general")?.get(name)?);
        let cache = |name: &str| figure(stats.get("cache")?.get(name)?);
        let process = |name: &str| figure(stats.get("process")?.get(name)?);
        let tier = |name: &str| figure(tiers.get(name)?);
        let last = pressure.get("seconds")?.as_array()?.last();
        let change = pressure.get("changes")?.as_array()?.last();
        Some(Sample {
            taken: Instant::now(),
            version: stats.get("general")?.get("version")?.as_str()?.to_string(),
            uptime_s: general("uptime")?,
            connections: general("curr_connections")?,
            gets: general("cmd_get")?,
            sets: general("cmd_set")?,
            hits: cache("cache_hits_total")?,
            misses: cache("cache_misses_total")?,
            items: cache("cache_items")?,
            evicted: cache("cache_evicted_total")?,
            expired: cache("cache_expired_total")?,
            limit: cache("memory_limit_bytes")?,
            charged: cache("memory_charged_bytes")?,
            reserved: cache("memory_reserved_bytes")?,
            live: cache("cache_live_bytes")?,
            index: cache("index_bytes")?,
            resident: process("resident_bytes")?,
            huge_percent: process("huge_percent")?,
            minor_faults: process("minor_faults")?,
            major_faults: process("major_faults")?,
            generation: cache("generation_youngest")?,
            refaults: cache("reclaim_workingset_refault_total")?,
            scanned: cache("reclaim_pgscan_total")?,
            probation: cache("segment_probation_count")?,
            main: cache("segment_main_count")?,
            free: cache("segment_free_count")?,
            level: pressure.get("level")?.as_str()?.to_string(),
            stall_percent: last
                .and_then(|second| figure(second.get("stall_percent")?))
                .unwrap_or(0.0),
            headroom: last.and_then(|second| figure(second.get("headroom_bytes")?)),
            given_back: figure(pressure.get("given_back_bytes")?)?,
            last_change: change.and_then(|change| {
                let of = |name: &str| figure(change.get(name)?);
                let cause = change.get("cause")?.as_str()?.to_string();
                Some((of("from_bytes")?, of("to_bytes")?, cause))
            }),
            tier_pressure: tier("tier_pressure")? as usize,
            hot: tier("tier_hot_used_bytes")?,
            compressed: tier("tier_compressed_used_bytes")?,
            coded_items: tier("tier_compressed_items")?,
            coded: tier("tier_compressed_coded_bytes")?,
            plain: tier("tier_compressed_plain_bytes")?,
            demoted: tier("tier_demoted_total")?,
            promoted: tier("tier_promoted_total")?,
        })
    }
}

/// A number, also where the page has it as text.
fn figure(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

/// What is kept from look to look.
#[derive(Default)]
pub(super) struct Frame {
    before: Option<Sample>,
    ratios: VecDeque<f64>,
}

impl Frame {
    /// The lines of a look. Without one before there are no rates: then they are means since the start.
    pub fn draw(&mut self, at: &Listen, now: &Sample) -> String {
        let rates = Rates::between(self.before.as_ref(), now);
        if let Some(ratio) = rates.hit_ratio {
            if self.ratios.len() == RATIOS_MAX {
                self.ratios.pop_front();
            }
            self.ratios.push_back(ratio);
        }
        let text = self.lines(at, now, &rates);
        self.before = Some(now.clone());
        text
    }

    /// The last look, headed by what is wrong.
    pub fn without_answer(&self, last: &str, error: &str, age_s: u64) -> String {
        let rest: Vec<&str> = last
            .lines()
            .filter(|line| !line.starts_with("!! "))
            .collect();
        format!(
            "!! {error}\n!! what follows is {age_s} s old; q quits\n{}\n",
            rest.join("\n")
        )
    }

    fn lines(&self, at: &Listen, now: &Sample, rates: &Rates) -> String {
        let mut out = String::new();
        let ratio = |ratio: Option<f64>| {
            ratio.map_or("-".to_string(), |ratio| format!("{:.2} %", ratio * 100.0))
        };
        let _ = writeln!(
            out,
            "thermocline {} at {at}, up {}, {:.0} connections          q quits",
            now.version,
            duration(now.uptime_s),
            now.connections
        );
        let _ = writeln!(
            out,
            "\nhit ratio    {:>9}  {}, {} since the start",
            ratio(rates.hit_ratio),
            rates.span,
            ratio(share(now.hits, now.hits + now.misses))
        );
        if self.ratios.len() > 1 {
            let _ = writeln!(out, "             {}", self.spark());
        }
        let _ = writeln!(
            out,
            "operations   {:>9.0}/s get {:>9.0}/s set {:>9.0}/s evicted {:>7.0}/s expired",
            rates.gets, rates.sets, rates.evicted, rates.expired
        );
        let _ = writeln!(out, "\nmemory       {}", bar(now.charged, now.limit));
        let _ = writeln!(
            out,
            "             {} of {}; resident {}, huge pages {:.0} %",
            bytes(now.charged),
            bytes(now.limit),
            bytes(now.resident),
            now.huge_percent
        );
        let _ = writeln!(
            out,
            "             items {} in {:.0}, index {}, server {}",
            bytes(now.live),
            now.items,
            bytes(now.index),
            bytes(now.reserved)
        );
        let _ = writeln!(
            out,
            "tiers        hot {}, compressed {} ({:.0} items, ratio {:.2}), {}",
            bytes(now.hot),
            bytes(now.compressed),
            now.coded_items,
            share(now.plain, now.coded).unwrap_or(1.0),
            PRESSURE.get(now.tier_pressure).copied().unwrap_or("?")
        );
        let _ = writeln!(
            out,
            "             {:.0}/s demoted, {:.0}/s promoted",
            rates.demoted, rates.promoted
        );
        let _ = writeln!(
            out,
            "generations  {:.0} so far; segments: {:.0} main, {:.0} probation, {:.0} free",
            now.generation, now.main, now.probation, now.free
        );
        let _ = writeln!(
            out,
            "faults       {:.0}/s refaults, {:.0}/s items scanned; {:.0}/s minor, {:.0}/s major page faults",
            rates.refaults, rates.scanned, rates.minor_faults, rates.major_faults
        );
        let headroom = now.headroom.map_or_else(|| "unknown".to_string(), bytes);
        let _ = writeln!(
            out,
            "pressure     {}; stalled {:.1} % of the last second; {headroom} free around us",
            now.level, now.stall_percent
        );
        let change = match &now.last_change {
            Some((from, to, cause)) => {
                format!(", last from {} to {} ({cause})", bytes(*from), bytes(*to))
            }
            None => String::new(),
        };
        let _ = writeln!(
            out,
            "             {} given back since the start{change}",
            bytes(now.given_back)
        );
        out
    }

    /// The hit ratios of the last looks, from the lowest to the highest of them.
    fn spark(&self) -> String {
        let least = self.ratios.iter().copied().fold(1.0, f64::min);
        let most = self.ratios.iter().copied().fold(0.0, f64::max);
        let span = (most - least).max(0.01);
        let step = |ratio: &f64| {
            let at = (ratio - least) / span * (STEPS.len() - 1) as f64;
            STEPS[(at.round() as usize).min(STEPS.len() - 1)]
        };
        let line: String = self.ratios.iter().map(step).collect();
        format!("{line}  {:.1} to {:.1} %", least * 100.0, most * 100.0)
    }
}

/// What happens a second.
struct Rates {
    span: String,
    hit_ratio: Option<f64>,
    gets: f64,
    sets: f64,
    evicted: f64,
    expired: f64,
    refaults: f64,
    scanned: f64,
    minor_faults: f64,
    major_faults: f64,
    demoted: f64,
    promoted: f64,
}

impl Rates {
    /// Counters that went back (another server came) count as from 0.
    fn between(before: Option<&Sample>, now: &Sample) -> Rates {
        let before = before.filter(|before| before.uptime_s <= now.uptime_s);
        let seconds = match before {
            Some(before) => now.taken.duration_since(before.taken).as_secs_f64(),
            None => now.uptime_s,
        }
        .max(0.001);
        let since = |of: fn(&Sample) -> f64| (of(now) - before.map_or(0.0, of)).max(0.0);
        let rate = |of: fn(&Sample) -> f64| since(of) / seconds;
        let (hits, misses) = (since(|s| s.hits), since(|s| s.misses));
        Rates {
            span: match before {
                Some(_) => format!("in the last {seconds:.0} s"),
                None => "so far".into(),
            },
            hit_ratio: share(hits, hits + misses),
            gets: rate(|s| s.gets),
            sets: rate(|s| s.sets),
            evicted: rate(|s| s.evicted),
            expired: rate(|s| s.expired),
            refaults: rate(|s| s.refaults),
            scanned: rate(|s| s.scanned),
            minor_faults: rate(|s| s.minor_faults),
            major_faults: rate(|s| s.major_faults),
            demoted: rate(|s| s.demoted),
            promoted: rate(|s| s.promoted),
        }
    }
}

fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

fn bar(part: f64, whole: f64) -> String {
    let share = share(part, whole).unwrap_or(0.0).clamp(0.0, 1.0);
    let full = (share * BAR_WIDTH as f64).round() as usize;
    format!(
        "[{}{}] {:.0} %",
        "#".repeat(full),
        " ".repeat(BAR_WIDTH - full),
        share * 100.0
    )
}

fn duration(seconds: f64) -> String {
    let s = seconds as u64;
    match s {
        0..=59 => format!("{s} s"),
        60..=3599 => format!("{} min", s / 60),
        3600..=86_399 => format!("{} h {} min", s / 3600, s / 60 % 60),
        _ => format!("{} d {} h", s / 86_400, s / 3600 % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(hits: f64, misses: f64, uptime_s: f64) -> Sample {
        let zero = serde_json::json!(0);
        let mut stats =
            serde_json::json!({ "general": { "version": "v" }, "cache": {}, "process": {} });
        for name in ["uptime", "curr_connections", "cmd_get", "cmd_set"] {
            stats["general"][name] = zero.clone();
        }
        for name in [
            "cache_hits_total",
            "cache_misses_total",
            "cache_items",
            "cache_evicted_total",
            "cache_expired_total",
            "memory_limit_bytes",
            "memory_charged_bytes",
            "memory_reserved_bytes",
            "cache_live_bytes",
            "index_bytes",
            "generation_youngest",
            "reclaim_workingset_refault_total",
            "reclaim_pgscan_total",
            "segment_probation_count",
            "segment_main_count",
            "segment_free_count",
        ] {
            stats["cache"][name] = zero.clone();
        }
        for name in [
            "resident_bytes",
            "huge_percent",
            "minor_faults",
            "major_faults",
        ] {
            stats["process"][name] = zero.clone();
        }
        stats["general"]["uptime"] = serde_json::json!(uptime_s);
        stats["cache"]["cache_hits_total"] = serde_json::json!(hits);
        stats["cache"]["cache_misses_total"] = serde_json::json!(misses);
        let pressure = serde_json::json!({
            "level": "calm", "seconds": [], "changes": [], "given_back_bytes": 0
        });
        let mut tiers = serde_json::json!({});
        for name in [
            "tier_pressure",
            "tier_hot_used_bytes",
            "tier_compressed_used_bytes",
            "tier_compressed_items",
            "tier_compressed_coded_bytes",
            "tier_compressed_plain_bytes",
            "tier_demoted_total",
            "tier_promoted_total",
        ] {
            tiers[name] = zero.clone();
        }
        Sample::of(&stats, &pressure, &tiers).expect("all figures are there")
    }

    #[test]
    fn ratios_are_of_the_span_and_of_the_whole() {
        let at = Listen::tcp("127.0.0.1:9191");
        let mut frame = Frame::default();
        let text = frame.draw(&at, &sample(50.0, 50.0, 10.0));
        assert!(text.contains("50.00 %  so far, 50.00 % since"), "{text}");
        let text = frame.draw(&at, &sample(140.0, 60.0, 12.0));
        assert!(
            text.contains("90.00 %") && text.contains("70.00 % since"),
            "{text}"
        );
        // Another server has taken the place: nothing goes below zero.
        let text = frame.draw(&at, &sample(1.0, 3.0, 1.0));
        assert!(text.contains("25.00 %  so far"), "{text}");
        assert!(!text.contains("-0/s") && !text.contains("/s -"), "{text}");
    }

    #[test]
    fn without_an_answer_the_last_look_stays_and_says_its_age() {
        let frame = Frame::default();
        let once = frame.without_answer("a\nb\n", "gone", 3);
        assert!(
            once.starts_with("!! gone\n") && once.contains("3 s old") && once.ends_with("a\nb\n")
        );
        let twice = frame.without_answer(&once, "gone", 4);
        assert_eq!(twice.matches("!! ").count(), 2, "{twice}");
    }

    #[test]
    fn a_page_without_a_figure_is_no_sample() {
        let empty = serde_json::json!({});
        assert!(Sample::of(&empty, &empty, &empty).is_none());
    }
}
