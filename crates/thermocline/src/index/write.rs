//! Changing slots: publish, move, remove. All under the unit's lock, none reads a key there.
//!
//! The caller compares keys before it comes and says what it saw: the place it replaces, or the places
//! with the same tag that hold other keys. If the unit holds something else by then, nothing is done
//! and the answer is `Changed`: look up again. The caller's pin keeps the places it names from being
//! reused meanwhile.

use super::grow::Grown;
use super::lock::{Locked, Position};
use super::models_switch::{mutant, Mutant};
use super::stats::Stats;
use super::unit::{buckets, limit, BUCKETS_MAX, REACH, SPLIT_AT, STEPS_MAX};
use super::word::{home_bucket, split_hash, Level, DEPTH_MAX, FINE};
use super::{Index, Rehash};
use crate::location::{Place, Slot, Tier};
use crate::sync::Ordering::{Relaxed, Release};

/// What came of a publication.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use]
pub(crate) enum Publish {
    Done,
    /// The index no longer holds what the caller saw: look up again.
    Changed,
    /// No index memory to be had: unpin, reclaim, try again.
    NoRoom,
}

impl Index {
    /// Makes `new` the place of this hash's key. `expected` is the key's place as the caller found it,
    /// to be replaced; or None, and `rejected` are the places found that hold other keys.
    /// `counter` None keeps the replaced slot's counter, or starts at 0. Takes the unit's lock; may
    /// restructure the unit (2-25 us).
    pub(crate) fn publish(
        &self,
        hash: u64,
        expected: Option<Place>,
        rejected: &[Place],
        new: Place,
        counter: Option<u32>,
        rehash: Rehash<'_>,
    ) -> Publish {
        if let Some(old) = expected {
            return match self.move_if(hash, old, new, counter) {
                true => Publish::Done,
                false => Publish::Changed,
            };
        }
        let mut divided = false;
        loop {
            let mut unit = self.lock(self.position(hash));
            let tag = self.tag(hash, &unit);
            let stranger = |slot: Slot| !rejected.contains(&slot.place());
            if unit.find(tag, stranger).is_some() && !mutant(Mutant::NoSecondLook) {
                return Publish::Changed;
            }
            let slot = Slot::new(tag, counter.unwrap_or(0), Tier::Hot, new);
            // Half of a unit that was just divided may be past its limit, and takes this item all the same, however far
            // from home: one insert restructures once.
            if divided && unit.word.steps() > 0 && unit.store(slot, BUCKETS_MAX) {
                return Publish::Done;
            }
            if let Some(outcome) = unit.insert(slot, rehash) {
                return outcome;
            }
            divided = true;
        }
    }

    /// Replaces `old` by `new` if the index still holds it. `counter` None keeps the slot's counter.
    pub(crate) fn move_if(&self, hash: u64, old: Place, new: Place, counter: Option<u32>) -> bool {
        if mutant(Mutant::MoveWithoutLock) {
            return self.move_unlocked(hash, old, new);
        }
        let unit = self.lock(self.position(hash));
        unit.change(self.tag(hash, &unit), old, |slot| {
            slot.with_place(Tier::Hot, new)
                .with_counter(counter.unwrap_or(slot.counter()))
        })
    }

    /// The mutant of `move_if`: a compare-exchange of the slot a reader finds.
    #[cold]
    fn move_unlocked(&self, hash: u64, old: Place, new: Place) -> bool {
        self.find(hash, |place| place == old).is_some_and(|found| {
            let moved = found.slot.with_place(Tier::Hot, new);
            let at = self.region().u64(found.offset());
            at.compare_exchange(found.slot.0, moved.0, Release, Relaxed)
                .is_ok()
        })
    }

    /// Removes `old` if the index still holds it. May shrink the unit.
    pub(crate) fn remove_if(&self, hash: u64, old: Place) -> bool {
        let mut unit = self.lock(self.position(hash));
        let removed = unit.change(self.tag(hash, &unit), old, |_| Slot::EMPTY);
        if removed {
            unit.count_changed(-1);
            unit.shrink_if_few(unit.block().count());
        }
        removed
    }

    /// Sets the counter of the slot that points to `place`. False when none does.
    pub(crate) fn set_counter(&self, hash: u64, place: Place, counter: u32) -> bool {
        let unit = self.lock(self.position(hash));
        unit.change(self.tag(hash, &unit), place, |slot| {
            slot.with_counter(counter)
        })
    }

    fn position(&self, hash: u64) -> Position {
        Position {
            coarse: split_hash(hash, self.words).0,
            fine: split_hash(hash, self.words * FINE).0,
        }
    }

    /// The tag a hash has in the directory the unit belongs to.
    fn tag(&self, hash: u64, unit: &Locked<'_>) -> u16 {
        match unit.head.level {
            Level::Coarse => split_hash(hash, self.words).1,
            Level::Fine => split_hash(hash, self.words * FINE).1,
        }
    }
}

impl Locked<'_> {
    fn home(&self, tag: u16) -> usize {
        home_bucket(tag, self.word.depth(), buckets(self.word.steps()))
    }

    /// Offset and value of the first slot with a tag that is `wanted`.
    fn find(&self, tag: u16, mut wanted: impl FnMut(Slot) -> bool) -> Option<(usize, Slot)> {
        if self.word.steps() == 0 {
            return None;
        }
        let (block, count, home) = (self.block(), buckets(self.word.steps()), self.home(tag));
        let reach = block.reach(block.code(home));
        (0..=reach).find_map(|d| block.find_slot((home + d) % count, tag, &mut wanted))
    }

    /// One store in place of the slot that points to `old`.
    fn change(&self, tag: u16, old: Place, next: impl FnOnce(Slot) -> Slot) -> bool {
        match self.find(tag, |slot| slot.place() == old) {
            Some((at, slot)) => {
                // A bump between load and store is lost: one access uncounted.
                let word = self.index.region().u64(at);
                word.store(next(slot).0, Release);
                true
            }
            None => false,
        }
    }

    /// Puts a slot in, growing as needed. None: the unit was divided, lock and look again.
    fn insert(&mut self, slot: Slot, rehash: Rehash<'_>) -> Option<Publish> {
        loop {
            if self.has_room() && self.store(slot, REACH) {
                return Some(Publish::Done);
            }
            match self.grow(rehash) {
                Grown::Bigger => {}
                Grown::Divided => return None,
                Grown::AtMost => return Some(self.store_or_refuse(slot, BUCKETS_MAX)),
                // A fuller unit is slower, but better than a refused item.
                Grown::NoRoom => return Some(self.store_or_refuse(slot, REACH)),
            }
        }
    }

    /// Whether to fill the block on rather than to grow. Past its limit only while slabs are refused:
    /// then growing is tried again at every eighth item, not for each.
    fn has_room(&self) -> bool {
        let steps = self.word.steps();
        if steps == 0 {
            return false;
        }
        let count = self.block().count();
        let most = match steps {
            STEPS_MAX if self.word.depth() < DEPTH_MAX => SPLIT_AT,
            _ => limit(steps),
        };
        count < most || self.index.is_short() && count % 8 != 0
    }

    fn store_or_refuse(&mut self, slot: Slot, window: usize) -> Publish {
        if self.word.steps() > 0 && self.store(slot, window) {
            return Publish::Done;
        }
        Stats::add(&self.index.stats.refusals);
        Publish::NoRoom
    }

    /// Stores a slot in the nearest free one at most `window` buckets from home.
    fn store(&mut self, slot: Slot, window: usize) -> bool {
        let (block, count, home) = (
            self.block(),
            buckets(self.word.steps()),
            self.home(slot.tag()),
        );
        if !block.store_near(slot, home, count, window) {
            return false;
        }
        self.count_changed(1);
        true
    }

    fn count_changed(&self, by: i64) {
        let block = self.block();
        block.set_count((block.count() as i64 + by) as usize);
        self.index.stats.items_changed(self.head.index / 4, by);
    }
}
