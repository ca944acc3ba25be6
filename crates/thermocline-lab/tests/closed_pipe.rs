//! `thermolab ... | head`: the end of the reader is the quiet end of the program, whatever the verb.

use std::process::{Command, Stdio};

fn with_closed_output(args: &[&str]) -> (Option<i32>, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("thermolab starts");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("thermolab ends");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_closed_pipe_ends_each_kind_of_output_without_a_word() {
    let replay = [
        "replay",
        "--trace",
        "syn:loop",
        "--capacity-items",
        "100",
        "--simulate",
    ];
    let json = [&replay[..], &["--json"]].concat();
    for args in [
        &["list", "experiments"][..],
        &["check", "experiments/quick.toml"],
        &["report", "results/page-modes/20261201-2116"],
        &replay,
        &json,
    ] {
        let (code, words) = with_closed_output(args);
        assert_eq!((code, words.as_str()), (Some(141), ""), "{args:?}");
    }
}
