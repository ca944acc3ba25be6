//! `thermocline wss` and `/mrc`: a running server says how much memory is enough.

mod common;

use common::our_binary;
use common::served::Served;
use std::process::{Command, Output};

fn wss(args: &[&str]) -> Output {
    Command::new(our_binary())
        .arg("wss")
        .args(args)
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_server_tells_its_curve_as_table_plot_and_json() {
    let server = Served::new(&[]);
    let mut client = server.running.connect();
    let admin = server.admin.as_str();
    let empty = wss(&["--http", admin]);
    assert!(
        text(&empty.stdout).contains("no requests yet"),
        "{}",
        text(&empty.stderr)
    );
    let json = wss(&["--http", admin, "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert!(page["points"][4]["hit_ratio"].is_null(), "{page}");
    for key in 0..200 {
        assert_eq!(client.ask(format!("set k{key} 0 0 3\r\nabc")), "STORED");
    }
    for round in 0..3 {
        for key in 0..200 {
            let answer = client.ask(format!("mg k{key} s"));
            assert_eq!(answer, "HD s3", "round {round}");
        }
    }
    let table = text(&wss(&["--http", admin]).stdout);
    for wanted in [
        "hit ratio 75.00 %",
        "Of all reads 100.00 % have hit.",
        "64.0 MiB",
        "256.0 MiB",
        "could be given back for one point",
        "80 % ",
    ] {
        assert!(table.contains(wanted), "`{wanted}` is not in\n{table}");
    }
    let json = wss(&["--http", admin, "--json"]);
    let page: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    assert_eq!(page["requests"], 800);
    assert_eq!(page["points"].as_array().map(Vec::len), Some(9));
    for point in page["points"].as_array().expect("points") {
        let ratio = point["hit_ratio"].as_f64().expect("a ratio");
        assert!(
            (ratio - 0.75).abs() < 0.01,
            "everything fits at any of these sizes: {point}"
        );
    }
}

#[test]
fn without_a_server_the_address_is_named() {
    let address = "unix:/nonexistent/nobody".to_string();
    let output = wss(&["--http", &address]);
    assert!(!output.status.success());
    let message = text(&output.stderr);
    assert!(
        message.contains("nobody") && message.contains("is a server running"),
        "{message}"
    );
    // Nor does it wait for a memcached port to close, which never does.
    let server = common::ours(&[]);
    let output = wss(&["--http", &format!("127.0.0.1:{}", server.port)]);
    let message = text(&output.stderr);
    assert!(message.contains("does not speak HTTP"), "{message}");
    let output = wss(&["--http", "here"]);
    assert_eq!(output.status.code(), Some(64), "{}", text(&output.stderr));
}
