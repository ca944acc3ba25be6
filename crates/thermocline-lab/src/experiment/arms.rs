//! The arms of an experiment: those written out, times the matrix, each a name and what it sets.

use super::text::flatten;
use crate::nearest::nearest;
use crate::settings::{unknown, Table};
use anyhow::{bail, Result};
use serde_json::Value;

/// One configuration measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Arm {
    /// Unique. With a matrix: `lru, popularity=uniform`.
    pub name: String,
    /// What it sets, by dotted key.
    pub params: Table,
}

/// Most arms of one experiment.
pub const ARMS_MAX: usize = 1000;

/// Where an arm may set something.
const SECTIONS: [&str; 4] = ["subject", "workload", "machine", "plan"];

/// Expands `[[arm]]` and `[matrix]`.
pub fn expand(arms: Option<Value>, matrix: Option<Value>) -> Result<Vec<Arm>> {
    let mut all = written(arms)?;
    for (key, values) in axes(matrix)? {
        let short = key.rsplit('.').next().unwrap_or(&key);
        let mut next = Vec::new();
        for arm in &all {
            for value in &values {
                let part = format!("{short}={}", plain(value));
                let name = match arm.name.as_str() {
                    "" => part,
                    name => format!("{name}, {part}"),
                };
                let mut params = arm.params.clone();
                if params.insert(key.clone(), value.clone()).is_some() {
                    bail!("`{key}` is set by the arm `{}` and by the matrix", arm.name);
                }
                next.push(Arm { name, params });
            }
        }
        if next.len() > ARMS_MAX {
            bail!("the matrix makes more than {ARMS_MAX} arms");
        }
        all = next;
    }
    if let [only] = all.as_mut_slice() {
        if only.name.is_empty() {
            only.name = "only".into();
        }
    }
    let mut names: Vec<&str> = all.iter().map(|arm| arm.name.as_str()).collect();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        bail!("two arms are called `{}`", twice[0]);
    }
    Ok(all)
}

fn written(arms: Option<Value>) -> Result<Vec<Arm>> {
    let Some(arms) = arms else {
        return Ok(vec![Arm {
            name: String::new(),
            params: Table::new(),
        }]);
    };
    let Value::Array(arms) = arms else {
        bail!("`arm`: write each arm as `[[arm]]` with a name");
    };
    arms.into_iter().map(one).collect()
}

fn one(arm: Value) -> Result<Arm> {
    let Value::Object(table) = arm else {
        bail!("`arm`: write each arm as `[[arm]]` with a name");
    };
    let mut params = flatten(table.into_iter().collect());
    let name = match params.remove("name") {
        Some(Value::String(name)) if !name.is_empty() && name.len() <= 100 => name,
        _ => bail!("`arm.name` is missing: a string of at most 100 bytes"),
    };
    if name.contains(',') {
        bail!("`arm.name` = \"{name}\": a comma separates a name from what the matrix sets");
    }
    params
        .keys()
        .try_for_each(|key| check(key, &format!("arm `{name}`")))?;
    Ok(Arm { name, params })
}

fn axes(matrix: Option<Value>) -> Result<Vec<(String, Vec<Value>)>> {
    let table = match matrix {
        None => return Ok(Vec::new()),
        Some(Value::Object(table)) => flatten(table.into_iter().collect()),
        Some(_) => bail!("`matrix`: write `[matrix]` and below it `\"subject.policy\" = [..]`"),
    };
    table
        .into_iter()
        .map(|(key, values)| {
            check(&key, "matrix")?;
            match values {
                Value::Array(values) if !values.is_empty() => Ok((key, values)),
                _ => bail!("`matrix.{key}`: write a list of values, at least one"),
            }
        })
        .collect()
}

fn check(key: &str, of: &str) -> Result<()> {
    match key.split_once('.') {
        Some((section, _)) if SECTIONS.contains(&section) => Ok(()),
        Some((section, _)) if nearest(section, SECTIONS).is_some() => {
            bail!("`{key}` of {of}: {}", unknown(section, &SECTIONS))
        }
        _ => bail!(
            "`{key}` of {of}: write `subject.{key}`, `workload.{key}`, `machine.{key}` or `plan.{key}`"
        ),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.replace(',', ";"),
        other => other.to_string().replace(',', ";"),
    }
}

impl Arm {
    /// The parts of its name: what was written, and what each axis of the matrix set.
    pub fn parts(&self) -> Vec<&str> {
        self.name.split(", ").collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn arms_times_matrix() {
        let arms = expand(
            Some(json!([
                { "name": "lru", "subject": { "policy": "lru" } },
                { "name": "ours", "subject.policy": "gen-duel" }
            ])),
            Some(json!({ "workload": { "popularity": ["uniform", "zipf:1"] }, "subject.memory": [1, 2] })),
        )
        .unwrap();
        assert_eq!(arms.len(), 8);
        assert_eq!(arms[0].name, "lru, memory=1, popularity=uniform");
        assert_eq!(arms[7].params["subject.memory"], 2);
        assert_eq!(arms[7].params["subject.policy"], "gen-duel");
        assert_eq!(expand(None, None).unwrap()[0].name, "only");
        let alone = expand(None, Some(json!({ "subject.policy": ["lru"] }))).unwrap();
        assert_eq!(alone[0].name, "policy=lru");
    }

    #[test]
    fn slips_are_named() {
        for (arms, matrix, said) in [
            (
                json!([{ "subject.policy": "lru" }]),
                json!({}),
                "`arm.name`",
            ),
            (
                json!([{ "name": "a", "policy": 1 }]),
                json!({}),
                "write `subject.policy`",
            ),
            (
                json!([{ "name": "a", "sbject.x": 1 }]),
                json!({}),
                "did you mean `subject`",
            ),
            (
                json!([{ "name": "a" }, { "name": "a" }]),
                json!({}),
                "two arms",
            ),
            (
                json!([{ "name": "a" }]),
                json!({ "plan.rate": 5 }),
                "matrix.plan.rate",
            ),
            (
                json!([{ "name": "a", "plan.rate": 1 }]),
                json!({ "plan.rate": [5] }),
                "by the matrix",
            ),
        ] {
            let error = expand(Some(arms), Some(matrix)).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
