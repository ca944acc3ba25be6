//! `thermolab memory-read` through its front door.

use std::process::{Command, Output};

fn memory_read(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .arg("memory-read")
        .args(words)
        .output()
        .unwrap()
}

#[test]
fn every_size_gets_two_figures_and_says_what_backed_the_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let file = file.to_str().unwrap();
    let output = memory_read(&[
        "--file", file, "--bytes", "4MiB", "--volume", "1MiB", "--access", "64,4k",
    ]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    for name in [
        "ns_64_dependent",
        "ns_64_independent",
        "ns_4096_dependent",
        "ns_4096_independent",
    ] {
        let line = said
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap();
        let ns: f64 = line.split(' ').nth(1).unwrap().parse().unwrap();
        assert!(ns > 0.0, "{line}");
    }
    assert!(
        said.contains("Rss_kib 4096\n") && said.contains("ShmemPmdMapped_kib "),
        "{said}"
    );
    assert!(!directory.path().join("file").exists());
}

#[test]
fn what_cannot_be_read_is_named_with_its_flag() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    let file = file.to_str().unwrap();
    for (words, said) in [
        (
            ["--file", file, "--bytes", "4MiB", "--access", "65"],
            "--access 65",
        ),
        (
            ["--file", file, "--bytes", "1EiB", "--access", "64"],
            "1EiB",
        ),
        (
            ["--file", file, "--bytes", "900000TiB", "--access", "64"],
            "do not fit",
        ),
        (
            [
                "--file",
                "/no/such/place",
                "--bytes",
                "4MiB",
                "--access",
                "64",
            ],
            "/no/such/place",
        ),
    ] {
        let output = memory_read(&words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(
            !output.status.success() && error.contains(said),
            "{error} lacks {said}"
        );
    }
    std::fs::write(file, "mine").unwrap();
    let output = memory_read(&["--file", file, "--bytes", "4MiB"]);
    assert!(!output.status.success());
    assert_eq!(std::fs::read_to_string(file).unwrap(), "mine");
}
