//! What the machine's parts do around a point of an experiment: knobs set and put back, the environment recorded, counters
//! read before and after. Joins `knob` and `environment` to the runner's hooks; owns nothing but the moment.

use crate::environment::{record, About, Counters};
use crate::knob::{interrupted, restore_held, restore_on_signals, Held, InForce, Plan, System};
use crate::point::EnvironmentLine;
use crate::run::{Hooks, PointContext};
use serde_json::Value;
use std::collections::BTreeMap;

pub struct MachineHooks {
    system: System,
    held: Option<Held>,
    before: Counters,
}

impl MachineHooks {
    pub fn new(system: System) -> Self {
        restore_on_signals();
        MachineHooks {
            system,
            held: None,
            before: Counters::default(),
        }
    }

    pub fn live() -> Self {
        MachineHooks::new(System::live())
    }

    fn in_force(&self) -> InForce {
        let held = self.held.as_ref();
        held.map(|held| held.in_force().clone()).unwrap_or_default()
    }

    fn counters(&self, pid: u32) -> Counters {
        let group = self.in_force().group;
        let directories = group.map(|group| group.directories).unwrap_or_default();
        Counters::read(&self.system.root, pid, &directories)
    }
}

impl Hooks for MachineHooks {
    fn before_point(&mut self, context: &PointContext<'_>) -> anyhow::Result<()> {
        let plan = Plan::parse(context.machine).map_err(anyhow::Error::msg)?;
        for change in plan.changes(&self.system)? {
            eprintln!("{}: {change}", context.arm);
        }
        self.held = Some(Held::apply(&self.system, &plan)?);
        Ok(())
    }

    fn foretold(&self, machine: &BTreeMap<String, Value>) -> anyhow::Result<Vec<String>> {
        let plan = Plan::parse(machine).map_err(anyhow::Error::msg)?;
        let changes = plan.changes(&self.system)?;
        Ok(changes.iter().map(ToString::to_string).collect())
    }

    fn members(&self) -> Vec<String> {
        let group = self.in_force().group;
        group.map(|group| group.member_files()).unwrap_or_default()
    }

    fn environment(
        &mut self,
        context: &PointContext<'_>,
        facts: &BTreeMap<String, Value>,
        pid: u32,
    ) -> EnvironmentLine {
        let about = About {
            server_pid: pid,
            settings: context.settings.clone(),
            facts: facts.clone(),
            read_back: self.in_force().read_back,
            index: context.index,
            block: context.block,
        };
        record(&self.system.root, &about)
    }

    fn measuring_begins(&mut self, pid: u32) {
        self.before = self.counters(pid);
    }

    fn measuring_ended(&mut self, pid: u32) -> BTreeMap<String, BTreeMap<String, f64>> {
        self.counters(pid).since(&self.before)
    }

    fn sample(&mut self, pid: u32) -> BTreeMap<String, f64> {
        let root = &self.system.root;
        let mut values = BTreeMap::new();
        let pressure = root.read("/proc/pressure/memory").unwrap_or_default();
        let total = pressure
            .lines()
            .find(|line| line.starts_with("some"))
            .and_then(|line| line.rsplit_once("total=")?.1.trim().parse().ok());
        if let Some(total) = total {
            values.insert("psi_memory_some_us_total".into(), total);
        }
        // Behind the name, which may hold blanks: the tenth figure counts major faults.
        let stat = root.read(&format!("/proc/{pid}/stat")).unwrap_or_default();
        let figures = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        let major = figures.split_whitespace().nth(9);
        if let Some(major) = major.and_then(|word| word.parse().ok()) {
            values.insert("major_faults_total".into(), major);
        }
        values
    }

    fn is_interrupted(&self) -> bool {
        interrupted()
    }

    fn after_point(&mut self) -> Vec<String> {
        let Some(held) = self.held.take() else {
            return Vec::new();
        };
        let mut warnings = held.in_force().warnings.clone();
        if let Err(trouble) = held.restore() {
            warnings.push(trouble.to_string());
        }
        warnings
    }
}

impl Drop for MachineHooks {
    fn drop(&mut self) {
        if let Err(trouble) = restore_held() {
            eprintln!("thermolab: {trouble}");
        }
    }
}
