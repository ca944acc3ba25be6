//! The one hook by which accesses reach those that sample them: the duel of the policy, the live curve, and the duel
//! of compression. They are told of reads that hit, items stored under a new key, items written over, keys removed.
//!
//! All sample by the same bits of the hash, so one bound, the highest of theirs, does for all: most calls end at one
//! load and one comparison (`Store::is_watched`), and the rest is out of line.

use super::Cache;
use super::Inner;
use crate::compress::Came;
use crate::config::ITEM_DEFAULT_MAX;
use crate::curve::{Access, Curve, Limit, MissRatioCurve, Now, Requests};
use crate::item::Kind;
use crate::location::Place;
use crate::metrics::Counter;
use crate::policy::Conditions;
use crate::store::{Seen, Store};
use crate::sync::Ordering;

/// Segments of the capacity that hold no live items in the mean, beside the reserve: halves of the open ones.
const UNFILLED_SEGMENTS: u64 = 1;

impl Cache {
    /// What the hit ratio would be with other amounts of memory, of late and since the start: estimated from
    /// sampled keys, under this cache's own policy. None if `Config::curve` is off. Takes the sample's lock for
    /// some microseconds.
    pub fn miss_ratio_curve(&self) -> Option<MissRatioCurve> {
        let store = &self.inner.store;
        let curve = store.curve.as_ref()?;
        Some(curve.report(store.budget.limit_bytes(), requests(store)))
    }
}

impl Inner {
    /// An access of a key whose item takes `bytes`, its chunks included. No pin may be held.
    #[inline(always)]
    pub(crate) fn accessed(&self, access: Access, hash: u64, bytes: usize) {
        if self.store.is_watched(hash) {
            self.accessed_watched(access, hash, bytes);
        }
    }

    #[cold]
    #[inline(never)]
    fn accessed_watched(&self, access: Access, hash: u64, bytes: usize) {
        self.tell_samplers(access, Came::Read, hash, bytes);
        self.tidy_curve();
        self.store.watch_again();
    }

    /// The same of a record that was just published at `place`, over another or not. Under a pin: what the curve
    /// has to tidy waits for `tidy_curve`.
    #[inline(always)]
    pub(crate) fn accessed_at(&self, access: Access, hash: u64, place: Place) {
        if self.store.is_watched(hash) {
            self.accessed_at_watched(access, hash, place);
        }
    }

    #[cold]
    #[inline(never)]
    fn accessed_at_watched(&self, access: Access, hash: u64, place: Place) {
        let bytes = item_bytes(&self.store.look(place));
        self.tell_samplers(access, Came::Stored, hash, bytes);
        self.store.watch_again();
    }

    fn tell_samplers(&self, access: Access, came: Came, hash: u64, bytes: usize) {
        let store = &self.store;
        let steering = store.policy.steering();
        if steering.is_sampled(hash) {
            steering.sample(hash, bytes as u64, store.policy.mean_size());
        }
        let came = match access {
            Access::Request => came,
            Access::Overwrite => Came::Stored,
        };
        store.compress.control.sees(hash, bytes, came);
        if let Some(curve) = store.curve.as_ref().filter(|curve| curve.samples(hash)) {
            self.tell_curve(curve, access, hash, bytes);
        }
    }

    fn tell_curve(&self, curve: &Curve, access: Access, hash: u64, bytes: usize) {
        curve.access(access, hash, bytes as u64, &self.now());
    }

    /// What the cache runs under.
    fn now(&self) -> Now<'_> {
        let store = &self.store;
        let capacity = store.facts.capacity_bytes.load(Ordering::Relaxed).max(1);
        let segment = store.segments.bytes() as u64;
        // As the duel has it: the fresh floor, and the open segment that is part of probation.
        let floor = (store.fresh_min_bytes(0) + segment) as f64 / capacity as f64;
        Now {
            conditions: Conditions {
                setting: store.setting(),
                mean: store.policy.mean_size(),
                share_min: floor,
            },
            capacity_bytes: capacity
                .saturating_sub((store.reserve_segments() as u64 + UNFILLED_SEGMENTS) * segment),
        }
    }

    /// A value of `bytes` under a new key that the cache did not let in this time. No pin may be held.
    pub(crate) fn refused(&self, hash: u64, bytes: usize) {
        let steering = self.store.policy.steering();
        if steering.is_sampled(hash) {
            steering.sample(hash, bytes as u64, self.store.policy.mean_size());
        }
        if let Some(curve) = &self.store.curve {
            curve.count_refused();
            if curve.samples(hash) {
                self.tell_curve(curve, Access::Request, hash, bytes);
            }
            self.tidy_curve();
        }
        self.store.watch_again();
    }

    /// A value of `bytes` under a new key that is over the limit: what a larger cache may take.
    pub(crate) fn refused_over_limit(&self, hash: u64, bytes: usize) {
        let Some(curve) = &self.store.curve else {
            return;
        };
        curve.count_refused();
        if curve.samples(hash) {
            let now = self.now();
            let limit = self.item_size_max.load(Ordering::Relaxed);
            let limit = Limit::new(limit, now.capacity_bytes, ITEM_DEFAULT_MAX);
            curve.over_limit(hash, bytes as u64, &now, limit);
        }
    }

    /// After an access, no pin held: what the curve has to tidy is left to the background thread, unless there is
    /// none or it does not come.
    #[inline(always)]
    pub(crate) fn tidy_curve(&self) {
        if let Some(curve) = &self.store.curve {
            if curve.is_due() {
                self.have_curve_tidied(curve);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn have_curve_tidied(&self, curve: &Curve) {
        match &self.bell {
            Some(bell) if !curve.is_overdue() => bell.ring(),
            _ => self.tidy_curve_now(),
        }
    }

    /// Tidies the curve, if that is due.
    pub(crate) fn tidy_curve_now(&self) {
        if let Some(curve) = &self.store.curve {
            curve.tidy(|| requests(&self.store));
            self.store.watch_again();
        }
    }

    /// A caller removed the key.
    #[inline]
    pub(crate) fn removed(&self, hash: u64) {
        if self.store.is_watched(hash) {
            self.removed_watched(hash);
        }
    }

    #[cold]
    #[inline(never)]
    fn removed_watched(&self, hash: u64) {
        let steering = self.store.policy.steering();
        if steering.is_sampled(hash) {
            steering.forget(hash);
        }
        if let Some(curve) = &self.store.curve {
            curve.forget(hash);
        }
    }
}

/// Bytes an item takes, its chunks included.
#[inline(always)]
pub(super) fn item_bytes(seen: &Seen<'_>) -> usize {
    match seen.layout.kind {
        Kind::Chunked => seen.layout.reserved + seen.layout.value_bytes,
        _ => seen.layout.reserved,
    }
}

/// The same as it was before it was compressed, if it was; its value has `value_bytes` then.
#[inline(always)]
pub(super) fn plain_item_bytes(seen: &Seen<'_>, value_bytes: usize) -> usize {
    match seen.layout.is_coded() {
        true => seen.layout.reserved - seen.layout.value_bytes + value_bytes,
        false => item_bytes(seen),
    }
}

fn requests(store: &Store) -> Requests {
    let refused = store.curve.as_ref().map_or(0, Curve::refused);
    Requests {
        hits: store.counters.sum(Counter::Hits),
        inserts: store.counters.sum(Counter::Inserts) + refused,
    }
}
