//! Models of the engine under shuttle's scheduler: the production cache with segments of 1 KiB.
//!
//! Two or three threads meet in one race each; PCT schedules look for the order that breaks it. Each model
//! runs once more for every guarding line with that line taken out, and must then fail. Shuttle knows
//! sequential consistency only: orderings and fences rest on the argument in `item.rs` and on the runs on
//! real threads (`tests/history.rs`). Where a slot turns, the index's own models hold (`index/models.rs`).
//!
//! `RUSTFLAGS="--cfg shuttle" cargo test -p thermocline --lib models::`

mod expiry_models;
mod group_models;
mod release_models;
mod reuse_models;

use crate::cache::Cache;
use crate::models_switch::activate;
use crate::models_switch::Mutant::{self, *};
use crate::{Expiry, SetOptions};
use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread;
use std::panic::{catch_unwind, AssertUnwindSafe};

/// Schedules of each kind a model must hold in; SCHEDULES=n for more.
const SCHEDULES: usize = 500;
/// Schedules in which a model must notice that a line is gone.
const MUTANT_SCHEDULES: usize = 100_000;
const DEPTHS: [usize; 3] = [2, 3, 4];
const STACK_BYTES: usize = 256 << 10;

fn holds(model: fn()) {
    activate(None);
    let schedules = std::env::var("SCHEDULES").ok().and_then(|n| n.parse().ok());
    let schedules = schedules.unwrap_or(SCHEDULES);
    for depth in DEPTHS {
        run(model, PctScheduler::new(depth, schedules));
    }
    run(model, RandomScheduler::new(schedules));
}

/// A cache is made on the model's own stack, and asking for the number of cores alone takes 12 KiB of it.
fn run(model: fn(), scheduler: impl Scheduler + 'static) {
    let mut config = shuttle::Config::new();
    config.stack_size = STACK_BYTES;
    shuttle::Runner::new(scheduler, config).run(model);
}

fn fails_without(line: Mutant, model: fn()) {
    activate(Some(line));
    let tries = || run(model, PctScheduler::new(3, MUTANT_SCHEDULES));
    let failed = catch_unwind(AssertUnwindSafe(tries)).is_err();
    activate(None);
    assert!(failed, "the model does not notice: {line:?}");
}

fn spawn(cache: &Cache, body: impl FnOnce(&Cache) + Send + 'static) -> thread::JoinHandle<()> {
    let cache = cache.clone();
    thread::spawn(move || body(&cache))
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    for thread in threads {
        thread.join().expect("a model's thread");
    }
}

fn set(cache: &Cache, key: &[u8], value: &[u8]) {
    cache.set(key, value).expect("a model's cache has room");
}

fn get(cache: &Cache, key: &[u8]) -> Option<Vec<u8>> {
    cache.get(key).map(|guard| guard.to_vec())
}

/// Seals whatever is open.
fn seal(cache: &Cache) {
    let store = &cache.inner.store;
    store.lanes.all().for_each(|lane| {
        lane.close(store);
    });
}

/// Seals what is open and lets the epochs pass, so that it can be drained whoever is pinned later.
fn settle(cache: &Cache) {
    seal(cache);
    let domain = cache.inner.store.domain;
    assert!(domain.try_advance() && domain.try_advance());
}

/// Compacts what is mostly dead, as far as nobody's pin stands in the way.
fn compact(cache: &Cache) {
    let domain = cache.inner.store.domain;
    let _ = domain.try_advance() && domain.try_advance();
    cache.sweep();
}

/// Frees what was emptied and fills it with other bytes: who still points there is found out.
fn reuse(cache: &Cache) {
    compact(cache);
    for n in 0..3 {
        set(cache, &[n], &[7; 300]);
    }
}

/// A cache whose open segment is more than half dead once `rest` was added: compaction will choose it.
fn half_dead() -> Cache {
    let cache = Cache::for_models();
    kill_half(&cache);
    cache
}

fn kill_half(cache: &Cache) {
    set(cache, b"d", &[9; 500]);
    assert!(cache.delete(b"d"));
}

fn reader_during_overwrites() {
    let cache = Cache::for_models();
    set(&cache, b"k", &[1; 12]);
    let writer = spawn(&cache, |cache| {
        set(cache, b"k", &[2; 12]);
        set(cache, b"k", &[3; 5]);
    });
    let reader = spawn(&cache, |cache| {
        let value = get(cache, b"k").expect("it is always there");
        let whole = value == [1; 12] || value == [2; 12] || value == [3; 5];
        assert!(whole, "torn: {value:?}");
    });
    join([writer, reader]);
}

#[test]
fn a_reader_never_sees_half_an_overwrite() {
    holds(reader_during_overwrites);
    fails_without(NoHeaderCheck, reader_during_overwrites);
}

/// A reader looks the key up while a larger value, which goes by copy, takes its place.
fn reader_during_replacement() {
    let cache = Cache::for_models();
    set(&cache, b"k", &[1; 12]);
    let writer = spawn(&cache, |cache| set(cache, b"k", &[2; 40]));
    let reader = spawn(&cache, |cache| {
        let value = get(cache, b"k").expect("it is always there");
        assert!(value == [1; 12] || value == [2; 40], "unwritten: {value:?}");
    });
    join([writer, reader]);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[2; 40][..]));
}

#[test]
fn nothing_is_found_before_it_is_written() {
    holds(reader_during_replacement);
    fails_without(PublishUnwritten, reader_during_replacement);
}

/// An item is overwritten beyond the last version its header can count, which would reach into the key's length.
fn overwrites_past_the_last_version() {
    let cache = Cache::for_models();
    set(&cache, b"k", &[1; 12]);
    let store = &cache.inner.store;
    let found = store.find(store.hash(b"k"), b"k").expect("just stored");
    store.item(found.slot.place()).begin_at(254);
    let writers = [2, 3].map(|n: u8| spawn(&cache, move |cache| set(cache, b"k", &[n; 12])));
    let reader = spawn(&cache, |cache| {
        let value = get(cache, b"k").expect("it is always there");
        let whole = (1..=3).any(|n| value == [n; 12]);
        assert!(whole, "torn: {value:?}");
    });
    join(writers);
    join([reader]);
    let left = get(&cache, b"k").expect("it is always there");
    assert!(left == [2; 12] || left == [3; 12], "{left:?}");
}

#[test]
fn no_version_runs_over() {
    holds(overwrites_past_the_last_version);
    fails_without(VersionWraps, overwrites_past_the_last_version);
}

/// Two remove an item that a third replaces by copy: each record is buried once, and what lives beside them counts.
fn removers_of_one_item() {
    let cache = Cache::for_models();
    set(&cache, b"l", &[4; 100]);
    let live = cache.stats().live_bytes;
    assert!(live >= 100);
    set(&cache, b"k", &[1; 12]);
    let removers = [(); 2].map(|()| {
        spawn(&cache, |cache| {
            let _either = cache.delete(b"k");
        })
    });
    let writer = spawn(&cache, |cache| set(cache, b"k", &[2; 40]));
    join(removers);
    join([writer]);
    cache.delete(b"k");
    assert_eq!((cache.len(), cache.stats().live_bytes), (1, live));
}

#[test]
fn no_record_is_buried_twice() {
    holds(removers_of_one_item);
    fails_without(RemoveBlind, removers_of_one_item);
}

/// The half-dead segment's only item is overwritten in place while it is moved away.
fn overwrite_during_move() {
    let cache = half_dead();
    set(&cache, b"k", &[1; 12]);
    settle(&cache);
    let writer = spawn(&cache, |cache| set(cache, b"k", &[2; 12]));
    let mover = spawn(&cache, Cache::sweep);
    join([writer, mover]);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[2; 12][..]));
    assert_eq!(cache.stats().inserts, 2);
}

#[test]
fn no_overwrite_is_lost_in_a_move() {
    holds(overwrite_during_move);
    fails_without(NoFreezeNorDrainingCheck, overwrite_during_move);
}

/// The half-dead segment's only item is given an expiry far ahead while it is moved away; for a moment its old bytes
/// stand where the expiry will.
fn expiry_during_move() {
    let cache = half_dead();
    let with = |expiry, value: &[u8]| {
        let options = SetOptions {
            flags: 1,
            expiry,
            ..SetOptions::default()
        };
        (options, value.to_vec())
    };
    let (options, value) = with(Expiry::Never, &[1; 20]);
    cache.set_with(b"k", &value, &options).expect("room");
    settle(&cache);
    let writer = spawn(&cache, move |cache| {
        let (options, value) = with(Expiry::AtMs(4_000_000_000_000), &[2; 16]);
        cache.set_with(b"k", &value, &options).expect("room");
    });
    let mover = spawn(&cache, Cache::sweep);
    join([writer, mover]);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[2; 16][..]));
    assert_eq!(cache.stats().expired, 0);
}

#[test]
fn an_item_being_written_is_not_expired() {
    holds(expiry_during_move);
    fails_without(OverUnchecked, expiry_during_move);
}

fn delete_during_move() {
    let cache = half_dead();
    set(&cache, b"k", &[1; 12]);
    settle(&cache);
    let deleter = spawn(&cache, |cache| assert!(cache.delete(b"k")));
    let mover = spawn(&cache, Cache::sweep);
    join([deleter, mover]);
    assert_eq!(get(&cache, b"k"), None);
    assert_eq!((cache.len(), cache.stats().live_bytes), (0, 0));
}

#[test]
fn no_deleted_item_comes_back_by_a_move() {
    holds(delete_during_move);
    fails_without(MoveBlind, delete_during_move);
}

/// 998 + 1 fits in place, + 2 goes by copy; whichever is first, the other must not be lost.
fn step_by_copy_and_step_in_place() {
    let cache = Cache::for_models();
    set(&cache, b"k", b"998");
    let steps = [1, 2].map(|by| {
        spawn(&cache, move |cache| {
            assert!(cache.incr(b"k", by).expect("a number").is_some());
        })
    });
    join(steps);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&b"1001"[..]));
}

#[test]
fn no_update_is_lost_between_copy_and_place() {
    holds(step_by_copy_and_step_in_place);
    fails_without(NoLockOfOld, step_by_copy_and_step_in_place);
}

/// A segment is sealed and compacted while a writer has reserved in it and not yet published.
fn drain_during_fill() {
    let cache = half_dead();
    let writer = spawn(&cache, |cache| set(cache, b"k", &[1; 12]));
    let reclaimer = spawn(&cache, |cache| {
        seal(cache);
        compact(cache);
    });
    join([writer, reclaimer]);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[1; 12][..]));
}

#[test]
fn no_segment_is_drained_under_its_writers() {
    holds(drain_during_fill);
    fails_without(NotSettled, drain_during_fill);
}

/// A reader stands in a segment that is emptied, freed and filled with records of the same shape.
fn reuse_under_reader() {
    let cache = Cache::for_models();
    set(&cache, b"k", &[1; 12]);
    set(&cache, b"d", &[9; 500]);
    assert!(cache.delete(b"d"));
    settle(&cache);
    let reader = spawn(&cache, |cache| {
        let value = get(cache, b"k");
        assert_eq!(value.as_deref(), Some(&[1; 12][..]), "another item's bytes");
    });
    let reclaimer = spawn(&cache, |cache| {
        cache.sweep();
        set(cache, b"x", &[7; 12]);
    });
    join([reader, reclaimer]);
}

#[test]
fn no_segment_is_reused_under_a_pin() {
    holds(reuse_under_reader);
    fails_without(NoGrace, reuse_under_reader);
}

const LARGE: usize = 240;

/// A large value in two chunks, with an expiry, in a half-dead sealed segment.
fn with_large() -> Cache {
    let cache = half_dead();
    write_large(&cache);
    settle(&cache);
    cache
}

fn write_large(cache: &Cache) {
    let options = SetOptions {
        expiry: Expiry::AtMs(2_000_000_000_000),
        ..SetOptions::default()
    };
    let mut writer = cache.write(b"k", LARGE, &options).expect("room");
    writer.write(&[5; LARGE]).expect("room");
    assert!(writer.commit().expect("room").is_stored());
}

/// The head is locked for a touch while its chunks are moved.
fn touch_during_chunk_move() {
    let cache = with_large();
    let toucher = spawn(&cache, |cache| {
        let later = Expiry::AtMs(2_000_000_001_000);
        assert!(cache.touch(b"k", later).expect("nothing is written"));
    });
    let mover = spawn(&cache, Cache::sweep);
    join([toucher, mover]);
    reuse(&cache);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[5; LARGE][..]));
}

#[test]
fn no_chunk_is_lost_while_its_head_is_locked() {
    holds(touch_during_chunk_move);
    fails_without(LockedHeadIsGone, touch_during_chunk_move);
}

fn delete_during_chunk_move() {
    let cache = with_large();
    let deleter = spawn(&cache, |cache| assert!(cache.delete(b"k")));
    let mover = spawn(&cache, Cache::sweep);
    join([deleter, mover]);
    assert_eq!(get(&cache, b"k"), None);
    assert_eq!(cache.stats().live_bytes, 0, "a chunk is nobody's and lives");
}

#[test]
fn a_removal_buries_every_chunk_wherever_it_is() {
    holds(delete_during_chunk_move);
    fails_without(ChunkBlind, delete_during_chunk_move);
}

/// A large value is streamed into a segment that is being sealed and compacted.
fn drain_during_stream() {
    let cache = half_dead();
    let writer = spawn(&cache, write_large);
    let reclaimer = spawn(&cache, |cache| {
        seal(cache);
        compact(cache);
    });
    join([writer, reclaimer]);
    reuse(&cache);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[5; LARGE][..]));
}

#[test]
fn no_segment_is_drained_under_a_stream() {
    holds(drain_during_stream);
    fails_without(WritersIgnored, drain_during_stream);
}

/// What is stored after a flush stays, though another thread opens segments during it.
fn set_after_flush() {
    let cache = Cache::for_models();
    set(&cache, b"a", &[1; 4]);
    seal(&cache);
    let flusher = spawn(&cache, |cache| {
        cache.flush();
        assert_eq!(get(cache, b"a"), None);
        set(cache, b"k", &[2; 4]);
        assert_eq!(get(cache, b"k").as_deref(), Some(&[2; 4][..]));
    });
    let writer = spawn(&cache, |cache| set(cache, b"x", &[3; 4]));
    join([flusher, writer]);
}

#[test]
fn a_flush_leaves_what_comes_after_it() {
    holds(set_after_flush);
    fails_without(NoHold, set_after_flush);
}

/// A large value takes its room before it looks at what it replaces. What it has taken before a flush must not come to
/// lie over what another has stored after it.
fn stream_around_a_flush() {
    let cache = Cache::for_models();
    let early = spawn(&cache, write_large);
    let late = spawn(&cache, |cache| {
        cache.flush();
        set(cache, b"k", &[2; 4]);
    });
    join([early, late]);
    let found = get(&cache, b"k").expect("one of the two");
    assert!(found == [5; LARGE] || found == [2; 4], "{found:?}");
}

#[test]
fn what_a_flush_has_hidden_does_not_hide_what_came_after_it() {
    holds(stream_around_a_flush);
    fails_without(PublishDark, stream_around_a_flush);
}

/// An append by copy rests on a value that is flushed meanwhile: it must not bring it back.
fn copy_during_flush() {
    let cache = Cache::for_models();
    set(&cache, b"k", &[1; 3]);
    let writer = spawn(&cache, |cache| {
        let _ = cache.append(b"k", &[2; 9]).expect("room");
    });
    let flusher = spawn(&cache, |cache| {
        cache.flush();
        assert_eq!(get(cache, b"k"), None);
    });
    join([writer, flusher]);
    assert_eq!(get(&cache, b"k"), None);
}

#[test]
fn a_flushed_value_does_not_live_on_in_a_copy() {
    holds(copy_during_flush);
    fails_without(DarkIgnored, copy_during_flush);
}

/// Two writers find the same lane full.
fn two_writers_at_a_full_lane() {
    let cache = Cache::for_models();
    set(&cache, b"d", &[9; 980]);
    let writers = [1, 2].map(|n: u8| spawn(&cache, move |cache| set(cache, &[n], &[n; 40])));
    join(writers);
    for n in [1, 2] {
        assert_eq!(get(&cache, &[n]).as_deref(), Some(&[n; 40][..]));
    }
    seal(&cache);
    cache.sweep();
    assert_eq!(cache.len(), 3);
}

#[test]
fn a_full_lane_is_sealed_once() {
    holds(two_writers_at_a_full_lane);
    fails_without(SealBlind, two_writers_at_a_full_lane);
}
