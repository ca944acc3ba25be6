//! Group 2: the processors: what they are, how they are clocked, what is mitigated, who shares them.

use super::fields::{line_value, Fields};
use super::sha256;
use crate::root::Root;
use serde_json::{json, Value};

const CPU: &str = "/sys/devices/system/cpu";

pub fn fields(root: &Root) -> Fields {
    let mut fields = Fields::default();
    identity(&mut fields, root);
    topology(&mut fields, root);
    frequency(&mut fields, root);
    idle(&mut fields, root);
    fields.directory(
        "mitigation",
        root,
        &format!("{CPU}/vulnerabilities"),
        |_| true,
    );
    fields.file(
        "irq_affinity_default",
        root,
        "/proc/irq/default_smp_affinity",
    );
    fields.moment("steal_ticks", steal(root));
    let throttled = root.read(&format!("{CPU}/cpu0/thermal_throttle/core_throttle_count"));
    fields.moment("thermal_throttle_count", throttled);
    fields
}

fn identity(fields: &mut Fields, root: &Root) {
    let info = root.read("/proc/cpuinfo");
    for (name, key) in [
        ("vendor", "vendor_id"),
        ("family", "cpu family"),
        ("model_number", "model"),
        ("model", "model name"),
        ("stepping", "stepping"),
        ("microcode", "microcode"),
        ("cache", "cache size"),
    ] {
        let value = info.clone().and_then(|text| line_value(&text, key, ':'));
        fields.read(name, value);
    }
    let flags = info.and_then(|text| line_value(&text, "flags", ':'));
    let virtualised = flags
        .clone()
        .map(|flags| flags.split(' ').any(|flag| flag == "hypervisor"));
    fields.read("virtualised", virtualised);
    fields.read("flags_sha256", flags.map(|flags| sha256(flags.as_bytes())));
    fields.file(
        "clock_source",
        root,
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
    );
    for index in root.list(&format!("{CPU}/cpu0/cache")) {
        if index.starts_with("index") {
            let directory = format!("{CPU}/cpu0/cache/{index}");
            let parts: Vec<String> = ["level", "type", "size", "shared_cpu_list"]
                .iter()
                .map(|file| {
                    root.read(&format!("{directory}/{file}"))
                        .unwrap_or("?".into())
                })
                .collect();
            fields.value(&format!("cache.{index}"), json!(parts.join(" ")));
        }
    }
}

fn topology(fields: &mut Fields, root: &Root) {
    fields.file("online", root, &format!("{CPU}/online"));
    fields.file("isolated", root, &format!("{CPU}/isolated"));
    fields.file("smt_active", root, &format!("{CPU}/smt/active"));
    let info = root.read("/proc/cpuinfo");
    let distinct = |key: &str| -> Result<usize, String> {
        let text = info.clone()?;
        let mut seen: Vec<&str> = text
            .lines()
            .filter_map(|line| line.split_once(':'))
            .filter(|(name, _)| name.trim() == key)
            .map(|(_, value)| value.trim())
            .collect();
        seen.sort_unstable();
        seen.dedup();
        match seen.len() {
            0 => Err(format!("no line `{key}`")),
            count => Ok(count),
        }
    };
    fields.read("sockets", distinct("physical id"));
    fields.read("processors", distinct("processor"));
    fields.read("cores_per_socket", distinct("core id"));
    let nodes: Vec<String> = root
        .list("/sys/devices/system/node")
        .into_iter()
        .filter(|name| {
            name.strip_prefix("node")
                .is_some_and(|n| n.parse::<u32>().is_ok())
        })
        .collect();
    for node in &nodes {
        fields.file(
            &format!("{node}.distances"),
            root,
            &format!("/sys/devices/system/node/{node}/distance"),
        );
        fields.file(
            &format!("{node}.cpus"),
            root,
            &format!("/sys/devices/system/node/{node}/cpulist"),
        );
    }
    fields.value("numa_nodes", json!(nodes.len()));
}

fn frequency(fields: &mut Fields, root: &Root) {
    let files = root.list(&format!("{CPU}/cpu0/cpufreq"));
    if files.is_empty() {
        // One fact, not six holes: a guest does not see its host's clock.
        fields.read(
            "frequency",
            Err::<Value, _>("no cpufreq here: the clock is not ours to see".into()),
        );
    } else {
        for (name, file) in [
            ("governor", "scaling_governor"),
            ("frequency_driver", "scaling_driver"),
            ("energy_preference", "energy_performance_preference"),
            ("frequency_min_khz", "scaling_min_freq"),
            ("frequency_max_khz", "scaling_max_freq"),
        ] {
            fields.file(name, root, &format!("{CPU}/cpu0/cpufreq/{file}"));
        }
        let turbo = root
            .read(&format!("{CPU}/intel_pstate/no_turbo"))
            .map(|off| off == "0")
            .or_else(|_| {
                root.read(&format!("{CPU}/cpufreq/boost"))
                    .map(|on| on == "1")
            });
        fields.read("turbo", turbo);
    }
    let now = root
        .read("/proc/cpuinfo")
        .and_then(|text| line_value(&text, "cpu MHz", ':'));
    fields.moment("clock_mhz_now", now);
}

fn idle(fields: &mut Fields, root: &Root) {
    fields.file(
        "idle_driver",
        root,
        &format!("{CPU}/cpuidle/current_driver"),
    );
    fields.file(
        "idle_governor",
        root,
        &format!("{CPU}/cpuidle/current_governor"),
    );
    let states: Vec<String> = root
        .list(&format!("{CPU}/cpu0/cpuidle"))
        .iter()
        .filter_map(|state| root.read(&format!("{CPU}/cpu0/cpuidle/{state}/name")).ok())
        .collect();
    fields.value("idle_states", json!(states));
}

/// Ticks that the hypervisor gave to others, all processors.
fn steal(root: &Root) -> Result<u64, String> {
    let text = root.read("/proc/stat")?;
    let line = text.lines().next().unwrap_or("");
    line.split_whitespace()
        .nth(8)
        .and_then(|ticks| ticks.parse().ok())
        .ok_or_else(|| "no steal column in /proc/stat".into())
}
