//! The kinds of subject by name: from a `[subject]` table to a checked recipe.

use super::command::CommandRecipe;
use super::engine_recipe::{self, EngineRecipe};
use super::file_recipe::FileRecipe;
use super::memcached::MemcachedRecipe;
use super::mock::Mock;
use super::recipe::Recipe;
use crate::settings::{unknown, Settings, Table};
use anyhow::{bail, Result};

/// Reads `[subject]`: its `kind` says which, the rest is the kind's own.
pub fn read_subject(table: Table) -> Result<Box<dyn Recipe>> {
    let mut settings = Settings::new("subject", table);
    let Some(kind) = settings.text("kind")? else {
        return Err(settings.missing("kind", &format!("one of {}", names().join(", "))));
    };
    let recipe = of_kind(&kind, &mut settings)?;
    settings.finish()?;
    Ok(recipe)
}

fn names() -> Vec<&'static str> {
    let mut names: Vec<&str> = engine_recipe::KINDS.iter().map(|(name, _)| *name).collect();
    names.extend(["command", "file", "memcached", "mock", "server"]);
    names
}

fn of_kind(kind: &str, settings: &mut Settings) -> Result<Box<dyn Recipe>> {
    if let Some((_, arm)) = engine_recipe::KINDS.iter().find(|(name, _)| *name == kind) {
        return Ok(Box::new(EngineRecipe::read(*arm, settings)?));
    }
    match kind {
        "command" => Ok(Box::new(CommandRecipe::read(settings)?)),
        "file" => Ok(Box::new(FileRecipe::read(settings)?)),
        "memcached" => Ok(Box::new(MemcachedRecipe::read_running(settings)?)),
        "server" => Ok(Box::new(MemcachedRecipe::read_started(settings)?)),
        "mock" => Ok(Box::new(Mock::read(settings)?)),
        other => bail!("`subject.kind`: {}", unknown(other, &names())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::recipe::StartContext;
    use crate::subject::Outcomes;
    use crate::workload::{key_into, Batch, Kind, Op};
    use serde_json::json;

    fn table(values: serde_json::Value) -> Table {
        serde_json::from_value(values).unwrap()
    }

    fn context() -> StartContext {
        StartContext {
            workers: 1,
            value_bytes_max: 100,
            items: 1000,
            item_bytes: 116.0,
            is_stamped: true,
            seed: 1,
            scratch: std::env::temp_dir(),
            members: Vec::new(),
        }
    }

    #[test]
    fn every_engine_starts_takes_operations_and_stops() {
        for (kind, _) in engine_recipe::KINDS {
            let recipe = read_subject(table(json!({ "kind": kind, "memory": "32MiB" }))).unwrap();
            let subject = recipe.start(&context()).unwrap();
            let mut batch = Batch::default();
            for op in [Kind::Write, Kind::Read, Kind::Delete] {
                batch.push(Op::new(op, 7, 100), 16, |key| key_into(7, key));
            }
            let mut outcomes = Outcomes::new(std::time::Instant::now());
            outcomes.reset(3);
            let mut worker = subject.worker(0).unwrap();
            worker.apply(&batch, &mut outcomes).unwrap();
            use crate::subject::Answer::*;
            let answers: Vec<_> = outcomes.all.iter().map(|o| o.answer).collect();
            assert_eq!(answers, [Stored, Hit, Stored], "{kind}");
            drop(worker);
            assert_eq!(subject.facts()["engine"], kind);
            subject.stop().unwrap();
        }
    }

    #[test]
    fn what_is_not_known_is_refused_by_its_full_name() {
        for (values, said) in [
            (json!({}), "`subject.kind` is missing"),
            (json!({ "kind": "mockk" }), "did you mean `mock`"),
            (json!({ "kind": "moka" }), "`subject.memory` is missing"),
            (
                json!({ "kind": "thermocline", "memory": "1MiB" }),
                "too small",
            ),
            (
                json!({ "kind": "thermocline", "memory": "64MiB", "objektive": "bytes" }),
                "did you mean `objective`",
            ),
            (
                json!({ "kind": "thermocline", "memory": "64MiB", "objective": "byte" }),
                "did you mean `bytes`",
            ),
        ] {
            let error = format!("{:#}", read_subject(table(values)).err().unwrap());
            assert!(error.contains(said), "{error} lacks {said}");
        }
    }
}
