//! The other engines through the same loop: the same keys, the same sizes, one shard for one thread, so that
//! a small cache is not cut into smaller ones. What they keep beside the payload is charged to them, or not.

use super::drive::{drive, Hit, Target, KEY_BYTES};
use super::options::ReplayOptions;
use super::outcome::Outcome;
use super::plan::{Footprint, Plan};
use crate::engines::engine::{Engine, Reading};
use crate::engines::options::Equal;
use crate::engines::rivals::{Foyer, Moka, QuickCache, Room, SegPolicy, Segcache};
use crate::engines::Arm;
use crate::trace::Facts;
use anyhow::{bail, Result};
use std::time::Instant;

pub fn replay(options: &ReplayOptions, plan: &Plan, facts: &Facts) -> Result<Outcome> {
    let arm = options.how.engine;
    let bytes = match &plan.shape {
        Some(shape) => shape.segment_bytes as u64 * u64::from(shape.segments),
        None => plan.memory,
    };
    let scale = plan.scale();
    // Unit items weigh exactly one, or a cache of so many would hold one less.
    let bytes = match plan.footprint {
        Footprint::Fixed(footprint) => plan.items * footprint,
        _ => bytes,
    };
    let charge = match options.how.equal {
        Equal::Payload => 0.0,
        Equal::Memory => f64::from(arm.metadata_bytes()) * scale,
    };
    let largest = plan.footprint(facts.item_bytes_max);
    let room = Room {
        bytes,
        charge_per_item: charge.round() as u32,
        items: plan.items.max(1),
        threads: options.how.threads,
        value_bytes_max: largest.min(bytes / 64).min(u64::from(u32::MAX)) as u32,
        shards: (options.how.threads == 1).then_some(1),
    };
    let mut outcome = match arm {
        Arm::Moka => with(Moka::new(room), options, plan, facts),
        Arm::QuickCache => with(QuickCache::new(room), options, plan, facts),
        Arm::Foyer => with(Foyer::new(room), options, plan, facts),
        Arm::Segcache => {
            // It has no weights: what its table costs comes off its heap.
            let mean = plan.footprint(plan.item_bytes_mean as u64).max(1) as f64;
            let bytes = (bytes as f64 * mean / (mean + charge)) as u64;
            let room = Room { bytes, ..room };
            with(
                Segcache::new(room, SegPolicy::S3Fifo)?,
                options,
                plan,
                facts,
            )
        }
        Arm::Thermocline | Arm::Null => bail!("{} is no rival", arm.name()),
    }?;
    outcome.policy = match arm {
        Arm::Moka => "w-tinylfu",
        Arm::QuickCache => "clock-pro",
        _ => "s3fifo",
    }
    .into();
    Ok(outcome)
}

fn with<E: Engine>(
    engine: E,
    options: &ReplayOptions,
    plan: &Plan,
    facts: &Facts,
) -> Result<Outcome> {
    let started = Instant::now();
    let rival = Rival { engine };
    let tally = drive(&rival, options, plan, facts.requests)?;
    Ok(Outcome {
        seconds: started.elapsed().as_secs_f64(),
        ..Outcome::of(options, plan, &tally)?
    })
}

struct Rival<E> {
    engine: E,
}

impl<E: Engine> Target for Rival<E> {
    fn get(&self, key: &[u8; KEY_BYTES]) -> Option<Hit> {
        let found = self.engine.get(key, Reading::Head, &mut Vec::new())?;
        Some(Hit {
            value_bytes: found.value_bytes,
            head: found.head,
        })
    }

    fn set(&self, key: &[u8; KEY_BYTES], value: &[u8], _ttl_s: u32) -> bool {
        let is_stored = self.engine.set(key, value);
        // Evictions that are queued are done now: the cache is as large as it says.
        self.engine.settle();
        is_stored
    }

    fn delete(&self, key: &[u8; KEY_BYTES]) {
        self.engine.delete(key);
    }

    fn value_bytes(&self, footprint: u64) -> Option<usize> {
        let bytes = (footprint as usize).saturating_sub(KEY_BYTES);
        (bytes < 1 << 29).then_some(bytes)
    }
}
