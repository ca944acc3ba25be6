//! How much memory there is for us: the control group's limit, else the machine's.

use std::fs;
use std::path::{Path, PathBuf};

/// With a control group limit we take three quarters of it: sockets and the page cache live in the rest.
const CGROUP_SHARE: (u64, u64) = (3, 4);
/// Without one we are a guest on somebody's machine: a quarter, and not more than 1 GiB unless asked.
const MACHINE_SHARE: (u64, u64) = (1, 4);
const MACHINE_BYTES_MAX: u64 = 1 << 30;
/// No default goes below what the server can start with.
const BYTES_MIN: u64 = 64 << 20;
/// Version 1 writes "no limit" as a number near 2^63.
const UNLIMITED: u64 = 1 << 60;

/// The memory budget when none is named, in bytes, a whole number of MiB.
pub fn default_memory_bytes() -> u64 {
    let bytes = match (limit_bytes(Path::new("/")), total_bytes(Path::new("/"))) {
        (Some(limit), total) if total.is_none_or(|total| limit < total) => {
            limit / CGROUP_SHARE.1 * CGROUP_SHARE.0
        }
        (_, Some(total)) => (total / MACHINE_SHARE.1 * MACHINE_SHARE.0).min(MACHINE_BYTES_MAX),
        (_, None) => BYTES_MIN,
    };
    bytes.max(BYTES_MIN) >> 20 << 20
}

/// The memory there is for this process, bytes, and whose it is: the control group's limit or all the machine has.
pub fn memory_there_is() -> Option<(u64, &'static str)> {
    there_is(Path::new("/"))
}

fn there_is(root: &Path) -> Option<(u64, &'static str)> {
    let limit = limit_bytes(root).map(|bytes| (bytes, "the control group's limit"));
    let total = total_bytes(root).map(|bytes| (bytes, "what the machine has"));
    limit.into_iter().chain(total).min_by_key(|there| there.0)
}

/// The tightest limit on the way from our control group to the root, version 2 and version 1.
fn limit_bytes(root: &Path) -> Option<u64> {
    let groups = memory_groups(root);
    groups.iter().filter_map(MemoryGroup::limit).min()
}

/// A control group with a memory controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryGroup {
    /// 1 or 2.
    pub version: u8,
    pub path: PathBuf,
}

impl MemoryGroup {
    /// The files that may name a limit. The smallest binds.
    pub fn limit_files(&self) -> &'static [&'static str] {
        match self.version {
            1 => &["memory.limit_in_bytes"],
            _ => &["memory.high", "memory.max"],
        }
    }

    /// Its limit now, bytes. None: it has none.
    pub fn limit(&self) -> Option<u64> {
        let limit = |file: &&str| limit_in(&fs::read_to_string(self.path.join(file)).ok()?);
        self.limit_files().iter().filter_map(limit).min()
    }
}

/// The limit a file names, bytes. None: it says that there is none.
pub fn limit_in(text: &str) -> Option<u64> {
    let limit = text.trim().parse().ok()?;
    (limit > 0 && limit < UNLIMITED).then_some(limit)
}

/// Our control group and those above it, as far as we can see them: their limits all bind us.
pub fn memory_groups(root: &Path) -> Vec<MemoryGroup> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    text.lines()
        .flat_map(|line| chain(root, line).unwrap_or_default())
        .collect()
}

/// One line of /proc/self/cgroup: `0::/path` is version 2, `4:memory:/path` version 1.
fn chain(root: &Path, line: &str) -> Option<Vec<MemoryGroup>> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (version, mount) = match controllers {
        "" => (2, "sys/fs/cgroup"),
        list if list.split(',').any(|name| name == "memory") => (1, "sys/fs/cgroup/memory"),
        _ => return None,
    };
    let mount = root.join(mount);
    let mut path: PathBuf = mount.join(path.trim_start_matches('/'));
    let mut groups = Vec::new();
    // In a container the path named is often not visible; its parents, down to the mount itself, are.
    loop {
        if path.is_dir() {
            groups.push(MemoryGroup {
                version,
                path: path.clone(),
            });
        }
        if path == mount || !path.pop() {
            return Some(groups);
        }
    }
}

fn total_bytes(root: &Path) -> Option<u64> {
    let info = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let line = info.lines().find(|line| line.starts_with("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(name: &str, files: &[(&str, &str)]) -> PathBuf {
        let root =
            std::env::temp_dir().join(format!("thermocline-cgroup-{name}-{}", std::process::id()));
        for (path, text) in files {
            let path = root.join(path);
            fs::create_dir_all(path.parent().expect("has a parent")).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    #[test]
    fn version_2_takes_the_tightest_of_the_chain() {
        let root = tree(
            "v2",
            &[
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/memory.max", "1000000\n"),
                ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ],
        );
        assert_eq!(limit_bytes(&root), Some(1_000_000));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn memory_high_binds_as_well_and_groups_are_listed_from_ours_up() {
        let root = tree(
            "high",
            &[
                ("proc/self/cgroup", "0::/a/b\n"),
                ("sys/fs/cgroup/a/memory.max", "1000000\n"),
                ("sys/fs/cgroup/a/b/memory.high", "700000\n"),
            ],
        );
        assert_eq!(limit_bytes(&root), Some(700_000));
        let names: Vec<PathBuf> = memory_groups(&root)
            .into_iter()
            .map(|group| group.path)
            .collect();
        let group = root.join("sys/fs/cgroup");
        assert_eq!(names, [group.join("a/b"), group.join("a"), group]);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn what_there_is_is_the_lesser_of_limit_and_machine() {
        let root = tree(
            "there-is",
            &[
                ("proc/self/cgroup", "0::/a\n"),
                ("proc/meminfo", "MemTotal: 2000 kB\n"),
                ("sys/fs/cgroup/a/memory.max", "1000000\n"),
            ],
        );
        let limit = Some((1_000_000, "the control group's limit"));
        assert_eq!(there_is(&root), limit);
        fs::write(root.join("sys/fs/cgroup/a/memory.max"), "max\n").unwrap();
        assert_eq!(there_is(&root), Some((2_048_000, "what the machine has")));
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn version_1_falls_back_to_the_mount_and_knows_no_limit() {
        let root = tree(
            "v1",
            &[
                ("proc/self/cgroup", "4:memory:/x\n3:cpu:/\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n"),
            ],
        );
        assert_eq!(limit_bytes(&root), Some(2_000_000));
        fs::write(
            root.join("sys/fs/cgroup/memory/memory.limit_in_bytes"),
            "9223372036854771712\n",
        )
        .unwrap();
        assert_eq!(limit_bytes(&root), None);
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn the_default_is_whole_mebibytes_and_enough_to_start() {
        let bytes = default_memory_bytes();
        assert_eq!(bytes % (1 << 20), 0);
        assert!(bytes >= BYTES_MIN);
    }
}
