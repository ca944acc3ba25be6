//! `/metrics`: `thermocline_<area>_<what>_<unit>[_total]` with a help text on each.

use crate::pages;
use crate::shared::Shared;
use crate::stats::{rusage_seconds, tiers};
use serde_json::{json, Map, Value};
use std::fmt::{Display, Write};
use std::sync::atomic::Ordering::Relaxed;

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
            let prefix = group.prefix.escape_ascii().to_string();
            let prefix = prefix.replace('\\', "\\\\").replace('"', "\\\"");
            out.0 += &format!(
                "thermocline_{name}{{group=\"{prefix}\"}} {}\n",
                figure(group)
            );
        }
    }
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
    let resident = pages::status_bytes("VmRSS:").unwrap_or(0);
    out.gauge(
        "process_resident_bytes",
        "Resident memory of the process.",
        resident,
    );
    let peak = pages::status_bytes("VmHWM:").unwrap_or(0);
    out.gauge(
        "process_resident_peak_bytes",
        "Largest resident memory so far (VmHWM).",
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
        "Closed for not reading replies (output_timeout_s).",
        count(&registry.output_kicks),
    );
    out.counter(
        "connections_shed",
        "Closed for holding too much of the buffer pool.",
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
            name => out.counter(
                &format!("command_{}", name.trim_start_matches("cmd_")),
                &help,
                value,
            ),
        }
    });
}

type Row = (&'static str, bool, &'static str, f64);

/// The engine's own figures: name, whether it only grows, help, value.
fn cache(shared: &Shared) -> Vec<Row> {
    let stats = shared.cache.stats();
    let number = |value: u64| value as f64;
    vec![
        (
            "memory_limit_bytes",
            false,
            "The budget of the process.",
            number(stats.memory_bytes),
        ),
        (
            "memory_charged_bytes",
            false,
            "Charged to the budget.",
            number(stats.charged_bytes),
        ),
        (
            "memory_reserved_bytes",
            false,
            "Of these, the server's own.",
            number(stats.reserved_bytes),
        ),
        (
            "memory_leased_bytes",
            false,
            "Of these, lent to the connections' buffers at the moment, beyond what is reserved for them.",
            number(stats.leased_bytes),
        ),
        (
            "memory_table_bytes",
            false,
            "Tables of fixed size.",
            number(stats.table_bytes),
        ),
        (
            "memory_condemned_bytes",
            false,
            "Freed segments that readers still hold.",
            number(stats.condemned_bytes),
        ),
        (
            "cache_items",
            false,
            "Items, expired ones included until reclaimed.",
            number(stats.items),
        ),
        (
            "cache_live_bytes",
            false,
            "Bytes of live items.",
            number(stats.live_bytes),
        ),
        (
            "cache_used_bytes",
            false,
            "Bytes appended to segments in use.",
            number(stats.used_bytes),
        ),
        (
            "cache_hits_total",
            true,
            "Reads that found their item.",
            number(stats.hits),
        ),
        (
            "cache_misses_total",
            true,
            "Reads that did not.",
            number(stats.misses),
        ),
        (
            "cache_inserts_total",
            true,
            "Items stored under a new key.",
            number(stats.inserts),
        ),
        (
            "cache_replaced_total",
            true,
            "Items stored over another, at a new place.",
            number(stats.replaced),
        ),
        (
            "cache_overwritten_in_place_total",
            true,
            "Items overwritten where they lay.",
            number(stats.overwritten_in_place),
        ),
        (
            "cache_deleted_total",
            true,
            "Items removed by clients.",
            number(stats.deleted),
        ),
        (
            "cache_evicted_total",
            true,
            "Live items dropped for want of room.",
            number(stats.evicted),
        ),
        (
            "cache_expired_total",
            true,
            "Items dropped because their time was over.",
            number(stats.expired),
        ),
        (
            "cache_refused_room_total",
            true,
            "Writes refused for want of room.",
            number(stats.refused_room),
        ),
        (
            "cache_refused_min_ttl_total",
            true,
            "Of these, because all that could go was younger than min_ttl.",
            number(stats.refused_min_ttl),
        ),
        (
            "cache_refused_size_total",
            true,
            "Writes refused for their size.",
            number(stats.refused_size),
        ),
        (
            "cache_read_retries_total",
            true,
            "Reads that started again because a writer raced.",
            number(stats.read_retries),
        ),
        (
            "index_bytes",
            false,
            "Bytes the index holds.",
            number(stats.index_bytes),
        ),
        (
            "index_used_bytes",
            false,
            "Of these in use.",
            number(stats.index_used_bytes),
        ),
        (
            "index_rebuilds_total",
            true,
            "Units of the index rebuilt.",
            number(stats.index_rebuilds),
        ),
        (
            "index_splits_total",
            true,
            "Units of the index split.",
            number(stats.index_splits),
        ),
        (
            "index_lock_waits_total",
            true,
            "Waits for a unit's lock.",
            number(stats.index_lock_waits),
        ),
        (
            "ghost_bytes",
            false,
            "Bytes of the ghost table.",
            number(stats.ghost_bytes),
        ),
        (
            "shadow_bytes",
            false,
            "The miniature caches that the policy's settings are duelled in.",
            number(stats.shadow_bytes),
        ),
        (
            "policy_setting",
            false,
            "The policy's setting in force, counted from 0.",
            number(stats.policy_setting),
        ),
        (
            "policy_switches_total",
            true,
            "How often another setting came into force.",
            number(stats.policy_switches),
        ),
        (
            "segment_count",
            false,
            "Segments owned.",
            number(stats.segments),
        ),
        (
            "segment_free_count",
            false,
            "Segments free.",
            number(stats.segments_free),
        ),
        (
            "segment_probation_count",
            false,
            "Sealed segments of probation.",
            number(stats.probation_segments),
        ),
        (
            "segment_main_count",
            false,
            "Sealed segments of main.",
            number(stats.main_segments),
        ),
        (
            "segment_bytes",
            false,
            "Bytes of one segment.",
            number(stats.segment_bytes),
        ),
        (
            "generation_youngest",
            false,
            "Number of the youngest generation (max_seq).",
            number(stats.generation),
        ),
        (
            "reclaim_pgscan_total",
            true,
            "Records reclaim walked over.",
            number(stats.scanned),
        ),
        (
            "reclaim_workingset_refault_total",
            true,
            "Insertions whose ghost was still there.",
            number(stats.refaults),
        ),
        (
            "reclaim_moved_total",
            true,
            "Items reclaim copied.",
            number(stats.moved),
        ),
        (
            "reclaim_moved_bytes_total",
            true,
            "Bytes reclaim copied.",
            number(stats.moved_bytes),
        ),
        (
            "reclaim_segments_drained_total",
            true,
            "Segments emptied.",
            number(stats.segments_drained),
        ),
        (
            "reclaim_segments_compacted_total",
            true,
            "Segments compacted.",
            number(stats.segments_compacted),
        ),
        (
            "reclaim_segments_relinked_total",
            true,
            "Segments moved whole to the young end.",
            number(stats.segments_relinked),
        ),
        (
            "reclaim_direct_total",
            true,
            "Bounded passes made by writers.",
            number(stats.direct_passes),
        ),
        (
            "reclaim_stalls_total",
            true,
            "Waits of writers for held memory.",
            number(stats.reclaim_stalled),
        ),
    ]
}

/// The same figures for `/stats`.
pub fn cache_object(shared: &Shared) -> Value {
    let rows = cache(shared);
    let entries: Map<String, Value> = rows
        .into_iter()
        .map(|(name, _, _, value)| (name.to_string(), json!(value)))
        .collect();
    Value::Object(entries)
}
