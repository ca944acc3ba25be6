//! A cgroup of the lab's own around what is measured: limits, members, and where its counters are. Version 2 where it has the
//! memory controller, version 1 else; beside a version 1 group one in the bare version 2 tree gives pressure figures.
//! Never changes a group the lab did not make.

use super::names;
use super::plan::read;
use super::system::System;
use super::trouble::Trouble;
use serde_json::Value;
use std::collections::BTreeMap;

/// The period of a CPU quota, microseconds: the kernel's default.
const CPU_PERIOD_US: u64 = 100_000;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    pub version: Option<u64>,
    pub memory_max_bytes: Option<u64>,
    pub memory_high_bytes: Option<u64>,
    pub swap_max_bytes: Option<u64>,
    /// 100 is one CPU.
    pub cpu_percent: Option<u64>,
    /// Lower the limit by what the compressed pools (zswap, zram) hold, where the kernel does not charge them.
    pub charge_pools: bool,
}

/// The two trees a machine may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    One,
    Two,
}

#[derive(Clone, Debug)]
pub struct Group {
    pub version: Version,
    pub limits: Limits,
    /// The directory with the memory controller's files.
    pub memory: String,
    /// Every directory of the group: a member joins all.
    pub directories: Vec<String>,
}

impl Limits {
    /// `None` when no cgroup knob is named.
    pub fn parse(named: &BTreeMap<&str, &Value>) -> Result<Option<Self>, String> {
        if !named.keys().any(|name| name.starts_with("cgroup.")) {
            return Ok(None);
        }
        let bytes = |name| -> Result<Option<u64>, String> {
            Ok(read(named, name, names::bytes)?.flatten())
        };
        let limits = Limits {
            version: read(named, "cgroup.version", names::number)?,
            memory_max_bytes: bytes("cgroup.memory_max")?,
            memory_high_bytes: bytes("cgroup.memory_high")?,
            swap_max_bytes: bytes("cgroup.swap_max")?,
            cpu_percent: read(named, "cgroup.cpu_percent", names::number)?,
            charge_pools: read(named, "cgroup.charge_pools", names::truth)?.unwrap_or(false),
        };
        match limits.version {
            None | Some(1 | 2) => Ok(Some(limits)),
            Some(other) => Err(format!("machine.cgroup.version: `{other}`: 1 or 2")),
        }
    }

    /// Whether this machine can give such a group.
    pub fn check(&self, system: &System) -> Result<(), Trouble> {
        let (version, _) = tree(system, self.version)?;
        if version == Version::One && self.memory_high_bytes.is_some() {
            return Err(Trouble::refused(
                "machine.cgroup.memory_high: cgroup version 1 has no such limit",
            ));
        }
        Ok(())
    }

    pub fn describe(&self) -> String {
        let mut parts = Vec::new();
        let mut part = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                parts.push(format!("{name}={value}"));
            }
        };
        part("memory_max", self.memory_max_bytes);
        part("memory_high", self.memory_high_bytes);
        part("swap_max", self.swap_max_bytes);
        part("cpu_percent", self.cpu_percent);
        match parts.is_empty() {
            true => "one without limits".into(),
            false => parts.join(" "),
        }
    }
}

/// The tree to use and where it is mounted.
fn tree(system: &System, wanted: Option<u64>) -> Result<(Version, String), Trouble> {
    let two = mounted(system, "cgroup2", None).filter(|mount| hands_out_memory(system, mount));
    let one = mounted(system, "cgroup", Some("memory"));
    let found = match wanted {
        Some(2) => two.map(|mount| (Version::Two, mount)),
        Some(_) => one.map(|mount| (Version::One, mount)),
        None => two
            .map(|mount| (Version::Two, mount))
            .or(one.map(|mount| (Version::One, mount))),
    };
    found.ok_or_else(|| {
        let which = wanted.map_or("cgroup".into(), |version| {
            format!("cgroup version {version}")
        });
        Trouble::refused(format!(
            "machine.cgroup: no {which} tree with the memory controller is mounted"
        ))
    })
}

fn hands_out_memory(system: &System, mount: &str) -> bool {
    let handed = system.root.read(&format!("{mount}/cgroup.subtree_control"));
    handed.is_ok_and(|text| text.split_whitespace().any(|word| word == "memory"))
}

/// Where a file system of this type (with this option) is mounted.
fn mounted(system: &System, kind: &str, option: Option<&str>) -> Option<String> {
    let text = system.root.read("/proc/mounts").ok()?;
    text.lines().find_map(|line| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let options = words.get(3)?;
        let fits = option.is_none_or(|option| options.split(',').any(|word| word == option));
        (words.get(2) == Some(&kind) && fits).then(|| words[1].to_string())
    })
}

impl Group {
    /// Where the group will lie, before any of it is made.
    pub fn lay_out(system: &System, limits: &Limits) -> Result<Self, Trouble> {
        let (version, mount) = tree(system, limits.version)?;
        let name = format!("thermolab-{}", std::process::id());
        let memory = format!("{mount}/{name}");
        let mut directories = vec![memory.clone()];
        if version == Version::One {
            if limits.cpu_percent.is_some() {
                let cpu = mounted(system, "cgroup", Some("cpu")).ok_or_else(|| {
                    Trouble::refused("machine.cgroup.cpu_percent: no cgroup version 1 tree with the cpu controller is mounted")
                })?;
                directories.push(format!("{cpu}/{name}"));
            }
            let bare = mounted(system, "cgroup2", None);
            directories.extend(bare.map(|mount| format!("{mount}/{name}")));
        }
        Ok(Group {
            version,
            limits: limits.clone(),
            memory,
            directories,
        })
    }

    /// The files to be written once the directories are there: path, value.
    pub fn writes(&self) -> Vec<(String, String)> {
        let limits = &self.limits;
        let mut writes = Vec::new();
        let mut write = |directory: &str, file: &str, value: Option<String>| {
            if let Some(value) = value {
                writes.push((format!("{directory}/{file}"), value));
            }
        };
        let text = |bytes: Option<u64>| bytes.map(|bytes| bytes.to_string());
        match self.version {
            Version::Two => {
                write(&self.memory, "memory.max", text(limits.memory_max_bytes));
                write(&self.memory, "memory.high", text(limits.memory_high_bytes));
                write(&self.memory, "memory.swap.max", text(limits.swap_max_bytes));
                let quota = limits.cpu_percent.map(|percent| {
                    format!(
                        "{} {CPU_PERIOD_US}",
                        percent.saturating_mul(CPU_PERIOD_US) / 100
                    )
                });
                write(&self.memory, "cpu.max", quota);
            }
            Version::One => {
                let memory = limits.memory_max_bytes;
                write(&self.memory, "memory.limit_in_bytes", text(memory));
                let both = limits
                    .swap_max_bytes
                    .zip(memory)
                    .map(|(swap, memory)| swap.saturating_add(memory));
                write(&self.memory, "memory.memsw.limit_in_bytes", text(both));
                if let (Some(percent), Some(cpu)) = (limits.cpu_percent, self.directories.get(1)) {
                    let quota = (percent.saturating_mul(CPU_PERIOD_US) / 100).to_string();
                    write(cpu, "cpu.cfs_quota_us", Some(quota));
                }
            }
        }
        writes
    }

    /// The file that limits memory, and what it is set to.
    pub fn memory_limit_file(&self) -> String {
        let file = match self.version {
            Version::One => "memory.limit_in_bytes",
            Version::Two => "memory.max",
        };
        format!("{}/{file}", self.memory)
    }

    /// Whether the kernel itself charges zswap's pool to the group.
    pub fn charges_zswap(&self) -> bool {
        self.version == Version::Two
    }

    /// Files a process writes its own id to, so as to be a member before it does anything.
    pub fn member_files(&self) -> Vec<String> {
        let file = |directory: &String| format!("{directory}/cgroup.procs");
        self.directories.iter().map(file).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::root::Root;
    use std::fs;

    fn machine(mounts: &str, subtree: &str) -> (tempfile::TempDir, System) {
        let directory = tempfile::tempdir().unwrap();
        for name in ["proc", "cg/memory", "cg/cpu", "cg/unified"] {
            fs::create_dir_all(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("proc/mounts"), mounts).unwrap();
        fs::write(
            directory.path().join("cg/unified/cgroup.subtree_control"),
            subtree,
        )
        .unwrap();
        let system = System::of(Root::imitated(directory.path()));
        (directory, system)
    }

    const BOTH: &str = "cgroup /cg/memory cgroup rw,memory 0 0\ncgroup /cg/cpu cgroup rw,cpu 0 0\ncgroup2 /cg/unified cgroup2 rw 0 0\n";

    #[test]
    fn version_two_is_preferred_only_where_it_hands_out_memory() {
        let (_directory, system) = machine(BOTH, "cpu memory\n");
        assert_eq!(tree(&system, None).unwrap().0, Version::Two);
        assert_eq!(tree(&system, Some(1)).unwrap().0, Version::One);
        let (_directory, system) = machine(BOTH, "hugetlb\n");
        assert_eq!(tree(&system, None).unwrap().0, Version::One);
        let refused = tree(&system, Some(2)).unwrap_err();
        assert!(refused.reason().contains("version 2"), "{refused}");
    }

    #[test]
    fn limits_become_the_files_of_their_version() {
        let limits = Limits {
            memory_max_bytes: Some(100),
            swap_max_bytes: Some(50),
            cpu_percent: Some(150),
            ..Limits::default()
        };
        let (_directory, system) = machine(BOTH, "");
        let one = Group::lay_out(&system, &limits).unwrap();
        let name = format!("thermolab-{}", std::process::id());
        let expected = [
            (
                format!("/cg/memory/{name}/memory.limit_in_bytes"),
                "100".to_string(),
            ),
            (
                format!("/cg/memory/{name}/memory.memsw.limit_in_bytes"),
                "150".to_string(),
            ),
            (
                format!("/cg/cpu/{name}/cpu.cfs_quota_us"),
                "150000".to_string(),
            ),
        ];
        assert_eq!(one.writes(), expected);
        assert_eq!(one.directories.len(), 3);
        let (_directory, system) = machine(BOTH, "memory cpu");
        let two = Group::lay_out(&system, &limits).unwrap();
        assert_eq!(two.writes()[2].1, "150000 100000");
        assert!(two.charges_zswap() && !one.charges_zswap());
    }
}
