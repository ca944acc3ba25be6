//! The loop: requests in their order, a read that misses is filled at once, and all is counted here, from what
//! the calls answer.

use super::options::ReplayOptions;
use super::plan::Plan;
use super::Sizes;
use crate::trace::{Reader, Request};
use crate::workload::{mix, stamp, Kind, Random, STAMP_BYTES};
use anyhow::{Context, Result};
use std::sync::Mutex;

/// Requests taken from the trace at a time by one of several threads: they are out of order by no more.
const STRETCH: usize = 64;
/// By a single thread.
const STRETCH_ALONE: usize = 4096;
/// Times a run looks at the subject (see [`Target::look`]).
const LOOKS: u64 = 256;
/// Bytes of a key: its number.
pub const KEY_BYTES: usize = 8;

/// A value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hit {
    pub value_bytes: usize,
    /// Its first bytes.
    pub head: [u8; STAMP_BYTES],
}

/// What is replayed through.
pub trait Target: Sync {
    fn get(&self, key: &[u8; KEY_BYTES]) -> Option<Hit>;

    /// False if it was refused.
    fn set(&self, key: &[u8; KEY_BYTES], value: &[u8], ttl_s: u32) -> bool;

    fn delete(&self, key: &[u8; KEY_BYTES]);

    /// Bytes of the value of an item that takes `footprint` bytes, key and header included; None if it takes
    /// no such item at all.
    fn value_bytes(&self, footprint: u64) -> Option<usize>;

    /// An item of so many bytes, of which there is none (see `value_bytes`), is offered all the same, as a client would.
    fn offer(&self, _key: &[u8; KEY_BYTES], _footprint: u64) {}

    /// It is now so late in the trace.
    fn time(&self, _ns: u64) {}

    /// Called a few hundred times in the course of a run.
    fn look(&self) {}
}

/// What the calls answered.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    pub requests: u64,
    pub reads: u64,
    pub misses: u64,
    pub read_bytes: u64,
    pub missed_bytes: u64,
    pub writes: u64,
    pub refused: u64,
    /// Hits with the wrong bytes or length.
    pub wrong: u64,
}

impl Tally {
    pub fn merge(&mut self, other: &Tally) {
        self.requests += other.requests;
        self.reads += other.reads;
        self.misses += other.misses;
        self.read_bytes += other.read_bytes;
        self.missed_bytes += other.missed_bytes;
        self.writes += other.writes;
        self.refused += other.refused;
        self.wrong += other.wrong;
    }
}

/// Replays the whole trace.
pub fn drive<T: Target>(
    target: &T,
    options: &ReplayOptions,
    plan: &Plan,
    requests_expected: u64,
) -> Result<Tally> {
    let reader = Mutex::new(options.trace.open(options.format)?);
    let mut total = Tally::default();
    std::thread::scope(|scope| -> Result<()> {
        let workers: Vec<_> = (0..options.how.threads)
            .map(|number| {
                let reader = &reader;
                let mut worker = Worker {
                    target,
                    plan,
                    sizes: options.sizes(),
                    overwrite_hits: options.how.overwrite_hits,
                    random: Random::lane(options.how.seed, number as u64),
                    value: Vec::new(),
                    tally: Tally::default(),
                    look_every: (requests_expected / LOOKS).max(1),
                    looks: number == 0,
                };
                let stretch = match options.how.threads {
                    1 => STRETCH_ALONE,
                    _ => STRETCH,
                };
                scope.spawn(move || worker.run(reader, stretch).map(|()| worker.tally))
            })
            .collect();
        for worker in workers {
            let tally = worker
                .join()
                .map_err(|_| anyhow::anyhow!("a thread panicked"))??;
            total.merge(&tally);
        }
        Ok(())
    })?;
    Ok(total)
}

struct Worker<'a, T> {
    target: &'a T,
    plan: &'a Plan,
    sizes: Sizes,
    overwrite_hits: f64,
    random: Random,
    value: Vec<u8>,
    tally: Tally,
    look_every: u64,
    looks: bool,
}

impl<T: Target> Worker<'_, T> {
    fn run(&mut self, reader: &Mutex<Reader>, stretch: usize) -> Result<()> {
        let mut requests = Vec::with_capacity(stretch);
        loop {
            requests.clear();
            {
                let mut reader = reader.lock().ok().context("another thread failed")?;
                while requests.len() < stretch {
                    match reader.next_request()? {
                        Some(request) => requests.push(request),
                        None => break,
                    }
                }
            }
            if requests.is_empty() {
                return Ok(());
            }
            for request in &requests {
                self.request(request);
            }
        }
    }

    fn request(&mut self, request: &Request) {
        self.tally.requests += 1;
        if self.looks && self.tally.requests.is_multiple_of(self.look_every) {
            self.target.look();
        }
        self.target.time(request.at_ns);
        let key = request.id.to_le_bytes();
        match request.kind {
            Kind::Read | Kind::ReadModifyWrite | Kind::Scan => self.read(request, &key),
            Kind::Delete => self.target.delete(&key),
            Kind::Write | Kind::Insert | Kind::Update | Kind::Add => self.write(request, &key),
        }
    }

    fn read(&mut self, request: &Request, key: &[u8; KEY_BYTES]) {
        let bytes = self.sizes.bytes(request);
        self.tally.reads += 1;
        self.tally.read_bytes += bytes;
        let Some(hit) = self.target.get(key) else {
            self.tally.misses += 1;
            self.tally.missed_bytes += bytes;
            return self.write(request, key);
        };
        let is_ours = hit.value_bytes < STAMP_BYTES || hit.head == stamp(request.id);
        self.tally.wrong += u64::from(!is_ours);
        if self.overwrite_hits > 0.0 && self.random.unit() < self.overwrite_hits {
            self.write(request, key);
        }
    }

    fn write(&mut self, request: &Request, key: &[u8; KEY_BYTES]) {
        self.tally.writes += 1;
        let footprint = self.plan.footprint(self.sizes.bytes(request));
        let Some(bytes) = self.target.value_bytes(footprint) else {
            self.tally.refused += 1;
            return self.target.offer(key, footprint);
        };
        if self.value.len() < bytes {
            let more = self.value.len()..bytes;
            self.value.extend(more.map(|at| mix(at as u64) as u8));
        }
        let value = &mut self.value[..bytes];
        if bytes >= STAMP_BYTES {
            value[..STAMP_BYTES].copy_from_slice(&stamp(request.id));
        }
        let is_stored = self.target.set(key, value, request.ttl_s);
        self.tally.refused += u64::from(!is_stored);
    }
}
