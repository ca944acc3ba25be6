//! The policy without bytes, for the lab: the same verdicts, duel and shadows the engine runs.

pub use crate::compress::score::{Assumed, Crowd, Scored, Scoring};
pub use crate::policy::simulation::{mixed, Simulation, SimulationConfig, SimulationCounters};
pub use crate::policy::{Conditions, Duel, Setting, Shadow};

use crate::policy::{Objective, ReclaimPolicy};

/// The settings a policy chooses from; it starts with the first.
pub fn settings(policy: ReclaimPolicy, objective: Objective) -> &'static [Setting] {
    policy.settings(objective)
}
