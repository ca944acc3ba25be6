//! The kernel's variant of the generational question, on an imitated kernel that has lru_gen and on one that has not: each
//! arm finds the knobs as it names them, all is put back, and without lru_gen every arm says what is missing.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use thermocline_lab::experiment::Experiment;
use thermocline_lab::knob::System;
use thermocline_lab::machine_hooks::MachineHooks;
use thermocline_lab::point::{EnvironmentLine, Results, Status};
use thermocline_lab::root::Root;
use thermocline_lab::run::{run, Hooks, Place, PointContext};

const FILES: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.12.0-imitated\n"),
    ("proc/sys/kernel/random/boot_id", "boot-one\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/drop_caches", "0\n"),
    (
        "proc/swaps",
        "Filename\tType\tSize\tUsed\tPriority\n/dev/old\tfile\t1024\t0\t-2\n",
    ),
    ("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"),
    ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
    ("sys/fs/cgroup/cgroup.subtree_control", "memory\n"),
    ("sys/fs/cgroup/cgroup.procs", ""),
    ("sys/fs/cgroup/memory.max", "max\n"),
    ("sys/fs/cgroup/memory.swap.max", "max\n"),
];

fn machine() -> tempfile::TempDir {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in FILES {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fs::create_dir_all(directory.path().join("var/tmp")).unwrap();
    directory
}

/// The shipped experiment, small: what it asks of the machine is left as it is.
fn experiment() -> Experiment {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../experiments/seed-000-mglru-kernel.toml");
    let mut text = fs::read_to_string(path).unwrap();
    for (from, to) in [
        ("recordcount = 200_000", "recordcount = 200"),
        ("heap = \"64MiB\"", "heap = \"64KiB\""),
        ("repeats = 10", "repeats = 1"),
        ("workers = 6", "workers = 1"),
        ("warmup = \"15s\"", "warmup = 0"),
        ("duration = \"30s\"", "duration = \"50ms\""),
    ] {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    Experiment::parse("seed-000-mglru-kernel", &text).unwrap()
}

/// Kernel file -> what it said, by arm.
type Seen = Vec<(String, BTreeMap<String, String>)>;

/// Writes down what an arm finds while it is measured.
struct Watching {
    inner: MachineHooks,
    root: Root,
    seen: Seen,
}

impl Hooks for Watching {
    fn before_point(&mut self, context: &PointContext<'_>) -> anyhow::Result<()> {
        self.inner.before_point(context)
    }

    fn environment(
        &mut self,
        context: &PointContext<'_>,
        facts: &BTreeMap<String, serde_json::Value>,
        pid: u32,
    ) -> EnvironmentLine {
        let group = fs::read_dir(self.root.path("/sys/fs/cgroup")).unwrap();
        let group = group.flatten().find(|entry| entry.path().is_dir()).unwrap();
        let mut found = BTreeMap::from([(
            "memory.max".to_string(),
            fs::read_to_string(group.path().join("memory.max")).unwrap(),
        )]);
        for file in [
            "/sys/kernel/mm/lru_gen/enabled",
            "/proc/swaps",
            "/proc/sys/vm/swappiness",
        ] {
            found.insert(file.into(), self.root.read(file).unwrap());
        }
        self.seen.push((context.arm.to_string(), found));
        self.inner.environment(context, facts, pid)
    }

    fn measuring_begins(&mut self, pid: u32) {
        self.inner.measuring_begins(pid);
    }

    fn measuring_ended(&mut self, pid: u32) -> BTreeMap<String, BTreeMap<String, f64>> {
        self.inner.measuring_ended(pid)
    }

    fn after_point(&mut self) -> Vec<String> {
        self.inner.after_point()
    }
}

fn take(machine: &Path) -> (Results, Seen) {
    let root = Root::imitated(machine);
    let mut hooks = Watching {
        inner: MachineHooks::new(System::of(root.clone())),
        root,
        seen: Vec::new(),
    };
    let results = machine.join("results");
    run(&experiment(), &results, &Place::Here, &mut hooks, true).unwrap();
    (Results::read(&results).unwrap(), hooks.seen)
}

/// One test: one lab at a time holds knobs in a process.
#[test]
fn every_arm_finds_the_kernel_it_names_or_says_what_is_missing() {
    let machine = machine();
    let (results, seen) = take(machine.path());
    assert_eq!((results.points.len(), seen.len()), (12, 12));
    for point in &results.points {
        assert_eq!(point.status, Status::Ok, "{:?}", point.reason);
        let m = &point.metrics;
        assert!(
            m["hit_ratio"] == 1.0 && m["operations_total"] > 10.0,
            "{m:?}"
        );
        assert_eq!(point.warnings, Vec::<String>::new());
    }
    for (arm, found) in &seen {
        let mask = found["/sys/kernel/mm/lru_gen/enabled"].as_str();
        let is_on = !matches!(mask, "0" | "n" | "0x0000");
        assert_eq!(is_on, arm.contains("lru_gen"), "{arm}: {mask}");
        let swaps = &found["/proc/swaps"];
        assert_eq!(
            swaps.contains("/var/tmp/thermolab-"),
            arm.contains("swap_file=1GiB"),
            "{arm}: {swaps}"
        );
        assert!(!swaps.contains("/dev/old"), "{arm}: {swaps}");
        assert_eq!(found["/proc/sys/vm/swappiness"], "1");
        assert_eq!(found["memory.max"].trim(), (208 << 20).to_string());
    }
    for (path, text) in FILES {
        let now = fs::read_to_string(machine.path().join(path)).unwrap();
        // Writing to this one acts, and leaves its value.
        if !path.ends_with("drop_caches") {
            assert_eq!(now, *text, "{path}");
        }
    }
    assert!(fs::read_dir(machine.path().join("var/tmp"))
        .unwrap()
        .next()
        .is_none());

    fs::remove_dir_all(machine.path().join("sys/kernel/mm/lru_gen")).unwrap();
    fs::remove_dir_all(machine.path().join("results")).unwrap();
    let (results, seen) = take(machine.path());
    assert!(seen.is_empty());
    for point in &results.points {
        let reason = point.reason.clone().unwrap_or_default();
        assert_eq!(point.status, Status::Refused);
        assert!(
            reason.contains("machine.lru_gen.enabled")
                && reason.contains("/sys/kernel/mm/lru_gen/enabled"),
            "{reason}"
        );
    }
}
