//! What a field is likely to explain. The order is that of the dispute in seed 004, in which 36 % on one machine was
//! 0 % on another: first whether huge pages were in use, then what was asked of them, then the rest of the machine.

/// Patterns, the weight, and what the field decides. The first match counts; a pattern is a part of
/// `group/field` in small letters.
const WEIGHTS: &[(&[&str], f64, &str)] = &[
    (
        &[
            "pmdmapped",
            "hugepages",
            "anonhuge",
            "shmemhuge",
            "filehuge",
            "thp_",
            "thp_fault",
            "dtlb",
            "pages_collapsed",
            "hugetlb",
        ],
        100.0,
        "whether huge pages were in use",
    ),
    (
        &[
            "/thp",
            "khugepaged",
            "shmem_huge",
            "shmem_enabled",
            "mount_options",
            "arm.tmpfs",
            "hugepagesize",
        ],
        92.0,
        "what was asked of huge pages",
    ),
    (
        &["workload/workload", "workload/plan"],
        90.0,
        "not the same work",
    ),
    (
        &[
            "pswpin",
            "pswpout",
            "pgmajfault",
            "refault",
            "pgscan",
            "pgsteal",
            "zswp",
        ],
        84.0,
        "how much was reclaimed meanwhile",
    ),
    (
        &[
            "swappiness",
            "lru_gen",
            "zswap",
            "zram",
            "swaps",
            "overcommit",
            "min_free",
            "watermark",
            "vfs_cache",
        ],
        82.0,
        "how memory is reclaimed",
    ),
    (
        &[
            "kernel/release",
            "kernel/version",
            "kernel/config",
            "kernel/command_line",
            "kernel/build",
            "patches",
        ],
        80.0,
        "another kernel",
    ),
    (
        &[
            "governor",
            "turbo",
            "frequency_m",
            "preference",
            "idle_states",
            "throttle",
        ],
        74.0,
        "how fast the processor runs",
    ),
    (
        &[
            "cpu/model",
            "cpu/sockets",
            "cpu/cores",
            "cpu/processors",
            "smt",
            "cpu/cache",
            "numa",
            "virtualised",
        ],
        72.0,
        "another processor",
    ),
    (
        &["mitigation", "microcode", "stepping"],
        60.0,
        "what the processor may do",
    ),
    (
        &[
            "memory.max",
            "memory.high",
            "limit_in_bytes",
            "cpu.max",
            "cpus",
            "cpuset",
            "memory_nodes",
            "same_socket",
        ],
        70.0,
        "what the process may use",
    ),
    (&["4 cgroup"], 66.0, "what the process may use"),
    (
        &["memtotal", "swaptotal", "dimm", "commitlimit", "balloon"],
        64.0,
        "how much memory there is",
    ),
    (
        &["steal", "/load", "running"],
        58.0,
        "who else was using the machine",
    ),
    (
        &["software/server", "software/said", "subject", "allocator"],
        62.0,
        "another program or setting",
    ),
    (&["6 software"], 50.0, "another program or setting"),
    (
        &["file_system", "scheduler", "device", "5 storage"],
        48.0,
        "where data lay",
    ),
    (&["7 workload"], 46.0, "what the work came to"),
    (&["1 kernel"], 44.0, "a kernel setting"),
    (&["2 cpu", "3 memory"], 30.0, "the machine"),
    (&["psi", "cgroup"], 40.0, "how hard memory was pressed"),
    (
        &[
            "boot_id",
            "uptime",
            "9 protocol/index",
            "9 protocol/block",
            "host",
            "user",
        ],
        5.0,
        "the occasion",
    ),
    (&["9 protocol"], 20.0, "how it was run"),
    (&["during:"], 15.0, "a counter"),
];

/// How much of the moment a field is: free memory at the start explains less than its total.
const OF_THE_MOMENT: &[&str] = &[
    "memfree",
    "memavailable",
    "buffers",
    "cached",
    "dirty",
    "anonpages",
    "swapfree",
    "free_bytes",
    "clock_mhz",
    "hugepages_free",
];

/// 0 to 100, and what the field decides.
pub fn weight(group: &str, field: &str) -> (f64, &'static str) {
    let name = format!("{group}/{field}").to_lowercase();
    if OF_THE_MOMENT
        .iter()
        .any(|part| field.to_lowercase().contains(part))
    {
        return (12.0, "the state at the start");
    }
    let found = WEIGHTS
        .iter()
        .find(|(parts, _, _)| parts.iter().any(|part| name.contains(part)));
    found.map_or((10.0, "unranked"), |(_, weight, why)| (*weight, *why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_what_matters() {
        let order = [
            ("3 memory", "ShmemPmdMapped"),
            ("1 kernel", "thp.shmem_enabled"),
            ("7 workload", "workload.keys"),
            ("1 kernel", "vm.swappiness"),
            ("1 kernel", "release"),
            ("2 cpu", "governor"),
            ("2 cpu", "model"),
            ("4 cgroup", "server.cpus"),
            ("3 memory", "MemTotal"),
            ("6 software", "lab.sha256"),
            ("5 storage", "scheduler"),
            ("1 kernel", "vm.laptop_mode"),
            ("9 protocol", "load"),
            ("3 memory", "MemFree"),
            ("9 protocol", "uptime_s"),
        ];
        let weights: Vec<f64> = order
            .iter()
            .map(|(group, field)| weight(group, field).0)
            .collect();
        let load = weights[12];
        let mut without: Vec<f64> = weights.clone();
        without.remove(12);
        assert!(
            without.windows(2).all(|pair| pair[0] > pair[1]),
            "{weights:?}"
        );
        assert!(load > weight("9 protocol", "user_id").0);
    }
}
