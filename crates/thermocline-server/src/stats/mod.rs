//! What the server counts and how it tells: counters per worker, prefixes, big keys, and memcached's `stats`.

mod big_keys;
mod counters;
mod detail;
mod report;
pub mod tiers;

pub use big_keys::BigKeys;
pub use counters::{Totals, WorkerCounters};
pub use detail::Detail;
pub use report::{
    big_keys, connections, general, hot_keys, items, listeners, pages, rusage_seconds, settings,
    slabs, Lines,
};

/// Keys one listing of hot or big keys shows at most.
pub const KEYS_LISTED_MAX: usize = 1000;
