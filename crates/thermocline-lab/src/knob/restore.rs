//! Putting back what the journal says was changed, newest first. Used at the end of a point, on a signal, and by
//! `thermolab restore` after a run was killed.

use super::journal::Journal;
use super::system::System;
use super::trouble::Trouble;

/// What became of each change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Restored {
    pub done: Vec<String>,
    /// Gone by itself when the machine was restarted.
    pub skipped: Vec<String>,
}

/// Undoes every change in force. One that fails stays in the journal, the others are undone all the same.
pub fn undo_all(system: &System, journal: &mut Journal) -> Result<Restored, Trouble> {
    let mut restored = Restored::default();
    let mut failures = Vec::new();
    let pending: Vec<_> = journal.pending().iter().rev().cloned().collect();
    let another_boot = journal.from_another_boot();
    for (step, undo) in pending {
        let what = undo.describe();
        if another_boot && undo.is_gone_after_a_restart() {
            restored.skipped.push(what);
            journal.undone(step)?;
            continue;
        }
        match undo.run(system) {
            Ok(()) => {
                restored.done.push(what);
                journal.undone(step)?;
            }
            Err(why) => failures.push(format!("{what}: {why}")),
        }
    }
    match failures.is_empty() {
        true => Ok(restored),
        false => Err(Trouble::failed(format!(
            "not undone: {}; `thermolab restore` tries again",
            failures.join("; ")
        ))),
    }
}
