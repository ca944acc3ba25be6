//! The engine's tiers as rows: for `/metrics`, `/tiers` and `stats tiers`.

use serde_json::{json, Map, Value};
use thermocline::{CompressMode, DictionaryUse, KindUse, Tiers};

/// One figure. `name` is that of the metric, without the program's.
pub struct Row {
    pub name: &'static str,
    /// A counter, not a gauge.
    pub counts: bool,
    pub help: &'static str,
    pub value: f64,
}

/// The mode as it is written in the configuration.
pub fn mode_name(mode: CompressMode) -> &'static str {
    match mode {
        CompressMode::Auto => "auto",
        CompressMode::On => "on",
        CompressMode::Off => "off",
    }
}

/// All figures but those of single dictionaries.
pub fn rows(tiers: &Tiers) -> Vec<Row> {
    let gauge = |name, help, value: f64| Row {
        name,
        counts: false,
        help,
        value,
    };
    let count = |name, help, value: u64| Row {
        name,
        counts: true,
        help,
        value: value as f64,
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    vec![
        gauge(
            "tier_pressure",
            "0 quiet, 1 demoting, 2 evicting, 3 thrashing, 4 writers refused.",
            f64::from(tiers.pressure),
        ),
        gauge(
            "tier_compressed_on",
            "Whether what hot evicts is compressed now.",
            f64::from(u8::from(tiers.on)),
        ),
        gauge(
            "tier_hot_used_bytes",
            "Bytes in segments of the hot tier.",
            tiers.hot_used_bytes as f64,
        ),
        gauge(
            "tier_compressed_used_bytes",
            "Bytes in segments of the compressed tier.",
            tiers.compressed_used_bytes as f64,
        ),
        gauge(
            "tier_compressed_items",
            "Live items whose values are coded.",
            tiers.coded_items as f64,
        ),
        gauge(
            "tier_compressed_coded_bytes",
            "Their coded bytes.",
            tiers.coded_bytes as f64,
        ),
        gauge(
            "tier_compressed_plain_bytes",
            "What those were before.",
            tiers.plain_bytes as f64,
        ),
        count(
            "tier_demoted_total",
            "Items that went a tier down.",
            tiers.demoted,
        ),
        count(
            "tier_promoted_total",
            "Items that came back to the hot tier.",
            tiers.promoted,
        ),
        count("tier_coded_total", "Values coded.", tiers.coded),
        count(
            "tier_coded_zstd_total",
            "Values coded by zstd.",
            tiers.coded_zstd,
        ),
        count(
            "tier_same_filled_total",
            "Values of one repeated byte.",
            tiers.same_filled,
        ),
        count(
            "tier_pool_limit_hit_total",
            "Segments drained because the compressed tier was full.",
            tiers.pool_limit_hit,
        ),
        count(
            "tier_reject_compress_poor_total",
            "Values refused above 7/8 of their bytes.",
            tiers.reject_compress_poor,
        ),
        count(
            "tier_mean_compress_poor_total",
            "Values refused above 5/8 while the mean was.",
            tiers.mean_compress_poor,
        ),
        count(
            "tier_skipped_total",
            "Values not tried: too short, or of a kind that does not compress.",
            tiers.skipped,
        ),
        count(
            "tier_decoded_total",
            "Values decoded for readers.",
            tiers.decoded,
        ),
        count(
            "tier_decompress_fail_total",
            "Damaged values dropped.",
            tiers.decompress_fail,
        ),
        count(
            "tier_dictionaries_trained_total",
            "Dictionaries put in force.",
            tiers.trained,
        ),
        count(
            "tier_early_warnings_total",
            "First demotions after a quiet minute.",
            tiers.warned,
        ),
        count(
            "tier_duel_switches_total",
            "Changes of the duel's verdict.",
            tiers.duel_switches,
        ),
        gauge(
            "tier_code_seconds",
            "Mean time to code an item.",
            seconds(tiers.code_ns),
        ),
        gauge(
            "tier_decode_seconds",
            "Mean time to decode an item.",
            seconds(tiers.decode_ns),
        ),
        gauge(
            "tier_miss_seconds",
            "Mean time to serve a miss; 0 until it is measured.",
            seconds(tiers.miss_ns),
        ),
    ]
}

/// The same for `stats tiers`: the mode, then each figure, counters without `_total`.
pub fn lines(tiers: &Tiers) -> super::Lines {
    let figures = rows(tiers).into_iter().map(|row| {
        let name = row.name.strip_suffix("_total").unwrap_or(row.name);
        (name.to_string(), super::json_number(row.value).to_string())
    });
    let mode = ("tier_mode".to_string(), mode_name(tiers.mode).to_string());
    std::iter::once(mode).chain(figures).collect()
}

/// Everything, dictionaries too.
pub fn object(tiers: &Tiers) -> Value {
    let mut map: Map<String, Value> = rows(tiers)
        .into_iter()
        .map(|row| (row.name.to_string(), super::json_number(row.value)))
        .collect();
    map.insert("mode".into(), json!(mode_name(tiers.mode)));
    map.insert("filtered".into(), json!(tiers.filtered));
    map.insert("held_back".into(), json!(tiers.held_back));
    map.insert("hot_share".into(), json!(tiers.hot_share));
    map.insert("miss_cpu_ns".into(), json!(tiers.miss_cpu_ns));
    map.insert("miss_worth_ns".into(), json!(tiers.miss_worth_ns));
    let [off, on, filtered] = tiers.duel_costs_ns;
    map.insert(
        "duel_costs_ns".into(),
        json!({ "off": off, "on": on, "filtered": filtered }),
    );
    let dictionaries: Vec<Value> = tiers.dictionaries.iter().map(dictionary).collect();
    map.insert("dictionaries".into(), json!(dictionaries));
    let kinds: Vec<Value> = tiers.kinds.iter().map(kind).collect();
    map.insert("kinds".into(), json!(kinds));
    Value::Object(map)
}

fn kind(it: &KindUse) -> Value {
    json!({
        "prefix": it.prefix,
        "bytes": it.bytes,
        "ratio": it.ratio,
        "dictionary": it.dictionary,
    })
}

fn dictionary(it: &DictionaryUse) -> Value {
    json!({
        "id": it.id,
        "in_force": it.in_force,
        "memory_bytes": it.memory_bytes,
        "items": it.items,
        "coded_bytes": it.coded_bytes,
        "plain_bytes": it.plain_bytes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who knows the kernel's compressed pools finds their counters by name.
    #[test]
    fn the_kernels_names_are_there() {
        let rows = rows(&Tiers::default());
        for name in [
            "tier_pressure",
            "tier_pool_limit_hit_total",
            "tier_reject_compress_poor_total",
            "tier_mean_compress_poor_total",
            "tier_decompress_fail_total",
            "tier_same_filled_total",
            "tier_demoted_total",
            "tier_code_seconds",
            "tier_decode_seconds",
            "tier_early_warnings_total",
        ] {
            assert_eq!(
                rows.iter().filter(|row| row.name == name).count(),
                1,
                "{name}"
            );
        }
        let page = object(&Tiers::default());
        for name in [
            "dictionaries",
            "kinds",
            "duel_costs_ns",
            "hot_share",
            "mode",
        ] {
            assert!(page.get(name).is_some(), "{name}");
        }
    }
}
