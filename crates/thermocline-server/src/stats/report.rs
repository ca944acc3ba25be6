//! memcached's `stats`, name by name in the order of 1.6.45.
//!
//! A name whose concept we have gets our figure; one that speaks of slabs, LRU crawlers or watchers gets an honest 0,
//! so that exporters find every name they read.

use crate::config::show_size;
use crate::descriptors;
use crate::server::VERSION;
use crate::shared::Shared;
use nix::sys::resource::{getrusage, UsageWho};
use nix::sys::time::TimeValLike;
use std::sync::atomic::Ordering::Relaxed;

pub type Lines = Vec<(String, String)>;

fn line(lines: &mut Lines, name: &str, value: impl ToString) {
    lines.push((name.to_string(), value.to_string()));
}

fn zeros(lines: &mut Lines, names: &[&str]) {
    for name in names {
        line(lines, name, 0);
    }
}

/// User and system time of the process, seconds.
pub fn rusage_seconds() -> (f64, f64) {
    let seconds = |time: nix::sys::time::TimeVal| time.num_microseconds() as f64 / 1e6;
    getrusage(UsageWho::RUSAGE_SELF).map_or((0.0, 0.0), |usage| {
        (seconds(usage.user_time()), seconds(usage.system_time()))
    })
}

pub fn general(shared: &Shared) -> Lines {
    let mut lines = Lines::new();
    process(&mut lines, shared);
    connection_counts(&mut lines, shared);
    commands(&mut lines, shared);
    limits(&mut lines, shared);
    store(&mut lines, shared);
    lines
}

fn process(lines: &mut Lines, shared: &Shared) {
    let (user, system) = rusage_seconds();
    line(lines, "pid", std::process::id());
    line(lines, "uptime", shared.seconds());
    line(lines, "time", shared.now_ms() / 1000);
    line(lines, "version", VERSION);
    line(lines, "libevent", "none");
    line(lines, "pointer_size", usize::BITS);
    line(lines, "rusage_user", format!("{user:.6}"));
    line(lines, "rusage_system", format!("{system:.6}"));
}

fn connection_counts(lines: &mut Lines, shared: &Shared) {
    let registry = &shared.registry;
    line(lines, "max_connections", shared.settings.connections_max);
    line(lines, "curr_connections", registry.open.load(Relaxed));
    line(lines, "total_connections", registry.accepted.load(Relaxed));
    line(
        lines,
        "rejected_connections",
        registry.rejected.load(Relaxed),
    );
    line(lines, "connection_structures", registry.open.load(Relaxed));
    zeros(lines, &["response_obj_oom", "response_obj_count"]);
    line(lines, "response_obj_bytes", shared.pool.used());
    line(lines, "read_buf_count", shared.settings.threads);
    let read_bytes = shared.settings.threads * crate::net::READ_BYTES;
    line(lines, "read_buf_bytes", read_bytes);
    line(lines, "read_buf_bytes_free", read_bytes);
    line(lines, "read_buf_oom", registry.shed.load(Relaxed));
    line(
        lines,
        "reserved_fds",
        descriptors::spare(shared.settings.threads),
    );
}

fn commands(lines: &mut Lines, shared: &Shared) {
    let totals = shared.totals();
    let (stats, before) = (shared.cache.stats(), shared.stats_before());
    for (name, value) in [
        ("cmd_get", totals.cmd_get),
        ("cmd_set", totals.cmd_set),
        ("cmd_flush", totals.cmd_flush),
        ("cmd_touch", totals.cmd_touch),
        ("cmd_meta", totals.cmd_meta),
        ("get_hits", totals.get_hits),
        ("get_misses", totals.get_misses),
        (
            "get_expired",
            stats.reads_expired.saturating_sub(before.reads_expired),
        ),
        (
            "get_flushed",
            stats.reads_flushed.saturating_sub(before.reads_flushed),
        ),
        ("delete_misses", totals.delete_misses),
        ("delete_hits", totals.delete_hits),
        ("incr_misses", totals.incr_misses),
        ("incr_hits", totals.incr_hits),
        ("decr_misses", totals.decr_misses),
        ("decr_hits", totals.decr_hits),
        ("cas_misses", totals.cas_misses),
        ("cas_hits", totals.cas_hits),
        ("cas_badval", totals.cas_badval),
        ("touch_hits", totals.touch_hits),
        ("touch_misses", totals.touch_misses),
        ("store_too_large", totals.store_too_large),
        ("store_no_memory", totals.store_no_memory),
        ("auth_cmds", totals.auth_cmds),
        ("auth_errors", totals.auth_errors),
    ] {
        line(lines, name, value);
    }
    if shared.settings.idle_timeout_s > 0 {
        line(
            lines,
            "idle_kicks",
            shared.registry.idle_kicks.load(Relaxed),
        );
    }
    line(lines, "bytes_read", totals.bytes_read);
    line(lines, "bytes_written", totals.bytes_written);
}

fn limits(lines: &mut Lines, shared: &Shared) {
    let registry = &shared.registry;
    line(lines, "limit_maxbytes", shared.cache.memory());
    line(
        lines,
        "accepting_conns",
        u8::from(!shared.accepting_waits()),
    );
    line(
        lines,
        "listen_disabled_num",
        registry.accept_stopped.load(Relaxed),
    );
    let stopped_us = registry.accept_stopped_us.load(Relaxed);
    line(lines, "time_in_listen_disabled_us", stopped_us);
    line(lines, "threads", shared.settings.threads);
    line(lines, "conn_yields", shared.totals().conn_yields);
}

fn store(lines: &mut Lines, shared: &Shared) {
    let (stats, before) = (shared.cache.stats(), shared.stats_before());
    let index_words = (stats.index_bytes / 8).max(1);
    line(lines, "hash_power_level", index_words.ilog2());
    line(lines, "hash_bytes", stats.index_bytes);
    zeros(
        lines,
        &[
            "hash_is_expanding",
            "slab_reassign_rescues",
            "slab_reassign_chunk_rescues",
            "slab_reassign_evictions_nomem",
            "slab_reassign_inline_reclaim",
            "slab_reassign_busy_items",
            "slab_reassign_busy_deletes",
            "slab_reassign_running",
        ],
    );
    line(lines, "slabs_moved", stats.segments_drained);
    zeros(
        lines,
        &[
            "lru_crawler_running",
            "lru_crawler_starts",
            "lru_maintainer_juggles",
            "malloc_fails",
            "log_worker_dropped",
            "log_worker_written",
            "log_watcher_skipped",
            "log_watcher_sent",
            "log_watchers",
            "unexpected_napi_ids",
            "round_robin_fallback",
        ],
    );
    line(lines, "bytes", stats.live_bytes);
    line(lines, "curr_items", stats.items);
    line(lines, "total_items", shared.totals().total_items);
    line(lines, "slab_global_page_pool", stats.segments_free);
    zeros(
        lines,
        &["expired_unfetched", "evicted_unfetched", "evicted_active"],
    );
    line(
        lines,
        "evictions",
        stats.evicted.saturating_sub(before.evicted),
    );
    line(
        lines,
        "reclaimed",
        stats.expired.saturating_sub(before.expired),
    );
    zeros(
        lines,
        &[
            "crawler_reclaimed",
            "crawler_items_checked",
            "lrutail_reflocked",
        ],
    );
    line(lines, "moves_to_cold", 0);
    line(
        lines,
        "moves_to_warm",
        stats.moved.saturating_sub(before.moved),
    );
    line(lines, "moves_within_lru", 0);
    line(
        lines,
        "direct_reclaims",
        stats.direct_passes.saturating_sub(before.direct_passes),
    );
    line(lines, "lru_bumps_dropped", 0);
}

pub fn settings(shared: &Shared) -> Lines {
    let settings = &shared.settings;
    let mut lines = Lines::new();
    let on = |flag: bool| if flag { "yes" } else { "no" };
    let port = shared.first_tcp_port();
    for (name, value) in [
        ("maxbytes", shared.cache.memory().to_string()),
        ("maxconns", settings.connections_max.to_string()),
        ("tcpport", port.to_string()),
        ("udpport", "0".into()),
        ("inter", shared.places.join(",")),
        ("verbosity", crate::logging::verbosity().to_string()),
        ("oldest", "0".into()),
        (
            "evictions",
            if settings.evict {
                "on".into()
            } else {
                "off".into()
            },
        ),
        (
            "domain_socket",
            shared.unix_path().unwrap_or_else(|| "NULL".into()),
        ),
        ("umask", format!("{:o}", settings.unix_mode)),
        ("shutdown_command", on(settings.allow_shutdown).into()),
        ("growth_factor", "1.25".into()),
        ("chunk_size", "48".into()),
        ("num_threads", settings.threads.to_string()),
        ("num_threads_per_udp", "0".into()),
        (
            "stat_key_prefix",
            char::from(shared.detail.delimiter()).to_string(),
        ),
        ("detail_enabled", on(shared.detail.is_on()).into()),
        ("reqs_per_event", settings.requests_per_turn.to_string()),
        ("cas_enabled", "yes".into()),
        ("tcp_backlog", settings.backlog.to_string()),
        ("binding_protocol", "ascii".into()),
        ("auth_enabled_sasl", "no".into()),
        (
            "auth_enabled_ascii",
            on(settings.auth_file.is_some()).into(),
        ),
        ("item_size_max", settings.item_size_max.to_string()),
        ("maxconns_fast", on(settings.connections_fast).into()),
        ("hashpower_init", "0".into()),
        ("slab_reassign", "no".into()),
        ("slab_automove", "0".into()),
        ("lru_crawler", "no".into()),
        ("flush_enabled", on(settings.allow_flush).into()),
        ("dump_enabled", on(settings.allow_dump).into()),
        ("hash_algorithm", "keyed".into()),
        ("lru_maintainer_thread", "no".into()),
        ("lru_segmented", "no".into()),
        ("idle_timeout", settings.idle_timeout_s.to_string()),
        (
            "read_buf_mem_limit",
            settings.buffer_pool_bytes().to_string(),
        ),
        ("track_sizes", "no".into()),
        ("inline_ascii_response", "no".into()),
        ("ssl_enabled", "no".into()),
        ("memory_file", "(null)".into()),
        ("key_size_max", settings.key_size_max.to_string()),
        ("memory_max", show_size(shared.cache.memory_max())),
    ] {
        line(&mut lines, name, value);
    }
    lines
}

/// Which pages were asked for and what there is.
pub fn pages(shared: &Shared) -> Lines {
    let mut lines = Lines::new();
    let pages = shared.cache.pages();
    line(&mut lines, "page_mode_asked", pages.asked.name());
    line(&mut lines, "page_mode", pages.mode.name());
    if let Some(note) = &pages.note {
        line(&mut lines, "page_mode_note", note);
    }
    if let Some(start) = crate::warm::describe(shared.cache.start(), &shared.settings) {
        line(&mut lines, "start", start);
    }
    for (name, _, value) in crate::pages::rows(&pages) {
        match name.strip_suffix("_percent") {
            Some(_) => line(&mut lines, name, format!("{value:.1}")),
            None => line(&mut lines, name, value as u64),
        }
    }
    line(&mut lines, "extent_use", pages.extent_use.name());
    line(&mut lines, "pages_released_bytes", pages.released_bytes);
    line(&mut lines, "pages_mended", pages.mended);
    line(&mut lines, "pages_collapsed", pages.collapse.collapsed);
    line(&mut lines, "pages_collapse_failed", pages.collapse.failed);
    line(
        &mut lines,
        "pages_collapse_stall_us",
        pages.collapse.stall_us,
    );
    lines
}

/// One class: items of all sizes share all memory.
pub fn items(shared: &Shared) -> Lines {
    let (stats, before) = (shared.cache.stats(), shared.stats_before());
    let mut lines = Lines::new();
    if stats.items == 0 {
        return lines;
    }
    let evicted = stats.evicted.saturating_sub(before.evicted);
    for (name, value) in [
        ("number", stats.items),
        ("number_hot", 0),
        ("number_warm", 0),
        ("number_cold", stats.items),
        ("age_hot", 0),
        ("age_warm", 0),
        ("age", 0),
        ("mem_requested", stats.live_bytes),
        ("evicted", evicted),
        ("evicted_nonzero", 0),
        ("evicted_time", 0),
        (
            "outofmemory",
            stats.refused_room.saturating_sub(before.refused_room),
        ),
        ("tailrepairs", 0),
        ("reclaimed", stats.expired.saturating_sub(before.expired)),
        ("expired_unfetched", 0),
        ("evicted_unfetched", 0),
        ("evicted_active", 0),
        ("crawler_reclaimed", 0),
        ("crawler_items_checked", 0),
        ("lrutail_reflocked", 0),
        ("moves_to_cold", 0),
        ("moves_to_warm", stats.moved.saturating_sub(before.moved)),
        ("moves_within_lru", 0),
        (
            "direct_reclaims",
            stats.direct_passes.saturating_sub(before.direct_passes),
        ),
    ] {
        line(&mut lines, &format!("items:1:{name}"), value);
    }
    lines
}

/// Segments in the place of slab pages.
pub fn slabs(shared: &Shared) -> Lines {
    let (stats, totals) = (shared.cache.stats(), shared.totals());
    let mut lines = Lines::new();
    if stats.items > 0 {
        let used = stats.segments.saturating_sub(stats.segments_free);
        for (name, value) in [
            ("chunk_size", stats.segment_bytes),
            ("chunks_per_page", 1),
            ("total_pages", stats.segments),
            ("total_chunks", stats.segments),
            ("used_chunks", used),
            ("free_chunks", stats.segments_free),
            ("free_chunks_end", 0),
            ("get_hits", totals.get_hits),
            ("cmd_set", totals.cmd_set),
            ("delete_hits", totals.delete_hits),
            ("incr_hits", totals.incr_hits),
            ("decr_hits", totals.decr_hits),
            ("cas_hits", totals.cas_hits),
            ("cas_badval", totals.cas_badval),
            ("touch_hits", totals.touch_hits),
        ] {
            line(&mut lines, &format!("1:{name}"), value);
        }
    }
    line(&mut lines, "active_slabs", u8::from(stats.items > 0));
    line(&mut lines, "total_malloced", stats.segment_bytes_total);
    lines
}

/// The listeners, as `stats conns` shows them.
pub fn listeners(shared: &Shared) -> Lines {
    let now_s = shared.seconds();
    let mut lines = Lines::new();
    for (number, place) in shared.places.iter().enumerate() {
        let address = match place.starts_with("unix:") {
            true => place.clone(),
            false => format!("tcp:{place}"),
        };
        line(&mut lines, &format!("l{number}:addr"), address);
        line(&mut lines, &format!("l{number}:state"), "conn_listening");
        line(&mut lines, &format!("l{number}:secs_since_last_cmd"), now_s);
    }
    lines
}

/// Connections in one go: 50 KB of text, whatever their number.
const CONNECTIONS_PART: usize = 256;

/// A part of all connections, and where the next one begins.
pub fn connections(shared: &Shared, from: usize) -> (Lines, Option<usize>) {
    let now_s = shared.seconds();
    let mut lines = Lines::new();
    let (part, next) = shared.registry.list(from, CONNECTIONS_PART);
    for seen in part {
        let number = seen.descriptor;
        line(&mut lines, &format!("{number}:addr"), &seen.peer);
        line(&mut lines, &format!("{number}:listen_addr"), &seen.listener);
        line(&mut lines, &format!("{number}:state"), seen.state);
        let idle_s = now_s.saturating_sub(seen.last_s);
        line(&mut lines, &format!("{number}:secs_since_last_cmd"), idle_s);
    }
    (lines, next)
}

/// The hottest keys and their share of all reads, in percent.
pub fn hot_keys(shared: &Shared, count: usize) -> Lines {
    let keys = shared.cache.hot_keys(count);
    keys.iter()
        .map(|hot| (printable(&hot.key), format!("{:.3}%", hot.share * 100.0)))
        .collect()
}

/// The keys with the largest values, and their sizes in bytes.
pub fn big_keys(shared: &Shared, count: usize) -> Lines {
    shared
        .largest_keys(count)
        .iter()
        .map(|(bytes, key)| (printable(key), bytes.to_string()))
        .collect()
}

/// A key may hold any byte; a line of statistics may not.
pub fn printable(key: &[u8]) -> String {
    key.escape_ascii().to_string().replace(' ', "\\x20")
}
