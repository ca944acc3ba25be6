//! Of the items that leave, how many come back: what room for one more would be worth.
//!
//! A ghost remembers an item for about one turnover of the cache; an insertion that finds its ghost is one that came back.
//! Pure: counters in, a share out.

/// So many leaving items are enough to tell by.
const KNOWN_FROM: u64 = 256;
/// After so many all counts are halved: what goes on now counts most.
const HALVED_AT: u64 = 8192;
/// Where reads miss less often than one time for so many items that leave, the cache is being filled, and who comes back
/// will be seen later.
const READ_FROM: u64 = 8;

/// Counters since the start, as of now.
#[derive(Clone, Copy, Default, Debug, PartialEq)]
pub(crate) struct Left {
    pub(crate) evicted: u64,
    pub(crate) refaults: u64,
    /// Reads that found nothing.
    pub(crate) missed: u64,
}

/// The same, lately.
#[derive(Default, Debug)]
pub(crate) struct Returns {
    last: Left,
    lately: Left,
}

impl Returns {
    /// Takes note of the counters.
    pub(crate) fn look(&mut self, now: Left) {
        let last = std::mem::replace(&mut self.last, now);
        let lately = &mut self.lately;
        // Without a background thread several writers look: one that counted earlier may come later.
        lately.evicted += now.evicted.saturating_sub(last.evicted);
        lately.refaults += now.refaults.saturating_sub(last.refaults);
        lately.missed += now.missed.saturating_sub(last.missed);
        while lately.evicted >= HALVED_AT {
            lately.evicted /= 2;
            lately.refaults /= 2;
            lately.missed /= 2;
        }
    }

    /// The share that comes back, 0 to 1; None: not known.
    pub(crate) fn share(&self) -> Option<f64> {
        let lately = &self.lately;
        let is_known = lately.evicted >= KNOWN_FROM && lately.missed * READ_FROM >= lately.evicted;
        is_known.then(|| (lately.refaults as f64 / lately.evicted as f64).min(1.0))
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    fn left(evicted: u64, refaults: u64, missed: u64) -> Left {
        Left {
            evicted,
            refaults,
            missed,
        }
    }

    #[test]
    fn it_is_the_share_of_late() {
        let mut returns = Returns::default();
        assert_eq!(returns.share(), None);
        returns.look(left(100, 50, 100));
        assert_eq!(returns.share(), None, "too few to tell");
        returns.look(left(1_000, 500, 1_000));
        assert_eq!(returns.share(), Some(0.5));
        for n in 1..100 {
            returns.look(left(1_000 + n * 1_000, 500 + n * 100, 1_000 + n * 1_000));
        }
        let share = returns.share().unwrap();
        assert!((0.09..0.11).contains(&share), "{share}");
    }

    #[test]
    fn a_cache_that_is_only_written_tells_nothing() {
        let mut returns = Returns::default();
        returns.look(left(10_000, 0, 100));
        assert_eq!(returns.share(), None);
    }
}
