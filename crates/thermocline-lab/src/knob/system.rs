//! What is done to a machine beyond writing a value: swap, mounts, cgroups. Each does its work on the live machine by
//! system call or util-linux's own programs, and under an imitated root by editing the tables that the kernel
//! would show (/proc/swaps, /proc/mounts).
//!
//! Must hold: each call that takes something away does nothing when it is not there.

use crate::root::Root;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How long a cgroup's processes may take to be gone after they were killed.
const GROUP_END: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct System {
    pub root: Root,
    /// Whether knobs may be turned: effective user 0, or an imitated root.
    pub privileged: bool,
}

impl System {
    pub fn of(root: Root) -> Self {
        let privileged = !root.is_live() || rustix::process::geteuid().is_root();
        System { root, privileged }
    }

    pub fn live() -> Self {
        System::of(Root::live())
    }

    /// Every swap in use: its file or device, and priority.
    pub fn swaps(&self) -> Vec<(String, i64)> {
        let text = self.root.read("/proc/swaps").unwrap_or_default();
        text.lines()
            .skip(1)
            .filter_map(|line| {
                let words: Vec<&str> = line.split_whitespace().collect();
                Some((words.first()?.to_string(), words.get(4)?.parse().ok()?))
            })
            .collect()
    }

    fn swaps_on(&self, path: &str) -> bool {
        self.swaps().iter().any(|(file, _)| file == path)
    }

    /// Reserves a file and writes a swap header into it.
    pub fn make_swap_file(&self, path: &str, bytes: u64) -> Result<(), String> {
        use std::os::unix::fs::OpenOptionsExt;
        let name = self.root.path(path);
        let file = fs::OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&name)
            .map_err(|error| format!("{path}: {error}"))?;
        if !self.root.is_live() {
            return file
                .set_len(bytes)
                .map_err(|error| format!("{path}: {error}"));
        }
        rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, bytes)
            .map_err(|error| format!("{path}: no {bytes} bytes for it: {error}"))?;
        file.sync_all()
            .map_err(|error| format!("{path}: {error}"))?;
        self.make_swap(path)
    }

    /// Writes a swap header to a file or device.
    pub fn make_swap(&self, path: &str) -> Result<(), String> {
        match self.root.is_live() {
            true => program("mkswap", &[path]),
            false => Ok(()),
        }
    }

    pub fn swap_on(&self, path: &str, priority: Option<i64>) -> Result<(), String> {
        if self.swaps_on(path) {
            return Ok(());
        }
        if !self.root.is_live() {
            let line = format!("{path}\tfile\t1024\t0\t{}", priority.unwrap_or(-2));
            return self.add_line("/proc/swaps", &line);
        }
        // A negative priority is one the kernel chose by itself: it is not to be asked for.
        match priority.filter(|priority| *priority >= 0) {
            Some(priority) => program("swapon", &["-p", &priority.to_string(), path]),
            None => program("swapon", &[path]),
        }
    }

    pub fn swap_off(&self, path: &str) -> Result<(), String> {
        if !self.swaps_on(path) {
            return Ok(());
        }
        match self.root.is_live() {
            true => program("swapoff", &[path]),
            false => self.drop_lines("/proc/swaps", |line| line.starts_with(&format!("{path}\t"))),
        }
    }

    /// The options of the file system mounted at `path`, if one is.
    pub fn mount_options(&self, path: &str) -> Option<String> {
        let text = self.root.read("/proc/mounts").ok()?;
        let line = text
            .lines()
            .rfind(|line| line.split_whitespace().nth(1) == Some(path))?;
        line.split_whitespace().nth(3).map(str::to_string)
    }

    pub fn mount_tmpfs(&self, path: &str, options: &str) -> Result<(), String> {
        if !self.root.is_live() {
            return self.add_line(
                "/proc/mounts",
                &format!("thermolab {path} tmpfs rw,{options} 0 0"),
            );
        }
        let data = std::ffi::CString::new(options).map_err(|_| "a zero byte in mount options")?;
        let flags = rustix::mount::MountFlags::NODEV | rustix::mount::MountFlags::NOSUID;
        rustix::mount::mount("thermolab", path, "tmpfs", flags, Some(data.as_c_str()))
            .map_err(|error| format!("mounting a tmpfs with {options} on {path}: {error}"))
    }

    pub fn unmount(&self, path: &str) -> Result<(), String> {
        if self.mount_options(path).is_none() {
            return Ok(());
        }
        if !self.root.is_live() {
            return self.drop_lines("/proc/mounts", |line| {
                line.split_whitespace().nth(1) == Some(path)
            });
        }
        rustix::mount::unmount(path, rustix::mount::UnmountFlags::empty())
            .map_err(|error| format!("unmounting {path}: {error}"))
    }

    pub fn make_group(&self, path: &str) -> Result<(), String> {
        let name = self.root.path(path);
        fs::create_dir(&name).map_err(|error| format!("making the cgroup {path}: {error}"))?;
        if !self.root.is_live() {
            let parent = name.parent().unwrap_or(Path::new("/"));
            copy_files(parent, &name).map_err(|error| format!("{path}: {error}"))?;
        }
        Ok(())
    }

    /// Ends what runs in a cgroup the lab made and removes it.
    pub fn remove_group(&self, path: &str) -> Result<(), String> {
        let name = self.root.path(path);
        if !name.exists() {
            return Ok(());
        }
        if !self.root.is_live() {
            return fs::remove_dir_all(name).map_err(|error| format!("{path}: {error}"));
        }
        let end = Instant::now() + GROUP_END;
        loop {
            self.kill_group(path);
            match fs::remove_dir(&name) {
                Ok(()) => return Ok(()),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
                Err(error) if Instant::now() > end => {
                    return Err(format!("removing the cgroup {path}: {error}"))
                }
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Kills every process of a cgroup the lab made.
    pub fn kill_group(&self, path: &str) {
        let kill = format!("{path}/cgroup.kill");
        if self.root.exists(&kill) && self.root.write(&kill, "1").is_ok() {
            return;
        }
        let members = self.root.read(&format!("{path}/cgroup.procs"));
        for member in members.unwrap_or_default().lines() {
            let pid = member
                .trim()
                .parse()
                .ok()
                .and_then(rustix::process::Pid::from_raw);
            if let Some(pid) =
                pid.filter(|pid| pid.as_raw_nonzero().get() as u32 != std::process::id())
            {
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
    }

    fn add_line(&self, path: &str, line: &str) -> Result<(), String> {
        let mut file = fs::OpenOptions::new()
            .append(true)
            .open(self.root.path(path))
            .map_err(|error| format!("{path}: {error}"))?;
        writeln!(file, "{line}").map_err(|error| format!("{path}: {error}"))
    }

    fn drop_lines(&self, path: &str, unwanted: impl Fn(&str) -> bool) -> Result<(), String> {
        let name = self.root.path(path);
        let text = fs::read_to_string(&name).map_err(|error| format!("{path}: {error}"))?;
        let kept: String = text
            .lines()
            .filter(|line| !unwanted(line))
            .map(|line| format!("{line}\n"))
            .collect();
        self.root
            .replace(&name, &kept)
            .map_err(|error| format!("{path}: {error}"))
    }
}

/// As the kernel fills a new cgroup with the same files as its parent's.
fn copy_files(from: &Path, to: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::copy(entry.path(), to.join(entry.file_name()))?;
        }
    }
    Ok(())
}

/// Runs one of util-linux's programs to its end.
fn program(name: &str, arguments: &[&str]) -> Result<(), String> {
    let output = Command::new(name)
        .args(arguments)
        .env("PATH", "/usr/sbin:/sbin:/usr/bin:/bin")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{name}: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let line = said.lines().last().unwrap_or("it said nothing");
    Err(format!("{name} {}: {line}", arguments.join(" ")))
}
