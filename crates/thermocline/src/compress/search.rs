//! Whether coding takes LZ4's better search: pure, from measured times and bytes.
//!
//! It makes values shorter and takes several times as long. What it saves is room, and room is worth what is hit there:
//! of the items that leave a share comes back within about one turnover of the cache, and each of those would have been a
//! hit had it stayed. So, a value:
//! ```text
//! gain  = bytes it saves / bytes of an item  x  share of leaving items that come back  x  what a miss takes
//! cost  = time it takes beside the fast search  x  (share of it that holds the coder's own work up + threads that wait)
//! ```
//! A writer that codes waits for all of it. The background thread takes processors from requests as far as those are busy:
//! where half of their time lies idle, half of what the search takes is nobody's, but a quarter counts always.
//!
//! The two shares together count as a tenth as long as they are not measured, and never as more: where the search costs
//! more than a tenth of a miss the fast one does.

/// Both shares together, at the most.
const SHARES_MAX: f64 = 0.1;
/// What is taken for granted until it is measured: the search's time, nanoseconds, and its share of an item's bytes.
const EXTRA_NS: f64 = 8_000.0;
const SAVED_SHARE: f64 = 0.2;
/// Of leaving items so many are taken to come back, until that is known.
const BACK_SHARE: f64 = 0.5;
/// A miss nobody has timed takes so long, nanoseconds.
const MISS_NS: f64 = 1e6;
/// Bytes of an item beside key and value: header, slot, ghost.
const ITEM_BYTES: usize = 20;
/// Idle processors are not for nothing: they take current, and others may want them.
const BUSY_MIN: f64 = 0.25;
/// Where it does not pay, one value in so many is searched so all the same: what it would bring is known then.
const PROBE_EVERY: u32 = 256;
/// Weight of a new measurement: 1/32. One that is so many times the mean was interrupted and counts as that.
const WEIGHT: f64 = 1.0 / 32.0;
const INTERRUPTED: f64 = 4.0;

/// What the search is judged by that others know.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Worth {
    /// Of the items that leave, the share that comes back; None: not known.
    pub(crate) back_share: Option<f64>,
    /// Threads that the search holds up: those that wait for room, and as much of one as the search takes of whoever codes.
    pub(crate) held: f64,
    /// What a miss takes, nanoseconds; 0: not known.
    pub(crate) miss_ns: u64,
}

/// How a value is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Fast,
    /// By the better search, which pays.
    Better,
    /// By the better search, which does not, to see what it would bring and take.
    Probe,
}

/// What the better search was found to bring, and to take.
#[derive(Debug)]
pub(crate) struct Search {
    extra_ns: f64,
    saved_share: f64,
    probes: u32,
    /// What it took since this was asked for.
    took_ns: u64,
}

impl Default for Search {
    fn default() -> Search {
        Search {
            extra_ns: EXTRA_NS,
            saved_share: SAVED_SHARE,
            probes: 0,
            took_ns: 0,
        }
    }
}

impl Worth {
    /// What the search takes of whoever codes: all of a writer, and of a background thread the share of the processors' time
    /// that is used (`busy`).
    pub(crate) fn own(in_background: bool, busy: f64) -> f64 {
        match in_background {
            true => busy.clamp(BUSY_MIN, 1.0),
            false => 1.0,
        }
    }
}

impl Search {
    /// Whether it pays.
    pub(crate) fn pays(&self, worth: &Worth) -> bool {
        let shares = self.saved_share * worth.back_share.unwrap_or(BACK_SHARE);
        let miss_ns = match worth.miss_ns {
            0 => MISS_NS,
            ns => ns as f64,
        };
        self.extra_ns * worth.held < shares.min(SHARES_MAX) * miss_ns
    }

    /// How the next value is searched.
    pub(crate) fn next(&mut self, worth: &Worth) -> Next {
        self.probes = self.probes.wrapping_add(1);
        match (self.pays(worth), self.probes % PROBE_EVERY == 0) {
            (true, _) => Next::Better,
            (false, true) => Next::Probe,
            (false, false) => Next::Fast,
        }
    }

    /// How long it took since this was asked last, nanoseconds.
    pub(crate) fn take_ns(&mut self) -> u64 {
        std::mem::take(&mut self.took_ns)
    }

    /// It made `fast_bytes` of the fast search's to `high_bytes`, and took the processor so long beside that one. `ns`: None
    /// where it was not timed, 0 where the system does not tell.
    pub(crate) fn took(
        &mut self,
        ns: Option<u64>,
        key_bytes: usize,
        fast_bytes: usize,
        high_bytes: usize,
    ) {
        let item_bytes = (ITEM_BYTES + key_bytes + fast_bytes) as f64;
        let share = fast_bytes.saturating_sub(high_bytes) as f64 / item_bytes;
        self.saved_share += (share - self.saved_share) * WEIGHT;
        if let Some(ns) = ns.filter(|&ns| ns > 0) {
            self.took_ns += ns;
            let ns = (ns as f64).min(self.extra_ns * INTERRUPTED);
            self.extra_ns += (ns - self.extra_ns) * WEIGHT;
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn searched(ns: u64, fast_bytes: usize, high_bytes: usize) -> Search {
        let mut search = Search::default();
        (0..500).for_each(|_| search.took(Some(ns), 20, fast_bytes, high_bytes));
        search
    }

    fn worth(back_share: Option<f64>, waiting: u32, miss_ns: u64) -> Worth {
        Worth {
            back_share,
            held: Worth::own(false, 0.0) + f64::from(waiting),
            miss_ns,
        }
    }

    /// The design's rule, as long as nothing but the time is known.
    #[test]
    fn a_tenth_of_a_miss_is_the_most_it_may_take() {
        let search = searched(12_000, 215, 159);
        assert!(search.pays(&worth(None, 0, 0)), "a miss of a millisecond");
        assert!(search.pays(&worth(None, 0, 125_000)));
        assert!(!search.pays(&worth(None, 0, 115_000)));
        assert!(!search.pays(&worth(Some(1.0), 0, 115_000)), "never more");
        assert!(!search.pays(&worth(None, 0, 1_000)), "cheap misses");
    }

    /// What leaves and is not asked for again needs no room; nor does a search that hardly makes it shorter.
    #[test]
    fn room_is_worth_what_comes_back() {
        let search = searched(5_000, 215, 159);
        assert!(search.pays(&worth(Some(0.4), 0, 100_000)));
        assert!(!search.pays(&worth(Some(0.15), 0, 100_000)));
        let little = searched(5_000, 215, 210);
        assert!(!little.pays(&worth(Some(0.4), 0, 100_000)));
    }

    /// Its time is the time of all who wait for it.
    #[test]
    fn who_waits_counts() {
        let search = searched(5_000, 215, 159);
        assert!(search.pays(&worth(None, 0, 100_000)));
        assert!(!search.pays(&worth(None, 1, 100_000)));
        assert!(search.pays(&worth(None, 7, 1_000_000)));
    }

    /// What the background thread takes of idle processors it takes from nobody.
    #[test]
    fn idle_processors_make_it_cheaper_for_the_background_thread_alone() {
        let search = searched(15_000, 215, 159);
        let pays = |in_background, busy, waiting| {
            search.pays(&Worth {
                held: Worth::own(in_background, busy) + waiting,
                ..worth(None, 0, 100_000)
            })
        };
        assert!(pays(true, 0.5, 0.0));
        assert!(!pays(true, 0.9, 0.0), "requests want the processors");
        assert!(!pays(true, 0.5, 1.0), "a writer waits");
        assert!(!pays(false, 0.5, 0.0), "a writer codes");
        let slow = searched(45_000, 215, 159);
        let idle = Worth::own(true, 0.0);
        assert!(!slow.pays(&Worth {
            held: idle,
            ..worth(None, 0, 100_000)
        }));
    }

    #[test]
    fn where_it_does_not_pay_it_is_tried_now_and_then() {
        let mut search = searched(20_000, 215, 159);
        let cheap = worth(None, 0, 10_000);
        let tried = (0..25_600)
            .filter(|_| search.next(&cheap) == Next::Probe)
            .count();
        assert_eq!(tried, 100);
    }

    /// Where it was not timed, or the system does not tell, what it takes is what it was.
    #[test]
    fn what_is_not_known_of_its_time_changes_nothing() {
        let mut search = searched(12_000, 215, 159);
        for ns in [None, Some(0)] {
            (0..500).for_each(|_| search.took(ns, 20, 215, 159));
            assert!(!search.pays(&worth(None, 0, 115_000)), "{search:?}");
        }
        (0..500).for_each(|_| search.took(None, 20, 215, 210));
        assert!(!search.pays(&worth(None, 0, 400_000)), "it saves less");
    }

    /// A thread that is interrupted for milliseconds makes it no dearer.
    #[test]
    fn interrupted_measurements_count_little() {
        let mut search = searched(5_000, 215, 159);
        search.took(Some(4_000_000), 20, 215, 159);
        assert!(search.pays(&worth(None, 0, 100_000)), "{search:?}");
    }
}
