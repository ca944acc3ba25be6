//! The table of settings: one row each, from which flags, environment, file and `--print-config` are made.

use super::*;
use crate::stats::tiers;
use thermocline::{CompressCodec, CompressMode};

type Set = fn(&mut Settings, &str) -> Result<(), String>;
type Show = fn(&Settings) -> String;

/// One setting. `name` is the TOML key; the flag has dashes, the environment name is upper case after THERMOCLINE_.
pub struct Key {
    pub name: &'static str,
    pub value: &'static str,
    pub help: &'static str,
    pub set: Set,
    /// The value in force, as a TOML literal.
    pub show: Show,
}

impl Key {
    pub fn flag(&self) -> String {
        self.name.replace('_', "-")
    }

    pub fn environment(&self) -> String {
        format!("THERMOCLINE_{}", self.name.to_ascii_uppercase())
    }

    const fn new(
        name: &'static str,
        value: &'static str,
        help: &'static str,
        set: Set,
        show: Show,
    ) -> Key {
        Key {
            name,
            value,
            help,
            set,
            show,
        }
    }
}

const CODECS: [(&str, CompressCodec); 3] = [
    ("best", CompressCodec::Best),
    ("lz4", CompressCodec::Lz4),
    ("zstd", CompressCodec::Zstd),
];

/// The name of a choice.
fn name_in<T: PartialEq>(choices: &[(&'static str, T)], value: T) -> &'static str {
    let found = choices.iter().find(|(_, it)| *it == value);
    found.map_or("", |(name, _)| name)
}

/// The row of this name.
pub fn key(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

pub static KEYS: &[Key] = &[
    Key::new("memory", "SIZE", "Memory the whole process may use [default: from the control group, else the machine]",
        |s, v| { s.memory = parse_size(v)?; Ok(()) }, |s| quoted(show_size(s.memory))),
    Key::new("memory_max", "SIZE", "Memory that cache_memlimit may grow the cache to [default: twice memory]",
        |s, v| { s.memory_max = optional(v, parse_size)?; Ok(()) }, |s| quoted(s.memory_max.map_or_else(|| "none".into(), show_size))),
    Key::new("memory_min", "SIZE", "Under pressure memory is given back down to this [default: a quarter of memory]",
        |s, v| { s.memory_min = optional(v, parse_size)?; Ok(()) }, |s| quoted(s.memory_min.map_or_else(|| "none".into(), show_size))),
    Key::new("pressure", "BOOL", "Give memory back when the control group or the machine is short of it [default: true]",
        |s, v| { s.pressure = boolean(v)?; Ok(()) }, |s| s.pressure.to_string()),
    Key::new("page_mode", "auto|base|thp|collapse|hugetlb-2m|hugetlb-1g|shmem", "Pages asked of the kernel; banner, stats pages and metrics say what was got [default: auto]",
        |s, v| { s.page_mode = choice(v, &thermocline::PAGE_MODES)?; Ok(()) },
        |s| quoted(s.page_mode.name())),
    Key::new("extent_use", "compound|team|team-64k", "Give 2 MiB extents back whole, or dead runs of them from 4 or 64 KiB on [default: compound]",
        |s, v| { s.extent_use = choice(v, &thermocline::EXTENT_USES)?; Ok(()) },
        |s| quoted(s.extent_use.name())),
    Key::new("memory_dir", "DIR|none", "With page_mode shmem: where the memory file lies, on tmpfs or hugetlbfs [default: none, a nameless file]",
        |s, v| { s.memory_dir = path(v); Ok(()) }, |s| show_path(&s.memory_dir)),
    Key::new("memory_lock", "BOOL", "Lock the cache's pages in memory as they come (mlock) [default: false]",
        |s, v| { s.memory_lock = boolean(v)?; Ok(()) }, |s| s.memory_lock.to_string()),
    Key::new("numa", "none|bind:N,..|interleave:N,..", "NUMA nodes the cache's memory lies on, for example interleave:0,1 [default: none]",
        |s, v| { s.numa = numa(v)?; Ok(()) }, |s| quoted(show_numa(&s.numa))),
    Key::new("collapse_percent", "N", "Percent of the time that making pages huge in the background may take; 0 never [default: 2]",
        |s, v| { s.collapse_percent = number(v, 0, 50)? as u32; Ok(()) }, |s| s.collapse_percent.to_string()),
    Key::new("prefault", "BOOL", "Touch all memory before serving [default: false]",
        |s, v| { s.prefault = boolean(v)?; Ok(()) }, |s| s.prefault.to_string()),
    Key::new("compress", "auto|on|off", "Compress what the hot tier evicts: where it pays (never with a memory_dir), always, never [default: auto]",
        |s, v| { s.compress = choice(v, &[("auto", CompressMode::Auto), ("on", CompressMode::On), ("off", CompressMode::Off)])?; Ok(()) },
        |s| quoted(tiers::mode_name(s.compress))),
    Key::new("compress_codec", "best|lz4|zstd", "What compresses: LZ4 and zstd where it pays, or one alone [default: best]",
        |s, v| { s.compress_with.codec = choice(v, &CODECS)?; Ok(()) },
        |s| quoted(name_in(&CODECS, s.compress_with.codec))),
    Key::new("compress_level", "N|none", "zstd's level, 1 to 19 [default: none, 3 or what memory for its tables allows]",
        |s, v| { s.compress_with.zstd_level = optional(v, |v| number(v, 1, 19))?.map(|n| n as i32); Ok(()) },
        |s| quoted(s.compress_with.zstd_level.map_or_else(|| "none".into(), |n| n.to_string()))),
    Key::new("dictionary_memory", "SIZE|none", "What dictionaries and their tables may take; 0: none are trained [default: none, 1 % of memory, at most 10MiB]",
        |s, v| { s.compress_with.dictionary_memory = optional(v, parse_size)?; Ok(()) },
        |s| quoted(s.compress_with.dictionary_memory.map_or_else(|| "none".into(), show_size))),
    Key::new("hot_percent", "N|none", "The hot tier's share of the cache while compression is on, 1 to 90 [default: none, 5]",
        |s, v| { s.compress_with.hot_share = optional(v, |v| number(v, 1, 90))?.map(|n| n as f64 / 100.0); Ok(()) },
        |s| quoted(s.compress_with.hot_share.map_or_else(|| "none".into(), |share| format!("{:.0}", share * 100.0)))),
    Key::new("memcached", "LISTEN,...", "Where memcached clients connect: ADDR:PORT, [IPV6]:PORT or unix:PATH [default: 127.0.0.1:11211]",
        |s, v| { s.memcached = listeners(v)?; Ok(()) }, |s| show_listeners(&s.memcached)),
    Key::new("http", "LISTEN,...|none", "Where metrics, health and statistics are served [default: 127.0.0.1:9191]",
        |s, v| { s.http = listeners(v)?; Ok(()) }, |s| show_listeners(&s.http)),
    Key::new("threads", "N", "Event loops [default: one per core]",
        |s, v| { s.threads = number(v, 1, 256)? as usize; Ok(()) }, |s| s.threads.to_string()),
    Key::new("item_size_max", "SIZE", "Largest item: key, value and 56 bytes, as memcached counts [default: 1MiB]",
        |s, v| { s.item_size_max = bounded(parse_size(v)?, 1024, 512 << 20, show_size)?; Ok(()) }, |s| quoted(show_size(s.item_size_max))),
    Key::new("key_size_max", "BYTES", "Longest key, up to 65535 [default: 250]",
        |s, v| { s.key_size_max = bounded(parse_size(v)?, 1, 65_535, |n| n.to_string())? as usize; Ok(()) }, |s| s.key_size_max.to_string()),
    Key::new("connections_max", "N", "Client connections at one time [default: 1024]",
        |s, v| { s.connections_max = number(v, 1, 1 << 24)? as usize; Ok(()) }, |s| s.connections_max.to_string()),
    Key::new("connections_fast", "BOOL", "At the cap: refuse new connections with an error (true) or leave them waiting (false) [default: true]",
        |s, v| { s.connections_fast = boolean(v)?; Ok(()) }, |s| s.connections_fast.to_string()),
    Key::new("idle_timeout_s", "SECONDS", "Close connections idle for so long; 0 never [default: 0]",
        |s, v| { s.idle_timeout_s = parse_duration_s(v)?; Ok(()) }, |s| s.idle_timeout_s.to_string()),
    Key::new("output_timeout_s", "SECONDS", "Close connections that leave replies unread, or a large value half sent, for so long; 0 never [default: 60]",
        |s, v| { s.output_timeout_s = parse_duration_s(v)?; Ok(()) }, |s| s.output_timeout_s.to_string()),
    Key::new("request_line_max", "SIZE", "Longest line of a get with many keys [default: 1MiB]",
        |s, v| { s.request_line_max = bounded(parse_size(v)?, 2048, 64 << 20, show_size)? as usize; Ok(()) }, |s| quoted(show_size(s.request_line_max as u64))),
    Key::new(
        "keys_per_request_max",
        "N",
        "Keys one get may ask for [default: 100000]",
        |s, v| {
            s.keys_per_request_max = number(v, 1, 1 << 24)? as usize;
            Ok(())
        },
        |s| s.keys_per_request_max.to_string(),
    ),
    Key::new("buffer_pool", "SIZE", "Unfinished requests and unsent replies of all connections; 0 chooses [default: memory/64, at least 4MiB]",
        |s, v| { s.buffer_pool = match parse_size(v)? { 0 => 0, n => bounded(n, 1 << 20, 1 << 40, show_size)? }; Ok(()) }, |s| quoted(show_size(s.buffer_pool))),
    Key::new("requests_per_turn", "N", "Requests of one connection before others have their turn [default: 1024]",
        |s, v| { s.requests_per_turn = number(v, 1, 1 << 20)? as usize; Ok(()) }, |s| s.requests_per_turn.to_string()),
    Key::new("backlog", "N", "Connections the kernel queues for us [default: 1024]",
        |s, v| { s.backlog = number(v, 1, 65_535)? as i32; Ok(()) }, |s| s.backlog.to_string()),
    Key::new("unix_mode", "OCTAL", "Access mode of unix sockets [default: 700]",
        |s, v| { s.unix_mode = u32::from_str_radix(v, 8).ok().filter(|m| *m <= 0o777).ok_or_else(|| format!("{v:?} is no access mode: write octal, for example 700"))?; Ok(()) },
        |s| quoted(format!("{:o}", s.unix_mode))),
    Key::new("drain_deadline_s", "SECONDS", "How long a graceful stop waits for requests under way [default: 10]",
        |s, v| { s.drain_deadline_s = parse_duration_s(v)?; Ok(()) }, |s| s.drain_deadline_s.to_string()),
    Key::new("auth_file", "FILE|none", "Lines user:password; clients must log in by `set x 0 0 N` with `user password`; SIGHUP re-reads it",
        |s, v| { s.auth_file = path(v); Ok(()) }, |s| show_path(&s.auth_file)),
    Key::new("pid_file", "FILE|none", "Where to write the process id",
        |s, v| { s.pid_file = path(v); Ok(()) }, |s| show_path(&s.pid_file)),
    Key::new("handover", "PATH|none", "A unix socket: a server started with the same one takes the listeners over from the one that runs [default: none]",
        |s, v| { s.handover = path(v); Ok(()) }, |s| show_path(&s.handover)),
    Key::new("user", "NAME|none", "Whom to become after binding, when started as root",
        |s, v| { s.user = path(v).map(|p| p.display().to_string()); Ok(()) }, |s| quoted(s.user.as_deref().unwrap_or("none"))),
    Key::new("evict", "BOOL", "Make room by eviction (true) or refuse what does not fit (false) [default: true]",
        |s, v| { s.evict = boolean(v)?; Ok(()) }, |s| s.evict.to_string()),
    Key::new("policy", "gen-duel|lru|mglru|fifo|s3fifo", "Which policy chooses what leaves; all but the first are there to compare [default: gen-duel]",
        |s, v| { s.policy = v.parse()?; Ok(()) }, |s| quoted(s.policy.name())),
    Key::new("objective", "balanced|objects|bytes", "What a miss costs: an item and its bytes, an item, or its bytes [default: balanced]",
        |s, v| { s.objective = v.parse()?; Ok(()) }, |s| quoted(s.objective.name())),
    Key::new("fresh_min", "SIZE|none", "Bytes of later writes that a stored item outlives at least, up to memory/4 [default: the larger of 2 %, 4 segments and the largest item]",
        |s, v| { s.fresh_min = optional(v, parse_size)?; Ok(()) }, |s| quoted(s.fresh_min.map_or_else(|| "none".into(), show_size))),
    Key::new("min_ttl", "TIME|none", "Refuse what is new (out of memory) rather than evict what is younger than this: 500ms, 10s, 5m [default: none]",
        |s, v| { s.min_ttl = optional(v, |v| match parse_duration_ms(v)? { 0 => Err("must be more than 0: leave it out for none".into()), ms => Ok(ms) })?; Ok(()) },
        |s| quoted(s.min_ttl.map_or_else(|| "none".into(), |ms| format!("{ms}ms")))),
    Key::new("groups", "PREFIX[=SHARE%],...|none", "Keys that begin alike, counted together, dropped together by `thermocline drop`, and protected up to a share of the cache [default: none]",
        |s, v| { s.groups = parse_groups(v)?; Ok(()) }, |s| quoted(show_groups(&s.groups))),
    Key::new("allow_flush", "BOOL", "Take flush_all, and over HTTP drops and lru_gen commands [default: true]",
        |s, v| { s.allow_flush = boolean(v)?; Ok(()) }, |s| s.allow_flush.to_string()),
    Key::new("allow_dump", "BOOL", "Take lru_crawler metadump and the key lists [default: true]",
        |s, v| { s.allow_dump = boolean(v)?; Ok(()) }, |s| s.allow_dump.to_string()),
    Key::new("allow_shutdown", "BOOL", "Take shutdown from clients [default: false]",
        |s, v| { s.allow_shutdown = boolean(v)?; Ok(()) }, |s| s.allow_shutdown.to_string()),
    Key::new("allow_watch", "BOOL", "Answer watch with OK [default: true]",
        |s, v| { s.allow_watch = boolean(v)?; Ok(()) }, |s| s.allow_watch.to_string()),
    Key::new("hot_keys", "BOOL", "Keep a sketch of the hottest keys [default: true]",
        |s, v| { s.hot_keys = boolean(v)?; Ok(()) }, |s| s.hot_keys.to_string()),
    Key::new("detail", "BOOL", "Count by key prefix from the start (stats detail) [default: false]",
        |s, v| { s.detail = boolean(v)?; Ok(()) }, |s| s.detail.to_string()),
    Key::new("detail_delimiter", "CHAR", "What ends a key's prefix [default: :]",
        |s, v| { s.detail_delimiter = match v.as_bytes() { [c] => *c, _ => return Err("must be one character".into()) }; Ok(()) },
        |s| quoted(char::from(s.detail_delimiter).to_string())),
    Key::new("log_format", "text|json", "How log lines look [default: text]",
        |s, v| { s.log_format = choice(v, &[("text", LogFormat::Text), ("json", LogFormat::Json)])?; Ok(()) },
        |s| quoted(match s.log_format { LogFormat::Text => "text", LogFormat::Json => "json" })),
    Key::new("log_level", "error|warn|info|debug|trace", "What is logged [default: info]",
        |s, v| { s.log_level = v.parse().map_err(|_| format!("{v:?} is no log level: error, warn, info, debug or trace"))?; Ok(()) },
        |s| quoted(s.log_level.as_str().to_ascii_lowercase())),
    Key::new("test_clock", "BOOL", "Let debugtime move the clock; for tests only [default: false]",
        |s, v| { s.test_clock = boolean(v)?; Ok(()) }, |s| s.test_clock.to_string()),
];

fn number(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let value = text
        .trim()
        .parse()
        .map_err(|_| format!("{text:?} is no whole number"))?;
    bounded(value, min, max, |n| n.to_string())
}

fn bounded(value: u64, min: u64, max: u64, show: fn(u64) -> String) -> Result<u64, String> {
    if (min..=max).contains(&value) {
        return Ok(value);
    }
    Err(format!(
        "{} is out of bounds: from {} to {}",
        show(value),
        show(min),
        show(max)
    ))
}

fn boolean(text: &str) -> Result<bool, String> {
    choice(
        text,
        &[
            ("true", true),
            ("false", false),
            ("yes", true),
            ("no", false),
            ("1", true),
            ("0", false),
        ],
    )
}

fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Result<T, String> {
    choices
        .iter()
        .find(|(name, _)| *name == text)
        .map(|(_, value)| *value)
        .ok_or_else(|| {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            format!("{text:?} must be one of: {}", names.join(", "))
        })
}

fn numa(text: &str) -> Result<Numa, String> {
    let wrong = || {
        format!("{text:?} must be none, bind:NODES or interleave:NODES, for example interleave:0,1")
    };
    if matches!(text, "" | "none") {
        return Ok(Numa::Default);
    }
    let (policy, nodes) = text.split_once(':').ok_or_else(wrong)?;
    let nodes: Result<Vec<u32>, String> = nodes
        .split(',')
        .map(|node| number(node, 0, 63).map(|node| node as u32))
        .collect();
    match policy {
        "bind" => Ok(Numa::Bind(nodes?)),
        "interleave" => Ok(Numa::Interleave(nodes?)),
        _ => Err(wrong()),
    }
}

fn show_numa(numa: &Numa) -> String {
    let list = |nodes: &[u32]| {
        let nodes: Vec<String> = nodes.iter().map(u32::to_string).collect();
        nodes.join(",")
    };
    match numa {
        Numa::Bind(nodes) => format!("bind:{}", list(nodes)),
        Numa::Interleave(nodes) => format!("interleave:{}", list(nodes)),
        _ => "none".into(),
    }
}

fn optional<T>(text: &str, parse: fn(&str) -> Result<T, String>) -> Result<Option<T>, String> {
    match text {
        "" | "none" => Ok(None),
        text => parse(text).map(Some),
    }
}

fn path(text: &str) -> Option<PathBuf> {
    match text {
        "" | "none" => None,
        text => Some(text.into()),
    }
}

fn listeners(text: &str) -> Result<Vec<Listen>, String> {
    text.split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty() && *part != "none")
        .map(Listen::parse)
        .collect()
}

fn quoted(text: impl Into<String>) -> String {
    toml::Value::String(text.into()).to_string()
}

fn show_path(path: &Option<PathBuf>) -> String {
    quoted(
        path.as_ref()
            .map_or("none".into(), |p| p.display().to_string()),
    )
}

fn show_listeners(listeners: &[Listen]) -> String {
    let parts: Vec<String> = listeners.iter().map(|l| quoted(l.to_string())).collect();
    format!("[{}]", parts.join(", "))
}
