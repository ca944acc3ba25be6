//! Turning an arm's knobs: for each, book the undo, make the change, read it back. Whatever goes wrong on the way, what was
//! changed so far is undone before the error is returned.
//!
//! Must hold: nothing is changed that the plan does not name, and nothing before its undo is on disk.

use super::group::Group;
use super::journal::Journal;
use super::names::FileKnob;
use super::plan::{Plan, SwapFile, Tmpfs, Zram, TMPFS};
use super::system::System;
use super::trouble::Trouble;
use super::undo::Undo;
use super::{restore, zram};
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// What is in force after a plan was applied.
#[derive(Clone, Debug, Default)]
pub struct InForce {
    /// Knob -> the value as the machine says it back.
    pub read_back: BTreeMap<String, Value>,
    pub tmpfs: Option<String>,
    pub group: Option<Group>,
    /// The zram device in use as swap.
    pub zram: Option<String>,
    pub warnings: Vec<String>,
}

/// Turns every knob of the plan, or none.
pub fn apply(system: &System, plan: &Plan, journal: &mut Journal) -> Result<InForce, Trouble> {
    plan.changes(system)?;
    if !journal.pending().is_empty() {
        return Err(Trouble::failed(format!(
            "an earlier run was killed while it held knobs (see {}): run `thermolab restore` first",
            journal.path().display()
        )));
    }
    let mut turner = Turner {
        system,
        journal,
        in_force: InForce::default(),
    };
    match turner.turn_all(plan) {
        Ok(()) => Ok(turner.in_force),
        Err(trouble) => match restore::undo_all(system, journal) {
            Ok(_) => Err(trouble),
            Err(more) => Err(Trouble::failed(format!("{trouble}; and then {more}"))),
        },
    }
}

struct Turner<'a> {
    system: &'a System,
    journal: &'a mut Journal,
    in_force: InForce,
}

impl Turner<'_> {
    fn turn_all(&mut self, plan: &Plan) -> Result<(), Trouble> {
        for knob in &plan.files {
            self.file(knob)?;
        }
        if plan.swap_existing_off {
            self.swap_existing_off()?;
        }
        if let Some(swap) = &plan.swap_file {
            self.swap_file(swap)?;
        }
        if let Some(zram) = &plan.zram {
            self.zram(zram)?;
        }
        if let Some(tmpfs) = &plan.tmpfs {
            self.tmpfs(tmpfs)?;
        }
        if let Some(limits) = &plan.limits {
            self.group(Group::lay_out(self.system, limits)?)?;
        }
        match plan.drop_caches {
            Some(level) => self.drop_caches(level),
            None => Ok(()),
        }
    }

    fn file(&mut self, knob: &FileKnob) -> Result<(), Trouble> {
        let refused = |why: String| Trouble::refused(format!("machine.{}: {why}", knob.name));
        let was = self.system.root.read(&knob.path).map_err(refused)?;
        // Brackets mark the present choice; only the word itself can be written back.
        let was = crate::root::chosen(&was).to_string();
        self.journal.before(Undo::Write {
            path: knob.path.clone(),
            was,
        })?;
        self.system
            .root
            .write(&knob.path, &knob.text)
            .map_err(|error| {
                refused(format!("writing `{}` to {}: {error}", knob.text, knob.path))
            })?;
        let read = self.system.root.read(&knob.path).map_err(refused)?;
        if !knob.expect.holds(&read) {
            return Err(refused(format!(
                "asked {} for `{}`, it says `{}`",
                knob.path,
                knob.text,
                knob.expect.shown(&read)
            )));
        }
        self.say(&knob.name, json!(knob.expect.shown(&read)));
        Ok(())
    }

    fn swap_existing_off(&mut self) -> Result<(), Trouble> {
        for (path, priority) in self.system.swaps() {
            self.journal.before(Undo::SwapOn {
                path: path.clone(),
                priority,
            })?;
            self.system.swap_off(&path).map_err(Trouble::refused)?;
        }
        match self.system.swaps().as_slice() {
            [] => {
                self.say("swap_existing", json!("off"));
                Ok(())
            }
            left => Err(Trouble::refused(format!(
                "machine.swap_existing: still in use after swapoff: {left:?}"
            ))),
        }
    }

    fn swap_file(&mut self, swap: &SwapFile) -> Result<(), Trouble> {
        let refused = |why: String| Trouble::refused(format!("machine.swap_file: {why}"));
        let path = format!("{}/thermolab-{}.swap", swap.directory, std::process::id());
        self.journal
            .before(Undo::RemoveFile { path: path.clone() })?;
        self.system
            .make_swap_file(&path, swap.bytes)
            .map_err(refused)?;
        self.swap_on(&path, swap.priority).map_err(refused)?;
        self.say("swap_file", json!(swap.bytes));
        Ok(())
    }

    fn swap_on(&mut self, path: &str, priority: Option<i64>) -> Result<(), String> {
        self.journal
            .before(Undo::SwapOff { path: path.into() })
            .map_err(|trouble| trouble.to_string())?;
        self.system.swap_on(path, priority)?;
        match self.system.swaps().iter().any(|(file, _)| file == path) {
            true => Ok(()),
            false => Err(format!(
                "swapon {path} succeeded, but /proc/swaps does not list it"
            )),
        }
    }

    fn zram(&mut self, wanted: &Zram) -> Result<(), Trouble> {
        let refused = |why: String| Trouble::refused(format!("machine.zram: {why}"));
        let device = self.zram_device()?;
        if let Some(algorithm) = &wanted.algorithm {
            let name = zram::file(&device, "comp_algorithm");
            self.file(&FileKnob {
                name: "zram_algorithm".into(),
                path: name,
                text: algorithm.clone(),
                expect: super::expect::Expect::Word(algorithm.clone()),
            })?;
        }
        self.journal.before(Undo::ResetZram {
            device: device.clone(),
        })?;
        let size = zram::file(&device, "disksize");
        self.system
            .root
            .write(&size, &wanted.bytes.to_string())
            .map_err(|error| refused(format!("{size}: {error}")))?;
        let node = zram::node(&device);
        self.system.make_swap(&node).map_err(refused)?;
        // Above any swap on disk, which has a negative priority unless someone gave it one.
        self.swap_on(&node, Some(100)).map_err(refused)?;
        self.say("zram", json!(wanted.bytes));
        self.in_force.zram = Some(device);
        Ok(())
    }

    /// An idle device, or a new one.
    fn zram_device(&mut self) -> Result<String, Trouble> {
        if let Some(device) = zram::idle(self.system) {
            return Ok(device);
        }
        self.journal.before(Undo::RemoveNewZram {
            before: zram::devices(self.system),
        })?;
        zram::add(self.system).map_err(Trouble::refused)
    }

    fn tmpfs(&mut self, tmpfs: &Tmpfs) -> Result<(), Trouble> {
        let refused = |why: String| Trouble::refused(format!("machine.tmpfs: {why}"));
        let directory = self.system.root.path(TMPFS);
        if !directory.exists() {
            self.journal
                .before(Undo::RemoveDirectory { path: TMPFS.into() })?;
            std::fs::create_dir_all(&directory)
                .map_err(|error| refused(format!("{TMPFS}: {error}")))?;
        }
        self.journal.before(Undo::Unmount { path: TMPFS.into() })?;
        self.system
            .mount_tmpfs(TMPFS, &tmpfs.options())
            .map_err(refused)?;
        let options = self.system.mount_options(TMPFS).unwrap_or_default();
        if let Some(huge) = tmpfs.huge.as_ref().filter(|huge| *huge != "never") {
            // The kernel prints no `huge=` for never.
            if !options
                .split(',')
                .any(|word| word == format!("huge={huge}"))
            {
                return Err(refused(format!(
                    "asked for huge={huge}, mounted with {options}"
                )));
            }
        }
        self.say("tmpfs", json!(options));
        self.in_force.tmpfs = Some(self.system.root.path(TMPFS).display().to_string());
        Ok(())
    }

    fn group(&mut self, group: Group) -> Result<(), Trouble> {
        for directory in &group.directories {
            self.journal.before(Undo::RemoveGroup {
                path: directory.clone(),
            })?;
            self.system
                .make_group(directory)
                .map_err(Trouble::refused)?;
        }
        for (path, value) in group.writes() {
            self.group_write(&path, &value)?;
        }
        self.in_force.group = Some(group);
        Ok(())
    }

    /// A group's files need no undo of their own: the group goes.
    fn group_write(&mut self, path: &str, value: &str) -> Result<(), Trouble> {
        let refused = |why: String| Trouble::refused(format!("machine.cgroup: {path}: {why}"));
        let expect = match value.parse::<u64>() {
            Ok(bytes) => super::expect::Expect::Bytes(Some(bytes)),
            Err(_) => super::expect::Expect::Text(value.into()),
        };
        if !self.system.root.exists(path) {
            return Err(refused(
                "not there: is this controller handed to the group?".into(),
            ));
        }
        self.system
            .root
            .write(path, value)
            .map_err(|error| refused(format!("writing `{value}`: {error}")))?;
        let read = self.system.root.read(path).map_err(refused)?;
        if !expect.holds(&read) {
            return Err(refused(format!("asked for `{value}`, it says `{read}`")));
        }
        let file = path.rsplit('/').next().unwrap_or(path);
        self.say(&format!("cgroup.{file}"), json!(read));
        Ok(())
    }

    fn drop_caches(&mut self, level: u64) -> Result<(), Trouble> {
        let path = "/proc/sys/vm/drop_caches";
        // Only clean pages are dropped: what is dirty is written out first.
        rustix::fs::sync();
        self.system
            .root
            .write(path, &level.to_string())
            .map_err(|error| Trouble::refused(format!("machine.drop_caches: {path}: {error}")))?;
        self.say("drop_caches", json!(level));
        Ok(())
    }

    fn say(&mut self, knob: &str, value: Value) {
        self.in_force.read_back.insert(knob.into(), value);
    }
}
