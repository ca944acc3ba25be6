//! Group 8: the kernel's counters before and after the measured part, and their differences: /proc/vmstat, meminfo, pressure,
//! disks, scheduler, network retransmits, the arm's cgroup, the measured process.
//!
//! Differences of zero are left out: a point holds what moved. Gauges (meminfo, smaps) have differences too, negative where
//! something shrank.

use super::fields::Fields;
use crate::root::Root;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// Lines taken of one table at most; /proc/vmstat has about 200.
const LINES_MAX: usize = 2000;

/// Group -> name -> value at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters(BTreeMap<String, BTreeMap<String, f64>>);

impl Counters {
    /// Reads every table there is. `group` holds the directories of the arm's cgroup.
    pub fn read(root: &Root, pid: u32, group: &[String]) -> Self {
        let mut tables = BTreeMap::new();
        let mut take = |name: &str, table: BTreeMap<String, f64>| {
            if !table.is_empty() {
                tables.insert(name.to_string(), table);
            }
        };
        take("vmstat", pairs(&text(root, "/proc/vmstat"), ' '));
        take("meminfo_kib", pairs(&text(root, "/proc/meminfo"), ':'));
        take("psi", pressure(root, "/proc/pressure", ""));
        take("disk", disks(&text(root, "/proc/diskstats")));
        take("scheduler", scheduler(root, pid));
        take("network", network(root));
        take(
            "smaps_kib",
            pairs(&text(root, &format!("/proc/{pid}/smaps_rollup")), ':'),
        );
        take("faults", faults(&text(root, &format!("/proc/{pid}/stat"))));
        take("cgroup", cgroup(root, group));
        Counters(tables)
    }

    /// What moved since `before`, by group.
    pub fn since(&self, before: &Counters) -> BTreeMap<String, BTreeMap<String, f64>> {
        let mut moved = BTreeMap::new();
        for (name, table) in &self.0 {
            let Some(old) = before.0.get(name) else {
                continue;
            };
            let differences: BTreeMap<String, f64> = table
                .iter()
                .filter_map(|(key, now)| Some((key.clone(), now - old.get(key)?)))
                .filter(|(_, difference)| *difference != 0.0)
                .collect();
            moved.insert(name.clone(), differences);
        }
        moved
    }

    pub fn value(&self, group: &str, name: &str) -> Option<f64> {
        self.0.get(group)?.get(name).copied()
    }
}

/// Which of them can be read here.
pub fn fields(root: &Root, pid: u32) -> Fields {
    let mut fields = Fields::default();
    for (name, path) in [
        ("vmstat", "/proc/vmstat".to_string()),
        ("meminfo", "/proc/meminfo".into()),
        ("psi_memory", "/proc/pressure/memory".into()),
        ("psi_cpu", "/proc/pressure/cpu".into()),
        ("psi_io", "/proc/pressure/io".into()),
        ("diskstats", "/proc/diskstats".into()),
        ("server_schedstat", format!("/proc/{pid}/schedstat")),
        ("server_smaps_rollup", format!("/proc/{pid}/smaps_rollup")),
        ("netstat", "/proc/net/snmp".into()),
    ] {
        let lines = root
            .read(&path)
            .map(|_| "with each point, as the difference over the measured part");
        fields.read(name, lines);
    }
    let counters = root.list("/sys/bus/event_source/devices");
    fields.read(
        "performance_counters",
        match counters.iter().any(|name| name == "cpu") {
            true => Ok(json!("offered by the processor; not read")),
            false => Err("the processor offers none (a guest without a virtual PMU)".to_string()),
        },
    );
    fields.read(
        "perf_event_paranoid",
        root.read("/proc/sys/kernel/perf_event_paranoid")
            .map(Value::from),
    );
    fields
}

fn text(root: &Root, path: &str) -> String {
    root.read(path).unwrap_or_default()
}

/// `name value` or `name: value kB` lines.
fn pairs(text: &str, separator: char) -> BTreeMap<String, f64> {
    text.lines()
        .take(LINES_MAX)
        .filter_map(|line| {
            let (name, value) = line.split_once(separator)?;
            let value: f64 = value.split_whitespace().next()?.parse().ok()?;
            (!name.contains(' ')).then(|| (name.to_string(), value))
        })
        .collect()
}

/// `cpu_some_us`, `memory_full_us`, ...: total stalled time of each file.
fn pressure(root: &Root, directory: &str, suffix: &str) -> BTreeMap<String, f64> {
    let mut totals = BTreeMap::new();
    for resource in ["cpu", "memory", "io"] {
        for line in text(root, &format!("{directory}/{resource}{suffix}")).lines() {
            let (kind, total) = (line.split(' ').next(), line.rsplit_once("total="));
            if let (Some(kind), Some((_, total))) = (kind, total) {
                if let Ok(total) = total.trim().parse() {
                    totals.insert(format!("{resource}_{kind}_us"), total);
                }
            }
        }
    }
    totals
}

/// Reads and writes of each disk that ever did any.
fn disks(text: &str) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for line in text.lines().take(LINES_MAX) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let Some(name) = words.get(2) else { continue };
        for (column, what) in [
            (3, "reads"),
            (5, "read_sectors"),
            (7, "writes"),
            (9, "written_sectors"),
            (12, "busy_ms"),
        ] {
            let value = words.get(column).and_then(|word| word.parse::<f64>().ok());
            if let Some(value) = value.filter(|value| *value != 0.0) {
                figures.insert(format!("{name}_{what}"), value);
            }
        }
    }
    figures
}

/// The process's time on and waiting for a processor, and its context switches.
fn scheduler(root: &Root, pid: u32) -> BTreeMap<String, f64> {
    let text_of = text(root, &format!("/proc/{pid}/schedstat"));
    let mut figures: BTreeMap<String, f64> = ["run_ns", "wait_ns", "slices"]
        .iter()
        .zip(text_of.split_whitespace())
        .filter_map(|(name, word)| Some((name.to_string(), word.parse().ok()?)))
        .collect();
    let status = pairs(&text(root, &format!("/proc/{pid}/status")), ':');
    for name in ["voluntary_ctxt_switches", "nonvoluntary_ctxt_switches"] {
        figures.extend(status.get(name).map(|value| (name.to_string(), *value)));
    }
    figures
}

/// TCP's counters of the snmp table: a line of names, then one of values.
fn network(root: &Root) -> BTreeMap<String, f64> {
    let text = text(root, "/proc/net/snmp");
    let mut lines = text.lines().filter(|line| line.starts_with("Tcp:"));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else {
        return BTreeMap::new();
    };
    names
        .split_whitespace()
        .zip(values.split_whitespace())
        .filter(|(name, _)| matches!(*name, "RetransSegs" | "InSegs" | "OutSegs" | "OutRsts"))
        .filter_map(|(name, value)| Some((format!("tcp_{name}"), value.parse().ok()?)))
        .collect()
}

/// Page faults of the process, from behind the name in brackets.
fn faults(stat: &str) -> BTreeMap<String, f64> {
    let Some((_, rest)) = stat.rsplit_once(')') else {
        return BTreeMap::new();
    };
    let words: Vec<&str> = rest.split_whitespace().collect();
    [("minor", 7), ("major", 9)]
        .iter()
        .filter_map(|(name, at)| Some((name.to_string(), words.get(*at)?.parse().ok()?)))
        .collect()
}

/// Everything the arm's cgroup counts, over its directories.
fn cgroup(root: &Root, group: &[String]) -> BTreeMap<String, f64> {
    let mut figures = BTreeMap::new();
    for directory in group {
        for file in ["memory.stat", "cpu.stat", "memory.events"] {
            for (name, value) in pairs(&text(root, &format!("{directory}/{file}")), ' ') {
                figures.insert(format!("{file}.{name}"), value);
            }
        }
        for file in [
            "memory.failcnt",
            "memory.usage_in_bytes",
            "memory.current",
            "memory.swap.current",
        ] {
            if let Ok(value) = text(root, &format!("{directory}/{file}")).parse() {
                figures.insert(file.to_string(), value);
            }
        }
        figures.extend(
            pressure(root, directory, ".pressure")
                .into_iter()
                .map(|(name, value)| (format!("psi_{name}"), value)),
        );
    }
    figures
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn machine() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("proc/pressure")).unwrap();
        fs::create_dir_all(directory.path().join("cg")).unwrap();
        let root = Root::imitated(directory.path());
        (directory, root)
    }

    #[test]
    fn only_what_moved_is_kept() {
        let (_directory, root) = machine();
        fs::write(
            root.path("/proc/vmstat"),
            "pswpin 10\npswpout 5\nnr_free_pages 100\n",
        )
        .unwrap();
        fs::write(
            root.path("/proc/meminfo"),
            "MemFree: 900 kB\nActive(anon): 3 kB\n",
        )
        .unwrap();
        fs::write(
            root.path("/proc/pressure/memory"),
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=7\nfull avg10=0.00 total=1\n",
        )
        .unwrap();
        fs::write(root.path("/cg/memory.stat"), "pgmajfault 4\n").unwrap();
        let group = ["/cg".to_string()];
        let before = Counters::read(&root, 1, &group);
        fs::write(
            root.path("/proc/vmstat"),
            "pswpin 30\npswpout 5\nnr_free_pages 40\n",
        )
        .unwrap();
        fs::write(
            root.path("/proc/pressure/memory"),
            "some avg10=0.00 total=57\nfull avg10=0.00 total=1\n",
        )
        .unwrap();
        fs::write(root.path("/cg/memory.stat"), "pgmajfault 10\n").unwrap();
        let moved = Counters::read(&root, 1, &group).since(&before);
        let expected: BTreeMap<String, f64> = [
            ("pswpin".to_string(), 20.0),
            ("nr_free_pages".to_string(), -60.0),
        ]
        .into();
        assert_eq!(moved["vmstat"], expected);
        assert_eq!(moved["psi"], [("memory_some_us".to_string(), 50.0)].into());
        assert_eq!(moved["cgroup"]["memory.stat.pgmajfault"], 6.0);
        assert!(moved["meminfo_kib"].is_empty());
    }

    #[test]
    fn tables_of_any_bytes_are_survived() {
        let mut random = crate::workload::Random::new(5);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..random.below(80))
                .map(|_| b" :=\n)ab1-."[random.below(10) as usize])
                .collect();
            let text = String::from_utf8_lossy(&bytes);
            pairs(&text, ' ');
            disks(&text);
            faults(&text);
        }
    }

    #[test]
    fn own_counters_are_there_and_grow() {
        let root = Root::live();
        let pid = std::process::id();
        let before = Counters::read(&root, pid, &[]);
        assert!(before
            .value("vmstat", "pgfault")
            .is_some_and(|faults| faults > 0.0));
        let block = vec![1u8; 8 << 20];
        let moved = Counters::read(&root, pid, &[]).since(&before);
        assert!(moved["vmstat"]["pgfault"] > 0.0, "{}", block.len());
    }
}
