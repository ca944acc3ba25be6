//! Points gathered by arm and setting. A setting is what varies within one arm (a swept limit, a distribution);
//! arms are compared at equal settings.

use super::plan::Plan;
use crate::point::{PointLine, Results, Status};
use crate::units::{parse_bytes, parse_count};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// Parameters that vary within an arm, in order of their names.
pub type Setting = Vec<(String, Value)>;

/// All points of one arm at one setting.
#[derive(Clone, Debug)]
pub struct Cell<'a> {
    pub arm: String,
    pub setting: Setting,
    /// Of one of its points: all are alike.
    pub params: &'a BTreeMap<String, Value>,
    /// In the order taken.
    pub points: Vec<&'a PointLine>,
    pub planned: usize,
}

impl Cell<'_> {
    pub fn count(&self, status: Status) -> usize {
        self.points.iter().filter(|p| p.status == status).count()
    }

    /// The metric of every complete run that has it, with the run's place in the order.
    pub fn runs(&self, metric: &str) -> Vec<(usize, f64)> {
        let complete = self.points.iter().filter(|p| p.status == Status::Ok);
        complete
            .filter_map(|p| Some((p.index, *p.metrics.get(metric)?)))
            .collect()
    }

    pub fn values(&self, metric: &str) -> Vec<f64> {
        self.runs(metric)
            .into_iter()
            .map(|(_, value)| value)
            .collect()
    }

    /// By block, for paired tests: `None` when a block was run twice.
    pub fn by_block(&self, metric: &str) -> Option<BTreeMap<usize, f64>> {
        let mut blocks = BTreeMap::new();
        for point in self.points.iter().filter(|p| p.status == Status::Ok) {
            if let Some(value) = point.metrics.get(metric) {
                if blocks.insert(point.block, *value).is_some() {
                    return None;
                }
            }
        }
        Some(blocks)
    }

    /// `memory=64MiB, distribution=zipfian`; empty without a sweep.
    pub fn setting_text(&self) -> String {
        setting_text(&self.setting)
    }
}

pub fn setting_text(setting: &Setting) -> String {
    let one = |(key, value): &(String, Value)| {
        let key = key.rsplit('.').next().unwrap_or(key);
        format!("{key} {}", plain(value))
    };
    setting.iter().map(one).collect::<Vec<_>>().join(", ")
}

/// A value as it was written, strings without quotes.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// The size of a value on an axis: numbers, and texts such as `64MiB` or `10k`.
pub fn magnitude(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text
            .parse()
            .ok()
            .filter(|v: &f64| v.is_finite())
            .or_else(|| parse_bytes(text).ok().map(|bytes| bytes as f64))
            .or_else(|| parse_count(text).ok().map(|count| count as f64)),
        _ => None,
    }
}

/// Cells in the order of the experiment's arms, then of settings by size or name.
pub fn cells<'a>(results: &'a Results, plan: &Plan) -> Vec<Cell<'a>> {
    let sweeps = sweeps(results, plan);
    let mut cells: Vec<Cell<'a>> = Vec::new();
    let mut cell_of = |name: &str, params: &'a BTreeMap<String, Value>| -> usize {
        let arm = plan.arm_of(name);
        let setting = setting_of(params, sweeps.get(&arm));
        let found = cells
            .iter()
            .position(|c| c.arm == arm && c.setting == setting);
        found.unwrap_or_else(|| {
            cells.push(Cell {
                arm,
                setting,
                params,
                points: Vec::new(),
                planned: 0,
            });
            cells.len() - 1
        })
    };
    let planned: Vec<usize> = results
        .run
        .planned
        .iter()
        .map(|p| cell_of(&p.arm, &p.params))
        .collect();
    let taken: Vec<usize> = results
        .points
        .iter()
        .map(|p| cell_of(&p.arm, &p.params))
        .collect();
    for at in planned {
        cells[at].planned += 1;
    }
    for (at, point) in taken.into_iter().zip(&results.points) {
        cells[at].points.push(point);
    }
    let names = plan.arm_names();
    let place = |arm: &str| {
        names
            .iter()
            .position(|name| *name == arm)
            .unwrap_or(names.len())
    };
    cells.sort_by(|a, b| {
        (place(&a.arm), &a.arm)
            .cmp(&(place(&b.arm), &b.arm))
            .then_with(|| compare_settings(&a.setting, &b.setting))
    });
    cells
}

/// Of each arm, the parameters that have more than one value.
fn sweeps<'a>(results: &'a Results, plan: &Plan) -> BTreeMap<String, BTreeSet<&'a str>> {
    let all = results
        .run
        .planned
        .iter()
        .map(|p| (plan.arm_of(&p.arm), &p.params))
        .chain(
            results
                .points
                .iter()
                .map(|p| (plan.arm_of(&p.arm), &p.params)),
        );
    let mut first: BTreeMap<String, &BTreeMap<String, Value>> = BTreeMap::new();
    let mut sweeps: BTreeMap<String, BTreeSet<&str>> = BTreeMap::new();
    for (arm, params) in all {
        let reference = *first.entry(arm.clone()).or_insert(params);
        for key in params.keys().chain(reference.keys()) {
            if params.get(key) != reference.get(key) {
                sweeps.entry(arm.clone()).or_default().insert(key);
            }
        }
    }
    sweeps
}

fn setting_of(params: &BTreeMap<String, Value>, sweep: Option<&BTreeSet<&str>>) -> Setting {
    let swept = |key: &str| sweep.is_some_and(|sweep| sweep.contains(key));
    params
        .iter()
        .filter(|(key, _)| swept(key))
        .map(|(key, value)| (key.clone(), value.clone()))
        .collect()
}

pub fn compare_settings(a: &Setting, b: &Setting) -> std::cmp::Ordering {
    let pairs = a.iter().zip(b);
    let by_value = pairs.map(|((_, a), (_, b))| match (magnitude(a), magnitude(b)) {
        (Some(a), Some(b)) => a.total_cmp(&b),
        _ => plain(a).cmp(&plain(b)),
    });
    by_value
        .fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        .then(a.len().cmp(&b.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn point(index: usize, arm: &str, memory: &str, ops: f64) -> PointLine {
        PointLine {
            index,
            block: index / 4,
            arm: arm.into(),
            params: [
                ("subject.memory".to_string(), json!(memory)),
                ("subject.policy".to_string(), json!(arm)),
            ]
            .into(),
            metrics: [("ops_per_s".to_string(), ops)].into(),
            ..PointLine::default()
        }
    }

    #[test]
    fn what_varies_within_an_arm_is_its_setting_and_sizes_sort_as_sizes() {
        let results = Results {
            points: vec![
                point(0, "lru", "128MiB", 1.0),
                point(1, "gen", "64MiB", 2.0),
                point(2, "lru", "64MiB", 3.0),
                point(3, "gen", "128MiB", 4.0),
                point(4, "lru", "64MiB", 5.0),
            ],
            ..Results::default()
        };
        let plan = Plan::read("[[arm]]\nname=\"lru\"\n[[arm]]\nname=\"gen\"").unwrap();
        let cells = cells(&results, &plan);
        let names: Vec<(String, String)> = cells
            .iter()
            .map(|c| (c.arm.clone(), c.setting_text()))
            .collect();
        let pair = |a: &str, b: &str| (a.to_string(), format!("memory {b}"));
        assert_eq!(
            names,
            [
                pair("lru", "64MiB"),
                pair("lru", "128MiB"),
                pair("gen", "64MiB"),
                pair("gen", "128MiB")
            ]
        );
        assert_eq!(cells[0].runs("ops_per_s"), [(2, 3.0), (4, 5.0)]);
    }

    #[test]
    fn a_point_that_failed_has_no_figure() {
        let mut failed = point(0, "lru", "64MiB", 9.0);
        failed.status = Status::DidNotComplete;
        let results = Results {
            points: vec![failed, point(1, "lru", "64MiB", 1.0)],
            ..Results::default()
        };
        let cells = cells(&results, &Plan::default());
        assert_eq!(cells[0].values("ops_per_s"), [1.0]);
        assert_eq!(cells[0].count(Status::DidNotComplete), 1);
    }
}
