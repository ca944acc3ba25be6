//! Many large values asked for at once: nobody who reads is cut off, and who does not read takes no memory.

mod common;

use common::{ours, Client, Running, PATIENCE};
use std::io::Write;
use std::time::{Duration, Instant};

const VALUE_BYTES: usize = 1_000_000;
const KEYS: usize = 60;

fn server_with_a_large_value() -> Running {
    let server = ours(&["-m", "64"]);
    let mut client = server.connect();
    let value = "v".repeat(VALUE_BYTES);
    let line = format!("set v 0 0 {VALUE_BYTES}\r\n{value}");
    assert_eq!(client.ask(line), "STORED");
    server
}

fn many_keys() -> String {
    format!("get{}\r\n", " v".repeat(KEYS))
}

/// Reads the answer to `many_keys`.
fn read_all(client: &mut Client) {
    for number in 0..KEYS {
        let line = client.text();
        assert_eq!(line, format!("VALUE v 0 {VALUE_BYTES}"), "value {number}");
        let value = client.exact(VALUE_BYTES + 2);
        assert!(value[..VALUE_BYTES].iter().all(|&byte| byte == b'v'));
    }
    assert_eq!(client.text(), "END");
}

#[test]
fn readers_of_many_large_values_get_them_whole() {
    let server = server_with_a_large_value();
    let readers: Vec<_> = (0..8)
        .map(|_| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                client.send(many_keys());
                read_all(&mut client);
                assert_eq!(client.ask("mn"), "MN", "nothing is left over");
            })
        })
        .collect();
    for reader in readers {
        reader.join().expect("read all");
    }
}

#[test]
fn who_does_not_read_many_large_values_takes_no_memory_and_may_read_later() {
    let server = server_with_a_large_value();
    let mut lazy: Vec<Client> = (0..20).map(|_| server.connect()).collect();
    let resident_before = server.resident_bytes();
    for client in &mut lazy {
        client.send(many_keys());
    }
    let mut other = server.connect();
    assert_eq!(other.ask("set k 0 0 1\r\na"), "STORED");
    let until = Instant::now() + PATIENCE;
    while other.connections("conn_mwrite") < lazy.len() {
        assert!(Instant::now() < until, "not all replies are under way");
        std::thread::sleep(Duration::from_millis(10));
    }
    let grown = server.resident_bytes().saturating_sub(resident_before);
    assert!(grown < 8 << 20, "{grown} bytes for replies nobody reads");
    for client in &mut lazy[..3] {
        read_all(client);
    }
}

/// Lines of all kinds between large values: each is answered once, in order, however often output piles up.
#[test]
fn a_pipeline_is_taken_up_where_it_was_left() {
    let server = server_with_a_large_value();
    let mut client = server.connect();
    assert_eq!(client.ask("set s 0 0 1\r\ns"), "STORED");
    let before = [client.stat("cmd_get"), client.stat("cmd_meta")];
    let mut writer = client.stream.try_clone().expect("cloned");
    const ROUNDS: usize = 10;
    let requests =
        "get v none v s\r\nmg v v\r\nmg s v\r\ngets s\r\nget v\r\nbad\r\nmg none\r\nget s v";
    let send = std::thread::spawn(move || {
        for _ in 0..ROUNDS {
            let text = format!("{requests}\r\n");
            writer.write_all(text.as_bytes()).expect("taken");
        }
    });
    let large = |client: &mut Client, head: &str| {
        assert_eq!(client.text(), head);
        client.exact(VALUE_BYTES + 2);
    };
    let head = format!("VALUE v 0 {VALUE_BYTES}");
    for _ in 0..ROUNDS {
        large(&mut client, &head);
        large(&mut client, &head);
        let small = ["VALUE s 0 1", "s", "END"];
        assert_eq!([client.text(), client.text(), client.text()], small);
        large(&mut client, &format!("VA {VALUE_BYTES}"));
        assert_eq!([client.text(), client.text()], ["VA 1", "s"]);
        assert!(client.text().starts_with("VALUE s 0 1 "));
        assert_eq!([client.text(), client.text()], ["s", "END"]);
        large(&mut client, &head);
        assert_eq!([client.text(), client.text()], ["END", "ERROR"]);
        assert_eq!(client.text(), "EN");
        assert_eq!([client.text(), client.text()], ["VALUE s 0 1", "s"]);
        large(&mut client, &head);
        assert_eq!(client.text(), "END");
    }
    send.join().expect("sent");
    let after = [client.stat("cmd_get"), client.stat("cmd_meta")];
    let rounds = ROUNDS as u64;
    assert_eq!(after, [before[0] + 11 * rounds, before[1] + 3 * rounds]);
}
