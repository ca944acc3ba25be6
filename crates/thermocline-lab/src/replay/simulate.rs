//! The policy without bytes: the same rules, duel and ghosts, at segment grain, for caches of any size. Faster, and
//! what the real engine must agree with.

use super::drive::{Tally, KEY_BYTES};
use super::options::{FreshFloor, ReplayOptions};
use super::outcome::Outcome;
use super::plan::{Footprint, Plan, FOOTPRINT_MAX, ITEMS_MIN};
use super::real::LONG_HEADER_BYTES;
use crate::trace::{Facts, Request};
use crate::workload::{Kind, Random};
use anyhow::{bail, Result};
use std::time::Instant;
use thermocline::simulate::{key_hash, EngineRoom, Simulation, SimulationConfig};

/// Bytes before each chunk of a large value in the engine.
const CHUNK_HEADER_BYTES: u64 = 32;
/// Times a run looks at how much is live.
const LOOKS: u64 = 256;
/// Of the engine's own fresh floor: a share of the cache.
const FRESH_SHARE: f64 = 0.02;

pub fn replay(options: &ReplayOptions, plan: &Plan, facts: &Facts) -> Result<Outcome> {
    if plan.footprint == Footprint::AsIs {
        bail!("a simulation knows no metadata: give --fraction or --capacity-items");
    }
    let how = &options.how;
    let room = Room::of(plan, how.segments);
    let (capacity, segment) = (room.capacity, room.segment);
    let share = |part: f64| (part * capacity as f64) as u64;
    let floor = match options.fresh_floor() {
        FreshFloor::Share(part) => share(part),
        FreshFloor::Engine => share(FRESH_SHARE)
            .max(4 * segment)
            .max(room.bytes(plan, plan.item_bytes_max))
            .min(capacity / 4),
    };
    let config = SimulationConfig {
        segment_bytes: segment,
        fresh_min_bytes: floor,
        policy: how.policy,
        objective: how.objective,
        seed: how.seed,
        engine: room.engine,
        ..SimulationConfig::new(capacity)
    };
    let mut run = Run {
        simulation: Simulation::new(config),
        options,
        plan,
        room,
        hash: key_hash(how.seed),
        tally: Tally::default(),
        random: Random::lane(how.seed, 0),
        lives: (0.0, 0),
    };
    let started = Instant::now();
    let look_every = (facts.requests / LOOKS).max(1);
    for request in options.trace.open(options.format)? {
        run.request(&request?);
        if run.tally.requests.is_multiple_of(look_every) {
            run.look();
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    let counters = run.simulation.counters();
    if counters.misses < run.tally.misses {
        bail!(
            "{} misses were seen, {} counted",
            run.tally.misses,
            counters.misses
        );
    }
    let items = run.simulation.items().max(1);
    Ok(Outcome {
        simulated: true,
        segments: (capacity / segment) as u32,
        segment_bytes: segment,
        copied_bytes_per_inserted_byte: Some(counters.copied_per_inserted()),
        live_share: (run.lives.1 > 0).then(|| run.lives.0 / run.lives.1 as f64),
        metadata_bytes_per_item: Some(run.simulation.policy_bytes() as f64 / items as f64),
        threads: 1,
        seconds,
        ..Outcome::of(options, plan, &run.tally)?
    })
}

/// The room that is simulated: an engine's, its records and segments as large as there, or, where the cache is too small
/// for one, what was asked for.
#[derive(Clone, Copy)]
struct Room {
    capacity: u64,
    segment: u64,
    engine: Option<EngineRoom>,
}

impl Room {
    fn of(plan: &Plan, segments: u32) -> Room {
        match plan.shape {
            Some(shape) if plan.items >= ITEMS_MIN => {
                let segment = shape.segment_bytes as u64;
                let capacity = segment * u64::from(shape.segments);
                Room {
                    capacity,
                    segment,
                    engine: Some(EngineRoom {
                        record_bytes_max: FOOTPRINT_MAX.max(segment / 4),
                        item_bytes_max: plan.item_size_max().unwrap_or(capacity),
                        head_bytes: (LONG_HEADER_BYTES + KEY_BYTES) as u64,
                        chunk_head_bytes: CHUNK_HEADER_BYTES,
                    }),
                }
            }
            _ => Room {
                capacity: plan.capacity,
                segment: (plan.capacity / u64::from(segments))
                    .max(plan.item_bytes_mean as u64)
                    .max(1),
                engine: None,
            },
        }
    }

    /// What an item takes; `bytes` as the trace has it.
    fn bytes(&self, plan: &Plan, bytes: u64) -> u64 {
        match self.engine {
            Some(_) => plan.footprint(bytes),
            None => bytes,
        }
    }
}

struct Run<'a, H> {
    simulation: Simulation,
    options: &'a ReplayOptions,
    plan: &'a Plan,
    room: Room,
    /// The engine's own, so that both sample the same keys.
    hash: H,
    tally: Tally,
    random: Random,
    lives: (f64, u64),
}

impl<H: Fn(&[u8]) -> u64> Run<'_, H> {
    fn request(&mut self, request: &Request) {
        let hash = (self.hash)(&request.id.to_le_bytes());
        let bytes = self.options.sizes().bytes(request);
        let held = self.room.bytes(self.plan, bytes);
        self.tally.requests += 1;
        match request.kind {
            Kind::Read | Kind::ReadModifyWrite | Kind::Scan => {
                self.tally.reads += 1;
                self.tally.read_bytes += bytes;
                if !self.simulation.request(hash, held) {
                    self.tally.misses += 1;
                    self.tally.missed_bytes += bytes;
                    self.tally.writes += 1;
                } else if self.options.how.overwrite_hits > 0.0
                    && self.random.unit() < self.options.how.overwrite_hits
                {
                    self.tally.writes += 1;
                    self.simulation.overwrite(hash, held);
                }
            }
            Kind::Delete => {
                self.simulation.remove(hash);
            }
            Kind::Write | Kind::Insert | Kind::Update | Kind::Add => {
                self.tally.writes += 1;
                self.simulation.overwrite(hash, held);
            }
        }
    }

    fn look(&mut self) {
        if self.simulation.counters().evicted > 0 {
            self.lives.0 += self.simulation.live_share();
            self.lives.1 += 1;
        }
    }
}
