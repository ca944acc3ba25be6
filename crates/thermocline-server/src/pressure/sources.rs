//! Where signs of pressure are read: PSI, the control group's limits and events (version 2 and 1), the machine's free
//! memory; and the alarms the kernel raises by itself.
//!
//! One look reads a handful of small files that are kept open, about 30 us. Everything is under a root directory, so that tests can make a
//! machine out of files. What is missing is None: a system that tells nothing is left alone.

use super::controller::Reading;
use super::small_file::SmallFile;
use crate::config::{limit_in, memory_groups, MemoryGroup};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsFd;
use std::path::Path;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// 100 ms of stall in 2 s raise an alarm. Shorter windows need CAP_SYS_RESOURCE; the look ten times a second is what
/// is fast. The kernel takes the last byte for the end of the text, whatever it is: without one, a digit went and the trigger
/// was refused.
const TRIGGER: &str = "some 100000 2000000\n";

pub struct Sources {
    /// The PSI file of our control group, else of the machine.
    psi: Option<SmallFile>,
    groups: Vec<Group>,
    machine: SmallFile,
    /// What was read last.
    text: Vec<u8>,
}

/// A control group's files.
struct Group {
    of: MemoryGroup,
    limits: Vec<SmallFile>,
    usage: SmallFile,
    stat: SmallFile,
    hits: SmallFile,
}

/// A descriptor that becomes readable (or has an exceptional condition) when the kernel raises an alarm.
pub enum Alarm {
    /// A PSI trigger: priority events.
    Psi(File),
    /// A version 1 pressure event: readable, to be read empty.
    Event(EventFd),
}

impl Sources {
    pub fn new(root: &Path) -> Sources {
        let groups = memory_groups(root);
        let of_group = groups
            .iter()
            .map(|group| group.path.join("memory.pressure"));
        let of_machine = root.join("proc/pressure/memory");
        let psi = of_group
            .chain([of_machine])
            .find(|path| fs::metadata(path).is_ok());
        Sources {
            psi: psi.map(SmallFile::new),
            groups: groups.into_iter().map(Group::new).collect(),
            machine: SmallFile::new(root.join("proc/meminfo")),
            text: Vec::new(),
        }
    }

    /// What the kernel tells us without being asked. None where it denies it.
    pub fn alarms(&self) -> Vec<Alarm> {
        self.psi_alarm()
            .into_iter()
            .chain(self.event_alarm())
            .collect()
    }

    fn psi_alarm(&self) -> Option<Alarm> {
        let path = self.psi.as_ref()?.path();
        let mut file = OpenOptions::new().read(true).write(true).open(path).ok()?;
        match file.write_all(TRIGGER.as_bytes()) {
            Ok(()) => Some(Alarm::Psi(file)),
            Err(error) => {
                tracing::debug!(%error, path = %path.display(), "no PSI trigger; it is looked at instead");
                None
            }
        }
    }

    fn event_alarm(&self) -> Option<Alarm> {
        let group = &self.groups.first()?.of;
        if group.version != 1 {
            return None;
        }
        let level = File::open(group.path.join("memory.pressure_level")).ok()?;
        let event = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).ok()?;
        let numbers = format!("{} {} low", raw(&event), raw(&level));
        let control = group.path.join("cgroup.event_control");
        OpenOptions::new()
            .write(true)
            .open(control)
            .ok()?
            .write_all(numbers.as_bytes())
            .ok()?;
        Some(Alarm::Event(event))
    }

    /// One look. Clock, budget and alarm are the caller's.
    pub fn look(&mut self) -> Reading {
        let scarcest = self.scarcest_group();
        let (available, total) = self.machine();
        let text = &mut self.text;
        let hits = self.groups.iter_mut().filter_map(|group| group.hits(text));
        Reading {
            hits: hits.reduce(|a, b| a + b),
            stalled_us: self
                .psi
                .as_mut()
                .and_then(|psi| stalled_us(psi.read(text)?)),
            limit: scarcest.map(|(limit, _)| limit),
            used: scarcest.map(|(_, used)| used),
            available,
            total,
            ..Reading::default()
        }
    }

    /// Limit and use of the group on the way up that has the smallest share left.
    fn scarcest_group(&mut self) -> Option<(u64, u64)> {
        let text = &mut self.text;
        let facts = self
            .groups
            .iter_mut()
            .filter_map(|group| Some((group.limit(text)?, group.used(text)?)));
        facts.min_by(|a, b| {
            let share = |&(limit, used): &(u64, u64)| {
                limit.saturating_sub(used) as f64 / limit.max(1) as f64
            };
            share(a).total_cmp(&share(b))
        })
    }

    fn machine(&mut self) -> (Option<u64>, Option<u64>) {
        let text = self.machine.read(&mut self.text).unwrap_or_default();
        let bytes = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace()
                .next()?
                .parse::<u64>()
                .ok()?
                .checked_mul(1024)
        };
        (bytes("MemAvailable:"), bytes("MemTotal:"))
    }
}

fn raw(descriptor: &impl AsFd) -> i32 {
    use std::os::fd::AsRawFd;
    descriptor.as_fd().as_raw_fd()
}

/// `total=` of the line `some`.
fn stalled_us(text: &str) -> Option<u64> {
    let line = text.lines().find(|line| line.starts_with("some "))?;
    line.split_whitespace()
        .find_map(|word| word.strip_prefix("total=")?.parse().ok())
}

impl Group {
    fn new(of: MemoryGroup) -> Group {
        let file = |name: &str| SmallFile::new(of.path.join(name));
        let (usage, hits) = match of.version {
            1 => ("memory.usage_in_bytes", "memory.failcnt"),
            _ => ("memory.current", "memory.events"),
        };
        Group {
            limits: of.limit_files().iter().map(|name| file(name)).collect(),
            usage: file(usage),
            stat: file("memory.stat"),
            hits: file(hits),
            of,
        }
    }

    fn limit(&mut self, text: &mut Vec<u8>) -> Option<u64> {
        let limits = self.limits.iter_mut();
        limits.filter_map(|file| limit_in(file.read(text)?)).min()
    }

    /// What is used and cannot simply be dropped: without the page cache that nobody has mapped.
    fn used(&mut self, text: &mut Vec<u8>) -> Option<u64> {
        let file_names = match self.of.version {
            1 => ["total_inactive_file ", "total_active_file "],
            _ => ["inactive_file ", "active_file "],
        };
        let usage = self.usage.number(text)?;
        let stat = self.stat.read(text).unwrap_or_default();
        let cached = |name: &str| -> u64 {
            let value = stat.lines().find_map(|line| line.strip_prefix(name));
            value
                .and_then(|value| value.trim().parse().ok())
                .unwrap_or(0)
        };
        Some(usage.saturating_sub(file_names.into_iter().map(cached).sum()))
    }

    /// How often its limits were hit.
    fn hits(&mut self, text: &mut Vec<u8>) -> Option<u64> {
        if self.of.version == 1 {
            return self.hits.number(text);
        }
        let text = self.hits.read(text)?;
        let count = |name: &str| -> Option<u64> {
            text.lines()
                .find_map(|line| line.strip_prefix(name)?.trim().parse().ok())
        };
        Some(count("high ")? + count("max ")?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    struct Tree(PathBuf);

    impl Tree {
        fn new(name: &str, files: &[(&str, &str)]) -> Tree {
            let name = format!("thermocline-pressure-{name}-{}", std::process::id());
            let tree = Tree(std::env::temp_dir().join(name));
            files.iter().for_each(|(path, text)| tree.write(path, text));
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.join(path);
            fs::create_dir_all(path.parent().expect("has a parent")).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Tree {
        fn drop(&mut self) {
            let _gone = fs::remove_dir_all(&self.0);
        }
    }

    const PSI: &str = "some avg10=1.00 avg60=0.00 avg300=0.00 total=12345\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=99\n";

    #[test]
    fn version_2_tells_limits_events_and_stalls() {
        let group = "sys/fs/cgroup/box/app";
        let tree = Tree::new(
            "v2",
            &[
                ("proc/self/cgroup", "0::/box/app\n"),
                ("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 400 kB\n"),
                (&format!("{group}/memory.max"), "max\n"),
                (&format!("{group}/memory.high"), "500000\n"),
                (&format!("{group}/memory.current"), "300000\n"),
                (
                    &format!("{group}/memory.stat"),
                    "anon 1\ninactive_file 50000\nactive_file 10000\n",
                ),
                (
                    &format!("{group}/memory.events"),
                    "low 1\nhigh 5\nmax 2\noom 0\n",
                ),
                (&format!("{group}/memory.pressure"), PSI),
                ("sys/fs/cgroup/box/memory.max", "1000000\n"),
                ("sys/fs/cgroup/box/memory.current", "900000\n"),
                ("sys/fs/cgroup/box/memory.events", "high 0\nmax 1\n"),
            ],
        );
        let mut sources = Sources::new(&tree.0);
        let reading = sources.look();
        assert_eq!(reading.stalled_us, Some(12345));
        assert_eq!(
            (reading.limit, reading.used),
            (Some(1_000_000), Some(900_000)),
            "the parent is scarcer"
        );
        assert_eq!(reading.hits, Some(8));
        assert_eq!(
            (reading.available, reading.total),
            (Some(400 << 10), Some(1000 << 10))
        );
        tree.write("sys/fs/cgroup/box/memory.current", "100000\n");
        let reading = sources.look();
        assert_eq!(
            (reading.limit, reading.used),
            (Some(500_000), Some(240_000)),
            "memory.high is a limit"
        );
    }

    #[test]
    fn version_1_tells_them_by_other_names() {
        let group = "sys/fs/cgroup/memory/app";
        let tree = Tree::new(
            "v1",
            &[
                ("proc/self/cgroup", "4:memory:/app\n0::/\n"),
                ("proc/pressure/memory", PSI),
                (&format!("{group}/memory.limit_in_bytes"), "1000000\n"),
                (&format!("{group}/memory.usage_in_bytes"), "800000\n"),
                (&format!("{group}/memory.failcnt"), "7\n"),
                (
                    &format!("{group}/memory.stat"),
                    "total_inactive_file 100000\ninactive_file 5\n",
                ),
            ],
        );
        let reading = Sources::new(&tree.0).look();
        assert_eq!(
            (reading.limit, reading.used),
            (Some(1_000_000), Some(700_000))
        );
        assert_eq!((reading.hits, reading.stalled_us), (Some(7), Some(12345)));
    }

    #[test]
    fn rubbish_is_nothing_known() {
        let tree = Tree::new(
            "rubbish",
            &[
                ("proc/self/cgroup", "no colons\n0::/x\n"),
                ("proc/meminfo", "MemTotal: many kB\n"),
                ("proc/pressure/memory", "some total=\n"),
                ("sys/fs/cgroup/x/memory.max", "-3\n"),
                ("sys/fs/cgroup/x/memory.current", "\u{fffd}"),
            ],
        );
        assert_eq!(Sources::new(&tree.0).look(), Reading::default());
        assert!(Sources::new(Path::new("/no/such/root")).alarms().is_empty());
    }

    #[test]
    fn the_kernel_takes_our_trigger() {
        let path = Path::new("/proc/pressure/memory");
        let may = OpenOptions::new().read(true).write(true).open(path);
        if let Err(error) = may {
            return println!("skipped: {}: {error}", path.display());
        }
        let mut sources = Sources::new(Path::new("/no/such/root"));
        sources.psi = Some(SmallFile::new(path.into()));
        assert!(sources.psi_alarm().is_some(), "refused: {TRIGGER:?}");
    }

    #[test]
    fn this_machine_is_read() {
        let reading = Sources::new(Path::new("/")).look();
        assert!(reading.available.unwrap() < reading.total.unwrap());
    }
}
