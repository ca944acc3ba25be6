//! A shell command as the thing measured: a parallel compile, a database's own benchmark.
//!
//! Run once a point, inside the arm's cgroup if it names one, for a bounded time and with bounded memory for
//! what it prints. Its figures come from its output, from the kernel's accounting of its processes, and from the counters
//! of machine and cgroup before and after.

mod charge;
mod child;
mod output;
mod settings;
mod template;
mod usage;

pub use child::cgroup_shell;
pub use settings::CommandRecipe;

use super::{Alone, Subject, Worker};
use crate::environment::Counters;
use crate::knob::{in_force, InForce};
use crate::root::Root;
use anyhow::{bail, Context, Result};
use charge::Charge;
use serde_json::{json, Value};
use settings::Script;
use std::collections::BTreeMap;
use std::time::Duration;
use usage::Usage;

/// How long `setup` and `cleanup` may take each.
const AROUND_LIMIT: Duration = Duration::from_secs(600);

/// The command, its set-up done.
pub struct CommandSubject {
    script: Script,
    in_force: InForce,
    root: Root,
}

impl CommandSubject {
    fn start(script: Script) -> Result<Self> {
        let subject = CommandSubject {
            script,
            in_force: in_force().unwrap_or_default(),
            root: Root::live(),
        };
        if let Some(setup) = &subject.script.setup {
            subject.around("setup", setup)?;
        }
        Ok(subject)
    }

    /// Runs set-up or clean-up: outside the cgroup, not measured, but bounded.
    fn around(&self, what: &str, text: &str) -> Result<()> {
        let ended = child::run(
            &self.root,
            &[],
            text,
            Some(AROUND_LIMIT),
            &mut output::Reader::default(),
        )
        .with_context(|| format!("`subject.{what}`"))?;
        match ended.is_success() {
            true => Ok(()),
            false => bail!(
                "`subject.{what}` ended with {}: {}",
                ended.how,
                ended.last_words
            ),
        }
    }

    fn group(&self) -> Vec<String> {
        let group = self.in_force.group.as_ref();
        group
            .map(|group| group.directories.clone())
            .unwrap_or_default()
    }

    fn measure(&self, limit: Option<Duration>) -> Result<Alone> {
        let group = self.group();
        let members = self
            .in_force
            .group
            .as_ref()
            .map(|group| group.member_files());
        let pid = std::process::id();
        let mut reader = self.script.reader();
        let mut charge = Charge::begin(&self.root, &self.in_force);
        let before = Counters::read(&self.root, pid, &group);
        let usage_before = Usage::read();
        let ended = child::run(
            &self.root,
            &members.unwrap_or_default(),
            &self.script.run,
            limit,
            &mut reader,
        )?;
        let usage = Usage::read().since(&usage_before);
        let moved = Counters::read(&self.root, pid, &group).since(&before);
        let pools = charge.end();
        let mut alone = Alone {
            end: ended.how.clone(),
            seconds: ended.seconds,
            ..Alone::default()
        };
        usage.add_to(&mut alone, ended.seconds);
        usage::add_paging(&mut alone, &moved);
        alone.deltas.extend(moved);
        pools.add_to(&mut alone);
        if ended.was_stopped {
            // Not its own end: what it printed so far is no result.
            return Ok(alone);
        }
        if !ended.is_success() {
            bail!(
                "the command ended with {}{}: {}",
                ended.how,
                killed(&alone),
                ended.last_words
            );
        }
        reader.finish(&mut alone)?;
        Ok(alone)
    }
}

/// Whether the group's limit killed something, in words.
fn killed(alone: &Alone) -> String {
    let counted = alone.deltas.get("cgroup").and_then(|cgroup| {
        cgroup
            .get("memory.events.oom_kill")
            .or_else(|| cgroup.get("memory.oom_control.oom_kill"))
    });
    match counted {
        Some(count) => format!(" ({count} of its processes were killed at the memory limit)"),
        None => String::new(),
    }
}

impl Subject for CommandSubject {
    fn worker(&self, _id: usize) -> Result<Box<dyn Worker + '_>> {
        bail!("a command takes no operations: it brings its own work")
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        let mut facts = BTreeMap::from([
            ("command".to_string(), json!(self.script.shown)),
            ("read_back".to_string(), json!(self.in_force.read_back)),
        ]);
        let group = self.in_force.group.as_ref();
        let version = group.map(|group| format!("{:?}", group.version).to_lowercase());
        facts.insert(
            "cgroup_version".into(),
            json!(version.unwrap_or("no cgroup".into())),
        );
        facts
    }

    fn run_alone(&self, limit: Option<Duration>) -> Option<Result<Alone>> {
        Some(self.measure(limit))
    }

    fn stop(self: Box<Self>) -> Result<()> {
        match &self.script.cleanup {
            Some(cleanup) => self.around("cleanup", cleanup),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Settings;
    use crate::subject::{Recipe, StartContext};

    fn start(values: Value) -> Result<Box<dyn Subject>> {
        let mut settings = Settings::new("subject", serde_json::from_value(values).unwrap());
        let recipe = CommandRecipe::read(&mut settings)?;
        settings.finish()?;
        recipe.start(&StartContext {
            workers: 1,
            value_bytes_max: 0,
            items: 0,
            item_bytes: 0.0,
            is_stamped: false,
            seed: 7,
            scratch: std::env::temp_dir(),
            members: Vec::new(),
        })
    }

    fn run(values: Value, limit: Option<Duration>) -> Result<Alone> {
        start(values)?.run_alone(limit).unwrap()
    }

    #[test]
    fn figures_come_from_the_output_and_the_kernel() {
        let alone = run(
            json!({
                "run": "echo warm 1.5; echo rate {rate} a second; sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'",
                "with": {"rate": 42},
                "metrics": {"rate_per_s": "rate ([0-9.]+) a second"}
            }),
            None,
        )
        .unwrap();
        assert_eq!(alone.metrics["rate_per_s"], 42.0);
        assert_eq!(alone.end, "exit 0");
        assert!(alone.metrics["user_s"] + alone.metrics["system_s"] > 0.001);
        assert!(alone.deltas["vmstat"]["pgfault"] > 0.0);
        assert!(alone.deltas["rusage"]["minflt"] > 0.0);
        assert!(alone.seconds > 0.0);
    }

    #[test]
    fn inner_tables_may_come_flattened_and_mistakes_are_named() {
        let alone = run(
            json!({"run": "echo n={n}", "with.n": 7, "metrics.n": "n=([0-9]+)"}),
            None,
        );
        assert_eq!(alone.unwrap().metrics["n"], 7.0);
        let alone = run(
            json!({"run": "echo {how}", "with.how": "n={seed}", "metrics.n": "n=([0-9]+)"}),
            None,
        );
        assert_eq!(
            alone.unwrap().metrics["n"],
            7.0,
            "a parameter names what the point gives"
        );
        for (values, said) in [
            (json!({}), "`subject.run` is missing"),
            (json!({"run": "true", "metric": {}}), "`subject.metric`"),
            (
                json!({"run": "true", "setpu": "true"}),
                "did you mean `setup`",
            ),
            (json!({"run": "echo {m}", "with.n": 1}), "`{m}`"),
            (
                json!({"run": "echo {n}", "with.n": "{tmfps}"}),
                "did you mean `tmpfs`",
            ),
            (json!({"run": "true", "metrics": {"x": "x="}}), "0 groups"),
            (
                json!({"run": "true", "metrics": {"x": "x=(["}}),
                "`subject.metrics.x`",
            ),
            (
                json!({"run": "true", "report": "yscb"}),
                "did you mean `ycsb`",
            ),
        ] {
            let error = format!("{:#}", start(values).err().unwrap());
            assert!(error.contains(said), "{error} lacks {said}");
        }
    }

    #[test]
    fn a_figure_that_is_missing_is_a_failure_not_a_zero() {
        let error = run(
            json!({"run": "echo nothing", "metrics": {"x": "x=([0-9]+)"}}),
            None,
        )
        .unwrap_err();
        assert!(error.to_string().contains("`subject.metrics.x`"), "{error}");
    }

    #[test]
    fn a_command_that_fails_says_its_last_words() {
        let error = run(json!({"run": "echo all is lost >&2; exit 3"}), None).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("exit 3") && text.contains("all is lost"),
            "{text}"
        );
    }

    #[test]
    fn the_time_limit_ends_it_and_its_children() {
        let marker = format!("thermolab-test-{}", std::process::id());
        let alone = run(
            json!({"run": format!("sh -c 'exec -a {marker} sleep 60' & sleep 60")}),
            Some(Duration::from_millis(300)),
        )
        .unwrap();
        assert_eq!(alone.end, "time limit");
        assert!(alone.seconds < 10.0);
    }

    #[test]
    fn set_up_runs_before_and_clean_up_after() {
        let directory = tempfile::tempdir().unwrap();
        let at = directory.path().display();
        let subject = start(json!({
            "setup": format!("echo made > {at}/file"),
            "run": format!("cat {at}/file; echo words=3"),
            "cleanup": format!("rm {at}/file"),
            "metrics": {"words": "words=([0-9]+)"}
        }))
        .unwrap();
        assert!(directory.path().join("file").exists());
        assert_eq!(
            subject.run_alone(None).unwrap().unwrap().metrics["words"],
            3.0
        );
        subject.stop().unwrap();
        assert!(!directory.path().join("file").exists());
        assert!(start(json!({"run": "true", "setup": "exit 9"})).is_err());
    }

    #[test]
    fn output_without_end_is_bounded() {
        let alone = run(
            json!({"run": "yes 0123456789 | head -c 30000000; head -c 3000000 /dev/zero; echo; echo n=5", "metrics": {"n": "n=([0-9]+)"}}),
            None,
        )
        .unwrap();
        assert_eq!(alone.metrics["n"], 5.0);
    }
}
