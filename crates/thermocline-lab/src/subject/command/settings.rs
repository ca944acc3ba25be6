//! The settings of a command: `run`, `setup`, `cleanup`, `with` (its parameters), `metrics` (a regular expression for
//! each figure), `report` (a known benchmark's final report).

use super::output::{Reader, Report};
use super::{template, CommandSubject};
use crate::settings::{Settings, Table};
use crate::subject::{Recipe, StartContext, Subject, Works};
use anyhow::{bail, Context, Result};
use regex_lite::Regex;
use serde_json::Value;
use std::collections::BTreeMap;

/// Figures one command may have: each is a pattern tried on every line it prints.
const METRICS_MAX: usize = 64;

/// A command before it is started.
pub struct CommandRecipe {
    run: String,
    setup: Option<String>,
    cleanup: Option<String>,
    parameters: BTreeMap<String, String>,
    metrics: Vec<(String, Regex)>,
    report: Option<Report>,
}

/// The same with its parameters filled in.
#[derive(Clone, Debug)]
pub struct Script {
    pub run: String,
    /// The command with the arm's parameters, but without the point's own paths: for the record.
    pub shown: String,
    pub setup: Option<String>,
    pub cleanup: Option<String>,
    metrics: Vec<(String, Regex)>,
    report: Option<Report>,
}

impl CommandRecipe {
    pub fn read(settings: &mut Settings) -> Result<Self> {
        // Inner tables come flattened (`with.jobs`) from a file, whole from elsewhere.
        let mut rest = settings.rest();
        let parameters = parameters(inner(&mut rest, "with")?)?;
        let metrics = patterns(inner(&mut rest, "metrics")?)?;
        let mut settings = Settings::new("subject", rest);
        let run = settings
            .text("run")?
            .context("`subject.run` is missing: the shell command to measure")?;
        let recipe = CommandRecipe {
            run,
            setup: settings.text("setup")?,
            cleanup: settings.text("cleanup")?,
            parameters,
            metrics,
            report: settings.choice("report", Report::CHOICES)?,
        };
        settings.finish()?;
        // Names that are filled in at the start of a point stand for themselves here.
        recipe.fill(&template::stand_ins())?;
        Ok(recipe)
    }

    /// What is given, and the parameters, in which it may be named: `how = "--memory-dir {tmpfs}"`.
    fn names(&self, given: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>> {
        let mut names = given.clone();
        for (name, value) in &self.parameters {
            let filled =
                template::fill(value, given).with_context(|| format!("`subject.with.{name}`"))?;
            names.entry(name.clone()).or_insert(filled);
        }
        Ok(names)
    }

    fn fill(&self, given: &BTreeMap<String, String>) -> Result<Script> {
        let names = self.names(given)?;
        let fill = |what: &str, text: &String| {
            template::fill(text, &names).with_context(|| format!("`subject.{what}`"))
        };
        let stands = template::stand_ins().into_keys();
        let shown = self.names(
            &stands
                .map(|name| (name.clone(), format!("{{{name}}}")))
                .collect(),
        )?;
        Ok(Script {
            run: fill("run", &self.run)?,
            shown: template::fill(&self.run, &shown)?,
            setup: self
                .setup
                .as_ref()
                .map(|text| fill("setup", text))
                .transpose()?,
            cleanup: self
                .cleanup
                .as_ref()
                .map(|text| fill("cleanup", text))
                .transpose()?,
            metrics: self.metrics.clone(),
            report: self.report,
        })
    }
}

impl Script {
    pub fn reader(&self) -> Reader {
        Reader::new(self.metrics.clone(), self.report)
    }
}

impl Recipe for CommandRecipe {
    fn start(&self, context: &StartContext) -> Result<Box<dyn Subject>> {
        let script = self.fill(&template::given(context)?)?;
        Ok(Box::new(CommandSubject::start(script)?))
    }

    fn works(&self) -> Works {
        Works::Started
    }

    fn runs_alone(&self) -> bool {
        true
    }

    fn warnings(&self) -> Vec<String> {
        match self.metrics.is_empty() && self.report.is_none() {
            true => vec!["`subject.metrics` names no figure of the command's output: only its time and the kernel's counters are recorded".into()],
            false => Vec::new(),
        }
    }
}

/// Takes the table `name` out of the subject's, however it is written.
fn inner(table: &mut Table, name: &str) -> Result<Table> {
    let prefix = format!("{name}.");
    let mut found: Table = match table.remove(name) {
        None => Table::new(),
        Some(Value::Object(map)) => map.into_iter().collect(),
        Some(other) => bail!("`subject.{name}` = {other}: write a table"),
    };
    let keys: Vec<String> = table
        .keys()
        .filter(|key| key.starts_with(&prefix))
        .cloned()
        .collect();
    for key in keys {
        let short = key[prefix.len()..].to_string();
        found.extend(table.remove(&key).map(|value| (short, value)));
    }
    Ok(found)
}

fn parameters(table: Table) -> Result<BTreeMap<String, String>> {
    table
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => Ok((name, text)),
            Value::Number(_) | Value::Bool(_) => Ok((name, value.to_string())),
            other => bail!("`subject.with.{name}` = {other}: write a string or a number"),
        })
        .collect()
}

fn patterns(table: Table) -> Result<Vec<(String, Regex)>> {
    if table.len() > METRICS_MAX {
        bail!("`subject.metrics`: more than {METRICS_MAX} figures");
    }
    table
        .into_iter()
        .map(|(name, value)| {
            let Value::String(text) = &value else {
                bail!("`subject.metrics.{name}` = {value}: write a regular expression in quotes");
            };
            let pattern = Regex::new(text)
                .with_context(|| format!("`subject.metrics.{name}`: `{text}`"))?;
            if pattern.captures_len() != 2 {
                bail!("`subject.metrics.{name}`: `{text}` has {} groups; one, in parentheses, is the number", pattern.captures_len() - 1);
            }
            Ok((name, pattern))
        })
        .collect()
}
