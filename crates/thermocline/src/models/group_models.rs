//! Dropping a group while others write, move and read. Keys of the group begin with `a`, those of another with `b`.

use super::*;
use crate::config::Group;

fn with_groups() -> Cache {
    Cache::for_models_with(|config| config.groups = vec![Group::new(*b"a"), Group::new(*b"b")])
}

fn drop_a(cache: &Cache) {
    assert!(cache.drop_group(b"a"));
}

/// Bytes that the books give group `a`.
fn bytes_of_a(cache: &Cache) -> u64 {
    cache.groups()[0].bytes
}

/// What is stored after a drop stays, though another thread opens segments during it; the other group keeps all.
fn set_after_drop() {
    let cache = with_groups();
    set(&cache, b"a1", &[1; 4]);
    set(&cache, b"b1", &[1; 4]);
    seal(&cache);
    let dropper = spawn(&cache, |cache| {
        drop_a(cache);
        assert_eq!(get(cache, b"a1"), None);
        set(cache, b"a2", &[2; 4]);
        assert_eq!(get(cache, b"a2").as_deref(), Some(&[2; 4][..]));
    });
    let writer = spawn(&cache, |cache| set(cache, b"b2", &[3; 4]));
    join([dropper, writer]);
    for (key, value) in [(b"a2", [2; 4]), (b"b1", [1; 4]), (b"b2", [3; 4])] {
        assert_eq!(get(&cache, key).as_deref(), Some(&value[..]));
    }
}

#[test]
fn a_drop_leaves_what_comes_after_it_and_other_groups() {
    holds(set_after_drop);
    fails_without(NoHold, set_after_drop);
}

/// A writer of the key that is dropped: its value is there whole, or it is not; what was there before is gone, and
/// the books say the same.
fn set_during_drop() {
    let cache = with_groups();
    set(&cache, b"a1", &[1; 12]);
    let writer = spawn(&cache, |cache| {
        set(cache, b"a1", &[2; 12]);
        set(cache, b"a1", &[3; 40]);
    });
    let dropper = spawn(&cache, |cache| {
        drop_a(cache);
        assert_ne!(get(cache, b"a1").as_deref(), Some(&[1; 12][..]));
    });
    join([writer, dropper]);
    let value = get(&cache, b"a1");
    assert!(value.is_none() || value.as_deref() == Some(&[3; 40][..]));
    assert_eq!(value.is_some(), bytes_of_a(&cache) > 0);
    drop_a(&cache);
    compact_all(&cache);
    assert_eq!((cache.len(), cache.stats().live_bytes), (0, 0));
}

fn compact_all(cache: &Cache) {
    for _ in 0..4 {
        compact(cache);
    }
}

#[test]
fn a_write_beside_a_drop_is_whole_or_dark() {
    holds(set_during_drop);
}

/// An append by copy rests on a value that is dropped meanwhile: it must not bring it back.
fn copy_during_drop() {
    let cache = with_groups();
    set(&cache, b"a1", &[1; 3]);
    let writer = spawn(&cache, |cache| {
        let _ = cache.append(b"a1", &[2; 9]).expect("room");
    });
    let dropper = spawn(&cache, |cache| {
        drop_a(cache);
        assert_eq!(get(cache, b"a1"), None);
    });
    join([writer, dropper]);
    assert_eq!(get(&cache, b"a1"), None);
}

#[test]
fn a_dropped_value_does_not_live_on_in_a_copy() {
    holds(copy_during_drop);
    fails_without(DarkIgnored, copy_during_drop);
}

/// Reclaim moves an item of the group to a young segment while the group is dropped.
fn move_during_drop() {
    let cache = with_groups();
    kill_half(&cache);
    set(&cache, b"a1", &[1; 12]);
    set(&cache, b"b1", &[1; 12]);
    settle(&cache);
    let dropper = spawn(&cache, |cache| {
        drop_a(cache);
        assert_eq!(get(cache, b"a1"), None);
    });
    let mover = spawn(&cache, Cache::sweep);
    join([dropper, mover]);
    assert_eq!(get(&cache, b"a1"), None);
    assert_eq!(get(&cache, b"b1").as_deref(), Some(&[1; 12][..]));
    assert_eq!(bytes_of_a(&cache), 0);
}

#[test]
fn no_dropped_item_is_carried_behind_the_mark() {
    holds(move_during_drop);
    fails_without(DropUnlocked, move_during_drop);
}

/// What was dropped is buried and its mark forgotten while a reader who came after the drop looks at it.
fn read_while_forgotten() {
    let cache = with_groups();
    set(&cache, b"a1", &[1; 12]);
    settle(&cache);
    drop_a(&cache);
    let reader = spawn(&cache, |cache| assert_eq!(get(cache, b"a1"), None));
    let reclaimer = spawn(&cache, |cache| {
        cache.sweep();
        forget(cache);
    });
    join([reader, reclaimer]);
    forget(&cache);
    let any = cache
        .inner
        .store
        .flush
        .any
        .load(crate::sync::Ordering::SeqCst);
    assert_eq!(any, 0, "nothing is left under the mark");
}

/// As the background thread does: again and again.
fn forget(cache: &Cache) {
    for _ in 0..4 {
        cache.inner.reclaim.forget_marks(&cache.inner.store);
    }
}

#[test]
fn a_mark_is_not_forgotten_under_a_pin() {
    holds(read_while_forgotten);
    fails_without(ForgetNoGrace, read_while_forgotten);
}
