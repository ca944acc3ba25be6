//! Other people's clients and checkers against our server.
//!
//! libmemcached's protocol checker runs where it is installed; pymemcache and aiomcache run from the virtual
//! environment named by THERMOCLINE_TEST_VENV. What is not there is skipped, unless THERMOCLINE_REQUIRE_CLIENTS=1.

mod common;

use common::{ours, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn the_protocol_checker_of_libmemcached_passes_all_text_checks() {
    if !Path::new("/usr/bin/memccapable").exists() {
        return skip("memccapable (libmemcached-tools) is not installed");
    }
    let server = ours(&[]);
    let output = Command::new("/usr/bin/memccapable")
        .args(["-h", "127.0.0.1", "-a", "-p", &server.port.to_string()])
        .output()
        .expect("memccapable runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned()
        + &String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    let passed = text.matches("[pass]").count();
    assert!(output.status.success(), "memccapable failed");
    assert!(!text.contains("[FAIL]"));
    assert_eq!(passed, 27, "all text checks");
}

/// It asks for the keys of one slab class after the other.
#[test]
fn memcdump_lists_each_key_once() {
    if !Path::new("/usr/bin/memcdump").exists() {
        return skip("memcdump (libmemcached-tools) is not installed");
    }
    let server = ours(&[]);
    let mut client = server.connect();
    for key in ["one", "three", "two"] {
        let answer = client.ask(format!("set {key} 0 0 1\r\nx"));
        assert_eq!(answer, "STORED");
    }
    let output = Command::new("/usr/bin/memcdump")
        .arg(format!("--servers=127.0.0.1:{}", server.port))
        .output()
        .expect("memcdump runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut keys: Vec<&str> = text.lines().collect();
    keys.sort_unstable();
    assert_eq!(keys, ["one", "three", "two"]);
}

fn python() -> Option<PathBuf> {
    let venv = std::env::var_os("THERMOCLINE_TEST_VENV")?;
    let python = Path::new(&venv).join("bin/python");
    python.exists().then_some(python)
}

fn play(script: &str) {
    let Some(python) = python() else {
        return skip(
            "THERMOCLINE_TEST_VENV names no virtual environment with pymemcache and aiomcache",
        );
    };
    let server = ours(&[]);
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/clients")
        .join(script);
    let output = Command::new(python)
        .arg(path)
        .arg(server.port.to_string())
        .output()
        .expect("python runs");
    println!("{}", String::from_utf8_lossy(&output.stdout));
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn pymemcache_works() {
    play("pymemcache_suite.py");
}

#[test]
fn aiomcache_works() {
    play("aiomcache_suite.py");
}
