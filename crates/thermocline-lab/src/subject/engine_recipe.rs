//! Engines of this process from their settings: ours with any of its own, the rivals with room and weights, and
//! the one that does nothing.

use super::embedded::{Embedded, Manner};
use super::recipe::{Recipe, StartContext};
use super::Subject;
use crate::engines::engine::{Engine, Reading};
use crate::engines::null::Null;
use crate::engines::ours::Ours;
use crate::engines::rivals::{Foyer, Moka, QuickCache, Room, SegPolicy, Segcache};
use crate::engines::Arm;
use crate::settings::Settings;
use anyhow::{Context, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;
use thermocline::{
    CompressCodec, CompressMode, Config, Objective, ReclaimPolicy, EXTENT_USES, PAGE_MODES,
};

/// The subject kinds this page reads.
pub const KINDS: [(&str, Arm); 6] = [
    ("thermocline", Arm::Thermocline),
    ("quick_cache", Arm::QuickCache),
    ("segcache", Arm::Segcache),
    ("foyer", Arm::Foyer),
    ("moka", Arm::Moka),
    ("null", Arm::Null),
];

/// An engine, described.
pub struct EngineRecipe {
    arm: Arm,
    memory: u64,
    reading: Reading,
    fill: bool,
    miss_cost: Option<Duration>,
    time_every: usize,
    own: Own,
}

/// What only one of them has.
enum Own {
    Ours {
        config: Box<Config>,
        /// As many as there are workers, unless asked otherwise.
        threads: Option<usize>,
    },
    Segcache {
        policy: SegPolicy,
        charge: u32,
    },
    Rival {
        charge: u32,
    },
    Null,
}

/// One operation in so many is timed unless asked otherwise; all where a miss waits for a store.
const TIME_EVERY: u64 = 64;

impl EngineRecipe {
    pub fn read(arm: Arm, settings: &mut Settings) -> Result<Self> {
        let reading = [("head", Reading::Head), ("copy", Reading::Copy)];
        let miss_cost = settings
            .duration("miss_cost")?
            .filter(|cost| !cost.is_zero());
        let memory = settings.bytes("memory")?;
        let memory = match (memory, arm) {
            (Some(memory), _) => memory,
            (None, Arm::Null) => 0,
            (None, _) => {
                return Err(settings.missing("memory", "how much the engine gets, as \"64MiB\""))
            }
        };
        let usual = if miss_cost.is_some() { 1 } else { TIME_EVERY };
        Ok(EngineRecipe {
            arm,
            memory,
            reading: settings
                .choice("reading", &reading)?
                .unwrap_or(Reading::Head),
            fill: settings.truth("fill")?.unwrap_or(true),
            miss_cost,
            time_every: settings
                .count("time_every")?
                .unwrap_or(usual)
                .clamp(1, 1 << 20) as usize,
            own: match arm {
                Arm::Thermocline => Own::Ours {
                    threads: settings
                        .count("threads")?
                        .map(|threads| threads.clamp(1, 4096) as usize),
                    config: Box::new(ours(memory, settings)?),
                },
                Arm::Segcache => Own::Segcache {
                    policy: segcache_policy(settings)?,
                    charge: charge(arm, settings)?,
                },
                Arm::Null => Own::Null,
                rival => Own::Rival {
                    charge: charge(rival, settings)?,
                },
            },
        })
    }

    fn wrap<E: Engine + 'static>(&self, engine: E, context: &StartContext) -> Box<dyn Subject> {
        let manner = Manner {
            reading: self.reading,
            fill: self.fill,
            check: context.is_stamped && self.arm != Arm::Null,
            time_every: self.time_every,
            value_bytes_max: context.value_bytes_max,
            seed: context.seed,
        };
        let mut facts = BTreeMap::new();
        facts.insert("engine".to_string(), Value::from(self.arm.name()));
        facts.insert("memory_bytes".to_string(), Value::from(self.memory));
        facts.insert("fill".to_string(), Value::from(self.fill));
        facts.insert("time_every".to_string(), Value::from(self.time_every));
        Box::new(Embedded::new(engine, manner, self.miss_cost, facts))
    }

    fn room(&self, charge_per_item: u32, context: &StartContext) -> Room {
        let fitting = self.memory as f64 / context.item_bytes.max(1.0);
        Room {
            bytes: self.memory,
            charge_per_item,
            items: (fitting as u64).clamp(1, context.items.max(1)),
            threads: context.workers,
            value_bytes_max: context.value_bytes_max,
            shards: None,
        }
    }
}

/// Our engine's settings, each under its own name.
fn ours(memory: u64, settings: &mut Settings) -> Result<Config> {
    let mut config = Config::new(memory);
    if let Some(bytes) = settings.bytes("memory_max")? {
        config.memory_max = Some(bytes);
    }
    if let Some(bytes) = settings.bytes("item_size_max")? {
        config.item_size_max = Some(bytes);
    }
    if let Some(mode) = settings.choice("page_mode", &PAGE_MODES)? {
        config.page_mode = mode;
    }
    if let Some(extent_use) = settings.choice("extent_use", &EXTENT_USES)? {
        config.extent_use = extent_use;
    }
    let policies = ReclaimPolicy::ALL.map(|policy| (policy.name(), policy));
    if let Some(policy) = settings.choice("policy", &policies)? {
        config.policy = policy;
    }
    config.fresh_min = settings.bytes("fresh_min")?.or(config.fresh_min);
    let objectives = [
        ("balanced", Objective::Balanced),
        ("objects", Objective::Objects),
        ("bytes", Objective::Bytes),
    ];
    if let Some(objective) = settings.choice("objective", &objectives)? {
        config.objective = objective;
    }
    compression(&mut config, settings)?;
    config.marks = settings.truth("marks")?.unwrap_or(config.marks);
    config.evict = settings.truth("evict")?.unwrap_or(config.evict);
    config.hot_keys = settings.truth("hot_keys")?.unwrap_or(config.hot_keys);
    config.background = settings.truth("background")?.unwrap_or(config.background);
    config.time_to_live = settings.duration("ttl")?.or(config.time_to_live);
    config.time_to_idle = settings.duration("time_to_idle")?.or(config.time_to_idle);
    config.seed = settings.count("engine_seed")?.or(config.seed);
    config.check().with_context(|| {
        format!(
            "`{}`: our engine refuses these settings",
            settings.name("memory")
        )
    })?;
    Ok(config)
}

/// `compress`, `compress_codec`, `compress_level`, `dictionary_memory`, `hot_share`.
fn compression(config: &mut Config, settings: &mut Settings) -> Result<()> {
    let modes = [
        ("auto", CompressMode::Auto),
        ("on", CompressMode::On),
        ("off", CompressMode::Off),
    ];
    if let Some(mode) = settings.choice("compress", &modes)? {
        config.compress = mode;
    }
    let codecs = [
        ("best", CompressCodec::Best),
        ("lz4", CompressCodec::Lz4),
        ("zstd", CompressCodec::Zstd),
    ];
    let with = &mut config.compress_with;
    if let Some(codec) = settings.choice("compress_codec", &codecs)? {
        with.codec = codec;
    }
    with.zstd_level = settings
        .count("compress_level")?
        .map(|level| level.min(99) as i32);
    with.dictionary_memory = settings.bytes("dictionary_memory")?;
    with.hot_share = settings.number("hot_share")?;
    Ok(())
}

fn segcache_policy(settings: &mut Settings) -> Result<SegPolicy> {
    let policies = [
        ("fifo", SegPolicy::Fifo),
        ("s3-fifo", SegPolicy::S3Fifo),
        ("merge", SegPolicy::Merge),
    ];
    Ok(settings.choice("policy", &policies)?.unwrap_or_default())
}

/// What a rival's items weigh beside key and value: nothing, or what its metadata was measured to take.
fn charge(arm: Arm, settings: &mut Settings) -> Result<u32> {
    let kinds = [("payload", 0), ("memory", arm.metadata_bytes())];
    Ok(settings
        .choice("equal", &kinds)?
        .unwrap_or(arm.metadata_bytes()))
}

impl Recipe for EngineRecipe {
    fn start(&self, context: &StartContext) -> Result<Box<dyn Subject>> {
        Ok(match (&self.own, self.arm) {
            (Own::Ours { config, threads }, _) => {
                let mut config = Config::clone(config);
                config.threads = threads.unwrap_or(context.workers).max(1);
                self.wrap(Ours::with(config)?, context)
            }
            (Own::Segcache { policy, charge }, _) => {
                let room = self.room(*charge, context);
                self.wrap(Segcache::new(room, *policy)?, context)
            }
            (Own::Rival { charge }, arm) => {
                let room = self.room(*charge, context);
                match arm {
                    Arm::Moka => self.wrap(Moka::new(room), context),
                    Arm::Foyer => self.wrap(Foyer::new(room), context),
                    _ => self.wrap(QuickCache::new(room), context),
                }
            }
            (Own::Null, _) => self.wrap(Null, context),
        })
    }
}
