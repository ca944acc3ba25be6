//! The unit's lock: one bit in the head's directory word.
//!
//! All changes of slots, and of the words themselves, are made under it; only `bump` is not. A waiter
//! spins 64 times and then parks: a preempted holder must not stall a whole scheduler slice. Whoever
//! holds a lock reads no key, waits for nobody, and only tries other units.
//!
//! A word is published for a whole run: **followers first, then the head**. The other way round a
//! second writer could lock the new head, change the unit, and be overwritten in a follower.

use super::models_switch::{mutant, Mutant};
use super::stats::Stats;
use super::unit::Block;
use super::word::{Word, WordId, UNLOCK};
use super::Index;
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{lock, pause, Condvar, Mutex};

/// Tries before a waiter parks.
const SPINS: u32 = if cfg!(shuttle) { 1 } else { 64 };
const PARKING_PLACES: usize = if cfg!(shuttle) { 2 } else { 64 };

/// Where waiters sleep, by their unit's head.
pub(super) struct Parking {
    places: Vec<(Mutex<()>, Condvar)>,
}

impl Parking {
    pub(super) fn new() -> Parking {
        Parking {
            places: (0..PARKING_PLACES)
                .map(|_| (Mutex::new(()), Condvar::new()))
                .collect(),
        }
    }

    fn place(&self, head: WordId) -> &(Mutex<()>, Condvar) {
        &self.places
            [(head.pack().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 58) as usize % PARKING_PLACES]
    }
}

/// Where something falls in both directories.
#[derive(Clone, Copy, Debug)]
pub(super) struct Position {
    pub(super) coarse: usize,
    pub(super) fine: usize,
}

/// A unit held. Dropping it unlocks.
pub(super) struct Locked<'a> {
    pub(super) index: &'a Index,
    pub(super) head: WordId,
    /// The head's word without lock and parked. Stands still while held, but for our own changes.
    pub(super) word: Word,
}

enum Try {
    Got(Word),
    Busy(Word),
    Changed,
}

impl Index {
    /// Locks the unit at a position; waits as long as it takes (microseconds, or the holder's
    /// preemption).
    pub(super) fn lock(&self, position: Position) -> Locked<'_> {
        let mut spins = 0;
        loop {
            let mut id = WordId::coarse(position.coarse);
            let mut own = Word(self.word(id).load(Acquire));
            if own.in_fine() {
                id = WordId::fine(position.fine);
                own = Word(self.word(id).load(Acquire));
            }
            let head = id.head(own.depth());
            match self.try_head(head, own.depth()) {
                Try::Got(word) => {
                    return Locked {
                        index: self,
                        head,
                        word,
                    }
                }
                Try::Busy(word) if spins >= SPINS => self.park(head, word),
                // A word half way through its change: it may be the holder who was preempted, so
                // `pause` yields after 64.
                Try::Busy(_) | Try::Changed => pause(spins),
            }
            if spins == 0 {
                Stats::add(&self.stats.lock_waits);
            }
            spins += 1;
        }
    }

    fn try_head(&self, head: WordId, depth: u32) -> Try {
        let at = self.word(head);
        let word = Word(at.load(Relaxed));
        // The own word may be older than the head's: then the head's unit is not ours.
        let other_unit = word.in_fine() || word.depth() != depth;
        if other_unit && !mutant(Mutant::NoDepthCheck) {
            return Try::Changed;
        }
        if word.is_locked() {
            return Try::Busy(word);
        }
        // The whole word is compared: nothing about the unit has changed since it was looked at.
        match at.compare_exchange(word.0, word.locked().0, Acquire, Relaxed) {
            Ok(_) => Try::Got(word.bare()),
            Err(_) => Try::Changed,
        }
    }

    /// Sleeps until the head is unlocked, unless it no longer reads `seen`.
    #[cold]
    fn park(&self, head: WordId, seen: Word) {
        let (mutex, wake) = self.parking.place(head);
        let guard = lock(mutex);
        let at = self.word(head);
        let parked = seen.parked();
        let asleep = seen.is_parked() && at.load(Relaxed) == seen.0
            || at
                .compare_exchange(seen.0, parked.0, Relaxed, Relaxed)
                .is_ok();
        if asleep {
            // The unlocker clears the bit first and then needs this mutex to wake us, so it comes
            // after we sleep. Waking without reason only means another round.
            Stats::add(&self.stats.parks);
            drop(
                wake.wait(guard)
                    .unwrap_or_else(|poisoned| poisoned.into_inner()),
            );
        }
    }

    fn wake(&self, head: WordId) {
        let (mutex, wake) = self.parking.place(head);
        drop(lock(mutex));
        wake.notify_all();
    }

    /// Publishes a word to a run nobody holds or can hold yet: the second half of a split.
    pub(super) fn publish_run(&self, head: WordId, word: Word) {
        let late_head = !mutant(Mutant::HeadBeforeFollower);
        if !late_head {
            self.word(head).store(word.0, Release);
        }
        for n in 1..word.run() {
            self.word(head.plus(n)).store(word.0, Release);
        }
        if late_head {
            self.word(head).store(word.0, Release);
        }
    }

    /// Moves the block of another unit, on behalf of its class. False when that unit is busy or its
    /// word names another block.
    pub(super) fn move_block(&self, owner: WordId, from: u32, to: u32) -> bool {
        let at = self.word(owner);
        let word = Word(at.load(Relaxed));
        let unpublished = word.line() != from || word.steps() == 0 || word.in_fine();
        if word.is_locked() || unpublished && !mutant(Mutant::MoveUnpublished) {
            return false;
        }
        if at
            .compare_exchange(word.0, word.locked().0, Acquire, Relaxed)
            .is_err()
        {
            return false;
        }
        let mut unit = Locked {
            index: self,
            head: owner,
            word: word.bare(),
        };
        // The owner word travels with the copy: nobody else writes it, we hold the class.
        crate::sync::fence(Release);
        let words = self.region().words();
        Block::new(words, from).copy_to(Block::new(words, to), word.steps());
        unit.set_word(word.next(to, word.steps(), word.depth()));
        Stats::add(&self.stats.block_moves);
        true
    }
}

impl<'a> Locked<'a> {
    /// Points the run at another block, keeping the lock.
    pub(super) fn set_word(&mut self, next: Word) {
        for n in 1..next.run() {
            self.index.word(self.head.plus(n)).store(next.0, Release);
        }
        self.set_head(next);
    }

    /// Changes the head alone, keeping lock and parked, which waiters may be setting meanwhile.
    pub(super) fn set_head(&mut self, next: Word) {
        let at = self.index.word(self.head);
        let mut seen = Word(at.load(Relaxed));
        while let Err(now) = at.compare_exchange(seen.0, seen.state_onto(next).0, Release, Relaxed)
        {
            seen = Word(now);
        }
        self.word = next;
    }

    pub(super) fn block(&self) -> Block<'a> {
        Block::new(self.index.region().words(), self.word.line())
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        let before = Word(self.index.word(self.head).fetch_and(UNLOCK, Release));
        if before.is_parked() && !mutant(Mutant::NoWake) {
            self.index.wake(self.head);
        }
    }
}
