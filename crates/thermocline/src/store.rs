//! The tiers in memory as a whole: index, segments, lanes and ghosts, and the small steps that join them.
//!
//! One file, because each step (find, see, bury, admit, open, seal) joins two or three of the same fields and none
//! is more than a screen.
//!
//! Owns what readers, writers and reclaim share. Leaves decisions to others: `reclaim` says what goes,
//! `cache` says what an operation means.
//!
//! Must hold: whoever takes a slot out of the index, or turns it to another place, buries the bytes the
//! slot pointed to, once.

mod births;
mod warm;

use crate::clock::Time;
use crate::compress::{Compress, CompressMode};
use crate::config::{Cause, Config, Listener, GROUP_PREFIX_MAX};
use crate::curve::Curve;
use crate::generation::{Generations, Source};
use crate::ghost::Ghosts;
use crate::groups::{Event, GroupId, Groups};
use crate::hash::Hasher;
use crate::holes::{Holes, Room};
use crate::index::{Found, Index, Near};
use crate::item::{Fields, Header, Item, Kind, Layout, MarkWord, Measured, CHUNK_PREFIX};
use crate::location::{Place, Tier};
use crate::mem::{current_core, Budget, Domain, Pin, Region};
use crate::metrics::{Counter, Counters};
use crate::policy::{Insert, Origin, Policy, Pool, Setting};
use crate::segment::{Segment, SegmentId, Segments};
use crate::sync::{lock, AtomicBool, AtomicU32, AtomicU64, Mutex, Ordering};
use crate::writer::{LaneBooks, Lanes, Opening, Reserved};
use births::Births;
use std::sync::{Arc, RwLock};

/// Records up to this share of a segment leave so little at its end that one drain's survivors (at most 0.9 of a
/// segment: what is referenced more goes whole) always fit what is open and one more.
const SMALL_SHARE: usize = 16;

/// Caches of so many items and more know their mean size from one key in 16, which spares writers a shared line: 4,096
/// resident keys, a mean within 3 % where sizes are lognormal. Of the 28 sampled keys of 441 items it is anything:
/// 3 points of miss ratio.
const MEAN_OF_ALL_ITEMS: f64 = 65_536.0;
const MEAN_MASK: u64 = 15;

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
    /// There are records over a 16th of a segment.
    keeps_two: AtomicBool,
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
                keeps_two: AtomicBool::new(false),
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

    /// Whether a flush that was carried out, or a drop of its group, has made the item invisible.
    #[inline(always)]
    pub(crate) fn is_flushed(&self, place: Place) -> bool {
        let any = self.flush.any.load(Ordering::Acquire);
        any != 0 && self.segments.of(place).birth() <= any && self.is_dark(place)
    }

    #[inline(never)]
    fn is_dark(&self, place: Place) -> bool {
        let birth = self.segments.of(place).birth();
        birth <= self.flush.birth.load(Ordering::Acquire)
            || self.groups.as_ref().is_some_and(|groups| {
                let group = self.group_at(groups, place);
                group.is_some_and(|id| groups.is_dark(id, birth))
            })
    }

    /// The group of the item at `place`, by its key's bytes.
    fn group_at(&self, groups: &Groups, place: Place) -> Option<GroupId> {
        let item = self.item(place);
        let layout = item.layout(item.header());
        groups.of(&item.key_start(&layout, GROUP_PREFIX_MAX))
    }

    /// Counts a read of a key, or an eviction, for its group.
    #[inline(always)]
    pub(crate) fn count_group(&self, key: &[u8], event: Event) {
        if let Some(groups) = &self.groups {
            if let Some(id) = groups.of(key) {
                groups.count(id, event, current_core());
            }
        }
    }

    /// Counts the eviction of the item at `place` for its group.
    pub(crate) fn count_evicted(&self, place: Place) {
        if let Some(groups) = &self.groups {
            if let Some(id) = self.group_at(groups, place) {
                groups.count(id, Event::Evicted, current_core());
            }
        }
    }

    /// A written record is about to be published: its bytes count for its group, until `ungroup`.
    #[inline]
    pub(crate) fn group(&self, place: Place, bytes: usize) {
        if let Some(groups) = &self.groups {
            if let Some(id) = self.group_at(groups, place) {
                groups.add(self.segments.id_of(place).0, id, bytes);
            }
        }
    }

    /// It is buried, or was not published.
    #[inline]
    pub(crate) fn ungroup(&self, place: Place, bytes: usize) {
        if let Some(groups) = &self.groups {
            if let Some(id) = self.group_at(groups, place) {
                groups.sub(self.segments.id_of(place).0, id, bytes);
            }
        }
    }

    /// Live bytes of a group, what a drop or a flush has made invisible left out. Walks the segment table.
    pub(crate) fn group_bytes(&self, groups: &Groups, id: GroupId) -> u64 {
        let segments = (0..self.segments.places() as u32).map(SegmentId);
        let mark = groups
            .mark(id)
            .max(self.flush.birth.load(Ordering::Acquire));
        segments
            .filter(|&segment| mark == 0 || self.segments.get(segment).birth() > mark)
            .map(|segment| groups.bytes(segment.0, id))
            .sum()
    }

    /// Which groups, by number, hold less than they are promised, and so lose nothing now. Walks the segment table
    /// once for each promise.
    pub(crate) fn promised(&self) -> Vec<bool> {
        let Some(groups) = &self.groups else {
            return Vec::new();
        };
        let capacity = self.facts.capacity_bytes.load(Ordering::Relaxed) as f64;
        let is_below = |id| {
            let share = groups.share(id);
            share > 0.0 && (self.group_bytes(groups, id) as f64) < share * capacity
        };
        groups.ids().map(is_below).collect()
    }

    /// Whether the item at `place` is of a group that `promised` says loses nothing.
    pub(crate) fn is_promised(&self, promised: &[bool], place: Place) -> bool {
        let Some(groups) = &self.groups else {
            return false;
        };
        promised.contains(&true)
            && self
                .group_at(groups, place)
                .is_some_and(|id| promised[id.number()])
    }

    /// Marks have been raised or forgotten. Under the reclaim lock.
    pub(crate) fn refresh_marks(&self) {
        let groups = self.groups.as_ref().map_or(0, Groups::youngest_mark);
        let any = self.flush.birth.load(Ordering::Acquire).max(groups);
        self.flush.any.store(any, Ordering::Release);
    }

    /// Whether an item is no longer to be seen: expired, idle or flushed.
    #[inline(always)]
    pub(crate) fn is_gone(&self, place: Place, fields: &Fields) -> bool {
        if self.is_flushed(place) {
            return true;
        }
        let timed = fields.expires_ms != 0 || self.idle_s != 0;
        if !timed && self.flush.due_ms.load(Ordering::Relaxed) == u64::MAX {
            return false;
        }
        self.is_over(fields)
    }

    #[inline(never)]
    fn is_over(&self, fields: &Fields) -> bool {
        let now_ms = self.time.now_ms();
        if fields.expires_ms != 0 && fields.expires_ms <= now_ms {
            return true;
        }
        // Due and not yet carried out by the background thread.
        if now_ms >= self.flush.due_ms.load(Ordering::Relaxed) {
            return true;
        }
        match fields.marks {
            Some(marks) if self.idle_s != 0 => {
                let idle = marks.idle_s((now_ms / 1000) as u32);
                idle > self.idle_s
            }
            _ => false,
        }
    }

    /// Books the bytes at `place` as dead. Call once, after its slot was taken or turned away.
    #[inline]
    pub(crate) fn bury(&self, place: Place, reserved: usize, expires_ms: u64) {
        let segment = self.segments.of(place);
        segment.bury(reserved);
        self.unbook_expiry(place, reserved, expires_ms);
    }

    /// Books an item that is about to be published: once it can be found, others may remove it.
    #[inline]
    pub(crate) fn book_expiry(&self, place: Place, reserved: usize, expires_ms: u64) {
        if expires_ms != 0 {
            let segment = self.segments.of(place);
            segment.expiring.add(expiry_s(expires_ms), reserved as u32);
        }
    }

    /// The opposite of `book_expiry`.
    pub(crate) fn unbook_expiry(&self, place: Place, reserved: usize, expires_ms: u64) {
        if expires_ms != 0 {
            let segment = self.segments.of(place);
            let expires_s = expiry_s(expires_ms);
            segment.expiring.remove(expires_s, reserved as u32);
        }
    }

    /// Buries an item whose slot was taken: its record and, if it has any, its chunks.
    pub(crate) fn bury_item(&self, seen: &Seen<'_>) {
        self.ungroup(seen.place, seen.layout.reserved);
        self.bury(seen.place, seen.layout.reserved, seen.fields.expires_ms);
        if seen.layout.is_coded() {
            self.compress
                .lower(&self.coded_head(seen), seen.layout.value_bytes);
        }
        if seen.layout.kind == Kind::Chunked {
            self.bury_chunks(seen);
        }
    }

    fn bury_chunks(&self, seen: &Seen<'_>) {
        for number in 0..self.chunk_count(&seen.layout) {
            let word = self.chunk_word(seen, number);
            // Whoever swaps the place out buries it: reclaim may be moving the chunk right now.
            if let Some(chunk) = Place::from_raw(word.swap(0, Ordering::AcqRel)) {
                let item = self.item(chunk);
                self.bury_chunk(chunk, &item.layout(item.header()));
            }
        }
    }

    /// Books a coded chunk about to be published.
    pub(crate) fn raise_chunk(&self, place: Place, coded_bytes: usize) {
        let at = place.offset() + CHUNK_PREFIX;
        self.compress.raise(&self.word_bytes(at), coded_bytes);
    }

    /// Buries a chunk that its owner's table no longer names.
    pub(crate) fn bury_chunk(&self, place: Place, layout: &Layout) {
        if layout.is_coded() {
            let at = place.offset() + layout.value_at;
            self.compress
                .lower(&self.word_bytes(at), layout.value_bytes);
        }
        self.bury(place, layout.reserved, 0);
    }

    /// The first bytes of a coded value: enough to know its codec, its dictionary and its length. Validate
    /// afterwards.
    pub(crate) fn coded_head(&self, seen: &Seen<'_>) -> [u8; 8] {
        // A coded value starts at a word (its item has an options byte) and has six bytes at the least.
        self.word_bytes(seen.item.value_offset(&seen.layout))
    }

    fn word_bytes(&self, at: usize) -> [u8; 8] {
        let word = |at: usize| u64::from(self.region().u32(at).load(Ordering::Relaxed));
        (word(at) | word(at + 4) << 32).to_le_bytes()
    }

    /// Bytes of an item's value, as its reader gets it. Validate afterwards.
    #[inline]
    pub(crate) fn value_bytes(&self, seen: &Seen<'_>) -> usize {
        match seen.layout.is_coded() {
            false => seen.layout.value_bytes,
            true => Compress::plain_bytes(&self.coded_head(seen)).unwrap_or(0),
        }
    }

    /// How many chunks a chunked item has: all table words up to the end of the record.
    pub(crate) fn chunk_count(&self, layout: &Layout) -> usize {
        (layout.reserved - layout.value_at) / 8
    }

    /// The place of a chunk in the table of its owner; 0 once the item was removed.
    pub(crate) fn chunk_word(&self, seen: &Seen<'_>, number: usize) -> &AtomicU64 {
        self.region()
            .u64(seen.item.value_offset(&seen.layout) + 8 * number)
    }

    /// Reserves room for a record in the lane of this core.
    pub(crate) fn reserve(&self, pin: &Pin, pool: Pool, bytes: usize, wide: bool) -> Reserved {
        let opening = Opening {
            tier: Tier::Hot,
            origin: Origin::Fresh(pool),
            reserve: self.reserve_segments(),
            now_s: self.time.now_s(),
        };
        let lane = self.lanes.of(pool);
        match lane.reserve(&self.segments, pin, bytes, wide, opening, self) {
            Reserved::At(place) => Reserved::At(place),
            Reserved::Full => self.reserve_elsewhere(pin, bytes, wide),
        }
    }

    /// Reserves room for a record of one piece: a hole among its like, or room in the lane. The version it begins at.
    pub(crate) fn reserve_room(
        &self,
        pin: &Pin,
        pool: Pool,
        bytes: usize,
        wide: bool,
    ) -> Option<Room> {
        if pool == Pool::Main {
            if let Some(room) = self.holes.reserve(&self.segments, bytes, wide) {
                return Some(room);
            }
        }
        match self.reserve(pin, pool, bytes, wide) {
            Reserved::At(place) => Some(Room { place, version: 0 }),
            Reserved::Full => None,
        }
    }

    /// A segment that was open for reuse is sealed anew and waits to be queued.
    pub(crate) fn reseal(&self, id: SegmentId) {
        let now_ms = match self.min_ttl_ms {
            0 => 0,
            _ => self.time.now_ms(),
        };
        self.segments.reseal(id, self.domain.epoch(), now_ms);
        lock(&self.sealed).push(id);
    }

    /// This core's lane is full and no segment is free: room that another lane has left will do.
    #[cold]
    fn reserve_elsewhere(&self, pin: &Pin, bytes: usize, wide: bool) -> Reserved {
        [Pool::Probation, Pool::Main]
            .into_iter()
            .flat_map(|pool| self.lanes.of_pool(pool))
            .find_map(|lane| lane.reserve_open(&self.segments, pin, bytes, wide))
            .map_or(Reserved::Full, Reserved::At)
    }

    /// Writes a record that fits one piece into reserved room.
    #[inline]
    pub(crate) fn write(&self, place: Place, new: &Measured<'_>) {
        let item = self.item(place);
        if new.small {
            item.write_small(new);
            return;
        }
        let record = &new.record;
        item.write_long_head(
            Kind::Plain,
            record.key,
            &record.fields,
            record.value.len(),
            new.bytes,
        );
        if new.token_out {
            let _ = item.mark_token_out(item.header());
        }
        let layout = item.layout(item.header());
        self.region()
            .copy_in(item.value_offset(&layout), record.value);
    }

    /// The token of a version that was seen.
    #[inline]
    pub(crate) fn token(&self, seen: &Seen<'_>) -> u64 {
        seen.fields
            .token
            .unwrap_or_else(|| self.segments.token(seen.place, seen.header.version()))
    }

    /// Which pool a new key belongs to. Asks (and forgets) its ghost.
    pub(crate) fn admit(&self, pin: &Pin, hash: u64, bytes: usize) -> Pool {
        let evicted = self.facts.evicted.load(Ordering::Relaxed);
        let now = self.facts.now.load(Ordering::Relaxed);
        let setting = self.setting();
        let ghost_age = match evicted {
            true => self
                .with_ghosts(|ghosts| match setting.rules.classes {
                    true => self.take_class(ghosts, hash, now, bytes),
                    false => ghosts.take(hash, now),
                })
                .flatten(),
            false => None,
        };
        if ghost_age.is_some() {
            self.counters.one(pin, Counter::Refaults);
        }
        self.compress.stored(hash);
        if hash & self.facts.mean_mask.load(Ordering::Relaxed) == 0 {
            self.policy.inserted(1, bytes as u64);
        }
        let oldest = self.facts.oldest_main.load(Ordering::Relaxed);
        let segment_bytes = self.segments.bytes() as u64;
        self.policy.admit(
            setting,
            &Insert {
                size: bytes as u64,
                ghost_age,
                now,
                oldest_main: (oldest != NO_MAIN).then_some(oldest),
                evicted_before: evicted,
                main_bytes: self.facts.main_segments.load(Ordering::Relaxed) as u64 * segment_bytes,
                capacity_bytes: self.facts.capacity_bytes.load(Ordering::Relaxed),
                reserve_bytes: self.reserve_segments() as u64 * segment_bytes,
                segment_bytes,
            },
        )
    }

    fn take_class(&self, ghosts: &Ghosts, hash: u64, now: u32, bytes: usize) -> Option<u32> {
        let (age, class) = ghosts.take_class(hash, now)?;
        self.policy.classes().refaulted(class, bytes as u64, age);
        Some(age)
    }

    /// Remembers an evicted key of a segment of this generation.
    pub(crate) fn remember(&self, hash: u64, generation: u32, counter: u32) {
        let now = self.facts.now.load(Ordering::Relaxed);
        let classes = self.setting().rules.classes;
        self.with_ghosts(|ghosts| match classes {
            true => ghosts.insert_class(hash, generation, crate::policy::class(counter as u8)),
            false => ghosts.insert(hash, generation, now),
        });
    }

    /// Free segments kept for survivors of a drain, left alone by writers: one, and one more where large records leave
    /// room unused at a segment's end, or a drain's survivors go two ways.
    #[inline]
    pub(crate) fn reserve_segments(&self) -> usize {
        let large = self.facts.keeps_two.load(Ordering::Relaxed);
        1 + usize::from(large || self.compress.is_on() || self.has_compressed())
    }

    /// Whether anything was sealed in the compressed tier.
    fn has_compressed(&self) -> bool {
        let facts = &self.facts;
        let segments = |count: &AtomicU32| count.load(Ordering::Relaxed) > 0;
        segments(&facts.compressed_main_segments) || segments(&facts.compressed_probation_segments)
    }

    /// A record (or a value's pieces together) of so many bytes was stored.
    #[inline]
    pub(crate) fn note_record(&self, bytes: usize) {
        let keeps_two = &self.facts.keeps_two;
        if bytes > self.segments.bytes() / SMALL_SHARE && !keeps_two.load(Ordering::Relaxed) {
            keeps_two.store(true, Ordering::Relaxed);
        }
    }

    /// Tells everybody which generation is the youngest, and the clock when it began. The caller holds the
    /// generations' lock.
    pub(crate) fn publish_now(&self, generations: &Generations) {
        let now = generations.now();
        let before = self.facts.now.swap(now, Ordering::Relaxed);
        if before != now {
            self.facts.births.begin(before, now, self.time.now_ms());
        }
    }

    /// The setting that steers the policy at the moment.
    #[inline]
    pub(crate) fn setting(&self) -> &'static Setting {
        self.policy.steering().setting()
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

    /// Bytes of later inserts that a stored item outlives at least: what was configured, else the larger of
    /// 2 % of the cache, 4 segments and the largest item.
    pub(crate) fn fresh_min_bytes(&self, largest: u64) -> u64 {
        let capacity = self.facts.capacity_bytes.load(Ordering::Relaxed);
        let floor = self.fresh_min.unwrap_or_else(|| {
            ((capacity as f64 * crate::config::FRESH_SHARE) as u64)
                .max(4 * self.segments.bytes() as u64)
                .max(largest)
        });
        floor.min(capacity / 4)
    }

    pub(crate) fn with_ghosts<R>(&self, use_them: impl FnOnce(&Ghosts) -> R) -> Option<R> {
        let handle = &self.ghosts[current_core() % self.ghosts.len()];
        let table = handle
            .0
            .read()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        table.as_ref().map(|ghosts| use_them(ghosts))
    }

    pub(crate) fn set_ghosts(&self, table: Option<Arc<Ghosts>>) {
        for handle in &self.ghosts {
            let mut slot = handle
                .0
                .write()
                .unwrap_or_else(|poisoned| poisoned.into_inner());
            *slot = table.clone();
        }
    }

    /// Hardly any budget is left that segments have not taken.
    pub(crate) fn is_nearly_full(&self) -> bool {
        self.segments.room_bytes() < self.facts.capacity_bytes.load(Ordering::Relaxed) / 8
    }

    /// A ghost table is to be made.
    #[inline]
    pub(crate) fn ghosts_due(&self) -> bool {
        self.facts.ghosts_due.load(Ordering::Relaxed)
    }

    /// Bytes of the ghost table.
    pub(crate) fn ghost_bytes(&self) -> u64 {
        self.with_ghosts(Ghosts::bytes).unwrap_or(0)
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

    /// Bytes appended to segments in use, and how many of them are live. Walks the segment table.
    pub(crate) fn used_and_live(&self) -> (u64, u64) {
        use crate::segment::State;
        let (mut used, mut live) = (0, 0);
        for state in [State::Sealed, State::Draining] {
            for id in self.segments.in_state(state) {
                let segment = self.segments.get(id);
                used += segment.used() as u64;
                live += segment.live() as u64;
            }
        }
        for (id, filled) in self.lanes.all().filter_map(|lane| lane.open()) {
            used += filled as u64;
            live += filled.saturating_sub(self.segments.get(id).dead_so_far()) as u64;
        }
        (used, live)
    }

    /// Segments in use and the live bytes in each.
    pub(crate) fn live_by_segment(&self) -> Vec<(SegmentId, u64)> {
        use crate::segment::State;
        let closed = [State::Sealed, State::Draining]
            .into_iter()
            .flat_map(|state| self.segments.in_state(state))
            .map(|id| (id, self.segments.get(id).live() as u64));
        let open = self.lanes.all().filter_map(|lane| lane.open());
        let open = open.map(|(id, filled)| {
            let dead = self.segments.get(id).dead_so_far();
            (id, filled.saturating_sub(dead) as u64)
        });
        closed.chain(open).collect()
    }

    /// Bytes appended to the segments of hot and of the compressed tier.
    pub(crate) fn used_by_tier(&self) -> [u64; 2] {
        use crate::segment::State;
        let mut used = [0; 2];
        for state in [State::Sealed, State::Draining] {
            for id in self.segments.in_state(state) {
                let segment = self.segments.get(id);
                used[segment.tier() as usize] += segment.used() as u64;
            }
        }
        for (id, filled) in self.lanes.all().filter_map(|lane| lane.open()) {
            used[self.segments.get(id).tier() as usize] += filled as u64;
        }
        used
    }

    /// Refreshes the capacity the policy reckons with.
    pub(crate) fn refresh_capacity(&self) {
        let owned = (self.segments.owned() * self.segments.bytes()) as u64;
        let capacity = owned + self.segments.room_bytes();
        self.facts.capacity_bytes.store(capacity, Ordering::Relaxed);
        lock(&self.generations).set_capacity(capacity);
        let floor = self.fresh_min_bytes(0) + self.segments.bytes() as u64;
        let share_min = floor as f64 / capacity.max(1) as f64;
        self.policy.steering().set_capacity(capacity, share_min);
        let items = capacity as f64 / self.policy.mean_size().max(1.0);
        let mask = u64::from(items > MEAN_OF_ALL_ITEMS) * MEAN_MASK;
        self.facts.mean_mask.store(mask, Ordering::Relaxed);
        let wants_ghosts = self.setting().rules.ghosts_per_item > 0.0;
        let due = wants_ghosts && self.is_nearly_full() && self.ghost_bytes() == 0;
        self.facts.ghosts_due.store(due, Ordering::Relaxed);
    }

    pub(crate) fn segment(&self, id: SegmentId) -> &Segment {
        self.segments.get(id)
    }

    /// A marks word for an item stored now.
    pub(crate) fn new_marks(&self, flags: u32) -> Option<MarkWord> {
        self.marks.then(|| MarkWord::new(flags, self.time.now_s()))
    }
}

/// The second at which an item is over, for the segment's histogram (rounded up).
pub(crate) fn expiry_s(expires_ms: u64) -> u32 {
    expires_ms.div_ceil(1000).min(u32::MAX as u64) as u32
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

impl Store {
    /// A segment of this tier, pool and generation is no more.
    pub(crate) fn closed(&self, tier: Tier, pool: Pool, generation: u32) {
        if pool == Pool::Main {
            let mut generations = lock(&self.generations);
            generations.free_main(generation);
            self.policy.classes().fold(generations.oldest());
        }
        self.facts
            .segments_of(tier, pool)
            .fetch_sub(1, Ordering::Relaxed);
    }
}

impl LaneBooks for Store {
    fn sealing(&self, id: SegmentId, used: usize, fresh: bool) {
        let now_ms = match self.min_ttl_ms {
            0 => 0,
            _ => self.time.now_ms(),
        };
        self.segments.seal(id, used, self.domain.epoch(), now_ms);
        let segment = self.segments.get(id);
        // While hot is a small front, what counts is what goes into the compressed tier's main.
        let counts = fresh && !self.compress.is_on();
        if counts && segment.pool() == Pool::Main {
            let mut generations = lock(&self.generations);
            generations.put_main(used as u64, Source::New);
            self.publish_now(&generations);
        }
        lock(&self.sealed).push(id);
    }

    fn opening(&self, opening: &Opening) -> (Pool, u32) {
        self.refresh_capacity();
        let mut generations = lock(&self.generations);
        let (pool, generation) = match (opening.tier, opening.origin) {
            (Tier::Hot, origin) => origin.open(self.setting(), &mut generations),
            // Young where it is new there, whatever hot's policy; compaction keeps the age.
            (_, Origin::Fresh(Pool::Probation)) => (Pool::Probation, generations.now()),
            (_, Origin::Compacted(source)) => (Pool::Main, generations.open_main_as(source)),
            (_, Origin::Fresh(Pool::Main) | Origin::Survivors) => {
                (Pool::Main, generations.open_main())
            }
        };
        self.facts
            .segments_of(opening.tier, pool)
            .fetch_add(1, Ordering::Relaxed);
        (pool, generation)
    }

    fn not_opened(&self, tier: Tier, pool: Pool, generation: u32) {
        self.closed(tier, pool, generation);
    }
}
