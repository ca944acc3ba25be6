//! The tiers in memory as a whole: index, segments, lanes and ghosts, and the small steps that join them.
//!
//! ```text
//! here    what it is, find, see          room    a place for a record; segments opened and sealed
//! gone    flushed, expired, idle         bury    what is dead, what expires, chunks
//! grouped keys by prefix                 steer   the policy's numbers, ghosts       tally  used and live bytes
//! ```
//!
//! Owns what readers, writers and reclaim share. Leaves decisions to others: `reclaim` says what goes,
//! `cache` says what an operation means.
//!
//! Must hold: whoever takes a slot out of the index, or turns it to another place, buries the bytes the
//! slot pointed to, once.

mod among;
mod births;
mod bury;
mod gone;
mod grouped;
mod room;
mod steer;
mod tally;
mod warm;

use crate::clock::Time;
use crate::compress::{Compress, CompressMode};
use crate::config::{Cause, Config, Listener};
use crate::curve::Curve;
use crate::generation::Generations;
use crate::ghost::Ghosts;
use crate::groups::Groups;
use crate::hash::Hasher;
use crate::holes::Holes;
use crate::index::{Found, Index, Near};
use crate::item::{Fields, Header, Item, Layout, MarkWord};
use crate::location::{Place, Tier};
use crate::mem::{Budget, Domain, Pin, Region};
use crate::metrics::Counters;
use crate::policy::{Policy, Pool};
use crate::segment::{Segment, SegmentId, Segments};
use crate::sync::{AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use crate::writer::Lanes;
use among::AmongNew;
use births::Births;
pub(crate) use bury::expiry_s;
use std::sync::{Arc, RwLock};

pub(crate) struct Store {
    pub(crate) domain: &'static Domain,
    pub(crate) budget: Arc<Budget>,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
    pub(crate) lanes: Lanes,
    pub(crate) holes: Holes,
    pub(crate) counters: Counters,
    pub(crate) time: Time,
    pub(crate) policy: Policy,
    /// Bytes of later inserts a stored item outlives at least, where that was configured.
    pub(crate) fresh_min: Option<u64>,
    /// Milliseconds after its sealing for which a segment is not evicted from; 0 = none.
    pub(crate) min_ttl_ms: u64,
    pub(crate) generations: Mutex<Generations>,
    /// Sealed segments the reclaimer has not yet queued.
    pub(crate) sealed: Mutex<Vec<SegmentId>>,
    pub(crate) facts: Facts,
    pub(crate) flush: Flush,
    pub(crate) groups: Option<Groups>,
    pub(crate) compress: Compress,
    pub(crate) listener: Option<Listener>,
    pub(crate) marks: bool,
    pub(crate) idle_s: u32,
    /// Shortest run of dead bytes that is given back before its segment, bytes; None: extents are used whole.
    pub(crate) run_bytes: Option<usize>,
    pub(crate) curve: Option<Curve>,
    watch: Watch,
    /// One handle a core on the same table, so that inserts do not meet on one lock.
    ghosts: Box<[GhostHandle]>,
    hasher: Hasher,
}

/// Keys whose lower 32 hash bits are below the bound are sampled by somebody. Apart from words that writers change:
/// every access reads it. Nothing is decided by it alone, so models need no point to schedule at.
#[repr(align(64))]
struct Watch {
    bound: std::sync::atomic::AtomicU64,
    /// Whether anybody may sample at all.
    sampling: bool,
}

#[repr(align(64))]
struct GhostHandle(RwLock<Option<Arc<Ghosts>>>);

/// Numbers of the policy, for writers to read without a lock.
pub(crate) struct Facts {
    pub(crate) now: AtomicU32,
    /// When each generation began.
    pub(crate) births: Births,
    /// Generation of main's oldest sealed segment; `NO_MAIN` when it has none.
    pub(crate) oldest_main: AtomicU32,
    pub(crate) main_segments: AtomicU32,
    pub(crate) probation_segments: AtomicU32,
    pub(crate) compressed_main_segments: AtomicU32,
    pub(crate) compressed_probation_segments: AtomicU32,
    /// Something was evicted since the start or the last growth.
    pub(crate) evicted: AtomicBool,
    pub(crate) capacity_bytes: AtomicU64,
    pub(crate) among_new: AmongNew,
    /// The cache is nearly full and has no ghost table yet.
    pub(crate) ghosts_due: AtomicBool,
    /// The mean size is taken over keys whose hash has none of these bits: one in 16, but all of a small cache's.
    mean_mask: AtomicU64,
}

pub(crate) const NO_MAIN: u32 = u32::MAX;

/// What `flush` made invisible.
pub(crate) struct Flush {
    /// The youngest mark of a flush or of a dropped group: younger segments need no look at either; 0 = none.
    pub(crate) any: AtomicU64,
    /// Items in segments born up to here are gone; 0 = none.
    pub(crate) birth: AtomicU64,
    /// Unix ms at which the next flush is due; u64::MAX = none.
    pub(crate) due_ms: AtomicU64,
    /// When the last delayed flush was or will be due: what is stored in the second from then on is gone
    /// at once; u64::MAX = none.
    pub(crate) dark_from_ms: AtomicU64,
}

/// Places of other keys that share the tag: none in most lookups, two almost never.
#[derive(Default)]
pub(crate) struct Rejected(Vec<Place>);

impl Rejected {
    #[inline(always)]
    fn clear(&mut self) {
        self.0.clear();
    }

    #[cold]
    fn push(&mut self, place: Place) {
        if !self.0.contains(&place) {
            self.0.push(place);
        }
    }

    pub(crate) fn places(&self) -> &[Place] {
        &self.0
    }
}

/// A record with its header, layout and fields read once. Valid if the header still stands.
pub(crate) struct Seen<'a> {
    pub(crate) place: Place,
    pub(crate) item: Item<'a>,
    pub(crate) header: Header,
    pub(crate) layout: Layout,
    pub(crate) fields: Fields,
}

impl Seen<'_> {
    /// Whether expiry and marks still are what was seen: touches and marks change them under the lock
    /// without a new version. The caller holds the lock.
    #[inline(always)]
    pub(crate) fn is_same_under_lock(&self) -> bool {
        self.layout.is_bare() || self.item.fields(&self.layout).same_facts(&self.fields)
    }
}

impl Store {
    pub(crate) fn new(parts: Parts, config: &Config, time: Time, seed: u64) -> Store {
        let capacity = parts.segments.room_bytes();
        let expected = (config.cache_bytes() / parts.segments.bytes() as u64) as usize;
        let expected = expected.min(config.segments_max());
        let cores = std::thread::available_parallelism().map_or(1, |n| n.get());
        let compress = Compress::new(config.compress, config.compress_with, config.miss_cost);
        // Held back for the first dictionary from the start: a cache may be full before anybody looks.
        compress.set_waits(config.compress != CompressMode::Off && config.dictionary_bytes() > 0);
        let store = Store {
            domain: parts.domain,
            watch: Watch {
                bound: std::sync::atomic::AtomicU64::new(0),
                sampling: config.sampling,
            },
            lanes: Lanes::new(
                config.threads,
                expected,
                config.compress != CompressMode::Off,
            ),
            holes: Holes::default(),
            counters: Counters::new(),
            generations: Mutex::new(
                match config.policy.settings(config.objective)[0].rules.classes {
                    true => Generations::on_demand(),
                    false => Generations::new(capacity),
                },
            ),
            policy: Policy::new(config.policy, config.objective, capacity, seed),
            fresh_min: config.fresh_min,
            min_ttl_ms: config.min_ttl.map_or(0, |least| {
                least.as_millis().clamp(1, u64::MAX.into()) as u64
            }),
            curve: config
                .curve
                .then(|| Curve::new(config.policy, config.objective, seed)),
            sealed: Mutex::new(Vec::new()),
            facts: Facts {
                now: AtomicU32::new(0),
                births: Births::new(time.now_ms()),
                oldest_main: AtomicU32::new(NO_MAIN),
                main_segments: AtomicU32::new(0),
                probation_segments: AtomicU32::new(0),
                compressed_main_segments: AtomicU32::new(0),
                compressed_probation_segments: AtomicU32::new(0),
                evicted: AtomicBool::new(false),
                capacity_bytes: AtomicU64::new(capacity),
                among_new: AmongNew::new(),
                ghosts_due: AtomicBool::new(false),
                mean_mask: AtomicU64::new(0),
            },
            groups: Groups::new(&config.groups, parts.segments.places(), cores),
            flush: Flush {
                any: AtomicU64::new(0),
                birth: AtomicU64::new(0),
                due_ms: AtomicU64::new(u64::MAX),
                dark_from_ms: AtomicU64::new(u64::MAX),
            },
            compress,
            listener: config.listener.clone(),
            marks: config.marks || config.time_to_idle.is_some(),
            idle_s: config
                .time_to_idle
                .map_or(0, |idle| idle.as_secs().clamp(1, u32::MAX as u64) as u32),
            run_bytes: config.extent_use.run_bytes(),
            ghosts: (0..cores.max(1))
                .map(|_| GhostHandle(RwLock::new(None)))
                .collect(),
            hasher: Hasher::new(seed),
            budget: parts.budget,
            index: parts.index,
            segments: parts.segments,
            time,
        };
        store.watch_again();
        store
    }

    #[inline(always)]
    pub(crate) fn pin(&self) -> Pin {
        Pin::new(self.domain)
    }

    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        self.segments.extents().region()
    }

    #[inline(always)]
    pub(crate) fn item(&self, place: Place) -> Item<'_> {
        Item::at(self.region(), place.offset())
    }

    /// The keyed 64-bit hash of a key.
    #[inline(always)]
    pub(crate) fn hash(&self, key: &[u8]) -> u64 {
        self.hasher.hash(key)
    }

    #[inline(always)]
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let near = self.index.find_near(hash, |place| {
            // Most items straddle a line: the value's end is asked for while the key arrives.
            self.region().prefetch(place.offset() + 64);
            self.item(place).key_is(key)
        });
        match near {
            Near::Found(found) => Some(found),
            Near::Nothing => None,
            Near::Further(word) => {
                let mut matches = |place| self.item(place).key_is(key);
                self.index.find_further(hash, word, &mut matches)
            }
        }
    }

    /// As `find`, and collects the places that only shared the tag.
    #[inline(always)]
    pub(crate) fn find_for_write(
        &self,
        hash: u64,
        key: &[u8],
        rejected: &mut Rejected,
    ) -> Option<Found> {
        rejected.clear();
        self.index.find(hash, |place| {
            let ours = self.item(place).key_is(key);
            if !ours {
                rejected.push(place);
            }
            ours
        })
    }

    /// Reads header, layout and fields; None while a writer holds the item.
    #[inline(always)]
    pub(crate) fn see(&self, place: Place) -> Option<Seen<'_>> {
        let item = self.item(place);
        let header = item.header();
        if header.locked() {
            return None;
        }
        let layout = item.layout(header);
        let fields = item.fields(&layout);
        Some(Seen {
            place,
            item,
            header,
            layout,
            fields,
        })
    }

    /// As `see`, whoever holds the lock: for the heads of chunked items, whose layout and table words are
    /// good at any time.
    pub(crate) fn look(&self, place: Place) -> Seen<'_> {
        let item = self.item(place);
        let header = item.header();
        let layout = item.layout(header);
        let fields = item.fields(&layout);
        Seen {
            place,
            item,
            header,
            layout,
            fields,
        }
    }

    /// The token of a version that was seen.
    #[inline]
    pub(crate) fn token(&self, seen: &Seen<'_>) -> u64 {
        seen.fields
            .token
            .unwrap_or_else(|| self.segments.token(seen.place, seen.header.version()))
    }

    /// Whether somebody samples this key's accesses. One load, one comparison.
    #[inline(always)]
    pub(crate) fn is_watched(&self, hash: u64) -> bool {
        u64::from(hash as u32) < self.watch.bound.load(Ordering::Relaxed)
    }

    /// Who samples may have changed its bound: the highest one is what is asked for. A race leaves a bound that
    /// is too high or too low until the next sampled access.
    pub(crate) fn watch_again(&self) {
        if !self.watch.sampling {
            return;
        }
        let bound = self
            .policy
            .steering()
            .bound()
            .max(self.compress.control.bound())
            .max(self.curve.as_ref().map_or(0, Curve::bound));
        if bound != self.watch.bound.load(Ordering::Relaxed) {
            self.watch.bound.store(bound, Ordering::Relaxed);
        }
    }

    /// Tells the listener, if there is one. No pin may be held.
    pub(crate) fn tell(&self, cause: Cause, key: &[u8], value: Option<&[u8]>) {
        if let Some(listener) = &self.listener {
            let departure = crate::config::Departure { key, value, cause };
            // A listener that panics has been reported by the panic hook; reclaim must go on.
            let call = std::panic::AssertUnwindSafe(|| (listener.call)(&departure));
            let _ = std::panic::catch_unwind(call);
        }
    }

    /// The hash of the key at `place`, for the index when it splits.
    pub(crate) fn rehash(&self, place: Place) -> Option<u64> {
        let item = self.item(place);
        let layout = item.layout(item.header());
        let mut key = Vec::with_capacity(layout.key_bytes);
        item.append_key(&layout, &mut key);
        (!key.is_empty()).then(|| self.hash(&key))
    }

    pub(crate) fn segment(&self, id: SegmentId) -> &Segment {
        self.segments.get(id)
    }

    /// A marks word for an item stored now.
    pub(crate) fn new_marks(&self, flags: u32) -> Option<MarkWord> {
        self.marks.then(|| MarkWord::new(flags, self.time.now_s()))
    }
}

/// What `Store::new` puts together.
pub(crate) struct Parts {
    pub(crate) domain: &'static Domain,
    pub(crate) budget: Arc<Budget>,
    pub(crate) index: Index,
    pub(crate) segments: Segments,
}

impl Facts {
    /// Segments of a pool of a tier, open ones included.
    pub(crate) fn segments_of(&self, tier: Tier, pool: Pool) -> &AtomicU32 {
        match (tier, pool) {
            (Tier::Hot, Pool::Main) => &self.main_segments,
            (Tier::Hot, Pool::Probation) => &self.probation_segments,
            (Tier::Compressed, Pool::Main) => &self.compressed_main_segments,
            (Tier::Compressed, Pool::Probation) => &self.compressed_probation_segments,
        }
    }
}
