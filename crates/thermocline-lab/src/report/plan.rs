//! What the experiment's file laid down before the runs were made, as far as a report needs it. Read from the text
//! kept in the points file, so that a report needs nothing else.

use crate::stats::Better;
use anyhow::{ensure, Context, Result};
use serde::Deserialize;

/// A family's error rate.
pub const ALPHA: f64 = 0.05;

#[derive(Clone, Debug, Default, Deserialize)]
pub struct Plan {
    #[serde(default)]
    pub question: Option<String>,
    #[serde(default, rename = "arm")]
    arms: Vec<ArmName>,
    #[serde(default, rename = "compare")]
    pub compares: Vec<Compare>,
    #[serde(default)]
    plan: Schedule,
    #[serde(default)]
    matrix: toml::Table,
    #[serde(default)]
    subject: Subject,
}

/// What a command's experiment says of its output.
#[derive(Clone, Debug, Default, Deserialize)]
struct Subject {
    /// Figure -> how it is found.
    #[serde(default)]
    metrics: toml::Table,
}

#[derive(Clone, Debug, Deserialize)]
struct ArmName {
    name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Schedule {
    #[serde(default)]
    kind: Option<String>,
    #[serde(default)]
    looks: Option<usize>,
}

/// One `[[compare]]`.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Compare {
    #[serde(default = "usual_metric")]
    pub metric: String,
    #[serde(default)]
    pub baseline: Option<String>,
    /// `None`: every other arm.
    #[serde(default)]
    pub arms: Option<Vec<String>>,
    /// `None`: as the metric's name suggests.
    #[serde(default)]
    pub better: Option<Better>,
    #[serde(default)]
    pub smallest_effect_percent: Option<f64>,
    /// Comparisons of one family share its error rate; by default all do.
    #[serde(default)]
    pub family: Option<String>,
}

fn usual_metric() -> String {
    "ops_per_s".into()
}

impl Compare {
    /// Times, seconds and misses are better when lower.
    pub fn better(&self) -> Better {
        let lower = ["_ns", "seconds", "miss"]
            .iter()
            .any(|part| self.metric.contains(part))
            || self.metric.starts_with("ns_");
        self.better
            .unwrap_or(if lower { Better::Lower } else { Better::Higher })
    }
}

impl Plan {
    /// From the experiment's text; an empty text has an empty plan.
    pub fn read(text: &str) -> Result<Plan> {
        let plan: Plan = toml::from_str(text).context("the experiment kept in the points file")?;
        for compare in &plan.compares {
            if let Some(percent) = compare.smallest_effect_percent {
                ensure!(
                    percent > 0.0 && percent.is_finite(),
                    "compare {}: smallest_effect_percent = {percent} is not above zero",
                    compare.metric
                );
            }
        }
        Ok(plan)
    }

    /// The figures the experiment reads from its command's output: shown whether they are compared or not.
    pub fn own_figures(&self) -> Vec<String> {
        self.subject.metrics.keys().cloned().collect()
    }

    /// Arms in the order of the file.
    pub fn arm_names(&self) -> Vec<&str> {
        self.arms.iter().map(|arm| arm.name.as_str()).collect()
    }

    /// An arm's name without the parts that are its setting: of `lru, memory=64MiB` the matrix' axis `memory` is the
    /// setting, unless a comparison names that part, which makes it a thing compared.
    pub fn arm_of(&self, name: &str) -> String {
        let parts: Vec<&str> = name.split(", ").collect();
        let setting = |part: &str| {
            self.settings()
                .iter()
                .any(|axis| part.starts_with(axis.as_str()))
        };
        let kept: Vec<&str> = parts
            .iter()
            .copied()
            .filter(|part| !setting(part))
            .collect();
        match kept.is_empty() {
            true => name.to_string(),
            false => kept.join(", "),
        }
    }

    /// `memory=` for each axis of the matrix that no comparison names.
    fn settings(&self) -> Vec<String> {
        let mut axes = Vec::new();
        axis_names(&self.matrix, &mut axes);
        let named = self
            .compares
            .iter()
            .flat_map(|compare| compare.baseline.iter().chain(compare.arms.iter().flatten()));
        let parts: Vec<&str> = named.flat_map(|name| name.split(", ")).collect();
        axes.retain(|axis| !parts.iter().any(|part| part.starts_with(axis.as_str())));
        axes
    }

    /// Looks of a group-sequential plan; `None` for a fixed number of runs.
    pub fn looks(&self) -> Option<usize> {
        (self.plan.kind.as_deref() == Some("sequential")).then(|| self.plan.looks.unwrap_or(3))
    }
}

/// The last part of every key that has a list, as it stands in an arm's name.
fn axis_names(table: &toml::Table, into: &mut Vec<String>) {
    for (key, value) in table {
        match value {
            toml::Value::Table(inner) => axis_names(inner, into),
            _ => into.push(format!("{}=", key.rsplit('.').next().unwrap_or(key))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comparisons_are_read_and_what_is_no_business_of_ours_is_left() {
        let plan = Plan::read(
            "question = \"which?\"\n[subject]\nkind = \"null\"\n[plan]\nkind = \"sequential\"\nrepeats = 6\n\
             [[arm]]\nname = \"lru\"\n[[arm]]\nname = \"gen\"\nsubject.policy = \"gen-duel\"\n\
             [[compare]]\nmetric = \"ops_per_s\"\nbaseline = \"lru\"\nbetter = \"higher\"\nsmallest_effect_percent = 2\n",
        )
        .unwrap();
        assert_eq!(plan.arm_names(), ["lru", "gen"]);
        assert_eq!(plan.looks(), Some(3));
        assert_eq!(plan.compares[0].smallest_effect_percent, Some(2.0));
        assert_eq!(Plan::read("").unwrap().looks(), None);
    }

    #[test]
    fn the_axes_that_are_not_compared_are_settings() {
        let text = "[matrix]\nworkload.popularity = [\"uniform\", \"zipf:1\"]\n\"subject.memory\" = [1, 2]\n";
        let plan = Plan::read(text).unwrap();
        assert_eq!(plan.arm_of("lru, popularity=uniform, memory=1"), "lru");
        assert_eq!(plan.arm_of("popularity=uniform"), "popularity=uniform");
        let text = format!("{text}[[compare]]\nbaseline = \"popularity=uniform\"\n");
        let plan = Plan::read(&text).unwrap();
        assert_eq!(
            plan.arm_of("popularity=zipf:1, memory=2"),
            "popularity=zipf:1"
        );
        assert_eq!(plan.compares[0].metric, "ops_per_s");
    }

    #[test]
    fn the_better_way_follows_the_metric_unless_it_is_said() {
        let better = |line: &str| {
            let plan = Plan::read(&format!("[[compare]]\n{line}")).unwrap();
            plan.compares[0].better()
        };
        assert_eq!(better("metric = \"service_ns_p99\""), Better::Lower);
        assert_eq!(better("metric = \"hit_ratio\""), Better::Higher);
        assert_eq!(
            better("metric = \"hit_ratio\"\nbetter = \"lower\""),
            Better::Lower
        );
    }

    #[test]
    fn nonsense_is_named() {
        let error =
            Plan::read("[[compare]]\nmetric = \"m\"\nsmallest_effect_percent = 0.0").unwrap_err();
        assert!(
            error.to_string().contains("smallest_effect_percent"),
            "{error}"
        );
        assert!(Plan::read("= 3").is_err());
    }
}
