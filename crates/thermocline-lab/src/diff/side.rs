//! One result as a flat list of fields: the environment its points were taken in, and what the kernel counted
//! meanwhile, as means over the complete points.

use super::Reading;
use crate::point::{PointLine, Results, Status};
use anyhow::{ensure, Result};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// (group, field) -> what was read.
pub type FieldMap = BTreeMap<(String, String), Reading>;

pub struct Side {
    /// What the result is, in a line.
    pub about: String,
    pub fields: FieldMap,
    /// What must be known to read the difference right.
    pub notes: Vec<String>,
}

impl Side {
    /// `arm`: only its points.
    pub fn read(path: &Path, arm: Option<&str>) -> Result<Side> {
        Self::of(&Results::read(path)?, arm, &path.display().to_string())
    }

    pub fn of(results: &Results, arm: Option<&str>, name: &str) -> Result<Side> {
        let wanted = |point: &&PointLine| arm.is_none_or(|arm| point.arm == arm);
        let points: Vec<&PointLine> = results.points.iter().filter(wanted).collect();
        ensure!(
            !points.is_empty(),
            "{name} has no points{}; arms: {}",
            arm.map_or(String::new(), |arm| format!(" of arm `{arm}`")),
            arms(results)
        );
        let mut uses: BTreeMap<&str, usize> = BTreeMap::new();
        for point in &points {
            *uses.entry(&point.environment).or_default() += 1;
        }
        let main = uses
            .iter()
            .max_by_key(|(_, count)| **count)
            .map(|(hash, _)| *hash);
        let mut notes: Vec<String> = results
            .torn_note()
            .map(|note| format!("{name}: {note}"))
            .into_iter()
            .collect();
        if uses.len() > 1 {
            notes.push(format!(
                "{name} was measured in {} environments; the commonest is compared. Choose with --arm.",
                uses.len()
            ));
        }
        let mut fields = FieldMap::new();
        let environment = results
            .environments
            .iter()
            .find(|e| Some(e.hash.as_str()) == main);
        match environment {
            Some(line) => {
                for (group, values) in &line.groups {
                    for (field, value) in values {
                        fields.insert((group.clone(), field.clone()), Reading::of(value));
                    }
                }
            }
            None => notes.push(format!(
                "{name}: its points name no environment that is in the file"
            )),
        }
        fields.extend(deltas(&points));
        let about = format!(
            "{name}: {}, {} points, begun {}",
            results.run.experiment,
            points.len(),
            results.run.started
        );
        Ok(Side {
            about,
            fields,
            notes,
        })
    }
}

fn arms(results: &Results) -> String {
    let names: std::collections::BTreeSet<&str> =
        results.points.iter().map(|p| p.arm.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

/// Means of what the kernel counted during the complete points, to four digits.
fn deltas(points: &[&PointLine]) -> FieldMap {
    let mut sums: BTreeMap<(String, String), (f64, f64)> = BTreeMap::new();
    for point in points.iter().filter(|p| p.status == Status::Ok) {
        for (group, values) in &point.deltas {
            for (name, value) in values {
                let key = (format!("during: {group}"), name.clone());
                let sum = sums.entry(key).or_default();
                *sum = (sum.0 + value, sum.1 + 1.0);
            }
        }
    }
    let mean = |(sum, n): (f64, f64)| {
        let value: Value = json!(sum / n);
        Reading::of(&value)
    };
    sums.into_iter()
        .map(|(key, sum)| (key, mean(sum)))
        .collect()
}
