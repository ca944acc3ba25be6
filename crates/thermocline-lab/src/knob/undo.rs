//! How each kind of change is undone. Every undo may find its change not made, half made, or already undone,
//! and then does nothing: it is run after a crash as well as at the end of a point.
//! Values are written as they were and read back; what the lab made (swap files, mounts, cgroups) is removed.

use super::system::System;
use super::zram;
use serde::{Deserialize, Serialize};
use std::fs;

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Undo {
    /// Write the old value back.
    Write { path: String, was: String },
    /// Take swap that the lab made out of use.
    SwapOff { path: String },
    /// Put swap that was there before into use again.
    SwapOn { path: String, priority: i64 },
    /// Remove a file the lab made.
    RemoveFile { path: String },
    /// Remove a directory the lab made, if it is empty.
    RemoveDirectory { path: String },
    /// Unmount what the lab mounted.
    Unmount { path: String },
    /// Remove a cgroup the lab made, ending what still runs in it.
    RemoveGroup { path: String },
    /// Empty a zram device that was empty before.
    ResetZram { device: String },
    /// Remove zram devices that came since, if nobody uses them.
    RemoveNewZram { before: Vec<String> },
}

impl Undo {
    /// What will be done, for the user.
    pub fn describe(&self) -> String {
        match self {
            Undo::Write { path, was } => format!("write `{was}` to {path}"),
            Undo::SwapOff { path } => format!("swapoff {path}"),
            Undo::SwapOn { path, priority } => format!("swapon {path} (priority {priority})"),
            Undo::RemoveFile { path } => format!("remove {path}"),
            Undo::RemoveDirectory { path } => format!("remove the directory {path}"),
            Undo::Unmount { path } => format!("unmount {path}"),
            Undo::RemoveGroup { path } => format!("remove the cgroup {path}"),
            Undo::ResetZram { device } => format!("reset {device}"),
            Undo::RemoveNewZram { .. } => "remove the zram device that was added".into(),
        }
    }

    /// Whether a restart of the machine undoes it too.
    pub fn is_gone_after_a_restart(&self) -> bool {
        !matches!(self, Undo::RemoveFile { .. } | Undo::RemoveDirectory { .. })
    }

    /// Undoes it, or says why that did not work.
    pub fn run(&self, system: &System) -> Result<(), String> {
        match self {
            Undo::Write { path, was } => write_back(system, path, was),
            Undo::SwapOff { path } => system.swap_off(path),
            Undo::SwapOn { path, priority } => system.swap_on(path, Some(*priority)),
            Undo::RemoveFile { path } => gone(fs::remove_file(system.root.path(path)), path),
            Undo::RemoveDirectory { path } => gone(fs::remove_dir(system.root.path(path)), path),
            Undo::Unmount { path } => system.unmount(path),
            Undo::RemoveGroup { path } => system.remove_group(path),
            Undo::ResetZram { device } => zram::reset(system, device),
            Undo::RemoveNewZram { before } => zram::remove_new(system, before),
        }
    }
}

/// A file of a cgroup that is gone, or of a module unloaded since, has nothing left to restore.
fn write_back(system: &System, path: &str, was: &str) -> Result<(), String> {
    if !system.root.exists(path) {
        return Ok(());
    }
    system
        .root
        .write(path, was)
        .map_err(|error| format!("{path}: {error}"))?;
    let read = system
        .root
        .read(path)
        .map_err(|why| format!("{path}: {why}"))?;
    let (read, was) = (crate::root::chosen(&read), was.trim());
    match read == was {
        true => Ok(()),
        false => Err(format!("{path}: wrote `{was}` back, it says `{read}`")),
    }
}

fn gone(result: std::io::Result<()>, path: &str) -> Result<(), String> {
    match result {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(format!("{path}: {error}")),
    }
}
