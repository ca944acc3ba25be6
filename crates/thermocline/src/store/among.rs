//! Survivors among what is new: bytes that reclaim put where main's writers had something open.

use crate::sync::{AtomicU64, Ordering};

/// Bytes of survivors in what main's writers have open. They were counted when they were put into main and are not counted
/// again when the segment is sealed.
pub(crate) struct AmongNew(AtomicU64);

impl AmongNew {
    pub(super) fn new() -> AmongNew {
        AmongNew(AtomicU64::new(0))
    }

    /// So many more lie in one of the open segments.
    pub(crate) fn add(&self, bytes: u64) {
        self.0.fetch_add(bytes, Ordering::Relaxed);
    }

    /// One of them is sealed with `used` bytes: what is new of them. Which of several lanes holds survivors is not known:
    /// what one segment cannot hold is left for the next.
    pub(super) fn new_of(&self, used: u64) -> u64 {
        let less = |among: u64| Some(among - among.min(used));
        let before = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        let among = before.unwrap_or_else(|unchanged| unchanged);
        used - among.min(used)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lanes, most of both survivors: 250 bytes were used, 130 of them are survivors.
    #[test]
    fn what_survived_is_counted_once_however_many_segments_are_open() {
        let among = AmongNew::new();
        among.add(130);
        assert_eq!(among.new_of(100) + among.new_of(150), 120);
        assert_eq!(among.new_of(70), 70);
    }
}
