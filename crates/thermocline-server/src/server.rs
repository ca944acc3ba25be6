//! A server: how it comes up, and how it goes down.
//!
//! ```text
//! Prepared (bound, checked) -> start -> Run -> Drain (answer what is under way, until the deadline) -> stopped
//!                                          \-> Now ------------------------------------------------/
//! ```

use crate::admin::Admin;
use crate::clock::TestClock;
use crate::command::{Conversation, Logins};
use crate::config::{twice, ConfigError, Listen, Settings};
use crate::descriptors::OpenFiles;
use crate::handover::{duplicates, Door, Taken};
use crate::net::{bind_tcp, bind_unix, named, Acceptor, Bound, Worker};
use crate::pressure::Watch;
use crate::reserve::Reserve;
use crate::shared::{Shared, Stop};
use crate::{pages, process, warm};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use thermocline::{Cache, CompressMode, Config, PressureListener};

/// What `version` answers: the dialect we speak, and who speaks it.
pub const VERSION: &str = concat!("1.6.45-thermocline-", env!("CARGO_PKG_VERSION"));

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

/// Bound and checked, but without threads: a daemon forks here.
pub struct Prepared {
    settings: Settings,
    clients: Vec<Bound>,
    http: Vec<Bound>,
    logins: Option<Logins>,
    reserve: Reserve,
    open_files: OpenFiles,
    /// The server that still runs, whose sockets we have.
    taken: Option<Taken>,
    /// The names of our unix sockets are another's.
    handed: Arc<AtomicBool>,
}

impl Prepared {
    /// Binds, reads what must be readable, refuses what cannot work. Everything that can go wrong should do so here.
    pub fn new(mut settings: Settings) -> Result<Prepared, StartError> {
        settings.check().map_err(StartError::Config)?;
        let lists = [
            ("memcached", settings.memcached.as_slice()),
            ("http", settings.http.as_slice()),
        ];
        if let Some(text) = twice(&lists) {
            return Err(StartError::Config(text));
        }
        let open_files = OpenFiles::get(&mut settings);
        let reserve = Reserve::of(&settings);
        let engine = engine_config(&settings, &reserve);
        engine.check()?;
        let logins = match &settings.auth_file {
            Some(path) => Some(Logins::read(path)?),
            None => None,
        };
        let handed = Arc::new(AtomicBool::new(false));
        let mut taken = match &settings.handover {
            Some(path) => Taken::ask(path)?,
            None => None,
        };
        if taken.is_none() {
            // Before anybody could connect to us.
            engine.check_memory_file()?;
        }
        let mut bind_all = |setting: &str, listeners: &[Listen]| -> io::Result<Vec<Bound>> {
            let mut bound = Vec::new();
            for listen in listeners {
                let new = bind(&settings, setting, listen, &mut taken, &handed);
                bound.extend(new.map_err(|error| named(listen, error))?);
            }
            Ok(bound)
        };
        let clients = bind_all("memcached", &settings.memcached)?;
        let http = bind_all("http", &settings.http)?;
        if let Some(user) = &settings.user {
            process::become_user(user)?;
        }
        Ok(Prepared {
            settings,
            clients,
            http,
            logins,
            reserve,
            open_files,
            taken,
            handed,
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
        let taken = self.taken.take();
        if let (Some(running), true) = (&taken, warm::is_kept(&self.settings)) {
            tracing::info!("waiting for the running server to leave its memory");
            running.wait_until_gone()?;
        }
        let sockets = match &self.settings.handover {
            Some(_) => {
                let mut sockets = duplicates("memcached", &self.clients)?;
                sockets.extend(duplicates("http", &self.http)?);
                sockets
            }
            None => Vec::new(),
        };
        let shared = Arc::new(self.shared(places)?);
        let mut threads = Vec::new();
        let mut mailboxes = Vec::new();
        for number in 0..shared.settings.threads {
            let conversation = Conversation::new(shared.clone(), shared.counters(number));
            let worker = Worker::new(shared.clone(), conversation)?;
            mailboxes.push(worker.mailbox());
            let run = move || worker.run();
            threads.push(Builder::new().name(format!("worker-{number}")).spawn(run)?);
        }
        let (acceptor, handle) = Acceptor::new(self.clients, mailboxes.clone(), shared.clone())?;
        shared.connect(mailboxes, handle);
        let watch = match shared.settings.pressure {
            true => Some(Watch::start(
                shared.cache.clone(),
                shared.pressure.clone(),
                Path::new("/"),
            )?),
            false => None,
        };
        let admin = match self.http.is_empty() {
            true => None,
            false => Some(Admin::start(self.http, shared.clone())?),
        };
        let door = match shared.settings.handover.clone() {
            Some(path) => Some(Door::open(&path, sockets, shared.clone(), self.handed)?),
            None => None,
        };
        // Last: who is accepted is served, and may have the files that were wanted above.
        let acceptor = Builder::new()
            .name("accept".into())
            .spawn(move || acceptor.run())?;
        // One that waits for its memory has told it before.
        if let Some(running) = taken.filter(|_| !warm::is_kept(&shared.settings)) {
            running.ready()?;
        }
        Ok(Server {
            shared,
            door,
            workers: threads,
            acceptor: Some(acceptor),
            watch,
            admin,
            http_places,
            open_files: self.open_files,
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
        let cache = Cache::new(config)?;
        if settings.prefault {
            pages::prefault(&cache);
        }
        let logins = self.logins.take();
        Ok(Shared::new(
            settings,
            cache,
            self.reserve,
            places,
            logins,
            test_clock,
        ))
    }
}

/// Listens at all addresses a setting stands for: with the sockets of the running server where it has them.
fn bind(
    settings: &Settings,
    setting: &str,
    listen: &Listen,
    taken: &mut Option<Taken>,
    handed: &Arc<AtomicBool>,
) -> io::Result<Vec<Bound>> {
    let mut bound = Vec::new();
    match listen {
        Listen::Tcp(address) => {
            for address in Listen::resolve(address)? {
                let old = match taken {
                    Some(taken) => taken.tcp(setting, address)?,
                    None => None,
                };
                bound.push(match old {
                    Some(old) => old,
                    None => bind_tcp(address, settings.backlog)?,
                });
            }
        }
        Listen::Unix(path) => {
            let old = match taken {
                Some(taken) => taken.unix(setting, path, handed)?,
                None => None,
            };
            bound.push(match old {
                Some(old) => old,
                None => bind_unix(path, settings.backlog, settings.unix_mode, handed.clone())?,
            });
        }
    }
    Ok(bound)
}

fn engine_config(settings: &Settings, reserve: &Reserve) -> Config {
    let mut config = Config::new(settings.memory);
    config.memory_max = settings.memory_max;
    config.reserved_bytes = reserve.bytes();
    config.page_mode = settings.page_mode;
    config.extent_use = settings.extent_use;
    config.memory_dir = settings.memory_dir.clone();
    config.memory_lock = settings.memory_lock;
    config.numa = settings.numa.clone();
    config.collapse_percent = settings.collapse_percent;
    config.item_size_max = Some(settings.item_size_max);
    config.key_size_max = Some(settings.key_size_max);
    config.threads = settings.threads;
    config.marks = true;
    config.evict = settings.evict;
    config.policy = settings.policy;
    config.objective = settings.objective;
    config.fresh_min = settings.fresh_min;
    config.min_ttl = settings.min_ttl.map(std::time::Duration::from_millis);
    config.groups = settings.groups.clone();
    config.hot_keys = settings.hot_keys;
    config.compress = compress(settings);
    config.compress_with = settings.compress_with;
    config.pressure_listener = Some(PressureListener::new(|| {
        tracing::warn!(
            "memory has become short: items are compressed from now on, none is lost yet"
        );
    }));
    config
}

/// What is asked for; where that is left to us, memory that is kept for the next server is not compressed, for its
/// dictionaries would be lost.
fn compress(settings: &Settings) -> CompressMode {
    match (settings.compress, &settings.memory_dir) {
        (CompressMode::Auto, Some(_)) => CompressMode::Off,
        (mode, _) => mode,
    }
}

/// A running server. Dropping it stops it at once.
pub struct Server {
    shared: Arc<Shared>,
    door: Option<Door>,
    workers: Vec<JoinHandle<io::Result<usize>>>,
    acceptor: Option<JoinHandle<io::Result<()>>>,
    watch: Option<Watch>,
    admin: Option<Admin>,
    http_places: Vec<String>,
    open_files: OpenFiles,
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

    /// The kernel gives pages as they are touched: before any is, there is nothing to tell.
    fn pages_got(&self) -> String {
        self.shared.cache.touch_ahead();
        pages::describe(&self.shared.cache.pages())
    }

    /// What was got, in one place.
    pub fn banner(&self) -> Vec<String> {
        let settings = &self.shared.settings;
        let reserve = self.shared.reserve();
        let mebibytes = |bytes: u64| format!("{:.1} MiB", bytes as f64 / f64::from(1 << 20));
        let http = match self.http_places.is_empty() {
            true => "http off".to_string(),
            false => format!("http on {}", self.http_places.join(", ")),
        };
        let loops = match settings.threads {
            1 => "1 event loop".to_string(),
            number => format!("{number} event loops"),
        };
        let mut lines = vec![
            format!("thermocline {} speaking memcached {VERSION}", env!("CARGO_PKG_VERSION")),
            format!(
                "memory {} for the whole process: {} for the cache, {} for the server ({} of it connection buffers)",
                mebibytes(settings.memory),
                mebibytes(settings.memory.saturating_sub(reserve.bytes())),
                mebibytes(reserve.bytes()),
                mebibytes(reserve.pool)
            ),
            format!("pages {}", self.pages_got()),
            format!("memcached on {}", self.shared.places.join(", ")),
            http,
            format!("{loops}, {}", self.open_files.describe(settings)),
        ];
        lines.extend(
            warm::describe(self.shared.cache.start(), settings)
                .map(|start| format!("start {start}")),
        );
        lines
    }

    pub fn begin_stop(&self, stop: Stop) {
        self.shared.begin_stop(stop);
    }

    /// Waits until somebody asks the server to stop, and then until it has; connections cut off are counted.
    /// A memory file is kept for the next process.
    pub fn wait(mut self) -> io::Result<usize> {
        self.shared.wait_for_stop();
        // Its sockets would go on listening.
        let next = self.door.take().and_then(Door::close);
        let cut_off = self.join()?;
        let shared = Arc::clone(&self.shared);
        drop(self);
        warm::keep(shared);
        // The next server learns from its end that all is left behind.
        drop(next);
        Ok(cut_off)
    }

    fn join(&mut self) -> io::Result<usize> {
        drop(self.door.take());
        let broken = |_| io::Error::other("a thread of the server has panicked");
        if let Some(acceptor) = self.acceptor.take() {
            acceptor.join().map_err(broken)??;
        }
        let mut cut_off = 0;
        for worker in self.workers.drain(..) {
            cut_off += worker.join().map_err(broken)??;
        }
        drop(self.watch.take());
        if let Some(mut admin) = self.admin.take() {
            admin.stop();
        }
        if let Some(clock) = self.shared.test_clock() {
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
