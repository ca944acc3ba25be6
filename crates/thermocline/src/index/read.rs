//! Looking things up, without locks.
//!
//! A hit needs no second look: the caller has compared the key, and the slot was there when the
//! directory word was read. A miss does: the unit may have moved on while we read, so the word is read
//! again behind a fence, and anything but lock and parked having changed sends us back.
//!
//! `find` is inlined by force: called out of line it costs 137 ns instead of 104 (the core overlaps
//! the end of one lookup with the next one's loads).

use super::models_switch::{mutant, Mutant};
use super::stats::Stats;
use super::unit::{buckets, Block, STEPS_MAX};
use super::word::{home_bucket, split_hash, Word, WordId, FINE};
use super::Index;
use crate::location::{Place, Slot};
use crate::sync::fence;
use crate::sync::Ordering::{Acquire, Relaxed};

/// A slot as it was when found, and where: for `bump`, under the same pin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) slot: Slot,
    at: usize,
}

/// One look at a unit.
#[derive(Clone, Copy)]
struct View<'a> {
    block: Block<'a>,
    id: WordId,
    word: Word,
    tag: u16,
    home: usize,
}

impl Index {
    /// The first slot with this hash's tag whose place `matches`. Pinned callers only. `matches` is
    /// called with places of other keys too (one lookup in 200), and may see a place twice.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(Place) -> bool) -> Option<Found> {
        let (index, tag) = split_hash(hash, self.words);
        let id = WordId::coarse(index);
        let word = Word(self.word(id).load(Acquire));
        if word.steps().wrapping_sub(1) >= STEPS_MAX {
            return self.find_elsewhere(hash, word, &mut matches);
        }
        let view = self.view(id, word, tag);
        let found = self.match_bucket(view.bucket(0), tag, &mut matches);
        if found.is_some() {
            return found;
        }
        let code = view.block.code(view.home);
        if code > 0 {
            let found = self.match_bucket(view.bucket(1), tag, &mut matches);
            if found.is_some() {
                return found;
            }
        }
        if code <= 1 && self.still(view) {
            return None;
        }
        self.find_beyond(hash, view, code, &mut matches)
    }

    #[inline(always)]
    fn view(&self, id: WordId, word: Word, tag: u16) -> View<'_> {
        View {
            block: Block::new(self.region(), word.line()),
            id,
            word,
            tag,
            home: home_bucket(tag, word.depth(), buckets(word.steps())),
        }
    }

    /// Whether the unit is where it was when the view was taken.
    #[inline(always)]
    fn still(&self, view: View<'_>) -> bool {
        if mutant(Mutant::NoRecheck) {
            return true;
        }
        // Pairs with the fence before a recycled block is filled (grow.rs).
        fence(Acquire);
        Word(self.word(view.id).load(Relaxed)).bare() == view.word.bare()
    }

    #[inline(always)]
    fn match_bucket(
        &self,
        at: usize,
        tag: u16,
        matches: &mut impl FnMut(Place) -> bool,
    ) -> Option<Found> {
        let mut mask = self.region().match_tags(at, tag);
        while mask != 0 {
            let at = at + mask.trailing_zeros() as usize * 8;
            mask &= mask - 1;
            // Again, and with Acquire: the item's bytes were written before its slot.
            let slot = Slot(self.region().u64(at).load(Acquire));
            if !slot.is_empty() && slot.tag() == tag && matches(slot.place()) {
                return Some(Found { slot, at });
            }
        }
        None
    }

    /// The word led to no unit of the coarse directory.
    #[cold]
    #[inline(never)]
    fn find_elsewhere(
        &self,
        hash: u64,
        word: Word,
        matches: &mut dyn FnMut(Place) -> bool,
    ) -> Option<Found> {
        if word.in_fine() {
            self.find_slowly(hash, matches)
        } else {
            None
        }
    }

    /// Home and, if the code says so, its neighbour have been searched.
    #[cold]
    #[inline(never)]
    fn find_beyond(
        &self,
        hash: u64,
        view: View<'_>,
        code: usize,
        matches: &mut dyn FnMut(Place) -> bool,
    ) -> Option<Found> {
        let found = self.search(view, 2, view.block.reach(code), matches);
        if found.is_some() || self.still(view) {
            return found;
        }
        Stats::add(&self.stats.restarts);
        self.find_slowly(hash, matches)
    }

    /// The whole lookup, in either directory, as often as the unit changes under it.
    #[cold]
    #[inline(never)]
    fn find_slowly(&self, hash: u64, matches: &mut dyn FnMut(Place) -> bool) -> Option<Found> {
        loop {
            let (index, mut tag) = split_hash(hash, self.words);
            let mut id = WordId::coarse(index);
            let mut word = Word(self.word(id).load(Acquire));
            if word.in_fine() {
                let (index, fine_tag) = split_hash(hash, self.words * FINE);
                (id, tag) = (WordId::fine(index), fine_tag);
                word = Word(self.word(id).load(Acquire));
            }
            if word.steps() == 0 {
                return None;
            }
            let view = self.view(id, word, tag);
            let reach = view.block.reach(view.block.code(view.home));
            let found = self.search(view, 0, reach, matches);
            if found.is_some() || self.still(view) {
                return found;
            }
            Stats::add(&self.stats.restarts);
            crate::sync::pause(0);
        }
    }

    fn search(
        &self,
        view: View<'_>,
        from: usize,
        reach: usize,
        mut matches: &mut dyn FnMut(Place) -> bool,
    ) -> Option<Found> {
        // A recycled header can say anything; a unit has no more buckets than this.
        let reach = reach.min(buckets(view.word.steps()) - 1);
        (from..=reach).find_map(|d| self.match_bucket(view.bucket(d), view.tag, &mut matches))
    }

    /// Counts an access: one compare-exchange of the slot as it was seen, failure ignored, so that a
    /// slot deleted or moved meanwhile never comes back. Nothing when saturated.
    #[inline(always)]
    pub(crate) fn bump(&self, found: &Found) {
        let bumped = found.slot.bumped();
        if bumped == found.slot {
            return;
        }
        let at = self.region().u64(found.at);
        if mutant(Mutant::PlainBump) {
            at.store(bumped.0, Relaxed);
            return;
        }
        let _ = at.compare_exchange(found.slot.0, bumped.0, Relaxed, Relaxed);
    }

    /// The counter of the slot that points to `place`; None when none does: the item is dead. Costs a
    /// lookup without a key compare.
    #[inline(always)]
    pub(crate) fn counter_of(&self, hash: u64, place: Place) -> Option<u32> {
        self.find(hash, |other| other == place)
            .map(|found| found.slot.counter())
    }

    /// First stage of a batch: asks for the directory word.
    #[inline(always)]
    pub(crate) fn prefetch_directory(&self, hash: u64) {
        let (index, _) = split_hash(hash, self.words);
        self.region().prefetch(index * 8);
    }

    /// Second stage: asks for the home bucket.
    #[inline(always)]
    pub(crate) fn prefetch_bucket(&self, hash: u64) {
        let (index, tag) = split_hash(hash, self.words);
        let word = Word(self.word(WordId::coarse(index)).load(Acquire));
        if word.steps().wrapping_sub(1) < STEPS_MAX {
            let view = self.view(WordId::coarse(index), word, tag);
            self.region().prefetch(view.bucket(0));
        }
    }

    /// Third stage: the place of the first slot at home with this tag, so that the caller can ask for
    /// the item. A guess: `find` decides.
    #[inline(always)]
    pub(crate) fn prefetch_place(&self, hash: u64) -> Option<Place> {
        let (index, tag) = split_hash(hash, self.words);
        let word = Word(self.word(WordId::coarse(index)).load(Acquire));
        if word.steps().wrapping_sub(1) >= STEPS_MAX {
            return None;
        }
        let view = self.view(WordId::coarse(index), word, tag);
        self.match_bucket(view.bucket(0), tag, &mut |_| true)
            .map(|found| found.slot.place())
    }
}

impl View<'_> {
    /// Offset of the bucket `distance` after home, around the end.
    #[inline(always)]
    fn bucket(&self, distance: usize) -> usize {
        let count = buckets(self.word.steps());
        let mut bucket = self.home + distance;
        if bucket >= count {
            bucket -= count;
        }
        self.block.bucket(bucket)
    }
}

impl Found {
    pub(super) fn offset(&self) -> usize {
        self.at
    }
}
