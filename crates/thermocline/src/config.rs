//! Every limit of the engine, with its unit and its reason: one file, however long, so that each is found in one place.

use crate::clock::Clock;
use crate::compress::{CompressMode, CompressOptions};
use crate::error::Error;
use crate::mem::EXTENT_BYTES;
use crate::policy::{Objective, ReclaimPolicy};
use std::sync::Arc;
use std::time::Duration;

/// Smallest budget of an embedded cache, bytes: a few extents for items and index, and room to turn.
pub const MEMORY_MIN: u64 = 16 << 20;
/// Largest budget, bytes: what 44 bits of place reach.
pub const MEMORY_CEILING: u64 = 32 << 40;
/// Smallest and largest segment, bytes.
pub(crate) const SEGMENT_MIN: usize = if cfg!(shuttle) { 1 << 10 } else { 64 << 10 };
pub(crate) const SEGMENT_MAX: usize = EXTENT_BYTES;
/// Segments are made finer than they must be down to this size: a quarter of it holds the longest key.
const SEGMENT_FINE: u64 = 512 << 10;
/// A tier has at least so many segments: the policy needs many.
pub(crate) const SEGMENTS_MIN: u64 = 128;
/// Longest key, bytes: what 16 bits of length hold.
pub const KEY_MAX: usize = 64 << 10;
/// Largest value that can be asked for, bytes.
pub const ITEM_CEILING: u64 = 512 << 20;
/// Largest value unless asked otherwise, bytes; also memory / 8.
pub(crate) const ITEM_DEFAULT_MAX: u64 = 64 << 20;
/// Open segments together stay under this share of the cache.
pub(crate) const OPEN_SHARE: f64 = 0.04;
/// Condemned memory (retired, still pinned or held): at most the larger of this share of the budget and
/// `CONDEMNED_MIN`, a scheduler slice of filling at 1 GB/s.
pub(crate) const CONDEMNED_SHARE: f64 = 0.02;
pub(crate) const CONDEMNED_MIN: u64 = 16 << 20;
/// A stored item outlives at least this share of the cache in later inserts (or 4 segments, or the
/// largest item).
pub(crate) const FRESH_SHARE: f64 = 0.02;
/// The hot tier's share of the cache while the compressed tier is on. In the mean of 72 simulated loads 5 % and
/// 2 % gain alike, 10 % a little less, 50 % half as much.
pub(crate) const HOT_SHARE: f64 = 0.05;
/// Probation's share of the compressed tier; 20 % costs 0.1 to 1 % more, 40 % up to 17 % at worst.
pub(crate) const COMPRESSED_PROBATION_SHARE: f64 = 0.10;
/// What dictionaries, their tables and the encoder may take together, as a share of the budget, and at most, bytes.
/// Small caches give up to twice the share, until they have room for one dictionary of 64 KiB with all tables.
pub(crate) const DICTIONARY_SHARE: f64 = 0.01;
pub(crate) const DICTIONARY_MEMORY_MAX: u64 = 10 << 20;
pub(crate) const DICTIONARY_MEMORY_ENOUGH: u64 = 1 << 20;
/// How long a write waits at a time for pinned memory, holding nothing.
pub(crate) const STALL_WAIT: Duration = Duration::from_millis(5);
/// How long nothing may come free before a write is refused. A thread preempted in its pin on a machine
/// with more threads than cores comes back after 10 to 30 ms; a refused `set` costs the user the value.
pub(crate) const REFUSE_AFTER: Duration = Duration::from_millis(100);
/// The same where only guards keep what would come free.
pub(crate) const GUARDED_MAX: Duration = Duration::from_millis(10);
/// The same for `set_memory`, which gives back what guards may hold.
pub(crate) const SHRINK_AFTER: Duration = Duration::from_secs(1);

pub use crate::mem::{Numa, PageBytes, PageMode, PAGE_MODES};

/// How the 2 MiB extents are used: the two designs of huge pages behind shared memory, to compare.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ExtentUse {
    /// Filled, emptied and given back whole: huge pages stay whole.
    #[default]
    Compound,
    /// Runs of dead bytes (4 KiB and more) go back to the system while the rest of their extent is in use, and are no
    /// longer charged; the extent is broken until it is emptied, or made whole in the background when memory is plenty.
    Team,
    /// The same with runs of 64 KiB and more: fewer calls, fewer broken extents.
    Team64K,
}

/// The uses with the names they bear in settings.
pub const EXTENT_USES: [(&str, ExtentUse); 3] = [
    ("compound", ExtentUse::Compound),
    ("team", ExtentUse::Team),
    ("team-64k", ExtentUse::Team64K),
];

impl ExtentUse {
    /// The name it bears in settings.
    pub fn name(self) -> &'static str {
        let found = EXTENT_USES
            .iter()
            .find(|(_, extent_use)| *extent_use == self);
        found.map_or("unknown", |(name, _)| name)
    }

    /// Shortest run that is given back, bytes.
    pub(crate) fn run_bytes(self) -> Option<usize> {
        match self {
            ExtentUse::Compound => None,
            _ if cfg!(shuttle) => Some(64),
            ExtentUse::Team => Some(4 << 10),
            ExtentUse::Team64K => Some(64 << 10),
        }
    }
}

/// Share of the time that collapsing pages may take, percent, unless asked otherwise.
const COLLAPSE_PERCENT: u32 = 2;

/// Who is told that memory has become short (`Config::pressure_listener`).
#[derive(Clone)]
pub struct PressureListener(Arc<dyn Fn() + Send + Sync>);

impl PressureListener {
    /// Wraps a callback.
    pub fn new(tell: impl Fn() + Send + Sync + 'static) -> PressureListener {
        PressureListener(Arc::new(tell))
    }

    pub(crate) fn tell(&self) {
        (self.0)();
    }
}

impl std::fmt::Debug for PressureListener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PressureListener")
    }
}

/// Why an item left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// For want of room.
    Evicted,
    /// By its time to live or to idle, by a flush, or because its group was dropped.
    Expired,
    /// Another value took its key.
    Replaced,
    /// A caller removed it.
    Removed,
}

/// One item that left.
#[derive(Debug)]
pub struct Departure<'a> {
    /// Its key.
    pub key: &'a [u8],
    /// Its value, where the listener asked for values and the item was in one piece.
    pub value: Option<&'a [u8]>,
    /// Why it left.
    pub cause: Cause,
}

/// Told of every item that leaves. Called on the thread that made it leave (a writer or the background
/// thread), without locks or pins held; it should be quick. Items overwritten in place are told of too; of
/// one that only got another expiry or other marks nobody is told, its value is still there.
#[derive(Clone)]
pub struct Listener {
    pub(crate) values: bool,
    pub(crate) call: Arc<dyn Fn(&Departure<'_>) + Send + Sync>,
}

impl Listener {
    /// A listener that gets keys and causes.
    pub fn new(call: impl Fn(&Departure<'_>) + Send + Sync + 'static) -> Listener {
        Listener {
            values: false,
            call: Arc::new(call),
        }
    }

    /// The same with values, which costs a copy for each item that leaves.
    pub fn with_values(self) -> Listener {
        Listener {
            values: true,
            ..self
        }
    }
}

impl std::fmt::Debug for Listener {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Listener")
            .field("values", &self.values)
            .finish_non_exhaustive()
    }
}

/// Keys that begin alike: counted together, dropped together (`Cache::drop_group`), protected up to a share.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// What the keys begin with: 1 to 64 bytes. Where several groups fit a key, it belongs to the longest.
    pub prefix: Vec<u8>,
    /// While the group holds less than this share of the cache none of its items is evicted; 0 = no promise. All
    /// groups together: at most a half.
    pub share: f64,
}

impl Group {
    /// Keys that begin with `prefix`, without a share of their own.
    pub fn new(prefix: impl Into<Vec<u8>>) -> Group {
        Group {
            prefix: prefix.into(),
            share: 0.0,
        }
    }
}

/// Most groups: each costs 4 bytes a segment.
pub(crate) const GROUPS_MAX: usize = 256;
/// Longest prefix of a group, bytes: so much of a key is looked at.
pub(crate) const GROUP_PREFIX_MAX: usize = 64;
/// What groups may be promised together: there must be something that can be evicted.
pub(crate) const GROUP_SHARES_MAX: f64 = 0.5;

/// Segments of a size and number that an experiment asks for, instead of what the budget comes to.
#[doc(hidden)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Bytes of a segment: a power of two between 4 KiB and 2 MiB.
    pub segment_bytes: usize,
    /// Segments the cache has when full, those kept for survivors among them.
    pub segments: u32,
}

/// Smallest segment and fewest segments of a `Shape`.
const SHAPE_SEGMENT_MIN: usize = 4 << 10;
const SHAPE_SEGMENTS_MIN: u32 = 8;

/// How a cache is made. `Config::new(bytes)` and change what differs.
#[derive(Clone, Debug)]
pub struct Config {
    /// Bytes that bound everything the cache owns: items, index, ghosts, tables, and `reserved_bytes`.
    pub memory: u64,
    /// The largest budget `set_memory` may ask for later. Address space and the index directory (0.2 %)
    /// are sized for it. Default: twice `memory`.
    pub memory_max: Option<u64>,
    /// Bytes of the budget that are not the cache's: an embedder's own buffers and baseline.
    pub reserved_bytes: u64,
    /// Pages asked for; `Cache::pages` says what was got.
    pub page_mode: PageMode,
    /// Whether extents are given back only whole, or in parts too. Not with pages of a hugetlb pool.
    pub extent_use: ExtentUse,
    /// Whether what leaves the hot tier is compressed before it is dropped.
    pub compress: CompressMode,
    /// With which codec, in how much memory, and how large the hot tier stays.
    pub compress_with: CompressOptions,
    /// What serving a miss takes, where it is known; else it is measured: a loader's time, or the time from a
    /// miss to the `set` of the same key. Decides in `CompressMode::Auto` whether compression pays.
    pub miss_cost: Option<Duration>,
    /// Called once when items are first demoted after a quiet minute: memory has become short. On the
    /// background thread; keep it short.
    pub pressure_listener: Option<PressureListener>,
    /// For `PageMode::Shmem`: the directory, on tmpfs or hugetlbfs, that the memory file lies in. Each cache
    /// needs one of its own. None: nameless shared memory.
    pub memory_dir: Option<std::path::PathBuf>,
    /// Lock pages in memory as they come (`mlock`); refused where `ulimit -l` is too small.
    pub memory_lock: bool,
    /// On which NUMA nodes the memory is to lie.
    pub numa: Numa,
    /// Make small pages huge in the background where the mode leaves some small (all but `Base` and the
    /// pool's), for at most this share of the time, percent; 0 = never. At most 50.
    pub collapse_percent: u32,
    /// Largest value, bytes. Default: min(64 MiB, memory / 8); at most 512 MiB and memory / 2. A full cache takes a value
    /// over a third of its room when it comes back soon, and refuses it at first (`Error::NoRoom`).
    pub item_size_max: Option<u64>,
    /// Longest key, bytes. Default: 65,536, or what a quarter of a segment holds in a small cache.
    pub key_size_max: Option<usize>,
    /// Threads that write at the same time: how many open segments there should be.
    pub threads: usize,
    /// Keep memcached's marks on each item (5 bytes): fetched, last access, stale, won, base64 key.
    pub marks: bool,
    /// Time to live of items stored without one of their own.
    pub time_to_live: Option<Duration>,
    /// Items not read for so long are gone. Coarse: read at most a minute late. Switches `marks` on.
    pub time_to_idle: Option<Duration>,
    /// Which policy chooses what leaves. The default is meant to be the best; the others are there to compare.
    pub policy: ReclaimPolicy,
    /// What a miss costs, and so how much size weighs in what is kept.
    pub objective: Objective,
    /// Bytes of later inserts that a stored item outlives at least; at most a quarter of the memory. Default:
    /// the larger of 2 % of the cache, 4 segments and the largest item. 0 = none.
    pub fresh_min: Option<u64>,
    /// No live item is evicted sooner than this after its segment was sealed. Where all are younger, a write that
    /// finds no room is refused instead (`Error::NoRoom`, counted in `Stats::refused_min_ttl`): a cache that turns
    /// over faster serves nobody. Memory that must go back (`set_memory`) comes first.
    pub min_ttl: Option<Duration>,
    /// Whether to make room by evicting live items; if not, a write that finds no room is refused.
    pub evict: bool,
    /// Groups of keys by prefix; at most 256. None: nothing is looked up.
    pub groups: Vec<Group>,
    /// Told of every item that leaves.
    pub listener: Option<Listener>,
    /// Keep a sketch of the most read keys (about 370 KiB; one read in 16 is looked at).
    pub hot_keys: bool,
    /// Keep the live miss-ratio curve (`Cache::miss_ratio_curve`): 480 KiB, and a few shadow accesses for each access of a
    /// sampled key: one key in S, so that at most 10,000 are.
    pub curve: bool,
    /// Where the time comes from.
    pub clock: Clock,
    /// Seed of hashing and of the policy's rare coin tosses. Default: drawn from the system. Two caches
    /// of one seed, used by one thread each in the same way, behave the same.
    pub seed: Option<u64>,
    /// Run reclaim in a thread of its own. Without it, writers do all of it.
    pub background: bool,
    /// For experiments: whether accesses are sampled, for the policy's duel, the curve and the duel of
    /// compression. Without it what each starts with stays in force.
    #[doc(hidden)]
    pub sampling: bool,
    /// For experiments: exactly these segments, whatever more the budget would allow.
    #[doc(hidden)]
    pub shape: Option<Shape>,
}

impl Config {
    /// A cache of `memory` bytes, everything else by default.
    pub fn new(memory: u64) -> Config {
        Config {
            memory,
            memory_max: None,
            reserved_bytes: 0,
            page_mode: PageMode::default(),
            extent_use: ExtentUse::default(),
            compress: CompressMode::default(),
            compress_with: CompressOptions::default(),
            miss_cost: None,
            pressure_listener: None,
            memory_dir: None,
            memory_lock: false,
            numa: Numa::default(),
            collapse_percent: COLLAPSE_PERCENT,
            item_size_max: None,
            key_size_max: None,
            threads: std::thread::available_parallelism().map_or(1, |n| n.get()),
            marks: false,
            time_to_live: None,
            time_to_idle: None,
            policy: ReclaimPolicy::default(),
            objective: Objective::default(),
            fresh_min: None,
            min_ttl: None,
            evict: true,
            groups: Vec::new(),
            listener: None,
            hot_keys: false,
            curve: true,
            clock: Clock::default(),
            seed: None,
            background: true,
            sampling: true,
            shape: None,
        }
    }

    /// Says what is wrong with this configuration, with the bound that was passed. Costs nothing.
    pub fn check(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Config(text));
        let least = MEMORY_MIN.saturating_add(self.reserved_bytes);
        if self.memory < least {
            return wrong(format!(
                "memory = {} bytes is too small: at least {} bytes ({} MiB) are needed{}",
                self.memory,
                least,
                least.div_ceil(1 << 20),
                match self.reserved_bytes {
                    0 => String::new(),
                    reserved => format!(", of which {reserved} are reserved outside the cache"),
                }
            ));
        }
        if self.memory > MEMORY_CEILING {
            return wrong(format!(
                "memory = {} bytes is too large: at most {MEMORY_CEILING} bytes (32 TiB)",
                self.memory
            ));
        }
        if self.memory_max() > MEMORY_CEILING {
            return wrong(format!(
                "memory_max = {} bytes is too large: at most {MEMORY_CEILING} bytes (32 TiB)",
                self.memory_max()
            ));
        }
        if self.memory_max() < self.memory {
            return wrong(format!(
                "memory_max = {} bytes is less than memory = {} bytes",
                self.memory_max(),
                self.memory
            ));
        }
        if let Some(shape) = self.shape {
            let sizes = SHAPE_SEGMENT_MIN..=SEGMENT_MAX;
            if !shape.segment_bytes.is_power_of_two() || !sizes.contains(&shape.segment_bytes) {
                return wrong(format!(
                    "shape.segment_bytes = {}: a power of two between {SHAPE_SEGMENT_MIN} and {SEGMENT_MAX}",
                    shape.segment_bytes
                ));
            }
            if shape.segments < SHAPE_SEGMENTS_MIN {
                return wrong(format!(
                    "shape.segments = {}: at least {SHAPE_SEGMENTS_MIN}",
                    shape.segments
                ));
            }
        }
        let longest = self.key_size_max();
        if longest == 0 || longest > self.key_ceiling() {
            return wrong(format!(
                "key_size_max = {longest} bytes: between 1 and {} bytes with this memory",
                self.key_ceiling()
            ));
        }
        let ceiling = ITEM_CEILING.min(self.cache_bytes() / 2);
        if let Some(max) = self.item_size_max {
            if max == 0 || max > ceiling {
                return wrong(format!(
                    "item_size_max = {max} bytes: between 1 and {ceiling} bytes with this memory (half of it)"
                ));
            }
            if max > self.chunked_ceiling() {
                return wrong(format!(
                    "item_size_max = {max} bytes: at most {} bytes with segments of {} bytes",
                    self.chunked_ceiling(),
                    self.segment_bytes()
                ));
            }
        }
        let floor_max = self.cache_bytes() / 4;
        if self.fresh_min.is_some_and(|floor| floor > floor_max) {
            return wrong(format!(
                "fresh_min = {} bytes: at most {floor_max} bytes with this memory (a quarter of it)",
                self.fresh_min.unwrap_or(0)
            ));
        }
        if let Err(text) = self.compress_with.check() {
            return wrong(text);
        }
        if self.compress_with.dictionary_memory > Some(floor_max) {
            return wrong(format!(
                "compress_with.dictionary_memory: at most {floor_max} bytes with this memory (a quarter of it)"
            ));
        }
        self.check_groups()?;
        if self.threads == 0 {
            return wrong("threads = 0: at least 1 thread writes".into());
        }
        for (key, time) in [
            ("time_to_live", self.time_to_live),
            ("time_to_idle", self.time_to_idle),
            ("min_ttl", self.min_ttl),
        ] {
            if time.is_some_and(|time| time.is_zero()) {
                return wrong(format!("{key} = 0: leave it out for no limit"));
            }
        }
        Ok(())
    }

    fn check_groups(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Config(text));
        if self.groups.len() > GROUPS_MAX {
            return wrong(format!(
                "groups: {} of them; at most {GROUPS_MAX}",
                self.groups.len()
            ));
        }
        for (n, group) in self.groups.iter().enumerate() {
            let name = group.prefix.escape_ascii();
            if !(1..=GROUP_PREFIX_MAX).contains(&group.prefix.len()) {
                return wrong(format!(
                    "group \"{name}\": a prefix has 1 to {GROUP_PREFIX_MAX} bytes"
                ));
            }
            if self.groups[..n]
                .iter()
                .any(|other| other.prefix == group.prefix)
            {
                return wrong(format!("group \"{name}\" is named twice"));
            }
            if !(0.0..=GROUP_SHARES_MAX).contains(&group.share) {
                return wrong(format!(
                    "group \"{name}\": share = {}: between 0 and {GROUP_SHARES_MAX}",
                    group.share
                ));
            }
        }
        let shares: f64 = self.groups.iter().map(|group| group.share).sum();
        if shares > GROUP_SHARES_MAX {
            return wrong(format!(
                "groups are promised {shares} of the cache: at most {GROUP_SHARES_MAX} together"
            ));
        }
        Ok(())
    }

    /// Longest key that segments of this cache take: a quarter of a segment, less a header.
    fn key_ceiling(&self) -> usize {
        KEY_MAX.min((self.segment_bytes() / 4).saturating_sub(512))
    }

    pub(crate) fn key_size_max(&self) -> usize {
        self.key_size_max.unwrap_or(self.key_ceiling())
    }

    pub(crate) fn memory_max(&self) -> u64 {
        self.memory_max
            .unwrap_or_else(|| self.memory.saturating_mul(2).min(MEMORY_CEILING))
    }

    /// Bytes left for the cache itself.
    pub(crate) fn cache_bytes(&self) -> u64 {
        self.memory.saturating_sub(self.reserved_bytes)
    }

    pub(crate) fn item_size_max(&self) -> u64 {
        self.item_size_max.unwrap_or(
            ITEM_DEFAULT_MAX
                .min(self.cache_bytes() / 8)
                .min(self.chunked_ceiling()),
        )
    }

    /// The largest value whose table of chunks (8 bytes each, up to a quarter of a segment long) takes no more than half a
    /// segment. Only a `shape` makes segments so small that it counts.
    fn chunked_ceiling(&self) -> u64 {
        let segment = self.segment_bytes() as u64;
        segment / 2 / 8 * (segment / 4 - crate::item::CHUNK_PREFIX as u64)
    }

    /// Memory set aside for dictionaries while compression is on, bytes.
    pub(crate) fn dictionary_bytes(&self) -> u64 {
        let share = (self.memory as f64 * DICTIONARY_SHARE) as u64;
        let usual = share
            .max(DICTIONARY_MEMORY_ENOUGH.min(2 * share))
            .min(DICTIONARY_MEMORY_MAX);
        self.compress_with.dictionary_memory.unwrap_or(usual)
    }

    /// The largest power of two that gives at least 128 segments, within 64 KiB and 2 MiB; twice as many where they
    /// are large enough for the longest keys all the same. Segments that are free, kept for survivors or half full
    /// are a number, not a share: with 1 MiB instead of 512 KiB a server of 256 MiB held a hundredth less.
    pub(crate) fn segment_bytes(&self) -> usize {
        if let Some(shape) = self.shape {
            return shape.segment_bytes;
        }
        let power = |segments: u64| 1 << (self.cache_bytes() / segments).max(1).ilog2();
        let finer = power(2 * SEGMENTS_MIN).max(SEGMENT_FINE);
        (power(SEGMENTS_MIN).min(finer) as usize).clamp(SEGMENT_MIN, SEGMENT_MAX)
    }
}

impl Config {
    /// The most segments there may be, whatever the budget.
    pub(crate) fn segments_max(&self) -> usize {
        self.shape
            .map_or(usize::MAX, |shape| shape.segments as usize)
    }
}

const _: () = assert!(SEGMENT_MAX == EXTENT_BYTES && SEGMENT_MAX % SEGMENT_MIN == 0);
const _: () = assert!(MEMORY_MIN as usize / SEGMENT_MIN >= SEGMENTS_MIN as usize);

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(config: Config) -> String {
        config.check().expect_err("must be refused").to_string()
    }

    #[test]
    fn impossible_budgets_name_the_minimum() {
        assert!(refusal(Config::new(1 << 20)).contains("at least 16777216 bytes (16 MiB)"));
        let mut config = Config::new(20 << 20);
        config.reserved_bytes = 10 << 20;
        assert!(refusal(config).contains("at least 27262976 bytes (26 MiB)"));
        assert!(Config::new(16 << 20).check().is_ok());
    }

    #[test]
    fn other_bounds_name_key_and_bound() {
        let mut config = Config::new(64 << 20);
        config.item_size_max = Some(33 << 20);
        assert!(refusal(config.clone()).contains("item_size_max"));
        config.item_size_max = None;
        config.key_size_max = Some(65_537);
        assert!(refusal(config.clone()).contains("key_size_max"));
        config.key_size_max = None;
        config.memory_max = Some(1 << 20);
        assert!(refusal(config).contains("memory_max"));
        assert!(refusal(Config::new(1 << 60)).contains(": memory = "));
    }

    #[test]
    fn segments_are_at_most_a_128th() {
        for (memory, segment) in [
            (16u64 << 20, 128 << 10),
            (64 << 20, 512 << 10),
            (248 << 20, 512 << 10),
            (256 << 20, 1 << 20),
            (1 << 30, 2 << 20),
        ] {
            assert_eq!(Config::new(memory).segment_bytes(), segment);
            assert!(segment as u64 <= memory / 128);
        }
    }

    #[test]
    fn a_shape_is_taken_as_asked_within_its_bounds() {
        let mut config = Config::new(64 << 20);
        for (segment_bytes, segments, wrong) in [
            (4096, 8, ""),
            (2 << 20, 128, ""),
            (5000, 8, "segment_bytes = 5000"),
            (2048, 8, "segment_bytes = 2048"),
            (4096, 7, "segments = 7"),
        ] {
            config.shape = Some(Shape {
                segment_bytes,
                segments,
            });
            match wrong {
                "" => {
                    assert!(config.check().is_ok());
                    assert_eq!(config.segment_bytes(), segment_bytes);
                    assert_eq!(config.segments_max(), segments as usize);
                }
                wrong => assert!(refusal(config.clone()).contains(wrong)),
            }
        }
    }

    #[test]
    fn a_value_whose_table_no_segment_holds_is_refused() {
        let mut config = Config::new(64 << 20);
        config.shape = Some(Shape {
            segment_bytes: 4096,
            segments: 4096,
        });
        assert!(config.check().is_ok() && config.item_size_max() < 1 << 18);
        config.item_size_max = Some(8 << 20);
        let text = "bytes with segments of 4096 bytes";
        assert!(refusal(config).contains(text));
    }
}
