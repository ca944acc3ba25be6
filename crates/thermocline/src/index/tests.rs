//! The index alone, with invented items: a place is a key's number and a version, so a key can be read
//! back from its place.

mod growth;

use super::*;
use crate::mem::Pin;
use growth::grow_to;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

/// The place of a key's `version`-th item.
fn place(key: u32, version: u32) -> Place {
    let raw = (version as u64 & 0x7FF) << 32 | key as u64;
    Place::from_offset(raw as usize * 4)
}

fn key_of(place: Place) -> u32 {
    (place.raw() - 1) as u32
}

fn hash(key: u32) -> u64 {
    let x = (key as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ x >> 32).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    x ^ x >> 32
}

fn rehash(place: Place) -> Option<u64> {
    Some(hash(key_of(place)))
}

/// A domain of the test's own: pins of other tests would hold this one's slabs in limbo. Only threads
/// the test starts may pin in it.
fn own_domain() -> &'static Domain {
    Box::leak(Box::new(Domain::new()))
}

fn index_for(memory_bytes: u64) -> Index {
    let budget = Arc::new(Budget::new(1 << 40));
    Index::new(
        own_domain(),
        budget,
        memory_bytes,
        &Backing::anonymous(true),
    )
    .unwrap()
}

fn get(index: &Index, key: u32) -> Option<Place> {
    index
        .find(hash(key), |place| key_of(place) == key)
        .map(|found| found.slot.place())
}

/// Sets a key as the engine does: look, then publish what was seen.
fn put(index: &Index, key: u32, new: Place) -> Publish {
    loop {
        let mut rejected = Vec::new();
        let found = index.find(hash(key), |place| {
            let same = key_of(place) == key;
            if !same {
                rejected.push(place);
            }
            same
        });
        let old = found.map(|found| found.slot.place());
        match index.publish(hash(key), old, &rejected, new, None, &rehash) {
            Publish::Changed => {}
            done => return done,
        }
    }
}

fn walk(index: &Index) -> Vec<u32> {
    let (mut cursor, mut out) = (Cursor::default(), Vec::new());
    while index.scan(&mut cursor, &mut out) {}
    out.iter().map(|slot| key_of(slot.place())).collect()
}

struct Random(u64);

impl Random {
    fn from_env(default: u64) -> Random {
        let seed = std::env::var("SEED").ok().and_then(|s| s.parse().ok());
        let seed = seed.unwrap_or(default);
        println!("SEED={seed}");
        Random(seed)
    }
    fn below(&mut self, n: u32) -> u32 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (((self.0 >> 33) * n as u64) >> 31) as u32
    }
}

#[derive(Debug)]
#[allow(dead_code, reason = "printed")]
struct Counts {
    rebuilds: u64,
    moves: u64,
    holes: u64,
    splits: u64,
    reread: u64,
    waits: u64,
    parks: u64,
    restarts: u64,
}

impl Counts {
    fn of(index: &Index) -> Counts {
        let s = index.stats();
        Counts {
            rebuilds: s.rebuilds.load(Relaxed),
            moves: s.block_moves.load(Relaxed),
            holes: s.holes.load(Relaxed),
            splits: s.splits.load(Relaxed),
            reread: s.reread_splits.load(Relaxed),
            waits: s.lock_waits.load(Relaxed),
            parks: s.parks.load(Relaxed),
            restarts: s.restarts.load(Relaxed),
        }
    }
}

#[test]
fn tiny_items_outgrow_the_directory_and_move_to_the_fine_one() {
    // 2 MiB of memory: 52 words. 100,000 items of 20 bytes.
    let index = index_for(2 << 20);
    for key in 0..100_000 {
        assert_eq!(put(&index, key, place(key, 0)), Publish::Done);
    }
    assert_eq!(
        index.stats().reread_splits.load(Relaxed),
        52,
        "{:?}",
        Counts::of(&index)
    );
    for key in 0..100_000 {
        assert_eq!(get(&index, key), Some(place(key, 0)));
        assert_eq!(get(&index, key + 100_000), None);
    }
    let mut keys = walk(&index);
    keys.sort_unstable();
    assert_eq!(keys, (0..100_000).collect::<Vec<_>>());
    for key in 0..100_000 {
        assert!(index.move_if(hash(key), place(key, 0), place(key, 1), None));
        assert!(index.remove_if(hash(key), place(key, 1)));
    }
    assert_eq!(index.items(), 0);
}

#[test]
fn a_full_fine_unit_uses_every_slot_and_then_refuses() {
    // 4 words, so 32 fine ones: 14,336 slots if every unit were full to the last slot.
    let index = index_for(1);
    let (mut stored, mut refused) = (Vec::new(), 0);
    for key in 0..20_000 {
        match put(&index, key, place(key, 0)) {
            Publish::Done => stored.push(key),
            Publish::NoRoom => refused += 1,
            Publish::Changed => unreachable!("put retries"),
        }
    }
    assert!(
        stored.len() > 14_300 && refused > 0,
        "{} stored",
        stored.len()
    );
    for &key in &stored {
        assert_eq!(get(&index, key), Some(place(key, 0)));
    }
    assert_eq!(walk(&index).len(), stored.len());
}

#[test]
fn shrinks_as_it_grew_and_gives_extents_back() {
    let index = index_for(64 << 20);
    let items = 400_000;
    grow_to(&index, items);
    let full = index.used_bytes();
    for key in 0..items {
        if key % 5 != 0 {
            assert!(index.remove_if(hash(key), place(key, 0)), "key {key}");
            assert!(!index.remove_if(hash(key), place(key, 0)));
        }
    }
    let left = (items / 5) as u64;
    assert_eq!(index.items(), left);
    let each = index.used_bytes() as f64 / left as f64;
    println!(
        "a fifth left: {each:.2} bytes an item; {:?}",
        Counts::of(&index)
    );
    assert!(each <= 15.0 && index.used_bytes() < full / 3);
    let charged = index.bytes();
    index.trim();
    index.trim();
    println!("charged {charged} -> {}", index.bytes());
    assert!(index.bytes() < 4 * EXTENT_BYTES as u64);
    for key in 0..items {
        assert_eq!(get(&index, key).is_some(), key % 5 == 0);
    }
}

#[test]
fn without_a_slab_it_fills_what_it_has_and_then_says_no_room() {
    let budget = Arc::new(Budget::new(EXTENT_BYTES as u64 + (64 << 10)));
    let index = Index::new(
        own_domain(),
        budget.clone(),
        32 << 20,
        &Backing::anonymous(false),
    )
    .unwrap();
    let mut stored = 0;
    while put(&index, stored, place(stored, 0)) == Publish::Done {
        stored += 1;
    }
    println!(
        "{stored} items, {:.2} bytes each",
        index.bytes() as f64 / stored as f64
    );
    assert!(stored > 150_000);
    for key in 0..stored {
        assert_eq!(get(&index, key), Some(place(key, 0)));
    }
    assert!(index.is_short());
    // Replacing needs no room, nor does a key whose place another one left.
    assert_eq!(put(&index, 0, place(0, 1)), Publish::Done);
    budget.set_limit(2 * budget.limit_bytes());
    assert_eq!(put(&index, stored, place(stored, 0)), Publish::Done);
    assert!(!index.is_short());
}

#[test]
fn too_small_a_budget_is_refused_and_nothing_stays_charged() {
    // Room for nothing; room for one of the 14 extents of a directory for 256 GiB.
    for (budget, memory) in [(1000, 64 << 20), (3 << 20, 256 << 30)] {
        let budget = Arc::new(Budget::new(budget));
        match Index::new(
            own_domain(),
            budget.clone(),
            memory,
            &Backing::anonymous(false),
        ) {
            Err(NewIndexError::NoRoom) => {}
            other => panic!("{:?}", other.map(|_| ())),
        }
        assert_eq!(budget.charged_bytes(), 0);
    }
}

#[test]
fn publish_says_changed_when_the_caller_saw_something_else() {
    let index = index_for(1 << 20);
    let publish = |expected, rejected: &[Place], new| {
        index.publish(hash(1), expected, rejected, new, None, &rehash)
    };
    assert_eq!(
        publish(Some(place(1, 0)), &[], place(1, 1)),
        Publish::Changed
    );
    assert_eq!(publish(None, &[], place(1, 1)), Publish::Done);
    assert_eq!(publish(None, &[], place(1, 2)), Publish::Changed);
    assert_eq!(publish(None, &[place(1, 0)], place(1, 2)), Publish::Changed);
    assert_eq!(publish(Some(place(1, 1)), &[], place(1, 2)), Publish::Done);
    assert_eq!(get(&index, 1), Some(place(1, 2)));
    // A place with the same tag that is another key's.
    assert_eq!(publish(None, &[place(1, 2)], place(9, 0)), Publish::Done);
    assert_eq!(index.items(), 2);
}

#[test]
fn counters_are_bumped_kept_and_set() {
    let index = index_for(1 << 20);
    let (h, old, new) = (hash(5), place(5, 0), place(5, 1));
    assert_eq!(
        index.publish(h, None, &[], old, Some(1), &rehash),
        Publish::Done
    );
    for expected in [2, 3, 3] {
        index.bump(&index.find(h, |_| true).unwrap());
        assert_eq!(index.counter_of(h, old), Some(expected));
    }
    let stale = index.find(h, |_| true).unwrap();
    assert!(index.move_if(h, old, new, None));
    assert_eq!(index.counter_of(h, new), Some(3));
    assert_eq!(index.counter_of(h, old), None);
    assert!(index.set_counter(h, new, 0) && !index.set_counter(h, old, 0));
    let seen = index.find(h, |_| true).unwrap();
    assert!(index.move_if(h, new, old, Some(2)));
    index.bump(&seen);
    assert_eq!(index.counter_of(h, old), Some(2));
    let last = index.find(h, |_| true).unwrap();
    assert!(index.remove_if(h, old));
    index.bump(&last);
    index.bump(&stale);
    assert_eq!(get(&index, 5), None, "a bump brings nothing back");
}

#[test]
fn random_operations_match_a_map() {
    let mut random = Random::from_env(20260);
    let index = index_for(2 << 20);
    let mut model: HashMap<u32, Place> = HashMap::new();
    for step in 0..600_000u32 {
        // The number of keys breathes, so that units grow, split and shrink.
        let range = if step / 100_000 % 2 == 0 {
            60_000
        } else {
            6_000
        };
        let key = random.below(range);
        match random.below(10) {
            0..=4 => {
                let new = place(key, step);
                assert_eq!(put(&index, key, new), Publish::Done);
                model.insert(key, new);
            }
            5 | 6 => {
                let key = random.below(60_000);
                let old = model.remove(&key);
                let removed = old.is_some_and(|old| index.remove_if(hash(key), old));
                assert_eq!(removed, old.is_some());
            }
            7 => {
                if let Some(old) = model.get_mut(&key) {
                    assert!(index.move_if(hash(key), *old, place(key, step + 1), None));
                    *old = place(key, step + 1);
                }
            }
            _ => assert_eq!(get(&index, key), model.get(&key).copied(), "step {step}"),
        }
        if step % 50_000 == 0 {
            assert_eq!(index.items(), model.len() as u64);
            let mut keys = walk(&index);
            keys.sort_unstable();
            let mut expected: Vec<u32> = model.keys().copied().collect();
            expected.sort_unstable();
            assert_eq!(keys, expected);
        }
    }
    println!("{:?}", Counts::of(&index));
}

#[test]
fn a_walk_meets_every_key_that_stays_once_while_the_index_grows() {
    let index = index_for(2 << 20);
    for key in 0..5_000 {
        assert_eq!(put(&index, key, place(key, 0)), Publish::Done);
    }
    let (mut cursor, mut out, mut next) = (Cursor::default(), Vec::new(), 5_000);
    while index.scan(&mut cursor, &mut out) {
        for _ in 0..700 {
            assert_eq!(put(&index, next, place(next, 0)), Publish::Done);
            next += 1;
        }
    }
    assert!(index.stats().splits.load(Relaxed) > 0);
    let mut keys: Vec<u32> = out.iter().map(|slot| key_of(slot.place())).collect();
    keys.sort_unstable();
    assert!(keys.windows(2).all(|two| two[0] < two[1]), "no key twice");
    assert!(keys
        .iter()
        .filter(|&&key| key < 5_000)
        .eq((0..5_000).collect::<Vec<_>>().iter()));
}

/// Keys 0..RESIDENT stay; the next RACED are fought over; the rest come and go.
const RESIDENT: u32 = 30_000;
const RACED: u32 = 2_000;
const CHURNED: u32 = 60_000;

fn hammer(length: Duration) {
    let index = index_for(2 << 20);
    for key in 0..RESIDENT {
        assert_eq!(put(&index, key, place(key, 0)), Publish::Done);
    }
    let stop = AtomicBool::new(false);
    let reads: u64 = std::thread::scope(|scope| {
        for writer in 0..2u32 {
            let (index, stop) = (&index, &stop);
            scope.spawn(move || churn(index, writer, stop));
        }
        scope.spawn(|| move_residents(&index, &stop));
        let readers = [0, 1].map(|n| {
            let (index, stop) = (&index, &stop);
            scope.spawn(move || read_residents(index, n, stop))
        });
        std::thread::sleep(length);
        stop.store(true, Relaxed);
        readers
            .map(|reader| reader.join().expect("reader"))
            .iter()
            .sum()
    });
    println!(
        "{reads} reads; {:?}, open holes {}",
        Counts::of(&index),
        index.open_holes()
    );
    let mut keys = walk(&index);
    assert_eq!(keys.len() as u64, index.items());
    keys.sort_unstable();
    assert!(keys.windows(2).all(|two| two[0] < two[1]), "a key twice");
    assert!((0..RESIDENT).all(|key| get(&index, key).is_some()));
}

/// One writer: inserts and removes its own keys, fights for the raced ones.
fn churn(index: &Index, writer: u32, stop: &AtomicBool) {
    let mut random = Random(writer as u64 + 7);
    let mut version = 0;
    let mut mine = vec![None; CHURNED as usize];
    while !stop.load(Relaxed) {
        version += 1;
        // Long phases of growing and of shrinking.
        let shrinking = version / 150_000 % 2 == 1;
        let n = random.below(CHURNED / 2) * 2 + writer;
        let key = RESIDENT + RACED + n;
        let _pin = Pin::new(index.domain());
        if let Some(old) = mine[n as usize].take() {
            assert_eq!(get(index, key), Some(old), "own key lost");
            assert!(index.remove_if(hash(key), old), "own key not there");
            assert_eq!(get(index, key), None, "removed key still there");
        } else if !shrinking {
            let new = place(key, version);
            assert_eq!(put(index, key, new), Publish::Done);
            mine[n as usize] = Some(new);
        }
        let raced = RESIDENT + random.below(RACED);
        if random.below(2) == 0 {
            assert_eq!(put(index, raced, place(raced, version)), Publish::Done);
        } else if let Some(old) = get(index, raced) {
            index.remove_if(hash(raced), old);
        }
    }
}

fn move_residents(index: &Index, stop: &AtomicBool) {
    let mut random = Random(99);
    let mut versions = vec![0u32; RESIDENT as usize];
    while !stop.load(Relaxed) {
        let key = random.below(RESIDENT);
        let version = &mut versions[key as usize];
        let _pin = Pin::new(index.domain());
        let moved = index.move_if(
            hash(key),
            place(key, *version),
            place(key, *version + 1),
            None,
        );
        assert!(moved, "nobody else moves this key");
        *version += 1;
    }
}

fn read_residents(index: &Index, n: u64, stop: &AtomicBool) -> u64 {
    let mut random = Random(n + 1000);
    let mut reads = 0;
    while !stop.load(Relaxed) {
        for _ in 0..64 {
            let key = random.below(RESIDENT);
            let _pin = Pin::new(index.domain());
            let found = index.find(hash(key), |place| key_of(place) == key);
            index.bump(&found.expect("a resident key was missed"));
            reads += 1;
        }
    }
    reads
}

#[test]
fn threads_lose_nothing_in_a_second() {
    hammer(Duration::from_secs(1));
}

#[test]
#[ignore = "60 s of all cores"]
fn threads_lose_nothing_in_a_minute() {
    hammer(Duration::from_secs(60));
}
