//! What the load costs the server: CPU time and system calls, read from outside.
//!
//! CPU is the scheduler's count for all its threads. System calls are counted in a window of their own, by
//! `perf stat` (a tracepoint: the server hardly slows) or, where perf may not trace, by `strace -c -f`, which
//! slows the server so that batches grow: the report says which.

use crate::machine::cpu_ns_of;
use anyhow::{bail, Context, Result};
use rustix::process::{kill_process, Pid, Signal};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// CPU of a process over a window.
pub struct CpuWindow {
    pid: u32,
    before_ns: u64,
}

impl CpuWindow {
    pub fn begin(pid: u32) -> Result<Self> {
        let before_ns = cpu_ns_of(pid).with_context(|| {
            format!("cannot read /proc/{pid}/task/*/schedstat: is --pid right?")
        })?;
        Ok(CpuWindow { pid, before_ns })
    }

    /// `None` if the process or one of its threads ended meanwhile.
    pub fn end_ns(self) -> Option<u64> {
        cpu_ns_of(self.pid)?.checked_sub(self.before_ns)
    }
}

/// A counter of system calls attached to a process.
pub struct SyscallWindow {
    tool: &'static str,
    child: Child,
    output: std::path::PathBuf,
}

/// How long a tracer may take to attach or to print.
const TRACER_MAX: Duration = Duration::from_secs(10);

impl SyscallWindow {
    pub fn begin(pid: u32) -> Result<Self> {
        let output =
            std::env::temp_dir().join(format!("thermolab-syscalls-{}-{pid}", std::process::id()));
        if perf_may_trace() {
            return Self::perf(pid, output);
        }
        Self::strace(pid, output)
    }

    fn perf(pid: u32, output: std::path::PathBuf) -> Result<Self> {
        let child = Command::new("perf")
            .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "-p"])
            .arg(pid.to_string())
            .arg("-o")
            .arg(&output)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start perf")?;
        // perf says nothing when it has attached; counters are on within a few ms.
        std::thread::sleep(Duration::from_millis(500));
        Ok(SyscallWindow {
            tool: "perf stat -e raw_syscalls:sys_enter",
            child,
            output,
        })
    }

    fn strace(pid: u32, output: std::path::PathBuf) -> Result<Self> {
        let child = Command::new("strace")
            .args(["-c", "-f", "-p"])
            .arg(pid.to_string())
            .arg("-o")
            .arg(&output)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("system calls need perf or strace; install one or leave out --syscalls")?;
        let mut window = SyscallWindow {
            tool: "strace -c -f",
            child,
            output,
        };
        let start = Instant::now();
        while !is_traced(pid) {
            if start.elapsed() > TRACER_MAX || window.child.try_wait()?.is_some() {
                let _ = window.child.kill();
                bail!("strace cannot attach to {pid}: it needs the same user or CAP_SYS_PTRACE");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        // The main thread is traced first, the others right after.
        std::thread::sleep(Duration::from_millis(200));
        Ok(window)
    }

    pub fn tool(&self) -> &'static str {
        self.tool
    }

    /// Stops counting and returns the number of calls.
    pub fn end(mut self) -> Result<u64> {
        let pid = Pid::from_raw(self.child.id() as i32).context("a tracer without a pid")?;
        kill_process(pid, Signal::INT).context("cannot stop the tracer")?;
        let start = Instant::now();
        while self.child.try_wait()?.is_none() {
            if start.elapsed() > TRACER_MAX {
                self.child.kill()?;
                bail!("the tracer did not stop");
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        let text = std::fs::read_to_string(&self.output).context("the tracer left no counts")?;
        // Only a file in the temporary folder; the next run overwrites it.
        let _ = std::fs::remove_file(&self.output);
        let calls = if self.tool.starts_with("perf") {
            perf_calls(&text)
        } else {
            strace_calls(&text)
        };
        calls.with_context(|| format!("cannot read the counts of {}:\n{text}", self.tool))
    }
}

fn perf_may_trace() -> bool {
    Command::new("perf")
        .args(["stat", "-x", ",", "-e", "raw_syscalls:sys_enter", "true"])
        .output()
        .is_ok_and(|out| {
            out.status.success() && perf_calls(&String::from_utf8_lossy(&out.stderr)).is_some()
        })
}

fn is_traced(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/status")).is_ok_and(|text| {
        text.lines()
            .any(|line| line.starts_with("TracerPid:") && !line.ends_with("\t0"))
    })
}

fn perf_calls(text: &str) -> Option<u64> {
    text.lines()
        .find(|line| line.contains("raw_syscalls:sys_enter"))?
        .split(',')
        .next()?
        .parse()
        .ok()
}

/// The calls column of the `total` line: `100.00    0.123456    2   4247    3 total`.
fn strace_calls(text: &str) -> Option<u64> {
    let line = text
        .lines()
        .find(|line| line.trim_end().ends_with(" total"))?;
    let fields: Vec<&str> = line.split_whitespace().collect();
    fields.get(3)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tracer_outputs_are_read() {
        let strace = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
             60.00    0.005000           2      2100           recvfrom\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.008000           1      4247         3 total\n";
        assert_eq!(strace_calls(strace), Some(4247));
        assert_eq!(
            perf_calls("# started\n\n812,,raw_syscalls:sys_enter,1,100.00,,\n"),
            Some(812)
        );
        assert_eq!(
            perf_calls("<not supported>,,raw_syscalls:sys_enter,0,0,,\n"),
            None
        );
        assert_eq!(strace_calls(""), None);
    }

    #[test]
    fn a_process_that_is_not_there_is_an_error_that_names_the_flag() {
        let error = CpuWindow::begin(u32::MAX).err().unwrap().to_string();
        assert!(error.contains("--pid"), "{error}");
    }
}
