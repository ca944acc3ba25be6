//! The commands that the memory experiments measure, on a small scale: a neighbour that fits, a restart that is warm and
//! one that is not. The server's program must lie beside thermolab; else they are skipped.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn thermolab() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_thermolab"))
}

/// Whether the server was built beside it.
fn has_server() -> bool {
    let there = thermolab().with_file_name("thermocline").exists();
    if !there {
        println!("skipped: no server beside thermolab; cargo build -p thermocline-server");
    }
    there
}

fn run(words: &[&str]) -> Output {
    Command::new(thermolab())
        .args(words)
        .output()
        .expect("thermolab runs")
}

fn figures(words: &[&str]) -> impl Fn(&str) -> f64 {
    let output = run(words);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{text}{errors}");
    move |name: &str| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        let value = line.and_then(|value| value.parse().ok());
        value.unwrap_or_else(|| panic!("no {name} in {text}"))
    }
}

#[test]
fn with_room_for_both_nobody_is_killed() {
    if !has_server() {
        return;
    }
    for server in ["thermocline", "memcached", "redis"] {
        let installed = server == "thermocline"
            || ["memcached", "redis-server"]
                .iter()
                .any(|name| name.starts_with(server) && Path::new("/usr/bin").join(name).exists());
        if !installed {
            println!("skipped: {server} is not installed");
            continue;
        }
        let figure = figures(&[
            "neighbour",
            "--server",
            server,
            "--memory",
            "64MiB",
            "--fill",
            "20MiB",
            "--take",
            "8MiB",
            "--every",
            "1ms",
        ]);
        assert_eq!(figure("server_lives"), 1.0, "{server}");
        assert_eq!(figure("neighbour_finished"), 1.0, "{server}");
        assert_eq!(figure("somebody_killed"), 0.0, "{server}");
        assert_eq!(figure("items_before"), 204.0, "{server}");
        assert!(figure("resident_before_bytes") > 15e6, "{server}");
    }
}

#[test]
fn a_server_with_a_memory_file_is_back_with_its_items() {
    let directory = Path::new("/dev/shm").join(format!("thermolab-restart-{}", std::process::id()));
    if !has_server() || std::fs::create_dir_all(&directory).is_err() {
        return;
    }
    let path = directory.display().to_string();
    let warm = [
        "restart",
        "--memory",
        "64MiB",
        "--fill-percent",
        "50",
        "--memory-dir",
        &path,
    ];
    let figure = figures(&warm);
    assert_eq!(figure("items_there_percent"), 100.0);
    assert!(figure("items_before") > 30_000.0 && figure("first_answer_s") > 0.0);
    let killed: Vec<&str> = warm.into_iter().chain(["--kill"]).collect();
    assert_eq!(figures(&killed)("items_after"), 0.0);
    let _gone = std::fs::remove_dir_all(directory);
}

#[test]
fn a_server_that_does_not_start_is_an_error_that_says_so() {
    let output = run(&[
        "neighbour",
        "--server",
        "thermocline",
        "--binary",
        "/bin/false",
    ]);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && errors.contains("ended at its start"),
        "{errors}"
    );
}
