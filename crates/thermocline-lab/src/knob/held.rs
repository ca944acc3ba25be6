//! The changes in force now. There is one journal for a machine, so there is one such place in a process: the point puts it
//! there, a signal's thread may have to empty it, and subjects look up the cgroup and the mount they are to use.

use super::apply::{self, InForce};
use super::journal::Journal;
use super::plan::Plan;
use super::restore;
use super::system::System;
use super::trouble::Trouble;
use std::sync::{Mutex, MutexGuard, PoisonError};

struct Holding {
    system: System,
    journal: Journal,
    in_force: InForce,
}

static HOLDING: Mutex<Option<Holding>> = Mutex::new(None);

/// Restores when dropped.
#[derive(Debug)]
pub struct Held {
    in_force: InForce,
    restored: bool,
}

impl Held {
    /// Turns the plan's knobs. An empty plan opens no journal.
    pub fn apply(system: &System, plan: &Plan) -> Result<Self, Trouble> {
        let mut held = Held {
            in_force: InForce::default(),
            restored: false,
        };
        if plan.is_empty() {
            return Ok(held);
        }
        // Refused before the journal is opened: without root that is not allowed either.
        plan.changes(system)?;
        // Held throughout: a signal in the middle waits until the journal is whole, and then undoes.
        let mut holding = holding();
        if holding.is_some() {
            return Err(Trouble::failed("this process holds knobs already"));
        }
        let mut journal = Journal::open(&system.root)?;
        held.in_force = apply::apply(system, plan, &mut journal)?;
        *holding = Some(Holding {
            system: system.clone(),
            journal,
            in_force: held.in_force.clone(),
        });
        Ok(held)
    }

    pub fn in_force(&self) -> &InForce {
        &self.in_force
    }

    pub fn restore(mut self) -> Result<(), Trouble> {
        self.restored = true;
        restore_held()
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.restored || self.in_force.read_back.is_empty() && self.in_force.group.is_none() {
            return;
        }
        if let Err(trouble) = restore_held() {
            eprintln!("thermolab: {trouble}");
        }
    }
}

/// What is in force in this process; nothing when no knob is held.
pub fn in_force() -> Option<InForce> {
    holding().as_ref().map(|holding| holding.in_force.clone())
}

/// Puts back whatever this process holds; nothing to do is fine.
pub fn restore_held() -> Result<(), Trouble> {
    let mut holding = holding();
    let Some(mut held) = holding.take() else {
        return Ok(());
    };
    restore::undo_all(&held.system, &mut held.journal).map(drop)
}

/// A panic elsewhere must not keep knobs from being restored.
fn holding() -> MutexGuard<'static, Option<Holding>> {
    HOLDING.lock().unwrap_or_else(PoisonError::into_inner)
}
