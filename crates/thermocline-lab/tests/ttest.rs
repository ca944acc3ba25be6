//! `thermolab ttest` on the document of seed 000: R's own output and both tables come out of its figures, to the
//! last printed digit.

use std::process::{Command, Output};

fn ttest(file: &str, more: &[&str]) -> Output {
    let path = format!("{}/testdata/{file}", env!("CARGO_MANIFEST_DIR"));
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(["ttest", &path])
        .args(more)
        .output()
        .expect("thermolab starts")
}

fn printed(file: &str, more: &[&str]) -> String {
    let output = ttest(file, more);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

/// The document came with its line breaks and runs of blanks lost: compare words.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn document() -> String {
    let path = format!("{}/testdata/seed-000.txt", env!("CARGO_MANIFEST_DIR"));
    words(&std::fs::read_to_string(path).expect("seed-000.txt"))
}

fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let start = text.find(from).expect(from);
    let end = text[start..].find(to).expect(to) + start + to.len();
    &text[start..end]
}

#[test]
fn every_digit_r_printed() {
    let document = document();
    let call = "$ R -q -s -f raw_data_cassandra.r ";
    let wanted = &document[document.find(call).unwrap() + call.len()..];
    assert_eq!(wanted.matches("Welch Two Sample t-test").count(), 12);
    for file in ["seed-000.txt", "raw_data_cassandra.r"] {
        let printed = words(&printed(file, &[]));
        assert!(
            printed.starts_with(wanted),
            "{file}:\n{printed}\n\nwanted:\n{wanted}"
        );
    }
}

#[test]
fn both_tables() {
    let document = document();
    let printed = words(&printed("seed-000.txt", &["--tables-only"]));
    for (first, last) in [
        (
            "| Mean OPS [95% CI] | No swap | Minimum swap |",
            "Table 1. Comparison between the baseline and the patched kernels",
        ),
        (
            "| Mean OPS [95% CI] | Baseline kernel | Patched kernel |",
            "Table 2. Comparison between no swap and minimum swap",
        ),
    ] {
        let wanted = between(&document, first, last);
        assert!(printed.contains(wanted), "{printed}\n\nwanted:\n{wanted}");
    }
    let rule = "+--------------------+--------------------+---------------------+";
    assert_eq!(
        printed.matches(rule).count(),
        document.matches(rule).count()
    );
}

#[test]
fn what_the_document_leaves_out() {
    let printed = printed(
        "raw_data_cassandra.r",
        &["--tables-only", "--smallest-effect", "3"],
    );
    let row = |name: &str| {
        let line = printed
            .lines()
            .find(|line| line.starts_with(&format!("| {name} ")));
        line.unwrap_or_else(|| panic!("no row {name} in\n{printed}"))
            .to_string()
    };
    let uniform = row("swap1 dist2");
    for part in [
        "+3.68",
        "[1.94, 5.43]",
        "[1.91, 5.52]",
        "0.0007961",
        "| 2.00 |",
        "7.578e-05",
        "better",
    ] {
        assert!(uniform.contains(part), "{part} is not in {uniform}");
    }
    // Of the seven that survive Holm, one is shown to be smaller than 3 %: real, and equivalent.
    assert_eq!(printed.matches(" better |").count(), 6, "{printed}");
    assert!(row("swap2 dist1").contains("equivalent"), "{printed}");
    assert!(row("kern1 dist1").contains("equivalent"), "{printed}");
    assert!(row("kern2 dist3").contains("equivalent"), "{printed}");
}

#[test]
fn all_seven_claims_survive_holm() {
    let printed = printed("raw_data_cassandra.r", &["--tables-only"]);
    assert_eq!(printed.matches(" better |").count(), 7, "{printed}");
    assert_eq!(
        printed.matches(" no difference shown |").count(),
        5,
        "{printed}"
    );
}

#[test]
fn what_is_no_script_is_refused_with_the_place() {
    let output = ttest("seed-004.txt", &[]);
    assert!(!output.status.success());
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        error.contains("seed-004.txt") && error.contains("<- c("),
        "{error}"
    );
    let output = ttest("seed-000.txt", &["--smallest-effect=0"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("--smallest-effect"));
}
