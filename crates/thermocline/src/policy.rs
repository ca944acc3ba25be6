//! Verdicts: who enters main, what leaves, what stays. Numbers in, a verdict out.
//!
//! Owns the rules and the two numbers they run on: the mean item size and a cheap random word. Knows no item,
//! segment or index; `reclaim` gathers the facts and carries the verdicts out. Never on the hit path: a hit
//! only raises the 2-bit counter in its slot, which is all the state an item has.
//!
//! ```text
//! miss, insert -> admit -> probation or main         room wanted -> next -> expire, compact, drain
//! drain main   -> segment -> relink it whole, or walk it
//! walk         -> item -> keep, promote, evict
//! ```
//!
//! Size enters by one exponent, e = alpha x log2(mean size / size): a small item has e > 0 and is forgiven,
//! a large one has e < 0 and must earn more. Must hold: with equal sizes e = 0, and then nothing is random.
//!
//! All calls take `&self` and a few relaxed atomics, so that writers admit without a lock. A race costs one
//! sample of the mean or repeats a random word; neither can be seen in a miss ratio.

mod classes;
mod compact;
mod duel;
mod mean;
mod next;
mod origin;
#[cfg(test)]
mod replays;
mod setting;
mod shadow;
#[cfg(any(test, feature = "simulate"))]
#[cfg_attr(not(feature = "simulate"), allow(dead_code))]
pub mod simulation;
mod steer;
mod table;
#[cfg(test)]
mod tests;
mod verdict;

pub use classes::{class, Classes};
pub use compact::CompactShare;
pub use duel::Duel;
use mean::{MeanSize, Random};
pub use next::{
    is_soon_drained, most_freed, next, probation_compact_share, Candidate, Fruitless, Next,
    PoolFacts, PoolSide, Shares, COMPACT_SHARE, MAIN_OLD_PART, REOPEN_SHARE,
};
pub use origin::Origin;
pub use setting::{Objective, ReclaimPolicy, Setting};
pub use shadow::{Conditions, Shadow};
use verdict::Judge;
pub use verdict::{segment, LARGE_PART};

/// The 2-bit counter saturates here.
pub const COUNTER_MAX: u8 = 3;

/// Which new item enters main at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Test {
    /// None.
    Never,
    /// Its ghost is younger than main's oldest segment.
    Strict,
    /// It has a ghost.
    Always,
    /// It has a ghost of the last few generations.
    Recent,
    /// Every item: main is then much like an LRU list.
    All,
}

/// Where a segment, and so an item, belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pool {
    Probation,
    Main,
}

impl Pool {
    pub fn other(self) -> Pool {
        match self {
            Pool::Probation => Pool::Main,
            Pool::Main => Pool::Probation,
        }
    }
}

/// A key about to be stored that is not resident.
#[derive(Debug, Clone, Copy)]
pub struct Insert {
    /// Bytes it will take in its segment.
    pub size: u64,
    /// What the ghosts said about the key: generations since it was evicted.
    pub ghost_age: Option<u32>,
    /// The youngest generation.
    pub now: u32,
    /// Generation of main's oldest sealed segment; None when main has none.
    pub oldest_main: Option<u32>,
    /// Whether anything was evicted since the cache started or last grew. Until then main fills first; a cache
    /// that has grown is cold again, else its new room would fill with probation (3 points of miss ratio).
    pub evicted_before: bool,
    /// Used bytes of main's segments.
    pub main_bytes: u64,
    pub capacity_bytes: u64,
    /// Bytes kept free for survivors of a drain.
    pub reserve_bytes: u64,
    pub segment_bytes: u64,
}

/// A sealed segment about to be drained.
#[derive(Debug, Clone, Copy)]
pub struct SegmentFacts {
    pub pool: Pool,
    pub used_bytes: u64,
    /// Bytes of its live items whose counter is above 0.
    pub referenced_bytes: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whole {
    /// To main's young end as it is: generation = now, every counter one less, nothing copied or evicted.
    Relink,
    /// Item by item.
    Walk,
}

/// A live item of a segment that is walked.
#[derive(Debug, Clone, Copy)]
pub struct ItemFacts {
    pub pool: Pool,
    pub counter: u8,
    /// Bytes; 0 = let size weigh nothing.
    pub size: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Copy to main's open segment with this counter.
    Keep { counter: u8 },
    /// Copy from probation to main's open segment with counter 0.
    Promote,
    /// Leaves; with a ghost of this segment's generation where asked.
    Evict { ghost: bool },
}

#[derive(Debug)]
pub struct Policy {
    steering: steer::Steering,
    mean: MeanSize,
    random: Random,
    classes: Classes,
}

impl Policy {
    pub fn new(
        policy: ReclaimPolicy,
        objective: Objective,
        capacity_bytes: u64,
        seed: u64,
    ) -> Policy {
        Policy {
            steering: steer::Steering::new(policy, objective, capacity_bytes, seed),
            mean: MeanSize::default(),
            random: Random::new(seed),
            classes: Classes::default(),
        }
    }

    /// Tells the sizes of items inserted. One call an item is exact; a writer that collects a few first
    /// spares the shared line.
    pub fn inserted(&self, items: u64, bytes: u64) {
        self.mean.add(items, bytes);
    }

    /// Running mean of inserted sizes; 0 before the first.
    pub fn mean_size(&self) -> f64 {
        self.mean.get()
    }

    /// The setting in force, and the duel that chooses it.
    #[inline(always)]
    pub fn steering(&self) -> &steer::Steering {
        &self.steering
    }

    /// The books of the kernel's access classes; used by settings with `Rules::classes`.
    pub fn classes(&self) -> &Classes {
        &self.classes
    }

    /// Where a new item goes.
    pub fn admit(&self, setting: &Setting, insert: &Insert) -> Pool {
        self.judge(setting).admit(insert)
    }

    /// Whether a new item is too large to be let in on this request. It then leaves a ghost of the youngest generation.
    pub fn refuses(&self, setting: &Setting, insert: &Insert) -> bool {
        self.judge(setting).refuses(insert)
    }

    /// The verdict on one live item of a walked segment.
    pub fn item(&self, setting: &Setting, item: &ItemFacts) -> Verdict {
        self.judge(setting).item(item)
    }

    fn judge<'a>(&'a self, setting: &'a Setting) -> Judge<'a> {
        Judge {
            setting,
            mean: self.mean.get(),
            random: &self.random,
            classes: &self.classes,
        }
    }
}
