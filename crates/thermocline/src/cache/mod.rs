//! The front door: `Cache`, and what its handles share.
//!
//! Owns control flow: which steps an operation is made of, and what it is tried again for.
//! Leaves bytes to `item`, places to `index` and `segment`, freeing to `reclaim`.

mod admin;
mod coded;
mod coded_chunks;
mod groups;
mod large;
mod lease;
mod lru_gen;
mod many;
mod observe;
mod options;
mod pages;
mod read;
mod scan;
mod short;
mod tiers;
mod update;
mod value;
mod version;
mod warm;
mod write;

pub use admin::Stats;
pub use groups::GroupStats;
pub use large::Writer;
pub use lease::Lease;
pub use lru_gen::Generation;
pub use options::{Expiry, Mode, SetOptions, Stored};
pub use pages::Pages;
pub(crate) use scan::Heat;
pub use scan::{Keys, Removal, Scan};
pub use tiers::{DictionaryUse, KindUse, Tiers, Trimmed};
pub use update::{Change, NewValue, Updated, View};
pub use value::{Guard, Marks, Meta, ReadSink, Want};
pub use warm::{Kept, Start};

use crate::clock::Time;
use crate::collapse::{Collapser, Collapses};
use crate::compress::{CompressMode, Press};
use crate::config::{Config, PageMode, PressureListener, MEMORY_MIN};
use crate::curve::BYTES_MAX;
use crate::error::Error;
use crate::groups::Groups;
use crate::index::{Geometry, Index, NewIndexError};
use crate::mem::{Budget, Domain, Extents, Grain, Region};
use crate::reclaim::{Background, Bell, Reclaim, Work};
use crate::segment::{first_birth, Segments};
use crate::sketch::HotKeys;
use crate::store::{Parts, Store};
use crate::sync::{AtomicU64, Mutex, Ordering};
use pages::Backings;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

/// A cache. Handles are cheap to clone and can be used from any thread; the last one dropped joins the
/// background thread and gives the memory back (guards of large values keep it until they are dropped).
///
/// Several caches can live in one process. After `fork` the child has no background thread: make caches
/// after forking, or fork only to exec.
#[derive(Clone)]
pub struct Cache {
    pub(crate) inner: Arc<Inner>,
    /// Dropped with the last handle: stops the threads.
    _threads: Arc<Threads>,
}

#[derive(Default)]
struct Threads {
    _background: Option<Background>,
    _collapser: Option<Collapser>,
}

pub(crate) struct Inner {
    pub(crate) store: Store,
    pub(crate) reclaim: Reclaim,
    pub(crate) key_size_max: usize,
    pub(crate) item_size_max: AtomicU64,
    pub(crate) time_to_live: Option<Duration>,
    memory_max: u64,
    reserved_bytes: u64,
    /// Lent to the embedder at the moment.
    leased_bytes: AtomicU64,
    table_bytes: u64,
    page_mode_asked: crate::config::PageMode,
    page_mode: crate::config::PageMode,
    page_note: Option<String>,
    extent_use: crate::config::ExtentUse,
    pub(super) start: Start,
    identity: Option<crate::mem::kept::Identity>,
    regions_bytes: u64,
    collapses: Arc<Collapses>,
    hot: Option<Mutex<HotKeys>>,
    bell: Option<Arc<Bell>>,
    pressure_listener: Option<PressureListener>,
    pub(crate) loads: crate::flight::Loads,
}

/// Fixed memory of a cache beside its tables, bytes: the thread's stack, counters, drain buffers.
const FIXED_BYTES: u64 = 1 << 20;

impl std::fmt::Debug for Cache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache")
            .field("memory", &self.memory())
            .field("items", &self.len())
            .finish_non_exhaustive()
    }
}

impl Cache {
    /// Makes a cache. Reserves address space, charges tables, starts the background thread; touches
    /// almost no memory yet.
    pub fn new(config: Config) -> Result<Cache, Error> {
        config.check()?;
        config.check_pages()?;
        let bell = config.background.then(Bell::new);
        let inner = Arc::new(Inner::open(&config, bell.clone())?);
        let background = match bell {
            Some(bell) => Some(Background::start(inner.clone(), bell)?),
            None => None,
        };
        let collapser = match inner.collapses_in_background(&config) {
            true => Some(Collapser::start(
                inner.clone(),
                inner.collapses.clone(),
                config.collapse_percent,
            )?),
            false => None,
        };
        Ok(Cache {
            inner,
            _threads: Arc::new(Threads {
                _background: background,
                _collapser: collapser,
            }),
        })
    }
}

#[cfg(all(test, shuttle))]
impl Cache {
    /// A cache of 16 segments of 1 KiB and an index of two units, without a thread: for the models.
    pub(crate) fn for_models() -> Cache {
        Cache::for_models_of(crate::config::ExtentUse::Compound)
    }

    /// The same with its extents used so.
    pub(crate) fn for_models_of(extent_use: crate::config::ExtentUse) -> Cache {
        Cache::for_models_with(|config| config.extent_use = extent_use)
    }

    /// The same with other settings.
    pub(crate) fn for_models_with(change: impl FnOnce(&mut Config)) -> Cache {
        let mut config = Config::new(crate::config::MEMORY_MIN);
        config.clock = crate::Clock::manual(1_800_000_000_000);
        change(&mut config);
        config.threads = 1;
        config.curve = false;
        let budget = Arc::new(Budget::new(1 << 30));
        let region =
            Region::reserve(crate::mem::EXTENT_BYTES, Grain::Items, false).expect("an array");
        let segments = Segments::new(
            Extents::new(region, budget.clone()),
            1 << 10,
            usize::MAX,
            1000,
        );
        let geometry = crate::index::Geometry {
            words: 8,
            slab_bytes: 640,
            region_bytes: 6400,
        };
        let backing = crate::mem::Backing::anonymous(false);
        let domain = Domain::global();
        let index = Index::with_geometry(domain, budget.clone(), geometry, &backing);
        let parts = Parts {
            domain,
            budget,
            index: index.unwrap_or_else(|error| panic!("{error:?}")),
            segments,
        };
        let inner = Inner {
            store: Store::new(parts, &config, Time::new(config.clock.clone()), 1),
            reclaim: Reclaim::new(true, false, None, 0),
            key_size_max: 100,
            item_size_max: AtomicU64::new(4000),
            time_to_live: None,
            memory_max: 1 << 30,
            reserved_bytes: 0,
            leased_bytes: AtomicU64::new(0),
            table_bytes: 0,
            page_mode_asked: config.page_mode,
            page_mode: config.page_mode,
            page_note: None,
            extent_use: config.extent_use,
            start: Start::Cold,
            identity: None,
            regions_bytes: 0,
            collapses: Arc::default(),
            hot: None,
            bell: None,
            pressure_listener: None,
            loads: crate::flight::Loads::new(),
        };
        Cache {
            inner: Arc::new(inner),
            _threads: Arc::default(),
        }
    }
}

impl Inner {
    fn new(
        config: &Config,
        bell: Option<Arc<Bell>>,
        backings: &Backings,
        seed: u64,
    ) -> Result<Inner, Error> {
        let time = Time::new(config.clock.clone());
        let budget = Arc::new(Budget::new(config.memory));
        let segments = new_segments(config, &budget, &time, backings)?;
        let hot = config.hot_keys.then(|| Mutex::new(HotKeys::default()));
        let hot_bytes = hot.as_ref().map_or(0, |_| HotKeys::bytes());
        let curve_bytes = if config.curve { BYTES_MAX } else { 0 };
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let groups_bytes = Groups::table_bytes(config.groups.len(), segments.places(), cores);
        let table_bytes =
            groups_bytes + segments.table_bytes() + FIXED_BYTES + hot_bytes + curve_bytes;
        let too_small = |what: &str| {
            let tables = table_bytes + Geometry::for_memory(config.memory_max()).least_bytes();
            let least = (MEMORY_MIN + tables).saturating_add(config.reserved_bytes);
            Error::Config(format!(
                "memory = {} bytes does not hold {what}: at least {least} bytes ({} MiB) with memory_max = {} bytes",
                config.memory,
                least.div_ceil(1 << 20),
                config.memory_max()
            ))
        };
        if !budget.try_charge(table_bytes.saturating_add(config.reserved_bytes)) {
            return Err(too_small("the cache's tables"));
        }
        let domain = Domain::global();
        let memory_max = config.memory_max();
        let index =
            Index::new(domain, budget.clone(), memory_max, &backings.index).map_err(|error| {
                match error {
                    NewIndexError::Os(error) => Error::Io(error),
                    NewIndexError::NoRoom => too_small("the index directory"),
                }
            })?;
        if !pages::take_whole_pages(segments.extents()) {
            return Err(too_small("the pages of 1 GiB that were to be had"));
        }
        let parts = Parts {
            domain,
            budget,
            index,
            segments,
        };
        Ok(Inner {
            store: Store::new(parts, config, time, seed),
            reclaim: Reclaim::new(
                config.evict,
                config.background,
                press(config),
                config.dictionary_bytes(),
            ),
            key_size_max: config.key_size_max(),
            item_size_max: AtomicU64::new(config.item_size_max()),
            time_to_live: config.time_to_live,
            memory_max,
            reserved_bytes: config.reserved_bytes,
            leased_bytes: AtomicU64::new(0),
            table_bytes,
            page_mode_asked: config.page_mode,
            page_mode: backings.mode,
            page_note: backings.note.clone(),
            extent_use: config.extent_use,
            start: backings.start.clone(),
            identity: backings.identity,
            regions_bytes: backings.regions_bytes,
            collapses: Arc::default(),
            hot,
            bell,
            pressure_listener: config.pressure_listener.clone(),
            loads: crate::flight::Loads::new(),
        })
    }

    /// Whether small pages are to be made huge: where the mode leaves some, and the kernel can.
    fn collapses_in_background(&self, config: &Config) -> bool {
        let leaves_some = matches!(
            self.page_mode,
            PageMode::Thp | PageMode::Collapse | PageMode::Shmem
        );
        config.background && config.collapse_percent > 0 && leaves_some
    }

    /// After a write: wakes the thread if room is short, or does its chores where there is none.
    #[inline]
    pub(crate) fn wake_if_short(&self) {
        let reclaim = &self.reclaim;
        let short = reclaim.is_short(&self.store) || reclaim.wants_holes(&self.store);
        let calm = !short && !self.flush_is_due();
        let (index, segments) = (&self.store.index, &self.store.segments);
        match &self.bell {
            Some(bell) if !calm || segments.wants_warm_at_once() || index.is_overdue() => {
                bell.ring()
            }
            None if !calm => self.tick(),
            None if index.is_untidy() => index.tidy(),
            _ => {}
        }
    }

    fn flush_is_due(&self) -> bool {
        let due = self.store.flush.due_ms.load(Ordering::Relaxed);
        due != u64::MAX && self.store.time.now_ms() >= due
    }

    /// Looks at one read in 16 for the hot keys.
    #[inline(always)]
    pub(crate) fn sample(&self, hash: u64, key: &[u8]) {
        if let Some(hot) = &self.hot {
            if one_in_16() {
                sample_hot(hot, hash, key);
            }
        }
    }
}

#[cold]
#[inline(never)]
fn sample_hot(hot: &Mutex<HotKeys>, hash: u64, key: &[u8]) {
    if let Ok(mut hot) = hot.try_lock() {
        hot.record(hash, key);
    }
}

/// Who codes what is demoted; None where compression is off: one is made when it is switched on.
fn press(config: &Config) -> Option<Press> {
    let wanted = config.compress != CompressMode::Off;
    wanted.then(|| Press::new(config.dictionary_bytes(), config.compress_with))
}

fn new_segments(
    config: &Config,
    budget: &Arc<Budget>,
    time: &Time,
    backings: &Backings,
) -> Result<Segments, Error> {
    let region = Region::map(backings.item_bytes, Grain::Items, &backings.items)?;
    let segment_bytes = config.segment_bytes();
    let birth = first_birth(time.now_ms(), segment_bytes);
    let extents = Extents::new(region, budget.clone());
    Ok(Segments::new(
        extents,
        segment_bytes,
        config.segments_max(),
        birth,
    ))
}

/// A coin a thread tosses for itself (xorshift).
fn one_in_16() -> bool {
    thread_local! {
        static WORD: Cell<u32> = const { Cell::new(0x9E37_79B9) };
    }
    WORD.try_with(|cell| {
        let mut word = cell.get();
        word ^= word << 13;
        word ^= word >> 17;
        word ^= word << 5;
        cell.set(word);
        word & 15 == 0
    })
    .unwrap_or(false)
}

impl Work for Inner {
    fn store(&self) -> &Store {
        &self.store
    }

    fn reclaim(&self) -> &Reclaim {
        &self.reclaim
    }

    fn tick(&self) {
        self.tidy_curve_now();
        self.look_at_tiers();
        if self.flush_is_due() {
            self.flush_now(true);
        }
    }
}
