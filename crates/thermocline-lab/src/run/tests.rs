//! The runner over the mock subject, in this process.

use super::*;
use crate::point::{EnvironmentLine, POINTS_FILE};
use std::collections::BTreeMap;

const TEXT: &str = r#"
question = "Does the runner run?"
[subject]
kind = "mock"
[workload]
keys = 100
[[arm]]
name = "good"
[[arm]]
name = "dying"
subject.fail_after = 300
[[arm]]
name = "absent"
subject.fail_start = true
[[arm]]
name = "wrong"
subject.wrong_after = 0
subject.hit_ratio = 1.0
[[arm]]
name = "knob"
machine.swappiness = 10
[plan]
repeats = 2
workers = 2
warmup = 0
duration = "60s"
operations = 2000
"#;

fn scratch(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("thermolab-run-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    dir
}

/// Counts its calls, refuses what [`NoHooks`] refuses.
#[derive(Default)]
struct Counting {
    before: usize,
    after: usize,
    begun: usize,
    ended: usize,
    /// Points after which the user wants to stop.
    enough: Option<usize>,
}

impl Hooks for Counting {
    fn before_point(&mut self, context: &PointContext<'_>) -> Result<()> {
        self.before += 1;
        NoHooks.before_point(context)
    }

    fn environment(
        &mut self,
        context: &PointContext<'_>,
        facts: &BTreeMap<String, serde_json::Value>,
        _pid: u32,
    ) -> EnvironmentLine {
        assert_eq!(facts["subject.engine"], "mock");
        assert!(context.settings.contains_key("plan.workers"));
        EnvironmentLine {
            hash: format!("{}", context.index % 2),
            groups: BTreeMap::new(),
        }
    }

    fn measuring_begins(&mut self, _pid: u32) {
        self.begun += 1;
    }

    fn measuring_ended(&mut self, _pid: u32) -> BTreeMap<String, BTreeMap<String, f64>> {
        self.ended += 1;
        [("vmstat".to_string(), [("pgfault".to_string(), 1.0)].into())].into()
    }

    fn is_interrupted(&self) -> bool {
        self.enough == Some(self.after)
    }

    fn after_point(&mut self) -> Vec<String> {
        self.after += 1;
        Vec::new()
    }
}

#[test]
fn what_fails_is_recorded_and_the_run_goes_on() {
    let (dir, mut hooks) = (scratch("all"), Counting::default());
    let experiment = Experiment::parse("runner", TEXT).unwrap();
    let summary = run(&experiment, &dir, &Place::Here, &mut hooks, true).unwrap();
    assert_eq!(
        (summary.ok, summary.failed, summary.refused, summary.left),
        (2, 6, 2, 0)
    );
    assert_eq!(
        (hooks.before, hooks.after, hooks.begun),
        (10, 10, 6),
        "dying ones begin"
    );
    assert_eq!(hooks.ended, 4);
    let results = Results::read(&dir).unwrap();
    assert_eq!(results.points.len(), 10);
    let order = |points: &[PointLine]| points.iter().map(|p| p.index).collect::<Vec<_>>();
    assert_eq!(order(&results.points), (0..10).collect::<Vec<_>>());
    for (arm, status, said) in [
        ("good", Status::Ok, ""),
        ("dying", Status::Failed, "died after 300"),
        ("absent", Status::Failed, "told not to start"),
        ("wrong", Status::Failed, "hits with another value"),
        ("knob", Status::Refused, "machine.swappiness"),
    ] {
        for point in results.points.iter().filter(|point| point.arm == arm) {
            assert_eq!(point.status, status, "{point:?}");
            let reason = point.reason.clone().unwrap_or_default();
            assert!(reason.contains(said), "{arm}: {reason}");
        }
    }
    let good = results
        .points
        .iter()
        .find(|point| point.arm == "good")
        .unwrap();
    assert_eq!(good.end, "operations");
    assert_eq!(good.metrics["operations_total"], 2000.0);
    assert_eq!(good.deltas["vmstat"]["pgfault"], 1.0);
    assert!(results.environment_of(good).is_some());
    assert!(results.environments.len() <= 2, "each hash once");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_run_cut_anywhere_is_resumed_at_the_next_point() {
    let (dir, mut hooks) = (scratch("cut"), Counting::default());
    let text = TEXT.replace("operations = 2000", "operations = 100");
    let experiment = Experiment::parse("runner", &text).unwrap();
    run(&experiment, &dir, &Place::Here, &mut hooks, true).unwrap();
    let path = dir.join(POINTS_FILE);
    let whole = std::fs::read(&path).unwrap();
    let first_line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    for part in 1..4 {
        let cut = first_line + (whole.len() - first_line) * part / 4;
        std::fs::write(&path, &whole[..cut]).unwrap();
        let before = Results::read(&dir).unwrap().points.len();
        assert!(before < 10);
        let mut hooks = Counting::default();
        let summary = resume(&dir, &Place::Here, &mut hooks, true).unwrap();
        assert_eq!(hooks.before, 10 - before, "only what was missing");
        assert_eq!(summary.left, 0);
        let results = Results::read(&dir).unwrap();
        let indices: Vec<usize> = results.points.iter().map(|p| p.index).collect();
        assert_eq!(indices, (0..10).collect::<Vec<_>>());
    }
    // Nothing is left to do: nothing is done.
    let mut hooks = Counting::default();
    resume(&dir, &Place::Here, &mut hooks, true).unwrap();
    assert_eq!(hooks.before, 0);
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn an_interrupted_point_is_not_written_and_knobs_are_put_back() {
    let dir = scratch("interrupted");
    let mut hooks = Counting {
        enough: Some(4),
        ..Counting::default()
    };
    let experiment = Experiment::parse("runner", TEXT).unwrap();
    let summary = run(&experiment, &dir, &Place::Here, &mut hooks, true).unwrap();
    assert!(summary.interrupted);
    assert_eq!(hooks.before, hooks.after);
    let taken = Results::read(&dir).unwrap().points.len();
    assert_eq!(taken + summary.left, 10);
    assert_eq!(taken, 3, "the fourth was under way");
    std::fs::remove_dir_all(dir).unwrap();
}

#[test]
fn a_changed_text_is_not_resumed() {
    let (dir, mut hooks) = (scratch("changed"), Counting::default());
    let text = TEXT.replace("operations = 2000", "operations = 10");
    let experiment = Experiment::parse("runner", &text).unwrap();
    run(&experiment, &dir, &Place::Here, &mut hooks, true).unwrap();
    let path = dir.join(POINTS_FILE);
    let changed = std::fs::read_to_string(&path)
        .unwrap()
        .replacen("keys = 100", "keys = 200", 1);
    std::fs::write(&path, changed).unwrap();
    let error = resume(&dir, &Place::Here, &mut hooks, true).unwrap_err();
    assert!(error.to_string().contains("hash differs"), "{error}");
    std::fs::remove_dir_all(dir).unwrap();
}
