//! What all threads of a server share, and the little each may do to it.
//!
//! Owns: how the server is asked to stop, logins, sums of counters, the budget at run time.
//! Must hold: nothing an event loop calls here waits for another thread, but for locks held for a few instructions.

use crate::clock::TestClock;
use crate::command::Logins;
use crate::config::Settings;
use crate::net::{AcceptorHandle, Mailbox, Pool, Registry};
use crate::pressure::Pressure;
use crate::reserve::Reserve;
use crate::stats::{BigKeys, Detail, Totals, WorkerCounters};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::time::{Duration, Instant};
use thermocline::Cache;

/// A longer drain is for ever: a year.
const DRAIN_SECONDS_MAX: u64 = 365 * 86_400;

/// How the server is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd)]
#[repr(u8)]
pub enum Stop {
    Run,
    /// Requests under way are finished.
    Drain,
    Now,
}

/// What all threads of a server share.
pub struct Shared {
    pub settings: Settings,
    pub cache: Cache,
    pub registry: Registry,
    pub pool: Pool,
    pub detail: Detail,
    pub big_keys: BigKeys,
    /// Where we listen for memcached clients.
    pub places: Vec<String>,
    /// What pressure there was and what was done about it.
    pub(crate) pressure: Arc<Pressure>,
    reserve: Reserve,
    counters: Vec<Arc<WorkerCounters>>,
    before: Mutex<(Totals, thermocline::Stats)>,
    logins: RwLock<Option<Logins>>,
    started: Instant,
    stop: AtomicU8,
    stopping: (Mutex<()>, Condvar),
    drain_until: OnceLock<Instant>,
    accept_waits: AtomicBool,
    mailboxes: OnceLock<Vec<Arc<Mailbox>>>,
    acceptor: OnceLock<AcceptorHandle>,
    test_clock: Option<TestClock>,
}

impl Shared {
    pub(crate) fn new(
        settings: Settings,
        cache: Cache,
        reserve: Reserve,
        places: Vec<String>,
        logins: Option<Logins>,
        test_clock: Option<TestClock>,
    ) -> Shared {
        let segment_bytes = cache.stats().segment_bytes;
        let lease = settings.evict.then(|| cache.lease());
        let floor = settings.memory_min_bytes().max(cache.memory_min());
        let pressure = Arc::new(Pressure::new(settings.memory, floor.min(settings.memory)));
        Shared {
            cache,
            registry: Registry::default(),
            pool: Pool::new(
                settings.buffer_pool_bytes(),
                settings.memory,
                segment_bytes,
                settings.threads as u64,
                lease,
            ),
            detail: Detail::new(settings.detail, settings.detail_delimiter),
            big_keys: BigKeys::default(),
            places,
            pressure,
            reserve,
            counters: (0..settings.threads).map(|_| Arc::default()).collect(),
            before: Mutex::default(),
            logins: RwLock::new(logins),
            started: Instant::now(),
            stop: AtomicU8::new(Stop::Run as u8),
            stopping: (Mutex::new(()), Condvar::new()),
            drain_until: OnceLock::new(),
            accept_waits: AtomicBool::new(false),
            mailboxes: OnceLock::new(),
            acceptor: OnceLock::new(),
            test_clock,
            settings,
        }
    }

    /// Whom to wake for a stop. Called once, before anybody can ask for one.
    pub(crate) fn connect(&self, mailboxes: Vec<Arc<Mailbox>>, acceptor: AcceptorHandle) {
        let (_first, _first_too) = (self.mailboxes.set(mailboxes), self.acceptor.set(acceptor));
    }

    /// The counters of one worker.
    pub(crate) fn counters(&self, worker: usize) -> Arc<WorkerCounters> {
        self.counters[worker].clone()
    }

    /// Seconds since the start.
    pub fn seconds(&self) -> u32 {
        self.started.elapsed().as_secs().min(u64::from(u32::MAX)) as u32
    }

    pub fn now_ms(&self) -> u64 {
        self.cache.now_ms()
    }

    pub(crate) fn test_clock(&self) -> Option<&TestClock> {
        self.test_clock.as_ref()
    }

    pub fn stop(&self) -> Stop {
        match self.stop.load(Ordering::Acquire) {
            0 => Stop::Run,
            1 => Stop::Drain,
            _ => Stop::Now,
        }
    }

    /// Begins to stop; a later call can only hasten it.
    pub fn begin_stop(&self, stop: Stop) {
        let now = Instant::now();
        let most = Duration::from_secs(self.settings.drain_deadline_s.min(DRAIN_SECONDS_MAX));
        let deadline = now.checked_add(most).unwrap_or(now);
        self.drain_until.get_or_init(|| deadline);
        self.stop.fetch_max(stop as u8, Ordering::AcqRel);
        self.wake_all();
        let _guard = lock(&self.stopping.0);
        self.stopping.1.notify_all();
    }

    fn wake_all(&self) {
        if let Some(acceptor) = self.acceptor.get() {
            acceptor.wake();
        }
        for mailbox in self.mailboxes.get().into_iter().flatten() {
            if let Err(error) = mailbox.wake() {
                tracing::warn!(%error, "a worker could not be woken to stop");
            }
        }
    }

    pub fn drain_until(&self) -> Instant {
        *self.drain_until.get_or_init(Instant::now)
    }

    /// Blocks until somebody asks the server to stop.
    pub(crate) fn wait_for_stop(&self) {
        let mut guard = lock(&self.stopping.0);
        while self.stop() == Stop::Run {
            guard = self
                .stopping
                .1
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    pub fn accept_waits(&self, waits: bool) {
        self.accept_waits.store(waits, Ordering::SeqCst);
    }

    pub fn accepting_waits(&self) -> bool {
        self.accept_waits.load(Ordering::SeqCst)
    }

    /// A place is free: whoever waits for one is woken.
    pub fn connection_closed(&self) {
        if self.accepting_waits() {
            if let Some(acceptor) = self.acceptor.get() {
                acceptor.wake();
            }
        }
    }

    pub fn asks_login(&self) -> bool {
        self.settings.auth_file.is_some()
    }

    pub fn accepts_login(&self, payload: &[u8]) -> bool {
        let logins = self.logins.read().unwrap_or_else(PoisonError::into_inner);
        logins
            .as_ref()
            .is_some_and(|logins| logins.accepts(payload))
    }

    /// Reads the password file again; if it is bad the old logins stay.
    pub fn reload(&self) {
        let Some(path) = &self.settings.auth_file else {
            return tracing::info!("reload: nothing to read again");
        };
        match Logins::read(path) {
            Ok(logins) => {
                tracing::info!(logins = logins.len(), "password file read again");
                *self.logins.write().unwrap_or_else(PoisonError::into_inner) = Some(logins);
            }
            Err(error) => tracing::error!(%error, "password file not read: the old logins stay"),
        }
    }

    /// Commands since the last `stats reset`.
    pub fn totals(&self) -> Totals {
        self.totals_since_start().since(&lock(&self.before).0)
    }

    pub fn totals_since_start(&self) -> Totals {
        let mut totals = Totals::default();
        self.counters
            .iter()
            .for_each(|counters| totals.add(counters));
        totals
    }

    /// The cache's own counts at the last `stats reset`.
    pub fn stats_before(&self) -> thermocline::Stats {
        lock(&self.before).1.clone()
    }

    pub fn reset_stats(&self) {
        let now = (self.totals_since_start(), self.cache.stats());
        *lock(&self.before) = now;
        self.detail.reset();
    }

    pub fn largest_keys(&self, count: usize) -> Vec<(u64, Vec<u8>)> {
        self.big_keys.largest(count, |key| {
            let meta = self.cache.peek(key, false)?;
            Some(meta.value_bytes as u64)
        })
    }

    /// Another budget for the whole process. It holds from now on for what is taken; what there is too much of is
    /// evicted by the engine's background thread, for an event loop has others to serve.
    pub fn set_memory(&self, bytes: u64) -> Result<(), thermocline::Error> {
        self.cache.set_memory_soon(bytes)?;
        self.pressure.set_ceiling(bytes);
        Ok(())
    }

    pub fn first_tcp_port(&self) -> u16 {
        let port = |place: &String| place.rsplit_once(':')?.1.parse().ok();
        self.places.iter().find_map(port).unwrap_or(0)
    }

    pub fn unix_path(&self) -> Option<String> {
        let path = |place: &String| place.strip_prefix("unix:").map(str::to_string);
        self.places.iter().find_map(path)
    }

    /// The cache alone; everything else that holds it is gone then.
    pub(crate) fn into_cache(self) -> Cache {
        self.cache
    }

    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
