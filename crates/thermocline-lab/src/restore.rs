//! `thermolab restore`: puts back the knobs of a run that was killed. Owns the verb alone; the undoing is `knob`'s.

use crate::knob::{undo_all, Journal, System};
use crate::root::Root;
use anyhow::Result;
use clap::Args;
use std::path::PathBuf;

/// Put back what a killed run left changed on this machine
#[derive(Args, Debug)]
pub struct RestoreOptions {
    /// Print what would be put back, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// A directory that imitates a machine, instead of this one
    #[arg(long, value_name = "DIR", hide = true, default_value = "/")]
    pub system_root: PathBuf,
}

/// Undoes every change in the journal. An error leaves in the journal what could not be undone.
pub fn run(options: &RestoreOptions) -> Result<()> {
    let system = System::of(Root::at(&options.system_root));
    let mut journal = Journal::open(&system.root)?;
    if journal.pending().is_empty() {
        println!(
            "nothing to restore: no change is booked in {}",
            journal.path().display()
        );
        return Ok(());
    }
    if options.dry_run {
        for (_, undo) in journal.pending().iter().rev() {
            println!("would {}", undo.describe());
        }
        return Ok(());
    }
    let restored = undo_all(&system, &mut journal)?;
    for what in &restored.done {
        println!("{what}");
    }
    for what in &restored.skipped {
        println!("gone by itself, the machine was restarted: {what}");
    }
    Ok(())
}
