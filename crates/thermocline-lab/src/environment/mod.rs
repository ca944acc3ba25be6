//! What a point was measured on, in nine groups of fields, and the kernel's counters before and after it.
//! Each field is a value or `{"unread": why}`: what cannot be read is said, never left out or guessed.
//!
//! Owns the reading and the hash; leaves to `run` when, and to `diff` what differs. Fields of the moment (load, free
//! memory, clock speed now) stand in the record but not in its hash: the same machine in the same state
//! has the same hash.

mod cgroup;
mod counters;
mod cpu;
mod fields;
mod kernel;
mod memory;
mod protocol;
mod software;
mod storage;

pub use counters::Counters;
pub use fields::Fields;

use crate::point::EnvironmentLine;
use crate::root::Root;
use serde_json::{json, Value};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// What the record is made for.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The process that does the work.
    pub server_pid: u32,
    /// Everything the arm resolved to, by dotted key.
    pub settings: BTreeMap<String, Value>,
    /// What subject and workload said of themselves.
    pub facts: BTreeMap<String, Value>,
    /// Knob -> value read back, for the arm's own cgroup and mounts.
    pub read_back: BTreeMap<String, Value>,
    pub index: usize,
    pub block: usize,
}

/// Reads all nine groups.
pub fn record(root: &Root, about: &About) -> EnvironmentLine {
    let groups: Vec<(&str, Fields)> = vec![
        ("1 kernel", kernel::fields(root)),
        ("2 cpu", cpu::fields(root)),
        ("3 memory", memory::fields(root)),
        ("4 cgroup", cgroup::fields(root, about)),
        ("5 storage", storage::fields(root, about)),
        ("6 software", software::fields(root, about)),
        ("7 workload", workload(about)),
        ("8 deltas", counters::fields(root, about.server_pid)),
        ("9 protocol", protocol::fields(root, about)),
    ];
    let mut hash = Sha256::new();
    for (name, fields) in &groups {
        hash.update(name.as_bytes());
        hash.update(fields.lasting_text().as_bytes());
    }
    EnvironmentLine {
        hash: hex(&hash.finalize()),
        groups: groups
            .into_iter()
            .map(|(name, fields)| (name.to_string(), fields.into_values()))
            .collect(),
    }
}

/// What a workload says of one draw of it: another seed is no other environment.
const OF_THE_DRAW: [&str; 3] = ["seed", "lz4_ratio", "zstd_ratio"];

/// Every resolved property of the workload and what it said of its draw.
fn workload(about: &About) -> Fields {
    let mut fields = Fields::default();
    for (key, value) in &about.settings {
        if key.starts_with("workload") || key.starts_with("plan") {
            fields.value(key, value.clone());
        }
    }
    for (key, value) in &about.facts {
        if let Some(key) = key.strip_prefix("workload.") {
            let name = format!("resolved.{key}");
            match OF_THE_DRAW.contains(&key) {
                true => fields.moment(&name, Ok(value.clone())),
                false => fields.value(&name, value.clone()),
            }
        }
    }
    if fields.is_empty() {
        fields.value("workload", json!("none: the subject brings its own work"));
    }
    fields
}

/// Fields with a value, and all fields.
pub fn coverage(line: &EnvironmentLine) -> (usize, usize) {
    let all = line.groups.values().flat_map(BTreeMap::values);
    let (mut read, mut total) = (0, 0);
    for value in all {
        total += 1;
        read += usize::from(value.get("unread").is_none());
    }
    (read, total)
}

/// Bytes in hexadecimal.
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> About {
        About {
            server_pid: std::process::id(),
            settings: [("workload.keys".to_string(), json!(1000))].into(),
            ..About::default()
        }
    }

    #[test]
    fn nine_groups_and_nine_fields_in_ten_have_a_value_here() {
        let line = record(&Root::live(), &about());
        assert_eq!(line.groups.len(), 9);
        let (read, total) = coverage(&line);
        let unread: Vec<String> = line
            .groups
            .iter()
            .flat_map(|(group, fields)| {
                fields
                    .iter()
                    .filter(|(_, value)| value.get("unread").is_some())
                    .map(move |(name, value)| format!("{group}/{name}: {}", value["unread"]))
            })
            .collect();
        println!("{read} of {total} fields have a value; without: {unread:#?}");
        assert!(total > 120, "{total} fields");
        assert!(read * 10 >= total * 9, "{read} of {total}: {unread:#?}");
        assert!(line.groups.values().all(|fields| !fields.is_empty()));
    }

    #[test]
    fn the_hash_is_of_what_lasts() {
        let root = Root::live();
        let first = record(&root, &about());
        assert_eq!(first.hash, record(&root, &about()).hash);
        let mut other = about();
        other.settings.insert("workload.keys".into(), json!(1001));
        assert_ne!(first.hash, record(&root, &other).hash);
    }

    #[test]
    fn a_machine_without_anything_gives_reasons() {
        let directory = tempfile::tempdir().unwrap();
        let line = record(&Root::imitated(directory.path()), &about());
        assert_eq!(
            line.groups["1 kernel"]["release"],
            json!({"unread": "not there on this kernel"})
        );
    }
}
