//! Long values made of others: joined, marked, claimed, a piece a turn, with the same answers as short ones.

mod common;

use common::{ours, Client, Running};
use std::io::ErrorKind;

const MIB: usize = 1 << 20;
const OLD: usize = 20 * MIB;

/// One event loop: what one connection does, the others wait for.
fn server() -> Running {
    ours(&["-m", "512", "-I", "32m", "-t", "1"])
}

fn store(client: &mut Client, key: &str, byte: &str, bytes: usize) {
    let line = format!("set {key} 7 0 {bytes}\r\n{}", byte.repeat(bytes));
    assert_eq!(client.ask(line), "STORED");
}

/// The value of `get`, its flags and length checked.
fn value(client: &mut Client, key: &str, bytes: usize) -> Vec<u8> {
    assert_eq!(
        client.ask(format!("get {key}")),
        format!("VALUE {key} 7 {bytes}")
    );
    let mut value = client.exact(bytes + 2);
    value.truncate(bytes);
    assert_eq!(client.text(), "END");
    value
}

#[test]
fn long_values_are_joined_at_both_ends() {
    let server = server();
    let mut client = server.connect();
    store(&mut client, "v", "o", OLD);
    // A pipeline sees its own writes, also those that take many turns.
    client.send("append v 0 0 3\r\nend\r\nprepend v 0 0 5\r\nbegin\r\nappend v 0 0 1 noreply\r\n!\r\nmn\r\n");
    assert_eq!(
        [client.text(), client.text(), client.text()],
        ["STORED", "STORED", "MN"]
    );
    let joined = value(&mut client, "v", OLD + 9);
    assert_eq!(&joined[..6], b"begino");
    assert!(joined[5..OLD + 5].iter().all(|&byte| byte == b'o'));
    assert_eq!(&joined[OLD + 5..], b"end!");
    // A long end to a short value, and none to nothing.
    store(&mut client, "s", "o", 1);
    let long = "l".repeat(MIB);
    assert_eq!(
        client.ask(format!("append s 0 0 {MIB}\r\n{long}")),
        "STORED"
    );
    assert_eq!(&value(&mut client, "s", MIB + 1)[..2], b"ol");
    assert_eq!(
        client.ask(format!("append none 0 0 {MIB}\r\n{long}")),
        "NOT_STORED"
    );
}

#[test]
fn a_join_beyond_the_limit_leaves_the_value() {
    let server = server();
    let mut client = server.connect();
    store(&mut client, "v", "o", 31 * MIB);
    let long = "l".repeat(2 * MIB);
    assert_eq!(
        client.ask(format!("append v 0 0 {}\r\n{long}", 2 * MIB)),
        "NOT_STORED"
    );
    assert_eq!(client.ask(format!("ms v {} MA\r\n{long}", 2 * MIB)), "NS");
    assert_eq!(value(&mut client, "v", 31 * MIB).len(), 31 * MIB);
}

#[test]
fn meta_commands_on_long_values_answer_as_on_short_ones() {
    let server = ours(&["-m", "512", "-I", "32m", "-t", "1", "-o", "test_clock"]);
    let mut client = server.connect();
    // A time to live is told in whole seconds, and copies of 20 MiB may take one.
    assert_eq!(client.ask("debugtime p"), "OK");
    store(&mut client, "v", "o", OLD);
    let answer = client.ask("ms v 2 MA c s Oq\r\nab");
    let token = answer
        .strip_prefix("HD c")
        .and_then(|rest| rest.split(' ').next());
    let token = token.expect("a token").to_string();
    assert_eq!(answer, format!("HD c{token} s{} Oq", OLD + 2));
    assert_eq!(client.ask("ms v 2 MP C1 k\r\nab"), "EX kv");
    assert_eq!(client.ask("md v I C1 k"), "EX kv");
    assert_eq!(client.ask(format!("md v I C{token} T300 k")), "HD kv");
    assert_eq!(
        client.ask("mg v s t f"),
        format!("HD s{} t300 f7 X W", OLD + 2)
    );
    assert_eq!(client.ask("mg v s"), format!("HD s{} Z X", OLD + 2));
    assert_eq!(client.ask(format!("cas v 0 0 1 {token}\r\nx")), "EXISTS");
    client.send("md v I q\r\n");
    assert_eq!(client.ask("mg v s"), format!("HD s{} X W", OLD + 2));
    assert_eq!(
        client.ask("incr v 1"),
        "CLIENT_ERROR cannot increment or decrement non-numeric value"
    );
    assert_eq!(client.ask("md v x"), "HD");
    assert_eq!(client.ask("mg v s f"), "HD s0 f0 Z X");
}

/// While one client's long value is copied another's requests are answered: not a matter of milliseconds, but of turns.
#[test]
fn others_have_their_turns_between_the_pieces() {
    let server = server();
    let (mut busy, mut other) = (server.connect(), server.connect());
    store(&mut busy, "v", "o", OLD);
    let mut most = 0;
    for _ in 0..100 {
        busy.send("append v 0 0 1\r\n!\r\n");
        busy.stream.set_nonblocking(true).expect("set");
        let mut answered = 0;
        let mut byte = [0];
        while matches!(busy.stream.peek(&mut byte), Err(error) if error.kind() == ErrorKind::WouldBlock)
        {
            assert_eq!(other.ask("mn"), "MN");
            answered += 1;
        }
        busy.stream.set_nonblocking(false).expect("set");
        assert_eq!(busy.text(), "STORED");
        most = answered.max(most);
        if most >= 4 {
            return;
        }
    }
    panic!("at most {most} requests of another client were answered during one append");
}

/// Two who join and one who overwrites: nothing is lost that was answered STORED, and no value is a mixture.
#[test]
fn a_rewrite_that_lost_the_race_begins_again() {
    let server = server();
    let mut client = server.connect();
    store(&mut client, "v", "o", MIB);
    let joiners: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|end| {
            let mut client = server.connect();
            std::thread::spawn(move || {
                for _ in 0..20 {
                    assert_eq!(client.ask(format!("append v 0 0 1\r\n{end}")), "STORED");
                }
            })
        })
        .collect();
    for joiner in joiners {
        joiner.join().expect("all were stored");
    }
    let joined = value(&mut client, "v", MIB + 40);
    let count = |byte: u8| joined[MIB..].iter().filter(|&&other| other == byte).count();
    assert_eq!((count(b'a'), count(b'b')), (20, 20));
    client.send("append v 0 0 1\r\nc\r\n");
    assert_eq!(server.connect().ask("delete v"), "DELETED");
    assert!(["STORED", "NOT_STORED"].contains(&client.text().as_str()));
}

#[test]
fn a_client_that_dies_meanwhile_changes_nothing() {
    let server = server();
    let mut client = server.connect();
    store(&mut client, "v", "o", OLD);
    for _ in 0..10 {
        let mut dying = server.connect();
        dying.send("append v 0 0 1\r\n!\r\n");
        drop(dying);
    }
    let length = client.ask("mg v s");
    let grown: usize = length.trim_start_matches("HD s").parse().expect("a length");
    assert!((OLD..=OLD + 10).contains(&grown), "{length}");
    client.send("shutdown\r\n");
    assert!(client.text().contains("not enabled"));
}
