//! The machine's knobs: swap, zswap, zram, huge pages, tmpfs mounts, hugetlb pools, caches, cgroup limits, lru_gen.
//! Owns their names, the changing, the reading back and the undoing; leaves to the runner when.
//!
//! ```text
//! Plan::parse (pure) -> Plan::changes (what would change, or why this machine cannot)
//!   -> apply: for each knob  journal (synced) -> change -> read back
//!   -> Held: what is in force -> restore: newest first, each read back
//! ```
//!
//! What must hold: no knob is touched that the arm does not name, and a process killed at any moment leaves a
//! journal from which `thermolab restore` puts everything back.

mod apply;
mod expect;
mod group;
mod held;
mod interrupt;
mod journal;
mod names;
mod plan;
mod restore;
mod system;
mod trouble;
mod undo;
mod zram;

pub use apply::InForce;
pub use group::{Group, Version};
pub use held::{in_force, restore_held, Held};
pub use interrupt::{interrupted, restore_on_signals};
pub use journal::Journal;
pub use plan::{Change, Plan};
pub use restore::{undo_all, Restored};
pub use system::System;
pub use trouble::Trouble;
