//! The tiers as their operator sees them, and their control's chores.

use super::{Cache, Inner};
use crate::compress::{CompressMode, Facts, Prices, Seen, Totals, Way};
use crate::config::HOT_SHARE;
use crate::error::Error;
use crate::mem::{idle_ns, process_cpu_ns};
use crate::metrics::Counter;
use crate::sync::{AtomicU64, Ordering};
use std::time::Duration;

/// What lies in which tier, what compression does and what it costs. Sizes in bytes as of now, counts since
/// the cache was made, times in nanoseconds (0: not measured yet).
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Tiers {
    /// What was asked for.
    pub mode: CompressMode,
    /// Whether what hot evicts is demoted now; `filtered`: only what had hits.
    pub on: bool,
    /// See `on`.
    pub filtered: bool,
    /// Whether that is held back all the same: no dictionary was made yet, or hardly anything compresses.
    pub held_back: bool,
    /// Bytes appended to segments of the hot tier, and of the compressed one.
    pub hot_used_bytes: u64,
    /// See `hot_used_bytes`.
    pub compressed_used_bytes: u64,
    /// Live items whose values are coded, their coded bytes, and what those were before.
    pub coded_items: u64,
    /// See `coded_items`.
    pub coded_bytes: u64,
    /// See `coded_items`.
    pub plain_bytes: u64,
    /// Items that went a tier down, and a tier up.
    pub demoted: u64,
    /// See `demoted`.
    pub promoted: u64,
    /// Drains of the compressed tier because it was full (zswap's name).
    pub pool_limit_hit: u64,
    /// Of the values coded, those by zstd, and those of one repeated byte.
    pub coded_zstd: u64,
    /// See `coded_zstd`.
    pub same_filled: u64,
    /// Values coded; refused for being longer than 7/8 (zcache's name); refused above 5/8 while the mean was;
    /// not tried.
    pub coded: u64,
    /// See `coded`.
    pub reject_compress_poor: u64,
    /// See `coded`.
    pub mean_compress_poor: u64,
    /// See `coded`.
    pub skipped: u64,
    /// Values decoded, and how many of them were damaged and dropped.
    pub decoded: u64,
    /// See `decoded`.
    pub decompress_fail: u64,
    /// Dictionaries trained and put in force.
    pub trained: u64,
    /// Mean time to code an item, to decode one, to serve a miss.
    pub code_ns: u64,
    /// See `code_ns`.
    pub decode_ns: u64,
    /// See `code_ns`.
    pub miss_ns: u64,
    /// Processor time of a miss, where the thread that misses fetches and stores; 0: not measured.
    pub miss_cpu_ns: u64,
    /// The time of coding that one miss less is worth now: all of its time where processors are idle, little more than its
    /// processor time where they are busy.
    pub miss_worth_ns: u64,
    /// How hard memory is pressed: 0 quiet, 1 demoting, 2 evicting, 3 thrashing, 4 writers are refused.
    pub pressure: u32,
    /// Early warnings: first demotions after a quiet minute.
    pub warned: u64,
    /// What the duel finds that a request costs off, on, filtered, 0 before it has judged; and how often its verdict changed.
    pub duel_costs_ns: [f64; 3],
    /// See `duel_costs_ns`.
    pub duel_switches: u64,
    /// The hot tier's share of the cache while compression is on.
    pub hot_share: f64,
    /// The dictionaries, the empty one first.
    pub dictionaries: Vec<DictionaryUse>,
    /// The kinds of items that were demoted lately.
    pub kinds: Vec<KindUse>,
}

/// Items whose keys begin alike.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KindUse {
    /// What their keys begin with; empty: keys without a beginning of their own.
    pub prefix: String,
    /// Bytes of their values demoted lately (halved with every training).
    pub bytes: u64,
    /// Mean of plain over coded bytes; 0: none was coded yet.
    pub ratio: f64,
    /// The dictionary they are coded with now.
    pub dictionary: u8,
}

/// What left by [`Cache::trim_compressed`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Trimmed {
    /// Segments emptied.
    pub segments: u64,
    /// Bytes of live items that were in them.
    pub bytes: u64,
}

/// One dictionary in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DictionaryUse {
    /// Its number.
    pub id: u8,
    /// New values are coded with it.
    pub in_force: bool,
    /// Bytes of content and tables.
    pub memory_bytes: u64,
    /// Live items coded with it, their coded bytes, and what those were before.
    pub items: u64,
    /// See `items`.
    pub coded_bytes: u64,
    /// See `items`.
    pub plain_bytes: u64,
}

impl Cache {
    /// What lies in which tier, and what compression does. Walks the segment table.
    pub fn tiers(&self) -> Tiers {
        let store = &self.inner.store;
        let compress = &store.compress;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (events, costs) = (&compress.events, &compress.costs);
        let scores = compress.control.scores();
        let way = compress.control.way();
        let [hot_used_bytes, compressed_used_bytes] = store.used_by_tier();
        let dictionaries = dictionaries(self);
        let sum = |of: fn(&DictionaryUse) -> u64| dictionaries.iter().map(of).sum();
        Tiers {
            mode: compress.mode(),
            on: way != Way::Off,
            filtered: way == Way::Filtered,
            held_back: compress.waits(),
            hot_used_bytes,
            compressed_used_bytes,
            coded_items: sum(|it| it.items),
            coded_bytes: sum(|it| it.coded_bytes),
            plain_bytes: sum(|it| it.plain_bytes),
            demoted: load(&events.demoted),
            promoted: load(&events.promoted),
            pool_limit_hit: load(&events.pool_limit_hit),
            coded_zstd: load(&events.coded_zstd),
            same_filled: load(&events.same_filled),
            coded: load(&events.coded),
            reject_compress_poor: load(&events.reject_compress_poor),
            mean_compress_poor: load(&events.mean_compress_poor),
            skipped: load(&events.skipped),
            decoded: load(&events.decodes),
            decompress_fail: load(&events.decompress_fail),
            trained: load(&events.trained),
            warned: load(&events.warned),
            code_ns: load(&costs.code_ns),
            decode_ns: load(&costs.decode_ns),
            miss_ns: load(&costs.miss_ns),
            miss_cpu_ns: load(&costs.miss_cpu_ns),
            miss_worth_ns: compress.miss_worth_ns(),
            pressure: compress.pressure(),
            duel_costs_ns: scores.costs_ns,
            duel_switches: scores.switches,
            hot_share: compress.options.hot_share.unwrap_or(HOT_SHARE),
            dictionaries,
            kinds: kinds(self),
        }
    }

    /// Switches compression on, off, or to where it pays, from now on. Nothing is moved for it: switched on, hot
    /// shrinks as it drains; switched off, what lies coded stays readable and leaves first. Refused in a cache whose
    /// memory is kept for the next start: dictionaries are not.
    pub fn set_compress(&self, mode: CompressMode) -> Result<(), Error> {
        if mode != CompressMode::Off && self.inner.identity.is_some() {
            let why = "a cache that keeps its memory (memory_dir) cannot compress: its dictionaries would be lost";
            return Err(Error::Config(why.into()));
        }
        self.inner.store.compress.set_mode(mode);
        Ok(())
    }

    /// Evicts from the compressed tier what has been there for `age` or longer, the oldest first, until `bytes_max`
    /// bytes have gone. By segment: an item that is hit moves to a young one. Takes the time of as many drains.
    pub fn trim_compressed(&self, age: Duration, bytes_max: u64) -> Trimmed {
        let age_s = age.as_secs().min(u64::from(u32::MAX)) as u32;
        let (segments, bytes) = self.inner.reclaim.trim(&self.inner.store, age_s, bytes_max);
        Trimmed { segments, bytes }
    }
}

fn kinds(cache: &Cache) -> Vec<KindUse> {
    let inner = &cache.inner;
    let kinds = inner.reclaim.kinds(&inner.store).into_iter();
    let mut kinds: Vec<KindUse> = kinds
        .map(|(prefix, bytes, share, dictionary)| KindUse {
            prefix: String::from_utf8_lossy(&prefix).into_owned(),
            bytes,
            ratio: if share > 0.0 { 1.0 / share } else { 0.0 },
            dictionary,
        })
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(kind.bytes));
    kinds
}

fn dictionaries(cache: &Cache) -> Vec<DictionaryUse> {
    let dictionaries = &cache.inner.store.compress.dictionaries;
    let uses = dictionaries.list();
    uses.into_iter()
        .map(|(dictionary, in_force)| {
            let used = dictionaries.used(dictionary.id());
            DictionaryUse {
                id: dictionary.id(),
                in_force,
                memory_bytes: dictionary.memory_bytes() as u64,
                items: used.items,
                coded_bytes: used.coded_bytes,
                plain_bytes: used.plain_bytes,
            }
        })
        .collect()
}

impl Inner {
    /// The chores of compression, ten times a second: measured costs take effect, dictionaries are trained.
    pub(super) fn look_at_tiers(&self) {
        let store = &self.store;
        if !store.compress.is_in_use() {
            return;
        }
        let sum = |counter| store.counters.sum(counter);
        let seen = Seen {
            demoted: 0,
            evicted: sum(Counter::Evicted),
            refaults: sum(Counter::Refaults),
            refused: sum(Counter::RefusedRoom),
            missed: sum(Counter::Misses),
        };
        let facts = Facts {
            capacity_bytes: store.facts.capacity_bytes.load(Ordering::Relaxed),
            mean_bytes: store.policy.mean_size(),
            hot_share: store.compress.options.hot_share.unwrap_or(HOT_SHARE),
            coded_share: 0.0,
            prices: Prices::default(),
            reads: sum(Counter::Hits) + seen.missed,
        };
        let totals = || Totals {
            cpu_ns: process_cpu_ns(),
            idle_ns: idle_ns(),
            hits: sum(Counter::Hits),
            misses: seen.missed,
            ..Totals::default()
        };
        let warns = store
            .compress
            .look(facts, totals, store.time.now_ms(), seen);
        store.watch_again();
        if warns {
            if let Some(listener) = &self.pressure_listener {
                listener.tell();
            }
        }
        self.reclaim.train(store);
    }
}
