//! The knobs one arm names, checked and in the order in which they are turned. Made from the arm's parameters alone;
//! says what it will change on this machine, or why this machine cannot.

use super::group::Limits;
use super::names::{self, FileKnob};
use super::system::System;
use super::trouble::Trouble;
use super::zram;
use serde_json::Value;
use std::collections::BTreeMap;

/// Swap files go here unless an arm says otherwise: a directory on disk that lives as long as the boot.
const SWAP_DIRECTORY: &str = "/var/tmp";
/// Largest swap file, zram device or tmpfs an arm may ask for: a typing error should not fill a disk.
const BYTES_MAX: u64 = 1 << 40;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SwapFile {
    pub bytes: u64,
    pub directory: String,
    pub priority: Option<i64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zram {
    pub bytes: u64,
    pub algorithm: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tmpfs {
    pub bytes: u64,
    pub huge: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    pub files: Vec<FileKnob>,
    /// Take the swap that is there out of use.
    pub swap_existing_off: bool,
    pub swap_file: Option<SwapFile>,
    pub zram: Option<Zram>,
    pub tmpfs: Option<Tmpfs>,
    pub limits: Option<Limits>,
    /// 1 page cache, 2 slab, 3 both; the last thing done.
    pub drop_caches: Option<u64>,
}

/// One thing that will be changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub what: String,
    pub from: String,
    pub to: String,
}

impl std::fmt::Display for Change {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} -> {}", self.what, self.from, self.to)
    }
}

impl Plan {
    /// Reads an arm's `machine.*` parameters, given without that prefix (with it they are taken too).
    pub fn parse(parameters: &BTreeMap<String, Value>) -> Result<Self, String> {
        let named: BTreeMap<&str, &Value> = parameters
            .iter()
            .map(|(name, value)| (name.strip_prefix("machine.").unwrap_or(name), value))
            .collect();
        let mut plan = Plan::default();
        for (name, value) in &named {
            match names::file_knob(name, value) {
                Some(knob) => plan.files.push(knob?),
                None if names::is_compound(name) => {}
                None => return Err(names::unknown(name)),
            }
        }
        plan.files.sort_by_key(|knob| names::order(&knob.name));
        plan.compound(&named)?;
        Ok(plan)
    }

    fn compound(&mut self, named: &BTreeMap<&str, &Value>) -> Result<(), String> {
        self.swap_existing_off = match named.get("swap_existing") {
            Some(value) => !read(named, "swap_existing", names::truth)?
                .ok_or_else(|| format!("machine.swap_existing: `{value}`: say off or on"))?,
            None => false,
        };
        self.swap_file = match sized(named, "swap_file")? {
            Some(bytes) => Some(SwapFile {
                bytes,
                directory: directory(read(named, "swap_directory", names::plain)?)?,
                priority: read(named, "swap_priority", names::number)?.map(|p| p.min(32767) as i64),
            }),
            None => None,
        };
        self.zram = match sized(named, "zram")? {
            Some(bytes) => Some(Zram {
                bytes,
                algorithm: read(named, "zram_algorithm", names::plain)?,
            }),
            None => None,
        };
        self.tmpfs = match sized(named, "tmpfs.size")? {
            Some(bytes) => Some(Tmpfs {
                bytes,
                huge: read(named, "tmpfs.huge", names::plain)?,
            }),
            None if named.contains_key("tmpfs.huge") => {
                return Err("machine.tmpfs.huge needs machine.tmpfs.size".into())
            }
            None => None,
        };
        self.limits = Limits::parse(named)?;
        self.drop_caches = read(named, "drop_caches", names::number)?;
        match self.drop_caches {
            None | Some(1..=3) => Ok(()),
            Some(other) => Err(format!("machine.drop_caches: `{other}`: 1, 2 or 3")),
        }
    }

    pub fn is_empty(&self) -> bool {
        *self == Plan::default()
    }

    /// What will be changed, before anything is. Refused when this machine lacks a knob or we lack the right.
    pub fn changes(&self, system: &System) -> Result<Vec<Change>, Trouble> {
        if self.is_empty() {
            return Ok(Vec::new());
        }
        if !system.privileged {
            return Err(Trouble::refused(format!(
                "{} needs root",
                self.first_name()
            )));
        }
        let mut changes = Vec::new();
        for knob in &self.files {
            changes.push(file_change(system, knob)?);
        }
        if self.swap_existing_off {
            for (path, _) in system.swaps() {
                changes.push(change(&format!("swap {path}"), "on", "off"));
            }
        }
        if let Some(swap) = &self.swap_file {
            let what = format!("swap file of {} bytes in {}", swap.bytes, swap.directory);
            changes.push(change(&what, "none", "on"));
        }
        if let Some(zram) = &self.zram {
            changes.push(zram_change(system, zram)?);
        }
        if let Some(tmpfs) = &self.tmpfs {
            changes.push(change(TMPFS, "not mounted", &tmpfs.options()));
        }
        if let Some(limits) = &self.limits {
            limits.check(system)?;
            changes.push(change("cgroup", "none", &limits.describe()));
        }
        if let Some(level) = self.drop_caches {
            changes.push(change(
                "/proc/sys/vm/drop_caches",
                "(acts once)",
                &level.to_string(),
            ));
        }
        Ok(changes)
    }

    fn first_name(&self) -> String {
        let file = self.files.first().map(|knob| knob.name.clone());
        let compound = [
            (self.swap_existing_off, "swap_existing"),
            (self.swap_file.is_some(), "swap_file"),
            (self.zram.is_some(), "zram"),
            (self.tmpfs.is_some(), "tmpfs"),
            (self.limits.is_some(), "cgroup"),
            (self.drop_caches.is_some(), "drop_caches"),
        ];
        let name = file.or_else(|| {
            let named = compound.iter().find(|(is_there, _)| *is_there);
            named.map(|(_, name)| name.to_string())
        });
        format!("machine.{}", name.unwrap_or_default())
    }
}

/// Where an arm's tmpfs is mounted, under the root.
pub const TMPFS: &str = "/var/lib/thermolab/tmpfs";

impl Tmpfs {
    pub fn options(&self) -> String {
        let huge = self.huge.as_ref().map(|huge| format!(",huge={huge}"));
        format!("size={}{}", self.bytes, huge.unwrap_or_default())
    }
}

fn file_change(system: &System, knob: &FileKnob) -> Result<Change, Trouble> {
    let read = system.root.read(&knob.path).map_err(|why| {
        let release = system.root.read("/proc/sys/kernel/osrelease");
        Trouble::refused(format!(
            "machine.{}: {}: {why} (Linux {})",
            knob.name,
            knob.path,
            release.unwrap_or_else(|_| "of unknown release".into())
        ))
    })?;
    Ok(change(&knob.path, &knob.expect.shown(&read), &knob.text))
}

fn zram_change(system: &System, zram: &Zram) -> Result<Change, Trouble> {
    let device = match zram::idle(system) {
        Some(device) => device,
        None if zram::can_add(system) => "a new zram device".into(),
        None => {
            return Err(Trouble::refused(
                "machine.zram: no idle zram device and no /sys/class/zram-control/hot_add: this kernel has no zram, or the module is not loaded",
            ))
        }
    };
    let algorithm = zram.algorithm.as_deref().unwrap_or("its own algorithm");
    Ok(change(
        &device,
        "empty",
        &format!("swap of {} bytes, {algorithm}", zram.bytes),
    ))
}

fn change(what: &str, from: &str, to: &str) -> Change {
    Change {
        what: what.into(),
        from: from.into(),
        to: to.into(),
    }
}

/// The value of a name, with the name in front of what is wrong with it.
pub fn read<T>(
    named: &BTreeMap<&str, &Value>,
    name: &str,
    parse: impl Fn(&Value) -> Result<T, String>,
) -> Result<Option<T>, String> {
    let Some(value) = named.get(name) else {
        return Ok(None);
    };
    parse(value)
        .map(Some)
        .map_err(|why| format!("machine.{name}: {why}"))
}

/// A size that is made; `none` and 0 make nothing.
fn sized(named: &BTreeMap<&str, &Value>, name: &str) -> Result<Option<u64>, String> {
    let bytes = read(named, name, names::bytes)?
        .flatten()
        .filter(|bytes| *bytes > 0);
    match bytes {
        Some(bytes) if bytes > BYTES_MAX => Err(format!(
            "machine.{name}: {bytes} bytes is more than {BYTES_MAX}"
        )),
        Some(bytes) if bytes < 1 << 20 => {
            Err(format!("machine.{name}: {bytes} bytes is less than 1 MiB"))
        }
        other => Ok(other),
    }
}

fn directory(given: Option<String>) -> Result<String, String> {
    let path = given.unwrap_or_else(|| SWAP_DIRECTORY.into());
    match path.starts_with('/') && !path.contains(char::is_whitespace) {
        true => Ok(path.trim_end_matches('/').to_string()),
        false => Err(format!(
            "machine.swap_directory: `{path}` is not an absolute path without blanks"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use serde_json::json;

    fn parse(values: Value) -> Result<Plan, String> {
        Plan::parse(&serde_json::from_value(values).unwrap())
    }

    #[test]
    fn without_root_the_arm_is_refused_and_the_knob_named() {
        let directory = tempfile::tempdir().unwrap();
        let system = System {
            root: Root::imitated(directory.path()),
            privileged: false,
        };
        for (values, knob) in [
            (json!({"swappiness": 1}), "machine.swappiness needs root"),
            (json!({"swap_file": "1GiB"}), "machine.swap_file needs root"),
            (
                json!({"cgroup.memory_max": "1GiB"}),
                "machine.cgroup needs root",
            ),
        ] {
            let refused = parse(values).unwrap().changes(&system).unwrap_err();
            assert_eq!(refused, Trouble::refused(knob));
        }
        assert_eq!(parse(json!({})).unwrap().changes(&system), Ok(Vec::new()));
    }

    #[test]
    fn sizes_of_nothing_make_nothing_and_absurd_ones_are_refused() {
        let none =
            json!({"swap_file": "none", "zram": 0, "tmpfs.size": "off", "swap_existing": true});
        assert!(parse(none).unwrap().is_empty());
        for (values, said) in [
            (json!({"swap_file": "2TiB"}), "machine.swap_file"),
            (json!({"zram": 4096}), "less than 1 MiB"),
            (json!({"tmpfs.huge": "always"}), "needs machine.tmpfs.size"),
            (json!({"drop_caches": 4}), "1, 2 or 3"),
            (json!({"cgroup.version": 3}), "1 or 2"),
            (
                json!({"swap_file": "1GiB", "swap_directory": "here"}),
                "swap_directory",
            ),
            (json!({"swapfile": "1GiB"}), "did you mean `swap_file`"),
        ] {
            let error = parse(values).unwrap_err();
            assert!(error.contains(said), "{error} lacks {said}");
        }
    }

    #[test]
    fn names_may_carry_their_section_and_come_in_the_order_of_turning() {
        let plan = parse(json!({
            "machine.zswap.enabled": true, "swappiness": 3, "machine.vm.page-cluster": 0,
            "zswap.compressor": "lzo"
        }));
        let names: Vec<String> = plan
            .unwrap()
            .files
            .into_iter()
            .map(|knob| knob.name)
            .collect();
        assert_eq!(
            names,
            [
                "vm.page-cluster",
                "swappiness",
                "zswap.compressor",
                "zswap.enabled"
            ]
        );
    }
}
