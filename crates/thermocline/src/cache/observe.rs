//! What the live curve is told of: reads that hit, items stored under a new key, items written over, keys removed.
//! Most calls end at one load and one comparison; only sampled keys go on.

use super::Cache;
use super::Inner;
use crate::curve::{Access, Curve, MissRatioCurve, Now, Requests};
use crate::item::Kind;
use crate::location::Place;
use crate::metrics::Counter;
use crate::policy::Conditions;
use crate::store::{Seen, Store, RESERVE_SEGMENTS};
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
    /// An access of a key whose item takes `bytes`. May be called under a pin.
    #[inline(always)]
    pub(crate) fn observe(&self, access: Access, hash: u64, bytes: usize) {
        if let Some(curve) = &self.store.curve {
            if curve.samples(hash) {
                self.observe_sampled(curve, access, hash, bytes);
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn observe_sampled(&self, curve: &Curve, access: Access, hash: u64, bytes: usize) {
        let store = &self.store;
        let capacity = store.facts.capacity_bytes.load(Ordering::Relaxed).max(1);
        let segment = store.segments.bytes() as u64;
        // As the duel has it: the fresh floor, and the open segment that is part of probation.
        let floor = (store.fresh_min_bytes(0) + segment) as f64 / capacity as f64;
        let now = Now {
            conditions: Conditions {
                setting: store.setting(),
                mean: store.policy.mean_size(),
                share_min: floor,
            },
            capacity_bytes: capacity
                .saturating_sub((RESERVE_SEGMENTS as u64 + UNFILLED_SEGMENTS) * segment),
        };
        curve.access(access, hash, bytes as u64, &now);
    }

    /// A record that was just published at `place`, over another or not.
    #[inline(always)]
    pub(crate) fn observe_published(&self, access: Access, hash: u64, place: Place) {
        if let Some(curve) = &self.store.curve {
            if curve.samples(hash) {
                let bytes = item_bytes(&self.store.look(place));
                self.observe_sampled(curve, access, hash, bytes);
            }
        }
    }

    /// After an access, no pin held: what the curve has to tidy.
    #[inline(always)]
    pub(crate) fn tidy_curve(&self) {
        if let Some(curve) = &self.store.curve {
            curve.tidy(|| requests(&self.store));
        }
    }

    /// The key was removed.
    #[inline]
    pub(crate) fn forget_observed(&self, hash: u64) {
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

fn requests(store: &Store) -> Requests {
    Requests {
        hits: store.counters.sum(Counter::Hits),
        inserts: store.counters.sum(Counter::Inserts),
    }
}
