//! What a server holds and how it fares, as clients list it: keys, statistics, prefixes.

mod common;

use common::ours;
use std::collections::HashSet;

#[test]
fn keys_can_be_dumped() {
    let server = ours(&[]);
    let mut client = server.connect();
    for number in 0..5000 {
        client.send(format!(
            "set key%{number} 3 {} 4 noreply\r\nabcd\r\n",
            1000 * (number % 2)
        ));
    }
    client.send("lru_crawler metadump all\r\n");
    assert_eq!(client.text(), "OK");
    let mut keys = HashSet::new();
    loop {
        let line = client.text();
        if line == "END" {
            break;
        }
        let key = line
            .strip_prefix("key=key%25")
            .expect(&line)
            .split(' ')
            .next()
            .expect("a key")
            .to_string();
        assert!(
            line.contains(" exp=") && line.contains(" cas=") && line.contains(" size="),
            "{line}"
        );
        assert!(keys.insert(key), "{line} came twice");
    }
    assert_eq!(keys.len(), 5000);
    client.send("lru_crawler mgdump all\r\n");
    assert_eq!(client.text(), "OK");
    let mut count = 0;
    while let Some(line) = client.line() {
        if line == b"EN" {
            break;
        }
        assert!(line.starts_with(b"mg key%"));
        count += 1;
    }
    assert_eq!(count, 5000);
    client.send("stats cachedump 1 10\r\n");
    for _ in 0..10 {
        assert!(client.text().starts_with("ITEM key%"));
    }
    assert_eq!(client.text(), "END");
    let server = ours(&["-X"]);
    assert_eq!(
        server.connect().ask("lru_crawler metadump all"),
        "ERROR metadump not allowed"
    );
}

#[test]
fn a_dump_nobody_reads_stops_nobody() {
    let server = ours(&["-t", "1"]);
    let mut client = server.connect();
    for number in 0..100_000 {
        client.send(format!(
            "set a_rather_long_key_name_{number} 0 0 1 noreply\r\na\r\n"
        ));
    }
    assert_eq!(client.ask("mn"), "MN");
    let mut sleepy = server.connect();
    sleepy.send("lru_crawler metadump all\r\n");
    for _ in 0..100 {
        assert_eq!(client.ask("mn"), "MN");
    }
    let mut lines = 0;
    while sleepy.text() != "END" {
        lines += 1;
    }
    assert_eq!(lines, 100_001, "OK and every key");
}

#[test]
fn the_names_exporters_read_are_there() {
    let server = ours(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
    let mut given = HashSet::new();
    for of in ["", "settings", "items", "slabs"] {
        for (name, _) in client.stats(of) {
            let name = format!("{of} {name}").trim_start().to_string();
            assert!(given.insert(name.clone()), "{name} comes twice");
        }
    }
    for name in include_str!("stats_names.txt").lines() {
        assert!(given.contains(name), "stats lacks {name}");
    }
    let items = client.stats("items");
    assert!(items.contains(&("items:1:number".into(), "1".into())));
    let connections = client.stats("conns");
    let listener = format!("tcp:127.0.0.1:{}", server.port);
    assert_eq!(connections[0], ("l0:addr".into(), listener));
    assert!(connections.iter().any(|(_, value)| value == "conn_read"));
    assert!(connections
        .iter()
        .any(|(name, _)| name.ends_with(":listen_addr")));
}

#[test]
fn counts_are_right_and_can_be_reset() {
    let server = ours(&[]);
    let mut client = server.connect();
    client.ask("set k 0 0 1\r\n1");
    client.ask("incr k 1");
    client.ask("get miss");
    client.send("get k k k\r\n");
    (0..7).for_each(|_| drop(client.text()));
    client.ask("delete k");
    client.ask("delete k");
    client.ask("touch k 1");
    for (name, value) in [
        ("cmd_set", 1),
        ("cmd_get", 4),
        ("get_hits", 3),
        ("get_misses", 1),
        ("incr_hits", 1),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("touch_misses", 1),
        ("curr_connections", 1),
    ] {
        assert_eq!(client.stat(name), value, "{name}");
    }
    // So long that it is streamed in.
    let value = "x".repeat(100_000);
    assert_eq!(client.ask(format!("ms long 100000\r\n{value}")), "HD");
    assert_eq!(client.stat("cmd_meta"), 1);
    assert_eq!(client.ask("stats reset"), "RESET");
    assert_eq!(client.stat("cmd_get"), 0);
    assert_eq!(client.stat("get_hits"), 0);
}

#[test]
fn prefixes_are_counted_when_asked() {
    let server = ours(&["-D", "/"]);
    let mut client = server.connect();
    client.ask("set a/1 0 0 1\r\nx");
    client.ask("get a/2");
    client.ask("delete a/1");
    assert_eq!(
        client.ask("stats detail dump"),
        "PREFIX a get 1 hit 0 set 1 del 1"
    );
    assert_eq!(client.text(), "END");
}
