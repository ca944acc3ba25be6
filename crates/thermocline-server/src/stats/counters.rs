//! Counters with one writer each: a worker adds to its own without a locked instruction, anybody may sum.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A count that only one thread adds to.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Only the owning worker calls this: two callers at once would lose counts.
    #[inline]
    pub fn add(&self, by: u64) {
        self.0.store(self.0.load(Relaxed) + by, Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// One worker's counts. Aligned so that workers do not share cache lines.
        #[derive(Debug, Default)]
        #[repr(align(128))]
        pub struct WorkerCounters { $($(#[$doc])* pub $name: Count),* }

        /// Sums over workers, or differences of sums.
        #[derive(Debug, Default, Clone, Copy)]
        pub struct Totals { $($(#[$doc])* pub $name: u64),* }

        impl Totals {
            pub fn add(&mut self, counters: &WorkerCounters) {
                $(self.$name += counters.$name.get();)*
            }

            /// What has been counted since `before`.
            pub fn since(&self, before: &Totals) -> Totals {
                Totals { $($name: self.$name.saturating_sub(before.$name)),* }
            }

            /// All counts by name, for metrics.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
            }
        }
    };
}

counters! {
    /// Keys looked up, whatever the command.
    cmd_get,
    /// `get` and `gets` lines.
    cmd_get_lines,
    cmd_set,
    cmd_flush,
    cmd_touch,
    cmd_meta,
    get_hits,
    get_misses,
    delete_hits,
    delete_misses,
    incr_hits,
    incr_misses,
    decr_hits,
    decr_misses,
    cas_hits,
    cas_misses,
    cas_badval,
    touch_hits,
    touch_misses,
    store_too_large,
    store_no_memory,
    auth_cmds,
    auth_errors,
    /// Values stored.
    total_items,
    bytes_read,
    bytes_written,
    conn_yields,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_add_up_and_subtract() {
        let (one, two) = (WorkerCounters::default(), WorkerCounters::default());
        one.get_hits.add(3);
        two.get_hits.add(4);
        let mut totals = Totals::default();
        totals.add(&one);
        let before = totals;
        totals.add(&two);
        assert_eq!(totals.get_hits, 7);
        assert_eq!(totals.since(&before).get_hits, 4);
        let mut seen = 0;
        totals.each(|name, value| seen += u64::from(name == "get_hits") * value);
        assert_eq!(seen, 7);
    }
}
