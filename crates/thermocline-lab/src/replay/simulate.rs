//! The policy without bytes: the same rules, duel and ghosts, at segment grain, for caches of any size. Faster, and
//! what the real engine must agree with.

use super::drive::Tally;
use super::options::{FreshFloor, ReplayOptions};
use super::outcome::Outcome;
use super::plan::{Footprint, Plan};
use crate::trace::{Facts, Request};
use crate::workload::{Kind, Random};
use anyhow::{bail, Result};
use std::time::Instant;
use thermocline::simulate::{mixed, Simulation, SimulationConfig};

/// Times a run looks at how much is live.
const LOOKS: u64 = 256;
/// Of the engine's own fresh floor: a share of the cache.
const FRESH_SHARE: f64 = 0.02;

pub fn replay(options: &ReplayOptions, plan: &Plan, facts: &Facts) -> Result<Outcome> {
    if plan.footprint == Footprint::AsIs {
        bail!("a simulation knows no metadata: give --fraction or --capacity-items");
    }
    let how = &options.how;
    let segment = (plan.capacity / u64::from(how.segments)).max(plan.item_bytes_mean as u64);
    let share = |part: f64| (part * plan.capacity as f64) as u64;
    let floor = match options.fresh_floor() {
        FreshFloor::Share(part) => share(part),
        FreshFloor::Engine => share(FRESH_SHARE)
            .max(4 * segment)
            .max(plan.item_bytes_max)
            .min(plan.capacity / 4),
    };
    let config = SimulationConfig {
        segment_bytes: segment.max(1),
        fresh_min_bytes: floor,
        policy: how.policy,
        objective: how.objective,
        seed: how.seed,
        ..SimulationConfig::new(plan.capacity)
    };
    let mut run = Run {
        simulation: Simulation::new(config),
        options,
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
        segments: (plan.capacity / segment.max(1)) as u32,
        segment_bytes: segment,
        scale: 1.0,
        capacity_bytes: plan.capacity,
        copied_bytes_per_inserted_byte: Some(counters.copied_per_inserted()),
        live_share: (run.lives.1 > 0).then(|| run.lives.0 / run.lives.1 as f64),
        metadata_bytes_per_item: Some(run.simulation.policy_bytes() as f64 / items as f64),
        threads: 1,
        seconds,
        ..Outcome::of(options, plan, &run.tally)?
    })
}

struct Run<'a> {
    simulation: Simulation,
    options: &'a ReplayOptions,
    tally: Tally,
    random: Random,
    lives: (f64, u64),
}

impl Run<'_> {
    fn request(&mut self, request: &Request) {
        let hash = mixed(self.options.how.seed, request.id);
        let bytes = self.options.sizes().bytes(request);
        self.tally.requests += 1;
        match request.kind {
            Kind::Read | Kind::ReadModifyWrite | Kind::Scan => {
                self.tally.reads += 1;
                self.tally.read_bytes += bytes;
                if !self.simulation.request(hash, bytes) {
                    self.tally.misses += 1;
                    self.tally.missed_bytes += bytes;
                    self.tally.writes += 1;
                } else if self.options.how.overwrite_hits > 0.0
                    && self.random.unit() < self.options.how.overwrite_hits
                {
                    self.tally.writes += 1;
                    self.simulation.overwrite(hash, bytes);
                }
            }
            Kind::Delete => {
                self.simulation.remove(hash);
            }
            Kind::Write | Kind::Insert | Kind::Update | Kind::Add => {
                self.tally.writes += 1;
                self.simulation.overwrite(hash, bytes);
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
