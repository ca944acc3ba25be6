//! What the figures were taken on, and the clocks and counters of the kernel they are read from.
//! Owns every read of /proc. A figure the kernel does not give is `None`, never zero.

use rustix::time::{clock_gettime, ClockId};
use serde::{Deserialize, Serialize};
use std::fs;

/// CPU time of the calling thread, ns.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(ClockId::ThreadCPUTime)
}

/// CPU time of this process, all threads, ns.
pub fn process_cpu_ns() -> u64 {
    clock_ns(ClockId::ProcessCPUTime)
}

fn clock_ns(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// A field of /proc/PID/status given in kB, as bytes.
pub fn status_bytes(pid: u32, field: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// The most memory this process has had resident, bytes: VmHWM + HugetlbPages.
pub fn resident_peak_bytes(pid: u32) -> Option<u64> {
    Some(status_bytes(pid, "VmHWM")? + status_bytes(pid, "HugetlbPages").unwrap_or(0))
}

/// Resident now, bytes.
pub fn resident_bytes(pid: u32) -> Option<u64> {
    Some(status_bytes(pid, "VmRSS")? + status_bytes(pid, "HugetlbPages").unwrap_or(0))
}

/// Bytes of this process backed by transparent huge pages.
pub fn huge_bytes(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("AnonHugePages:"))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

/// CPU time of another process, ns, from the scheduler's own count (first field of schedstat) of every thread
/// alive. A thread that ended between two readings takes its time with it: the difference is then refused.
pub fn cpu_ns_of(pid: u32) -> Option<u64> {
    let mut total = 0;
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let text = fs::read_to_string(task.ok()?.path().join("schedstat")).ok()?;
        total += text.split_whitespace().next()?.parse::<u64>().ok()?;
    }
    Some(total)
}

/// Where and on what a run was made; printed with every table.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Machine {
    pub cpu: String,
    pub cores: usize,
    pub memory_bytes: u64,
    pub kernel: String,
    pub transparent_huge_pages: String,
    pub governor: String,
    /// One-minute load average when the run began: the lab's own arms come on top.
    pub load_before: f64,
}

impl Machine {
    pub fn read() -> Self {
        Machine {
            cpu: cpu_model().unwrap_or_else(|| "unknown".into()),
            cores: std::thread::available_parallelism().map_or(0, usize::from),
            memory_bytes: meminfo_bytes("MemTotal").unwrap_or(0),
            kernel: one_line("/proc/sys/kernel/osrelease"),
            transparent_huge_pages: chosen(&one_line(
                "/sys/kernel/mm/transparent_hugepage/enabled",
            )),
            governor: one_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            load_before: one_line("/proc/loadavg")
                .split(' ')
                .next()
                .and_then(|word| word.parse().ok())
                .unwrap_or(-1.0),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}, {} cores, {}, Linux {}, THP {}, load {} at the start",
            self.cpu,
            self.cores,
            crate::units::show_bytes(self.memory_bytes),
            self.kernel,
            self.transparent_huge_pages,
            self.load_before
        )
    }
}

/// A field of /proc/meminfo as bytes.
pub fn meminfo_bytes(field: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
    let kib: u64 = line.trim().trim_end_matches("kB").trim().parse().ok()?;
    Some(kib * 1024)
}

fn cpu_model() -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_string())
}

fn one_line(path: &str) -> String {
    fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().to_string())
}

/// `always [madvise] never` -> `madvise`.
fn chosen(text: &str) -> String {
    text.split(['[', ']']).nth(1).unwrap_or(text).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_is_readable() {
        let pid = std::process::id();
        let peak = resident_peak_bytes(pid).unwrap();
        assert!(peak >= resident_bytes(pid).unwrap() / 2 && peak > 100_000);
        assert!(status_bytes(pid, "NoSuchField").is_none());
    }

    #[test]
    fn thread_clock_counts_work_and_not_sleep() {
        let before = thread_cpu_ns();
        std::thread::sleep(std::time::Duration::from_millis(30));
        let slept = thread_cpu_ns() - before;
        assert!(slept < 20_000_000, "{slept} ns of CPU while asleep");
        let mut x = 1u64;
        let start = std::time::Instant::now();
        while start.elapsed().as_millis() < 20 {
            x = crate::workload::mix(x);
        }
        assert!(thread_cpu_ns() - before > slept + 1_000_000, "{x}");
    }

    #[test]
    fn a_process_that_is_not_there_has_no_figures() {
        assert_eq!(cpu_ns_of(u32::MAX), None);
        assert_eq!(resident_peak_bytes(u32::MAX), None);
    }

    #[test]
    fn the_bracketed_word_is_chosen() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("unknown"), "unknown");
    }
}
