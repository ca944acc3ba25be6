//! How hard memory is pressed, as one number, from what reclaim did lately.
//!
//! ```text
//! 0 quiet    nothing was demoted for a minute
//! 1 demoting items go a tier down; nothing is lost yet: the early warning
//! 2 evicting the compressed tier is full, its coldest leave
//! 3 thrashing a tenth or more of what leaves is asked for again
//! 4 stalled  writers wait or are refused
//! ```
//! Rises at once, falls when a level was not reached for its hold time: so one scan does not make it flicker.

/// Quiet for so long, the next demotion raises the early warning.
const QUIET_MS: u64 = 60_000;
const HOLD_MS: u64 = 10_000;
/// Refaults over evictions from which it is thrashing.
const THRASHING: f64 = 0.1;

/// Counters since the start, as of now.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Seen {
    pub(crate) demoted: u64,
    pub(crate) evicted: u64,
    pub(crate) refaults: u64,
    pub(crate) refused: u64,
    /// Reads that found nothing.
    pub(crate) missed: u64,
}

#[derive(Default)]
pub(crate) struct Gauge {
    last: Seen,
    /// When each level was last reached, ms; 0 = never.
    reached_ms: [u64; 5],
}

impl Gauge {
    /// Takes note of the counters; to be called a few times a second. Returns the level, and whether this is
    /// the first demotion after a quiet minute.
    pub(crate) fn look(&mut self, now_ms: u64, seen: Seen) -> (u8, bool) {
        let last = std::mem::replace(&mut self.last, seen);
        let demoted = seen.demoted > last.demoted;
        // Without a background thread several writers look: one that counted earlier may come later.
        let evicted = seen.evicted.saturating_sub(last.evicted);
        let refaults = seen.refaults.saturating_sub(last.refaults);
        let warns = demoted && self.is_quiet(now_ms);
        let reached = [
            (1, demoted),
            (2, evicted > 0),
            (
                3,
                evicted > 0 && refaults as f64 >= evicted as f64 * THRASHING,
            ),
            (4, seen.refused > last.refused),
        ];
        for (level, _) in reached.into_iter().filter(|(_, reached)| *reached) {
            self.reached_ms[level] = now_ms.max(1);
        }
        (self.level(now_ms), warns)
    }

    fn is_quiet(&self, now_ms: u64) -> bool {
        let last = self.reached_ms[1];
        last == 0 || now_ms.saturating_sub(last) >= QUIET_MS
    }

    fn level(&self, now_ms: u64) -> u8 {
        (1..=4u8)
            .rev()
            .find(|&level| {
                let at = self.reached_ms[level as usize];
                let hold = if level == 1 { QUIET_MS } else { HOLD_MS };
                at != 0 && now_ms.saturating_sub(at) < hold
            })
            .unwrap_or(0)
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn the_first_demotion_after_a_quiet_minute_warns_once() {
        let mut gauge = Gauge::default();
        let seen = |demoted| Seen {
            demoted,
            ..Seen::default()
        };
        assert_eq!(gauge.look(1_000, seen(0)), (0, false));
        assert_eq!(gauge.look(1_100, seen(5)), (1, true));
        assert_eq!(gauge.look(1_200, seen(9)), (1, false));
        assert_eq!(gauge.look(30_000, seen(9)), (1, false));
        assert_eq!(gauge.look(61_300, seen(9)), (0, false));
        assert_eq!(gauge.look(61_400, seen(10)), (1, true));
    }

    #[test]
    fn levels_rise_at_once_and_fall_after_their_hold() {
        let mut gauge = Gauge::default();
        let seen = |evicted, refaults, refused| Seen {
            demoted: 1,
            evicted,
            refaults,
            refused,
            missed: 0,
        };
        assert_eq!(gauge.look(1_000, seen(0, 0, 0)).0, 1);
        assert_eq!(gauge.look(2_000, seen(100, 5, 0)).0, 2);
        assert_eq!(gauge.look(3_000, seen(200, 25, 0)).0, 3);
        assert_eq!(gauge.look(4_000, seen(200, 25, 1)).0, 4);
        assert_eq!(gauge.look(12_900, seen(200, 25, 1)).0, 4);
        assert_eq!(gauge.look(14_000, seen(300, 25, 1)).0, 2);
        assert_eq!(gauge.look(40_000, seen(300, 25, 1)).0, 1);
    }
}
