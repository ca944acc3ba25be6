//! `/lru_gen` and `thermocline lru-gen`: a running server's generations, aged and evicted on command; groups and
//! `min_ttl`.

mod common;

use common::served::Served;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Generation and items of each line.
fn rows(text: &str) -> Vec<(u64, u64)> {
    text.lines()
        .filter_map(|line| {
            let words: Vec<u64> = line.split_whitespace().flat_map(str::parse).collect();
            (words.len() == 4).then(|| (words[0], words[3]))
        })
        .collect()
}

#[test]
fn generations_are_shown_aged_and_evicted() {
    let server = Served::new(&[]);
    let mut client = server.running.connect();
    for key in 0..100 {
        assert_eq!(client.ask(format!("set k{key} 0 0 3\r\nabc")), "STORED");
    }
    let shown = text(&server.ask("lru-gen", &[]).stdout);
    assert!(shown.starts_with("memcg     0 /\n node     0\n"), "{shown}");
    assert_eq!(rows(&shown), [(0, 100)], "{shown}");
    let shown = text(&server.ask("lru-gen", &["+"]).stdout);
    assert_eq!(rows(&shown), [(0, 100), (1, 0)], "{shown}");
    // The two youngest are never evicted.
    let refused = server.ask("lru-gen", &["-", "0"]);
    assert_eq!(refused.status.code(), Some(1));
    assert!(
        text(&refused.stderr).contains("`- 0`: the youngest generation is 1"),
        "{}",
        text(&refused.stderr)
    );
    let shown = text(&server.ask("lru-gen", &["+ 0 0 1, - 0 0 0"]).stdout);
    assert!(
        !shown.is_empty() && rows(&shown).iter().all(|&(_, items)| items == 0),
        "{shown}"
    );
    assert_eq!(client.ask("mg k7 v"), "EN");
    assert_eq!(client.ask("set k7 0 0 3\r\nabc"), "STORED");
}

#[test]
fn a_flag_behind_the_command_is_refused_and_no_other_server_is_asked() {
    let server = Served::new(&[]);
    let refused = server.ask("lru-gen", &["+", "--http", "127.0.0.1:1"]);
    assert_eq!(refused.status.code(), Some(64));
    assert!(text(&refused.stderr).contains("--http stands before the command"));
}

#[test]
fn orders_can_be_forbidden() {
    let server = Served::new(&["--allow-flush", "false"]);
    let refused = server.ask("lru-gen", &["+"]);
    assert!(text(&refused.stderr).contains("allow_flush is off"));
    assert!(
        server.ask("lru-gen", &[]).status.success(),
        "to look is allowed"
    );
}

#[test]
fn a_full_server_refuses_rather_than_evict_the_young() {
    let server = Served::new(&["--min-ttl", "1h"]);
    let mut client = server.running.connect();
    let value = "v".repeat(100_000);
    let mut answers = (0..2000).map(|key| client.ask(format!("set k{key} 0 0 100000\r\n{value}")));
    let refused = answers.position(|answer| answer != "STORED");
    let refused = refused.expect("64 MiB do not hold 200 MB");
    assert!(refused > 200, "{refused} values of 100 kB were taken");
    drop(answers);
    let answer = client.ask(format!("set k0 0 0 100000\r\n{value}"));
    assert!(
        answer == "STORED" || answer == "SERVER_ERROR out of memory storing object",
        "{answer}"
    );
    let answer = client.ask(format!("set new 0 0 100000\r\n{value}"));
    assert_eq!(answer, "SERVER_ERROR out of memory storing object");
    assert_eq!(
        client.ask("mg k1 s"),
        "HD s100000",
        "the first are still there"
    );
}

#[test]
fn groups_are_counted_and_dropped() {
    let server = Served::new(&["--groups", "user:=10%,page:"]);
    let mut client = server.running.connect();
    for key in 0..50 {
        for group in ["user", "page", "else"] {
            let set = format!("set {group}:{key} 0 0 3\r\nabc");
            assert_eq!(client.ask(set), "STORED");
        }
    }
    assert_eq!(client.ask("mg user:7 s"), "HD s3");
    assert_eq!(client.ask("mg user:none s"), "EN");
    let table = text(&server.ask("groups", &[]).stdout);
    assert!(table.contains("user: (10 % promised)"), "{table}");
    let dropped = server.ask("drop", &["user:"]);
    assert_eq!(text(&dropped.stdout), "dropped user:\n");
    assert_eq!(client.ask("mg user:7 s"), "EN");
    assert_eq!(client.ask("mg page:7 s"), "HD s3");
    assert_eq!(client.ask("mg else:7 s"), "HD s3");
    assert_eq!(client.ask("set user:7 0 0 2\r\nxy"), "STORED");
    assert_eq!(client.ask("mg user:7 s"), "HD s2");
    let json = server.ask("groups", &["--json"]);
    let page: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON");
    let user = &page[0];
    assert_eq!(
        (&user["hits"], &user["misses"], &user["drops"]),
        (&2.into(), &2.into(), &1.into())
    );
    let unknown = server.ask("drop", &["use"]);
    assert_eq!(unknown.status.code(), Some(1));
    assert!(text(&unknown.stderr).contains("no group is configured with the prefix \"use\""));
}
