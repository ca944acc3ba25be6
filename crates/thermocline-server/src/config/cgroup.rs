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

/// The tightest limit on the way from our control group to the root, version 2 and version 1.
fn limit_bytes(root: &Path) -> Option<u64> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    groups
        .lines()
        .filter_map(|line| group_limit(root, line))
        .min()
}

/// One line of /proc/self/cgroup: `0::/path` is version 2, `4:memory:/path` version 1.
fn group_limit(root: &Path, line: &str) -> Option<u64> {
    let mut parts = line.splitn(3, ':');
    let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let (mount, file) = match controllers {
        "" => ("sys/fs/cgroup", "memory.max"),
        list if list.split(',').any(|name| name == "memory") => {
            ("sys/fs/cgroup/memory", "memory.limit_in_bytes")
        }
        _ => return None,
    };
    let mount = root.join(mount);
    let mut group: PathBuf = mount.join(path.trim_start_matches('/'));
    let mut tightest = None;
    // In a container the path named is often not visible; its parents, down to the mount itself, are.
    loop {
        let limit = fs::read_to_string(group.join(file))
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok())
            .filter(|&limit| limit > 0 && limit < UNLIMITED);
        tightest = tightest.into_iter().chain(limit).min();
        if group == mount || !group.pop() {
            return tightest;
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
