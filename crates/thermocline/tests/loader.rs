//! `get_or_load`: one load a key, what reaches those who wait, and times of staleness.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{channel, Receiver};
use std::sync::Barrier;
use std::thread;
use std::time::Duration;
use thermocline::{Cache, Clock, Config, Error, Expiry, LoadError, LoadOptions, Origin};

const START_MS: u64 = 1_800_000_000_000;
fn cache() -> Cache {
    Cache::new(Config::new(32 << 20)).unwrap()
}

fn timed_cache() -> (Cache, Clock) {
    let clock = Clock::manual(START_MS);
    let mut config = Config::new(32 << 20);
    config.clock = clock.clone();
    (Cache::new(config).unwrap(), clock)
}

fn plain() -> LoadOptions {
    LoadOptions::default()
}

fn ok(value: &[u8]) -> impl FnOnce() -> Result<Vec<u8>, String> + '_ {
    move || Ok(value.to_vec())
}

/// Returns when so many callers wait for the load of `k`.
fn until_waiting(cache: &Cache, callers: usize) {
    while cache.load_waiters(b"k") != callers {
        thread::sleep(Duration::from_millis(1));
    }
}

fn never() -> Result<Vec<u8>, String> {
    panic!("the loader must not be called")
}

/// A loader that tells when it has begun and ends when told.
fn gated(
    result: Result<Vec<u8>, String>,
) -> (
    impl FnOnce() -> Result<Vec<u8>, String>,
    Receiver<()>,
    std::sync::mpsc::Sender<()>,
) {
    let (begun, has_begun) = channel();
    let (go, may_go) = channel::<()>();
    let loader = move || {
        begun.send(()).unwrap();
        let _ = may_go.recv();
        result
    };
    (loader, has_begun, go)
}

#[test]
fn loads_once_then_reads() {
    let cache = cache();
    let loaded = cache.get_or_load(b"k", &plain(), ok(b"v")).unwrap();
    assert_eq!(
        (loaded.origin(), &*loaded.as_slice()),
        (Origin::Loaded, &b"v"[..])
    );
    let read = cache.get_or_load(b"k", &plain(), never).unwrap();
    assert_eq!(read.origin(), Origin::Cached);
    assert_eq!(read.into_vec(), b"v");
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses, stats.inserts), (1, 1, 1));
}

#[test]
fn eight_callers_of_each_of_four_hundred_keys_make_one_load_each() {
    let cache = cache();
    let loads: Vec<AtomicU32> = (0..400).map(|_| AtomicU32::new(0)).collect();
    let barrier = Barrier::new(8);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                barrier.wait();
                for (key, count) in loads.iter().enumerate() {
                    let loaded = cache
                        .get_or_load(format!("k{key}").as_bytes(), &plain(), || {
                            count.fetch_add(1, Ordering::Relaxed);
                            thread::yield_now();
                            Ok::<_, String>(format!("v{key}").into_bytes())
                        })
                        .unwrap();
                    assert_eq!(loaded.into_vec(), format!("v{key}").into_bytes());
                }
            });
        }
    });
    assert!(loads.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

#[test]
fn waiters_get_the_value_of_the_one_load() {
    let cache = cache();
    let (loader, begun, go) = gated(Ok(vec![9; 100_000]));
    thread::scope(|scope| {
        let leader = scope.spawn(|| cache.get_or_load(b"k", &plain(), loader).unwrap());
        begun.recv().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| cache.get_or_load(b"k", &plain(), never).unwrap()))
            .collect();
        until_waiting(&cache, 3);
        assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap().origin(), Origin::Loaded);
        for waiter in waiters {
            let shared = waiter.join().unwrap();
            assert_eq!(shared.origin(), Origin::Shared);
            assert_eq!(shared.into_vec(), vec![9; 100_000]);
        }
    });
}

#[test]
fn a_failure_reaches_all_waiters_and_is_not_stored() {
    let cache = cache();
    let (loader, begun, go) = gated(Err("no such row".into()));
    thread::scope(|scope| {
        let leader = scope.spawn(|| cache.get_or_load(b"k", &plain(), loader).unwrap_err());
        begun.recv().unwrap();
        let waiters: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| cache.get_or_load(b"k", &plain(), never).unwrap_err()))
            .collect();
        until_waiting(&cache, 3);
        go.send(()).unwrap();
        for failed in waiters.into_iter().chain([leader]) {
            match failed.join().unwrap() {
                LoadError::Failed(error) => assert_eq!(*error, "no such row"),
                other => panic!("{other:?}"),
            }
        }
    });
    assert!(!cache.contains(b"k"));
    assert!(cache.get_or_load(b"k", &plain(), ok(b"now")).is_ok());
}

#[test]
fn a_panic_goes_on_in_its_caller_and_wakes_the_others() {
    let cache = cache();
    let (wait, has_begun, go) = gated(Ok(Vec::new()));
    thread::scope(|scope| {
        let leader = scope.spawn(|| {
            catch_unwind(AssertUnwindSafe(|| {
                cache.get_or_load(b"k", &plain(), || -> Result<Vec<u8>, String> {
                    let _ = wait();
                    panic!("the loader is broken")
                })
            }))
        });
        has_begun.recv().unwrap();
        let waiter = scope.spawn(|| cache.get_or_load(b"k", &plain(), never));
        until_waiting(&cache, 1);
        go.send(()).unwrap();
        let panic = leader.join().unwrap().expect_err("the panic goes on");
        assert_eq!(panic.downcast_ref(), Some(&"the loader is broken"));
        assert!(matches!(waiter.join().unwrap(), Err(LoadError::Panicked)));
    });
    assert!(cache.get_or_load(b"k", &plain(), ok(b"v")).is_ok());
}

#[test]
fn an_item_gone_between_load_and_wake_up_still_gives_waiters_its_value() {
    // Stored with an expiry in the past: whoever looked into the cache after waking would find nothing.
    let cache = cache();
    let past = LoadOptions {
        expiry: Expiry::AtMs(1),
        ..plain()
    };
    let (loader, begun, go) = gated(Ok(b"v".to_vec()));
    thread::scope(|scope| {
        let leader = scope.spawn(|| cache.get_or_load(b"k", &past, loader).unwrap());
        begun.recv().unwrap();
        let waiter = scope.spawn(|| cache.get_or_load(b"k", &past, never).unwrap());
        until_waiting(&cache, 1);
        go.send(()).unwrap();
        assert_eq!(leader.join().unwrap().into_vec(), b"v");
        assert_eq!(waiter.join().unwrap().into_vec(), b"v");
    });
    assert!(!cache.contains(b"k"));
}

#[test]
fn a_load_that_is_expired_when_stored_is_handed_out_all_the_same() {
    let (cache, _) = timed_cache();
    let past = LoadOptions {
        expiry: Expiry::AtMs(START_MS - 1),
        ..plain()
    };
    for value in [b"1", b"2"] {
        let loaded = cache.get_or_load(b"k", &past, ok(value)).unwrap();
        assert_eq!(loaded.into_vec(), value);
    }
    assert!(!cache.contains(b"k"));
}

#[test]
fn a_value_the_cache_refuses_is_handed_out_all_the_same() {
    let cache = cache();
    let huge = vec![3; cache.item_size_max() as usize + 1];
    let loaded = cache.get_or_load(b"k", &plain(), ok(&huge)).unwrap();
    assert_eq!(loaded.len(), huge.len());
    assert!(!cache.contains(b"k"));
    assert_eq!(cache.stats().refused_size, 1);
}

#[test]
fn a_key_the_cache_refuses_calls_no_loader() {
    let refused = cache().get_or_load(b"", &plain(), never).unwrap_err();
    assert!(matches!(refused, LoadError::Refused(Error::KeySize { .. })));
}

#[test]
fn a_loader_that_asks_for_its_own_key_is_told() {
    let cache = cache();
    let loaded = cache
        .get_or_load(b"k", &plain(), || {
            let inner = cache.get_or_load(b"k", &plain(), never);
            assert!(matches!(inner, Err(LoadError::Recursive)));
            // Other keys may be asked for, and they notice the circle too.
            cache
                .get_or_load(b"other", &plain(), || {
                    let inner = cache.get_or_load(b"k", &plain(), never);
                    assert!(matches!(inner, Err(LoadError::Recursive)));
                    Ok(b"o".to_vec())
                })
                .map(|other| [&*other.as_slice(), b"k"].concat())
                .map_err(|error: LoadError<String>| error.to_string())
        })
        .unwrap();
    assert_eq!(loaded.into_vec(), b"ok");
}

#[test]
fn callers_with_other_error_types_load_for_themselves() {
    let cache = cache();
    let (loader, begun, go) = gated(Err("text".into()));
    thread::scope(|scope| {
        let leader = scope.spawn(|| cache.get_or_load(b"k", &plain(), loader).is_err());
        begun.recv().unwrap();
        let waiter = scope.spawn(|| {
            let load = || Ok::<_, std::io::Error>(b"mine".to_vec());
            cache.get_or_load(b"k", &plain(), load).unwrap()
        });
        until_waiting(&cache, 1);
        go.send(()).unwrap();
        assert!(leader.join().unwrap());
        assert_eq!(waiter.join().unwrap().into_vec(), b"mine");
    });
}

fn graceful() -> LoadOptions {
    LoadOptions {
        expiry: Expiry::In(Duration::from_secs(10)),
        grace: Duration::from_secs(5),
        ..plain()
    }
}

#[test]
fn within_the_grace_one_refreshes_and_the_others_read_the_stale_value() {
    let (cache, clock) = timed_cache();
    cache.get_or_load(b"k", &graceful(), ok(b"old")).unwrap();
    let hard = cache.peek(b"k", false).unwrap().expires_at_ms;
    assert_eq!(hard, Some(START_MS + 15_000));
    clock.advance_ms(9_999);
    let fresh = cache.get_or_load(b"k", &graceful(), never).unwrap();
    assert_eq!(fresh.origin(), Origin::Cached);
    clock.advance_ms(1);
    let (loader, begun, go) = gated(Ok(b"new".to_vec()));
    thread::scope(|scope| {
        let refresher = scope.spawn(|| cache.get_or_load(b"k", &graceful(), loader).unwrap());
        begun.recv().unwrap();
        for _ in 0..3 {
            let stale = cache.get_or_load(b"k", &graceful(), never).unwrap();
            assert_eq!(stale.origin(), Origin::Stale);
            assert_eq!(stale.into_vec(), b"old");
        }
        go.send(()).unwrap();
        assert_eq!(refresher.join().unwrap().into_vec(), b"new");
    });
    let read = cache.get_or_load(b"k", &graceful(), never).unwrap();
    assert_eq!(
        (read.origin(), &*read.as_slice()),
        (Origin::Cached, &b"new"[..])
    );
}

#[test]
fn a_failed_refresh_leaves_the_stale_value_until_the_grace_is_over() {
    let (cache, clock) = timed_cache();
    cache.get_or_load(b"k", &graceful(), ok(b"old")).unwrap();
    clock.advance_ms(12_000);
    let failed = cache.get_or_load(b"k", &graceful(), || Err("down".to_string()));
    assert!(matches!(failed, Err(LoadError::Failed(_))));
    assert_eq!(cache.get(b"k").unwrap().to_vec(), b"old");
    clock.advance_ms(3_000);
    assert!(cache.get(b"k").is_none());
    let loaded = cache.get_or_load(b"k", &graceful(), ok(b"new")).unwrap();
    assert_eq!(loaded.origin(), Origin::Loaded);
}

#[test]
fn refresh_ahead_loads_before_anything_is_stale() {
    let (cache, clock) = timed_cache();
    let ahead = LoadOptions {
        expiry: Expiry::In(Duration::from_secs(10)),
        refresh_ahead: Duration::from_secs(3),
        ..plain()
    };
    cache.get_or_load(b"k", &ahead, ok(b"old")).unwrap();
    clock.advance_ms(6_999);
    cache.get_or_load(b"k", &ahead, never).unwrap();
    clock.advance_ms(1);
    let (loader, begun, go) = gated(Ok(b"new".to_vec()));
    thread::scope(|scope| {
        let refresher = scope.spawn(|| cache.get_or_load(b"k", &ahead, loader).unwrap());
        begun.recv().unwrap();
        let read = cache.get_or_load(b"k", &ahead, never).unwrap();
        assert_eq!(
            (read.origin(), &*read.as_slice()),
            (Origin::Cached, &b"old"[..])
        );
        go.send(()).unwrap();
        assert_eq!(refresher.join().unwrap().into_vec(), b"new");
    });
    clock.advance_ms(6_000);
    cache.get_or_load(b"k", &ahead, never).unwrap();
}

#[test]
fn a_load_overwrites_nothing_that_others_wrote_meanwhile() {
    let (cache, clock) = timed_cache();
    let set_meanwhile = |value: &'static [u8]| {
        let cache = &cache;
        move || {
            cache.set(b"k", value).unwrap();
            Ok::<_, String>(b"loaded".to_vec())
        }
    };
    let loaded = cache
        .get_or_load(b"k", &graceful(), set_meanwhile(b"set 1"))
        .unwrap();
    assert_eq!(loaded.into_vec(), b"loaded");
    assert_eq!(cache.get(b"k").unwrap().to_vec(), b"set 1");
    cache.delete(b"k");
    cache.get_or_load(b"k", &graceful(), ok(b"old")).unwrap();
    clock.advance_ms(11_000);
    cache
        .get_or_load(b"k", &graceful(), set_meanwhile(b"set 2"))
        .unwrap();
    assert_eq!(cache.get(b"k").unwrap().to_vec(), b"set 2");
    // A refresh does not bring back what was deleted while it ran.
    cache.delete(b"k");
    cache.get_or_load(b"k", &graceful(), ok(b"old")).unwrap();
    clock.advance_ms(11_000);
    let delete_meanwhile = || {
        cache.delete(b"k");
        Ok::<_, String>(b"loaded".to_vec())
    };
    cache
        .get_or_load(b"k", &graceful(), delete_meanwhile)
        .unwrap();
    assert!(!cache.contains(b"k"));
}

#[cfg(feature = "async")]
mod tasks {
    use super::*;
    use std::future::Future;
    use std::pin::{pin, Pin};
    use std::sync::{Arc, Mutex};
    use std::task::{Context, Poll, Wake, Waker};

    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    fn block_on<T>(future: impl Future<Output = T>) -> T {
        let waker = Waker::from(Arc::new(Unpark(thread::current())));
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(&waker)) {
                Poll::Ready(value) => return value,
                Poll::Pending => thread::park(),
            }
        }
    }

    /// Ready once opened.
    #[derive(Clone, Default)]
    struct Gate(Arc<Mutex<(bool, Vec<Waker>)>>);

    impl Gate {
        fn open(&self) {
            let mut state = self.0.lock().unwrap();
            state.0 = true;
            state.1.drain(..).for_each(Waker::wake);
        }
    }

    impl Future for Gate {
        type Output = ();

        fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            let mut state = self.0.lock().unwrap();
            if state.0 {
                return Poll::Ready(());
            }
            state.1.push(context.waker().clone());
            Poll::Pending
        }
    }

    fn poll_once<F: Future>(future: Pin<&mut F>) -> Poll<F::Output> {
        struct Nobody;
        impl Wake for Nobody {
            fn wake(self: Arc<Self>) {}
        }
        let waker = Waker::from(Arc::new(Nobody));
        future.poll(&mut Context::from_waker(&waker))
    }

    async fn wait_for(gate: Gate, value: &[u8]) -> Result<Vec<u8>, String> {
        gate.await;
        Ok(value.to_vec())
    }

    #[test]
    fn tasks_and_threads_share_one_load() {
        let cache = cache();
        let gate = Gate::default();
        let options = plain();
        let mut lead =
            pin!(cache.get_or_load_async(b"k", &options, || wait_for(gate.clone(), b"v")));
        assert!(poll_once(lead.as_mut()).is_pending());
        thread::scope(|scope| {
            let thread = scope.spawn(|| cache.get_or_load(b"k", &options, never).unwrap());
            let task = scope.spawn(|| {
                block_on(cache.get_or_load_async(b"k", &options, || async { never() })).unwrap()
            });
            until_waiting(&cache, 2);
            gate.open();
            assert_eq!(block_on(lead).unwrap().origin(), Origin::Loaded);
            for shared in [thread, task] {
                let shared = shared.join().unwrap();
                assert_eq!(shared.origin(), Origin::Shared);
                assert_eq!(shared.into_vec(), b"v");
            }
        });
    }

    #[test]
    fn a_cancelled_load_is_taken_over_by_one_who_waits() {
        let cache = cache();
        let options = plain();
        let mut lead = Box::pin(
            cache.get_or_load_async(b"k", &options, || wait_for(Gate::default(), b"never")),
        );
        assert!(poll_once(lead.as_mut()).is_pending());
        let loads = AtomicU32::new(0);
        let load = || {
            loads.fetch_add(1, Ordering::Relaxed);
            Ok::<_, String>(b"second".to_vec())
        };
        thread::scope(|scope| {
            let thread = scope.spawn(|| cache.get_or_load(b"k", &options, load).unwrap());
            let task = scope.spawn(|| {
                block_on(cache.get_or_load_async(b"k", &options, || async { load() })).unwrap()
            });
            until_waiting(&cache, 2);
            assert_eq!(loads.load(Ordering::Relaxed), 0);
            drop(lead);
            for taker in [thread, task] {
                assert_eq!(taker.join().unwrap().into_vec(), b"second");
            }
        });
        assert_eq!(loads.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_cancelled_waiter_is_forgotten() {
        let cache = cache();
        let (gate, options) = (Gate::default(), plain());
        let mut lead =
            pin!(cache.get_or_load_async(b"k", &options, || wait_for(gate.clone(), b"v")));
        assert!(poll_once(lead.as_mut()).is_pending());
        let woken = Arc::new(AtomicU32::new(0));
        struct Count(Arc<AtomicU32>);
        impl Wake for Count {
            fn wake(self: Arc<Self>) {
                self.0.fetch_add(1, Ordering::Relaxed);
            }
        }
        let waker = Waker::from(Arc::new(Count(woken.clone())));
        let poll = |future: Pin<&mut dyn Future<Output = _>>| {
            future.poll(&mut Context::from_waker(&waker)).is_pending()
        };
        let mut stays = Box::pin(cache.get_or_load_async(b"k", &options, || async { never() }));
        let mut goes = Box::pin(cache.get_or_load_async(b"k", &options, || async { never() }));
        assert!(poll(stays.as_mut()) && poll(goes.as_mut()) && poll(stays.as_mut()));
        drop(goes);
        gate.open();
        block_on(lead).unwrap();
        assert_eq!(woken.load(Ordering::Relaxed), 1);
        assert_eq!(block_on(stays).unwrap().into_vec(), b"v");
    }

    #[test]
    fn a_panic_in_a_polled_loader_hangs_nobody() {
        let cache = cache();
        let (gate, options) = (Gate::default(), plain());
        let broken = || {
            let gate = gate.clone();
            async move {
                gate.await;
                panic!("the loader is broken")
            }
        };
        let mut lead = Box::pin(cache.get_or_load_async::<String, _, _>(b"k", &options, broken));
        assert!(poll_once(lead.as_mut()).is_pending());
        let mut waiter = pin!(cache.get_or_load_async(b"k", &options, || async { never() }));
        assert!(poll_once(waiter.as_mut()).is_pending());
        gate.open();
        assert!(catch_unwind(AssertUnwindSafe(|| poll_once(lead.as_mut()))).is_err());
        drop(lead);
        assert!(matches!(block_on(waiter), Err(LoadError::Panicked)));
    }

    #[test]
    fn a_loader_polled_for_its_own_key_is_told() {
        let cache = cache();
        let options = plain();
        let load = || async {
            let inner = cache.get_or_load_async(b"k", &options, || async { never() });
            assert!(matches!(inner.await, Err(LoadError::Recursive)));
            Ok::<_, String>(b"v".to_vec())
        };
        let loaded = block_on(cache.get_or_load_async(b"k", &options, load)).unwrap();
        assert_eq!(loaded.into_vec(), b"v");
    }

    #[test]
    fn the_future_can_go_to_another_thread() {
        fn sendable<T: Send>(_: &T) {}
        let cache = cache();
        let options = plain();
        let future = cache.get_or_load_async(b"k", &options, || wait_for(Gate::default(), b"v"));
        sendable(&future);
    }
}
