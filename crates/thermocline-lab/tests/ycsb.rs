//! `thermolab ycsb` from outside: properties, counts, reports, and what is refused.

use std::process::{Command, Output};
use thermocline_lab::ycsb_report::Report;

fn ycsb(line: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .arg("ycsb")
        .args(line.split_whitespace())
        .output()
        .expect("thermolab runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn report(line: &str) -> (Report, String) {
    let output = ycsb(line);
    assert!(output.status.success(), "{line}: {}", said(&output));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let report = Report::read(&text).unwrap_or_else(|error| panic!("{error:#}: {text}"));
    (report, said(&output))
}

#[test]
fn all_six_workloads_run_and_count_exactly() {
    for (name, kinds) in [
        ("a", &["READ", "UPDATE"][..]),
        ("b", &["READ", "UPDATE"]),
        ("c", &["READ"]),
        ("d", &["READ", "INSERT"]),
        ("f", &["READ", "READ-MODIFY-WRITE"]),
    ] {
        let line = format!(
            "run embedded --memory 64MiB -P workloads/{name}.properties -p recordcount=5000 -p operationcount=20000 -threads 2"
        );
        let (report, stderr) = report(&line);
        assert!(stderr.contains("ended by: operations"), "{stderr}");
        let count = |metric: &str| report.get(metric, "Operations").unwrap_or(0.0);
        for kind in kinds {
            assert!(count(kind) > 100.0, "{name}: {kind}");
        }
        // A read-modify-write counts as a read and an update too.
        let total = count("READ") + count("UPDATE") + count("INSERT") - count("READ-MODIFY-WRITE");
        assert_eq!(total, 20_000.0, "{name}");
        assert_eq!(
            report.get("CACHE", "HitRatio"),
            Some(1.0),
            "{name}: nothing was evicted"
        );
        assert_eq!(report.get("READ", "Return=ERROR"), None);
    }
    let scans = ycsb("run embedded --memory 64MiB -P workloads/e.properties");
    let text = String::from_utf8_lossy(&scans.stdout).into_owned();
    assert!(
        !scans.status.success() && text.contains("[SCAN], Return=NOT_IMPLEMENTED, "),
        "{text}"
    );
}

#[test]
fn integrity_is_verified_and_misses_are_no_errors() {
    let (report, _) = report(
        "run embedded --memory 64MiB -p dataintegrity=true -p recordcount=3000 -p operationcount=10000 -p updateproportion=0.5",
    );
    let verified = report.get("VERIFY", "Return=OK").unwrap();
    assert!(verified > 5000.0 && report.get("VERIFY", "Return=UNEXPECTED_STATE").is_none());
    let (report, _) = self::report(
        "run embedded:quick_cache --memory 1MiB -p recordcount=5000 -p operationcount=10000",
    );
    let misses = report.get("READ", "Return=NOT_FOUND").unwrap();
    assert!(misses > 5000.0 && report.get("READ-FAILED", "Operations").is_none());
    assert_eq!(report.get("CACHE", "Misses"), Some(misses));
}

#[test]
fn loads_reports_and_measurements_come_in_every_form() {
    let dir = std::env::temp_dir().join(format!("thermolab-ycsb-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let file = |name: &str| dir.join(name).display().to_string();
    let line = format!(
        "load embedded --memory 64MiB -p recordcount=4000 -p exporter=JSONArray -p exportfile={} \
         -p measurementtype=hdrhistogram+raw -p measurement.raw.output_file={} -p hdrhistogram.fileoutput=true \
         -p hdrhistogram.output.path={}",
        file("report.json"),
        file("raw.csv"),
        file("hdr-")
    );
    let output = ycsb(&line);
    assert!(output.status.success(), "{}", said(&output));
    let report = Report::read(&std::fs::read_to_string(file("report.json")).unwrap()).unwrap();
    assert_eq!(report.get("INSERT", "Operations"), Some(4000.0));
    assert_eq!(report.get("INSERT", "Return=OK"), Some(4000.0));
    let raw = std::fs::read_to_string(file("raw.csv")).unwrap();
    assert_eq!(raw.lines().count(), 4000);
    assert!(raw
        .lines()
        .all(|line| line.starts_with("INSERT,1") && line.split(',').count() == 3));
    let log = std::fs::read_to_string(file("hdr-INSERT.hdr")).unwrap();
    assert!(log.contains("StartTime") && log.contains("HIST"), "{log}");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_target_is_an_open_loop_with_status_lines_and_both_times() {
    let (report, stderr) = report(
        "run null -p recordcount=1000 -target 2000 -s -l run1: -p status.interval=1 -p maxexecutiontime=2 \
         -p measurement.interval=both",
    );
    assert!(stderr.contains("ended by: duration"), "{stderr}");
    let operations = report.get("READ", "Operations").unwrap()
        + report.get("UPDATE", "Operations").unwrap_or(0.0);
    assert!(
        (3000.0..=4000.0).contains(&operations),
        "{operations} at 2,000/s for 2 s"
    );
    assert!(report
        .get("Intended-READ", "99thPercentileLatency(us)")
        .is_some());
    let status: Vec<&str> = stderr
        .lines()
        .filter(|line| line.starts_with("run1:"))
        .collect();
    assert!(status.len() >= 2, "{stderr}");
    assert!(
        status[0].contains(" sec: ")
            && status[0].contains("current ops/sec; ")
            && status[0].contains("[READ: Count=")
    );
}

/// Debian's memcached on a socket of its own; ended when dropped.
struct Server(std::process::Child, std::path::PathBuf);

impl Server {
    /// `None` where it is not installed, unless it must be.
    fn start() -> Option<Self> {
        let socket =
            std::env::temp_dir().join(format!("thermolab-ycsb-{}.sock", std::process::id()));
        let _ = std::fs::remove_file(&socket);
        let started = Command::new("memcached")
            .args(["-u", "nobody", "-m", "64", "-a", "0777", "-s"])
            .arg(&socket)
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) if std::env::var_os("THERMOCLINE_REQUIRE_CLIENTS").is_none() => {
                println!("skipped: memcached cannot be started ({error})");
                return None;
            }
            Err(error) => panic!("memcached must be here: {error}"),
        };
        let server = Server(child, socket);
        for _ in 0..500 {
            if std::os::unix::net::UnixStream::connect(&server.1).is_ok() {
                return Some(server);
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        panic!("memcached does not listen on {}", server.1.display());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
        let _ = std::fs::remove_file(&self.1);
    }
}

#[test]
fn a_memcached_server_is_loaded_and_run_in_both_layouts() {
    let Some(server) = Server::start() else {
        return;
    };
    let target = format!("unix://{}", server.1.display());
    let common = "-p recordcount=2000 -p operationcount=5000 -threads 2";
    let (load, _) = report(&format!("load {target} --layout memcached {common}"));
    assert_eq!(load.get("INSERT", "Return=OK"), Some(2000.0));
    let again = report(&format!("load {target} --layout memcached {common}")).0;
    assert_eq!(
        again.get("INSERT", "Return=UNEXPECTED_STATE"),
        Some(2000.0),
        "ADD of what is there"
    );
    let line = format!("run {target} --layout memcached {common} -P workloads/f.properties -p updateproportion=0.2");
    let (run, stderr) = report(&line);
    assert_eq!(run.get("CACHE", "HitRatio"), Some(1.0));
    assert!(
        run.get("UPDATE", "Return=OK").unwrap() > 500.0 && stderr.contains("rows shrink"),
        "{stderr}"
    );
    let line = format!("run {target} {common} -p dataintegrity=true -p insertorder=ordered");
    let (cold, _) = report(&line);
    assert!(
        cold.get("READ", "Return=NOT_FOUND").unwrap() > 1000.0,
        "another layout, other keys"
    );
    report(&format!(
        "load {target} -p dataintegrity=true -p insertorder=ordered {common}"
    ));
    let (warm, _) = report(&line);
    assert_eq!(warm.get("CACHE", "HitRatio"), Some(1.0));
}

#[test]
fn what_is_wrong_is_named_before_anything_starts() {
    for (line, part) in [
        ("run embedded -p recordcuont=5", "`recordcount`"),
        (
            "run embedded -p requestdistribution=zipfain -p recordcount=9",
            "`zipfian`",
        ),
        ("run embeded -p recordcount=9", "`embedded`"),
        ("run embedded:mokka -p recordcount=9", "moka"),
        ("run embedded -P workloads/z.properties", "z.properties"),
        ("run memcached -p recordcount=9", "memcached.hosts"),
        (
            "run memcached://127.0.0.1:1 -p recordcount=9",
            "127.0.0.1:1",
        ),
        (
            "run embedded -p recordcount=9 --set objektive=bytes",
            "objective",
        ),
        ("run", "no target"),
    ] {
        let output = ycsb(line);
        assert!(
            !output.status.success() && said(&output).contains(part),
            "{line}: {}",
            said(&output)
        );
    }
    let help = ycsb("--help");
    assert!(help.status.success() && String::from_utf8_lossy(&help.stdout).contains("-target N"));
}
