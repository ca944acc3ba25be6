//! Real servers as subjects, started and ended by `run`: Debian's memcached and our own; and the arm's cgroup around them.
//! What is not there is skipped with the reason, unless THERMOCLINE_REQUIRE_CLIENTS says that it must be.

mod this_machine;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use thermocline_lab::bench::process::{Product, Server};
use thermocline_lab::point::{PointLine, Results, Status};

fn skip(why: &str) -> bool {
    let required = std::env::var("THERMOCLINE_REQUIRE_CLIENTS").is_ok_and(|value| value == "1");
    assert!(!required, "{why}, and THERMOCLINE_REQUIRE_CLIENTS=1");
    println!("skipped: {why}");
    true
}

fn has_memcached() -> bool {
    let answered = Command::new("memcached").arg("-V").output();
    answered.is_ok_and(|output| output.status.success())
}

/// Our server lies beside the lab's binary once it was built.
fn our_server() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_BIN_EXE_thermolab")).with_file_name("thermocline");
    beside.is_file().then_some(beside)
}

struct Run {
    directory: tempfile::TempDir,
    output: Output,
}

impl Run {
    fn of(text: &str) -> Run {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("servers.toml");
        std::fs::write(&file, text).unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
            .arg("run")
            .arg(&file)
            .arg("--out")
            .arg(directory.path().join("run"))
            .stdin(Stdio::null())
            .output()
            .unwrap();
        Run { directory, output }
    }

    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn points(&self) -> Vec<PointLine> {
        let results = Results::read(&self.directory.path().join("run"));
        results.unwrap_or_else(|_| panic!("{}", self.said())).points
    }
}

fn experiment(subject: &str, arms: &str) -> String {
    format!(
        "question = \"Do real servers run?\"
[subject]
{subject}
[workload]
keys = 2000
value_bytes = \"1KiB..4KiB\"
read_ratio = 0.9
[plan]
repeats = 1
workers = 1
loop = \"closed\"
warmup = \"200ms\"
duration = \"1s\"
{arms}"
    )
}

/// A point of a server that works: hits, its own counters, its own process's figures.
fn assert_measured(point: &PointLine) {
    assert_eq!(point.status, Status::Ok, "{:?}", point.reason);
    let m = &point.metrics;
    assert!(
        m["operations_total"] > 100.0 && m["hit_ratio"] > 0.9,
        "{m:?}"
    );
    assert!(m["failed_total"] == 0.0 && m["wrong_total"] == 0.0, "{m:?}");
    assert!(
        m["loaded_total"] == 2000.0 && m["server_cmd_get_total"] > 50.0,
        "{m:?}"
    );
    assert!(m["cpu_ns_per_op"] > 100.0 && m["rss_bytes"] > 1e6, "{m:?}");
    assert!(
        m["service_ns_p50"] > 1000.0 && m["service_ns_p99"] >= m["service_ns_p50"],
        "{m:?}"
    );
    let version = point.facts["version"].as_str().unwrap();
    assert!(
        version.starts_with(|first: char| first.is_ascii_digit()),
        "{version}"
    );
}

fn is_running(pid_file: &Path) -> bool {
    let pid = std::fs::read_to_string(pid_file).unwrap();
    Path::new(&format!("/proc/{}", pid.trim())).exists()
}

#[test]
fn memcached_is_started_measured_by_both_protocols_and_ended() {
    if !has_memcached() && skip("no memcached") {
        return;
    }
    let arms = "[matrix]\n\"subject.protocol\" = [\"text\", \"meta\"]\n";
    let subject = "kind = \"server\"\nserver = \"memcached\"\nmemory = \"64MiB\"\nconnections = 4\npipeline = 4\nflags = [\"-P\", \"{scratch}/../pid\"]";
    // The point's scratch is gone after it: its pid file is written beside.
    let directory = tempfile::tempdir().unwrap();
    let pid_file = directory.path().join("pid");
    let subject = subject.replace("{scratch}/../pid", &pid_file.to_string_lossy());
    let run = Run::of(&experiment(&subject, arms));
    assert!(run.output.status.success(), "{}", run.said());
    let points = run.points();
    assert_eq!(points.len(), 2);
    points.iter().for_each(assert_measured);
    assert!(
        !pid_file.exists() || !is_running(&pid_file),
        "a server was left behind"
    );
}

#[test]
fn our_server_is_started_measured_and_ended() {
    let Some(binary) = our_server() else {
        skip("our server is not built: cargo build -p thermocline-server");
        return;
    };
    let subject = format!(
        "kind = \"server\"\nserver = \"thermocline\"\nmemory = \"64MiB\"\nconnections = 4\nbinary = \"{}\"",
        binary.display()
    );
    let run = Run::of(&experiment(&subject, "[[arm]]\nname = \"ours\"\n"));
    assert!(run.output.status.success(), "{}", run.said());
    run.points().iter().for_each(assert_measured);
}

#[test]
fn a_server_that_dies_mid_run_fails_its_point_and_the_run_goes_on() {
    if !has_memcached() && skip("no memcached") {
        return;
    }
    // $$ is the server's own number: the shell becomes it.
    let dying = "[\"sh\", \"-c\", \"(sleep 0.8; kill -9 $$) & exec memcached -u root -l 127.0.0.1 -p {port}\"]";
    let arms = format!(
        "[[arm]]\nname = \"dies\"\nsubject.command = {dying}\n[[arm]]\nname = \"lives\"\nsubject.server = \"memcached\"\nsubject.memory = \"64MiB\"\n"
    );
    let run = Run::of(&experiment("kind = \"server\"", &arms));
    assert!(!run.output.status.success(), "a failed point is told");
    let points = run.points();
    assert_eq!(points.len(), 2);
    for point in &points {
        match point.arm.as_str() {
            "lives" => assert_measured(point),
            _ => {
                let reason = point.reason.clone().unwrap_or_default();
                assert_eq!(point.status, Status::Failed);
                assert!(reason.contains("signal: 9"), "{reason}");
            }
        }
    }
}

/// What knobs there are is the machine's business: a refusal with its reason is no failure of ours.
fn is_refused(points: &[PointLine]) -> bool {
    let refused = points.iter().find(|point| point.status == Status::Refused);
    let why = refused.and_then(|point| point.reason.as_deref());
    why.is_some_and(skip)
}

#[test]
fn what_works_is_in_the_arms_cgroup_from_its_first_instruction() {
    if !rustix::process::geteuid().is_root() && skip("not root") {
        return;
    }
    if !has_memcached() && skip("no memcached") {
        return;
    }
    this_machine::put_back();
    let directory = tempfile::tempdir().unwrap();
    let seen = directory.path().join("groups");
    // The shell that becomes the server writes down where it is.
    let started = format!(
        "[\"sh\", \"-c\", \"cat /proc/self/cgroup > {}; exec memcached -u root -l 127.0.0.1 -p {{port}} -m 64\"]",
        seen.display()
    );
    let arms = format!(
        "[[arm]]
name = \"a server\"
subject.kind = \"server\"
subject.command = {started}
machine.cgroup.memory_max = \"256MiB\"
[[arm]]
name = \"a server in too little\"
subject.kind = \"server\"
subject.server = \"memcached\"
subject.memory = \"64MiB\"
machine.cgroup.memory_max = \"4MiB\"
machine.cgroup.swap_max = 0
[[arm]]
name = \"an engine\"
subject.kind = \"thermocline\"
subject.memory = \"32MiB\"
machine.cgroup.memory_max = \"256MiB\"
[[arm]]
name = \"an engine in too little\"
subject.kind = \"thermocline\"
subject.memory = \"256MiB\"
workload.keys = 100000
machine.cgroup.memory_max = \"64MiB\"
machine.cgroup.swap_max = 0
"
    );
    let run = Run::of(&experiment("", &arms));
    let points = run.points();
    if is_refused(&points) {
        return;
    }
    let point = |arm: &str| points.iter().find(|point| point.arm == arm).unwrap();
    for arm in ["a server", "an engine"] {
        assert_eq!(point(arm).status, Status::Ok, "{:?}", point(arm).reason);
        assert!(
            point(arm).deltas.contains_key("cgroup"),
            "{:?}",
            point(arm).deltas.keys()
        );
    }
    let groups = std::fs::read_to_string(&seen).unwrap();
    assert!(groups.contains("/thermolab-"), "{groups}");
    for arm in ["a server in too little", "an engine in too little"] {
        let reason = point(arm).reason.clone().unwrap_or_default();
        assert_eq!(
            point(arm).status,
            Status::Failed,
            "{arm} fitted: {:?}",
            point(arm).metrics
        );
        assert!(reason.contains("signal: 9"), "{arm}: {reason}");
    }
}

#[test]
fn a_server_that_runs_is_not_moved_into_a_cgroup() {
    let subject = "kind = \"memcached\"\naddress = \"memcached://127.0.0.1:1\"";
    let arms = "[machine]\ncgroup.memory_max = \"64MiB\"\n";
    let run = Run::of(&experiment(subject, arms));
    assert!(!run.output.status.success());
    assert!(
        run.said()
            .contains("`machine.cgroup.memory_max`: a server that runs already"),
        "{}",
        run.said()
    );
}

#[test]
fn a_load_tells_what_an_operation_costs_the_server() {
    let Some(server) = our_server() else {
        skip("the server is not built");
        return;
    };
    let server = Server::start(Product::Thermocline, &server, 64).unwrap();
    let mut flags = vec!["--requests", "20000", "--keys", "500", "--json"];
    let has_strace = Command::new("strace").arg("-V").output().is_ok();
    if has_strace {
        flags.extend(["--syscalls", "2000"]);
    }
    let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(["load", &server.url()])
        .args(["--pid", &server.pid().to_string()])
        .args(flags)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let figure = |name: &str| report["points"][name].as_f64();
    let cpu_us = figure("server_cpu_us_per_op").unwrap();
    assert!(cpu_us > 0.0, "{report}");
    if has_strace {
        // One to be told of the request, one to read it, one to answer it; fewer if requests come together.
        let calls = figure("server_syscalls_per_op").unwrap();
        assert!(calls > 0.5 && calls < 5.0, "{calls}");
    }
}
