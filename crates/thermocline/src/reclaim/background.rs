//! The background thread of a cache: reclaim between the watermarks, expiry, pre-touching, flushes.

use super::Reclaim;
use crate::store::Store;
use crate::sync::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How often it looks around when nobody calls.
const TICK: Duration = Duration::from_millis(100);

/// A segment so dead is emptied before room is short: its live rest is cheap to move, and its index slots
/// are worth having back.
const SWEEP_SHARE: f64 = 0.5;

/// How long it rests when nothing could be done.
const PAUSE: Duration = Duration::from_millis(1);

/// Times in a row that it tries again after a rest while memory is owed to the system; then once a tick.
const TRIES_OWING: u32 = 50;

/// Passes before it looks at its other chores, which it does once a tick in any case: passes that code take seconds.
const GO_PASSES: u32 = 1024;

/// What the thread works on.
pub(crate) trait Work: Send + Sync + 'static {
    fn store(&self) -> &Store;
    fn reclaim(&self) -> &Reclaim;
    /// Once a tick: flushes that are due, and the like.
    fn tick(&self);
}

/// The thread and the way to wake it. Stopping joins it.
pub(crate) struct Background {
    bell: Arc<Bell>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the background thread.
pub(crate) struct Bell {
    state: Mutex<BellState>,
    rung: Condvar,
    /// Rung and not yet heard: rings in between cost a load.
    ringing: AtomicBool,
}

#[derive(Default)]
struct BellState {
    rung: bool,
    stop: bool,
}

impl Bell {
    pub(crate) fn new() -> Arc<Bell> {
        Arc::new(Bell {
            state: Mutex::new(BellState::default()),
            rung: Condvar::new(),
            ringing: AtomicBool::new(false),
        })
    }

    pub(crate) fn ring(&self) {
        if self.ringing.load(Ordering::Acquire) || self.ringing.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.lock();
        if !state.rung {
            state.rung = true;
            self.rung.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BellState> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for a ring or a tick. False: stop.
    fn wait(&self) -> bool {
        let mut state = self.lock();
        if !state.rung && !state.stop {
            state = self
                .rung
                .wait_timeout(state, TICK)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
        state.rung = false;
        self.ringing.store(false, Ordering::Release);
        !state.stop
    }
}

impl Background {
    pub(crate) fn start(work: Arc<impl Work>, bell: Arc<Bell>) -> std::io::Result<Background> {
        let heard = bell.clone();
        let thread = std::thread::Builder::new()
            .name("thermocline".into())
            .stack_size(256 << 10)
            .spawn(move || run(&*work, &heard))?;
        Ok(Background {
            bell,
            thread: Some(thread),
        })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        let mut state = self.bell.lock();
        state.stop = true;
        drop(state);
        self.bell.rung.notify_all();
        if let Some(thread) = self.thread.take() {
            // The last handle may be dropped by a listener running on this very thread.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

fn run(work: &impl Work, bell: &Bell) {
    let mut chores_at = Instant::now();
    let mut tries = 0;
    while bell.wait() {
        work.tick();
        let (store, reclaim) = (work.store(), work.reclaim());
        // Before the passes: a ring that comes when they are due must not find the tick used up.
        if chores_at.elapsed() >= TICK {
            chores(store, reclaim, bell);
            chores_at = Instant::now();
        }
        store.index.tidy();
        let mut passes = 0;
        while passes < GO_PASSES
            && (passes == 0 || chores_at.elapsed() < TICK)
            && !stopping(bell)
            && (reclaim.reopen_some(store) || !reclaim.is_full_enough(store) && reclaim.work(store))
        {
            passes += 1;
            tries = 0;
        }
        warm_ahead(store, reclaim);
        if passes == GO_PASSES || passes > 0 && chores_at.elapsed() >= TICK {
            bell.ring();
        } else if passes == 0 && !stopping(bell) {
            // Nothing could be done: what is waited for (pins, the bell's next reason) takes a while, and
            // writers ring with every append while room is short.
            std::thread::sleep(PAUSE);
            if tries < TRIES_OWING && reclaim.owes(store) {
                // Somebody waits for the memory.
                tries += 1;
                bell.ring();
            }
        }
    }
}

/// What is looked after ten times a second, however often the bell rings: it walks tables and raises barriers.
fn chores(store: &Store, reclaim: &Reclaim, bell: &Bell) {
    for _ in 0..GO_PASSES {
        if stopping(bell) || !reclaim.sweep(store, SWEEP_SHARE) {
            break;
        }
    }
    if store.index.is_short() {
        // Units overfill for want of a slab: bring an extent before a writer has to.
        let _claim = reclaim.make_extent(store);
        store.index.extents().warm_one();
    }
    reclaim.thin_out(store);
    reclaim.mend(store);
    store.index.trim();
    store.refresh_capacity();
    reclaim.fit_ghosts(store);
    reclaim.charge_shadows(store);
    reclaim.forget_marks(store);
}

impl Reclaim {
    /// Touches one extent ahead for segments, unless one is waiting. False: there is no budget to spare.
    pub(crate) fn touch_ahead(&self, store: &Store) -> bool {
        let spare = store.segments.could_add() > self.high(store);
        if spare {
            store.segments.extents().warm_one();
        }
        spare
    }
}

/// Touches one extent ahead for segments and one for the index, as long as there is budget to spare.
fn warm_ahead(store: &Store, reclaim: &Reclaim) {
    if reclaim.touch_ahead(store) {
        if store.index.wants_warm() {
            store.index.extents().warm_one();
        }
    } else if !store.index.is_short() {
        store.index.extents().drop_warm();
    }
}

fn stopping(bell: &Bell) -> bool {
    bell.lock().stop
}
