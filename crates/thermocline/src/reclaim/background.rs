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

/// Once it found something to do that could wait it looks again after so long; then in a quarter of the time as long as it
/// finds something, in twice the time where it does not, and at least once a tick: two or three looks for each thing found.
const DOZE_LEAST: Duration = Duration::from_millis(1);

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

/// Why a wait ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Woken {
    Rung,
    ByItself,
    ToStop,
}

/// How long it waits for a ring. A ring costs the writer a wake-up (11 us of CPU on a virtual machine, 100 and more where the
/// other processor has to be brought back), so a cache that grows is looked after without rings.
struct Doze(Duration);

impl Doze {
    fn is_short(&self) -> bool {
        self.0 < TICK
    }

    /// After a round that found something which could have waited, or nothing.
    fn after(&mut self, woken: Woken, found: bool) {
        self.0 = match woken {
            _ if found && !self.is_short() => DOZE_LEAST,
            _ if found => DOZE_LEAST.max(self.0 / 4),
            Woken::ByItself => TICK.min(self.0 * 2),
            _ => self.0,
        }
    }
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
        let was_rung = std::mem::replace(&mut self.lock().rung, true);
        // Without the lock, or who is woken waits for it at once.
        if !was_rung {
            self.rung.notify_one();
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BellState> {
        self.state
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Waits for a ring.
    fn wait(&self, doze: &Doze) -> Woken {
        let mut state = self.lock();
        if !state.rung && !state.stop {
            state = self
                .rung
                .wait_timeout(state, doze.0)
                .unwrap_or_else(|poisoned| poisoned.into_inner())
                .0;
        }
        let woken = match (state.stop, state.rung) {
            (true, _) => Woken::ToStop,
            (false, true) => Woken::Rung,
            (false, false) => Woken::ByItself,
        };
        state.rung = false;
        self.ringing.store(false, Ordering::Release);
        woken
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
    let mut doze = Doze(TICK);
    loop {
        let woken = bell.wait(&doze);
        if woken == Woken::ToStop {
            return;
        }
        work.tick();
        let (store, reclaim) = (work.store(), work.reclaim());
        // Before the passes: a ring that comes when they are due must not find the tick used up.
        if chores_at.elapsed() >= TICK {
            chores(store, reclaim, bell);
            chores_at = Instant::now();
        }
        let was_untidy = store.index.is_untidy();
        store.index.tidy();
        let mut passes = 0;
        // Who dozes does not fill up what nobody is short of yet: that comes in fewer and larger pieces.
        let may_reclaim = woken == Woken::Rung || !doze.is_short() || reclaim.is_short(store);
        while may_reclaim
            && passes < GO_PASSES
            && (passes == 0 || chores_at.elapsed() < TICK)
            && !stopping(bell)
            && (reclaim.reopen_some(store) || !reclaim.is_full_enough(store) && reclaim.work(store))
        {
            passes += 1;
            tries = 0;
        }
        let has_warmed = warm_ahead(store, reclaim);
        doze.after(woken, was_untidy || has_warmed);
        if passes == GO_PASSES || passes > 0 && chores_at.elapsed() >= TICK {
            bell.ring();
        } else if passes == 0 && !stopping(bell) {
            let is_owing = tries < TRIES_OWING && reclaim.owes(store);
            if is_owing || woken == Woken::Rung {
                // Nothing could be done: what is waited for (pins, the bell's next reason) takes a while, and
                // writers ring with every append while room is short.
                std::thread::sleep(PAUSE);
            }
            if is_owing {
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
    /// Touches one extent ahead for segments, unless one is waiting or there is no budget to spare. Whether it did.
    pub(crate) fn touch_ahead(&self, store: &Store) -> bool {
        self.has_spare(store) && store.segments.extents().warm_one()
    }

    fn has_spare(&self, store: &Store) -> bool {
        store.segments.could_add() > self.high(store)
    }
}

/// Touches one extent ahead for segments and one for the index, as long as there is budget to spare. Whether it did.
fn warm_ahead(store: &Store, reclaim: &Reclaim) -> bool {
    let index = &store.index;
    if reclaim.has_spare(store) {
        let for_segments = reclaim.touch_ahead(store);
        let for_index = index.wants_warm() && index.extents().warm_one();
        return for_segments || for_index;
    }
    if !index.is_short() {
        index.extents().drop_warm();
    }
    false
}

fn stopping(bell: &Bell) -> bool {
    bell.lock().stop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_comes_by_itself_as_often_as_it_finds_something() {
        let mut doze = Doze(TICK);
        doze.after(Woken::Rung, false);
        assert_eq!(doze.0, TICK, "called for what could not wait");
        doze.after(Woken::ByItself, true);
        assert_eq!(doze.0, DOZE_LEAST);
        doze.after(Woken::ByItself, false);
        doze.after(Woken::ByItself, false);
        assert_eq!(doze.0, DOZE_LEAST * 4);
        doze.after(Woken::Rung, false);
        assert_eq!(doze.0, DOZE_LEAST * 4, "a ring says nothing of how soon");
        doze.after(Woken::ByItself, false);
        doze.after(Woken::ByItself, true);
        assert_eq!(doze.0, DOZE_LEAST * 2);
        doze.after(Woken::ByItself, true);
        assert_eq!(doze.0, DOZE_LEAST);
        for _ in 0..10 {
            doze.after(Woken::ByItself, false);
        }
        assert_eq!(doze.0, TICK);
    }

    #[test]
    fn a_ring_is_heard_once_however_long_it_would_have_slept() {
        let bell = Bell::new();
        bell.ring();
        bell.ring();
        assert!(bell.wait(&Doze(TICK * 600)) == Woken::Rung);
        assert!(bell.wait(&Doze(DOZE_LEAST)) == Woken::ByItself);
    }
}
