//! `thermolab replay`: a trace through the real engine, by public calls, and what came of it.
//!
//! One run is one process of its own, so that its memory is its own. Owns what "a cache of N items" or "of a
//! fraction of the trace's bytes" means for an engine of segments (`plan`), what size a key's item has
//! (`sizes`), and the loop (`drive`). Must hold: misses are counted from what the calls answered, and equal
//! what the engine says of itself, or the run fails.

pub mod acceptance;
pub mod curve_check;
pub mod drive;
pub mod options;
pub mod outcome;
pub mod plan;
pub mod real;
pub mod rival;
pub mod simulate;
pub mod sizes;
pub mod suite;
pub mod table;

pub use options::ReplayOptions;
pub use outcome::Outcome;
pub use sizes::Sizes;
pub use suite::SuiteOptions;

use crate::engines::options::Equal;
use crate::engines::Arm;
use crate::trace::Facts;
use anyhow::{Context, Result};

/// Runs one replay and prints its outcome.
pub fn run(options: &ReplayOptions) -> Result<()> {
    let outcome = replay(options)?;
    match options.json {
        true => println!("{}", serde_json::to_string(&outcome)?),
        false => print!("{}", outcome.to_text()),
    }
    Ok(())
}

/// Runs one replay.
pub fn replay(options: &ReplayOptions) -> Result<Outcome> {
    options.check()?;
    let facts = facts(options)?;
    let plan = plan::Plan::new(options, &facts)?;
    let is_ours = options.how.engine == Arm::Thermocline;
    let plan = match options.how.equal {
        Equal::Memory if is_ours => plan.charged(real::METADATA_BYTES)?,
        _ => plan,
    };
    let too_small = options.simulate_small && plan.items < plan::ITEMS_MIN;
    let mut outcome = match options.how.engine {
        Arm::Thermocline if options.how.simulate || too_small => {
            simulate::replay(options, &plan, &facts)
        }
        Arm::Thermocline => real::replay(options, plan, &facts),
        _ => rival::replay(options, &plan, &facts),
    }
    .with_context(|| format!("replaying {}", options.trace.name()))?;
    outcome.keys = facts.keys;
    outcome.keys_are_estimated = facts.is_estimate;
    Ok(outcome)
}

/// What the trace holds, by a first pass over it.
fn facts(options: &ReplayOptions) -> Result<Facts> {
    let sizes = options.sizes();
    let reader = options.trace.open(options.format)?;
    let facts = Facts::of(reader, |request| sizes.bytes(request))?;
    anyhow::ensure!(facts.requests > 0, "{} is empty", options.trace.name());
    Ok(facts)
}
