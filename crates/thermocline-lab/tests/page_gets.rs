//! `thermolab page-gets` through its front door, small: three figures, and the pages they stood on.

use std::process::{Command, Output};

fn page_gets(words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .arg("page-gets")
        .args(words)
        .output()
        .unwrap()
}

fn figure(said: &str, name: &str) -> f64 {
    let line = said
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("no {name} in {said}"));
    line.split(' ').next().unwrap().parse().unwrap()
}

#[test]
fn every_kind_of_get_has_a_figure_and_small_pages_are_small() {
    let output = page_gets(&["--memory", "64MiB", "--page-mode", "base", "--gets", "5k"]);
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    for name in ["ns_dependent", "ns_independent", "ns_batched", "items"] {
        assert!(figure(&said, name) > 0.0, "{said}");
    }
    assert_eq!(figure(&said, "AnonHugePages_bytes"), 0.0, "{said}");
    let values = figure(&said, "items") * 1024.0;
    assert!(figure(&said, "resident_bytes") > values, "{said}");
}

#[test]
fn a_file_keeps_its_values_and_goes_by_the_mode_it_got() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let place = directory.path().to_str().unwrap();
    let words = ["--memory", "64MiB", "--page-mode", "shmem", "--gets", "5k"];
    let output = page_gets(&[&words[..], &["--memory-dir", place]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert_eq!(figure(&said, "AnonHugePages_bytes"), 0.0, "{said}");
    figure(&said, "ShmemPmdMapped_bytes");
}

#[test]
fn what_cannot_be_had_is_named() {
    for (words, wanted) in [
        (["--page-mode", "huge", "--memory", "64MiB"], "hugetlb-2m"),
        (["--page-mode", "base", "--value", "4"], "--value"),
        (["--page-mode", "hugetlb-1g", "--memory", "4GiB"], "hugetlb"),
    ] {
        let output = page_gets(&words);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{words:?}");
        assert!(error.contains(wanted), "{error} lacks {wanted}");
    }
}
