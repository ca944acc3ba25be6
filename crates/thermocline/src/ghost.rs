//! Memory of the evicted: 16 bits a key, asked once when the key comes back.
//!
//! Owns the table of fingerprints and epochs, nothing else. Whether a returning key goes to main is the
//! policy's verdict; this file only says how many generations ago it was evicted.
//!
//! A line is one cache line: 31 ghosts of 12-bit fingerprint + 4-bit epoch, and an 8-bit cursor.
//!
//! ```text
//! word 0..6   four ghosts each          ghost = fingerprint << 4 | epoch, 0 = none
//! word 7      three ghosts, then the cursor (bits 48..56); bits 56..64 spare
//! ```
//!
//! Line by the upper hash bits, fingerprint by the lowest 12: disjoint up to 2^52 lines. A stranger's ghost
//! is taken for one's own in 0.76 % of look-ups of a full line (31 / 4095); 8-bit fingerprints cost 0.47
//! points of miss ratio, 12-bit ones nothing measurable against exact ghosts.
//!
//! Writers share the table without a lock. Each change is one compare-exchange of a word and is not retried:
//! a lost ghost is a colder welcome for one key, a ghost that stays is one welcome too many. No thread order
//! can break the table, since every 64-bit value of a word is a legal one.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Ghosts of one line.
pub const GHOSTS_PER_LINE: u64 = 31;
/// Bytes of one line: a cache line.
pub const LINE_BYTES: u64 = 64;
/// Generations after which a ghost is dropped when its line is written. Epochs come round after 16: without
/// this, ghosts of 16 generations ago would pass for fresh ones.
pub const AGE_MAX: u32 = 11;

const EPOCHS: u32 = 16;
const EPOCH_MASK: u64 = 0xf;
const FINGERPRINT_MASK: u64 = 0xfff;
const GHOST_MASK: u64 = 0xffff;
const GHOST_BITS: usize = 16;
const CURSOR_SHIFT: usize = 48;
const CURSOR_MASK: u64 = 0xff << CURSOR_SHIFT;
const WORDS: usize = 8;
const LAST: usize = WORDS - 1;

const _: () = assert!(AGE_MAX < EPOCHS);
const _: () = assert!(WORDS * 8 == LINE_BYTES as usize);
const _: () = assert!(GHOSTS_PER_LINE as usize * GHOST_BITS + 8 <= WORDS * 64);

#[derive(Debug)]
pub struct Ghosts {
    lines: Box<[Line]>,
}

impl Ghosts {
    /// An empty table of at least one line. Allocates and writes `lines` x 64 bytes.
    pub fn new(lines: u64) -> Ghosts {
        Ghosts {
            lines: (0..lines.max(1)).map(|_| Line::default()).collect(),
        }
    }

    /// Lines for about this many ghosts.
    pub fn lines_for(ghosts: f64) -> u64 {
        (ghosts / GHOSTS_PER_LINE as f64).ceil().max(1.0) as u64
    }

    /// Whether a table of `have` lines need not be replaced by one of `wanted`.
    pub fn is_close(have: u64, wanted: u64) -> bool {
        have as f64 >= wanted as f64 * 0.8 && have as f64 <= wanted as f64 * 1.25
    }

    pub fn lines(&self) -> u64 {
        self.lines.len() as u64
    }

    /// What the table costs the budget.
    pub fn bytes(&self) -> u64 {
        self.lines() * LINE_BYTES
    }

    /// The table's words, line by line: the books of a stopped cache.
    pub(crate) fn words(&self) -> impl Iterator<Item = u64> + '_ {
        let words = self.lines.iter().flat_map(|line| &line.words);
        words.map(|word| word.load(Relaxed))
    }

    /// A table of `lines` lines made of what `words` said. None: there are too few. Every word is a legal one.
    pub(crate) fn from_words(lines: u64, mut words: impl FnMut() -> Option<u64>) -> Option<Ghosts> {
        let ghosts = Ghosts::new(lines);
        for word in ghosts.lines.iter().flat_map(|line| &line.words) {
            word.store(words()?, Relaxed);
        }
        Some(ghosts)
    }

    /// Remembers an evicted key. `epoch` is the generation of the segment it was evicted from, `now` the
    /// youngest generation. May forget the line's longest remembered key, and all of it that is too old.
    pub fn insert(&self, hash: u64, epoch: u32, now: u32) {
        let line = &self.lines[line_of(hash, self.lines())];
        line.drop_older(now);
        line.put(ghost(fingerprint(hash), epoch));
    }

    /// Asks for a key that came back and forgets it. How many generations ago it was evicted, or rather how
    /// old the segment was that it was evicted from: 0..=15.
    pub fn take(&self, hash: u64, now: u32) -> Option<u32> {
        let line = &self.lines[line_of(hash, self.lines())];
        line.take(fingerprint(hash)).map(|ghost| age(ghost, now))
    }

    /// `insert` for the kernel's rules: an access class (0..=2) takes two of the epoch's four bits. A table
    /// of one ghost an item forgets before four generations are over, so two bits of epoch are enough.
    pub fn insert_class(&self, hash: u64, epoch: u32, class: usize) {
        let line = &self.lines[line_of(hash, self.lines())];
        let mark = epoch & 3 | (class as u32) << 2;
        line.put(ghost(fingerprint(hash), mark));
    }

    /// `take` for the kernel's rules: age, 0..=3 generations, and access class.
    pub fn take_class(&self, hash: u64, now: u32) -> Option<(u32, usize)> {
        let line = &self.lines[line_of(hash, self.lines())];
        let mark = line.take(fingerprint(hash))? as u32 & 15;
        Some((now.wrapping_sub(mark) & 3, (mark >> 2) as usize))
    }

    /// A table of another size that keeps what it can: a line's ghosts go to every new line that their keys
    /// may fall into, the oldest first, so that the youngest stay where there is no room for all. Growing by a
    /// whole factor loses none, by a fraction a few in a hundred where lines are half full. The caller pays for both tables until it drops this one; changes made meanwhile are lost, which is harmless.
    pub fn resized(&self, lines: u64, now: u32) -> Ghosts {
        let table = Ghosts::new(lines);
        let (old, new) = (self.lines() as u128, table.lines() as u128);
        for (index, line) in table.lines.iter().enumerate() {
            // New line j holds the hashes from j / new to (j + 1) / new of the whole range.
            let first = (index as u128 * old / new) as usize;
            let end = ((index as u128 + 1) * old).div_ceil(new) as usize;
            let mut ghosts: Vec<u64> = self.lines[first..end]
                .iter()
                .flat_map(Line::ghosts)
                .collect();
            ghosts.retain(|ghost| age(*ghost, now) <= AGE_MAX);
            ghosts.sort_by_key(|ghost| std::cmp::Reverse(age(*ghost, now)));
            ghosts.into_iter().for_each(|ghost| line.put(ghost));
        }
        table
    }
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Line {
    words: [AtomicU64; WORDS],
}

impl Line {
    /// Overwrites the same fingerprint, else the ghost under the cursor.
    fn put(&self, ghost: u64) {
        let wanted = ghost >> 4;
        let known = |seen: &(usize, u64)| seen.1 >> 4 == wanted;
        match self.seen().find(known) {
            Some((place, seen)) => self.replace(place, seen, ghost),
            None => {
                let place = self.step_cursor();
                let seen = self.words[place / 4].load(Relaxed) >> shift(place) & GHOST_MASK;
                self.replace(place, seen, ghost);
            }
        }
    }

    fn take(&self, fingerprint: u64) -> Option<u64> {
        let (place, ghost) = self.seen().find(|seen| seen.1 >> 4 == fingerprint)?;
        self.replace(place, ghost, 0);
        Some(ghost)
    }

    fn drop_older(&self, now: u32) {
        for (place, ghost) in self.seen().filter(|seen| seen.1 != 0) {
            if age(ghost, now) > AGE_MAX {
                self.replace(place, ghost, 0);
            }
        }
    }

    /// The ghosts of this line, in no order of age.
    fn ghosts(&self) -> impl Iterator<Item = u64> + '_ {
        self.seen().map(|seen| seen.1).filter(|ghost| *ghost != 0)
    }

    /// Every place of the line and what lies there, 0 for nothing.
    fn seen(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        (0..GHOSTS_PER_LINE as usize).map(|place| {
            let word = self.words[place / 4].load(Relaxed);
            (place, word >> shift(place) & GHOST_MASK)
        })
    }

    /// Changes one place if it still holds what was seen. One try: see the top of the file.
    fn replace(&self, place: usize, seen: u64, ghost: u64) {
        let word = &self.words[place / 4];
        let old = word.load(Relaxed);
        if old >> shift(place) & GHOST_MASK != seen {
            return;
        }
        let new = old & !(GHOST_MASK << shift(place)) | ghost << shift(place);
        if new != old {
            let _lost_is_harmless = word.compare_exchange(old, new, Relaxed, Relaxed);
        }
    }

    /// The place under the cursor; the cursor moves on.
    fn step_cursor(&self) -> usize {
        let old = self.words[LAST].load(Relaxed);
        let cursor = (old & CURSOR_MASK) >> CURSOR_SHIFT;
        let next = (cursor + 1) % GHOSTS_PER_LINE;
        let new = old & !CURSOR_MASK | next << CURSOR_SHIFT;
        let _lost_is_harmless = self.words[LAST].compare_exchange(old, new, Relaxed, Relaxed);
        (cursor % GHOSTS_PER_LINE) as usize
    }
}

fn shift(place: usize) -> usize {
    place % 4 * GHOST_BITS
}

fn line_of(hash: u64, lines: u64) -> usize {
    ((u128::from(hash) * u128::from(lines)) >> 64) as usize
}

fn fingerprint(hash: u64) -> u64 {
    (hash & FINGERPRINT_MASK).max(1)
}

fn ghost(fingerprint: u64, epoch: u32) -> u64 {
    fingerprint << 4 | u64::from(epoch) & EPOCH_MASK
}

fn age(ghost: u64, now: u32) -> u32 {
    now.wrapping_sub((ghost & EPOCH_MASK) as u32) % EPOCHS
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A hash that falls into this line of a one-line table and bears this fingerprint.
    fn hash(fingerprint: u64) -> u64 {
        0xabcd_0000_0000_0000 | fingerprint
    }

    fn mixed(i: u64) -> u64 {
        let z = (i + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        let z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    #[test]
    fn a_ghost_is_found_once_with_its_age() {
        let ghosts = Ghosts::new(4);
        ghosts.insert(hash(7), 3, 5);
        assert_eq!(ghosts.take(hash(8), 5), None);
        assert_eq!(ghosts.take(hash(7), 6), Some(3));
        assert_eq!(ghosts.take(hash(7), 6), None, "looking it up deletes it");
    }

    #[test]
    fn the_same_key_takes_its_old_place() {
        let ghosts = Ghosts::new(1);
        for key in 1..=31 {
            ghosts.insert(hash(key), 0, 0);
        }
        for epoch in 0..8 {
            ghosts.insert(hash(31), epoch, 8);
        }
        assert_eq!(ghosts.take(hash(31), 8), Some(1));
        let others = (1..=30).filter(|key| ghosts.take(hash(*key), 8) == Some(8));
        assert_eq!(others.count(), 30, "no other ghost gave way");
    }

    #[test]
    fn a_full_line_forgets_the_longest_remembered() {
        let ghosts = Ghosts::new(1);
        for key in 1..=40 {
            ghosts.insert(hash(key), 0, 0);
        }
        let kept: Vec<u64> = (1..=40)
            .filter(|key| ghosts.take(hash(*key), 0).is_some())
            .collect();
        assert_eq!(kept, (10..=40).collect::<Vec<u64>>());
    }

    #[test]
    fn epochs_wrap_and_old_ghosts_do_not_pass_for_young() {
        let ghosts = Ghosts::new(1);
        for now in 0..64 {
            ghosts.insert(hash(now as u64 + 1), now, now);
            assert_eq!(ghosts.take(hash(now as u64 + 1), now), Some(0), "at {now}");
            ghosts.insert(hash(100 + now as u64), now, now);
        }
        // The last insert was at 63: ghosts of 52..=63 are at most 11 old, all others went before they wrapped.
        let kept: Vec<u32> = (0..64)
            .filter_map(|now| ghosts.take(hash(100 + now), 63))
            .collect();
        assert_eq!(kept, (0..=11).rev().collect::<Vec<u32>>());
    }

    #[test]
    fn sequence_numbers_may_pass_any_multiple_of_sixteen() {
        let ghosts = Ghosts::new(1);
        for now in [14, 15, 16, 17, 4095, 4096, u32::MAX] {
            ghosts.insert(hash(1), now, now);
            assert_eq!(ghosts.take(hash(1), now.wrapping_add(2)), Some(2));
        }
    }

    #[test]
    fn a_fingerprint_of_zero_is_a_ghost_too() {
        let ghosts = Ghosts::new(2);
        assert_eq!(ghosts.take(0, 0), None);
        ghosts.insert(0, 0, 0);
        assert_eq!(ghosts.take(0, 0), Some(0));
    }

    #[test]
    fn a_class_comes_back_with_its_age() {
        let ghosts = Ghosts::new(1);
        for class in 0..3 {
            ghosts.insert_class(hash(5), 14, class);
            assert_eq!(ghosts.take_class(hash(5), 17), Some((3, class)));
        }
        assert_eq!(ghosts.take_class(hash(5), 17), None);
    }

    #[test]
    fn lines_are_filled_evenly_and_strangers_are_rare() {
        let ghosts = Ghosts::new(Ghosts::lines_for(20_000.0));
        assert_eq!(ghosts.bytes(), ghosts.lines() * 64);
        for key in 0..10_000 {
            ghosts.insert(mixed(key), 0, 0);
        }
        let strangers = (1_000_000..1_100_000)
            .filter(|key| ghosts.take(mixed(*key), 0).is_some())
            .count();
        assert!(
            strangers < 600,
            "{strangers} of 100000 strangers were taken for ghosts"
        );
        let known = (0..10_000)
            .filter(|key| ghosts.take(mixed(*key), 0).is_some())
            .count();
        assert!(
            known > 9_300,
            "only {known} of 10000 ghosts in a table twice as large"
        );
    }

    #[test]
    fn a_larger_table_keeps_its_ghosts() {
        for (lines, lost_max) in [(100, 15), (200, 15), (300, 15), (333, 60)] {
            let small = Ghosts::new(100);
            let keys: Vec<u64> = (0..1500).map(mixed).collect();
            keys.iter().for_each(|key| small.insert(*key, 2, 3));
            let kept_before: Vec<u64> = keys
                .iter()
                .copied()
                .filter(|key| is_there(&small, *key))
                .collect();
            let large = small.resized(lines, 3);
            let lost = kept_before
                .iter()
                .filter(|key| large.take(**key, 3) != Some(1))
                .count();
            // Two keys of one old line with equal fingerprints answer to the same ghost: a few in a thousand.
            assert!(
                lost <= lost_max,
                "{lost} of {} lost at {lines} lines",
                kept_before.len()
            );
        }
    }

    #[test]
    fn a_smaller_table_keeps_the_youngest() {
        let large = Ghosts::new(4);
        for key in 1..=80u64 {
            let line = key % 4;
            large.insert(line << 62 | key, key as u32 / 10, 8);
        }
        let small = large.resized(1, 8);
        let kept: Vec<u64> = (1..=80u64)
            .filter(|key| small.take((key % 4) << 62 | key, 8).is_some())
            .collect();
        assert_eq!(kept.len(), 31);
        assert!(kept.iter().all(|key| *key >= 49), "{kept:?}");
    }

    #[test]
    fn writers_in_parallel_lose_few_and_break_nothing() {
        let ghosts = Ghosts::new(1000);
        std::thread::scope(|scope| {
            for thread in 0..4u64 {
                let ghosts = &ghosts;
                scope.spawn(move || {
                    for key in 0..3000 {
                        ghosts.insert(mixed(thread << 32 | key), 1, 2);
                    }
                });
            }
        });
        let known = (0..4u64)
            .flat_map(|thread| (0..3000).map(move |key| mixed(thread << 32 | key)))
            .filter(|key| ghosts.take(*key, 2) == Some(1))
            .count();
        assert!(known > 11_000, "{known} of 12000");
    }

    fn is_there(ghosts: &Ghosts, hash: u64) -> bool {
        let line = &ghosts.lines[line_of(hash, ghosts.lines())];
        let found = line.seen().any(|seen| seen.1 >> 4 == fingerprint(hash));
        found
    }
}
