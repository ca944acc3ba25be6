//! The live miss-ratio curve: what the hit ratio would be with a quarter to four times the memory, and further.
//!
//! Owns the sample of keys, a miniature of the cache for each size, and what they have seen. A miniature is the
//! policy's own shadow under the setting in force, so the curve is our policy's, not LRU's (whose curve, taken
//! for ours, was off by 2.9 points in the mean and 19 at worst). Leaves which accesses there are to the cache.
//!
//! ```text
//! access of a sampled key -> every miniature -> hit or miss, weighted by the sampling
//!                         -> LRU stack       -> how far back it was: the sizes no miniature has
//! ```
//! Two corrections take out the chance of which hot keys are in the sample. Misses are divided by *all* requests
//! over the sampling, not by the sampled ones (mean error 0.55 points instead of 1.6). And all sizes share one
//! sample, so all are moved by what the miniature of the cache as it is differs from the cache itself (0.28
//! instead of 0.44 points on eight recorded traces).
//!
//! Sizes above the cache run under the setting in force; the two below duel for their own, since a small cache may
//! want another (a worst error of 3 points instead of 8.5, on a cache of 440 items; duels at all sizes would take
//! the memory of half of the sampled keys).
//!
//! Must hold: memory stays under `BYTES_MAX` whatever the cache holds: when it would not, half of the sample goes.

mod lru;
mod report;
#[cfg(test)]
mod tests;

pub use report::{CurvePoint, Estimate, MissRatioCurve};

use crate::policy::{Conditions, Duel, Objective, ReclaimPolicy, Shadow};
use crate::sync::{lock, AtomicU32, AtomicU64, Mutex, Ordering};
use lru::LruStack;

/// Sizes with a miniature, as multiples of the cache.
pub(crate) const FACTORS: [f64; 5] = [0.25, 0.5, 1.0, 2.0, 4.0];
/// Which of them is the cache itself; those before it duel for their own setting.
const AS_IT_IS: usize = 2;
/// Memory of the miniatures and the LRU stack, bytes. About 8,000 sampled keys fit, which is what the mean
/// error of half a point was measured with.
pub(crate) const BYTES_MAX: u64 = 480 << 10;
/// Distinct keys sampled at most, of those in use of late; when there are more, half of the sample goes. Twice as
/// many cost twice the CPU for a tenth of a point.
const KEYS_MAX: f64 = 10_000.0;
/// Of more keys than `KEYS_ENOUGH` at most one in so many is sampled: what an access costs must not rise by more than
/// a twentieth, however small the cache. (Of 30,000 keys a quarter was sampled, and sampling then was a large part of what a get cost.)
const SHARE_MIN: u64 = 16;
const KEYS_ENOUGH: f64 = 3_000.0;
/// Requests in which what was seen before loses half of its weight in the recent curve: at least so many, and
/// at least so many fills of the cache.
const HALF_LIFE_MIN: f64 = (1u64 << 20) as f64;
const HALF_LIFE_FILLS: f64 = 8.0;
/// Values up to this part of the memory are taken by default (`Config::item_size_max`).
const DEFAULT_PART: u64 = 8;
/// The range of the 32 hash bits that sample.
const ALL_KEYS: u64 = 1 << 32;
/// Keys further back than so many times the cache are forgotten: no size asks for them.
const LRU_REACH: f64 = 32.0;
/// Sampled accesses between two looks at what memory the miniatures take.
const LOOK_EVERY: u64 = 64;
/// Sampled accesses after which whoever has no time to tidy must.
const OVERDUE: u32 = 64;

/// What happened to a sampled key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// A read found it, or a read missed and it was stored: what a hit ratio is about.
    Request,
    /// It was written over: it is fresh again, but nobody asked for it.
    Overwrite,
}

/// What the cache runs under as the access happens.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now<'a> {
    pub(crate) conditions: Conditions<'a>,
    /// Bytes of items that fit.
    pub(crate) capacity_bytes: u64,
}

/// Requests of all keys so far: reads that hit, items stored under a key that had none, or refused for their size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) hits: u64,
    pub(crate) inserts: u64,
}

impl Requests {
    fn all(self) -> f64 {
        (self.hits + self.inserts) as f64
    }
}

/// The largest value the cache takes, for what a cache of another size would take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    bytes: u64,
    /// It is the memory's: more memory takes more, up to `most`. (Else it was asked for, and stays.)
    grows: bool,
    most: u64,
}

impl Limit {
    /// By default the limit is an eighth of the memory, and half of it or `default_max` at most: a smaller one was
    /// asked for.
    pub(crate) fn new(bytes: u64, capacity_bytes: u64, default_max: u64) -> Limit {
        Limit {
            bytes,
            grows: bytes >= capacity_bytes / DEFAULT_PART,
            most: default_max.max(bytes),
        }
    }

    fn at(self, factor: f64) -> u64 {
        match self.grows {
            true => ((self.bytes as f64 * factor) as u64).min(self.most),
            false => self.bytes,
        }
    }
}

pub(crate) struct Curve {
    /// Values under a new key that were refused for their size.
    refused: AtomicU64,
    /// Keys whose lower 32 hash bits are below are sampled.
    bound: AtomicU64,
    /// Sampled accesses since there is something to tidy; 0: there is not.
    due: AtomicU32,
    sampler: Mutex<Sampler>,
}

impl Curve {
    pub(crate) fn new(policy: ReclaimPolicy, objective: Objective, seed: u64) -> Curve {
        Curve {
            refused: AtomicU64::new(0),
            bound: AtomicU64::new(ALL_KEYS),
            due: AtomicU32::new(0),
            sampler: Mutex::new(Sampler::new(policy, objective, seed)),
        }
    }

    /// Keys are sampled whose lower 32 hash bits are below.
    pub(crate) fn bound(&self) -> u64 {
        self.bound.load(Ordering::Relaxed)
    }

    /// Whether accesses of this key are worth telling.
    #[inline(always)]
    pub(crate) fn samples(&self, hash: u64) -> bool {
        u64::from(hash as u32) < self.bound.load(Ordering::Relaxed)
    }

    /// One access of a sampled key: about a microsecond. Never waits: while another thread tells of its access,
    /// this one is lost, which is as good as a slightly smaller sample.
    pub(crate) fn access(&self, access: Access, hash: u64, size: u64, now: &Now<'_>) {
        if let Ok(mut sampler) = self.sampler.try_lock() {
            if sampler.access(access, hash as u32, size, now) {
                self.due.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// A value under a new key was refused for its size: a request all the same, and a larger cache may take it.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// The same of a sampled key, whose value is over the cache's limit.
    pub(crate) fn over_limit(&self, hash: u64, size: u64, now: &Now<'_>, limit: Limit) {
        if let Ok(mut sampler) = self.sampler.try_lock() {
            sampler.over_limit(hash as u32, size, now, limit);
        }
    }

    /// Whether there is something to tidy.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.due.load(Ordering::Relaxed) != 0
    }

    /// Whether that has waited for long: memory is only bounded if it is done.
    pub(crate) fn is_overdue(&self) -> bool {
        self.due.load(Ordering::Relaxed) > OVERDUE
    }

    /// What takes longer, when it is due: thins the sample (a third of a millisecond, as often as the number of keys
    /// in use doubles), makes room in the stack, forgets half of what is long past. No pin may be held.
    pub(crate) fn tidy(&self, requests: impl FnOnce() -> Requests) {
        if !self.is_due() {
            return;
        }
        if let Ok(mut sampler) = self.sampler.try_lock() {
            sampler.tidy(requests());
            self.bound.store(sampler.bound, Ordering::Relaxed);
            self.due.store(0, Ordering::Relaxed);
        }
    }

    /// A key left by request of a caller.
    pub(crate) fn forget(&self, hash: u64) {
        if self.samples(hash) {
            lock(&self.sampler).forget(hash as u32);
        }
    }

    /// What has been seen, for a cache of `memory_bytes`.
    pub(crate) fn report(&self, memory_bytes: u64, requests: Requests) -> MissRatioCurve {
        lock(&self.sampler).report(memory_bytes, requests)
    }
}

/// A cache in small, and the misses it had.
struct Miniature {
    shadow: Shadow,
    duel: Option<Duel>,
    missed: Weights,
}

impl Miniature {
    /// Whether it would have had the key.
    fn request(&mut self, now: &Now<'_>, key: u32, size: u64) -> bool {
        let mut conditions = now.conditions;
        if let Some(duel) = &mut self.duel {
            duel.request(u64::from(key), size, conditions.mean);
            conditions.setting = duel.setting();
        }
        self.shadow.request(&conditions, key, size)
    }

    fn set_size(&mut self, capacity_bytes: u64, bound: u64) {
        self.shadow.set_capacity(capacity_bytes);
        self.duel = self.duel.take().map(|duel| duel.of_sample(bound));
        if let Some(duel) = &mut self.duel {
            duel.set_capacity(capacity_bytes);
        }
    }

    fn forget(&mut self, key: u32) {
        self.shadow.forget(key);
        if let Some(duel) = &mut self.duel {
            duel.forget(u64::from(key));
        }
    }

    fn bytes(&self) -> u64 {
        self.shadow.bytes() + self.duel.as_ref().map_or(0, Duel::bytes)
    }
}

/// Requests of all keys, estimated: since the start, and recently.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Weights {
    total: f64,
    recent: f64,
}

impl Weights {
    fn add(&mut self, weight: f64) {
        self.total += weight;
        self.recent += weight;
    }
}

struct Sampler {
    bound: u64,
    capacity_bytes: u64,
    miniatures: Vec<Miniature>,
    lru: LruStack,
    accesses: u64,
    /// There is something to tidy.
    due: bool,
    /// Requests as the sample has them, since the recent weights were last halved.
    since_halved: f64,
    half_life: f64,
    /// All requests at that moment, and the recent ones before it.
    at_halving: Requests,
    recent_before: Faded,
}

/// Requests with a half-life.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Faded {
    hits: f64,
    inserts: f64,
}

impl Sampler {
    fn new(policy: ReclaimPolicy, objective: Objective, seed: u64) -> Sampler {
        let miniature = |index: usize| Miniature {
            shadow: Shadow::new(1, seed ^ (index as u64 + 1) << 16),
            duel: (index < AS_IT_IS).then(|| Duel::new(policy, objective, 1, seed)),
            missed: Weights::default(),
        };
        Sampler {
            bound: ALL_KEYS,
            capacity_bytes: 0,
            miniatures: (0..FACTORS.len()).map(miniature).collect(),
            lru: LruStack::default(),
            accesses: 0,
            due: false,
            since_halved: 0.0,
            half_life: HALF_LIFE_MIN,
            at_halving: Requests::default(),
            recent_before: Faded::default(),
        }
    }

    /// One sampled request stands for so many.
    fn weight(&self) -> f64 {
        ALL_KEYS as f64 / self.bound as f64
    }

    /// Whether there is something to tidy now.
    fn access(&mut self, access: Access, key: u32, size: u64, now: &Now<'_>) -> bool {
        // The sample may have shrunk since the caller looked.
        if u64::from(key) >= self.bound {
            return false;
        }
        self.fit_capacity(now.capacity_bytes);
        let weight = self.weight();
        for miniature in &mut self.miniatures {
            let hit = miniature.request(now, key, size);
            if !hit && access == Access::Request {
                miniature.missed.add(weight);
            }
        }
        self.lru.access(key, size, access == Access::Request);
        self.accesses += 1;
        if access == Access::Request {
            self.since_halved += weight;
            let fill = now.capacity_bytes as f64 / now.conditions.mean.max(1.0);
            self.half_life = HALF_LIFE_MIN.max(HALF_LIFE_FILLS * fill);
        }
        let looks = self.accesses % LOOK_EVERY == 0;
        self.due |= self.lru.is_nearly_full()
            || looks && (self.since_halved >= self.half_life || self.is_too_large());
        self.due
    }

    /// A request for a value that is over the cache's limit: miniatures of larger caches may take it. The stack is not
    /// told, in which it would lie in the way of what the cache holds.
    fn over_limit(&mut self, key: u32, size: u64, now: &Now<'_>, limit: Limit) {
        if u64::from(key) >= self.bound {
            return;
        }
        self.fit_capacity(now.capacity_bytes);
        let weight = self.weight();
        for (miniature, factor) in self.miniatures.iter_mut().zip(FACTORS) {
            let takes = factor > FACTORS[AS_IT_IS] && size <= limit.at(factor);
            if !takes || !miniature.request(now, key, size) {
                miniature.missed.add(weight);
            }
        }
    }

    fn tidy(&mut self, requests: Requests) {
        if self.since_halved >= self.half_life {
            self.halve(requests);
        }
        self.lru.tidy();
        while self.is_too_large() && self.bound > 1 {
            self.thin();
        }
        self.due = false;
    }

    fn is_too_large(&self) -> bool {
        let keys_max = match self.bound > ALL_KEYS / SHARE_MIN {
            true => KEYS_ENOUGH,
            false => KEYS_MAX,
        };
        self.bytes() > BYTES_MAX || self.lru.keys_below(self.bound) > keys_max
    }

    /// The recent curve forgets half of what it knows.
    fn halve(&mut self, requests: Requests) {
        for miniature in &mut self.miniatures {
            miniature.missed.recent /= 2.0;
        }
        self.lru.halve();
        self.recent_before = Faded {
            hits: self.recent_hits(requests) / 2.0,
            inserts: self.recent_inserts(requests) / 2.0,
        };
        self.at_halving = requests;
        self.since_halved = 0.0;
    }

    fn recent_hits(&self, requests: Requests) -> f64 {
        self.recent_before.hits + requests.hits.saturating_sub(self.at_halving.hits) as f64
    }

    fn recent_inserts(&self, requests: Requests) -> f64 {
        self.recent_before.inserts + requests.inserts.saturating_sub(self.at_halving.inserts) as f64
    }

    /// Half of the sampled keys go.
    fn thin(&mut self) {
        self.bound /= 2;
        let bound = self.bound;
        for miniature in &mut self.miniatures {
            miniature.shadow.retain(|key| u64::from(key) < bound);
        }
        self.size_miniatures();
    }

    /// The cache grows and shrinks a little as its index does; miniatures follow a change of a hundredth.
    fn fit_capacity(&mut self, capacity_bytes: u64) {
        if capacity_bytes.abs_diff(self.capacity_bytes) > self.capacity_bytes / 100 {
            self.capacity_bytes = capacity_bytes;
            self.lru.set_limit(capacity_bytes as f64 * LRU_REACH);
            self.size_miniatures();
        }
    }

    fn size_miniatures(&mut self) {
        let sampled = self.capacity_bytes as f64 / self.weight();
        for (miniature, factor) in self.miniatures.iter_mut().zip(FACTORS) {
            miniature.set_size((sampled * factor).max(1.0) as u64, self.bound);
        }
    }

    fn forget(&mut self, key: u32) {
        for miniature in &mut self.miniatures {
            miniature.forget(key);
        }
        self.lru.forget(key);
    }

    fn bytes(&self) -> u64 {
        let miniatures: u64 = self.miniatures.iter().map(Miniature::bytes).sum();
        miniatures + self.lru.bytes()
    }
}
