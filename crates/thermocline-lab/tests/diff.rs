//! The two sides of seed 004, entered from the document as data: what `diff` says differs, and that no conclusion is
//! drawn from one run an arm. Then an experiment's way to another machine.

use std::path::Path;
use std::process::{Command, Output};

fn thermolab(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(args)
        .output()
        .expect("thermolab starts")
}

fn printed(args: &[&str]) -> String {
    let output = thermolab(args);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn site(name: &str) -> String {
    format!(
        "{}/testdata/seed-004/site-{name}.jsonl",
        env!("CARGO_MANIFEST_DIR")
    )
}

#[test]
fn the_first_difference_is_what_nobody_looked_at() {
    for arm in ["hugh", "kirill"] {
        let out = printed(&["diff", &site("a"), &site("b"), "--arm", arm]);
        let place = |field: &str| {
            out.find(field)
                .unwrap_or_else(|| panic!("{field} is not in\n{out}"))
        };
        assert!(out.contains("  1  3 memory/ShmemPmdMapped"), "{out}");
        assert!(out.contains("not read: nobody looked"), "{out}");
        let order = [
            "ShmemPmdMapped",
            "max_ptes_none",
            "1 kernel/release",
            "governor",
            "2 cpu/cores",
            "server.cpus",
            "MemTotal",
            "9 protocol/load",
        ];
        let places = order.map(place);
        assert!(places.is_sorted(), "{order:?} at {places:?} in\n{out}");
    }
}

#[test]
fn the_arms_of_one_site_were_not_set_alike() {
    let json = printed(&["diff", &site("a"), &site("a"), "--json"]);
    assert_eq!(json.trim(), "[]", "a result does not differ from itself");
    let report = printed(&["report", &site("a"), "--print"]);
    assert!(report.contains("2 environments"), "{report}");
}

#[test]
fn one_run_an_arm_leads_to_no_conclusion_whatever_the_ratio() {
    for (name, change) in [("a", "+35.69 %"), ("b", "-1.24 %")] {
        let out = printed(&["report", &site(name), "--print"]);
        assert!(out.contains(change), "{out}");
        assert!(out.contains("no conclusion: one run an arm"), "{out}");
        for verdict in ["  better", "  worse", "  equivalent"] {
            assert!(!out.contains(verdict), "{verdict} in\n{out}");
        }
    }
    let out = printed(&["compare", &site("a"), &site("b")]);
    assert!(out.contains("no conclusion: one run an arm"), "{out}");
    assert!(out.contains("ShmemPmdMapped"), "{out}");
    assert!(out.contains("not interleaved"), "{out}");
}

#[test]
fn an_experiment_travels_and_what_does_not_match_is_loud() {
    let here = tempfile::tempdir().unwrap();
    let bundle = here.path().join("seed-004.json");
    let bundle = bundle.to_str().unwrap();
    let out = printed(&[
        "export",
        &site("b"),
        "--out",
        bundle,
        "--must-match",
        "MemTotal",
        "--must-match",
        "1 kernel/release",
    ]);
    assert!(out.contains("2 fields must match"), "{out}");
    let there = tempfile::tempdir().unwrap();
    let into = there.path().to_str().unwrap();
    let out = printed(&["import", bundle, "--into", into]);
    assert!(
        out.contains("2 OF 2 FIELDS THAT MUST MATCH DO NOT"),
        "{out}"
    );
    assert!(out.contains("there  64 GB"), "{out}");
    let toml: Vec<_> = std::fs::read_dir(there.path()).unwrap().flatten().collect();
    let text = std::fs::read_to_string(toml[0].path()).unwrap();
    assert!(text.contains("[[compare]]"), "{text}");
    // A second time nothing is overwritten.
    let again = thermolab(&["import", bundle, "--into", into]);
    assert!(!again.status.success());
    assert!(String::from_utf8_lossy(&again.stderr).contains("already there"));
}

#[test]
fn unknown_fields_arms_and_files_are_named() {
    let error = |args: &[&str]| {
        let output = thermolab(args);
        assert!(!output.status.success(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let out = std::env::temp_dir().join("never-written.json");
    let out = out.to_str().unwrap();
    let text = error(&[
        "export",
        &site("b"),
        "--out",
        out,
        "--must-match",
        "MemTotl",
    ]);
    assert!(
        text.contains("MemTotl") && text.contains("MemTotal"),
        "{text}"
    );
    assert!(!Path::new(out).exists());
    let text = error(&["diff", &site("a"), &site("b"), "--arm", "lru"]);
    assert!(
        text.contains("`lru`") && text.contains("hugh, kirill"),
        "{text}"
    );
    assert!(error(&["import", "/no/such/file"]).contains("/no/such/file"));
    assert!(error(&["import", &site("a")]).contains("not an exported experiment"));
    assert!(error(&["report", "/no/such/run"]).contains("/no/such/run"));
}
