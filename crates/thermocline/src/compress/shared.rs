//! What all threads share of compression: the dictionaries, and what coding and decoding cost.

use super::control::{Control, Facts};
use super::dictionaries::Dictionaries;
use super::gauge::{Gauge, Seen};
use super::miss_clock::{self, MissClock, Reads};
use super::options::{CompressMode, CompressOptions};
use super::price::{Prices, MOVE_NS, PROMOTE_MIN};
use super::returns::{Left, Returns};
use super::search::Worth;
use super::shadow::Way;
use super::spent::{Spent, Totals};
use crate::codec::{CodedHead, Decoder, Dictionary};
use crate::mem::thread_cpu_ns;
use crate::sync::{lock, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

/// Of the decodes one in so many is timed: two clock readings cost 50 ns.
const TIME_EVERY: u64 = 64;
/// Of the items evicted while auto is off, one in so many is coded to see.
const PROBE_EVERY: u32 = 64;
/// Auto has been off for so long: what is set aside for dictionaries is given back.
const REST_MS: u64 = 1_000;
/// Bytes of an item beside key and value, in either tier.
const HEAD_BYTES: usize = 12;
/// So many times what codings and moves take does all that belongs to them come to: an item's eviction from the
/// other tier, promotions, threads that meet at the lanes, caches emptied of all else. (Processor time of a whole process,
/// off against on: 4 to 12 us an item coded, where a demotion took 3 to 5.)
const BESIDE: f64 = 2.0;
/// Of the demotions one in so many is timed.
const TIME_DEMOTIONS: u64 = 16;
/// What is taken for granted until it is measured, nanoseconds.
const CODE_NS: f64 = 2_000.0;
const DECODE_NS: f64 = 300.0;
const MISS_NS: f64 = 1_000_000.0;
/// Weight of a new measurement in a running mean: 1/32.
const WEIGHT_SHIFT: u32 = 5;

/// No share.
const UNKNOWN: u32 = u32::MAX;

/// Running means, in nanoseconds; 0 before the first measurement.
#[derive(Default)]
pub(crate) struct Costs {
    /// Coding one item.
    pub(crate) code_ns: AtomicU64,
    /// The same without LZ4's better search, which is used where it pays.
    pub(crate) fast_ns: AtomicU64,
    /// Taking one item a tier down, coding it included.
    pub(crate) demote_ns: AtomicU64,
    /// Decoding one item.
    pub(crate) decode_ns: AtomicU64,
    /// Serving a miss from wherever misses are served.
    pub(crate) miss_ns: AtomicU64,
    /// Processor time of that, where one thread did it all.
    pub(crate) miss_cpu_ns: AtomicU64,
}

/// Adds a measurement to a running mean. A race loses one measurement.
pub(crate) fn measured(mean: &AtomicU64, ns: u64) {
    let old = mean.load(Ordering::Relaxed);
    let new = match old {
        0 => ns.max(1),
        _ => (old + (ns >> WEIGHT_SHIFT))
            .saturating_sub(old >> WEIGHT_SHIFT)
            .max(1),
    };
    mean.store(new, Ordering::Relaxed);
}

/// The same for what the processor did: where it took eight times the mean the thread was interrupted, and it counts as that.
pub(crate) fn timed(mean: &AtomicU64, ns: u64) {
    let most = match mean.load(Ordering::Relaxed) {
        0 => u64::MAX,
        old => old.saturating_mul(8),
    };
    measured(mean, ns.min(most));
}

/// Counted events, by the kernel's names where it has one.
#[derive(Default)]
pub(crate) struct Events {
    pub(crate) decodes: AtomicU64,
    pub(crate) decompress_fail: AtomicU64,
    pub(crate) coded: AtomicU64,
    /// Of these by zstd, and of one repeated byte.
    pub(crate) coded_zstd: AtomicU64,
    pub(crate) same_filled: AtomicU64,
    /// Drains of the compressed tier because it was full.
    pub(crate) pool_limit_hit: AtomicU64,
    pub(crate) reject_compress_poor: AtomicU64,
    pub(crate) mean_compress_poor: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) demoted: AtomicU64,
    pub(crate) promoted: AtomicU64,
    pub(crate) trained: AtomicU64,
    /// Early warnings.
    pub(crate) warned: AtomicU64,
}

impl Events {
    /// A value became these bytes.
    pub(crate) fn coded(&self, bytes: &[u8]) {
        self.coded.fetch_add(1, Ordering::Relaxed);
        match CodedHead::read(bytes).map(|head| head.codec()) {
            Ok("zstd") => self.coded_zstd.fetch_add(1, Ordering::Relaxed),
            Ok("same") => self.same_filled.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        };
    }
}

pub(crate) struct Compress {
    pub(crate) dictionaries: Dictionaries,
    pub(crate) costs: Costs,
    pub(crate) events: Events,
    /// A compressed hit promotes if a coin of 2^16 sides falls below this.
    promote_below: AtomicU32,
    pub(crate) options: CompressOptions,
    pub(crate) control: Control,
    /// Times misses, where somebody wants to know what they cost.
    miss_clock: MissClock,
    times_misses: AtomicBool,
    states_miss_cost: bool,
    probes: AtomicU32,
    /// Nothing is demoted, though the mode asks for it: it is not known yet what coding brings, or that is nothing.
    waits: AtomicBool,
    /// The dictionaries were given back; until there are some again, what coding brings is what it was.
    resting: AtomicBool,
    /// It has been on, or may be: there is something to look after.
    in_use: AtomicBool,
    started: Instant,
    gauge: Mutex<Gauge>,
    returns: Mutex<Returns>,
    pressure: AtomicU32,
    /// Mean coded over plain bytes of what is demoted, in 65,536ths; 0: nothing was.
    coded_share: AtomicU32,
    /// Of what leaves, how much comes back, in 65,536ths; `UNKNOWN`.
    back_share: AtomicU32,
    /// Of the processors' time, the share this process uses, in 65,536ths.
    busy: AtomicU32,
    /// Threads that wait for room another thread makes.
    waiting: AtomicU32,
    /// How long they have waited, all together, nanoseconds.
    waited_ns: AtomicU64,
    spent: Mutex<Spent>,
    /// The time of coding that one miss less is worth; 0: not known.
    miss_worth_ns: AtomicU64,
}

thread_local! {
    static DECODER: RefCell<Decoder> = RefCell::new(Decoder::new());
}

fn decode_with(dictionary: &Dictionary, coded: &[u8], value: &mut Vec<u8>) -> bool {
    DECODER
        .try_with(|decoder| decoder.borrow_mut().decode(dictionary, coded, value))
        .unwrap_or_else(|_| Decoder::new().decode(dictionary, coded, value))
        .is_ok()
}

impl Compress {
    /// `miss_cost`: what serving a miss takes, if the embedder says so.
    pub(crate) fn new(
        mode: CompressMode,
        options: CompressOptions,
        miss_cost: Option<Duration>,
    ) -> Compress {
        let stated_ns = miss_cost.map_or(0, |cost| cost.as_nanos().min(u64::MAX as u128) as u64);
        Compress {
            dictionaries: Dictionaries::new(),
            costs: Costs {
                miss_ns: AtomicU64::new(stated_ns),
                ..Costs::default()
            },
            events: Events::default(),
            promote_below: AtomicU32::new((PROMOTE_MIN * 65_536.0) as u32),
            options,
            control: Control::new(mode),
            miss_clock: MissClock::new(),
            times_misses: AtomicBool::new(mode != CompressMode::Off),
            states_miss_cost: miss_cost.is_some(),
            probes: AtomicU32::new(0),
            waits: AtomicBool::new(false),
            resting: AtomicBool::new(false),
            in_use: AtomicBool::new(mode != CompressMode::Off),
            started: Instant::now(),
            gauge: Mutex::new(Gauge::default()),
            returns: Mutex::new(Returns::default()),
            pressure: AtomicU32::new(0),
            coded_share: AtomicU32::new(0),
            back_share: AtomicU32::new(UNKNOWN),
            busy: AtomicU32::new(1 << 16),
            waiting: AtomicU32::new(0),
            waited_ns: AtomicU64::new(0),
            spent: Mutex::new(Spent::new(
                std::thread::available_parallelism().map_or(1, |n| n.get()),
            )),
            miss_worth_ns: AtomicU64::new(0),
        }
    }

    /// What is asked for now.
    pub(crate) fn mode(&self) -> CompressMode {
        self.control.mode()
    }

    /// Asks for another mode from now on.
    pub(crate) fn set_mode(&self, mode: CompressMode) {
        let on = mode != CompressMode::Off;
        if on {
            self.in_use.store(true, Ordering::Relaxed);
            if !self.dictionaries.has_some() {
                // Until the next look, which knows better.
                self.set_waits(true);
            }
        }
        self.times_misses.store(on, Ordering::Relaxed);
        self.control.set_mode(mode);
    }

    /// Whether there are, or may be, coded items to look after.
    pub(crate) fn is_in_use(&self) -> bool {
        self.in_use.load(Ordering::Relaxed)
    }

    /// Whether this evicted item should be coded for the sake of knowing what that would bring: one in 64 while
    /// auto is off, so that it finds out when values change.
    pub(crate) fn probes(&self) -> bool {
        (self.mode() == CompressMode::Auto || self.waits.load(Ordering::Relaxed))
            && !self.is_on()
            && !self.resting.load(Ordering::Relaxed)
            && self.probes.fetch_add(1, Ordering::Relaxed) % PROBE_EVERY == 0
    }

    /// Whether hot is a small front and what it evicts is demoted.
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        self.way() != Way::Off
    }

    /// What becomes of what hot evicts, now.
    #[inline]
    pub(crate) fn way(&self) -> Way {
        match self.waits.load(Ordering::Relaxed) {
            true => Way::Off,
            false => self.control.way(),
        }
    }

    /// Holds demotion back, or lets it begin.
    pub(crate) fn set_waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
    }

    /// Whether dictionaries are of no use now: auto has been off for a while for its price, and nothing lies coded. Where it
    /// is off because nothing compresses they stay, if there are any: to see whether that changes.
    /// Asked by whoever sees to them.
    pub(crate) fn rests(&self, now_ms: u64) -> bool {
        let off_ms = self.control.off_since_ms();
        let rests = off_ms.is_some_and(|since| now_ms.saturating_sub(since) >= REST_MS)
            && self.dictionaries.plain_bytes() == 0;
        self.resting.store(rests, Ordering::Relaxed);
        rests
    }

    /// Whether demotion is held back.
    pub(crate) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// A new dictionary makes this of values it has not seen: what was measured before says nothing of those to come.
    /// `code_ns`: what coding one took; it counts where none has been demoted yet.
    pub(crate) fn learned(&self, share: f64, code_ns: f64) {
        let share = (share * 65_536.0).max(1.0) as u32;
        self.coded_share.store(share, Ordering::Relaxed);
        let ns = code_ns as u64;
        let _ = self
            .costs
            .fast_ns
            .compare_exchange(0, ns, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Mean coded over plain bytes of the items that were coded lately, 1 where values are refused; 0: not known.
    pub(crate) fn coded_share(&self) -> f64 {
        f64::from(self.coded_share.load(Ordering::Relaxed)) / 65_536.0
    }

    /// Bytes of the value behind a coded form; None if that is damaged.
    pub(crate) fn plain_bytes(coded: &[u8]) -> Option<usize> {
        CodedHead::read(coded).ok().map(|head| head.plain_bytes)
    }

    /// Appends the value behind `coded` to `value`. False, and nothing appended: the item has gone and its
    /// dictionary with it, so the caller reads again; or the bytes are damaged, if that happens twice.
    /// Takes 0.05 to 1 us for 100 B to 2 kB. No pin may be held.
    pub(crate) fn decode(&self, coded: &[u8], value: &mut Vec<u8>) -> bool {
        let count = self.events.decodes.fetch_add(1, Ordering::Relaxed);
        let started = (count % TIME_EVERY == 0).then(Instant::now);
        let done = self.decode_again(coded, value);
        if let Some(started) = started {
            timed(&self.costs.decode_ns, started.elapsed().as_nanos() as u64);
        }
        done
    }

    /// The same for a chunk of a large value, with a dictionary that was found to be its own: counted, but not timed with
    /// small ones.
    pub(crate) fn decode_chunk(
        &self,
        dictionary: &Dictionary,
        stored: &[u8],
        value: &mut Vec<u8>,
    ) -> bool {
        self.events.decodes.fetch_add(1, Ordering::Relaxed);
        Self::unsealed(stored).is_some_and(|coded| decode_with(dictionary, coded, value))
    }

    /// The same for no reader: not counted, not timed.
    pub(crate) fn decode_again(&self, coded: &[u8], value: &mut Vec<u8>) -> bool {
        let Ok(head) = CodedHead::read(coded) else {
            return false;
        };
        let done = self.dictionaries.with(|table| {
            let dictionary = table.get(head.dictionary)?;
            Some(decode_with(dictionary, coded, value))
        });
        done.unwrap_or(false)
    }

    /// Whether this compressed hit promotes: by the chance that `Prices::promote` makes of the measured times. All do while
    /// nothing is demoted: so the tier empties, and what serves it can be given back.
    #[inline]
    pub(crate) fn promotes(&self) -> bool {
        !self.is_on() || toss() < self.promote_below.load(Ordering::Relaxed)
    }

    pub(crate) fn count_promotion(&self, done: bool) {
        if done {
            self.events.promoted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether it matters that this key was read and not found, or stored.
    #[inline]
    pub(crate) fn times(&self, hash: u64) -> bool {
        MissClock::samples(hash) && self.times_misses.load(Ordering::Relaxed)
    }

    /// A read of such a key found nothing. `reads`: of this thread.
    #[cold]
    pub(crate) fn missed(&self, hash: u64, reads: Reads) {
        let now_us = self.started.elapsed().as_micros() as u64;
        self.miss_clock.missed(hash, now_us);
        miss_clock::work_begins(hash, reads);
    }

    /// Such a key, which had no item, was stored.
    #[cold]
    pub(crate) fn stored(&self, hash: u64, reads: Reads) {
        let now_us = self.started.elapsed().as_micros() as u64;
        if let Some(ns) = self.miss_clock.stored(hash, now_us) {
            if !self.states_miss_cost {
                measured(&self.costs.miss_ns, ns);
            }
            if let Some(ns) = miss_clock::work_ends(hash, reads) {
                timed(&self.costs.miss_cpu_ns, ns);
            }
        }
    }

    /// Runs `demote`, which takes an item a tier down, and times it now and then.
    pub(crate) fn demoting<T>(&self, demote: impl FnOnce() -> T) -> T {
        let count = self.events.demoted.load(Ordering::Relaxed);
        let begun_ns = (count % TIME_DEMOTIONS == 0).then(thread_cpu_ns);
        let done = demote();
        if let Some(begun_ns) = begun_ns {
            let ns = thread_cpu_ns().saturating_sub(begun_ns);
            timed(&self.costs.demote_ns, ns);
        }
        done
    }

    /// Books what the value of one demoted item came to.
    pub(crate) fn demoted_as(&self, key_bytes: usize, plain_bytes: usize, coded_bytes: usize) {
        let head = HEAD_BYTES + key_bytes;
        let share = (((head + coded_bytes) << 16) / (head + plain_bytes)) as u32;
        let old = self.coded_share.load(Ordering::Relaxed);
        let new = match old {
            0 => share,
            _ => old - (old >> 8) + (share >> 8),
        };
        self.coded_share.store(new.max(1), Ordering::Relaxed);
    }

    /// Lets what was measured since take effect. A few times a second; it asks for `totals` less often. True: the early warning.
    pub(crate) fn look(
        &self,
        mut facts: Facts,
        totals: impl FnOnce() -> Totals,
        now_ms: u64,
        seen: Seen,
    ) -> bool {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        facts.coded_share = self.coded_share();
        facts.prices = self.prices(totals);
        self.control.look(&facts, now_ms);
        let worth = facts.prices.miss_worth_ns() as u64;
        self.miss_worth_ns.store(worth, Ordering::Relaxed);
        let below = (facts.prices.promote() * 65_536.0) as u32;
        self.promote_below.store(below, Ordering::Relaxed);
        let seen = Seen {
            demoted: load(&self.events.demoted),
            ..seen
        };
        self.look_at_returns(Left {
            evicted: seen.evicted,
            refaults: seen.refaults,
            missed: seen.missed,
        });
        let (level, warns) = lock(&self.gauge).look(now_ms, seen);
        self.pressure.store(u32::from(level), Ordering::Relaxed);
        if warns {
            self.events.warned.fetch_add(1, Ordering::Relaxed);
        }
        warns
    }

    /// Measured, or taken for granted until then.
    fn prices(&self, totals: impl FnOnce() -> Totals) -> Prices {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let or = |counter, otherwise| match load(counter) {
            0 => otherwise,
            ns => ns as f64,
        };
        let costs = &self.costs;
        let code_ns = or(&costs.fast_ns, CODE_NS);
        let moved_ns = match load(&costs.demote_ns) {
            0 => MOVE_NS,
            ns => (ns as f64 - load(&costs.code_ns) as f64).clamp(MOVE_NS, MOVE_NS * 4.0),
        };
        let times = Prices {
            code_ns,
            move_ns: BESIDE * (code_ns + moved_ns) - code_ns,
            decode_ns: or(&costs.decode_ns, DECODE_NS),
            miss_ns: or(&costs.miss_ns, MISS_NS),
            miss_cpu_ns: load(&costs.miss_cpu_ns) as f64,
            ..Prices::default()
        };
        let mut spent = lock(&self.spent);
        let wall_ns = self.started.elapsed().as_nanos() as u64;
        if spent.is_due(wall_ns) {
            spent.look(Totals {
                wall_ns,
                coded: load(&self.events.demoted),
                decoded: load(&self.events.decodes),
                waited_ns: load(&self.waited_ns),
                ..totals()
            });
        }
        let busy = (spent.busy() * 65_536.0) as u32;
        self.busy.store(busy, Ordering::Relaxed);
        spent.price(times)
    }

    fn look_at_returns(&self, left: Left) {
        let mut returns = lock(&self.returns);
        returns.look(left);
        let share = returns.share();
        let units = share.map_or(UNKNOWN, |share| (share * 65_536.0) as u32);
        self.back_share.store(units, Ordering::Relaxed);
    }

    /// How hard memory is pressed, 0 to 4.
    pub(crate) fn pressure(&self) -> u32 {
        self.pressure.load(Ordering::Relaxed)
    }

    pub(crate) fn count_demotion(&self) {
        self.events.demoted.fetch_add(1, Ordering::Relaxed);
    }

    /// What the better search is judged by, now. `in_background`: no writer codes.
    pub(crate) fn worth(&self, in_background: bool) -> Worth {
        let back_share = match self.back_share.load(Ordering::Relaxed) {
            UNKNOWN => None,
            share => Some(f64::from(share) / 65_536.0),
        };
        let busy = f64::from(self.busy.load(Ordering::Relaxed)) / 65_536.0;
        let waiting = self.waiting.load(Ordering::Relaxed);
        Worth {
            back_share,
            held: Worth::own(in_background, busy) + f64::from(waiting),
            miss_ns: self.miss_worth_ns(),
        }
    }

    /// The time of coding that one miss less is worth, nanoseconds: its own where nothing else is short; 0: not known.
    pub(crate) fn miss_worth_ns(&self) -> u64 {
        match self.miss_worth_ns.load(Ordering::Relaxed) {
            0 => self.costs.miss_ns.load(Ordering::Relaxed),
            ns => ns,
        }
    }

    /// Runs `wait`, in which the calling thread waits for room that another one makes.
    pub(crate) fn waiting<T>(&self, wait: impl FnOnce() -> T) -> T {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let started = Instant::now();
        let done = wait();
        let waited_ns = started.elapsed().as_nanos() as u64;
        self.waited_ns.fetch_add(waited_ns, Ordering::Relaxed);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        done
    }

    /// Whether a coded value that is copied should be coded anew: its dictionary is no longer in force, or it
    /// was coded by the fast search and the better one pays now.
    pub(crate) fn is_worth_anew(&self, coded: &[u8], searches_better: bool) -> bool {
        CodedHead::read(coded).is_ok_and(|head| {
            searches_better && head.is_fast() || self.dictionaries.is_retired(head.dictionary)
        })
    }

    pub(crate) fn count_damaged(&self) {
        self.events.decompress_fail.fetch_add(1, Ordering::Relaxed);
    }

    /// Books a coded item about to be published: by its first bytes and its length.
    pub(crate) fn raise(&self, head: &[u8], coded_bytes: usize) {
        if let Ok(head) = CodedHead::read(head) {
            self.dictionaries
                .raise(head.dictionary, coded_bytes, head.plain_bytes);
        }
    }

    /// Books a coded item that was buried: by its first bytes and its length.
    pub(crate) fn lower(&self, head: &[u8], coded_bytes: usize) {
        if let Ok(head) = CodedHead::read(head) {
            self.dictionaries
                .lower(head.dictionary, coded_bytes, head.plain_bytes);
        }
    }
}

/// A coin with 2^16 sides that a thread tosses for itself (xorshift).
fn toss() -> u32 {
    thread_local! {
        static WORD: Cell<u32> = const { Cell::new(0x2545_F491) };
    }
    WORD.try_with(|cell| {
        let mut word = cell.get();
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        cell.set(word);
        word & 0xFFFF
    })
    .unwrap_or(0xFFFF)
}
