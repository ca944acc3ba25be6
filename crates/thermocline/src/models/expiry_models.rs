//! An expiry that passes while others touch the item: it is there with its new expiry, or it is gone, and the books
//! of expiring bytes say the same.

use super::*;
use crate::{Change, Clock, Config};

const START_MS: u64 = 1_800_000_000_000;

/// A cache and its clock.
fn with_clock() -> (Cache, Clock) {
    let mut clock = Clock::default();
    let cache = Cache::for_models_with(|config: &mut Config| clock = config.clock.clone());
    (cache, clock)
}

/// Bytes that the segments' books hold for expiring.
fn booked(cache: &Cache) -> u64 {
    let segments = &cache.inner.store.segments;
    let of = |id| segments.get(id).expiring.bytes();
    (0..segments.places())
        .map(|n| of(crate::segment::SegmentId(n as u32)))
        .sum()
}

/// A toucher has read the item; then its time is over, and a reader meets it expired.
fn touch_during_expiry() {
    let (cache, clock) = with_clock();
    let options = SetOptions {
        expiry: Expiry::AtMs(START_MS + 1_000),
        ..SetOptions::default()
    };
    cache.set_with(b"k", &[1; 12], &options).expect("room");
    let mut reader = None;
    let updated = cache.update(b"k", |view| {
        if reader.is_none() {
            clock.advance_ms(1_000);
            reader = Some(spawn(&cache, |cache| drop(get(cache, b"k"))));
        }
        // Looked at again, it is gone.
        (
            Change::Touch(Expiry::AtMs(START_MS + 60_000)),
            view.is_some(),
        )
    });
    let touched = updated.expect("nothing is written").answer;
    join([reader.expect("the item was there")]);
    assert_eq!(get(&cache, b"k").is_some(), touched, "touched and lost");
    assert_eq!(booked(&cache) > 0, touched);
}

#[test]
fn a_touched_item_is_not_expired() {
    holds(touch_during_expiry);
    fails_without(ExpireUnlocked, touch_during_expiry);
}
