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
use crate::mem::Words;
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::sync::{fence, AtomicU64};

/// A slot as it was when found, and where: for `bump`, under the same pin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) slot: Slot,
    at: usize,
}

/// What a look into the home bucket came to.
pub(crate) enum Near {
    Found(Found),
    Nothing,
    /// It may lie elsewhere: `find_further` with this.
    Further(Word),
}

/// One look at a unit.
#[derive(Clone, Copy)]
struct View<'a> {
    words: Words<'a>,
    word: Word,
    tag: u16,
    home: usize,
}

impl Index {
    /// The first slot with this hash's tag whose place `matches`. Pinned callers only. `matches` is
    /// called with places of other keys too (one lookup in 200), and may see a place twice.
    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, mut matches: impl FnMut(Place) -> bool) -> Option<Found> {
        match self.find_near(hash, &mut matches) {
            Near::Found(found) => Some(found),
            Near::Nothing => None,
            Near::Further(word) => self.find_further(hash, word, &mut matches),
        }
    }

    /// `find` in the home bucket, where 97 % of the items lie. In two parts, so that a caller that has much to
    /// compare can have that inlined here, and keep it out of line in `find_further`: a closure handed to both is
    /// called.
    #[inline(always)]
    pub(crate) fn find_near(&self, hash: u64, mut matches: impl FnMut(Place) -> bool) -> Near {
        let words = self.region().words();
        let (index, tag) = split_hash(hash, self.words);
        let word = Word(words.u64(index * 8).load(Acquire));
        if word.steps().wrapping_sub(1) >= STEPS_MAX {
            return match word.in_fine() {
                true => Near::Further(word),
                false => Near::Nothing,
            };
        }
        let view = View::new(words, word, tag);
        if let Some(found) = view.search_bucket(0, &mut matches) {
            return Near::Found(found);
        }
        if view.block().code(view.home) == 0 && still(words.u64(index * 8), word) {
            return Near::Nothing;
        }
        Near::Further(word)
    }

    /// The rest of `find`, after `find_near` said `Further`.
    #[inline]
    pub(crate) fn find_further(
        &self,
        hash: u64,
        word: Word,
        matches: &mut dyn FnMut(Place) -> bool,
    ) -> Option<Found> {
        match word.in_fine() {
            true => self.find_slowly(hash, matches),
            false => self.find_beyond(hash, word, matches),
        }
    }

    /// Home has been searched (where 97 % of the items lie). Takes few arguments, and
    /// computes the rest again, so that the inlined part keeps its values in registers.
    #[inline(never)]
    fn find_beyond(
        &self,
        hash: u64,
        word: Word,
        matches: &mut dyn FnMut(Place) -> bool,
    ) -> Option<Found> {
        let (index, tag) = split_hash(hash, self.words);
        let view = View::new(self.region().words(), word, tag);
        let found = view.search(1, matches);
        if found.is_some() || still(self.word(WordId::coarse(index)), word) {
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
            let view = View::new(self.region().words(), word, tag);
            let found = view.search(0, matches);
            if found.is_some() || still(self.word(id), word) {
                return found;
            }
            Stats::add(&self.stats.restarts);
            crate::sync::pause(0);
        }
    }

    /// Counts an access: one compare-exchange of the slot as it was seen, failure ignored, so that a
    /// slot deleted or moved meanwhile never comes back. Nothing when saturated.
    #[inline(always)]
    pub(crate) fn bump(&self, found: &Found) {
        let bumped = found.slot.bumped();
        if bumped == found.slot {
            return;
        }
        let at = self.region().words().u64(found.at);
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
        if let Some(view) = self.first_look(hash) {
            self.region().prefetch(view.bucket(0));
        }
    }

    /// Third stage: the place of the first slot at home with this tag, so that the caller can ask for
    /// the item. A guess: `find` decides.
    #[inline(always)]
    pub(crate) fn prefetch_place(&self, hash: u64) -> Option<Place> {
        self.first_look(hash)?
            .search_bucket(0, &mut |_| true)
            .map(|found| found.slot.place())
    }

    #[inline(always)]
    fn first_look(&self, hash: u64) -> Option<View<'_>> {
        let words = self.region().words();
        let (index, tag) = split_hash(hash, self.words);
        let word = Word(words.u64(index * 8).load(Acquire));
        let in_coarse = word.steps().wrapping_sub(1) < STEPS_MAX;
        in_coarse.then(|| View::new(words, word, tag))
    }
}

/// Whether a unit is where it was when its directory word was read.
#[inline(always)]
fn still(at: &AtomicU64, seen: Word) -> bool {
    if mutant(Mutant::NoRecheck) {
        return true;
    }
    // Pairs with the fence before a recycled block is filled (grow.rs).
    fence(Acquire);
    Word(at.load(Relaxed)).bare() == seen.bare()
}

impl<'a> View<'a> {
    #[inline(always)]
    fn new(words: Words<'a>, word: Word, tag: u16) -> View<'a> {
        View {
            words,
            word,
            tag,
            home: home_bucket(tag, word.depth(), buckets(word.steps())),
        }
    }

    #[inline(always)]
    fn block(&self) -> Block<'a> {
        Block::new(self.words, self.word.line())
    }

    /// Offset of the bucket `distance` after home, around the end.
    #[inline(always)]
    fn bucket(&self, distance: usize) -> usize {
        let count = buckets(self.word.steps());
        let mut bucket = self.home + distance;
        if distance > 0 && bucket >= count {
            bucket -= count;
        }
        self.block().bucket(bucket)
    }

    #[inline(always)]
    fn search_bucket(
        &self,
        distance: usize,
        matches: &mut impl FnMut(Place) -> bool,
    ) -> Option<Found> {
        let at = self.bucket(distance);
        let bucket = self.words.bucket(at);
        let mut mask = bucket.match_tags(self.tag);
        while mask != 0 {
            let index = mask.trailing_zeros() as usize;
            mask &= mask - 1;
            // Again, and with Acquire: the item's bytes were written before its slot.
            let slot = Slot(bucket.slot(index).load(Acquire));
            if !slot.is_empty() && slot.tag() == self.tag && matches(slot.place()) {
                return Some(Found {
                    slot,
                    at: at + index * 8,
                });
            }
        }
        None
    }

    /// Searches the buckets from `from` to as far as home's code says.
    fn search(&self, from: usize, mut matches: &mut dyn FnMut(Place) -> bool) -> Option<Found> {
        let reach = self.block().reach(self.block().code(self.home));
        // A recycled header can say anything; a unit has no more buckets than this.
        let reach = reach.min(buckets(self.word.steps()) - 1);
        (from..=reach).find_map(|distance| self.search_bucket(distance, &mut matches))
    }
}

impl Found {
    pub(super) fn offset(&self) -> usize {
        self.at
    }
}

#[cfg(all(test, not(shuttle)))]
impl Index {
    /// Buckets a miss of this hash reads.
    pub(super) fn buckets_of_miss(&self, hash: u64) -> usize {
        self.first_look(hash).map_or(0, |view| {
            1 + view.block().reach(view.block().code(view.home))
        })
    }

    /// Whether a found slot lies in its home bucket.
    pub(super) fn is_at_home(&self, hash: u64, found: &Found) -> bool {
        self.first_look(hash)
            .is_some_and(|view| view.bucket(0) == found.at & !63)
    }
}
