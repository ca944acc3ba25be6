//! `thermocline tiers`: what a running server holds hot and what compressed, with which dictionaries; and switching
//! compression, and trimming what has lain compressed for long.

use crate::admin_client;
use crate::config::Listen;
use crate::wss::bytes;
use serde_json::Value;
use std::fmt::Write;

/// What the gauge's levels mean.
const PRESSURE: [&str; 5] = [
    "quiet",
    "demoting",
    "evicting",
    "thrashing",
    "writers are refused",
];

/// Asks the server at `at` and renders its tiers; `as_json` hands the page through.
pub fn run(at: &Listen, as_json: bool) -> Result<String, String> {
    show(at, &admin_client::json(at, "/tiers")?, as_json)
}

/// Switches compression at `at` and shows what came of it.
pub fn force(at: &Listen, mode: &str, as_json: bool) -> Result<String, String> {
    let page = admin_client::post_json(at, &format!("/tiers?compress={mode}"))?;
    show(at, &page, as_json)
}

/// Evicts what has been compressed for `age_s` seconds, at most `bytes` of it.
pub fn trim(at: &Listen, age_s: u64, bytes: Option<&str>, as_json: bool) -> Result<String, String> {
    let most = bytes.map_or(String::new(), |bytes| format!("&bytes={bytes}"));
    let page = admin_client::post_json(at, &format!("/tiers/trim?age={age_s}{most}"))?;
    let number = |name: &str| page.get(name).and_then(Value::as_f64);
    match (as_json, number("segments"), number("bytes")) {
        (true, ..) => Ok(format!("{page:#}\n")),
        (false, Some(segments), Some(gone)) => Ok(format!(
            "{} in {segments:.0} segments were evicted\n",
            self::bytes(gone)
        )),
        _ => Err(format!(
            "{at}/tiers/trim: a figure is missing; is it another version?"
        )),
    }
}

fn show(at: &Listen, page: &Value, as_json: bool) -> Result<String, String> {
    match as_json {
        true => Ok(format!("{page:#}\n")),
        false => text(page)
            .ok_or_else(|| format!("{at}/tiers: a figure is missing; is it another version?")),
    }
}

fn text(page: &Value) -> Option<String> {
    let number = |name: &str| page.get(name)?.as_f64();
    let mode = page.get("mode")?.as_str()?;
    let state = match (
        number("tier_compressed_on")? > 0.0,
        page.get("filtered")?.as_bool()?,
        page.get("held_back")?.as_bool()?,
    ) {
        (true, _, true) => "on, but held back (no dictionary yet, or hardly anything compresses)",
        (true, true, _) => "on, for items with hits",
        (true, false, _) => "on",
        (false, ..) => "off",
    };
    let pressure = number("tier_pressure")?;
    let (coded, plain) = (
        number("tier_compressed_coded_bytes")?,
        number("tier_compressed_plain_bytes")?,
    );
    let micros = |name: &str| Some(number(name)? * 1e6);
    let mut out = String::new();
    let lines = [
        format!("compress {mode}, now {state}; pressure {pressure} ({})", PRESSURE.get(pressure as usize)?),
        format!(
            "hot {}, compressed {}; hot's share while compression is on: {:.0} %",
            bytes(number("tier_hot_used_bytes")?),
            bytes(number("tier_compressed_used_bytes")?),
            number("hot_share")? * 100.0
        ),
        format!(
            "{:.0} items coded: {} of values in {}, ratio {:.2}",
            number("tier_compressed_items")?,
            bytes(plain),
            bytes(coded),
            if coded > 0.0 { plain / coded } else { 1.0 }
        ),
        format!(
            "demoted {:.0}, promoted {:.0}; refused {:.0} above 7/8, {:.0} above 5/8, {:.0} not tried; damaged {:.0}",
            number("tier_demoted_total")?,
            number("tier_promoted_total")?,
            number("tier_reject_compress_poor_total")?,
            number("tier_mean_compress_poor_total")?,
            number("tier_skipped_total")?,
            number("tier_decompress_fail_total")?
        ),
        format!(
            "code {:.2} us, decode {:.2} us, a miss {:.0} us (0: not measured)",
            micros("tier_code_seconds")?,
            micros("tier_decode_seconds")?,
            micros("tier_miss_seconds")?
        ),
    ];
    lines.iter().for_each(|line| {
        out.push_str(line);
        out.push('\n');
    });
    duel(&mut out, page)?;
    dictionaries(&mut out, page.get("dictionaries")?.as_array()?)?;
    kinds(&mut out, page.get("kinds")?.as_array()?)?;
    Some(out)
}

/// The arms' scores, where there is a duel: how much dearer than the cheapest each is.
fn duel(out: &mut String, page: &Value) -> Option<()> {
    let costs = page.get("duel_costs_ns")?;
    let arms = ["off", "on", "filtered"];
    let cost = |arm: &str| costs.get(arm)?.as_f64();
    let least = arms
        .iter()
        .filter_map(|arm| cost(arm))
        .fold(f64::INFINITY, f64::min);
    if least <= 0.0 {
        return Some(());
    }
    let score = |arm: &&str| {
        Some(format!(
            "{arm} {:+.1} %",
            (cost(arm)? / least - 1.0) * 100.0
        ))
    };
    let scores: Option<Vec<String>> = arms.iter().map(score).collect();
    let switches = page.get("tier_duel_switches_total")?.as_f64()?;
    writeln!(
        out,
        "duel: cost of {}; {switches:.0} changes",
        scores?.join(", ")
    )
    .ok()
}

fn kinds(out: &mut String, list: &[Value]) -> Option<()> {
    if list.is_empty() {
        return Some(());
    }
    out.push_str("\n        kind      demoted   ratio  dictionary\n");
    for it in list {
        let number = |name: &str| it.get(name)?.as_f64();
        let prefix = it.get("prefix")?.as_str()?.escape_debug().to_string();
        let line = format!(
            "{:>12} {:>12} {:>7.2} {:>11}",
            if prefix.is_empty() { "(none)" } else { &prefix },
            bytes(number("bytes")?),
            number("ratio")?,
            number("dictionary")?,
        );
        writeln!(out, "{line}").ok()?;
    }
    Some(())
}

fn dictionaries(out: &mut String, list: &[Value]) -> Option<()> {
    out.push_str("\n  dictionary        items       values        coded   ratio     memory\n");
    for it in list {
        let number = |name: &str| it.get(name)?.as_f64();
        let (coded, plain) = (number("coded_bytes")?, number("plain_bytes")?);
        let note = match (number("id")? == 0.0, it.get("in_force")?.as_bool()?) {
            (true, _) => "  (the empty one)",
            (false, true) => "",
            (false, false) => "  (retired)",
        };
        let line = format!(
            "{:>12} {:>12} {:>12} {:>12} {:>7.2} {:>10}{note}",
            number("id")?,
            number("items")?,
            bytes(plain),
            bytes(coded),
            if coded > 0.0 { plain / coded } else { 1.0 },
            bytes(number("memory_bytes")?),
        );
        writeln!(out, "{line}").ok()?;
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline::{Cache, CompressMode, Config};

    #[test]
    fn the_page_of_a_real_cache_reads_as_a_table() {
        let mut config = Config::new(16 << 20);
        (config.compress, config.threads) = (CompressMode::On, 1);
        let cache = Cache::new(config).expect("a cache");
        for n in 0..60_000u32 {
            let value = format!("{{\"name\":\"amber {n}\",\"place\":\"fjord\"}} ").repeat(12);
            cache
                .set(format!("user:{n}").as_bytes(), value.as_bytes())
                .expect("room");
        }
        let page = crate::stats::tiers::object(&cache.tiers());
        let text = text(&page).expect("all figures are there");
        // Demotion may still be held back: a busy machine takes its time over the first dictionary.
        let begins = text.starts_with("compress on, now on");
        assert!(begins && text.contains("; pressure "), "{text}");
        assert!(
            text.contains("items coded") && text.contains("(the empty one)"),
            "{text}"
        );
    }

    #[test]
    fn a_page_of_another_version_is_no_table() {
        assert_eq!(text(&serde_json::json!({ "mode": "on" })), None);
    }
}
