//! `/metrics`: `thermocline_<area>_<what>_<unit>[_total]` with a help text on each.

use crate::pages;
use crate::shared::Shared;
use crate::stats::{json_number, rusage_seconds, tiers};
use serde_json::{Map, Value};
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;
use thermocline::Stats;

pub fn text(shared: &Shared) -> String {
    let mut out = Text(String::with_capacity(16 << 10));
    process(&mut out, shared);
    connections(&mut out, shared);
    commands(&mut out, shared);
    for (name, counts, help, value) in cache(shared) {
        out.put(&format!("thermocline_{name}"), counts, help, value);
    }
    for row in tiers::rows(&shared.cache.tiers()) {
        out.put(
            &format!("thermocline_{}", row.name),
            row.counts,
            row.help,
            row.value,
        );
    }
    groups(&mut out, shared);
    out.0
}

/// One line a group, by its prefix as label.
fn groups(out: &mut Text, shared: &Shared) {
    type Figure = fn(&thermocline::GroupStats) -> u64;
    let groups = shared.cache.groups();
    let rows: [(&str, bool, &str, Figure); 5] = [
        (
            "group_hits_total",
            true,
            "Reads that found their item, by group of keys.",
            |g| g.hits,
        ),
        (
            "group_misses_total",
            true,
            "Reads that did not, by group.",
            |g| g.misses,
        ),
        (
            "group_bytes",
            false,
            "Bytes of live items, by group.",
            |g| g.bytes,
        ),
        (
            "group_evicted_total",
            true,
            "Live items dropped for want of room, by group.",
            |g| g.evicted,
        ),
        (
            "group_drops_total",
            true,
            "Times the whole group was dropped.",
            |g| g.drops,
        ),
    ];
    for (name, counts, help, figure) in rows {
        if groups.is_empty() {
            return;
        }
        let kind = if counts { "counter" } else { "gauge" };
        out.0 += &format!("# HELP thermocline_{name} {help}\n# TYPE thermocline_{name} {kind}\n");
        for group in &groups {
            let prefix = label(&crate::groups::shown(&group.prefix));
            out.0 += &format!(
                "thermocline_{name}{{group=\"{prefix}\"}} {}\n",
                figure(group)
            );
        }
    }
}

/// A label's value as the text format wants it: three characters are escaped, no others.
fn label(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

struct Text(String);

impl Text {
    fn put(&mut self, name: &str, counts: bool, help: &str, value: impl Display) {
        let kind = if counts { "counter" } else { "gauge" };
        let written = writeln!(
            self.0,
            "# HELP {name} {help}\n# TYPE {name} {kind}\n{name} {value}"
        );
        written.expect("writing to a string cannot fail");
    }

    fn counter(&mut self, name: &str, help: &str, value: impl Display) {
        self.put(&format!("thermocline_{name}_total"), true, help, value);
    }

    /// `counts` has one bucket more than there are bounds: what is above the last.
    fn histogram(&mut self, name: &str, help: &str, bounds: &[f64], counts: &[u64], sum: f64) {
        let name = format!("thermocline_{name}");
        let mut text = format!("# HELP {name} {help}\n# TYPE {name} histogram\n");
        let mut below = 0;
        for (bound, count) in bounds.iter().zip(counts) {
            below += count;
            text += &format!("{name}_bucket{{le=\"{bound}\"}} {below}\n");
        }
        let all: u64 = counts.iter().sum();
        text +=
            &format!("{name}_bucket{{le=\"+Inf\"}} {all}\n{name}_sum {sum}\n{name}_count {all}\n");
        self.0 += &text;
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.put(&format!("thermocline_{name}"), false, help, value);
    }
}

fn process(out: &mut Text, shared: &Shared) {
    let (user, system) = rusage_seconds();
    out.gauge(
        "process_uptime_seconds",
        "Since the start.",
        shared.seconds(),
    );
    out.counter("process_user_seconds", "CPU time in user mode.", user);
    out.counter("process_system_seconds", "CPU time in the kernel.", system);
    out.gauge(
        "process_resident_bytes",
        "Resident memory of the process, pages of a hugetlb pool included.",
        pages::resident_bytes(),
    );
    let peak = pages::status_bytes("VmHWM:").unwrap_or(0);
    out.gauge(
        "process_resident_peak_bytes",
        "Largest resident memory so far, pages of a hugetlb pool not included (VmHWM).",
        peak,
    );
    pressure(out, shared);
    let pages = shared.cache.pages();
    for (name, help, value) in pages::rows(&pages) {
        out.gauge(name, help, value);
    }
    collapse(out, &pages.collapse);
    out.counter(
        "pages_released_bytes",
        "Dead bytes given back before their extent (extent_use = team).",
        pages.released_bytes,
    );
    out.counter(
        "pages_mended",
        "Times a broken extent became whole again.",
        pages.mended,
    );
    out.counter(
        "pages_refusals",
        "Times the memory file's file system was full.",
        pages.refusals,
    );
}

fn pressure(out: &mut Text, shared: &Shared) {
    let totals = shared.pressure.totals();
    out.gauge(
        "pressure_level",
        "Memory pressure: 0 calm, 1 tight, 2 critical.",
        totals.level,
    );
    out.counter(
        "pressure_reactions",
        "Times memory was given back early.",
        totals.reactions,
    );
    out.counter(
        "pressure_given_back_bytes",
        "Budget given back under pressure.",
        totals.given_back,
    );
    out.counter(
        "pressure_taken_again_bytes",
        "Budget taken again when calm.",
        totals.taken_again,
    );
}

/// The stalls that making pages huge may have cost a thread that touched them.
fn collapse(out: &mut Text, stats: &thermocline::CollapseStats) {
    out.counter(
        "pages_collapsed",
        "Extents made huge in the background.",
        stats.collapsed,
    );
    out.counter(
        "pages_collapse_failed",
        "Tries the kernel refused.",
        stats.failed,
    );
    let buckets = thermocline::STALL_BOUNDS_US.map(|us| us as f64 / 1e6);
    out.histogram(
        "pages_collapse_stall_seconds",
        "How long one collapse took.",
        &buckets,
        &stats.stalls,
        stats.stall_us as f64 / 1e6,
    );
}

fn connections(out: &mut Text, shared: &Shared) {
    let registry = &shared.registry;
    let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Relaxed);
    out.gauge(
        "connections_open",
        "Client connections now.",
        count(&registry.open),
    );
    out.gauge(
        "connections_max",
        "The cap on client connections.",
        shared.settings.connections_max,
    );
    out.counter(
        "connections_accepted",
        "Client connections accepted.",
        count(&registry.accepted),
    );
    out.counter(
        "connections_rejected",
        "Turned away at the cap.",
        count(&registry.rejected),
    );
    out.counter(
        "connections_idle_closed",
        "Closed by idle_timeout_s.",
        count(&registry.idle_kicks),
    );
    out.counter(
        "connections_stalled_closed",
        "Closed for replies left unread, or a large value left half sent (output_timeout_s).",
        count(&registry.output_kicks),
    );
    out.counter(
        "connections_shed",
        "Closed for holding too much of the buffer pool or of the cache, or for standing still on it.",
        count(&registry.shed),
    );
    out.counter(
        "accept_pauses",
        "Times accepting paused.",
        count(&registry.accept_stopped),
    );
    out.counter(
        "accept_out_of_descriptors",
        "Times no file descriptor was left.",
        count(&registry.out_of_descriptors),
    );
    out.gauge(
        "buffer_pool_bytes",
        "Unfinished requests and unsent replies.",
        shared.pool.used(),
    );
    out.gauge(
        "buffer_pool_max_bytes",
        "The limit of the buffer pool.",
        shared.pool.limit(),
    );
}

fn commands(out: &mut Text, shared: &Shared) {
    shared.totals_since_start().each(|name, value| {
        let help = format!("memcached's {name}, summed over event loops.");
        match name {
            "bytes_read" => {
                out.counter("network_received_bytes", "Bytes read from clients.", value)
            }
            "bytes_written" => {
                out.counter("network_sent_bytes", "Bytes written to clients.", value)
            }
            "total_items" => out.counter("command_stored", "Values stored.", value),
            "cmd_get_lines" => out.counter("command_get_lines", "get and gets lines.", value),
            name => out.counter(
                &format!("command_{}", name.trim_start_matches("cmd_")),
                &help,
                value,
            ),
        }
    });
}

type Row = (&'static str, bool, &'static str, f64);

/// A figure that goes up and down.
fn is(name: &'static str, help: &'static str, value: u64) -> Row {
    (name, false, help, value as f64)
}

/// A figure that only grows.
fn counts(name: &'static str, help: &'static str, value: u64) -> Row {
    (name, true, help, value as f64)
}

/// The engine's own figures: name, whether it only grows, help, value.
fn cache(shared: &Shared) -> Vec<Row> {
    let stats = shared.cache.stats();
    let parts = [memory_rows, item_rows, index_rows, segment_rows];
    parts.iter().flat_map(|rows| rows(&stats)).collect()
}

/// What the budget is spent on.
fn memory_rows(stats: &Stats) -> Vec<Row> {
    vec![
        is("memory_limit_bytes", "The budget of the process.", stats.memory_bytes),
        is("memory_charged_bytes", "Charged to the budget.", stats.charged_bytes),
        is("memory_reserved_bytes", "Of these, the server's own.", stats.reserved_bytes),
        is("memory_leased_bytes", "Of these, lent to the connections' buffers at the moment, beyond what is reserved for them.", stats.leased_bytes),
        is("memory_table_bytes", "Tables of fixed size.", stats.table_bytes),
        is("memory_condemned_bytes", "Freed segments that readers still hold.", stats.condemned_bytes),
    ]
}

/// Items, and what became of reads and writes.
fn item_rows(stats: &Stats) -> Vec<Row> {
    vec![
        is(
            "cache_items",
            "Items, expired ones included until reclaimed.",
            stats.items,
        ),
        is("cache_live_bytes", "Bytes of live items.", stats.live_bytes),
        is(
            "cache_used_bytes",
            "Bytes appended to segments in use.",
            stats.used_bytes,
        ),
        counts(
            "cache_hits_total",
            "Reads that found their item.",
            stats.hits,
        ),
        counts("cache_misses_total", "Reads that did not.", stats.misses),
        counts(
            "cache_inserts_total",
            "Items stored under a new key.",
            stats.inserts,
        ),
        counts(
            "cache_replaced_total",
            "Items stored over another, at a new place.",
            stats.replaced,
        ),
        counts(
            "cache_overwritten_in_place_total",
            "Items overwritten where they lay.",
            stats.overwritten_in_place,
        ),
        counts(
            "cache_deleted_total",
            "Items removed by clients.",
            stats.deleted,
        ),
        counts(
            "cache_evicted_total",
            "Live items dropped for want of room.",
            stats.evicted,
        ),
        counts(
            "cache_expired_total",
            "Items dropped because their time was over.",
            stats.expired,
        ),
        counts(
            "cache_refused_room_total",
            "Writes refused for want of room.",
            stats.refused_room,
        ),
        counts(
            "cache_refused_min_ttl_total",
            "Of these, because all that could go was younger than min_ttl.",
            stats.refused_min_ttl,
        ),
        counts(
            "cache_refused_size_total",
            "Writes refused for their size.",
            stats.refused_size,
        ),
        counts(
            "cache_read_retries_total",
            "Reads that started again because a writer raced.",
            stats.read_retries,
        ),
    ]
}

/// The index, ghosts and the policy.
fn index_rows(stats: &Stats) -> Vec<Row> {
    vec![
        is("index_bytes", "Bytes the index holds.", stats.index_bytes),
        is(
            "index_used_bytes",
            "Of these in use.",
            stats.index_used_bytes,
        ),
        counts(
            "index_rebuilds_total",
            "Units of the index rebuilt.",
            stats.index_rebuilds,
        ),
        counts(
            "index_splits_total",
            "Units of the index split.",
            stats.index_splits,
        ),
        counts(
            "index_lock_waits_total",
            "Waits for a unit's lock.",
            stats.index_lock_waits,
        ),
        is(
            "ghost_bytes",
            "Bytes of the ghost table.",
            stats.ghost_bytes,
        ),
        is(
            "shadow_bytes",
            "The miniature caches that the policy's settings, and the ways to compress, are duelled in.",
            stats.shadow_bytes,
        ),
        is(
            "policy_setting",
            "The policy's setting in force, counted from 0.",
            stats.policy_setting,
        ),
        counts(
            "policy_switches_total",
            "How often another setting came into force.",
            stats.policy_switches,
        ),
    ]
}

/// Segments, generations and reclaim.
fn segment_rows(stats: &Stats) -> Vec<Row> {
    vec![
        is("segment_count", "Segments owned.", stats.segments),
        is("segment_free_count", "Segments free.", stats.segments_free),
        is(
            "segment_probation_count",
            "Sealed segments of probation.",
            stats.probation_segments,
        ),
        is(
            "segment_main_count",
            "Sealed segments of main.",
            stats.main_segments,
        ),
        is(
            "segment_bytes",
            "Bytes of one segment.",
            stats.segment_bytes,
        ),
        is(
            "generation_youngest",
            "Number of the youngest generation (max_seq).",
            stats.generation,
        ),
        counts(
            "reclaim_pgscan_total",
            "Records reclaim walked over.",
            stats.scanned,
        ),
        counts(
            "reclaim_workingset_refault_total",
            "Insertions whose ghost was still there.",
            stats.refaults,
        ),
        counts("reclaim_moved_total", "Items reclaim copied.", stats.moved),
        counts(
            "reclaim_moved_bytes_total",
            "Bytes reclaim copied.",
            stats.moved_bytes,
        ),
        counts(
            "reclaim_reused_bytes_total",
            "Bytes stored in the room of dead items where it lay.",
            stats.reused_bytes,
        ),
        counts(
            "reclaim_segments_drained_total",
            "Segments emptied.",
            stats.segments_drained,
        ),
        counts(
            "reclaim_segments_compacted_total",
            "Segments compacted.",
            stats.segments_compacted,
        ),
        counts(
            "reclaim_segments_relinked_total",
            "Segments moved whole to the young end.",
            stats.segments_relinked,
        ),
        counts(
            "reclaim_direct_total",
            "Bounded passes made by writers.",
            stats.direct_passes,
        ),
        counts(
            "reclaim_stalls_total",
            "Waits of writers for held memory.",
            stats.reclaim_stalled,
        ),
    ]
}

/// The same figures for `/stats`.
pub fn cache_object(shared: &Shared) -> Value {
    let rows = cache(shared);
    let entries: Map<String, Value> = rows
        .into_iter()
        .map(|(name, _, _, value)| (name.to_string(), json_number(value)))
        .collect();
    Value::Object(entries)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::groups::shown;

    #[test]
    fn a_label_says_what_the_group_is_called() {
        for (prefix, text) in [
            (&b"it's:"[..], "it's:"),
            (b"a\"b", "a\\\"b"),
            (b"a\\b", "a\\\\b"),
            ("é\n".as_bytes(), "é\\n"),
            (b"\xff'", "\\\\xff\\\\'"),
        ] {
            assert_eq!(label(&shown(prefix)), text);
        }
    }
}
