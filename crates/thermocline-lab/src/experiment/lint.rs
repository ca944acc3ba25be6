//! What `thermolab check` warns of: ways in which a valid experiment misleads. Most are traps other benchmarks
//! have fallen into; the text says what to do instead.

use super::{Experiment, Resolved};
use crate::measure::Loop;
use crate::settings::Table;
use anyhow::Result;
use serde_json::Value;
use std::time::Duration;

/// The warnings, each once, with the arms it holds for unless it holds for all.
pub fn warnings(experiment: &Experiment) -> Result<Vec<String>> {
    let mut all: Vec<(String, Vec<String>)> = Vec::new();
    for arm in &experiment.arms {
        let resolved = experiment.resolve(&arm.params)?;
        for warning in of_arm(&resolved)? {
            match all.iter_mut().find(|(known, _)| *known == warning) {
                Some((_, arms)) => arms.push(arm.name.clone()),
                None => all.push((warning, vec![arm.name.clone()])),
            }
        }
    }
    let mut said = of_plan(experiment);
    for (warning, arms) in all {
        said.push(if arms.len() == experiment.arms.len() {
            warning
        } else {
            format!("{warning} (arms: {})", arms.join("; "))
        });
    }
    Ok(said)
}

fn of_plan(experiment: &Experiment) -> Vec<String> {
    let mut said = Vec::new();
    let plan = &experiment.plan;
    if plan.repeats == 1 {
        said.push(
            "one run an arm: no variance between runs is seen, so nothing can be concluded; set `plan.repeats`"
                .to_string(),
        );
    } else if plan.repeats < 5 {
        said.push(format!(
            "{} runs an arm: with runs that scatter by 1.5 %, differences below 5 % will not be shown",
            plan.repeats
        ));
    }
    if experiment.arms.len() > 1 && experiment.comparisons.is_empty() {
        said.push(
            "no `[[compare]]`: which comparisons count is to be said before the run, or one is found by chance"
                .to_string(),
        );
    }
    if experiment
        .comparisons
        .iter()
        .any(|c| c.smallest_effect_percent.is_none())
    {
        said.push(
            "a comparison without `smallest_effect_percent`: \"no difference\" can then never be shown, only not found"
                .to_string(),
        );
    }
    if plan.order == super::plan::Order::Abba && plan.blocks % 2 == 1 {
        said.push(
            "ABBA with an odd number of blocks: the last one has no mirror, a steady drift does not cancel"
                .to_string(),
        );
    }
    said
}

fn of_arm(resolved: &Resolved) -> Result<Vec<String>> {
    let (recipe, workload, mode) = resolved.recipe()?;
    let mut said = recipe.warnings();
    let Some(workload) = workload else {
        return Ok(said);
    };
    of_setup(resolved, recipe.is_server(), mode, &mut said);
    of_ycsb(&resolved.workload, resolved.setup.load, &mut said);
    let fills = resolved
        .subject
        .get("fill")
        .and_then(Value::as_bool)
        .unwrap_or(true);
    if !resolved.setup.load && !fills {
        said.push(
            "neither loaded nor filled on a miss: every read may miss; set `plan.load` or `subject.fill`".into(),
        );
    }
    let (items, item_bytes) = workload.items_expected();
    let memory = resolved.subject.get("memory").and_then(memory_bytes);
    if let Some(memory) = memory.filter(|memory| *memory as f64 > items as f64 * item_bytes * 1.2) {
        said.push(format!(
            "all {items} items fit into {}: nothing is evicted, so policies cannot differ",
            crate::units::show_bytes(memory)
        ));
    }
    Ok(said)
}

fn memory_bytes(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => crate::units::parse_bytes(text).ok(),
        other => other.as_u64(),
    }
}

fn of_setup(resolved: &Resolved, is_server: bool, mode: Loop, said: &mut Vec<String>) {
    let setup = &resolved.setup;
    if is_server && mode == Loop::Closed {
        said.push(
            "a server in a closed loop: while it stalls nobody asks, so latencies leave the queueing out; \
             give `plan.rate`"
                .into(),
        );
    }
    if setup.warmup.is_zero() {
        said.push(
            "no warm-up: filling the cache is part of what is measured; set `plan.warmup`".into(),
        );
    }
    if setup.operations.is_some() {
        said.push(
            "`plan.operations` and a time limit: faster runs end by count, slower ones by time, so the cause of the \
             end goes with the arm; leave the count out"
                .into(),
        );
    }
    if setup.duration < Duration::from_secs(5) {
        said.push(format!(
            "the measured part is {:.1} s: shorter than the pauses of a machine that does other things too",
            setup.duration.as_secs_f64()
        ));
    }
}

/// Traps of YCSB's own properties.
fn of_ycsb(workload: &Table, loads: bool, said: &mut Vec<String>) {
    let text = |key: &str| {
        workload
            .get(key)
            .map(|value| value.to_string().replace('"', ""))
    };
    if text("kind").as_deref() != Some("ycsb") {
        return;
    }
    let distribution = text("requestdistribution").unwrap_or_else(|| "uniform".into());
    if distribution == "exponential"
        && text("exponential.frac").is_none()
        && text("exponential.percentile").is_none()
    {
        said.push(
            "`workload.requestdistribution` = \"exponential\" at its defaults is nearly uniform: 95 % of the \
             operations go to 86 % of the keys; set `exponential.frac`"
                .into(),
        );
    }
    if distribution == "zipfian" {
        said.push(
            "`zipfian` is YCSB's scrambled one, a zipf with a uniform floor whose skew cannot be set; \
             `zipfian-true` is the real one"
                .into(),
        );
    }
    if text("fieldlength").is_none() && !loads {
        said.push(
            "`workload.fieldlength` is left at 100 and the data were loaded before: if they were loaded with another \
             length, updates change the size of values as the run goes on"
                .into(),
        );
    }
    let share = |key: &str| {
        text(key)
            .and_then(|share| share.parse::<f64>().ok())
            .unwrap_or(0.0)
    };
    if share("scanproportion") > 0.0 {
        said.push("scans: a cache has no order of keys, each will be counted as failed".into());
    }
    for key in ["recordcount", "operationcount", "insertcount"] {
        let count = text(key).and_then(|count| count.parse::<f64>().ok());
        if count.is_some_and(|count| count > f64::from(i32::MAX)) {
            said.push(format!(
                "`workload.{key}` is above 2^31 - 1: YCSB itself counts in 32 bits and cannot repeat this"
            ));
        }
    }
}
