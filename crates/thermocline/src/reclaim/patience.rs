//! How long writes wait for room: each by itself, and all of one thread together.
//!
//! A thread that serves many at once (an event loop) says with `limit_waits` what it can spare; what its writes have
//! waited is taken off that, and when nothing is left they are refused at once.

use crate::config::{GUARDED_MAX, REFUSE_AFTER, SHRINK_AFTER, STALL_WAIT};
use std::cell::Cell;
use std::time::{Duration, Instant};

/// Work that brings nothing nearer is given up after so many times the idle limit.
const BUSY_FACTOR: u32 = 20;
/// The same of what a thread can spare: work is worth more than waiting.
const SPARE_FACTOR: u32 = 5;
/// What a write may work for itself when its thread has nothing left to spare.
const BUSY_MIN: Duration = Duration::from_millis(1);
/// Pins end by themselves, when their preempted threads run again; guards may not. So much more patience
/// with pins.
const PINNED_FACTOR: u32 = 10;
/// Of the time between two looks so much counts towards a limit. What took longer was not the cache's doing: the thread, or
/// the whole machine, stood still (a virtual one for seconds), and so did all that it waits for.
const LOOK_MAX: Duration = STALL_WAIT.saturating_mul(4);
/// How long who evicts on request waits where pins stand in the way.
pub(super) const REQUEST_PATIENCE: Duration = REFUSE_AFTER.saturating_mul(PINNED_FACTOR);

thread_local! {
    static LEFT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// From now on this thread's writes, to whatever cache, wait for room no longer than `total` all together; then they
/// are refused with `Error::NoRoom` as soon as nothing can be done without waiting. A loop that serves many clients
/// calls it at the beginning of each turn. None (as at the start): each write waits as long as it may by itself.
pub fn limit_waits(total: Option<Duration>) {
    LEFT.set(total);
}

/// The limits of one write, or of one change of the budget.
pub(super) struct Patience {
    /// Nothing could be done for so long.
    pub(super) idle: Duration,
    /// The same where only guards stand in the way: who waits may be the one thread that would let them go.
    pub(super) guarded: Duration,
    pub(super) pinned: Duration,
    /// Work went on and brought nothing nearer.
    pub(super) busy: Duration,
    /// All waits together.
    pub(super) in_all: Duration,
    began: Instant,
    looked: Instant,
    seen: Duration,
    waited: Duration,
    /// It is on the thread's account.
    counts: bool,
}

impl Patience {
    pub(super) fn of_write() -> Patience {
        let own = Patience {
            idle: REFUSE_AFTER,
            guarded: GUARDED_MAX,
            pinned: REFUSE_AFTER * PINNED_FACTOR,
            busy: REFUSE_AFTER * BUSY_FACTOR,
            in_all: Duration::MAX,
            began: Instant::now(),
            looked: Instant::now(),
            seen: Duration::ZERO,
            waited: Duration::ZERO,
            counts: true,
        };
        let Some(left) = LEFT.get() else { return own };
        Patience {
            idle: own.idle.min(left),
            guarded: own.guarded.min(left),
            pinned: own.pinned.min(left),
            busy: own
                .busy
                .min(left.saturating_mul(SPARE_FACTOR).max(BUSY_MIN)),
            in_all: left,
            ..own
        }
    }

    /// `set_memory` gives back what guards may hold.
    pub(super) fn of_shrinking() -> Patience {
        Patience {
            idle: SHRINK_AFTER,
            guarded: SHRINK_AFTER,
            pinned: SHRINK_AFTER * PINNED_FACTOR,
            busy: SHRINK_AFTER * BUSY_FACTOR,
            in_all: Duration::MAX,
            began: Instant::now(),
            looked: Instant::now(),
            seen: Duration::ZERO,
            waited: Duration::ZERO,
            counts: false,
        }
    }

    /// The time since it began that counts: of each stretch between two calls no more than `LOOK_MAX`.
    pub(super) fn look(&mut self) -> Duration {
        let now = Instant::now();
        self.seen += (now - self.looked).min(LOOK_MAX);
        self.looked = now;
        self.seen
    }

    /// It has waited once more; false when that was too much in all.
    pub(super) fn has_waited(&mut self, time: Duration) -> bool {
        self.waited += time;
        self.waited < self.in_all
    }

    /// Takes what it cost off what the thread can spare: the waits, and all of a try that failed.
    pub(super) fn settle(self, made: bool) {
        let cost = match made {
            true => self.waited,
            false => self.began.elapsed(),
        };
        if self.counts {
            LEFT.set(LEFT.get().map(|left| left.saturating_sub(cost)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_stood_still_ends_no_patience() {
        let mut patience = Patience::of_write();
        let before = patience.look();
        std::thread::sleep(REFUSE_AFTER * 2);
        let after = patience.look();
        assert!(after > before && after - before <= LOOK_MAX);
        assert!(LOOK_MAX < REFUSE_AFTER / 4);
    }

    #[test]
    fn what_one_write_waited_the_next_ones_do_not() {
        let spare = Duration::from_millis(20);
        limit_waits(Some(spare));
        let mut first = Patience::of_write();
        assert_eq!((first.pinned, first.guarded), (spare, GUARDED_MAX));
        assert_eq!(first.busy, spare * SPARE_FACTOR);
        assert!(first.has_waited(spare / 2) && !first.has_waited(spare / 2));
        first.settle(true);
        let second = Patience::of_write();
        assert_eq!((second.idle, second.busy), (Duration::ZERO, BUSY_MIN));
        assert!(Patience::of_shrinking().in_all > SHRINK_AFTER);
        limit_waits(Some(Duration::MAX));
        assert_eq!(Patience::of_write().idle, REFUSE_AFTER);
        limit_waits(None);
        assert_eq!(Patience::of_write().idle, REFUSE_AFTER);
    }
}
