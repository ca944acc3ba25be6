//! Time as the engine sees it: milliseconds since the Unix epoch, from a clock that never jumps.
//!
//! The wall clock is read once, when a cache is made; after that a monotonic clock carries it on, so
//! that a corrected wall clock neither expires items early nor keeps them for ever.

use crate::mem;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Where a cache reads the time. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub enum Clock {
    /// The machine's clock, coarse (1 to 4 ms).
    #[default]
    System,
    /// A clock that moves only when told to: milliseconds since the Unix epoch. For tests.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// A clock that stands at `unix_ms` until it is moved.
    pub fn manual(unix_ms: u64) -> Clock {
        Clock::Manual(Arc::new(AtomicU64::new(unix_ms)))
    }

    /// Moves a manual clock on; does nothing to the system's.
    pub fn advance_ms(&self, by: u64) {
        if let Clock::Manual(now) = self {
            now.fetch_add(by, Ordering::SeqCst);
        }
    }
}

/// A clock in use: the offset between monotonic and wall time is fixed here.
#[derive(Clone, Debug)]
pub(crate) struct Time {
    clock: Clock,
    offset_ms: u64,
}

impl Time {
    pub(crate) fn new(clock: Clock) -> Time {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .map(|since| since.as_millis() as u64)
            .unwrap_or(0);
        Time {
            clock,
            offset_ms: wall.saturating_sub(mem::monotonic_ms()),
        }
    }

    /// Milliseconds since the Unix epoch.
    #[inline]
    pub(crate) fn now_ms(&self) -> u64 {
        match &self.clock {
            Clock::System => mem::monotonic_ms() + self.offset_ms,
            Clock::Manual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// Seconds since the Unix epoch, saturating in 2106.
    pub(crate) fn now_s(&self) -> u32 {
        (self.now_ms() / 1000).min(u32::MAX as u64) as u32
    }
}
