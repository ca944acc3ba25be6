//! The policy without bytes, for the lab: the same verdicts, duel and shadows the engine runs.

pub use crate::compress::score::{Assumed, Crowd, Scored, Scoring};
pub use crate::policy::simulation::{
    mixed, EngineRoom, Simulation, SimulationConfig, SimulationCounters,
};
pub use crate::policy::{Conditions, Duel, Setting, Shadow};

use crate::policy::{Objective, ReclaimPolicy};

/// The settings a policy chooses from; it starts with the first.
pub fn settings(policy: ReclaimPolicy, objective: Objective) -> &'static [Setting] {
    policy.settings(objective)
}

/// The hash by which a cache of this seed knows a key: a simulation that is told these samples the same keys.
pub fn key_hash(seed: u64) -> impl Fn(&[u8]) -> u64 {
    let hasher = crate::hash::Hasher::new(seed);
    move |key| hasher.hash(key)
}
