//! How much memory the cache should have, from numbers alone.
//!
//! ```text
//! calm ---a stall, or little headroom---> tight: give back what is missing, in small steps
//!  ^                                        |  the limit was hit, or hardly any headroom: in larger steps
//!  +--- quiet for CALM_MS, then grow a little every second, as long as headroom stays
//! ```
//! How large a step is follows from what memory is worth: what the miss-ratio curve says may go for less than a point of
//! hit ratio goes fast, what costs more goes slowly. Nothing is slowed once it is critical.
//!
//! Owns the thresholds and the state between two looks. Reads no file, knows no clock and no cache: `sources` reads,
//! the thread in `mod.rs` acts. What must hold: the target is never below the floor nor above the ceiling, and what
//! has been asked back but is not back yet is not asked for twice.
//!
//! One file: a state machine of two states with its thresholds, and its tests, nearly half of the lines.

/// Share of the time somebody stalled on memory since the last look, in percent: from here on it is pressure.
const STALL_PERCENT: f64 = 5.0;
/// Below this it counts as quiet.
const QUIET_PERCENT: f64 = 1.0;
/// Headroom under the limit that we restore, that we act below, and that is nearly none: shares of the limit.
const HEADROOM_WANTED: u64 = 8;
const HEADROOM_TIGHT: u64 = 12;
const HEADROOM_CRITICAL: u64 = 32;
/// The same of the machine's memory, where there is no limit.
const AVAILABLE_WANTED: u64 = 16;
const AVAILABLE_TIGHT: u64 = 20;
const AVAILABLE_CRITICAL: u64 = 50;
/// Steps: shares of the budget given back at one look. Tight for a second gives back a sixth, not all.
const STEP_MIN: u64 = 64;
const STEP_TIGHT: u64 = 32;
const STEP_CRITICAL: u64 = 6;
/// The same for memory that costs less than a point of hit ratio.
const CHEAP_TIGHT: u64 = 6;
const CHEAP_CRITICAL: u64 = 3;
/// A budget whose ceiling would bring so many points more grows twice as fast.
const GAIN_POINTS: f64 = 1.0;
/// Quiet this long before anything is taken again, ms; then a step of `STEP_MIN` every `GROW_MS`.
const CALM_MS: u64 = 10_000;
const GROW_MS: u64 = 1_000;
/// A floor above what is wanted of the limit to be used (its `HEADROOM_WANTED`th stays free) could only be kept by being
/// killed.
const FLOOR_LEAVES: u64 = HEADROOM_WANTED;
/// What comes and goes at once.
const EXTENT: u64 = 2 << 20;

/// What was seen at one look. None: the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Reading {
    pub now_ms: u64,
    /// The cache's budget, and what is charged to it: more, while memory is on its way back. Bytes.
    pub budget: u64,
    pub charged: u64,
    /// Microseconds that somebody has stalled on memory since boot (PSI `some`).
    pub stalled_us: Option<u64>,
    /// The tightest limit on our control group or one above it, and what is used under it that cannot simply be
    /// dropped. Bytes.
    pub limit: Option<u64>,
    pub used: Option<u64>,
    /// Times the limit was hit since the group was made (`memory.events` high and max; v1: failcnt).
    pub hits: Option<u64>,
    /// The machine's `MemAvailable` and `MemTotal`, bytes.
    pub available: Option<u64>,
    pub total: Option<u64>,
    /// By the miss-ratio curve: bytes of the budget that go for less than a point of hit ratio, and the points that the
    /// ceiling would bring more. None: there is no curve to go by.
    pub spare: Option<u64>,
    pub gain_points: Option<f64>,
    /// The kernel itself raised an alarm (a PSI trigger, a v1 pressure event) since the last look.
    pub alarm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Level {
    #[default]
    Calm,
    Tight,
    Critical,
}

impl Level {
    pub fn name(self) -> &'static str {
        match self {
            Level::Calm => "calm",
            Level::Tight => "tight",
            Level::Critical => "critical",
        }
    }
}

/// What to do, and why.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    pub level: Level,
    /// The budget from now on, bytes.
    pub target: u64,
    pub cause: &'static str,
    /// Percent of the time somebody stalled since the last look.
    pub stall_percent: f64,
    /// Bytes left under the limit or in the machine, whichever is scarcer by its own measure.
    pub headroom: Option<u64>,
}

/// Bounds of the budget, bytes.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    pub floor: u64,
    pub ceiling: u64,
}

impl Bounds {
    /// The same under a control group's limit: the floor is a wish that the limit overrules.
    pub fn under(self, limit: Option<u64>) -> Bounds {
        let most = limit.map_or(u64::MAX, |limit| limit - limit / FLOOR_LEAVES);
        Bounds {
            floor: self.floor.min(most),
            ..self
        }
    }
}

#[derive(Default)]
pub struct Controller {
    last: Option<Reading>,
    /// Since when it has been quiet, ms.
    quiet_since: Option<u64>,
    grew_ms: u64,
    /// What others used at the last look, and by which measure.
    others: Option<(&'static str, u64)>,
}

/// How scarce memory is by one measure.
struct Scarcity {
    whole: u64,
    headroom: u64,
    /// What is used that is not the cache's.
    others: u64,
    /// What others have taken since the last look.
    falling: u64,
    shares: Shares,
    cause: &'static str,
}

/// Of the whole: what we want to be left, and below what it is tight and critical.
struct Shares {
    wanted: u64,
    tight: u64,
    critical: u64,
}

impl Scarcity {
    /// What will be left two looks from now if it goes on like this: a neighbour that takes 13 MiB a look is met
    /// before it is at the limit.
    fn left(&self, falling: u64) -> u64 {
        self.headroom.saturating_sub(2 * falling)
    }

    fn level(&self, falling: u64) -> Level {
        match self.left(falling) {
            left if left < self.whole / self.shares.critical => Level::Critical,
            left if left < self.whole / self.shares.tight => Level::Tight,
            _ => Level::Calm,
        }
    }

    /// Bytes short of what we want to be left.
    fn missing(&self, falling: u64) -> u64 {
        (self.whole / self.shares.wanted).saturating_sub(self.left(falling))
    }
}

impl Controller {
    pub fn decide(&mut self, now: &Reading, bounds: Bounds) -> Verdict {
        let stall_percent = self.stall_percent(now);
        let hit = self.was_hit(now);
        self.last = Some(*now);
        let mut scarcest = [group(now), machine(now)]
            .into_iter()
            .flatten()
            .max_by_key(|measure| (measure.level(0) as u8, measure.missing(0)));
        let falling = self.falling(scarcest.as_ref());
        if let Some(measure) = &mut scarcest {
            measure.falling = falling;
        }
        let headroom = scarcest.as_ref().map(|m| m.headroom);
        let (level, cause) = judge(scarcest.as_ref(), hit, stall_percent, now.alarm);
        let missing = scarcest.as_ref().map_or(0, |m| m.missing(m.falling));
        // What a neighbour takes in a look is given back in a look, whatever it is worth.
        let pace = scarcest.as_ref().map_or(0, |m| m.falling);
        let target = match level {
            Level::Calm => self.grown(now, bounds, stall_percent, scarcest.as_ref()),
            level => {
                self.quiet_since = None;
                shrunk(now, bounds, level, missing, pace)
            }
        };
        Verdict {
            level,
            target: target.clamp(bounds.floor.min(bounds.ceiling), bounds.ceiling),
            cause,
            stall_percent,
            headroom,
        }
    }

    fn stall_percent(&self, now: &Reading) -> f64 {
        let Some((before, last)) = self
            .last
            .as_ref()
            .and_then(|last| Some((last.stalled_us?, last)))
        else {
            return 0.0;
        };
        let stalled_us = now.stalled_us.map_or(0, |us| us.saturating_sub(before));
        let elapsed_us = now.now_ms.saturating_sub(last.now_ms).max(1) * 1000;
        (stalled_us as f64 * 100.0 / elapsed_us as f64).min(100.0)
    }

    /// What others have taken since the last look, by the same measure. Our own giving back does not hide it.
    fn falling(&mut self, scarcest: Option<&Scarcity>) -> u64 {
        let now = scarcest.map(|m| (m.cause, m.others));
        let before = std::mem::replace(&mut self.others, now);
        match (before, now) {
            (Some((cause, before)), Some((same, now))) if cause == same => {
                now.saturating_sub(before)
            }
            _ => 0,
        }
    }

    fn was_hit(&self, now: &Reading) -> bool {
        let before = self.last.as_ref().and_then(|last| last.hits);
        matches!((before, now.hits), (Some(before), Some(now)) if now > before)
    }

    /// The budget when calm: as it is, or a step more once it has been quiet for long and headroom stays.
    fn grown(
        &mut self,
        now: &Reading,
        bounds: Bounds,
        stall_percent: f64,
        scarce: Option<&Scarcity>,
    ) -> u64 {
        let short = scarce.is_some_and(|m| m.missing(m.falling) > 0);
        if stall_percent > QUIET_PERCENT || short {
            self.quiet_since = None;
        }
        let since = *self.quiet_since.get_or_insert(now.now_ms);
        let rested = now.now_ms.saturating_sub(since) >= CALM_MS;
        let due = now.now_ms.saturating_sub(self.grew_ms) >= GROW_MS;
        let step = growth(now, bounds);
        // A step must leave more free than what we act below, or we would breathe in and out.
        let room = scarce.is_none_or(|m| m.headroom > 2 * step);
        let grows = now.budget < bounds.ceiling && rested && due && room && !short;
        if !grows {
            return now.budget.min(bounds.ceiling);
        }
        self.grew_ms = now.now_ms;
        now.budget.saturating_add(step)
    }
}

/// What to have from now on under pressure: less by what is missing, but no more at once than a step, or than `pace`
/// where that is more (up to a critical step).
fn shrunk(now: &Reading, bounds: Bounds, level: Level, missing: u64, pace: u64) -> u64 {
    let coming = now.charged.saturating_sub(now.budget);
    let least = (now.budget / STEP_MIN).max(EXTENT);
    let pace = pace.min(now.budget / STEP_CRITICAL);
    let most = most_at_once(now, level).max(least).max(pace);
    if coming >= most {
        // As much as a step is still on its way.
        return now.budget;
    }
    let step = missing.saturating_sub(coming).clamp(least, most);
    now.budget.saturating_sub(step).max(bounds.floor)
}

/// The largest step down at one look, bytes. Tight: a 64th of what is dear, a 32nd where nothing is known, up to a sixth
/// of what is cheap. Critical: a sixth, up to a third of what is cheap.
fn most_at_once(now: &Reading, level: Level) -> u64 {
    let (dear, unknown, cheap) = match level {
        Level::Critical => (STEP_CRITICAL, STEP_CRITICAL, CHEAP_CRITICAL),
        _ => (STEP_MIN, STEP_TIGHT, CHEAP_TIGHT),
    };
    match now.spare {
        None => now.budget / unknown,
        Some(spare) => spare.min(now.budget / cheap).max(now.budget / dear),
    }
}

/// A step up, bytes.
fn growth(now: &Reading, bounds: Bounds) -> u64 {
    let step = (bounds.ceiling / STEP_MIN).max(EXTENT);
    match now.gain_points {
        Some(points) if points >= GAIN_POINTS => 2 * step,
        _ => step,
    }
}

fn judge(
    scarcest: Option<&Scarcity>,
    hit: bool,
    stall_percent: f64,
    alarm: bool,
) -> (Level, &'static str) {
    let scarce = scarcest.map_or(Level::Calm, |m| m.level(m.falling));
    let cause = scarcest.map_or("", |m| m.cause);
    if scarce == Level::Critical {
        return (Level::Critical, cause);
    }
    if hit {
        return (Level::Critical, "the control group's limit was hit");
    }
    if scarce == Level::Tight {
        return (Level::Tight, cause);
    }
    // A stall somewhere in the machine is no business of ours while our own measures show plenty of room.
    let plenty = scarcest.is_some_and(|m| m.missing(0) == 0);
    if (stall_percent >= STALL_PERCENT || alarm) && !plenty {
        return (Level::Tight, "tasks stall on memory");
    }
    if stall_percent >= 2.0 * STALL_PERCENT {
        return (Level::Tight, "tasks stall on memory");
    }
    (Level::Calm, "")
}

fn group(now: &Reading) -> Option<Scarcity> {
    Some(Scarcity {
        whole: now.limit?,
        headroom: now.limit?.saturating_sub(now.used? + promised(now)),
        others: now.used?.saturating_sub(now.charged),
        falling: 0,
        shares: Shares {
            wanted: HEADROOM_WANTED,
            tight: HEADROOM_TIGHT,
            critical: HEADROOM_CRITICAL,
        },
        cause: "little is left under the control group's limit",
    })
}

fn machine(now: &Reading) -> Option<Scarcity> {
    Some(Scarcity {
        whole: now.total?,
        headroom: now.available?.saturating_sub(promised(now)),
        others: now.total?.saturating_sub(now.available? + now.charged),
        falling: 0,
        shares: Shares {
            wanted: AVAILABLE_WANTED,
            tight: AVAILABLE_TIGHT,
            critical: AVAILABLE_CRITICAL,
        },
        cause: "little of the machine's memory is available",
    })
}

/// Budget that the cache has yet to take: as good as taken, or its own filling up would look like a neighbour's.
fn promised(now: &Reading) -> u64 {
    now.budget.saturating_sub(now.charged)
}

const _: () = assert!(CHEAP_TIGHT < STEP_TIGHT && STEP_TIGHT < STEP_MIN);
const _: () = assert!(CHEAP_CRITICAL < STEP_CRITICAL);
const _: () = assert!(HEADROOM_WANTED < HEADROOM_TIGHT && HEADROOM_TIGHT < HEADROOM_CRITICAL);
const _: () = assert!(AVAILABLE_WANTED < AVAILABLE_TIGHT && AVAILABLE_TIGHT < AVAILABLE_CRITICAL);

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;
    const BOUNDS: Bounds = Bounds {
        floor: 64 * MIB,
        ceiling: 512 * MIB,
    };

    /// In a group of 1 GiB with so much free under its limit, a budget of 512 MiB.
    fn group_with(now_ms: u64, free: u64) -> Reading {
        Reading {
            now_ms,
            budget: 512 * MIB,
            charged: 512 * MIB,
            limit: Some(1024 * MIB),
            used: Some(1024 * MIB - free),
            hits: Some(0),
            stalled_us: Some(0),
            ..Reading::default()
        }
    }

    #[test]
    fn plenty_of_room_changes_nothing() {
        let mut controller = Controller::default();
        let verdict = controller.decide(&group_with(0, 300 * MIB), BOUNDS);
        assert_eq!((verdict.level, verdict.target), (Level::Calm, 512 * MIB));
        assert_eq!(verdict.headroom, Some(300 * MIB));
    }

    #[test]
    fn what_is_missing_goes_back_in_small_steps_and_not_twice() {
        let mut controller = Controller::default();
        // 1024 / 12 = 85: tight. 128 wanted, 58 missing, but a step is 512 / 32 = 16.
        let tight = group_with(0, 70 * MIB);
        let verdict = controller.decide(&tight, BOUNDS);
        assert_eq!((verdict.level, verdict.target), (Level::Tight, 496 * MIB));
        // Asked back, not back yet: nothing more is asked for.
        let waiting = Reading {
            now_ms: 100,
            budget: 496 * MIB,
            ..tight
        };
        assert_eq!(controller.decide(&waiting, BOUNDS).target, 496 * MIB);
        // It is back, and 12 are missing still.
        let back = Reading {
            now_ms: 200,
            budget: 496 * MIB,
            charged: 496 * MIB,
            used: Some(1024 * MIB - 84 * MIB),
            ..tight
        };
        assert_eq!(
            controller.decide(&back, BOUNDS).target,
            (496.0 * MIB as f64 * (1.0 - 1.0 / 32.0)) as u64
        );
    }

    #[test]
    fn a_floor_that_the_limit_does_not_allow_gives_way() {
        let bounds = Bounds {
            floor: 512 * MIB,
            ..BOUNDS
        };
        assert_eq!(bounds.under(None).floor, 512 * MIB);
        assert_eq!(bounds.under(Some(1024 * MIB)).floor, 512 * MIB);
        let under = bounds.under(Some(400 * MIB));
        assert_eq!((under.floor, under.ceiling), (350 * MIB, 512 * MIB));
        let reading = Reading {
            limit: Some(400 * MIB),
            used: Some(395 * MIB),
            ..group_with(0, 0)
        };
        let target = Controller::default().decide(&reading, under).target;
        assert!((350 * MIB..512 * MIB).contains(&target), "{target}");
    }

    #[test]
    fn a_hit_limit_brings_larger_steps_down_to_the_floor() {
        let mut controller = Controller::default();
        let mut reading = group_with(0, 90 * MIB);
        controller.decide(&reading, BOUNDS);
        reading.hits = Some(1);
        reading.now_ms = 100;
        let verdict = controller.decide(&reading, BOUNDS);
        assert_eq!(verdict.level, Level::Critical);
        assert_eq!(
            verdict.target,
            512 * MIB - 38 * MIB,
            "what is missing, at most a sixth"
        );
        for n in 2..200 {
            reading = Reading {
                now_ms: n * 100,
                used: Some(1024 * MIB),
                hits: Some(n),
                ..reading
            };
            let verdict = controller.decide(&reading, BOUNDS);
            assert!(verdict.target >= BOUNDS.floor);
            reading.budget = verdict.target;
            reading.charged = verdict.target;
        }
        assert_eq!(reading.budget, BOUNDS.floor);
    }

    #[test]
    fn what_costs_little_goes_fast_and_what_costs_much_slowly() {
        let step = |free: u64, spare: Option<u64>| {
            let reading = Reading {
                spare,
                ..group_with(0, free)
            };
            512 * MIB - Controller::default().decide(&reading, BOUNDS).target
        };
        // Tight: 58 MiB are missing.
        let tight = 70 * MIB;
        assert_eq!(step(tight, None), 16 * MIB, "a 32nd");
        assert_eq!(
            step(tight, Some(300 * MIB)),
            58 * MIB,
            "all that is missing"
        );
        assert_eq!(step(tight, Some(30 * MIB)), 30 * MIB, "as much as is cheap");
        assert_eq!(step(tight, Some(0)), 8 * MIB, "a 64th");
        // Critical: 108 missing. Dear memory goes as fast as ever.
        let critical = 20 * MIB;
        let sixth = 512 * MIB / 6;
        assert_eq!(
            (step(critical, None), step(critical, Some(0))),
            (sixth, sixth)
        );
        assert_eq!(step(critical, Some(300 * MIB)), 108 * MIB);
    }

    #[test]
    fn growing_is_faster_where_it_brings_hits() {
        let grown = |gain_points: Option<f64>| {
            let mut controller = Controller::default();
            let reading = |now_ms| Reading {
                budget: 256 * MIB,
                charged: 256 * MIB,
                gain_points,
                ..group_with(now_ms, 600 * MIB)
            };
            controller.decide(&reading(0), BOUNDS);
            controller.decide(&reading(10_000), BOUNDS).target - 256 * MIB
        };
        assert_eq!(grown(None), 8 * MIB);
        assert_eq!(grown(Some(0.3)), 8 * MIB);
        assert_eq!(grown(Some(4.0)), 16 * MIB);
    }

    #[test]
    fn stalls_count_where_nothing_shows_that_there_is_room() {
        let stalled = |stalled_us: u64, free: Option<u64>| {
            let mut controller = Controller::default();
            let at = |now_ms, stalled_us| Reading {
                stalled_us: Some(stalled_us),
                limit: free.map(|_| 1024 * MIB),
                used: free.map(|free| 1024 * MIB - free),
                ..group_with(now_ms, 0)
            };
            controller.decide(&at(0, 1000), BOUNDS);
            controller.decide(&at(100, 1000 + stalled_us), BOUNDS).level
        };
        assert_eq!(stalled(6_000, None), Level::Tight, "6 % and no limit known");
        assert_eq!(
            stalled(6_000, Some(500 * MIB)),
            Level::Calm,
            "somebody else's stall"
        );
        assert_eq!(
            stalled(20_000, Some(500 * MIB)),
            Level::Tight,
            "20 % is everybody's"
        );
        assert_eq!(stalled(900, None), Level::Calm);
    }

    #[test]
    fn a_neighbour_in_a_hurry_is_met_before_the_limit() {
        let mut controller = Controller::default();
        controller.decide(&group_with(0, 180 * MIB), BOUNDS);
        let verdict = controller.decide(&group_with(100, 130 * MIB), BOUNDS);
        assert_eq!(
            verdict.level,
            Level::Critical,
            "50 MiB a look: 30 in two looks"
        );
        // Our own filling up to the budget is no neighbour.
        let mut controller = Controller::default();
        let filling = |now_ms, charged: u64| Reading {
            charged,
            used: Some(charged),
            ..group_with(now_ms, 0)
        };
        controller.decide(&filling(0, 0), BOUNDS);
        let verdict = controller.decide(&filling(100, 300 * MIB), BOUNDS);
        assert_eq!(
            (verdict.level, verdict.headroom),
            (Level::Calm, Some(512 * MIB))
        );
    }

    /// A group of 300 MiB with a cache of 192: what is left at least while a neighbour takes 180 MiB at 133 MiB/s and
    /// memory comes back within 10 ms. `every_ms`: how often we get to look.
    fn least_left(every_ms: u64) -> u64 {
        let bounds = Bounds {
            floor: 64 * MIB,
            ceiling: 192 * MIB,
        };
        let (limit, mut budget, mut charged) = (300 * MIB, 192 * MIB, 192 * MIB);
        let mut controller = Controller::default();
        let mut least = limit;
        for ms in 0..3_000u64 {
            let taken = (ms.saturating_sub(500) * MIB * 133 / 1000).min(180 * MIB);
            let used = charged + taken + 4 * MIB;
            least = least.min(limit.saturating_sub(used));
            if ms % every_ms == 0 {
                let reading = Reading {
                    budget,
                    charged,
                    limit: Some(limit),
                    used: Some(used),
                    ..group_with(ms, 0)
                };
                budget = controller.decide(&reading, bounds).target;
            }
            if ms % 10 == 0 {
                charged = budget;
            }
        }
        least
    }

    #[test]
    fn a_steady_neighbour_is_kept_pace_with_even_by_one_who_looks_seldom() {
        assert!(least_left(100) > 20 * MIB, "{}", least_left(100) / MIB);
        assert!(least_left(250) > 5 * MIB, "{}", least_left(250) / MIB);
    }

    #[test]
    fn growing_waits_for_quiet_and_leaves_room() {
        let mut controller = Controller::default();
        let mut budget = 256 * MIB;
        let mut steps = Vec::new();
        for n in 0..400u64 {
            let reading = Reading {
                budget,
                charged: budget,
                ..group_with(n * 100, 600 * MIB)
            };
            let target = controller.decide(&reading, BOUNDS).target;
            if target > budget {
                steps.push((n * 100, target - budget));
            }
            budget = target;
        }
        assert_eq!(steps[0], (10_000, 8 * MIB), "quiet for ten seconds first");
        assert_eq!(steps[1].0 - steps[0].0, 1_000);
        assert_eq!(budget, (256 + 8 * 30) * MIB);
        // One stall, and it waits again.
        let stall = Reading {
            budget,
            charged: budget,
            stalled_us: Some(9_000),
            ..group_with(40_000, 600 * MIB)
        };
        controller.decide(&stall, BOUNDS);
        let after = Reading {
            now_ms: 45_000,
            ..stall
        };
        assert_eq!(controller.decide(&after, BOUNDS).target, budget);
    }

    #[test]
    fn shrinking_and_growing_do_not_chase_each_other() {
        // A neighbour takes 60 MiB and keeps it: the budget goes down once and stays there for a minute.
        let mut controller = Controller::default();
        let (mut budget, mut turns, mut direction) = (512 * MIB, 0, 0i8);
        for n in 0..600u64 {
            let used = budget + 400 * MIB + 60 * MIB;
            let reading = Reading {
                budget,
                charged: budget,
                used: Some(used),
                ..group_with(n * 100, 0)
            };
            let target = controller.decide(&reading, BOUNDS).target;
            let now = (target > budget) as i8 - (target < budget) as i8;
            if now != 0 && now != direction {
                turns += 1;
                direction = now;
            }
            budget = target;
        }
        assert!(
            budget < 512 * MIB && turns <= 1,
            "{} after {turns} turns",
            budget / MIB
        );
    }

    #[test]
    fn a_machine_without_memory_is_pressure_too() {
        let mut controller = Controller::default();
        let reading = Reading {
            budget: 512 * MIB,
            charged: 512 * MIB,
            total: Some(16_384 * MIB),
            available: Some(300 * MIB),
            ..Reading::default()
        };
        let verdict = controller.decide(&reading, BOUNDS);
        assert_eq!(verdict.level, Level::Critical);
        assert!(verdict.cause.contains("machine"));
    }

    #[test]
    fn a_system_that_tells_nothing_is_left_alone() {
        let mut controller = Controller::default();
        let reading = Reading {
            budget: 512 * MIB,
            charged: 512 * MIB,
            ..Reading::default()
        };
        assert_eq!(controller.decide(&reading, BOUNDS).target, 512 * MIB);
        // The operator lowered the ceiling meanwhile.
        let lower = Bounds {
            floor: 64 * MIB,
            ceiling: 100 * MIB,
        };
        assert_eq!(controller.decide(&reading, lower).target, 100 * MIB);
    }
}
