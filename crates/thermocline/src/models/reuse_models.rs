//! Room of dead records is used again while others read, hold, overwrite, flush and empty its segment.

use super::*;
use crate::reclaim::close_holes;

const BYTES: usize = 200;

/// A sealed segment with an item `k`, to die, and a live one `l`.
fn two_items() -> Cache {
    let cache = Cache::for_models();
    set(&cache, b"k", &[5; BYTES]);
    set(&cache, b"l", &[4; 12]);
    settle(&cache);
    cache
}

/// What is dead becomes holes, as far as nobody stands in the way.
fn reopen(cache: &Cache) {
    cache.inner.reclaim.reopen_now(&cache.inner.store);
}

fn close(cache: &Cache) {
    let inner = &cache.inner;
    inner.reclaim.while_still(|| close_holes(&inner.store, 0));
}

fn token_of(cache: &Cache) -> Option<u64> {
    cache.peek(b"k", true).and_then(|meta| meta.token)
}

/// Nobody else is about: what the models rest on does happen.
fn reuse_alone() {
    let cache = two_items();
    assert!(cache.delete(b"k"));
    reopen(&cache);
    set(&cache, b"n", &[7; BYTES]);
    assert!(cache.stats().reused_bytes >= BYTES as u64);
    close(&cache);
    compact(&cache);
    reuse(&cache);
    assert_eq!(get(&cache, b"n").as_deref(), Some(&[7; BYTES][..]));
    assert_eq!(get(&cache, b"l").as_deref(), Some(&[4; 12][..]));
}

/// A reader copies an item that is deleted, and another key's is written there.
fn reuse_during_read() {
    let cache = two_items();
    let reader = spawn(&cache, |cache| {
        let value = get(cache, b"k");
        let whole = value.is_none() || value.as_deref() == Some(&[5; BYTES][..]);
        assert!(whole, "written under a reader: {value:?}");
    });
    let writer = spawn(&cache, |cache| {
        assert!(cache.delete(b"k"));
        reopen(cache);
        set(cache, b"n", &[7; BYTES]);
    });
    join([reader, writer]);
    assert_eq!(get(&cache, b"l").as_deref(), Some(&[4; 12][..]));
    assert_eq!(get(&cache, b"n").as_deref(), Some(&[7; BYTES][..]));
}

#[test]
fn no_room_is_used_again_under_a_pin() {
    run(reuse_alone, RandomScheduler::new(1));
    holds(reuse_during_read);
    fails_without(ReuseNoGrace, reuse_during_read);
}

/// A guard of a large value lives on while it is deleted and others are written there.
fn reuse_during_hold() {
    let cache = Cache::for_models();
    write_large(&cache);
    settle(&cache);
    let reader = spawn(&cache, |cache| {
        if let Some(guard) = cache.get(b"k") {
            thread::yield_now();
            assert_eq!(
                &guard.to_vec()[..],
                &[5; LARGE][..],
                "written under a guard"
            );
        }
    });
    let writer = spawn(&cache, |cache| {
        assert!(cache.delete(b"k"));
        reopen(cache);
        set(cache, b"n", &[7; 100]);
    });
    join([reader, writer]);
    assert_eq!(get(&cache, b"n").as_deref(), Some(&[7; 100][..]));
}

#[test]
fn no_room_is_used_again_under_a_guard() {
    holds(reuse_during_hold);
    fails_without(ReuseHeld, reuse_during_hold);
}

/// An item dies while it is overwritten in place, and its key is stored anew where it lay: no token that anybody was
/// told of an earlier version is the new one's.
fn tokens_over_reuse() {
    let cache = two_items();
    let first = token_of(&cache);
    let overwriter = cache.clone();
    let overwriter = thread::spawn(move || {
        let options = SetOptions {
            want_token: true,
            ..SetOptions::default()
        };
        match overwriter.set_with(b"k", &[6; BYTES], &options) {
            Ok(crate::Stored::Stored(token)) => token,
            _ => None,
        }
    });
    let reuser = spawn(&cache, |cache| {
        cache.delete(b"k");
        reopen(cache);
        set(cache, b"k", &[9; BYTES]);
    });
    let second = overwriter.join().expect("a model's thread");
    join([reuser]);
    if get(&cache, b"k").as_deref() != Some(&[9; BYTES][..]) {
        return;
    }
    for token in [first, second].into_iter().flatten() {
        let stored = cache.compare_and_set(b"k", b"lost", token);
        let stored = stored.expect("a model's cache has room");
        assert!(!stored.is_stored(), "another version had this token");
    }
}

#[test]
fn no_version_comes_back_where_room_is_used_again() {
    holds(tokens_over_reuse);
    fails_without(ReuseSameVersion, tokens_over_reuse);
}

/// What is stored after a flush stays, though there were holes in segments from before, or are about to be.
fn flush_during_reuse() {
    let cache = two_items();
    assert!(cache.delete(b"k"));
    let flusher = spawn(&cache, |cache| {
        cache.flush();
        set(cache, b"n", &[7; 100]);
        assert_eq!(get(cache, b"n").as_deref(), Some(&[7; 100][..]));
    });
    let reopener = spawn(&cache, reopen);
    join([flusher, reopener]);
    assert_eq!(get(&cache, b"l"), None);
    assert_eq!(get(&cache, b"n").as_deref(), Some(&[7; 100][..]));
}

#[test]
fn nothing_is_stored_in_flushed_room() {
    holds(flush_during_reuse);
    fails_without(FlushKeepsHoles, flush_during_reuse);
}

/// An item is written in a hole, and its segment closed and emptied before it is published.
fn drain_during_reuse() {
    let cache = two_items();
    assert!(cache.delete(b"k"));
    set(&cache, b"d", &[9; 500]);
    reopen(&cache);
    let writer = spawn(&cache, |cache| set(cache, b"n", &[7; 60]));
    let drainer = spawn(&cache, |cache| {
        close(cache);
        compact(cache);
    });
    join([writer, drainer]);
    reuse(&cache);
    assert_eq!(get(&cache, b"n").as_deref(), Some(&[7; 60][..]));
    assert_eq!(get(&cache, b"l").as_deref(), Some(&[4; 12][..]));
}

#[test]
fn a_closed_segment_waits_for_who_reserved_in_it() {
    holds(drain_during_reuse);
    fails_without(NotSealedAnew, drain_during_reuse);
}
