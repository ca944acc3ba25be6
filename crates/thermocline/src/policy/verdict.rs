//! The rules one by one: who enters main, what leaves a drained segment, which segment moves whole.

use super::classes::{Classes, RECENT};
use super::mean::Random;
use super::setting::Setting;
use super::{Insert, ItemFacts, Pool, SegmentFacts, Test, Verdict, Whole};

/// However small an item, the epoch test forgives it at most this many doublings of age, and the reverse.
const EPOCH_TEST_CLAMP: f64 = 6.0;
/// An item over this part of the room is not let in on its first request once the cache is full. A quarter of the memory,
/// the most that a server takes, is less wherever index and tables leave three quarters of it.
pub const LARGE_PART: u64 = 3;

/// A setting and what its verdicts run on.
#[derive(Clone, Copy)]
pub struct Judge<'a> {
    pub setting: &'a Setting,
    /// Mean size of inserted items, bytes; 0 = none yet, and then all sizes are equal.
    pub mean: f64,
    pub random: &'a Random,
    pub classes: &'a Classes,
}

impl Judge<'_> {
    /// Where a new item goes. Never a refusal: what is stored stays for a while (see `PoolFacts::fresh_min_bytes`).
    pub fn admit(&self, insert: &Insert) -> Pool {
        if self.passes(insert) || fills_cold_main(self.setting, insert) {
            Pool::Main
        } else {
            Pool::Probation
        }
    }

    /// Whether a new item is so large that it is not let in. What it takes others would lose, and most such items never
    /// come back: once something had to leave, it must have come back so soon that it goes to main.
    pub fn refuses(&self, insert: &Insert) -> bool {
        let large = insert.size > insert.capacity_bytes / LARGE_PART;
        large && insert.evicted_before && (insert.ghost_age.is_none() || !self.passes(insert))
    }

    /// The verdict on one live item of a walked segment.
    pub fn item(&self, item: &ItemFacts) -> Verdict {
        let rules = self.setting.rules;
        if rules.classes {
            return match self.classes.protects(item.counter, item.size, self.mean) {
                true => Verdict::Keep { counter: 0 },
                false => Verdict::Evict { ghost: true },
            };
        }
        let exponent = self.exponent(item.size);
        match item.pool {
            Pool::Probation if self.promotes(item.counter, exponent) => Verdict::Promote,
            Pool::Probation => Verdict::Evict { ghost: true },
            Pool::Main => match self.survives(item.counter, exponent) {
                Some(counter) if rules.second_chance => Verdict::Keep { counter },
                _ => Verdict::Evict {
                    ghost: rules.main_ghosts,
                },
            },
        }
    }

    fn passes(&self, insert: &Insert) -> bool {
        match (self.setting.test, insert.ghost_age) {
            (Test::All, _) => true,
            (Test::Never, _) | (_, None) => false,
            (Test::Always, Some(_)) => true,
            (Test::Recent, Some(age)) => age < RECENT,
            (Test::Strict, Some(age)) => self.is_younger_than_main(insert, age),
        }
    }

    /// The item came back sooner than main's oldest has gone without being referenced.
    fn is_younger_than_main(&self, insert: &Insert, ghost_age: u32) -> bool {
        let Some(oldest) = insert.oldest_main else {
            return true;
        };
        let main_age = insert.now.saturating_sub(oldest);
        let exponent = self.exponent(insert.size);
        let forgiven = exponent.clamp(-EPOCH_TEST_CLAMP, EPOCH_TEST_CLAMP).exp2();
        f64::from(ghost_age) + 0.5 < (f64::from(main_age) + 0.5) * forgiven
    }

    fn promotes(&self, counter: u8, exponent: f64) -> bool {
        let needed = self.setting.rules.promote_hits;
        if needed != 2 {
            return counter >= needed;
        }
        let chance = match counter {
            0 if exponent > 1.0 => 1.0 - (1.0 - exponent).exp2(),
            0 => 0.0,
            1 => exponent,
            _ => (exponent + 1.0).exp2(),
        };
        self.random.chance(chance)
    }

    /// The counter a main item survives with, None if it does not.
    fn survives(&self, counter: u8, exponent: f64) -> Option<u8> {
        let less = counter.saturating_sub(1);
        if counter == 0 {
            let stays = self.random.chance(1.0 - (-exponent).exp2());
            return stays.then_some(0);
        }
        if exponent >= 0.0 {
            let pays = self.random.chance((-exponent).exp2());
            return Some(if pays { less } else { counter });
        }
        if self.random.chance(exponent.exp2()) {
            return Some(less);
        }
        (counter > 1).then_some(0)
    }

    fn exponent(&self, size: u64) -> f64 {
        if self.setting.alpha == 0.0 || self.mean <= 0.0 || size == 0 {
            return 0.0;
        }
        self.setting.alpha * (self.mean / size as f64).log2()
    }
}

/// Whether a segment about to be drained moves whole.
pub fn segment(setting: &Setting, facts: &SegmentFacts) -> Whole {
    let needed = facts.used_bytes as f64 * setting.rules.relink_share;
    if facts.pool == Pool::Main && facts.used_bytes > 0 && facts.referenced_bytes as f64 >= needed {
        Whole::Relink
    } else {
        Whole::Walk
    }
}

/// While nothing had to leave, main takes everything but probation's share.
fn fills_cold_main(setting: &Setting, insert: &Insert) -> bool {
    if insert.evicted_before || !setting.rules.cold_fill {
        return false;
    }
    let share = share_bytes(setting, insert.capacity_bytes).max(insert.segment_bytes);
    let room = insert
        .capacity_bytes
        .saturating_sub(insert.reserve_bytes)
        .saturating_sub(share);
    insert.main_bytes + insert.size <= room
}

/// Probation's share of the capacity.
pub fn share_bytes(setting: &Setting, capacity_bytes: u64) -> u64 {
    (setting.probation_share * capacity_bytes as f64) as u64
}
