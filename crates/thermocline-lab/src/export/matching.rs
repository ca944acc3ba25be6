//! The declared fields: which, where they come from, and whether another machine has the same.

use crate::diff::{weight, Reading};
use crate::nearest::did_you_mean;
use crate::point::EnvironmentLine;
use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Declared when nobody says otherwise, as far as the record has them: what weighs most in `diff` and can be made
/// equal or at least be known.
pub const MUST_MATCH: &[&str] = &[
    "1 kernel/release",
    "1 kernel/architecture",
    "1 kernel/thp.enabled",
    "1 kernel/thp.defrag",
    "1 kernel/thp.shmem_enabled",
    "1 kernel/vm.swappiness",
    "1 kernel/vm.overcommit_memory",
    "1 kernel/lru_gen.enabled",
    "1 kernel/zswap.enabled",
    "1 kernel/swaps",
    "2 cpu/model",
    "2 cpu/sockets",
    "2 cpu/processors",
    "2 cpu/smt_active",
    "2 cpu/governor",
    "2 cpu/virtualised",
    "3 memory/MemTotal",
    "4 cgroup/version",
    "4 cgroup/memory.max",
    "4 cgroup/memory.limit_in_bytes",
    "5 storage/file_system",
    "5 storage/mount_options",
    "6 software/lab.version",
    "6 software/lab.build",
];

/// A field with the value it must have. `value` is as in the record: a value, or `{"unread": why}`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Declared {
    pub group: String,
    pub field: String,
    pub value: Value,
}

/// A declared field that another machine does not have alike, or of which one side knows nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Mismatch {
    pub group: String,
    pub field: String,
    pub there: Reading,
    pub here: Reading,
    pub why: &'static str,
}

/// The fields of `names` (or of [`MUST_MATCH`], those that are there) with their values. A name may leave out the
/// group; a name the record does not know is an error that suggests the nearest.
pub fn declare(environment: &EnvironmentLine, names: &[String]) -> Result<Vec<Declared>> {
    let all: Vec<Declared> = environment
        .groups
        .iter()
        .flat_map(|(group, fields)| {
            fields.iter().map(|(field, value)| Declared {
                group: group.clone(),
                field: field.clone(),
                value: value.clone(),
            })
        })
        .collect();
    let find = |name: &str| {
        all.iter()
            .find(|d| d.field == name || format!("{}/{}", d.group, d.field) == name)
    };
    if names.is_empty() {
        return Ok(MUST_MATCH
            .iter()
            .filter_map(|name| find(name).cloned())
            .collect());
    }
    let mut declared = Vec::new();
    for name in names {
        match find(name) {
            Some(field) => declared.push(field.clone()),
            None => {
                let known: Vec<&str> = all.iter().map(|d| d.field.as_str()).collect();
                bail!(
                    "--must-match {name}: the record has no such field{}",
                    did_you_mean(name, known)
                )
            }
        }
    }
    Ok(declared)
}

/// The declared fields that are not alike on a machine, the weightiest first. A field neither side could read is
/// no mismatch; one that only one side could read is.
pub fn mismatches(declared: &[Declared], here: &EnvironmentLine) -> Vec<Mismatch> {
    let mut all: Vec<(f64, Mismatch)> = declared
        .iter()
        .filter_map(|d| {
            let there = Reading::of(&d.value);
            let value = here
                .groups
                .get(&d.group)
                .and_then(|fields| fields.get(&d.field));
            let here = value.map_or(Reading::Absent, Reading::of);
            let known = |reading: &Reading| matches!(reading, Reading::Value(_));
            if there == here || !(known(&there) || known(&here)) {
                return None;
            }
            let (weight, why) = weight(&d.group, &d.field);
            let mismatch = Mismatch {
                group: d.group.clone(),
                field: d.field.clone(),
                there,
                here,
                why,
            };
            Some((weight, mismatch))
        })
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all.into_iter().map(|(_, mismatch)| mismatch).collect()
}
