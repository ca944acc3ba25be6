//! What is dead in a sealed segment of team use is given back to the machine while others read, hold, stream, fill and
//! overwrite beside it.

use super::*;

/// A sealed segment in team use with a large value `k` in it and a live item `l`, both to be read.
fn team() -> Cache {
    let cache = Cache::for_models_of(crate::ExtentUse::Team);
    write_large(&cache);
    set(&cache, b"l", &[4; 12]);
    settle(&cache);
    cache
}

/// What is dead goes back, as far as nobody stands in the way.
fn thin(cache: &Cache) {
    cache.inner.reclaim.thin_now(&cache.inner.store);
}

/// A reader copies a large value that is deleted and given back meanwhile.
fn read_during_release() {
    let cache = team();
    let reader = spawn(&cache, |cache| {
        let value = get(cache, b"k");
        let whole = value.is_none() || value.as_deref() == Some(&[5; LARGE][..]);
        assert!(whole, "given back under a reader: {value:?}");
    });
    let releaser = spawn(&cache, |cache| {
        assert!(cache.delete(b"k"));
        thin(cache);
    });
    join([reader, releaser]);
    thin(&cache);
    assert_eq!(get(&cache, b"l").as_deref(), Some(&[4; 12][..]));
}

/// Nobody else is about: what the models above and below rest on does happen.
fn release_alone() {
    let cache = team();
    assert!(cache.delete(b"k"));
    thin(&cache);
    let (released, _) = cache.inner.store.segments.extents().parted();
    assert!(released >= 128, "{released} bytes of {LARGE}");
}

#[test]
fn no_dead_run_is_given_back_under_a_pin() {
    activate(None);
    run(release_alone, RandomScheduler::new(1));
    holds(read_during_release);
    fails_without(ThinNoGrace, read_during_release);
}

/// A guard of the large value lives on while it is deleted and given back.
fn guard_during_release() {
    let cache = team();
    let reader = spawn(&cache, |cache| {
        if let Some(guard) = cache.get(b"k") {
            thread::yield_now();
            assert_eq!(
                &guard.to_vec()[..],
                &[5; LARGE][..],
                "given back under a guard"
            );
        }
    });
    let releaser = spawn(&cache, |cache| {
        assert!(cache.delete(b"k"));
        thin(cache);
    });
    join([reader, releaser]);
}

#[test]
fn no_dead_run_is_given_back_under_a_guard() {
    holds(guard_during_release);
    fails_without(ThinHeld, guard_during_release);
}

/// A large value is streamed into a segment that is sealed and looked through: its chunks are nobody's yet.
fn release_during_stream() {
    let cache = Cache::for_models_of(crate::ExtentUse::Team);
    set(&cache, b"d", &[9; 200]);
    assert!(cache.delete(b"d"));
    let writer = spawn(&cache, write_large);
    let releaser = spawn(&cache, |cache| {
        settle_as_far(cache);
        thin(cache);
    });
    join([writer, releaser]);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[5; LARGE][..]));
}

fn settle_as_far(cache: &Cache) {
    seal(cache);
    let domain = cache.inner.store.domain;
    let _ = domain.try_advance() && domain.try_advance();
}

#[test]
fn no_chunk_of_a_stream_is_given_back() {
    holds(release_during_stream);
    fails_without(WritersIgnored, release_during_stream);
}

/// An item is written, and its segment sealed and looked through before it is published.
fn release_during_fill() {
    let cache = Cache::for_models_of(crate::ExtentUse::Team);
    set(&cache, b"d", &[9; 200]);
    assert!(cache.delete(b"d"));
    let writer = spawn(&cache, |cache| set(cache, b"k", &[1; 200]));
    let releaser = spawn(&cache, |cache| {
        settle_as_far(cache);
        thin(cache);
    });
    join([writer, releaser]);
    assert_eq!(get(&cache, b"k").as_deref(), Some(&[1; 200][..]));
}

#[test]
fn no_item_about_to_be_published_is_given_back() {
    holds(release_during_fill);
    fails_without(NotSettled, release_during_fill);
}

/// Live items are overwritten in place, and what is around them is given back and then emptied.
fn overwrite_during_release() {
    let cache = team();
    assert!(cache.delete(b"k"));
    let writer = spawn(&cache, |cache| set(cache, b"l", &[6; 12]));
    let releaser = spawn(&cache, |cache| {
        thin(cache);
        compact(cache);
    });
    join([writer, releaser]);
    reuse(&cache);
    assert_eq!(get(&cache, b"l").as_deref(), Some(&[6; 12][..]));
}

#[test]
fn live_items_beside_what_is_given_back_stay() {
    holds(overwrite_during_release);
}
