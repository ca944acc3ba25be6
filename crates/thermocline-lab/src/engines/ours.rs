//! Our engine, through its public calls, at its defaults.

use super::engine::{Engine, Found, OwnFigures, Reading};
use super::spec::Spec;
use crate::workload::STAMP_BYTES;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use thermocline::{Cache, Config, PageMode, Pages, Stats, Tiers};

/// What one measuring thread owns beside its two value buffers, bytes: a batch, two histograms, a stack.
const THREAD_BYTES: u64 = 1 << 20;
/// The harness without threads, bytes: the binary with every rival linked in, the runtime, the allocator.
const HARNESS_BYTES: u64 = 8 << 20;

/// Reading which pages there are makes the kernel walk the process's tables, 5 ms a GiB: no more often than this.
const PAGES_EVERY: Duration = Duration::from_secs(10);

pub struct Ours {
    cache: Cache,
    /// Which pages there were when last asked.
    pages: Mutex<Option<(Instant, Pages)>>,
    key_bytes: u64,
    keys: u64,
}

impl Ours {
    pub fn new(spec: &Spec) -> Result<Self> {
        let mut config = Config::new(spec.memory_bytes);
        config.threads = spec.threads;
        config.page_mode = if spec.thp {
            PageMode::Thp
        } else {
            PageMode::Base
        };
        if spec.reserve_harness {
            let buffers = THREAD_BYTES + 2 * u64::from(spec.mix.sizes.max());
            config.reserved_bytes = HARNESS_BYTES + spec.threads as u64 * buffers;
        }
        Ok(Ours {
            key_bytes: spec.mix.key_bytes as u64,
            keys: spec.mix.keys,
            ..Ours::with(config)?
        })
    }

    /// With any settings; [`Engine::own_figures`] then knows no keys to ask for.
    pub fn with(config: Config) -> Result<Self> {
        Ok(Ours {
            cache: Cache::new(config).context("our engine refuses these settings")?,
            pages: Mutex::default(),
            key_bytes: 0,
            keys: 0,
        })
    }

    fn pages(&self) -> Pages {
        let mut last = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        match &*last {
            Some((at, pages)) if at.elapsed() < PAGES_EVERY => pages.clone(),
            _ => {
                let pages = self.cache.pages();
                *last = Some((Instant::now(), pages.clone()));
                pages
            }
        }
    }

    /// Key and value bytes of the items in the cache, by asking for each.
    fn payload(&self) -> (u64, u64) {
        let mut key = vec![0; self.key_bytes as usize];
        let (mut items, mut bytes) = (0, 0);
        for id in 0..self.keys {
            crate::workload::key_into(id, &mut key);
            if let Some(meta) = self.cache.peek(&key, false) {
                items += 1;
                bytes += self.key_bytes + meta.value_bytes as u64;
            }
        }
        (items, bytes)
    }
}

impl Engine for Ours {
    #[inline]
    fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found> {
        match reading {
            Reading::Head => {
                out.clear();
                let meta = self.cache.get_part(key, 0..STAMP_BYTES, out)?;
                Some(Found {
                    value_bytes: meta.value_bytes,
                    ..Found::of(out)
                })
            }
            Reading::Copy => {
                out.clear();
                self.cache.get_into(key, out)?;
                Some(Found::of(out))
            }
        }
    }

    #[inline]
    fn set(&self, key: &[u8], value: &[u8]) -> bool {
        self.cache.set(key, value).is_ok()
    }

    fn delete(&self, key: &[u8]) -> bool {
        self.cache.delete(key)
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.cache.contains(key)
    }

    fn own_figures(&self) -> OwnFigures {
        let stats = self.cache.stats();
        let (items, payload_bytes) = self.payload();
        let metadata = stats.index_bytes + stats.ghost_bytes + stats.table_bytes + stats.live_bytes;
        OwnFigures {
            metadata_bytes_per_item: (items > 0)
                .then(|| (metadata as f64 - payload_bytes as f64) / items as f64),
            overwrites: Some(stats.equal_size_overwrites),
            overwrites_in_place: Some(stats.equal_size_in_place),
            refused_room: Some(stats.refused_room),
            refused_size: Some(stats.refused_size),
            live_ratio: (stats.segment_bytes_total > 0)
                .then(|| stats.live_bytes as f64 / stats.segment_bytes_total as f64),
        }
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let stats = self.cache.stats();
        let tiers = self.cache.tiers();
        let groups = [
            named("engine_", "_total", totals(&stats)),
            named("engine_", "", gauges(&stats)),
            named("engine_", "", page_figures(&self.pages())),
            named("tier_", "_total", tier_totals(&tiers)),
            named("tier_", "", tier_gauges(&tiers)),
        ];
        groups.into_iter().flatten().collect()
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        let mode = format!("{:?}", self.cache.page_mode()).to_lowercase();
        let item_size_max = self.cache.item_size_max();
        let extent_use = self.cache.pages().extent_use.name();
        [
            ("page_mode".to_string(), Value::from(mode)),
            ("extent_use".to_string(), Value::from(extent_use)),
            (
                "item_size_max_bytes".to_string(),
                Value::from(item_size_max),
            ),
            (
                "segment_bytes".to_string(),
                Value::from(self.cache.stats().segment_bytes),
            ),
        ]
        .into()
    }
}

/// What a counter is called in the engine, and its value.
type Figure = (&'static str, u64);

fn named(prefix: &str, suffix: &str, figures: Vec<Figure>) -> BTreeMap<String, f64> {
    figures
        .into_iter()
        .map(|(name, value)| (format!("{prefix}{name}{suffix}"), value as f64))
        .collect()
}

fn totals(s: &Stats) -> Vec<Figure> {
    vec![
        ("hits", s.hits),
        ("misses", s.misses),
        ("inserts", s.inserts),
        ("replaced", s.replaced),
        ("overwritten_in_place", s.overwritten_in_place),
        ("deleted", s.deleted),
        ("evicted", s.evicted),
        ("expired", s.expired),
        ("refused_room", s.refused_room),
        ("refused_size", s.refused_size),
        ("moved", s.moved),
        ("moved_bytes", s.moved_bytes),
        ("inserted_bytes", s.inserted_bytes),
        ("refaults", s.refaults),
        ("scanned", s.scanned),
        ("segments_drained", s.segments_drained),
        ("segments_compacted", s.segments_compacted),
        ("segments_relinked", s.segments_relinked),
        ("direct_passes", s.direct_passes),
        ("reclaim_stalled", s.reclaim_stalled),
        ("read_retries", s.read_retries),
        ("index_lock_waits", s.index_lock_waits),
    ]
}

fn gauges(s: &Stats) -> Vec<Figure> {
    vec![
        ("items", s.items),
        ("memory_bytes", s.memory_bytes),
        ("charged_bytes", s.charged_bytes),
        ("reserved_bytes", s.reserved_bytes),
        ("table_bytes", s.table_bytes),
        ("index_bytes", s.index_bytes),
        ("ghost_bytes", s.ghost_bytes),
        ("segments_bytes", s.segment_bytes_total),
        ("segments_free", s.segments_free),
        ("segments", s.segments),
        ("probation_segments", s.probation_segments),
        ("main_segments", s.main_segments),
        ("live_bytes", s.live_bytes),
        ("used_bytes", s.used_bytes),
        ("condemned_bytes", s.condemned_bytes),
        ("generation", s.generation),
    ]
}

/// What the kernel says: beside each figure, which pages it was taken on. The capitals are the kernel's.
fn page_figures(pages: &Pages) -> Vec<Figure> {
    let bytes = pages.bytes.unwrap_or_default();
    vec![
        ("AnonHugePages_bytes", bytes.anon_huge),
        ("ShmemPmdMapped_bytes", bytes.shmem_pmd_mapped),
        ("Hugetlb_bytes", bytes.hugetlb),
        ("pages_resident_bytes", bytes.resident),
        ("broken_extents", pages.broken_extents),
        ("broken_bytes", pages.broken_bytes),
        ("released_bytes_total", pages.released_bytes),
        ("mended_total", pages.mended),
        ("collapsed_total", pages.collapse.collapsed),
    ]
}

fn tier_totals(tiers: &Tiers) -> Vec<Figure> {
    vec![
        ("demoted", tiers.demoted),
        ("promoted", tiers.promoted),
        ("coded", tiers.coded),
        ("decoded", tiers.decoded),
        ("reject_compress_poor", tiers.reject_compress_poor),
        ("mean_compress_poor", tiers.mean_compress_poor),
        ("decompress_fail", tiers.decompress_fail),
        ("dictionaries_trained", tiers.trained),
        ("duel_switches", tiers.duel_switches),
    ]
}

fn tier_gauges(tiers: &Tiers) -> Vec<Figure> {
    vec![
        ("on", u64::from(tiers.on)),
        ("hot_used_bytes", tiers.hot_used_bytes),
        ("compressed_used_bytes", tiers.compressed_used_bytes),
        ("coded_items", tiers.coded_items),
        ("coded_bytes", tiers.coded_bytes),
        ("plain_bytes", tiers.plain_bytes),
        ("code_ns", tiers.code_ns),
        ("decode_ns", tiers.decode_ns),
        ("miss_ns", tiers.miss_ns),
        ("pressure", u64::from(tiers.pressure)),
    ]
}
