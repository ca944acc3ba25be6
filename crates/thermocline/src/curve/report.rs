//! The curve as it is told: hit ratios by memory, how far to trust them, and what may be given back.

use super::{Requests, Sampler, Weights, AS_IT_IS, FACTORS};

/// Sizes beyond the miniatures', as multiples of the cache, and the factor of the miniature next to each.
const FAR: [(f64, usize); 4] = [(0.0625, 0), (0.125, 0), (8.0, 4), (16.0, 4)];

/// How a hit ratio was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Estimate {
    /// A miniature of the cache under its own policy.
    Miniature,
    /// An LRU curve of sampled keys, moved to meet the nearest miniature.
    Lru,
}

/// One size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CurvePoint {
    /// Memory, as a multiple of the cache's.
    pub factor: f64,
    /// Memory, bytes.
    pub memory_bytes: u64,
    /// Hits over requests as they come of late, 0 to 1.
    pub hit_ratio: f64,
    /// The same since the cache was made.
    pub hit_ratio_since_start: f64,
    /// How it was found.
    pub estimate: Estimate,
}

/// What the hit ratio would be with other amounts of memory. From a sample of the keys: see `error`.
#[derive(Clone, Debug, PartialEq)]
pub struct MissRatioCurve {
    /// The cache's memory now, bytes.
    pub memory_bytes: u64,
    /// Its hit ratio of late, as counted: requests are reads that hit and items stored under a new key, or
    /// refused for their size.
    pub hit_ratio: f64,
    /// The same since the cache was made.
    pub hit_ratio_since_start: f64,
    /// How far the miniature of the cache as it is lay from what the cache really did, of late, before all sizes
    /// were moved by that much: the error to expect near the cache's own size is less. 0 to 1.
    pub error: f64,
    /// Requests since the cache was made.
    pub requests: u64,
    /// One in so many keys is sampled.
    pub sampling: f64,
    /// Bytes the curve itself takes; charged to the budget.
    pub bytes: u64,
    /// By memory, the least first.
    pub points: Vec<CurvePoint>,
}

impl MissRatioCurve {
    /// The hit ratio at `memory_bytes`, on the line between the two sizes around it; None outside of them, or
    /// before there was a request.
    pub fn hit_ratio_at(&self, memory_bytes: u64) -> Option<f64> {
        let after = self
            .points
            .iter()
            .position(|point| point.memory_bytes >= memory_bytes)?;
        let right = &self.points[after];
        if right.memory_bytes == memory_bytes {
            return Some(right.hit_ratio);
        }
        let left = self.points.get(after.checked_sub(1)?)?;
        let log = |bytes: u64| (bytes.max(1) as f64).ln();
        let share = (log(memory_bytes) - log(left.memory_bytes))
            / (log(right.memory_bytes) - log(left.memory_bytes)).max(f64::MIN_POSITIVE);
        Some(left.hit_ratio + (right.hit_ratio - left.hit_ratio) * share)
    }

    /// Memory that could be given back for `points` (of a hundred) of hit ratio, bytes: 0 if none, as far as
    /// the curve reaches.
    pub fn spare_bytes(&self, points: f64) -> u64 {
        let Some(now) = self.hit_ratio_at(self.memory_bytes) else {
            return 0;
        };
        let wanted = now - points / 100.0;
        let least = self
            .points
            .first()
            .map_or(self.memory_bytes, |point| point.memory_bytes);
        let (mut enough, mut little) = (self.memory_bytes, least);
        let holds = |bytes| {
            self.hit_ratio_at(bytes)
                .is_some_and(|ratio| ratio >= wanted)
        };
        if holds(least) {
            return self.memory_bytes - least;
        }
        // To a thousandth of the cache.
        while enough - little > self.memory_bytes / 1000 + 1 {
            let middle = little + (enough - little) / 2;
            match holds(middle) {
                true => enough = middle,
                false => little = middle,
            }
        }
        self.memory_bytes - enough
    }
}

impl Sampler {
    pub(super) fn report(&self, memory_bytes: u64, requests: Requests) -> MissRatioCurve {
        let (hits, inserts) = (self.recent_hits(requests), self.recent_inserts(requests));
        let all = (requests.all(), hits + inserts);
        let measured = (ratio(requests.hits as f64, all.0), ratio(hits, all.1));
        let seen = |missed: Weights| {
            (
                1.0 - ratio(missed.total, all.0),
                1.0 - ratio(missed.recent, all.1),
            )
        };
        let as_it_is = seen(self.miniatures[AS_IT_IS].missed);
        let off = (as_it_is.0 - measured.0, as_it_is.1 - measured.1);
        // What is off by chance is off at all sizes; with every key sampled nothing is left to chance.
        let by_chance = 1.0 - 1.0 / self.weight();
        let mut points: Vec<CurvePoint> = Vec::new();
        for (miniature, factor) in self.miniatures.iter().zip(FACTORS) {
            let (since_start, recent) = seen(miniature.missed);
            points.push(CurvePoint {
                factor,
                memory_bytes: (memory_bytes as f64 * factor) as u64,
                hit_ratio: (recent - off.1 * by_chance).clamp(0.0, 1.0),
                hit_ratio_since_start: (since_start - off.0 * by_chance).clamp(0.0, 1.0),
                estimate: Estimate::Miniature,
            });
        }
        let near = points.clone();
        for (factor, nearest) in FAR {
            let at = self.lru.hits(self.capacity_bytes as f64 * factor);
            let there = self.lru.hits(self.capacity_bytes as f64 * FACTORS[nearest]);
            let moved = |base: f64, at: f64, there: f64, all: f64| {
                (base + ratio(at, all) - ratio(there, all)).clamp(0.0, 1.0)
            };
            points.push(CurvePoint {
                factor,
                memory_bytes: (memory_bytes as f64 * factor) as u64,
                hit_ratio: moved(near[nearest].hit_ratio, at.1, there.1, all.1),
                hit_ratio_since_start: moved(
                    near[nearest].hit_ratio_since_start,
                    at.0,
                    there.0,
                    all.0,
                ),
                estimate: Estimate::Lru,
            });
        }
        points.sort_by(|a, b| a.factor.total_cmp(&b.factor));
        MissRatioCurve {
            memory_bytes,
            hit_ratio: measured.1,
            hit_ratio_since_start: measured.0,
            error: off.1.abs(),
            requests: requests.hits + requests.inserts,
            sampling: self.weight(),
            bytes: self.bytes(),
            points,
        }
    }
}

/// A share between 0 and 1: what a sample makes of it may lie beyond.
fn ratio(part: f64, whole: f64) -> f64 {
    if whole <= 0.0 {
        return 0.0;
    }
    (part / whole).clamp(0.0, 1.0)
}
