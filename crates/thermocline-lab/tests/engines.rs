//! `thermolab engines` from outside: exact counts, one stream for all arms, failures in the exit code.

use std::process::{Command, Output};

fn engines(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .arg("engines")
        .args(flags)
        .output()
        .expect("thermolab runs")
}

fn points(output: &Output) -> Vec<serde_json::Value> {
    let json: serde_json::Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|e| panic!("{e}: {}", String::from_utf8_lossy(&output.stderr)));
    json["points"].as_array().expect("points").clone()
}

const SMALL: [&str; 12] = [
    "--keys",
    "20000",
    "--value-size",
    "100..1000",
    "--memory",
    "4MiB",
    "--ops",
    "20011",
    "--warm-ops",
    "10007",
    "--rounds",
    "2",
];

#[test]
fn all_rivals_run_the_same_stream_and_count_exactly() {
    let mut flags = vec![
        "--arms",
        "quick-cache,segcache,foyer,moka",
        "--threads",
        "3",
        "--json",
    ];
    flags.extend(SMALL);
    let output = engines(&flags);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let points = points(&output);
    assert_eq!(points.len(), 8);
    for point in &points {
        let number = |field: &str| {
            point[field]
                .as_u64()
                .unwrap_or_else(|| panic!("{field} in {point}"))
        };
        assert_eq!(number("ops"), 20_011, "{point}");
        assert_eq!(number("reads") + number("writes"), 20_011);
        assert_eq!((number("wrong"), number("refused")), (0, 0));
        assert_eq!(number("fills"), number("reads") - number("hits"));
        assert!(
            number("hits") > 1000 && number("live_items") > 100,
            "{point}"
        );
        assert!(number("live_payload_bytes") <= 5 << 20, "{point}");
        assert!(point["cpu_ns_per_op"].as_f64().unwrap() > 10.0);
        let [p50, p99, p999] =
            ["p50_ns", "p99_ns", "p999_ns"].map(|name| point[name].as_f64().unwrap());
        assert!(10.0 < p50 && p50 <= p99 && p99 <= p999, "{point}");
        assert!(number("resident_peak_bytes") >= number("live_payload_bytes"));
    }
    for round in 0..2 {
        let reads: Vec<_> = points
            .iter()
            .filter(|p| p["round"] == round)
            .map(|p| &p["reads"])
            .collect();
        assert!(
            reads.windows(2).all(|pair| pair[0] == pair[1]),
            "streams differ: {reads:?}"
        );
    }
    assert_ne!(
        points[0]["reads"], points[7]["reads"],
        "rounds repeat one stream"
    );
}

#[test]
fn our_engine_runs_at_equal_payload_and_in_copy_mode() {
    let output = engines(&[
        "--arms",
        "thermocline,quick-cache",
        "--keys",
        "60k",
        "--value-size",
        "1KiB",
        "--memory",
        "20MiB",
        "--ops",
        "30001",
        "--warm-ops",
        "200k",
        "--rounds",
        "1",
        "--read-ratio",
        "0.5",
        "--reading",
        "copy",
        "--json",
    ]);
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let points = points(&output);
    let (ours, theirs) = (&points[0], &points[1]);
    assert_eq!(ours["arm"], "thermocline");
    let payload = |point: &serde_json::Value| point["live_payload_bytes"].as_f64().unwrap();
    let ratio = payload(ours) / payload(theirs);
    assert!((0.9..1.1).contains(&ratio), "payloads differ by {ratio}");
    assert!(ours["own"]["metadata_bytes_per_item"].as_f64().unwrap() > 0.0);
    assert!(ours["own"]["overwrites_in_place"].as_u64().unwrap() > 1000);
}

#[test]
fn the_harness_itself_is_cheap_and_shown() {
    let mut flags = vec!["--arms", "null"];
    flags.extend(SMALL);
    let output = engines(&flags);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && text.contains("| null |"),
        "{text}"
    );
}

#[test]
fn refused_writes_fail_the_run_unless_allowed() {
    // A value over the engine's limit (an eighth of its memory) is refused each time.
    let refusing = [
        "--arms",
        "thermocline",
        "--equal",
        "memory",
        "--memory",
        "16MiB",
        "--keys",
        "3",
        "--value-size",
        "3MiB",
        "--ops",
        "30",
        "--warm-ops",
        "0",
        "--rounds",
        "1",
        "--read-ratio",
        "0",
    ];
    let strict = engines(&refusing);
    let text = String::from_utf8_lossy(&strict.stdout);
    assert!(
        !strict.status.success() && text.contains("30 operations failed"),
        "{text}"
    );
    let mut allowed = refusing.to_vec();
    allowed.push("--allow-refused");
    assert!(engines(&allowed).status.success());
}

#[test]
fn impossible_flags_name_what_to_change() {
    for (flags, name) in [
        (["--threads", "0"], "--threads"),
        (["--read-ratio", "2"], "--read-ratio"),
        (["--key-size", "4"], "--key-size"),
    ] {
        let output = engines(&flags);
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(name), "{text}");
    }
}
