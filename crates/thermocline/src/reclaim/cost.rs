//! What compaction costs beside what the cache is used for, taken from the counters window by window.

use crate::metrics::Counter;
use crate::policy::CompactShare;
use crate::store::Store;
use crate::sync::Ordering;

/// A window is over when so large a share of the capacity was appended or copied.
const WINDOW_SHARE: u64 = 128;

#[derive(Default)]
pub(super) struct Cost {
    share: CompactShare,
    copied: u64,
    /// The counters when the window began.
    appended: u64,
    hits: u64,
}

impl Cost {
    pub(super) fn share(&self) -> f64 {
        self.share.share()
    }

    /// A compaction has copied so many bytes.
    pub(super) fn copied(&mut self, bytes: u64) {
        self.copied += bytes;
    }

    /// Something was sealed: time to look whether a window is over.
    pub(super) fn follow(&mut self, store: &Store) {
        let appended = store.counters.sum(Counter::InsertedBytes);
        let window = store.facts.capacity_bytes.load(Ordering::Relaxed) / WINDOW_SHARE;
        let fresh = appended.saturating_sub(self.appended);
        if fresh + self.copied < window {
            return;
        }
        let hits = store.counters.sum(Counter::Hits);
        let found = hits.saturating_sub(self.hits) as f64 * store.policy.mean_size();
        self.share.follow(self.copied, fresh, found);
        (self.copied, self.appended, self.hits) = (0, appended, hits);
    }
}
