//! What the operator asked for, from four places: flags > environment > file > defaults.
//!
//! Owns: every setting with its unit, default and bounds, and where it may be written down.
//! Leaves to others: acting on it. `Settings` is plain data, checked once, never changed while the server runs
//! (SIGHUP re-reads the password file that it names).

mod cgroup;
mod groups;
mod keys;
mod layers;
mod listen;
pub mod memcached;
mod size;
mod suggest;

pub use cgroup::{default_memory_bytes, limit_in, memory_groups, memory_there_is, MemoryGroup};
pub use groups::{parse_groups, show_groups};
pub use keys::{key, Key, KEYS};
pub use layers::{flags, resolve, ConfigError, Layers};
pub use listen::{twice, Listen};
pub use size::{parse_duration_ms, parse_duration_s, parse_size, show_size};
pub use suggest::nearest;
pub use thermocline::{Numa, PageMode};

use std::path::PathBuf;
use thermocline::MEMORY_MIN;

/// Connection buffers may take this much when the operator names no limit: never under 4 MiB, else a 64th of memory.
const BUFFER_POOL_BYTES_MIN: u64 = 4 << 20;
const BUFFER_POOL_SHARE: u64 = 64;

/// Under pressure a cache keeps this share of its memory, unless the operator says otherwise.
const MEMORY_MIN_SHARE: u64 = 4;

/// memcached's own default: 1 MiB, its item header included.
pub const ITEM_SIZE_MAX_DEFAULT: u64 = 1 << 20;
/// What memcached charges to an item beside its key and value: with it, the largest value stored is the same as there.
pub const ITEM_HEADER_BYTES: u64 = 56;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Text,
    Json,
}

#[derive(Clone, Debug)]
pub struct Settings {
    /// Bytes; bounds the whole process.
    pub memory: u64,
    /// Bytes up to which `cache_memlimit` may grow the cache; None means twice `memory`.
    pub memory_max: Option<u64>,
    /// Bytes: under pressure the budget is made smaller down to this; None means a quarter of `memory`.
    pub memory_min: Option<u64>,
    /// Give memory back under pressure.
    pub pressure: bool,
    pub page_mode: PageMode,
    pub extent_use: thermocline::ExtentUse,
    pub compress: thermocline::CompressMode,
    pub compress_with: thermocline::CompressOptions,
    /// The directory of the memory file, for `shmem`.
    pub memory_dir: Option<PathBuf>,
    pub memory_lock: bool,
    pub numa: Numa,
    /// Percent of the time that making pages huge in the background may take.
    pub collapse_percent: u32,
    /// Touch all memory before serving.
    pub prefault: bool,
    pub memcached: Vec<Listen>,
    pub http: Vec<Listen>,
    pub threads: usize,
    /// Bytes of key, value and header together, as memcached counts them.
    pub item_size_max: u64,
    pub key_size_max: usize,
    pub connections_max: usize,
    /// At the cap: refuse a new connection with an error (true), or leave it waiting unaccepted (false).
    pub connections_fast: bool,
    /// Seconds; 0 means connections may idle for ever.
    pub idle_timeout_s: u64,
    /// Seconds a connection may leave its replies unread or a large value unfinished; 0 means for ever.
    pub output_timeout_s: u64,
    /// Bytes of a `get` line with many keys; other lines end at the key limit plus 4 KiB.
    pub request_line_max: usize,
    /// Keys of one `get`.
    pub keys_per_request_max: usize,
    /// Bytes all connections together may hold of unfinished requests and unsent replies; 0 chooses.
    pub buffer_pool: u64,
    /// Requests carried out for one connection before the others have their turn.
    pub requests_per_turn: usize,
    pub backlog: i32,
    pub unix_mode: u32,
    pub drain_deadline_s: u64,
    pub auth_file: Option<PathBuf>,
    pub pid_file: Option<PathBuf>,
    /// A unix socket at which the next server takes over.
    pub handover: Option<PathBuf>,
    pub user: Option<String>,
    pub evict: bool,
    pub policy: thermocline::ReclaimPolicy,
    pub objective: thermocline::Objective,
    /// Bytes; None leaves it to the engine.
    pub fresh_min: Option<u64>,
    /// Milliseconds; None: evict however young.
    pub min_ttl: Option<u64>,
    /// Groups of keys, by prefix.
    pub groups: Vec<thermocline::Group>,
    pub allow_flush: bool,
    pub allow_dump: bool,
    pub allow_shutdown: bool,
    pub allow_watch: bool,
    pub hot_keys: bool,
    pub detail: bool,
    pub detail_delimiter: u8,
    pub log_format: LogFormat,
    pub log_level: tracing::Level,
    pub test_clock: bool,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            memory: default_memory_bytes(),
            memory_max: None,
            compress: thermocline::CompressMode::Auto,
            compress_with: thermocline::CompressOptions::default(),
            memory_min: None,
            pressure: true,
            page_mode: PageMode::Auto,
            extent_use: thermocline::ExtentUse::Compound,
            memory_dir: None,
            memory_lock: false,
            numa: Numa::Default,
            collapse_percent: 2,
            prefault: false,
            memcached: vec![Listen::tcp("127.0.0.1:11211")],
            http: vec![Listen::tcp("127.0.0.1:9191")],
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            item_size_max: ITEM_SIZE_MAX_DEFAULT,
            key_size_max: 250,
            connections_max: 1024,
            connections_fast: true,
            idle_timeout_s: 0,
            output_timeout_s: 60,
            request_line_max: 1 << 20,
            keys_per_request_max: 100_000,
            buffer_pool: 0,
            requests_per_turn: 1024,
            backlog: 1024,
            unix_mode: 0o700,
            drain_deadline_s: 10,
            auth_file: None,
            pid_file: None,
            handover: None,
            user: None,
            evict: true,
            policy: thermocline::ReclaimPolicy::default(),
            objective: thermocline::Objective::default(),
            fresh_min: None,
            min_ttl: None,
            groups: Vec::new(),
            allow_flush: true,
            allow_dump: true,
            allow_shutdown: false,
            allow_watch: true,
            hot_keys: true,
            detail: false,
            detail_delimiter: b':',
            log_format: LogFormat::Text,
            log_level: tracing::Level::INFO,
            test_clock: false,
        }
    }
}

impl Settings {
    /// The limit in force for connection buffers, bytes.
    pub fn buffer_pool_bytes(&self) -> u64 {
        match self.buffer_pool {
            0 => (self.memory / BUFFER_POOL_SHARE).max(BUFFER_POOL_BYTES_MIN),
            bytes => bytes,
        }
    }

    /// How far pressure may shrink the budget, bytes.
    pub fn memory_min_bytes(&self) -> u64 {
        self.memory_min.unwrap_or(self.memory / MEMORY_MIN_SHARE)
    }

    /// The largest value a key of this length may have, bytes.
    pub fn value_size_max(&self, key_bytes: usize) -> u64 {
        self.item_size_max
            .saturating_sub(ITEM_HEADER_BYTES + key_bytes as u64)
    }

    /// Everything in use, as a TOML file that would bring it about.
    pub fn to_toml(&self) -> String {
        KEYS.iter()
            .map(|key| format!("{} = {}\n", key.name, (key.show)(self)))
            .collect()
    }

    /// Bounds that involve more than one setting.
    pub fn check(&self) -> Result<(), String> {
        if self.memcached.is_empty() {
            return Err("memcached: no listener; name one, for example 127.0.0.1:11211".into());
        }
        if self.memory < 1 << 20 {
            return Err(format!(
                "memory = {} bytes is no budget for a server: give the number a unit, for example {}MiB",
                self.memory,
                self.memory.max(64)
            ));
        }
        if self.memory_min.is_some_and(|min| min > self.memory) {
            return Err("memory_min is above memory: lower it or leave it out".into());
        }
        if self.memory_max.is_some_and(|max| max < self.memory) {
            return Err("memory_max is below memory: leave it out or raise it".into());
        }
        // What is too small for any cache the engine refuses, and says how much is needed.
        match self.memory < MEMORY_MIN {
            true => Ok(()),
            false => self.check_shares(),
        }
    }

    /// Settings that may not be more than a share of memory.
    fn check_shares(&self) -> Result<(), String> {
        for (name, bytes) in [
            ("item_size_max", self.item_size_max),
            ("buffer_pool", self.buffer_pool_bytes()),
        ] {
            if bytes > self.memory / 4 {
                return Err(format!(
                    "{name} ({}) must not be more than a quarter of memory ({}): raise memory or lower {name}",
                    show_size(bytes),
                    show_size(self.memory)
                ));
            }
        }
        Ok(())
    }
}
