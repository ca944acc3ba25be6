//! Group 4: what the lab and the measured process may use: cgroup limits, processors, memory nodes.

use super::fields::{line_value, Fields};
use super::{sha256, About};
use crate::root::Root;
use serde_json::{json, Value};

pub fn fields(root: &Root, about: &About) -> Fields {
    let mut fields = Fields::default();
    let own = std::process::id();
    own_group(&mut fields, root);
    for (knob, value) in &about.read_back {
        if knob.starts_with("cgroup.") {
            fields.value(&format!("arm.{knob}"), value.clone());
        }
    }
    for (who, pid) in [("lab", own), ("server", about.server_pid)] {
        let status = root.read(&format!("/proc/{pid}/status"));
        for (name, key) in [
            ("cpus", "Cpus_allowed_list"),
            ("memory_nodes", "Mems_allowed_list"),
        ] {
            let value = status.clone().and_then(|text| line_value(&text, key, ':'));
            fields.read(&format!("{who}.{name}"), value);
        }
        fields.read(&format!("{who}.numa_policy"), numa_policy(root, pid));
    }
    fields.read("same_socket", same_socket(root, about.server_pid));
    fields
}

/// The group the lab was started in. Its name is the site's business: two runs in the same one have the same hash.
fn own_group(fields: &mut Fields, root: &Root) {
    let text = match root.read("/proc/self/cgroup") {
        Ok(text) => text,
        Err(why) => return fields.read("path_sha256", Err::<Value, _>(why)),
    };
    fields.value("path_sha256", json!(sha256(text.as_bytes())));
    let two = text.lines().find_map(|line| line.strip_prefix("0::"));
    let one = text
        .lines()
        .find_map(|line| line.split_once(":memory:").map(|(_, path)| path));
    match (one, two) {
        (Some(path), _) => {
            let directory = format!("/sys/fs/cgroup/memory{path}");
            fields.value("version", json!(1));
            for file in [
                "memory.limit_in_bytes",
                "memory.memsw.limit_in_bytes",
                "memory.soft_limit_in_bytes",
                "memory.swappiness",
            ] {
                fields.file(file, root, &format!("{directory}/{file}"));
            }
        }
        (None, Some("/")) => {
            fields.value("version", json!(2));
            fields.value("limits", json!("none: in the root group"));
        }
        (None, Some(path)) => {
            let directory = format!("/sys/fs/cgroup{path}");
            fields.value("version", json!(2));
            for file in [
                "memory.min",
                "memory.low",
                "memory.high",
                "memory.max",
                "memory.swap.max",
                "cpu.max",
                "cpuset.cpus.effective",
                "io.max",
            ] {
                fields.file(file, root, &format!("{directory}/{file}"));
            }
        }
        (None, None) => fields.value("version", json!("no memory controller")),
    }
}

/// The policy of a process's first mapping: all have it unless one was asked for.
fn numa_policy(root: &Root, pid: u32) -> Result<String, String> {
    let text = root.read(&format!("/proc/{pid}/numa_maps"))?;
    let line = text.lines().next().unwrap_or("");
    line.split_whitespace()
        .nth(1)
        .map(str::to_string)
        .ok_or_else(|| "no mapping".into())
}

/// Whether every processor that the two may run on is of one package.
fn same_socket(root: &Root, pid: u32) -> Result<bool, String> {
    let mut packages = Vec::new();
    for pid in [std::process::id(), pid] {
        let status = root.read(&format!("/proc/{pid}/status"))?;
        for cpu in cpu_list(&line_value(&status, "Cpus_allowed_list", ':')?) {
            let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/physical_package_id");
            packages.extend(root.read(&path));
        }
    }
    packages.sort_unstable();
    packages.dedup();
    match packages.len() {
        0 => Err("no processor says its package".into()),
        count => Ok(count == 1),
    }
}

/// `0-2,5` -> 0, 1, 2, 5; at most 4096 of them.
fn cpu_list(text: &str) -> Vec<u32> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            cpus.extend((first..=last).take(4096));
        }
    }
    cpus.truncate(4096);
    cpus
}

#[cfg(test)]
mod tests {
    #[test]
    fn processor_lists_are_expanded() {
        assert_eq!(super::cpu_list("0-2,5"), [0, 1, 2, 5]);
        assert_eq!(super::cpu_list("0-4294967295").len(), 4096);
        assert!(super::cpu_list("x").is_empty());
    }
}
