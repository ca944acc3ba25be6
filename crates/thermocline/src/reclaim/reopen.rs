//! Reopening: the dead runs of a sealed segment become holes for writers, instead of its live rest being copied away.
//!
//! ```text
//! looked through, unqueued --two epochs, no hold--> holes (`holes.rs`) --closed--> sealed and queued anew
//! ```
//! Two looks, as in `thin.rs`: the walk notes records that no slot points to. In a settled segment such a record is dead
//! for good, and after two epochs with no hold nobody reads it or locks it any more: neither who found it before it
//! died, nor who would still overwrite it in place. Only then its version is read: what is written there begins at a
//! later one than any record of the segment that has died ever had.
//!
//! Must hold: no byte of a record that a slot or a live chunk table points to becomes a hole; nothing is published in
//! a segment born before a mark that was raised by then (marks are raised under this lock and close all holes).

use super::choose::{is_held, is_settled};
use super::{thin, Books, Reclaim};
use crate::generation::Source;
use crate::holes::HOLE_MIN;
use crate::location::Place;
use crate::models_switch::{mutant, Mutant};
use crate::policy::{self, MAIN_OLD_PART};
use crate::segment::{SegmentId, REUSE_MAX};
use crate::store::Store;
use crate::sync::{lock, Ordering};

/// Segments looked through before the epoch is moved on, and about how many records in them.
const LOOK_SEGMENTS: usize = 8;
const LOOK_RECORDS: f64 = 512.0;
/// One in so many segments may be reopened, and at most so many: the more holes, the sooner one fits.
const SEGMENTS_SHARE: usize = 8;
const SEGMENTS_MAX: usize = 64;
/// One of which more than this part has died is not reopened: copying its live rest costs less than it frees, and then all
/// of it is free, to probation too. (What a large value leaves is dead whole: it was kept from all but new items of main.) A model's segment holds two records, of which one dies.
const DEAD_PART: usize = if cfg!(shuttle) { 1 } else { 2 };
/// One of which so much has expired, a tenth, is copied together (`policy::next`).
const EXPIRED_PART: usize = 10;

/// Segments that were looked through and wait for the epochs.
pub(super) struct Look {
    found: Vec<Found>,
    /// When the last record was found dead.
    ended: u64,
}

struct Found {
    id: SegmentId,
    /// Its dead bytes before the walk.
    dead: usize,
    /// Offset in the region and bytes of each dead run.
    runs: Vec<(usize, usize)>,
}

impl Reclaim {
    /// Whether segments are to be reopened: a full cache that is used whole, in one tier, and whose holes run out.
    pub(crate) fn wants_holes(&self, store: &Store) -> bool {
        // Models say themselves when.
        let flagged = !cfg!(shuttle) && self.reopens.load(Ordering::Relaxed);
        flagged && has_holes(store) && self.holes_low(store) && self.may_reopen(store)
    }

    /// Reopens segments if it is time, and nobody else is at the books. True if it did something.
    pub(super) fn reopen_some(&self, store: &Store) -> bool {
        if !self.wants_holes(store) {
            return false;
        }
        let Ok(mut books) = self.books.try_lock() else {
            return false;
        };
        self.queue_sealed(store, &mut books);
        self.reopen(store, &mut books)
    }

    fn may_reopen(&self, store: &Store) -> bool {
        let one_tier = !store.compress.is_on() && store.run_bytes.is_none();
        let is_full = cfg!(shuttle) || store.segments.could_add() == 0;
        one_tier && reopened_max(store) > 0 && is_full && !self.owes(store)
    }

    /// Reopens what it can at once, whether it is time or not: for the models.
    #[cfg(all(test, shuttle))]
    pub(crate) fn reopen_now(&self, store: &Store) {
        let mut books = lock(&self.books);
        self.queue_sealed(store, &mut books);
        if books.look.is_some() || self.look(store, &mut books) {
            self.reopen(store, &mut books);
        }
    }

    fn holes_low(&self, store: &Store) -> bool {
        let bytes = (reopened_max(store) * store.segments.bytes()) as u64;
        (store.holes.bytes() as f64) < bytes as f64 * policy::REOPEN_SHARE
    }

    /// A bounded piece of that work. False: nothing came of it, be it that there is nothing to do.
    pub(super) fn reopen(&self, store: &Store, books: &mut Books) -> bool {
        if books.look.is_none() && !(self.wants_holes(store) && self.look(store, books)) {
            return false;
        }
        let Some(look) = books.look.take() else {
            return false;
        };
        if !store.domain.passed(look.ended) {
            let _ = store.domain.try_advance() && store.domain.try_advance();
        }
        if !store.domain.passed(look.ended) && !mutant(Mutant::ReuseNoGrace) {
            books.look = Some(look);
            return false;
        }
        let most = reopened_max(store).saturating_sub(look.found.len());
        close_holes(store, most);
        let mut opened = false;
        for found in look.found {
            opened |= self.open_holes(store, found);
        }
        opened
    }

    /// Looks through the segments of main of which most has died, what was found useless before left out.
    fn look(&self, store: &Store, books: &mut Books) -> bool {
        let least = reopened_least(store);
        let marks = store.flush.any.load(Ordering::Acquire);
        let old = books.main.len() / MAIN_OLD_PART;
        let fits = |id: &SegmentId| {
            let segment = store.segment(*id);
            segment.dead_unlooked() >= least
                && segment.dead() * DEAD_PART <= segment.used()
                && segment.birth() > marks
                && segment.reuse_version() < REUSE_MAX
                && is_settled(store, *id)
                && !is_taken(store, *id)
                && !is_expiring(store, *id)
                && !books.given_up.contains(id)
        };
        let main = books.main.iter().skip(old).copied().filter(fits);
        // Read once: writers bury meanwhile.
        let mut most: Vec<(usize, u32)> = main.map(|id| (store.segment(id).dead(), id.0)).collect();
        most.sort_unstable_by_key(|&one| std::cmp::Reverse(one));
        most.truncate(look_segments(store));
        if most.is_empty() {
            // Until more was sealed.
            self.reopens.store(false, Ordering::Relaxed);
            return false;
        }
        let mut found = Vec::new();
        for id in most.into_iter().map(|(_, id)| SegmentId(id)) {
            if self.unqueue(store, books, id) {
                let dead = store.segment(id).dead();
                let runs = dead_runs(store, id);
                found.push(Found { id, dead, runs });
            }
        }
        // Read after the last record was found dead.
        let ended = store.domain.epoch();
        books.look = Some(Look { found, ended });
        true
    }

    /// Nobody is left who knew the dead records: what they took are holes, unless a guard holds the segment, or it is
    /// too little. False: it is queued again, and looked at again once more of it has died.
    fn open_holes(&self, store: &Store, found: Found) -> bool {
        let Found { id, dead, runs } = found;
        let segment = store.segment(id);
        let held = is_taken(store, id);
        let dark = segment.birth() <= store.flush.any.load(Ordering::Acquire);
        if held || dark || !self.may_reopen(store) {
            lock(&store.sealed).push(id);
            return false;
        }
        let (runs, version) = reusable(store, id, &runs);
        let usable: usize = runs.iter().map(|&(_, bytes)| bytes).sum();
        segment.looked_through(dead.saturating_sub(usable));
        if usable < reopened_least(store) {
            lock(&store.sealed).push(id);
            return false;
        }
        segment.set_reuse_version(version);
        let version = match mutant(Mutant::ReuseSameVersion) {
            true => 0,
            false => version,
        };
        store.holes.open(id, version, &runs);
        true
    }

    /// Closes those that are to be drained soon: old ones, those a tenth of which has expired, and all of them where
    /// dead room is no longer reused. While they are open nobody sees them.
    pub(super) fn close_worn(&self, store: &Store, books: &mut Books) {
        if store.holes.segments() == 0 {
            return;
        }
        if store.compress.is_on() {
            return self.forget_holes(store, books);
        }
        let old = match books.main.get(books.main.len() / MAIN_OLD_PART) {
            Some(&id) if books.main.len() >= MAIN_OLD_PART => Some(store.segment(id).generation()),
            _ => None,
        };
        let is_worn = |id: SegmentId| {
            let generation = store.segment(id).generation();
            old.is_some_and(|old| generation < old) || is_expiring(store, id)
        };
        close_those(store, usize::MAX, is_worn);
    }

    /// Nothing is reserved in dead room any more, and what was to become holes is queued again.
    pub(super) fn forget_holes(&self, store: &Store, books: &mut Books) {
        close_holes(store, 0);
        let found = books.look.take().map_or(Vec::new(), |look| look.found);
        lock(&store.sealed).extend(found.into_iter().map(|found| found.id));
        self.queue_sealed(store, books);
    }
}

/// Whether a guard may hold what is dead there.
fn is_taken(store: &Store, id: SegmentId) -> bool {
    is_held(store, id) && !mutant(Mutant::ReuseHeld)
}

/// Whether much of what is written is large enough for holes: else segments are walked for nothing.
fn has_holes(store: &Store) -> bool {
    store.policy.mean_size() * 2.0 >= HOLE_MIN as f64
}

/// A look is short: it is taken under the reclaim lock.
fn look_segments(store: &Store) -> usize {
    let records = store.segments.bytes() as f64 / store.policy.mean_size().max(1.0);
    match cfg!(shuttle) {
        true => LOOK_SEGMENTS,
        false => ((LOOK_RECORDS / records) as usize).clamp(1, LOOK_SEGMENTS),
    }
}

fn reopened_max(store: &Store) -> usize {
    let share = if cfg!(shuttle) { 1 } else { SEGMENTS_SHARE };
    (store.segments.owned() / share).min(SEGMENTS_MAX)
}

/// Whether so much has expired that it is soon copied together.
fn is_expiring(store: &Store, id: SegmentId) -> bool {
    let segment = store.segment(id);
    let expired = segment.expiring.expired(store.time.now_s()) as usize;
    expired > 0 && expired * EXPIRED_PART >= segment.used()
}

/// Whether so much is dead that emptying it may be worth it once it can be.
pub(super) fn is_worth_emptying(store: &Store, id: SegmentId) -> bool {
    store.segment(id).dead() >= reopened_least(store) || is_expiring(store, id)
}

/// Bytes of holes below which a segment is not reopened.
fn reopened_least(store: &Store) -> usize {
    match cfg!(shuttle) {
        true => HOLE_MIN,
        false => (store.segments.bytes() as f64 * policy::REOPEN_SHARE) as usize,
    }
}

/// Closes all but so many reopened segments. Under the reclaim lock.
pub(crate) fn close_holes(store: &Store, most: usize) {
    close_those(store, most, |_| false);
}

/// Closes the oldest of more than `most`, and those that `is_worn` says.
fn close_those(store: &Store, most: usize, is_worn: impl Fn(SegmentId) -> bool) {
    let closed = store.holes.close(&store.segments, most, is_worn);
    for (id, used) in closed {
        match used {
            true => store.reseal(id),
            // Nothing was stored there: it is as old as it was.
            false => lock(&store.sealed).push(id),
        }
    }
    let new_bytes = store.holes.take_new_bytes();
    if new_bytes > 0 {
        let mut generations = lock(&store.generations);
        generations.put_main(new_bytes, Source::New);
        store.publish_now(&generations);
    }
}

/// Walks a settled segment of its own: runs of records that nothing points to.
fn dead_runs(store: &Store, id: SegmentId) -> Vec<(usize, usize)> {
    let _pin = store.pin();
    let start = store.segments.start(id);
    let end = start + store.segment(id).used();
    let mut runs: Vec<(usize, usize)> = Vec::new();
    let mut at = start;
    while at < end {
        let (bytes, dead) = thin::look(store, Place::from_offset(at));
        assert!(
            bytes >= 4 && at + bytes <= end,
            "a record reaches over the end of its segment"
        );
        match runs.last_mut() {
            Some((from, length)) if dead && *from + *length == at => *length += bytes,
            _ if dead => runs.push((at, bytes)),
            _ => {}
        }
        at += bytes;
    }
    runs.retain(|&(_, bytes)| bytes >= HOLE_MIN);
    runs
}

/// The runs without what died at too high a version, and the version to begin at there.
fn reusable(store: &Store, id: SegmentId, runs: &[(usize, usize)]) -> (Vec<(usize, usize)>, u32) {
    let mut last = store.segment(id).reuse_version();
    let mut kept: Vec<(usize, usize)> = Vec::new();
    for &(from, length) in runs {
        let mut at = from;
        while at < from + length {
            let item = store.item(Place::from_offset(at));
            let header = item.header();
            let bytes = item.reserved(header);
            if header.version() < REUSE_MAX {
                last = last.max(header.version());
                match kept.last_mut() {
                    Some((start, room)) if *start + *room == at => *room += bytes,
                    _ => kept.push((at, bytes)),
                }
            }
            at += bytes;
        }
    }
    kept.retain(|&(_, bytes)| bytes >= HOLE_MIN);
    (kept, last + 1)
}
