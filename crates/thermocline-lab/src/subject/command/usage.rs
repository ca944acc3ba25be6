//! What the command cost: CPU time and faults of its processes, and the paging it caused, in the words of the seed's table.

use super::super::Alone;
use nix::sys::resource::{getrusage, UsageWho};
use std::collections::BTreeMap;

/// Resources of all children that ended and were waited for, so far. One command runs at a time, so the difference is its.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    user_s: f64,
    system_s: f64,
    minor_faults: f64,
    major_faults: f64,
    voluntary_switches: f64,
    involuntary_switches: f64,
    read_blocks: f64,
    written_blocks: f64,
}

impl Usage {
    pub fn read() -> Self {
        let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else {
            return Usage::default();
        };
        let seconds =
            |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
        Usage {
            user_s: seconds(usage.user_time()),
            system_s: seconds(usage.system_time()),
            minor_faults: usage.minor_page_faults() as f64,
            major_faults: usage.major_page_faults() as f64,
            voluntary_switches: usage.voluntary_context_switches() as f64,
            involuntary_switches: usage.involuntary_context_switches() as f64,
            read_blocks: usage.block_reads() as f64,
            written_blocks: usage.block_writes() as f64,
        }
    }

    pub fn since(self, before: &Usage) -> Usage {
        Usage {
            user_s: self.user_s - before.user_s,
            system_s: self.system_s - before.system_s,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
            read_blocks: self.read_blocks - before.read_blocks,
            written_blocks: self.written_blocks - before.written_blocks,
        }
    }

    /// `cpu_percent` is of one processor, as `time` prints it.
    pub fn add_to(&self, alone: &mut Alone, seconds: f64) {
        let cpu_s = self.user_s + self.system_s;
        for (name, value) in [
            ("seconds", seconds),
            ("user_s", self.user_s),
            ("system_s", self.system_s),
            ("cpu_percent", 100.0 * cpu_s / seconds.max(1e-9)),
            ("minflt", self.minor_faults),
            ("majflt", self.major_faults),
        ] {
            alone.metrics.insert(name.into(), value);
        }
        let all = [
            ("user_s", self.user_s),
            ("system_s", self.system_s),
            ("minflt", self.minor_faults),
            ("majflt", self.major_faults),
            ("nvcsw", self.voluntary_switches),
            ("nivcsw", self.involuntary_switches),
            ("inblock", self.read_blocks),
            ("oublock", self.written_blocks),
        ];
        let table = all.iter().map(|(name, value)| (name.to_string(), *value));
        alone.deltas.insert("rusage".into(), table.collect());
    }
}

/// Pages swapped, by /proc/vmstat, and Seth Jennings' sum. A page that comes back from zswap is counted among major faults
/// although nothing was read from a disk: `io_disk` leaves those out.
pub fn add_paging(alone: &mut Alone, moved: &BTreeMap<String, BTreeMap<String, f64>>) {
    let Some(vmstat) = moved.get("vmstat") else {
        return;
    };
    let pages = |name: &str| vmstat.get(name).copied().unwrap_or(0.0);
    let major = alone.metrics.get("majflt").copied().unwrap_or(0.0);
    let sum = pages("pswpin") + pages("pswpout") + major;
    for name in ["pswpin", "pswpout", "zswpin", "zswpout", "zswpwb"] {
        alone.metrics.insert(name.into(), pages(name));
    }
    alone.metrics.insert("io_sum".into(), sum);
    let on_disk = (sum - pages("zswpin")).max(pages("pswpin") + pages("pswpout"));
    alone.metrics.insert("io_disk".into(), on_disk);
    let psi = moved
        .get("cgroup")
        .and_then(|cgroup| cgroup.get("psi_memory_some_us"));
    if let Some(stalled) = psi.or_else(|| moved.get("psi")?.get("memory_some_us")) {
        alone.metrics.insert("memory_stall_s".into(), stalled / 1e6);
    }
}
