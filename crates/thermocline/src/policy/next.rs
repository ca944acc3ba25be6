//! What to free next: expired and dead bytes before live ones, then probation over its share, then main.

use super::verdict::share_bytes;
use super::{Pool, Setting, COUNTER_MAX};

/// A segment is worth copying its live rest when at least this share of a segment comes free. At 10 % of hits
/// overwriting by append this brings 93 % live bytes and all but 0.3 points of miss ratio back, for 0.68 bytes
/// copied per byte written.
pub const COMPACT_SHARE: f64 = 0.10;

/// The dead room of a segment of main is given to writers again when it is so large a share.
pub const REOPEN_SHARE: f64 = 0.06;

/// The same for probation where that is a few segments, of which the oldest goes soon in any case.
const PROBATION_COMPACT_SHARE: f64 = 0.5;
/// And where it holds a tenth of the cache or more: its segments lie long then, and while half of each might be dead
/// a cache with half of its hits overwriting was 84 to 91 % live, by the setting in force.
const WIDE_PROBATION_COMPACT_SHARE: f64 = 0.2;
/// Shares of the cache between which probation goes from the one to the other.
const PROBATION_NARROW: f64 = 0.04;
const PROBATION_WIDE: f64 = 0.10;

/// Dead share of a segment of probation that is worth copying its live rest, when probation holds so many bytes of the
/// capacity.
pub fn probation_compact_share(probation_bytes: u64, capacity_bytes: u64) -> f64 {
    let share = probation_bytes as f64 / capacity_bytes.max(1) as f64;
    let width = (share - PROBATION_NARROW) / (PROBATION_WIDE - PROBATION_NARROW);
    let most = PROBATION_COMPACT_SHARE - WIDE_PROBATION_COMPACT_SHARE;
    PROBATION_COMPACT_SHARE - most * width.clamp(0.0, 1.0)
}

/// A sealed segment seen as a source of free bytes. `segment` is the caller's own number for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Candidate {
    pub segment: u32,
    pub pool: Pool,
    pub used_bytes: u64,
    /// Bytes whose items were overwritten, deleted or moved away.
    pub dead_bytes: u64,
    /// Bytes whose items have expired and are not dead yet.
    pub expired_bytes: u64,
    /// It is drained soon in any case (`is_soon_drained`).
    pub soon: bool,
}

/// One segment of main in so many is old: it is drained soon, and its dead bytes come free anyway.
pub const MAIN_OLD_PART: usize = 32;
/// Of probation one in so many.
const PROBATION_OLD_PART: usize = 3;

/// Whether the segment at this place in the queue of its pool, the oldest at 0, is among the oldest: it is drained soon, and
/// its dead bytes come free then. What lies in it needs a verdict, not a copy to another segment (a large value that leaves
/// is dead in the next segments, too: a quarter of all that was copied where sizes vary).
pub fn is_soon_drained(pool: Pool, at: usize, sealed: usize) -> bool {
    let part = match pool {
        Pool::Probation => PROBATION_OLD_PART,
        Pool::Main => MAIN_OLD_PART,
    };
    at * part < sealed
}

impl Candidate {
    /// What comes free when the live rest is copied.
    pub fn freed_bytes(&self) -> u64 {
        (self.dead_bytes + self.expired_bytes).min(self.used_bytes)
    }

    fn is_worth_it(&self, segment_bytes: u64, shares: Shares) -> bool {
        let needed = (segment_bytes as f64 * COMPACT_SHARE).max(1.0);
        let freed = self.freed_bytes();
        if self.soon && self.expired_bytes == 0 && freed < self.used_bytes {
            return false;
        }
        match self.pool {
            Pool::Main => {
                self.expired_bytes as f64 >= needed
                    || freed as f64 >= (segment_bytes as f64 * shares.main).max(1.0)
                    || freed > 0 && freed == self.used_bytes
            }
            // Probation is short and its oldest goes soon: copying its survivors pays only where the rule
            // "expired before live" asks for it, or where most of it is dead: nobody understands why a cache
            // with little in it evicts.
            Pool::Probation => {
                self.expired_bytes as f64 >= needed
                    || freed > 0 && freed as f64 >= self.used_bytes as f64 * shares.probation
            }
        }
    }
}

/// How dead a segment must be to be worth a copy of its live rest, at the moment: `CompactShare` and
/// `probation_compact_share`.
#[derive(Debug, Clone, Copy)]
pub struct Shares {
    pub main: f64,
    pub probation: f64,
}

/// The candidate that frees most among those worth it; the first of equals.
pub fn most_freed(
    candidates: impl IntoIterator<Item = Candidate>,
    segment_bytes: u64,
    shares: Shares,
) -> Option<Candidate> {
    let worth_it = |candidate: &Candidate| candidate.is_worth_it(segment_bytes, shares);
    candidates
        .into_iter()
        .filter(worth_it)
        .reduce(|best, candidate| {
            if candidate.freed_bytes() > best.freed_bytes() {
                candidate
            } else {
                best
            }
        })
}

/// So many drains in a row, and items walked by them, that freed less than a tenth of their segments make the next one
/// stricter by one counter: without it a cache that is referenced all over would be walked whole, up to three times, for one
/// segment. By drains alone, 7 items each, 0.8 points more of a loop over 1,011 items missed.
const FRUITLESS_DRAINS: u64 = 16;
const FRUITLESS_ITEMS: u64 = 16 << 10;
/// So many are enough, however few items they held: counters are down after four rounds of the segments of a small cache, but
/// a lone piece of a large value is kept for its owner's counter, and could be moved to and fro for ever.
const FRUITLESS_DRAINS_MAX: u64 = 1024;

/// Drains in a row that freed next to nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fruitless {
    drains: u64,
    items: u64,
}

impl Fruitless {
    /// A drain is over that has walked so many items.
    pub fn ended(&mut self, is_fruitless: bool, items: u64) {
        *self = match is_fruitless {
            true => Fruitless {
                drains: self.drains + 1,
                items: self.items + items,
            },
            false => Fruitless::default(),
        };
    }

    /// By how much counters are taken to be less than they are.
    pub fn strictness(&self) -> u8 {
        let by_items = (self.drains / FRUITLESS_DRAINS).min(self.items / FRUITLESS_ITEMS);
        let strictness = by_items.max(self.drains / FRUITLESS_DRAINS_MAX);
        strictness.min(u64::from(COUNTER_MAX)) as u8
    }
}

/// One pool in numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct PoolSide {
    /// Used bytes of its sealed and open segments.
    pub used_bytes: u64,
    /// Sealed segments, those that can be drained.
    pub sealed: u32,
    /// Used bytes of its open segments.
    pub open_bytes: u64,
}

/// The cache in numbers, when room is wanted.
#[derive(Debug, Clone, Copy)]
pub struct PoolFacts {
    pub probation: PoolSide,
    pub main: PoolSide,
    pub capacity_bytes: u64,
    pub segment_bytes: u64,
    /// Bytes of later inserts that a stored item outlives at least; 0 leaves probation to its share alone.
    pub fresh_min_bytes: u64,
    /// The kernel's generations have none left that is cold.
    pub wants_ageing: bool,
    /// What `most_freed` found, if the caller looked.
    pub most_freed: Option<Candidate>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Walk this segment: drop what has expired, copy the live rest inside its pool, counters kept.
    Expire(Candidate),
    /// The same for a segment that has only dead bytes.
    Compact(Candidate),
    /// Drain this pool's oldest sealed segment.
    Drain(Pool),
    /// Main's oldest segment goes whole to the young end of probation, its counters cleared.
    Deactivate,
    /// Open a new youngest generation.
    Age,
    /// Nothing is sealed: seal this pool's open segment and ask again.
    Seal(Pool),
    /// Nothing to free.
    Nothing,
}

/// The next step towards free room.
pub fn next(setting: &Setting, facts: &PoolFacts) -> Next {
    if let Some(candidate) = facts.most_freed {
        return if candidate.expired_bytes > 0 {
            Next::Expire(candidate)
        } else {
            Next::Compact(candidate)
        };
    }
    if facts.wants_ageing {
        return Next::Age;
    }
    if setting.rules.deactivates {
        return next_of_two_lists(setting, facts);
    }
    let probation_over = facts.probation.used_bytes > probation_max(setting, facts);
    match (facts.probation.sealed > 0, facts.main.sealed > 0) {
        (true, _) if probation_over => Next::Drain(Pool::Probation),
        (_, true) => Next::Drain(Pool::Main),
        (true, _) => Next::Drain(Pool::Probation),
        (false, false) => last_resort(facts),
    }
}

/// Inactive below its share of what is held: the oldest active go there. Otherwise the oldest inactive leave.
fn next_of_two_lists(setting: &Setting, facts: &PoolFacts) -> Next {
    let held = facts.probation.used_bytes + facts.main.used_bytes;
    let is_low = facts.probation.used_bytes < share_bytes(setting, held);
    match (facts.probation.sealed > 0, facts.main.sealed > 0) {
        (_, true) if is_low => Next::Deactivate,
        (true, _) => Next::Drain(Pool::Probation),
        (false, true) => Next::Deactivate,
        (false, false) => last_resort(facts),
    }
}

/// Bytes probation may hold while main has something to give: its share, and enough that its oldest segment,
/// when drained, has seen the fresh floor's bytes come in behind it.
fn probation_max(setting: &Setting, facts: &PoolFacts) -> u64 {
    let share = share_bytes(setting, facts.capacity_bytes);
    match facts.fresh_min_bytes {
        0 => share,
        floor => share.max(floor + facts.segment_bytes),
    }
}

/// The larger of the open segments, probation's if equal.
fn last_resort(facts: &PoolFacts) -> Next {
    let (probation, main) = (facts.probation.open_bytes, facts.main.open_bytes);
    if probation == 0 && main == 0 {
        Next::Nothing
    } else if probation >= main {
        Next::Seal(Pool::Probation)
    } else {
        Next::Seal(Pool::Main)
    }
}

#[cfg(test)]
mod tests {
    use super::super::Test;
    use super::*;

    fn with_probation(probation: f64) -> Shares {
        let main = COMPACT_SHARE;
        Shares { main, probation }
    }

    #[test]
    fn a_raised_share_spares_copies_but_not_of_what_expired() {
        let shares = Shares {
            main: 0.3,
            probation: 0.5,
        };
        assert_eq!(
            most_freed([candidate(1, Pool::Main, 29, 0)], 100, shares),
            None
        );
        assert!(most_freed([candidate(1, Pool::Main, 30, 0)], 100, shares).is_some());
        assert!(most_freed([candidate(1, Pool::Main, 0, 10)], 100, shares).is_some());
    }

    const STRICT: Setting = Setting {
        probation_share: 0.10,
        test: Test::Strict,
        alpha: 0.25,
        margin: 0.01,
        rules: &super::super::setting::GENERATIONAL,
    };

    /// Capacity 1000, segments of 10, probation's share 100.
    fn facts(probation: (u64, u32), main: (u64, u32)) -> PoolFacts {
        let side = |(used_bytes, sealed): (u64, u32)| PoolSide {
            used_bytes,
            sealed,
            open_bytes: used_bytes - u64::from(sealed) * 10,
        };
        PoolFacts {
            probation: side(probation),
            main: side(main),
            capacity_bytes: 1000,
            segment_bytes: 10,
            fresh_min_bytes: 0,
            wants_ageing: false,
            most_freed: None,
        }
    }

    #[test]
    fn probation_over_its_share_is_drained_first() {
        assert_eq!(
            next(&STRICT, &facts((101, 10), (800, 80))),
            Next::Drain(Pool::Probation)
        );
        assert_eq!(
            next(&STRICT, &facts((100, 10), (800, 80))),
            Next::Drain(Pool::Main)
        );
        assert_eq!(
            next(&STRICT, &facts((101, 0), (800, 80))),
            Next::Drain(Pool::Main),
            "nothing sealed there"
        );
    }

    #[test]
    fn whatever_is_sealed_goes_before_the_open_ones() {
        assert_eq!(
            next(&STRICT, &facts((50, 5), (9, 0))),
            Next::Drain(Pool::Probation)
        );
        assert_eq!(
            next(&STRICT, &facts((5, 0), (9, 0))),
            Next::Seal(Pool::Main)
        );
        assert_eq!(
            next(&STRICT, &facts((9, 0), (9, 0))),
            Next::Seal(Pool::Probation)
        );
        assert_eq!(next(&STRICT, &facts((0, 0), (0, 0))), Next::Nothing);
    }

    #[test]
    fn the_fresh_floor_outweighs_a_small_share() {
        let floor = |used| PoolFacts {
            fresh_min_bytes: 150,
            ..facts((used, used as u32 / 10), (700, 70))
        };
        assert_eq!(next(&STRICT, &floor(160)), Next::Drain(Pool::Main));
        assert_eq!(next(&STRICT, &floor(161)), Next::Drain(Pool::Probation));
        let no_main = PoolFacts {
            fresh_min_bytes: 150,
            ..facts((110, 11), (0, 0))
        };
        assert_eq!(
            next(&STRICT, &no_main),
            Next::Drain(Pool::Probation),
            "nothing else to give"
        );
    }

    fn candidate(segment: u32, pool: Pool, dead_bytes: u64, expired_bytes: u64) -> Candidate {
        Candidate {
            segment,
            pool,
            used_bytes: 100,
            dead_bytes,
            expired_bytes,
            soon: false,
        }
    }

    #[test]
    fn drains_that_free_nothing_make_the_next_ones_stricter() {
        let after = |drains, items| {
            let mut fruitless = Fruitless::default();
            (0..drains).for_each(|_| fruitless.ended(true, items));
            fruitless
        };
        assert_eq!(after(100, 100).strictness(), 0, "few items are walked soon");
        assert_eq!(after(10, 100_000).strictness(), 0);
        assert_eq!(after(16, 1024).strictness(), 1);
        assert_eq!(after(1023, 1).strictness(), 0);
        assert_eq!(after(1024, 1).strictness(), 1, "pieces of large values");
        let mut fruitless = after(200, 1024);
        assert_eq!(fruitless.strictness(), COUNTER_MAX);
        fruitless.ended(false, 1024);
        assert_eq!(fruitless.strictness(), 0);
    }

    #[test]
    fn what_is_drained_soon_is_not_copied_together_before() {
        let old = |dead, expired| Candidate {
            soon: true,
            ..candidate(1, Pool::Main, dead, expired)
        };
        let worth = |candidate| most_freed([candidate], 100, with_probation(0.5)).is_some();
        assert!(worth(candidate(1, Pool::Main, 50, 0)) && !worth(old(50, 0)));
        assert!(worth(old(100, 0)), "there is nothing to copy");
        assert!(worth(old(0, 10)), "expired bytes go before live ones");
        let soon = |pool, sealed| {
            let old = |at: &usize| is_soon_drained(pool, *at, sealed);
            (0..sealed).filter(old).count()
        };
        assert_eq!(soon(Pool::Main, 128), 4);
        assert_eq!(soon(Pool::Main, 8), 1);
        assert_eq!(soon(Pool::Probation, 3), 1);
        assert_eq!(soon(Pool::Probation, 0), 0);
    }

    #[test]
    fn expired_and_dead_bytes_go_before_live_ones() {
        let with = |candidate| PoolFacts {
            most_freed: Some(candidate),
            ..facts((200, 20), (700, 70))
        };
        let expired = candidate(3, Pool::Main, 10, 1);
        assert_eq!(next(&STRICT, &with(expired)), Next::Expire(expired));
        let dead = candidate(3, Pool::Main, 10, 0);
        assert_eq!(next(&STRICT, &with(dead)), Next::Compact(dead));
    }

    #[test]
    fn a_tenth_of_a_segment_is_worth_the_copying() {
        assert_eq!(
            most_freed([candidate(1, Pool::Main, 9, 0)], 100, with_probation(0.5)),
            None
        );
        assert!(most_freed([candidate(1, Pool::Main, 10, 0)], 100, with_probation(0.5)).is_some());
        assert!(most_freed([candidate(1, Pool::Main, 5, 5)], 100, with_probation(0.5)).is_some());
        assert_eq!(
            most_freed([candidate(1, Pool::Main, 0, 0)], 0, with_probation(0.5)),
            None
        );
    }

    #[test]
    fn probation_is_walked_early_for_expired_bytes_or_when_half_dead() {
        assert_eq!(
            most_freed(
                [candidate(1, Pool::Probation, 49, 0)],
                100,
                with_probation(0.5)
            ),
            None
        );
        assert!(most_freed(
            [candidate(1, Pool::Probation, 0, 10)],
            100,
            with_probation(0.5)
        )
        .is_some());
        assert!(
            most_freed(
                [candidate(1, Pool::Probation, 100, 0)],
                100,
                with_probation(0.5)
            )
            .is_some(),
            "nothing to copy"
        );
    }

    #[test]
    fn a_wide_probation_is_compacted_sooner() {
        assert_eq!(probation_compact_share(0, 0), 0.5);
        assert_eq!(probation_compact_share(20, 1000), 0.5);
        assert!((probation_compact_share(70, 1000) - 0.35).abs() < 1e-9);
        assert!((probation_compact_share(400, 1000) - 0.2).abs() < 1e-9);
        let fifth = [candidate(1, Pool::Probation, 20, 0)];
        assert_eq!(most_freed(fifth, 100, with_probation(0.5)), None);
        assert!(most_freed(fifth, 100, with_probation(0.2)).is_some());
    }

    #[test]
    fn a_short_segment_all_dead_is_freed_for_nothing() {
        let short = Candidate {
            used_bytes: 5,
            dead_bytes: 5,
            ..candidate(1, Pool::Main, 0, 0)
        };
        assert_eq!(most_freed([short], 100, with_probation(0.5)), Some(short));
    }

    #[test]
    fn the_most_freed_wins_and_the_first_of_equals() {
        let candidates = [
            candidate(1, Pool::Main, 20, 0),
            candidate(2, Pool::Main, 20, 30),
            candidate(3, Pool::Probation, 0, 50),
            candidate(4, Pool::Main, 40, 0),
        ];
        assert_eq!(
            most_freed(candidates, 100, with_probation(0.5)).map(|best| best.segment),
            Some(2)
        );
        assert_eq!(most_freed([], 100, with_probation(0.5)), None);
    }
}
