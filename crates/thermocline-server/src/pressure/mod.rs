//! Pressure: the cache gives memory back before the kernel has to kill somebody, and takes it again when it is calm.
//!
//! ```text
//! sources (PSI, control group, machine; alarms) -+-> controller (pure) -> Cache::set_memory_soon     history -> /pressure
//! the cache's miss-ratio curve -> worth (pure) --+
//! ```
//! One thread looks ten times a second, or at once when the kernel raises an alarm. Nothing here runs on an event
//! loop; the engine's background thread does the evicting.

mod controller;
mod history;
#[cfg(test)]
mod reaction;
mod small_file;
mod sources;
mod worth;

use controller::{Bounds, Controller};
use history::History;
use mio::unix::SourceFd;
use mio::{Events, Interest, Poll, Token, Waker};
use serde_json::Value;
use sources::{Alarm, Sources};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use thermocline::Cache;
use worth::Worth;

/// Between two looks. What is slower than this is shown by PSI's own windows of two seconds.
const LOOK: Duration = Duration::from_millis(100);
/// The same where only the kernel's alarms are to count.
const LOOK_SELDOM: Duration = Duration::from_secs(60);
/// How old a miss-ratio curve may be.
const CURVE_EVERY: Duration = Duration::from_secs(1);
const STOP: Token = Token(0);
const FIRST_ALARM: usize = 1;

/// What other threads may ask of it.
pub struct Pressure {
    /// The operator's figure: the budget when all is calm. Bytes.
    ceiling: AtomicU64,
    /// The budget is never made smaller than this, as asked for and as the control group's limit allows. Bytes.
    floor: u64,
    floor_now: AtomicU64,
    history: Mutex<History>,
}

/// The sums for metrics.
pub struct Totals {
    pub level: u8,
    pub reactions: u64,
    pub given_back: u64,
    pub taken_again: u64,
}

impl Pressure {
    pub fn new(ceiling: u64, floor: u64) -> Pressure {
        Pressure {
            ceiling: AtomicU64::new(ceiling),
            floor,
            floor_now: AtomicU64::new(floor),
            history: Mutex::default(),
        }
    }

    /// The operator wants another budget from now on.
    pub fn set_ceiling(&self, bytes: u64) {
        self.ceiling.store(bytes, Relaxed);
    }

    fn bounds(&self, limit: Option<u64>) -> Bounds {
        let asked = Bounds {
            floor: self.floor,
            ceiling: self.ceiling.load(Relaxed),
        };
        let bounds = asked.under(limit);
        if self.floor_now.swap(bounds.floor, Relaxed) != bounds.floor {
            self.tell_floor(bounds.floor, limit);
        }
        bounds
    }

    /// Once for each change: the limit was there at the start, or was set, raised, taken away.
    fn tell_floor(&self, now: u64, limit: Option<u64>) {
        if now == self.floor {
            return tracing::info!(memory_min = now, "memory_min holds again");
        }
        tracing::warn!(
            memory_min = self.floor,
            now,
            limit,
            "memory_min is more than the control group's limit allows: less counts, or the kernel would end this process"
        );
    }

    pub fn to_json(&self) -> Value {
        let mut json = self.history().to_json();
        json["memory_bytes"] = self.ceiling.load(Relaxed).into();
        json["memory_min_bytes"] = self.floor_now.load(Relaxed).into();
        json
    }

    pub fn totals(&self) -> Totals {
        let history = self.history();
        Totals {
            level: history.level as u8,
            reactions: history.reactions,
            given_back: history.given_back,
            taken_again: history.taken_again,
        }
    }

    fn history(&self) -> MutexGuard<'_, History> {
        self.history.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What wakes the thread. One alone is for the measurement that sets them side by side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(test), allow(dead_code))]
enum Watching {
    Both,
    Poll,
    Trigger,
}

/// The running thread. Dropping it stops it.
pub struct Watch {
    stop: Arc<AtomicBool>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub fn start(cache: Cache, pressure: Arc<Pressure>, root: &Path) -> io::Result<Watch> {
        Watch::start_as(cache, pressure, root, Watching::Both)
    }

    fn start_as(
        cache: Cache,
        pressure: Arc<Pressure>,
        root: &Path,
        watching: Watching,
    ) -> io::Result<Watch> {
        let sources = Sources::new(root);
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), STOP)?;
        let alarms = match watching {
            Watching::Poll => Vec::new(),
            _ => sources.alarms(),
        };
        for (number, alarm) in alarms.iter().enumerate() {
            let token = Token(FIRST_ALARM + number);
            let (descriptor, interest) = match alarm {
                Alarm::Psi(file) => (file.as_raw_fd(), Interest::PRIORITY),
                Alarm::Event(event) => (event.as_fd().as_raw_fd(), Interest::READABLE),
            };
            poll.registry()
                .register(&mut SourceFd(&descriptor), token, interest)?;
        }
        let stop = Arc::new(AtomicBool::new(false));
        let told = stop.clone();
        let watcher = Watcher {
            cache,
            pressure,
            sources,
            alarms,
            controller: Controller::default(),
            start: Instant::now(),
            worth: None,
            drawn: None,
            every: match watching {
                Watching::Trigger => LOOK_SELDOM,
                _ => LOOK,
            },
        };
        let thread = std::thread::Builder::new()
            .name("pressure".into())
            .stack_size(128 << 10)
            .spawn(move || watcher.run(poll, &told))?;
        Ok(Watch {
            stop,
            waker,
            thread: Some(thread),
        })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        // Unwoken, it sees the flag at its next look.
        let _looks_soon = self.waker.wake();
        if let Some(thread) = self.thread.take() {
            if thread.join().is_err() {
                tracing::error!("the pressure thread has panicked");
            }
        }
    }
}

struct Watcher {
    cache: Cache,
    pressure: Arc<Pressure>,
    sources: Sources,
    alarms: Vec<Alarm>,
    controller: Controller,
    start: Instant,
    /// What memory is worth, and when that was asked.
    worth: Option<Worth>,
    drawn: Option<Instant>,
    every: Duration,
}

impl Watcher {
    fn run(mut self, mut poll: Poll, stop: &AtomicBool) {
        let mut events = Events::with_capacity(8);
        while !stop.load(Relaxed) {
            self.look(!events.is_empty());
            match poll.poll(&mut events, Some(self.every)) {
                Ok(()) => self.hear(&events),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    tracing::error!(%error, "pressure is no longer watched");
                    return;
                }
            }
        }
    }

    /// Reads the alarms empty that have to be.
    fn hear(&self, events: &Events) {
        for event in events.iter().filter(|event| event.token() != STOP) {
            if let Some(Alarm::Event(event)) = self.alarms.get(event.token().0 - FIRST_ALARM) {
                // Would block: nothing in it, and that is as well.
                let _count = event.read();
            }
        }
    }

    fn look(&mut self, alarm: bool) {
        let (budget, charged) = (self.cache.memory(), self.cache.charged());
        let mut reading = self.sources.look();
        reading.now_ms = self.start.elapsed().as_millis() as u64;
        (reading.budget, reading.charged, reading.alarm) = (budget, charged, alarm);
        let bounds = self.pressure.bounds(reading.limit);
        self.draw_curve();
        if let Some(worth) = &self.worth {
            reading.spare = Some(worth.spare_bytes(budget));
            let gain = worth.cost_points(budget, bounds.ceiling);
            reading.gain_points = gain.map(|cost| -cost);
        }
        let verdict = self.controller.decide(&reading, bounds);
        tracing::trace!(?reading, ?verdict, "looked");
        let unix_ms = self.cache.now_ms();
        self.pressure
            .history()
            .book(unix_ms, &verdict, budget, charged, reading.spare);
        if verdict.target != budget {
            self.change(unix_ms, budget, verdict.target, verdict.cause);
        }
    }

    /// Asks the cache anew what memory is worth, now and then: a tenth of a millisecond.
    fn draw_curve(&mut self) {
        if self.drawn.is_some_and(|at| at.elapsed() < CURVE_EVERY) {
            return;
        }
        self.drawn = Some(Instant::now());
        self.worth = self.cache.miss_ratio_curve().and_then(Worth::of);
        let hit_ratio = self.worth.as_ref().map(Worth::hit_ratio);
        self.pressure.history().hit_ratio = hit_ratio;
    }

    fn change(&self, unix_ms: u64, from: u64, to: u64, cause: &'static str) {
        if let Err(error) = self.cache.set_memory_soon(to) {
            return tracing::debug!(%error, "the budget stays");
        }
        let costs = self
            .worth
            .as_ref()
            .and_then(|worth| worth.cost_points(from, to));
        self.pressure
            .history()
            .change(unix_ms, from, to, cause, costs);
        match to < from {
            true => tracing::debug!(from, to, cause, "giving memory back"),
            false => tracing::debug!(from, to, "taking memory again"),
        }
    }
}
