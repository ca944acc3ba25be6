//! `thermolab ... | head`: the end of the reader is the quiet end of the program, whatever the verb.

use std::process::{Command, Stdio};

fn with_closed_output(args: &[&str]) -> (Option<i32>, String) {
    // Closed before the program starts: one that is quick has nobody to write to, either.
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(args)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .stdout(writer)
        .stderr(Stdio::piped())
        .output()
        .expect("thermolab runs");
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
