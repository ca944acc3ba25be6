//! Which arms are compared, in what, and what counts as a difference. Written before the run; the statistics read
//! it after.

use super::arms::Arm;
use crate::settings::{unknown, Settings};
use crate::stats::Better;
use anyhow::{bail, Result};
use serde_json::Value;

/// Candidates against one baseline in one metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    pub metric: String,
    /// Full name of an arm.
    pub baseline: String,
    /// Full names of arms.
    pub arms: Vec<String>,
    pub better: Better,
    /// Differences below this interest nobody, percent of the baseline.
    pub smallest_effect_percent: Option<f64>,
    /// Comparisons of one family share one chance of a false alarm.
    pub family: String,
}

/// Reads `[[compare]]`. With a matrix, a baseline named by some of its parts stands for one comparison in each
/// cell of the rest.
pub fn read(tables: Option<Value>, arms: &[Arm]) -> Result<Vec<Comparison>> {
    let tables = match tables {
        None => return Ok(Vec::new()),
        Some(Value::Array(tables)) => tables,
        Some(_) => bail!("`compare`: write each comparison as `[[compare]]`"),
    };
    let mut all = Vec::new();
    for table in tables {
        let Value::Object(table) = table else {
            bail!("`compare`: write each comparison as `[[compare]]`");
        };
        let mut settings = Settings::new("compare", table.into_iter().collect());
        all.extend(one(&mut settings, arms)?);
        settings.finish()?;
    }
    Ok(all)
}

fn one(settings: &mut Settings, arms: &[Arm]) -> Result<Vec<Comparison>> {
    let metric = settings
        .text("metric")?
        .unwrap_or_else(|| "ops_per_s".into());
    let Some(baseline) = settings.text("baseline")? else {
        return Err(settings.missing("baseline", "the name of an arm"));
    };
    let candidates = match settings.take("arms") {
        None => None,
        Some(Value::String(one)) => Some(vec![one]),
        Some(Value::Array(names)) => Some(
            names
                .iter()
                .map(|name| name.as_str().map(str::to_string))
                .collect::<Option<Vec<_>>>()
                .ok_or_else(|| anyhow::anyhow!("`compare.arms`: write a list of names of arms"))?,
        ),
        Some(_) => bail!("`compare.arms`: write a list of names of arms"),
    };
    let directions = [("higher", Better::Higher), ("lower", Better::Lower)];
    let usual = if metric.contains("_ns") || metric.contains("seconds") || metric.contains("miss") {
        Better::Lower
    } else {
        Better::Higher
    };
    let template = Comparison {
        better: settings.choice("better", &directions)?.unwrap_or(usual),
        smallest_effect_percent: settings.number("smallest_effect_percent")?,
        family: settings.text("family")?.unwrap_or_else(|| "main".into()),
        metric,
        baseline: String::new(),
        arms: Vec::new(),
    };
    if template
        .smallest_effect_percent
        .is_some_and(|percent| percent <= 0.0)
    {
        bail!("`compare.smallest_effect_percent` lies above 0");
    }
    cells(&template, &baseline, candidates.as_deref(), arms)
}

/// One comparison for each arm the baseline's name fits.
fn cells(
    template: &Comparison,
    baseline: &str,
    candidates: Option<&[String]>,
    arms: &[Arm],
) -> Result<Vec<Comparison>> {
    let names: Vec<&str> = arms.iter().map(|arm| arm.name.as_str()).collect();
    let mut all = Vec::new();
    for arm in arms {
        let Some(cell) = rest(arm, baseline) else {
            continue;
        };
        let fits = |other: &&Arm| {
            other.name != arm.name
                && match candidates {
                    None => cell.iter().all(|part| other.parts().contains(part)),
                    Some(wanted) => wanted
                        .iter()
                        .any(|name| rest(other, name).is_some_and(|rest| rest == cell)),
                }
        };
        all.push(Comparison {
            baseline: arm.name.clone(),
            arms: arms
                .iter()
                .filter(fits)
                .map(|arm| arm.name.clone())
                .collect(),
            ..template.clone()
        });
    }
    if all.is_empty() {
        bail!("`compare.baseline`: {}", unknown(baseline, &names));
    }
    for wanted in candidates.unwrap_or_default() {
        if !arms.iter().any(|arm| rest(arm, wanted).is_some()) {
            bail!("`compare.arms`: {}", unknown(wanted, &names));
        }
    }
    all.retain(|comparison| !comparison.arms.is_empty());
    if all.is_empty() {
        bail!("`compare.arms`: no arm stands beside the baseline `{baseline}`");
    }
    Ok(all)
}

/// The parts of an arm's name that `selector` does not name; `None` if it names one the arm has not.
fn rest<'a>(arm: &'a Arm, selector: &str) -> Option<Vec<&'a str>> {
    let mut parts = arm.parts();
    for wanted in selector.split(", ") {
        let at = parts.iter().position(|part| *part == wanted)?;
        parts.remove(at);
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::super::arms::expand;
    use super::*;
    use serde_json::json;

    fn grid() -> Vec<Arm> {
        expand(
            Some(json!([{ "name": "lru" }, { "name": "mglru" }, { "name": "gen-duel" }])),
            Some(json!({ "workload.popularity": ["uniform", "zipf"] })),
        )
        .unwrap()
    }

    #[test]
    fn a_part_of_a_name_compares_within_each_cell() {
        let all = read(
            Some(json!([{ "baseline": "lru", "arms": ["mglru"], "metric": "service_ns_p99" }])),
            &grid(),
        )
        .unwrap();
        assert_eq!(all.len(), 2);
        assert_eq!(all[1].baseline, "lru, popularity=zipf");
        assert_eq!(all[1].arms, ["mglru, popularity=zipf"]);
        assert_eq!(all[0].better, Better::Lower);
        let everyone = read(Some(json!([{ "baseline": "lru" }])), &grid()).unwrap();
        assert_eq!(everyone[0].arms.len(), 2);
        let across = read(
            Some(json!([{ "baseline": "lru, popularity=zipf", "arms": ["lru, popularity=uniform"] }])),
            &grid(),
        )
        .unwrap();
        assert_eq!(across[0].arms, ["lru, popularity=uniform"]);
    }

    #[test]
    fn slips_are_named() {
        for (compare, said) in [
            (json!({}), "`compare.baseline` is missing"),
            (json!({ "baseline": "mglur" }), "unknown name `mglur`"),
            (
                json!({ "baseline": "lru", "arms": ["gen"] }),
                "compare.arms",
            ),
            (
                json!({ "baseline": "lru", "beter": "lower" }),
                "did you mean `better`",
            ),
            (
                json!({ "baseline": "lru", "smallest_effect_percent": 0 }),
                "above 0",
            ),
        ] {
            let error = read(Some(json!([compare])), &grid())
                .unwrap_err()
                .to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
