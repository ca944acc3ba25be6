//! The eviction listener: every departure once, with its cause; and what a listener may do.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{channel, RecvTimeoutError};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;
use thermocline::{Cache, Cause, Clock, Config, Departure, Error, Expiry, Listener, SetOptions};

const START_MS: u64 = 1_800_000_000_000;

type Told = Arc<Mutex<Vec<(Vec<u8>, Option<Vec<u8>>, Cause)>>>;

/// A cache whose departures are written down.
fn watched(values: bool, background: bool) -> (Cache, Clock, Told) {
    let told = Told::default();
    let notes = told.clone();
    let listener = Listener::new(move |left: &Departure<'_>| {
        let value = left.value.map(<[u8]>::to_vec);
        notes
            .lock()
            .unwrap()
            .push((left.key.to_vec(), value, left.cause));
    });
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.listener = Some(if values {
        listener.with_values()
    } else {
        listener
    });
    config.clock = clock.clone();
    config.background = background;
    (Cache::new(config).unwrap(), clock, told)
}

fn soon() -> SetOptions {
    SetOptions {
        expiry: Expiry::AtMs(START_MS + 1000),
        ..SetOptions::default()
    }
}

/// Stores, again if other threads were held up with all the room pinned (two busy cores, many threads).
fn set(cache: &Cache, key: &[u8], value: &[u8]) {
    for _ in 0..100 {
        match cache.set(key, value) {
            Ok(()) => return,
            Err(Error::NoRoom) => thread::yield_now(),
            Err(other) => panic!("{other}"),
        }
    }
    panic!("no room in a hundred tries");
}

/// Runs a story that must end: a deadlock fails the test instead of hanging it.
fn within_a_minute(story: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let thread = thread::spawn(move || {
        story();
        let _ = done.send(());
    });
    match is_done.recv_timeout(Duration::from_secs(60)) {
        Err(RecvTimeoutError::Timeout) => panic!("it never ends"),
        _ => thread.join().unwrap(),
    }
}

#[test]
fn each_way_to_leave_has_its_cause_and_value() {
    let (cache, clock, told) = watched(true, false);
    let take = || std::mem::take(&mut *told.lock().unwrap());
    let one = |value: &[u8], cause| vec![(b"k".to_vec(), Some(value.to_vec()), cause)];
    cache.set(b"k", b"one").unwrap();
    assert_eq!(take(), []);
    cache.set(b"k", b"two").unwrap();
    assert_eq!(cache.stats().overwritten_in_place, 1);
    assert_eq!(take(), one(b"one", Cause::Replaced), "in place");
    cache.set(b"k", &[9; 500]).unwrap();
    assert_eq!(take(), one(b"two", Cause::Replaced), "by a longer one");
    cache.delete(b"k");
    assert_eq!(take(), one(&[9; 500], Cause::Removed));
    cache.delete(b"k");
    assert_eq!(take(), [], "it was gone already");
    for how in 0..4 {
        cache.set_with(b"k", b"brief", &soon()).unwrap();
        clock.advance_ms(2000);
        match how {
            0 => assert!(cache.get(b"k").is_none()),
            1 => assert!(!cache.delete(b"k")),
            2 => cache.set(b"k", b"other").unwrap(),
            _ => cache.sweep(),
        }
        let told = take();
        if how < 3 {
            assert_eq!(told, one(b"brief", Cause::Expired), "way {how}");
        }
        cache.delete(b"k");
        take();
        if let Clock::Manual(now) = &clock {
            now.store(START_MS, Ordering::SeqCst);
        }
    }
    let removed = cache
        .update(b"k", |_| (thermocline::Change::Remove, ()))
        .unwrap();
    assert_eq!((removed.token, take().len()), (None, 0));
    cache.set(b"k", b"v").unwrap();
    cache
        .update(b"k", |_| (thermocline::Change::Remove, ()))
        .unwrap();
    assert_eq!(take(), one(b"v", Cause::Removed));
}

/// An item that is written anew for its expiry or its marks has not left.
#[test]
fn another_expiry_is_no_departure() {
    let (cache, clock, told) = watched(true, false);
    let large = vec![7; 1 << 20];
    for (key, value) in [(&b"small"[..], &b"value"[..]), (b"large", &large)] {
        cache.set(key, value).unwrap();
        let stored = cache.stats().inserted_bytes;
        assert!(cache.touch(key, soon().expiry).unwrap());
        assert!(cache.stats().inserted_bytes > stored, "by copy");
        assert!(cache.get_and_touch(key, Expiry::Never).unwrap().is_some());
        assert!(cache.touch(key, soon().expiry).unwrap());
        assert_eq!(*told.lock().unwrap(), [], "a value that is still there");
    }
    clock.advance_ms(1000);
    assert!(!cache.delete(b"small") && !cache.delete(b"large"));
    let causes = told
        .lock()
        .unwrap()
        .iter()
        .map(|(key, _, cause)| (key.clone(), *cause))
        .collect::<Vec<_>>();
    assert_eq!(
        causes,
        [
            (b"small".to_vec(), Cause::Expired),
            (b"large".to_vec(), Cause::Expired)
        ]
    );
}

#[test]
fn values_are_left_out_unless_asked_for() {
    let (cache, _, told) = watched(false, false);
    cache.set(b"k", b"v").unwrap();
    cache.delete(b"k");
    assert_eq!(
        *told.lock().unwrap(),
        [(b"k".to_vec(), None, Cause::Removed)]
    );
}

#[test]
fn every_item_that_came_is_there_or_was_told_of_once() {
    let (cache, clock, told) = watched(true, true);
    const ITEMS: u32 = 100_000;
    let value = |n: u32| vec![n as u8; 100 + n as usize % 1000];
    for n in 0..ITEMS {
        let options = if n % 5 == 0 {
            soon()
        } else {
            SetOptions::default()
        };
        cache
            .set_with(&n.to_be_bytes(), &value(n), &options)
            .unwrap();
        if n % 7 == 0 {
            cache.delete(&(n / 2).to_be_bytes());
        }
        if n == ITEMS / 2 {
            clock.advance_ms(2000);
        }
    }
    // The background thread goes on for a while: what it still drops must not fall between list and count.
    let left = || {
        let stats = cache.stats();
        stats.evicted + stats.expired
    };
    let (mut before, mut quiet) = (left(), 0);
    while quiet < 10 {
        thread::sleep(Duration::from_millis(50));
        quiet = if left() == before { quiet + 1 } else { 0 };
        before = left();
    }
    let remaining: Vec<_> = cache.keys().collect();
    let stats = cache.stats();
    drop(cache);
    let told = told.lock().unwrap();
    let mut causes: HashMap<&[u8], Cause> = HashMap::new();
    for (key, bytes, cause) in told.iter() {
        let n = u32::from_be_bytes(key[..].try_into().unwrap());
        assert_eq!(bytes.as_deref(), Some(&value(n)[..]), "{n}: {cause:?}");
        assert!(causes.insert(key, *cause).is_none(), "{n} left twice");
    }
    let count = |cause| told.iter().filter(|(_, _, c)| *c == cause).count() as u64;
    assert_eq!(count(Cause::Evicted), stats.evicted);
    assert_eq!(count(Cause::Removed), stats.deleted);
    assert!(count(Cause::Expired) > 0 && count(Cause::Evicted) > 0);
    let both = remaining.iter().filter(|key| causes.contains_key(&key[..]));
    assert_eq!(both.count(), 0, "there and gone at once");
    let lost = (0..ITEMS).filter(|n| {
        let key = n.to_be_bytes();
        !causes.contains_key(&key[..]) && !remaining.iter().any(|there| there[..] == key)
    });
    // Expired ones nobody has reclaimed yet are neither listed nor told of.
    let gone_unseen = stats.items - remaining.len() as u64;
    assert_eq!(lost.take(100_000).count() as u64, gone_unseen);
}

#[test]
fn a_listener_may_write_into_its_cache() {
    for background in [false, true] {
        within_a_minute(move || {
            let cell = Arc::new(OnceLock::<Cache>::new());
            let (inside, calls) = (cell.clone(), Arc::new(AtomicU64::new(0)));
            let count = calls.clone();
            let mut config = Config::new(16 << 20);
            config.background = background;
            config.listener = Some(Listener::new(move |left| {
                // Its own writes make items leave too: no endless rings.
                if left.key.starts_with(b"note ") || left.cause == Cause::Replaced {
                    return;
                }
                count.fetch_add(1, Ordering::Relaxed);
                if let Some(cache) = inside.get() {
                    let note = [b"note ", left.key].concat();
                    set(cache, &note, &[1; 200]);
                    cache.get(left.key);
                    cache.delete(&note);
                    set(cache, b"note last", left.key);
                }
            }));
            let cache = cell.get_or_init(|| Cache::new(config).unwrap());
            thread::scope(|scope| {
                for t in 0..2u32 {
                    scope.spawn(move || {
                        for n in 0..40_000u32 {
                            let key = (n * 2 + t).to_be_bytes();
                            set(cache, &key, &[n as u8; 700]);
                            if n % 3 == 0 {
                                cache.delete(&key);
                            }
                        }
                    });
                }
            });
            let stats = cache.stats();
            assert!(stats.evicted > 1000, "{} evicted", stats.evicted);
            assert!(calls.load(Ordering::Relaxed) > 20_000);
            assert!(cache.contains(b"note last"));
        });
    }
}

/// A cache whose listener owns a handle and drops it when the first item leaves.
fn dropped_by_its_listener() -> (Cache, Arc<Mutex<Option<Cache>>>, Clock, Arc<AtomicU64>) {
    let held = Arc::new(Mutex::new(None::<Cache>));
    let dropped_on = Arc::new(AtomicU64::new(0));
    let (inside, note) = (held.clone(), dropped_on.clone());
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(16 << 20);
    config.clock = clock.clone();
    config.listener = Some(Listener::new(move |_| {
        let last = inside.lock().unwrap().take();
        if last.is_some() {
            drop(last);
            let own = thread::current().name() == Some("thermocline");
            note.store(if own { 2 } else { 1 }, Ordering::SeqCst);
        }
    }));
    let cache = Cache::new(config).unwrap();
    *held.lock().unwrap() = Some(cache.clone());
    (cache, held, clock, dropped_on)
}

#[test]
fn the_last_handle_may_be_dropped_by_the_listener_on_a_writer() {
    within_a_minute(|| {
        let (cache, _held, _, dropped_on) = dropped_by_its_listener();
        cache.set(b"k", b"v").unwrap();
        cache.delete(b"k");
        assert_eq!(dropped_on.load(Ordering::SeqCst), 1);
        drop(cache);
    });
}

#[test]
fn the_last_handle_may_be_dropped_by_the_listener_on_the_cache_s_own_thread() {
    within_a_minute(|| {
        let (cache, _held, clock, dropped_on) = dropped_by_its_listener();
        // Enough to fill segments, so that the background thread finds them expired.
        for n in 0..5_000u32 {
            cache
                .set_with(&n.to_be_bytes(), &[3; 1000], &soon())
                .unwrap();
        }
        drop(cache);
        clock.advance_ms(2000);
        while dropped_on.load(Ordering::SeqCst) == 0 {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(dropped_on.load(Ordering::SeqCst), 2);
    });
}
