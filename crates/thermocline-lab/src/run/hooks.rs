//! What is done around a point beside measuring it: machine knobs, the environment record, counters before and
//! after. The runner calls; it knows no knob and no field.
//!
//! What must hold: `after_point` is called once for every `before_point` that returned, whatever happened
//! between; a hook's error in `before_point` makes the point `refused`, never the run.

use crate::point::EnvironmentLine;
use serde_json::Value;
use std::collections::BTreeMap;

/// The point that is to be taken.
pub struct PointContext<'a> {
    pub index: usize,
    pub block: usize,
    pub arm: &'a str,
    /// The experiment's `[machine]` table with this arm's overrides: empty if neither names a knob.
    pub machine: &'a BTreeMap<String, Value>,
    /// Everything the arm resolved to (`subject.*`, `workload.*`, `plan.*`), for the record.
    pub settings: &'a BTreeMap<String, Value>,
}

/// Around a point.
pub trait Hooks: Send {
    /// Sets what the arm names and reads it back. The error is the reason why this arm cannot run here.
    fn before_point(&mut self, context: &PointContext<'_>) -> anyhow::Result<()>;

    /// What `before_point` would change for these knobs, a line each; an error where it would refuse them.
    fn foretold(&self, _machine: &BTreeMap<String, Value>) -> anyhow::Result<Vec<String>> {
        Ok(Vec::new())
    }

    /// Files of the cgroup that `before_point` made, if it made one: whoever does the work writes its own id to each.
    fn members(&self) -> Vec<String> {
        Vec::new()
    }

    /// The machine as it is now, hashed. `facts` is what subject and workload said of themselves, `pid` the
    /// process that does the work (this one for embedded engines).
    fn environment(
        &mut self,
        context: &PointContext<'_>,
        facts: &BTreeMap<String, Value>,
        pid: u32,
    ) -> EnvironmentLine;

    /// The measured part begins: read the counters whose differences are wanted.
    fn measuring_begins(&mut self, pid: u32);

    /// It has ended: the differences by group (`vmstat`, `psi`, `rusage`, `cgroup`) and name.
    fn measuring_ended(&mut self, pid: u32) -> BTreeMap<String, BTreeMap<String, f64>>;

    /// Values of now for the time lines (`psi_memory_some_us_total`), called about once a second.
    fn sample(&mut self, _pid: u32) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// The user wants the run to end.
    fn is_interrupted(&self) -> bool {
        false
    }

    /// Puts back what `before_point` changed. Warnings go with the point.
    fn after_point(&mut self) -> Vec<String>;
}

/// Changes nothing and records nothing: for tests of the runner.
pub struct NoHooks;

impl Hooks for NoHooks {
    fn before_point(&mut self, context: &PointContext<'_>) -> anyhow::Result<()> {
        match context.machine.keys().next() {
            Some(knob) => anyhow::bail!("`machine.{knob}` is named, and nothing here can set it"),
            None => Ok(()),
        }
    }

    fn environment(
        &mut self,
        _context: &PointContext<'_>,
        _facts: &BTreeMap<String, Value>,
        _pid: u32,
    ) -> EnvironmentLine {
        EnvironmentLine {
            hash: "unrecorded".into(),
            groups: BTreeMap::new(),
        }
    }

    fn measuring_begins(&mut self, _pid: u32) {}

    fn measuring_ended(&mut self, _pid: u32) -> BTreeMap<String, BTreeMap<String, f64>> {
        BTreeMap::new()
    }

    fn after_point(&mut self) -> Vec<String> {
        Vec::new()
    }
}
