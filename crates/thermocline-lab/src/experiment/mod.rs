//! An experiment: one question, and the file that says how it is answered. Reads and checks; runs nothing.
//!
//! ```toml
//! question = "Does our engine hit more often than moka in the same memory?"
//! [subject]
//! memory = "64MiB"
//! [workload]
//! popularity = "zipf:0.9"
//! [[arm]]
//! name = "moka"
//! subject.kind = "moka"
//! [[arm]]
//! name = "ours"
//! subject.kind = "thermocline"
//! ```

pub mod arms;
pub mod compare;
pub mod lint;
pub mod plan;
pub mod text;
pub mod workloads;

pub use arms::Arm;
pub use compare::Comparison;
pub use plan::Plan;

use crate::measure::{Loop, Setup};
use crate::point::Planned;
use crate::settings::{unknown, Settings, Table};
use crate::subject::{read_subject, Recipe, Works};
use crate::workload::Workload;
use anyhow::{bail, Context, Result};
use serde_json::Value;
use std::path::Path;
use text::Places;

/// A file, read and checked as far as can be without running.
pub struct Experiment {
    /// The file's name without its extension.
    pub name: String,
    pub question: String,
    /// The file as it is.
    pub text: String,
    pub arms: Vec<Arm>,
    pub plan: Plan,
    pub comparisons: Vec<Comparison>,
    subject: Table,
    workload: Table,
    machine: Table,
    places: Places,
}

/// What one arm comes to.
pub struct Resolved {
    pub subject: Table,
    pub workload: Table,
    /// Machine knobs, `[machine]` with the arm's overrides.
    pub machine: Table,
    pub setup: Setup,
}

const SECTIONS: [&str; 8] = [
    "question", "subject", "workload", "machine", "arm", "matrix", "plan", "compare",
];

/// Name of the arm that is a baseline again.
pub fn aa_name(baseline: &str) -> String {
    format!("A/A {baseline}")
}

impl Experiment {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Experiment> {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        let name = path.file_stem().map_or_else(
            || "experiment".into(),
            |stem| stem.to_string_lossy().into_owned(),
        );
        Self::parse(&name, &text).with_context(|| path.display().to_string())
    }

    /// Reads its text. Every arm is checked: settings of subject and workload, and the loop they are measured in.
    pub fn parse(name: &str, text: &str) -> Result<Experiment> {
        let (table, places) = text::parse(text)?;
        let experiment = Self::of_table(name, text, table, places.clone())
            .map_err(|error| places.locate(&error))?;
        for arm in &experiment.arms {
            experiment
                .check(arm)
                .map_err(|error| places.locate(&error))
                .with_context(|| format!("arm `{}`", arm.name))?;
        }
        Ok(experiment)
    }

    fn of_table(name: &str, text: &str, mut table: Table, places: Places) -> Result<Experiment> {
        if let Some(key) = table.keys().find(|key| !SECTIONS.contains(&key.as_str())) {
            bail!("`{key}`: {}", unknown(key, &SECTIONS));
        }
        let question = match table.remove("question") {
            Some(Value::String(question)) if !question.trim().is_empty() => question,
            _ => bail!("`question` is missing: what is to be found out, in one sentence"),
        };
        let mut arms = arms::expand(table.remove("arm"), table.remove("matrix"))?;
        let mut settings = Settings::new("plan", section(&mut table, "plan")?);
        let plan = Plan::read(&mut settings)?;
        let mut comparisons = compare::read(table.remove("compare"), &arms)?;
        if plan.aa {
            add_aa(&mut arms, &mut comparisons)?;
        }
        Ok(Experiment {
            name: name.to_string(),
            question,
            text: text.to_string(),
            arms,
            plan,
            comparisons,
            subject: section(&mut table, "subject")?,
            workload: section(&mut table, "workload")?,
            machine: section(&mut table, "machine")?,
            places,
        })
    }

    /// The points in the order in which they are to be taken.
    pub fn points(&self) -> Result<Vec<Planned>> {
        self.plan.points(&self.arms)
    }

    /// What `params` make of the file's sections.
    pub fn resolve(&self, params: &Table) -> Result<Resolved> {
        let mut plan = self.plan.setup.clone();
        let (mut subject, mut workload) = (self.subject.clone(), self.workload.clone());
        let mut machine = self.machine.clone();
        for (key, value) in params {
            let (section, rest) = key.split_once('.').unwrap_or((key, ""));
            let table = match section {
                "subject" => &mut subject,
                "workload" => &mut workload,
                "machine" => &mut machine,
                "plan" => &mut plan,
                _ => bail!("`{key}`: no such section"),
            };
            table.insert(rest.to_string(), value.clone());
        }
        let mut settings = Settings::new("plan", plan);
        let setup = Setup::read(&mut settings)?;
        // Suggestions come from the whole section, also where the key itself is not an arm's to set.
        for known in [
            "repeats",
            "blocks",
            "order",
            "seed",
            "kind",
            "looks",
            "aa",
            "load_limit",
        ] {
            if settings.take(known).is_some() {
                bail!("`plan.{known}` holds for the experiment, not for one arm");
            }
        }
        settings.finish()?;
        Ok(Resolved {
            subject,
            workload,
            machine,
            setup,
        })
    }

    fn check(&self, arm: &Arm) -> Result<()> {
        let resolved = self.resolve(&arm.params)?;
        resolved.recipe().map(drop)
    }

    /// A complaint with its line.
    pub fn locate(&self, complaint: &anyhow::Error) -> anyhow::Error {
        self.places.locate(complaint)
    }
}

/// A subject, its workload (None for one that runs alone), and how it is driven.
pub type Parts = (Box<dyn Recipe>, Option<Box<dyn Workload>>, Loop);

impl Resolved {
    /// Subject and workload, checked together. No workload for subjects that run alone.
    pub fn recipe(&self) -> Result<Parts> {
        let recipe = read_subject(self.subject.clone())?;
        self.check_group(recipe.as_ref())?;
        if recipe.runs_alone() {
            if let Some(key) = self.workload.keys().next() {
                bail!("`workload.{key}`: a command brings its own work; leave `[workload]` out");
            }
            return Ok((recipe, None, Loop::Closed));
        }
        let workload = workloads::read_workload(self.workload.clone(), 1)?;
        let mode = self.setup.loop_for(recipe.is_server())?;
        Ok((recipe, Some(workload), mode))
    }

    /// A limit that would not hold for what is measured is refused, not passed over.
    fn check_group(&self, recipe: &dyn Recipe) -> Result<()> {
        let knob = self.machine.keys().find(|name| name.starts_with("cgroup."));
        if let (Some(knob), Works::Elsewhere) = (knob, recipe.works()) {
            bail!("`machine.{knob}`: a server that runs already is not moved into a cgroup; let the lab start it: `subject.kind = \"server\"`");
        }
        let charges = self.machine.contains_key("cgroup.charge_pools");
        if charges && !recipe.runs_alone() {
            bail!("`machine.cgroup.charge_pools` is for commands: nobody lowers the limit of engines and servers");
        }
        Ok(())
    }
}

fn section(table: &mut Table, name: &str) -> Result<Table> {
    match table.remove(name) {
        None => Ok(Table::new()),
        Some(Value::Object(inner)) => Ok(text::flatten(inner.into_iter().collect())),
        Some(_) => bail!("`{name}`: write it as a section, `[{name}]`"),
    }
}

/// Adds for every baseline an arm that is the same again, and its comparison.
fn add_aa(arms: &mut Vec<Arm>, comparisons: &mut Vec<Comparison>) -> Result<()> {
    if comparisons.is_empty() {
        bail!("`plan.aa` needs a `[[compare]]`: the baseline is what is run again");
    }
    for comparison in comparisons.clone() {
        let name = aa_name(&comparison.baseline);
        if !arms.iter().any(|arm| arm.name == name) {
            let baseline = arms.iter().find(|arm| arm.name == comparison.baseline);
            let params = baseline.map(|arm| arm.params.clone()).unwrap_or_default();
            arms.push(Arm {
                name: name.clone(),
                params,
            });
        }
        comparisons.push(Comparison {
            arms: vec![name],
            family: "A/A".into(),
            ..comparison
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
