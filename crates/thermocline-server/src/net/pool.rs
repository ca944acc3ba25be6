//! Two counts of the bytes connections hold: unfinished requests, and unsent replies with what waits behind them.
//!
//! Each may take half of `buffer_pool`. In the first three quarters of an account everybody fits. In the last only those
//! fit who hold less than their fair share of the first three, so that hogs are closed and small holders are not. Past
//! it nobody fits. Who does not fit is closed: the bytes have already arrived, and reading on is the only way in which an
//! unfinished request gets finished, so refusing to read would free nothing.
//!
//! The pool's memory is lent by the cache: a little is reserved from the start, the rest is leased as it is used and goes
//! back when it is not, so that an idle pool holds items. It goes back once a second, when what was freed has gone back to the
//! system: freed buffers between others that are in use stay with the allocator.
//!
//! Replies that the socket has not taken may be values that lie compressed in the cache. Those were decoded into the
//! heap; they have an account of their own, a quarter of memory, leased like the pool. Past half of it slow readers of
//! such values are closed, past all of it whoever has waited longest: at once, so that the account is never exceeded.
//!
//! Must hold: whoever keeps bytes charges them, whoever lets go of them takes the charge back.

use super::WHOLE_BYTES_MAX;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use thermocline::Lease;

/// What one connection is charged with, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Charge {
    pub input: u64,
    pub output: u64,
    /// Bytes of the cache's memory kept from being reused by replies.
    pub held: u64,
    /// Bytes of our own that values take which were decoded for replies.
    pub decoded: u64,
    /// Bytes of the cache's memory kept from being reused by values on their way in.
    pub streamed: u64,
}

/// Bytes that a value on its way in keeps from being reused once `taken` bytes of it have come: the segment it is
/// written to, and beyond that twice its bytes, for other values lie between its pieces.
pub fn pinned_bytes(taken: u64, segment_bytes: u64) -> u64 {
    segment_bytes + 2 * taken.saturating_sub(segment_bytes / 4)
}

/// Bytes of the pool that are reserved from the start: what a calm server's connections hold.
const RESERVED_BYTES: u64 = 1 << 20;
/// Grain of what is leased beyond, bytes.
const LEASE_BYTES: u64 = 512 << 10;

/// Of a pool of `limit` bytes, those that are reserved from the start.
pub fn reserved_bytes(limit: u64) -> u64 {
    limit.min(RESERVED_BYTES)
}

/// What a pool that has reserved so much and uses so much is to have leased, given what it has. Half a grain is kept
/// free, and given back is only what two grains more would not need: bytes that come and go do not move the lease.
fn lease_for(used: u64, leased: u64, reserved: u64, limit: u64) -> u64 {
    let wanted = |spare: u64| {
        let beyond = (used + spare).saturating_sub(reserved);
        beyond
            .next_multiple_of(LEASE_BYTES)
            .min(limit.saturating_sub(reserved))
    };
    match leased {
        few if few < wanted(LEASE_BYTES / 2) => wanted(LEASE_BYTES / 2),
        many if many > wanted(3 * LEASE_BYTES) => wanted(LEASE_BYTES / 2),
        enough => enough,
    }
}

#[derive(Debug)]
struct Account {
    used: AtomicU64,
    holders: AtomicU64,
    limit: u64,
}

impl Account {
    fn new(limit: u64) -> Account {
        Account {
            used: AtomicU64::new(0),
            holders: AtomicU64::new(0),
            limit,
        }
    }

    fn recharge(&self, before: u64, after: u64) {
        self.used.fetch_add(after, Relaxed);
        self.used.fetch_sub(before, Relaxed);
        match (before, after) {
            (0, 1..) => self.holders.fetch_add(1, Relaxed),
            (1.., 0) => self.holders.fetch_sub(1, Relaxed),
            _ => 0,
        };
    }

    /// Whether a holder of so many bytes, already charged, may keep them.
    fn fits(&self, own: u64) -> bool {
        let (used, free_for_all) = (self.used.load(Relaxed), self.limit / 4 * 3);
        if own == 0 || used <= free_for_all {
            return true;
        }
        let share = free_for_all / self.holders.load(Relaxed).max(1);
        used <= self.limit && own <= share
    }

    fn is_tight(&self) -> bool {
        self.used.load(Relaxed) > self.limit / 2
    }
}

#[derive(Debug)]
pub struct Pool {
    input: Account,
    output: Account,
    /// Bytes of the cache's memory that wait for slow readers.
    held: AtomicU64,
    /// Bytes of our own that decoded values take: see the top.
    decoded: AtomicU64,
    /// Bytes of the cache's memory that values on their way in keep.
    streamed: AtomicU64,
    /// The whole budget as it is now, bytes.
    memory: AtomicU64,
    segment_bytes: u64,
    loops: u64,
    limit: u64,
    /// Bytes leased beyond those reserved, to be compared without the lock.
    leased: AtomicU64,
    lease: Option<Mutex<Lease>>,
}

/// What is filling up: the pool's two accounts, and the cache's memory where readers keep more than an eighth of it.
#[derive(Clone, Copy, Debug)]
pub struct Tight {
    input: bool,
    output: bool,
    held: bool,
}

impl Tight {
    /// Whether a connection holds part of it: then it must not stand still.
    pub fn is_for(&self, charge: Charge) -> bool {
        (self.input && charge.input > 0)
            || (self.output && charge.output > 0)
            || (self.held && charge.held > 0)
    }
}

impl Pool {
    /// `memory` is the whole budget.
    pub fn new(
        limit: u64,
        memory: u64,
        segment_bytes: u64,
        loops: u64,
        lease: Option<Lease>,
    ) -> Pool {
        Pool {
            leased: AtomicU64::new(0),
            lease: lease.map(Mutex::new),
            input: Account::new(limit / 2),
            output: Account::new(limit / 2),
            held: AtomicU64::new(0),
            decoded: AtomicU64::new(0),
            streamed: AtomicU64::new(0),
            memory: AtomicU64::new(memory),
            segment_bytes,
            loops,
            limit,
        }
    }

    /// The budget has changed, by order or under pressure: so do the shares of it.
    pub fn set_memory(&self, bytes: u64) {
        self.memory.store(bytes, Relaxed);
    }

    fn memory(&self) -> u64 {
        self.memory.load(Relaxed)
    }

    /// The engine lets readers hold the larger of 2 % and min(16 MiB, an eighth) before writes are refused; slow readers get
    /// half of that.
    fn held_max(&self) -> u64 {
        (self.memory() / 100).max((self.memory() / 16).min(8 << 20))
    }

    /// The same for values too large to be copied into the pool.
    fn held_large_max(&self) -> u64 {
        self.memory() / 8
    }

    fn decoded_max(&self) -> u64 {
        self.memory() / 4
    }

    /// Values on their way in may keep half of memory, so that the other half can still be reclaimed.
    fn streamed_max(&self) -> u64 {
        self.memory() / 2
    }

    /// The charge of one connection changes.
    pub fn recharge(&self, before: Charge, after: Charge) {
        self.input.recharge(before.input, after.input);
        self.output.recharge(before.output, after.output);
        self.held.fetch_add(after.held, Relaxed);
        self.held.fetch_sub(before.held, Relaxed);
        self.decoded.fetch_add(after.decoded, Relaxed);
        self.decoded.fetch_sub(before.decoded, Relaxed);
        self.streamed.fetch_add(after.streamed, Relaxed);
        self.streamed.fetch_sub(before.streamed, Relaxed);
        let own = |charge: Charge| [charge.input, charge.output, charge.decoded];
        if own(before) != own(after) {
            self.follow();
        }
    }

    /// The lease that what is used now takes, given the one there is.
    fn wanted(&self, leased: u64) -> u64 {
        let used = self.used() + self.decoded.load(Relaxed);
        let limit = self.limit + self.decoded_max();
        lease_for(used, leased, reserved_bytes(self.limit), limit)
    }

    /// Leases what is used.
    fn follow(&self) {
        let leased = self.leased.load(Relaxed);
        if self.wanted(leased) > leased {
            self.lease_anew(|lease, wanted| {
                if wanted > lease.bytes() {
                    lease.resize(wanted);
                }
            });
        }
    }

    /// Whether more is leased than is used: then `give_back` is to be called.
    pub fn has_to_give(&self) -> bool {
        let leased = self.leased.load(Relaxed);
        self.wanted(leased) < leased
    }

    /// Gives back what is not used.
    pub fn give_back(&self) {
        if self.has_to_give() {
            self.lease_anew(|lease, wanted| lease.give_back(wanted));
        }
    }

    fn lease_anew(&self, change: impl FnOnce(&mut Lease, u64)) {
        let Some(lease) = &self.lease else { return };
        let mut lease = lease.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = self.wanted(lease.bytes());
        change(&mut lease, wanted);
        self.leased.store(lease.bytes(), Relaxed);
    }

    /// Whether a connection may keep what it is charged with.
    pub fn fits(&self, charge: Charge) -> bool {
        self.input.fits(charge.input) && self.output.fits(charge.output)
    }

    /// What is filling up now. `held_bytes` as in `slow_from_s`.
    pub fn tight(&self, held_bytes: impl FnOnce() -> u64) -> Tight {
        let (charged, most) = (self.held.load(Relaxed), self.held_large_max());
        Tight {
            input: self.input.is_tight(),
            output: self.output.is_tight(),
            held: charged > most && held_bytes() > most,
        }
    }

    /// Whether slow readers may hold `more` bytes beyond those they hold already, for a value of `value_bytes`. One
    /// that the pool could not take is held as long as an eighth of memory allows: its reader is not slow, its value
    /// is large.
    pub fn may_hold(&self, more: u64, value_bytes: u64) -> bool {
        let most = match value_bytes > self.request_bytes_max() {
            true => self.held_large_max().max(self.held_max()),
            false => self.held_max(),
        };
        self.held.load(Relaxed) + more <= most
    }

    /// Whether so many bytes of unsent replies could be copied into the pool while everybody fits, even if every event
    /// loop asks at the same moment: copies are charged at the end of a turn, and nobody is to be closed for ours.
    pub fn could_copy(&self, bytes: u64) -> bool {
        self.output.used.load(Relaxed) + bytes * self.loops <= self.output.limit / 4 * 3
    }

    /// From how many seconds on a reader is too slow: `patience_s` while slow readers hold more than an eighth of
    /// memory, 0 past a half; None: they hold less. `held_bytes` tells what is really held, for what is charged counts
    /// a value once for each reader.
    pub fn slow_from_s(&self, patience_s: u32, held_bytes: impl FnOnce() -> u64) -> Option<u32> {
        let charged = self.held.load(Relaxed);
        if charged <= self.held_large_max() {
            return None;
        }
        match charged.min(held_bytes()) {
            much if much > 4 * self.held_large_max() => Some(0),
            some if some > self.held_large_max() => Some(patience_s),
            _ => None,
        }
    }

    /// The same for readers of decoded values: from half of what these may take on, and past all of it.
    pub fn decoded_slow_from_s(&self, patience_s: u32) -> Option<u32> {
        match self.decoded.load(Relaxed) {
            much if much > self.decoded_max() => Some(0),
            some if some > self.decoded_max() / 2 => Some(patience_s),
            _ => None,
        }
    }

    /// Whether so many bytes more may be decoded for later turns.
    pub fn may_decode(&self, more: u64) -> bool {
        more == 0 || !self.leases() || self.decoded.load(Relaxed) + more <= self.decoded_max()
    }

    /// Whether memory can be leased. Where it cannot, decoded values are charged to the pool as other bytes are.
    pub fn leases(&self) -> bool {
        self.lease.is_some()
    }

    /// Whether values on their way in keep so much that none may stand still: a quarter of memory.
    pub fn streams_are_tight(&self) -> bool {
        self.streamed.load(Relaxed) > self.streamed_max() / 2
    }

    /// Whether a value on its way in may keep so much more.
    pub fn may_stream(&self, more: u64) -> bool {
        more == 0 || self.streamed.load(Relaxed) + more <= self.streamed_max()
    }

    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The largest request that may wait until it is whole, bytes.
    pub fn request_bytes_max(&self) -> u64 {
        (self.input.limit / 8 * 5).min(WHOLE_BYTES_MAX)
    }

    pub fn used(&self) -> u64 {
        self.input.used.load(Relaxed) + self.output.used.load(Relaxed)
    }

    pub fn limit(&self) -> u64 {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(bytes: u64) -> Charge {
        Charge {
            output: bytes,
            ..Charge::default()
        }
    }

    #[test]
    fn hogs_do_not_fit_and_small_holders_do() {
        let pool = Pool::new(4000, 1 << 30, 2 << 20, 2, None);
        for _ in 0..5 {
            pool.recharge(Charge::default(), output(300));
        }
        assert!(pool.fits(output(300)), "1500 of the first 1500");
        pool.recharge(Charge::default(), output(300));
        assert!(
            !pool.fits(output(300)),
            "more than a sixth of the first 1500"
        );
        assert!(pool.fits(output(200)), "less than that");
        let input = Charge {
            input: 900,
            ..Charge::default()
        };
        pool.recharge(Charge::default(), input);
        assert!(pool.fits(input), "requests have an account of their own");
        pool.recharge(Charge::default(), output(1000));
        assert!(!pool.fits(output(1)), "past the limit nobody fits");
        pool.recharge(output(1000), Charge::default());
        pool.recharge(output(300), Charge::default());
        assert!(pool.fits(output(300)) && pool.fits(Charge::default()));
        assert_eq!(pool.used(), 1500 + 900);
    }

    #[test]
    fn the_lease_follows_what_is_used_in_steps() {
        const M: u64 = 1 << 20;
        let lease = |used, leased| lease_for(used, leased, M, 8 * M);
        assert_eq!(lease(0, 0), 0);
        assert_eq!(lease(M / 2, 0), 0);
        assert_eq!(lease(M, 0), LEASE_BYTES);
        assert_eq!(lease(5 * M, LEASE_BYTES), 4 * M + LEASE_BYTES);
        assert_eq!(lease(100 * M, 0), 7 * M, "never more than the pool");
        assert_eq!(lease(4 * M, 4 * M + LEASE_BYTES), 4 * M + LEASE_BYTES);
        assert_eq!(lease(0, 7 * M), 0, "and back");
    }

    #[test]
    fn a_pool_in_use_is_charged_to_the_cache() {
        let mut config = thermocline::Config::new(64 << 20);
        config.background = false;
        let cache = thermocline::Cache::new(config).expect("room");
        let before = cache.stats().charged_bytes;
        let pool = Pool::new(4 << 20, 64 << 20, 1 << 19, 2, Some(cache.lease()));
        pool.recharge(Charge::default(), output(3 << 20));
        assert!(cache.stats().leased_bytes >= 2 << 20);
        assert!(cache.stats().charged_bytes >= before + (2 << 20));
        pool.recharge(output(3 << 20), Charge::default());
        assert!(pool.has_to_give() && cache.stats().leased_bytes >= 2 << 20);
        pool.give_back();
        assert!(!pool.has_to_give());
        assert_eq!(cache.stats().leased_bytes, 0);
        assert_eq!(cache.stats().charged_bytes, before);
    }

    #[test]
    fn limits_follow_the_budget() {
        let pool = Pool::new(100, 64 << 20, 1 << 20, 2, None);
        let charge = Charge {
            held: 5 << 20,
            decoded: 5 << 20,
            streamed: 5 << 20,
            ..Charge::default()
        };
        pool.recharge(Charge::default(), charge);
        let slow = |pool: &Pool| (pool.slow_from_s(2, || 5 << 20), pool.decoded_slow_from_s(2));
        assert_eq!(slow(&pool), (None, None));
        assert!(pool.may_stream(20 << 20));
        pool.set_memory(16 << 20);
        assert_eq!(slow(&pool), (Some(2), Some(0)));
        assert!(!pool.may_stream(4 << 20) && pool.streams_are_tight());
    }

    #[test]
    fn held_bytes_are_counted() {
        let pool = Pool::new(100, 2 << 30, 2 << 20, 2, None);
        assert!(pool.may_hold(20 << 20, 1) && !pool.may_hold(21 << 20, 1));
        assert!(pool.may_hold(200 << 20, 100 << 20) && !pool.may_hold(300 << 20, 100 << 20));
        let held = Charge {
            held: 15 << 20,
            ..Charge::default()
        };
        pool.recharge(Charge::default(), held);
        assert!(pool.may_hold(5 << 20, 1) && !pool.may_hold(6 << 20, 1));
    }

    #[test]
    fn who_holds_much_must_not_stand_still() {
        let pool = Pool::new(100, 64 << 20, 1 << 20, 2, None);
        let held = Charge {
            held: 5 << 20,
            ..Charge::default()
        };
        let is_tight = |held_bytes: u64| pool.tight(|| held_bytes).is_for(held);
        pool.recharge(Charge::default(), held);
        assert!(!is_tight(60 << 20), "others hold that");
        pool.recharge(Charge::default(), held);
        assert!(!is_tight(8 << 20), "it is the same value");
        assert!(is_tight(9 << 20));
        assert!(!pool.tight(|| 9 << 20).is_for(Charge::default()));
    }

    #[test]
    fn decoded_values_are_leased_and_their_slowest_readers_go() {
        let mut config = thermocline::Config::new(64 << 20);
        config.background = false;
        let cache = thermocline::Cache::new(config).expect("room");
        let lease = Some(cache.lease());
        let pool = Pool::new(4 << 20, 64 << 20, 1 << 20, 2, lease);
        let decoded = Charge {
            decoded: 6 << 20,
            ..Charge::default()
        };
        pool.recharge(Charge::default(), decoded);
        assert!(cache.stats().leased_bytes >= 5 << 20);
        assert_eq!(pool.decoded_slow_from_s(2), None);
        assert!(pool.may_decode(10 << 20) && !pool.may_decode(11 << 20));
        pool.recharge(Charge::default(), decoded);
        assert_eq!(pool.decoded_slow_from_s(2), Some(2));
        pool.recharge(Charge::default(), decoded);
        assert_eq!(pool.decoded_slow_from_s(2), Some(0));
        assert!(pool.fits(decoded) && pool.used() == 0);
        for _ in 0..3 {
            pool.recharge(decoded, Charge::default());
        }
        pool.give_back();
        assert_eq!(cache.stats().leased_bytes, 0);
    }

    #[test]
    fn slow_readers_get_less_time_the_more_they_hold() {
        let pool = Pool::new(100, 64 << 20, 1 << 20, 2, None);
        let held = Charge {
            held: 5 << 20,
            ..Charge::default()
        };
        let slow_from = |held_bytes: u64| pool.slow_from_s(2, || held_bytes);
        pool.recharge(Charge::default(), held);
        assert_eq!(slow_from(60 << 20), None, "others hold that");
        pool.recharge(Charge::default(), held);
        assert_eq!(slow_from(8 << 20), None, "it is the same value");
        assert_eq!(slow_from(9 << 20), Some(2));
        for _ in 0..5 {
            pool.recharge(Charge::default(), held);
        }
        assert_eq!(slow_from(32 << 20), Some(2));
        assert_eq!(slow_from(60 << 20), Some(0));
    }

    #[test]
    fn values_on_their_way_in_keep_half_of_memory_at_most() {
        let pool = Pool::new(100, 64 << 20, 1 << 20, 2, None);
        let stream = Charge {
            streamed: pinned_bytes(100_000, pool.segment_bytes()),
            ..Charge::default()
        };
        for _ in 0..32 {
            assert!(pool.may_stream(stream.streamed));
            pool.recharge(Charge::default(), stream);
        }
        assert!(!pool.may_stream(1) && pool.may_stream(0));
        assert!(pool.streams_are_tight());
        pool.recharge(stream, Charge::default());
        assert!(pool.may_stream(stream.streamed));
    }
}
