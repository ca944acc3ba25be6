//! Knobs on an imitated machine: set, read back, put back; by a run that ends, one that is refused, and one that is
//! killed at any moment. And on this one, what is safe and root may do.

mod this_machine;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const FILES: &[(&str, &str)] = &[
    ("proc/sys/kernel/osrelease", "6.12.0-imitated\n"),
    ("proc/sys/kernel/random/boot_id", "boot-one\n"),
    ("proc/sys/vm/swappiness", "60\n"),
    ("proc/sys/vm/page-cluster", "3\n"),
    ("proc/sys/vm/drop_caches", "0\n"),
    ("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/old\tfile\t1024\t0\t-2\n"),
    ("proc/mounts", "cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"),
    ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
    ("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n"),
    ("sys/kernel/mm/transparent_hugepage/shmem_enabled", "always within_size advise [never] deny force\n"),
    ("sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs", "10000\n"),
    ("sys/kernel/mm/lru_gen/enabled", "0x0007\n"),
    ("sys/kernel/mm/lru_gen/min_ttl_ms", "0\n"),
    ("sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages", "0\n"),
    ("sys/module/zswap/parameters/enabled", "N\n"),
    ("sys/module/zswap/parameters/compressor", "lzo\n"),
    ("sys/module/zswap/parameters/max_pool_percent", "20\n"),
    ("sys/block/zram0/disksize", "0\n"),
    ("sys/block/zram0/reset", "0\n"),
    ("sys/block/zram0/comp_algorithm", "[lzo-rle] lzo lz4\n"),
    ("sys/fs/cgroup/memory/cgroup.procs", ""),
    ("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"),
    ("sys/fs/cgroup/memory/memory.memsw.limit_in_bytes", "9223372036854771712\n"),
    ("sys/fs/cgroup/unified/cgroup.procs", ""),
    ("sys/fs/cgroup/unified/cgroup.subtree_control", "hugetlb\n"),
];

struct Machine {
    directory: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for (path, text) in FILES {
            let path = directory.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        fs::create_dir_all(directory.path().join("var/tmp")).unwrap();
        let before = snapshot(directory.path());
        Machine { directory, before }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn thermolab(&self, words: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_thermolab"));
        command.arg(words[0]);
        command.args(["--system-root", self.directory.path().to_str().unwrap()]);
        command.args(&words[1..]);
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.thermolab(words).output().unwrap()
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).unwrap();
    }

    fn set(&mut self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.before = snapshot(self.directory.path());
    }

    /// That every file says what it said, and none was added.
    fn assert_as_before(&self, when: &str) {
        let now = snapshot(self.directory.path());
        for (path, text) in &self.before {
            assert_eq!(now.get(path), Some(text), "{} {when}", path.display());
        }
        let added: Vec<_> = now
            .keys()
            .filter(|path| !self.before.contains_key(*path))
            .collect();
        assert!(added.is_empty(), "{added:?} {when}");
    }
}

/// Every file and directory that is to be as it was.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    fn walk(at: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            // The journal's place, two files whose writing acts and leaves a value behind, and what an imitated file is
            // replaced by.
            let scratch = path.to_string_lossy().contains("/.thermolab-new-");
            let acts = path.ends_with("drop_caches") || path.ends_with("reset");
            if path.ends_with("var/lib") || acts || scratch {
                continue;
            }
            if path.is_dir() {
                found.insert(path.clone(), "a directory".into());
                walk(&path, found);
            } else {
                found.insert(path.clone(), fs::read_to_string(&path).unwrap());
            }
        }
    }
    let mut found = BTreeMap::new();
    walk(root, &mut found);
    found
}

/// Every kind of knob at once.
const ALL: &[&str] = &[
    "with",
    "swappiness=100",
    "vm.page-cluster=0",
    "thp.enabled=always",
    "thp.defrag=never",
    "thp.shmem_enabled=within_size",
    "khugepaged.scan_sleep_millisecs=10",
    "lru_gen.min_ttl_ms=1000",
    "hugetlb.2MiB=100",
    "zswap.enabled=true",
    "zswap.max_pool_percent=30",
    "swap_existing=off",
    "swap_file=64MiB",
    "zram=32MiB",
    "zram_algorithm=lz4",
    "tmpfs.size=16MiB",
    "tmpfs.huge=always",
    "cgroup.memory_max=90MiB",
    "cgroup.swap_max=1GiB",
    "drop_caches=3",
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn every_knob_is_in_force_for_the_command_and_put_back_after_it() {
    let machine = Machine::new();
    let root = machine.directory.path().to_str().unwrap().to_string();
    let see = format!(
        "cd {root}; cat proc/sys/vm/swappiness sys/kernel/mm/transparent_hugepage/enabled sys/module/zswap/parameters/enabled \
         proc/swaps proc/mounts sys/block/zram0/* sys/fs/cgroup/memory/thermolab-*/memory.* sys/fs/cgroup/memory/thermolab-*/cgroup.procs; echo tmpfs $THERMOLAB_TMPFS"
    );
    let mut words = ALL.to_vec();
    words.extend(["--", "sh", "-c", &see]);
    let output = machine.run(&words);
    let seen = text(&output.stdout);
    assert!(output.status.success(), "{}", text(&output.stderr));
    for part in [
        "100\n[always] madvise never\nY\n",
        ".swap\tfile",
        "/dev/zram0\tfile\t1024\t0\t100",
        "tmpfs rw,size=16777216,huge=always",
        "lzo-rle lzo [lz4]",
        "33554432",
        "94371840\n1168113664\n",
        "tmpfs /",
    ] {
        assert!(seen.contains(part), "{part:?} is not in\n{seen}");
    }
    assert!(!seen.contains("/dev/old"), "{seen}");
    machine.assert_as_before("after the command");
}

#[test]
fn a_dry_run_says_what_would_change_and_changes_nothing() {
    let machine = Machine::new();
    let mut words = ALL.to_vec();
    words.insert(1, "--dry-run");
    let output = machine.run(&words);
    let said = text(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(
        said.contains("/proc/sys/vm/swappiness: 60 -> 100"),
        "{said}"
    );
    assert!(
        said.contains("transparent_hugepage/enabled: madvise -> always"),
        "{said}"
    );
    assert!(
        said.contains("cgroup: none -> memory_max=94371840"),
        "{said}"
    );
    machine.assert_as_before("after a dry run");
    assert!(!machine.path("var/lib").exists());
}

#[test]
fn a_knob_this_kernel_lacks_refuses_before_anything_changes() {
    let mut machine = Machine::new();
    machine.remove("sys/kernel/mm/lru_gen/min_ttl_ms");
    machine.before = snapshot(machine.directory.path());
    let mut words = ALL.to_vec();
    words.extend(["--", "true"]);
    let output = machine.run(&words);
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("machine.lru_gen.min_ttl_ms") && said.contains("not there on this kernel"),
        "{said}"
    );
    machine.assert_as_before("after a refusal");
}

/// What the zcache experiment's arms name, on a kernel built without zswap, and for one who is not root.
#[test]
fn without_zswap_the_compile_is_refused_with_the_reason_and_nothing_is_made() {
    let mut machine = Machine::new();
    for name in ["enabled", "compressor", "max_pool_percent"] {
        machine.remove(&format!("sys/module/zswap/parameters/{name}"));
    }
    machine.before = snapshot(machine.directory.path());
    let words = [
        "with",
        "swap_file=64MiB",
        "cgroup.charge_pools=true",
        "cgroup.memory_max=100MiB",
        "zswap.enabled=true",
        "--",
        "true",
    ];
    let output = machine.run(&words);
    let said = text(&output.stderr);
    assert!(!output.status.success());
    assert!(
        said.contains("machine.zswap.enabled: /sys/module/zswap/parameters/enabled: not there"),
        "{said}"
    );
    assert!(said.contains("Linux 6.12.0-imitated"), "{said}");
    machine.assert_as_before("after a refusal for want of zswap");
}

#[test]
fn a_value_the_kernel_does_not_take_undoes_the_knobs_before_it() {
    let machine = Machine::new();
    let output = machine.run(&[
        "with",
        "swappiness=1",
        "thp.enabled=sometimes",
        "--",
        "true",
    ]);
    assert!(!output.status.success());
    assert!(
        text(&output.stderr).contains("machine.thp.enabled"),
        "{}",
        text(&output.stderr)
    );
    machine.assert_as_before("after a value was refused");
    let again = machine.run(&["with", "swappiness=1", "--", "true"]);
    assert!(again.status.success(), "{}", text(&again.stderr));
}

#[test]
fn a_run_killed_at_any_moment_is_put_back_by_restore() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(20_u64);
    println!("SEED={seed}");
    let mut state = seed;
    let (mut mid, mut whole) = (0, 0);
    for round in 0..24 {
        let machine = Machine::new();
        let mut words = ALL.to_vec();
        let journal = machine.path("var/lib/thermolab/journal.jsonl");
        // The command outlives the killed lab on an imitated machine: let it be short.
        words.extend(["--", "sleep", "1"]);
        let mut child = machine
            .thermolab(&words)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        // Killed once so many changes are booked, at whatever point between two of them it is by then.
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        let wanted = 1 + (state >> 33) as usize % 22;
        let lines = || {
            let text = fs::read_to_string(&journal).unwrap_or_default();
            text.lines().count()
        };
        let started = std::time::Instant::now();
        while lines() < wanted && started.elapsed() < Duration::from_millis(300) {}
        child.kill().unwrap();
        child.wait().unwrap();
        let booked = lines();
        whole += usize::from(booked >= 20);
        mid += usize::from((2..20).contains(&booked));
        if booked > 1 {
            let refused = machine.run(&["with", "swappiness=5", "--", "true"]);
            assert!(
                text(&refused.stderr).contains("thermolab restore"),
                "{}",
                text(&refused.stderr)
            );
        }
        let output = machine.run(&["restore"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        machine.assert_as_before(&format!(
            "after kill -9 in round {round} with {booked} lines"
        ));
        let nothing = machine.run(&["restore"]);
        assert!(text(&nothing.stdout).contains("nothing to restore"));
    }
    println!("{mid} killed while turning, {whole} while in force");
    assert!(mid + whole > 0, "no round was killed with anything changed");
}

#[test]
fn ctrl_c_and_terminate_put_everything_back() {
    for signal in ["INT", "TERM"] {
        let machine = Machine::new();
        let started = machine.path("var/tmp/started");
        let mut words = ALL.to_vec();
        let script = format!("echo > {}; exec sleep 30", started.display());
        words.extend(["--", "sh", "-c", &script]);
        let mut child = machine
            .thermolab(&words)
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while !started.exists() {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(
            fs::read_to_string(machine.path("proc/sys/vm/swappiness")).unwrap(),
            "100\n"
        );
        let sent = Command::new("kill")
            .args([&format!("-{signal}"), &child.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        assert!(!child.wait().unwrap().success());
        fs::remove_file(&started).unwrap();
        machine.assert_as_before(&format!("after SIG{signal}"));
    }
}

#[test]
fn after_a_restart_only_files_are_removed() {
    let mut machine = Machine::new();
    let mut child = machine
        .thermolab(&[
            "with",
            "swappiness=100",
            "swap_file=64MiB",
            "--",
            "sleep",
            "1",
        ])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !fs::read_to_string(machine.path("proc/swaps"))
        .unwrap()
        .contains(".swap")
    {
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    fs::write(
        machine.path("proc/swaps"),
        "Filename\tType\tSize\tUsed\tPriority\n",
    )
    .unwrap();
    fs::write(machine.path("proc/sys/kernel/random/boot_id"), "boot-two\n").unwrap();
    // The new boot's administrator wants another value: it must not be overwritten.
    fs::write(machine.path("proc/sys/vm/swappiness"), "10\n").unwrap();
    let output = machine.run(&["restore"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(
        fs::read_to_string(machine.path("proc/sys/vm/swappiness")).unwrap(),
        "10\n"
    );
    assert!(fs::read_dir(machine.path("var/tmp"))
        .unwrap()
        .next()
        .is_none());
    machine.set("proc/sys/vm/swappiness", "10\n");
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        assert!(
            std::env::var("THERMOCLINE_REQUIRE_CLIENTS").is_err(),
            "CI runs these as root"
        );
        println!("skipped: not root");
    }
    is_root
}

fn live(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(words)
        .output()
        .unwrap()
}

/// One test, in steps: one lab at a time turns this machine's knobs.
#[test]
fn on_this_machine_a_mount_a_cgroup_and_a_value_are_put_back() {
    if !is_root() {
        return;
    }
    this_machine::put_back();
    let nothing_to_do = "machine.";
    let pages = "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs";
    if let Ok(before) = fs::read_to_string(pages) {
        let output = live(&[
            "with",
            "khugepaged.scan_sleep_millisecs=9999",
            "--",
            "cat",
            pages,
        ]);
        assert_eq!(text(&output.stdout), "9999\n", "{}", text(&output.stderr));
        assert_eq!(fs::read_to_string(pages).unwrap(), before);
    } else {
        println!("skipped: no transparent huge pages here");
    }
    let output = live(&[
        "with",
        "tmpfs.size=16MiB",
        "tmpfs.huge=within_size",
        "--",
        "sh",
        "-c",
        "grep $THERMOLAB_TMPFS /proc/mounts",
    ]);
    match output.status.success() {
        true => assert!(
            text(&output.stdout).contains("huge=within_size"),
            "{}",
            text(&output.stdout)
        ),
        false => {
            let said = text(&output.stderr);
            assert!(said.contains(nothing_to_do), "{said}");
            println!("skipped: {said}");
        }
    }
    assert!(!fs::read_to_string("/proc/mounts")
        .unwrap()
        .contains("/thermolab/tmpfs"));
    let see = "cat /sys/fs/cgroup/memory/thermolab-*/memory.limit_in_bytes /sys/fs/cgroup/thermolab-*/memory.max 2>/dev/null; cat /proc/self/cgroup";
    let output = live(&["with", "cgroup.memory_max=64MiB", "--", "sh", "-c", see]);
    match output.status.success() {
        true => {
            let seen = text(&output.stdout);
            assert!(
                seen.contains("67108864") && seen.contains("/thermolab-"),
                "{seen}"
            );
        }
        false => {
            let said = text(&output.stderr);
            assert!(said.contains(nothing_to_do), "{said}");
            println!("skipped: {said}");
        }
    }
    for tree in [
        "/sys/fs/cgroup/memory",
        "/sys/fs/cgroup",
        "/sys/fs/cgroup/unified",
    ] {
        let left = fs::read_dir(tree).into_iter().flatten().flatten();
        let ours = left.filter(|entry| {
            entry
                .file_name()
                .to_string_lossy()
                .starts_with("thermolab-")
        });
        assert_eq!(ours.count(), 0, "a cgroup was left in {tree}");
    }
}
