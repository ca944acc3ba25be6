//! A server: what its threads share, how it comes up, and how it goes down.
//!
//! ```text
//! Prepared (bound, checked) -> start -> Run -> Drain (answer what is under way, until the deadline) -> stopped
//!                                          \-> Now ------------------------------------------------/
//! ```

use crate::admin::Admin;
use crate::clock::TestClock;
use crate::command::{Logins, Session};
use crate::config::{ConfigError, Listen, PageMode, Settings};
use crate::net::{bind, Acceptor, AcceptorHandle, Bound, Mailbox, Pool, Registry, Worker};
use crate::reserve::Reserve;
use crate::stats::{BigKeys, Detail, Totals, WorkerCounters};
use crate::{descriptors, pages, process};
use std::fmt;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, RwLock};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use thermocline::{Cache, Config};

/// What `version` answers: the dialect we speak, and who speaks it.
pub const VERSION: &str = concat!("1.6.45-thermocline-", env!("CARGO_PKG_VERSION"));

/// How the server is to stop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd)]
#[repr(u8)]
pub enum Stop {
    Run,
    /// Requests under way are finished.
    Drain,
    Now,
}

/// Why a server did not start.
#[derive(Debug)]
pub enum StartError {
    Config(String),
    Io(io::Error),
    Engine(thermocline::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Config(text) => f.write_str(text),
            StartError::Io(error) => write!(f, "{error}"),
            StartError::Engine(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> StartError {
        StartError::Io(error)
    }
}

impl From<thermocline::Error> for StartError {
    fn from(error: thermocline::Error) -> StartError {
        StartError::Engine(error)
    }
}

impl From<ConfigError> for StartError {
    fn from(error: ConfigError) -> StartError {
        StartError::Config(error.0)
    }
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
        let deadline = Instant::now() + Duration::from_secs(self.settings.drain_deadline_s);
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
    fn wait_for_stop(&self) {
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

    /// Another budget for the whole process. Growing is at once; shrinking goes on in a thread of its own, for it
    /// evicts, and an event loop has others to serve.
    pub fn set_memory(&self, bytes: u64) -> Result<(), thermocline::Error> {
        let most = self.cache.memory_max();
        let shrinks = bytes < self.cache.memory();
        let possible = bytes <= most && bytes >= self.reserve.bytes() + thermocline::MEMORY_MIN;
        if !shrinks || !possible {
            return self.cache.set_memory(bytes);
        }
        let cache = self.cache.clone();
        let shrink = move || {
            if let Err(error) = cache.set_memory(bytes) {
                tracing::warn!(%error, bytes, "the cache has not shrunk yet");
            }
        };
        Builder::new().name("shrink".into()).spawn(shrink)?;
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

    pub fn reserve(&self) -> &Reserve {
        &self.reserve
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bound and checked, but without threads: a daemon forks here.
pub struct Prepared {
    settings: Settings,
    clients: Vec<Bound>,
    http: Vec<Bound>,
    logins: Option<Logins>,
    reserve: Reserve,
}

impl Prepared {
    /// Binds, reads what must be readable, refuses what cannot work. Everything that can go wrong should do so here.
    pub fn new(settings: Settings) -> Result<Prepared, StartError> {
        settings.check().map_err(StartError::Config)?;
        let reserve = Reserve::of(&settings);
        engine_config(&settings, &reserve).check()?;
        let logins = match &settings.auth_file {
            Some(path) => Some(Logins::read(path)?),
            None => None,
        };
        descriptors::raise_limit(settings.connections_max);
        let bind_all = |listeners: &[Listen]| -> io::Result<Vec<Bound>> {
            let mut bound = Vec::new();
            for listen in listeners {
                bound.extend(bind(listen, settings.backlog, settings.unix_mode)?);
            }
            Ok(bound)
        };
        let clients = bind_all(&settings.memcached)?;
        let http = bind_all(&settings.http)?;
        if let Some(user) = &settings.user {
            process::become_user(user)?;
        }
        Ok(Prepared {
            settings,
            clients,
            http,
            logins,
            reserve,
        })
    }

    /// Makes the cache and starts the threads.
    pub fn start(mut self) -> Result<Server, StartError> {
        let places: Vec<String> = self
            .clients
            .iter()
            .map(|bound| bound.place.clone())
            .collect();
        let http_places: Vec<String> = self.http.iter().map(|bound| bound.place.clone()).collect();
        let shared = Arc::new(self.shared(places)?);
        let mut threads = Vec::new();
        let mut mailboxes = Vec::new();
        for number in 0..shared.settings.threads {
            let session = Session::new(shared.clone(), shared.counters[number].clone());
            let worker = Worker::new(shared.clone(), session)?;
            mailboxes.push(worker.mailbox());
            let run = move || worker.run();
            threads.push(Builder::new().name(format!("worker-{number}")).spawn(run)?);
        }
        let (acceptor, handle) = Acceptor::new(self.clients, mailboxes.clone(), shared.clone())?;
        // Set once, here, before anybody can ask the server to stop.
        let (_first, _first_too) = (shared.mailboxes.set(mailboxes), shared.acceptor.set(handle));
        let acceptor = Builder::new()
            .name("accept".into())
            .spawn(move || acceptor.run())?;
        let admin = match self.http.is_empty() {
            true => None,
            false => Some(Admin::start(self.http, shared.clone())?),
        };
        Ok(Server {
            shared,
            workers: threads,
            acceptor: Some(acceptor),
            admin,
            http_places,
        })
    }

    fn shared(&mut self, places: Vec<String>) -> Result<Shared, StartError> {
        let settings = self.settings.clone();
        let test_clock = match settings.test_clock {
            true => Some(TestClock::start()?),
            false => None,
        };
        let mut config = engine_config(&settings, &self.reserve);
        if let Some(clock) = &test_clock {
            config.clock = clock.clock();
        }
        Ok(Shared {
            cache: Cache::new(config)?,
            registry: Registry::default(),
            pool: Pool::new(settings.buffer_pool_bytes(), settings.memory),
            detail: Detail::new(settings.detail, settings.detail_delimiter),
            big_keys: BigKeys::default(),
            places,
            reserve: self.reserve,
            counters: (0..settings.threads).map(|_| Arc::default()).collect(),
            before: Mutex::default(),
            logins: RwLock::new(self.logins.take()),
            started: Instant::now(),
            stop: AtomicU8::new(0),
            stopping: (Mutex::new(()), Condvar::new()),
            drain_until: OnceLock::new(),
            accept_waits: AtomicBool::new(false),
            mailboxes: OnceLock::new(),
            acceptor: OnceLock::new(),
            test_clock,
            settings,
        })
    }
}

fn engine_config(settings: &Settings, reserve: &Reserve) -> Config {
    let mut config = Config::new(settings.memory);
    config.memory_max = settings.memory_max;
    config.reserved_bytes = reserve.bytes();
    config.page_mode = match settings.page_mode {
        PageMode::Base => thermocline::PageMode::Base,
        PageMode::Thp => thermocline::PageMode::Thp,
    };
    config.item_size_max = Some(settings.item_size_max);
    config.key_size_max = Some(settings.key_size_max);
    config.threads = settings.threads;
    config.marks = true;
    config.evict = settings.evict;
    config.hot_keys = settings.hot_keys;
    config
}

/// A running server. Dropping it stops it at once.
pub struct Server {
    shared: Arc<Shared>,
    workers: Vec<JoinHandle<io::Result<usize>>>,
    acceptor: Option<JoinHandle<io::Result<()>>>,
    admin: Option<Admin>,
    http_places: Vec<String>,
}

impl Server {
    /// Binds and starts in one go.
    pub fn start(settings: Settings) -> Result<Server, StartError> {
        Prepared::new(settings)?.start()
    }

    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Where memcached clients connect, with the ports that were really given.
    pub fn places(&self) -> &[String] {
        &self.shared.places
    }

    pub fn http_places(&self) -> &[String] {
        &self.http_places
    }

    /// What was got, in one place.
    pub fn banner(&self) -> Vec<String> {
        let settings = &self.shared.settings;
        let reserve = self.shared.reserve();
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let http = match self.http_places.is_empty() {
            true => "off".to_string(),
            false => self.http_places.join(", "),
        };
        vec![
            format!("thermocline {} speaking memcached {VERSION}", env!("CARGO_PKG_VERSION")),
            format!(
                "memory {} for the whole process: {} for the cache, {} for the server ({} of it connection buffers)",
                mebibytes(settings.memory),
                mebibytes(settings.memory.saturating_sub(reserve.bytes())),
                mebibytes(reserve.bytes()),
                mebibytes(reserve.pool)
            ),
            format!("pages {}", pages::describe(settings.page_mode)),
            format!("memcached on {}", self.shared.places.join(", ")),
            format!("http on {http}"),
            format!(
                "{} event loops, {} connections at most",
                settings.threads, settings.connections_max
            ),
        ]
    }

    pub fn begin_stop(&self, stop: Stop) {
        self.shared.begin_stop(stop);
    }

    /// Waits until somebody asks the server to stop, and then until it has; connections cut off are counted.
    pub fn wait(mut self) -> io::Result<usize> {
        self.shared.wait_for_stop();
        self.join()
    }

    fn join(&mut self) -> io::Result<usize> {
        let broken = |_| io::Error::other("a thread of the server has panicked");
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().map_err(broken)??;
        }
        let mut cut_off = 0;
        for worker in self.workers.drain(..) {
            cut_off += worker.join().map_err(broken)??;
        }
        if let Some(mut admin) = self.admin.take() {
            admin.stop();
        }
        if let Some(clock) = &self.shared.test_clock {
            clock.stop();
        }
        Ok(cut_off)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.begin_stop(Stop::Now);
        if let Err(error) = self.join() {
            tracing::error!(%error, "while stopping");
        }
    }
}
