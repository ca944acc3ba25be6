//! Models of the index under shuttle's scheduler: the production code with units of at most 8 slots, so
//! that three inserts rebuild one and eight split it.
//!
//! Each model runs under PCT (which finds in a handful of schedules what random ones missed in 30,000),
//! and once more for each guarding line with that line taken out: then it must fail. Shuttle knows
//! sequential consistency only, so the fences and orderings themselves rest on the argument in
//! `grow.rs` and `read.rs`, not on these models.
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p thermocline --lib --release index`

use super::models_switch::activate;
use super::models_switch::Mutant::{self, *};
use super::word::{split_hash, Word};
use super::*;
use crate::mem::{Backing, Pin};
use shuttle::thread;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Schedules of each kind a model must hold in; SCHEDULES=n for more.
const SCHEDULES: usize = 2_000;
/// Schedules in which a model must notice that a line is gone: the rarest needs one preemption between
/// two loads among 2,000 steps.
const MUTANT_SCHEDULES: usize = 400_000;
const DEPTH: usize = 3;

fn holds(model: fn()) {
    activate(None);
    let schedules = std::env::var("SCHEDULES").ok().and_then(|n| n.parse().ok());
    let schedules = schedules.unwrap_or(SCHEDULES);
    for depth in [2, DEPTH, DEPTH + 1] {
        shuttle::check_pct(model, schedules, depth);
    }
    shuttle::check_random(model, schedules);
}

fn fails_without(line: Mutant, model: fn()) {
    activate(Some(line));
    let run = || shuttle::check_pct(model, MUTANT_SCHEDULES, DEPTH);
    let failed = catch_unwind(AssertUnwindSafe(run)).is_err();
    activate(None);
    assert!(failed, "the model does not notice: {line:?}");
}

const WORDS_LOG2: u32 = 3;

/// A key: which directory word it falls in, and the 14 bits of its tag below that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key(u32);

fn key(word: u32, low: u32) -> Key {
    assert!(word < 1 << WORDS_LOG2 && low < 1 << 14);
    Key(word << 14 | low)
}

fn hash(key: Key) -> u64 {
    (key.0 as u64) << (64 - WORDS_LOG2 - 14)
}

fn place(key: Key, version: u32) -> Place {
    Place::from_offset((((version as usize) << 32) + key.0 as usize + 1) * 4)
}

fn key_of(place: Place) -> Key {
    // A place that is no item's shows that a header was taken for slots.
    let raw = place.raw() as u32;
    assert!(raw >= 2 && raw - 2 < 1 << (WORDS_LOG2 + 14), "a wild place");
    Key(raw - 2)
}

fn rehash(place: Place) -> Option<u64> {
    Some(hash(key_of(place)))
}

fn index_with(keys: &[Key]) -> Arc<Index> {
    index_of(16, keys)
}

/// Two units of four words; ten lines a slab: three blocks of one step or two of two. The first slab
/// holds the directory.
fn index_of(slabs: usize, keys: &[Key]) -> Arc<Index> {
    let geometry = Geometry {
        words: 1 << WORDS_LOG2,
        slab_bytes: 640,
        region_bytes: 640 * slabs,
    };
    let budget = Arc::new(Budget::new(1 << 30));
    let index = Index::with_geometry(
        Domain::global(),
        budget,
        geometry,
        &Backing::anonymous(false),
    );
    let index = index.unwrap_or_else(|error| panic!("{error:?}"));
    for &key in keys {
        insert(&index, key);
    }
    Arc::new(index)
}

fn get(index: &Index, key: Key) -> Option<Place> {
    index
        .find(hash(key), |place| key_of(place) == key)
        .map(|found| found.slot.place())
}

/// Whether this call made the key's item appear.
fn publish_new(index: &Index, key: Key, version: u32) -> bool {
    if get(index, key).is_some() {
        return false;
    }
    match index.publish(hash(key), None, &[], place(key, version), None, &rehash) {
        Publish::Done => true,
        Publish::Changed => false,
        Publish::NoRoom => panic!("the model's region is large enough"),
    }
}

fn insert(index: &Index, key: Key) {
    assert!(publish_new(index, key, 0), "{key:?} was not there");
}

fn walk(index: &Index) -> Vec<u32> {
    let (mut cursor, mut out) = (Cursor::default(), Vec::new());
    while index.scan(&mut cursor, &mut out) {}
    let mut keys: Vec<u32> = out.iter().map(|slot| key_of(slot.place()).0).collect();
    keys.sort_unstable();
    keys
}

/// The index holds exactly these keys, and all words of each run are equal and unlocked.
fn check(index: &Index, keys: &[Key]) {
    for &key in keys {
        assert!(get(index, key).is_some(), "{key:?} is lost");
    }
    let mut expected: Vec<u32> = keys.iter().map(|key| key.0).collect();
    expected.sort_unstable();
    assert_eq!(walk(index), expected);
    assert_eq!(index.items(), keys.len() as u64);
    for n in 0..1 << WORDS_LOG2 {
        let id = WordId::coarse(n);
        let word = Word(index.word(id).load(crate::sync::Ordering::SeqCst));
        if word.in_fine() {
            continue;
        }
        let head = id.head(word.depth());
        let head = Word(index.word(head).load(crate::sync::Ordering::SeqCst));
        assert_eq!(word, head, "words of one run differ, or a lock was left");
    }
}

fn spawn(index: &Arc<Index>, body: impl FnOnce(&Index) + Send + 'static) -> thread::JoinHandle<()> {
    let index = index.clone();
    thread::spawn(move || body(&index))
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().expect("a model's thread");
    }
}

/// Two threads insert the same key, each having seen that it is not there.
fn two_inserts_of_one_key() {
    let index = index_with(&[key(0, 1), key(1, 2)]);
    let wins = [0, 1].map(|version| {
        let index = index.clone();
        thread::spawn(move || publish_new(&index, key(2, 3), version))
    });
    let won = wins.map(|thread| thread.join().expect("a model's thread"));
    assert!(won[0] != won[1], "exactly one insert wins: {won:?}");
    check(&index, &[key(0, 1), key(1, 2), key(2, 3)]);
}

#[test]
fn of_two_inserts_of_one_key_one_wins() {
    holds(two_inserts_of_one_key);
    fails_without(NoSecondLook, two_inserts_of_one_key);
}

/// Unit A grows; B's block moves into the place A's left, under a reader who was sent there.
fn reader_during_rebuild_and_move() {
    let a = [key(0, 1), key(1, 2), key(2, 3)];
    let b = [key(4, 1), key(5, 2)];
    let index = index_with(&[a[0], a[1], a[2], b[0], b[1]]);
    let reader = spawn(&index, move |index| {
        for key in [a[2], b[1], a[0]] {
            assert!(get(index, key).is_some(), "{key:?} was missed");
        }
    });
    let writer = spawn(&index, |index| insert(index, key(3, 4)));
    join([reader, writer]);
    assert_eq!(
        index
            .stats()
            .block_moves
            .load(std::sync::atomic::Ordering::Relaxed),
        1
    );
    check(&index, &[a[0], a[1], a[2], b[0], b[1], key(3, 4)]);
}

#[test]
fn a_reader_misses_nothing_while_units_are_rebuilt_and_moved() {
    holds(reader_during_rebuild_and_move);
    fails_without(NoRecheck, reader_during_rebuild_and_move);
}

/// Two units grow at once: each frees a block that the other may have to fill or move.
fn two_units_grow() {
    let a = [key(0, 1), key(1, 2), key(2, 3)];
    let b = [key(4, 1), key(5, 2), key(6, 3)];
    let index = index_with(&[a[0], a[1], a[2], b[0], b[1], b[2]]);
    let first = spawn(&index, |index| insert(index, key(3, 4)));
    let second = spawn(&index, |index| insert(index, key(7, 4)));
    let reader = spawn(&index, move |index| {
        assert!(get(index, b[2]).is_some() && get(index, a[1]).is_some());
    });
    join([first, second, reader]);
    check(
        &index,
        &[a[0], a[1], a[2], b[0], b[1], b[2], key(3, 4), key(7, 4)],
    );
}

#[test]
fn units_that_grow_at_once_keep_their_items() {
    holds(two_units_grow);
    fails_without(NoRecheck, two_units_grow);
}

/// Seven keys of unit A: the next insert splits it. Two of them go to the second half, whose block then
/// has one step and grows with the second insert.
fn full_unit() -> [Key; 7] {
    [
        key(0, 1),
        key(0, 2),
        key(0, 3),
        key(1, 4),
        key(1, 5),
        key(2, 6),
        key(3, 7),
    ]
}

/// A unit splits while another thread inserts into what becomes its second half, and a third looks.
fn split_under_writer_and_reader() {
    let keys = full_unit();
    let index = index_with(&keys);
    let splitter = spawn(&index, |index| insert(index, key(0, 8)));
    let writer = spawn(&index, |index| {
        insert(index, key(2, 9));
        insert(index, key(2, 10));
    });
    let reader = spawn(&index, move |index| {
        for key in [keys[6], keys[0]] {
            assert!(get(index, key).is_some(), "{key:?} was missed");
        }
    });
    join([splitter, writer, reader]);
    let mut all = keys.to_vec();
    all.extend([key(0, 8), key(2, 9), key(2, 10)]);
    check(&index, &all);
}

#[test]
fn a_split_loses_nothing() {
    holds(split_under_writer_and_reader);
    fails_without(HeadBeforeFollower, split_under_writer_and_reader);
    fails_without(NoDepthCheck, split_under_writer_and_reader);
}

/// One unit splits while another frees a block of the class the second half has just been taken from.
fn split_while_a_block_is_freed() {
    let keys = full_unit();
    let b = [key(4, 1), key(5, 2), key(6, 3)];
    let index = index_with(&keys);
    b.iter().for_each(|&key| insert(&index, key));
    let splitter = spawn(&index, |index| insert(index, key(0, 8)));
    let grower = spawn(&index, |index| insert(index, key(7, 4)));
    join([splitter, grower]);
    let mut all = keys.to_vec();
    all.extend(b);
    all.extend([key(0, 8), key(7, 4)]);
    check(&index, &all);
}

#[test]
fn a_block_that_no_word_names_yet_is_not_moved() {
    holds(split_while_a_block_is_freed);
    fails_without(MoveUnpublished, split_while_a_block_is_freed);
}

/// Eight keys of one directory word at depth 2: the next insert takes them to the fine directory.
fn move_to_fine_under_writer_and_reader() {
    let keys: [Key; 7] = std::array::from_fn(|n| key(1, (n as u32) << 11 | n as u32));
    let index = index_with(&[
        keys[0], keys[1], keys[2], keys[3], keys[4], keys[5], keys[6],
    ]);
    // Two splits by tag are used up, all keys being in one word.
    let eighth = key(1, 0x3FFF);
    insert_without_fine(&index, &keys, eighth);
    let writers = [key(1, 77), key(1, 0x2001)];
    let first = spawn(&index, move |index| insert(index, writers[0]));
    let second = spawn(&index, move |index| insert(index, writers[1]));
    let reader = spawn(&index, move |index| {
        assert!(get(index, keys[6]).is_some() && get(index, keys[0]).is_some());
    });
    join([first, second, reader]);
    let mut all = keys.to_vec();
    all.extend(writers);
    check(&index, &all);
}

/// The eighth insert splits the unit of seven twice and would then move it: take one key out first.
fn insert_without_fine(index: &Index, keys: &[Key; 7], eighth: Key) {
    let stats = index.stats();
    assert!(index.remove_if(hash(keys[6]), place(keys[6], 0)));
    insert(index, eighth);
    assert!(index.remove_if(hash(eighth), place(eighth, 0)));
    insert(index, keys[6]);
    assert_eq!(
        stats
            .reread_splits
            .load(std::sync::atomic::Ordering::Relaxed),
        0
    );
}

#[test]
fn moving_to_the_fine_directory_loses_nothing() {
    holds(move_to_fine_under_writer_and_reader);
    fails_without(NoDepthCheck, move_to_fine_under_writer_and_reader);
}

/// An access is counted while the item is deleted.
fn bump_against_delete() {
    let (k, other) = (key(0, 1), key(0, 2));
    let index = index_with(&[k, other]);
    let reader = spawn(&index, move |index| {
        if let Some(found) = index.find(hash(k), |place| key_of(place) == k) {
            index.bump(&found);
        }
    });
    let deleter = spawn(&index, move |index| {
        assert!(index.remove_if(hash(k), place(k, 0)));
        assert!(get(index, k).is_none(), "deleted and still there");
    });
    join([reader, deleter]);
    check(&index, &[other]);
}

#[test]
fn a_bump_brings_no_deleted_item_back() {
    holds(bump_against_delete);
    fails_without(PlainBump, bump_against_delete);
}

/// An item is moved while its unit is rebuilt.
fn move_against_rebuild() {
    let keys = [key(0, 1), key(1, 2), key(2, 3)];
    let index = index_with(&keys);
    let mover = spawn(&index, move |index| {
        let (old, new) = (place(keys[2], 0), place(keys[2], 1));
        assert!(index.move_if(hash(keys[2]), old, new, None));
        assert_eq!(get(index, keys[2]), Some(new), "the move was lost");
    });
    let writer = spawn(&index, |index| insert(index, key(3, 4)));
    join([mover, writer]);
    assert_eq!(get(&index, keys[2]), Some(place(keys[2], 1)));
    check(&index, &[keys[0], keys[1], keys[2], key(3, 4)]);
}

#[test]
fn a_move_is_not_lost_in_a_rebuild() {
    holds(move_against_rebuild);
    fails_without(MoveWithoutLock, move_against_rebuild);
}

/// Items go until a unit shrinks, while one of them is read.
fn shrink_under_reader() {
    let keys = full_unit();
    let b = [key(4, 1), key(5, 2)];
    let index = index_with(&keys[..5]);
    b.iter().for_each(|&key| insert(&index, key));
    let deleter = spawn(&index, move |index| {
        for key in &keys[1..5] {
            assert!(index.remove_if(hash(*key), place(*key, 0)));
        }
    });
    let reader = spawn(&index, move |index| {
        for key in [keys[0], b[1], keys[0]] {
            assert!(get(index, key).is_some(), "{key:?} was missed");
        }
    });
    let writer = spawn(&index, |index| {
        insert(index, key(6, 3));
        insert(index, key(7, 4));
    });
    join([deleter, reader, writer]);
    check(&index, &[keys[0], b[0], b[1], key(6, 3), key(7, 4)]);
}

#[test]
fn a_reader_misses_nothing_while_units_shrink() {
    holds(shrink_under_reader);
    fails_without(NoRecheck, shrink_under_reader);
}

/// Three threads want one unit; spinning is short, so they park.
fn three_writers_of_one_unit() {
    let index = index_with(&[]);
    let threads = [1, 2, 3].map(|n| {
        spawn(&index, move |index| {
            insert(index, key(0, n));
            assert!(index.set_counter(hash(key(0, n)), place(key(0, n), 0), 2));
        })
    });
    join(threads);
    check(&index, &[key(0, 1), key(0, 2), key(0, 3)]);
}

#[test]
fn whoever_parks_is_woken() {
    holds(three_writers_of_one_unit);
    fails_without(NoWake, three_writers_of_one_unit);
}

/// A walk over units that split and are rebuilt meanwhile: every resident once.
fn walk_under_writers() {
    let keys = full_unit();
    let index = index_with(&keys);
    insert(&index, key(4, 1));
    let walker = spawn(&index, move |index| {
        let met = walk(index);
        assert!(
            met.windows(2).all(|two| two[0] < two[1]),
            "a key came twice"
        );
        assert!(
            keys.iter().all(|key| met.contains(&key.0)),
            "a key was left out"
        );
    });
    let writer = spawn(&index, |index| {
        insert(index, key(0, 8));
        for (word, low) in [(5, 2), (6, 3), (7, 4)] {
            insert(index, key(word, low));
        }
    });
    join([walker, writer]);
}

#[test]
fn a_walk_meets_every_resident_once() {
    holds(walk_under_writers);
    fails_without(ScanUnlocked, walk_under_writers);
}

/// A reader stands in a block of one step while its slab is emptied and wanted for blocks of two steps,
/// the second of which has its header where the reader looks for slots.
fn slab_changes_class_under_reader() {
    // Tag 0 is what an almost empty header word looks like. Home bucket 0 of the reader's unit is
    // full and its third key lies in bucket 1, so a search for tag 0 goes there.
    let mine = [key(4, 1), key(4, 2), key(4, 3)];
    let other = [key(0, 1), key(0, 2), key(0, 3)];
    let index = index_of(
        3,
        &[other[0], other[1], other[2], mine[0], mine[1], mine[2]],
    );
    let reader = spawn(&index, |index| {
        let _pin = Pin::new(index.domain());
        // `key_of` panics at a place that is no item's.
        assert!(get(index, key(4, 0)).is_none());
    });
    let writer = spawn(&index, |index| {
        // Both units leave the slab, then the other one splits: two more blocks of two steps.
        for key in [
            key(4, 4),
            key(2, 1),
            key(2, 2),
            key(2, 3),
            key(1, 1),
            key(1, 2),
        ] {
            let outcome = index.publish(hash(key), None, &[], place(key, 0), None, &rehash);
            assert_eq!(outcome, Publish::Done);
        }
    });
    join([reader, writer]);
}

#[test]
fn a_slab_changes_its_class_only_behind_its_readers() {
    holds(slab_changes_class_under_reader);
    fails_without(NoGrace, slab_changes_class_under_reader);
}

#[test]
fn the_models_hashes_fall_where_they_say() {
    let (index, tag) = split_hash(hash(key(5, 0x1234)), 1 << WORDS_LOG2);
    assert_eq!((index, tag), (5, 1 << 14 | 0x1234));
}
