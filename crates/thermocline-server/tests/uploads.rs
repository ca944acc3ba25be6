//! Large values that are sent in part: whoever stops in the middle must not take the memory of those who go on.

mod common;

use common::{ours, wait_until, Client};

/// A payload over 64 KiB takes room in the cache with its first byte.
const VALUE_BYTES: usize = 100_000;

#[test]
fn stalled_uploads_leave_half_of_memory_to_the_others() {
    let server = ours(&["-m", "64"]);
    let mut stalled: Vec<_> = (0..400)
        .map(|number| {
            let mut client = server.connect();
            client.send(format!("set stalled{number} 0 0 {VALUE_BYTES}\r\nx"));
            client
        })
        .collect();
    let mut client = server.connect();
    let small = "s".repeat(1000);
    for number in 0..100_000 {
        let answer = client.ask(format!("set k{number} 0 0 1000\r\n{small}"));
        assert_eq!(answer, "STORED", "after {number} of 1000 bytes");
    }
    // Some were let in and some were not; each hears of it when its payload is complete.
    let rest = "x".repeat(VALUE_BYTES - 1);
    let answers: Vec<String> = stalled.iter_mut().map(|client| client.ask(&rest)).collect();
    let stored = answers.iter().filter(|answer| *answer == "STORED").count();
    let refused = answers
        .iter()
        .filter(|answer| *answer == "SERVER_ERROR out of memory storing object")
        .count();
    assert_eq!(stored + refused, answers.len(), "{answers:?}");
    assert!(
        stored > 10 && refused > 10,
        "{stored} stored, {refused} refused"
    );
    // With them gone there is room again.
    let value = "x".repeat(VALUE_BYTES);
    let mut late = server.connect();
    late.send(format!("set late 0 0 {VALUE_BYTES}\r\nx"));
    assert_eq!(late.ask(&value[1..]), "STORED");
}

#[test]
fn an_upload_that_is_refused_takes_the_old_value_with_it_once_it_is_complete() {
    let server = ours(&["-m", "64"]);
    let mut client = server.connect();
    for key in ["plain", "meta", "added", "left"] {
        assert_eq!(client.ask(format!("set {key} 0 0 3\r\nold")), "STORED");
    }
    let mut stalled: Vec<_> = (0..400)
        .map(|number| {
            let mut client = server.connect();
            client.send(format!("set stalled{number} 0 0 {VALUE_BYTES}\r\nx"));
            client
        })
        .collect();
    let value = "x".repeat(VALUE_BYTES);
    const REFUSED: &str = "SERVER_ERROR out of memory storing object";
    // In two parts, so that it is not stored from the read buffer.
    let mut send = |client: &mut Client, line: &str| {
        // They go on, if slowly: who stands still for ten seconds loses the room, and then there is some.
        stalled.iter_mut().for_each(|upload| upload.send("x"));
        client.send(format!("{line}\r\nx"));
        std::thread::sleep(std::time::Duration::from_millis(50));
        client.ask(&value[1..])
    };
    let mut answer = send(&mut client, &format!("set plain 0 0 {VALUE_BYTES}"));
    for _ in 0..20 {
        if answer == REFUSED {
            break;
        }
        answer = send(&mut client, &format!("set plain 0 0 {VALUE_BYTES}"));
    }
    assert_eq!(answer, REFUSED);
    assert_eq!(
        send(&mut client, &format!("ms meta {VALUE_BYTES}")),
        REFUSED
    );
    assert_eq!(
        send(&mut client, &format!("add added 0 0 {VALUE_BYTES}")),
        REFUSED
    );
    let before = client.stat("curr_connections");
    let mut dying = server.connect();
    dying.send(format!("set left 0 0 {VALUE_BYTES}\r\nx"));
    let mut wait_for = |connections| {
        wait_until("it comes and goes", || {
            client.stat("curr_connections") == connections
        })
    };
    wait_for(before + 1);
    drop(dying);
    wait_for(before);
    assert_eq!(
        send(&mut client, &format!("set plain 0 0 {VALUE_BYTES}")),
        REFUSED,
        "so was the one that died"
    );
    assert_eq!(client.ask("get plain"), "END");
    assert_eq!(client.ask("mg meta"), "EN");
    assert_eq!(client.ask("mg added"), "HD");
    assert_eq!(client.ask("mg left"), "HD", "its client died half way");
}
