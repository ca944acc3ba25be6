//! `thermocline tiers`: what a running server holds hot and what compressed, with which dictionaries.

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
    let page = admin_client::json(at, "/tiers")?;
    match as_json {
        true => Ok(format!("{page:#}\n")),
        false => text(&page)
            .ok_or_else(|| format!("{at}/tiers: a figure is missing; is it another version?")),
    }
}

fn text(page: &Value) -> Option<String> {
    let number = |name: &str| page.get(name)?.as_f64();
    let mode = page.get("mode")?.as_str()?;
    let state = match (
        number("tier_compressed_on")? > 0.0,
        page.get("filtered")?.as_bool()?,
    ) {
        (true, true) => "on, for items with hits",
        (true, false) => "on",
        (false, _) => "off",
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
            "hot {}, compressed {}",
            bytes(number("tier_hot_used_bytes")?),
            bytes(number("tier_compressed_used_bytes")?)
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
    dictionaries(&mut out, page.get("dictionaries")?.as_array()?)?;
    Some(out)
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
        assert!(text.starts_with("compress on, now on; pressure "), "{text}");
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
