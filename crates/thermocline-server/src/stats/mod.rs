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

/// A figure as JSON has it: counts and bytes without a fraction.
pub fn json_number(value: f64) -> serde_json::Value {
    /// Beyond this not every whole number is an f64.
    const WHOLE_MAX: f64 = 9_007_199_254_740_992.0;
    match value.fract() == 0.0 && (0.0..WHOLE_MAX).contains(&value) {
        true => serde_json::json!(value as u64),
        false => serde_json::json!(value),
    }
}
