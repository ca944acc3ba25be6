//! What happens at a certain second, on a server whose clock the test moves.

mod common;

use common::ours;

#[test]
fn the_clock_can_be_moved_in_tests() {
    let server = ours(&["-o", "test_clock"]);
    let mut client = server.connect();
    assert_eq!(client.ask("debugtime p"), "OK");
    assert_eq!(client.ask("set k 0 100 1\r\na"), "STORED");
    assert_eq!(client.ask("mg k t"), "HD t100");
    assert_eq!(client.ask("debugtime 99"), "OK");
    assert_eq!(client.ask("mg k t"), "HD t1");
    assert_eq!(client.ask("debugtime 1"), "OK");
    assert_eq!(client.ask("mg k t"), "EN");
    assert_eq!(client.ask("debugtime r"), "OK");
    assert_eq!(
        client.ask("debugtime x"),
        "CLIENT_ERROR bad command line format"
    );
}

#[test]
fn a_flush_to_come_takes_what_is_stored_during_its_second() {
    let server = ours(&["-o", "test_clock"]);
    let mut client = server.connect();
    assert_eq!(client.ask("debugtime p"), "OK");
    assert_eq!(client.ask("set before 0 0 1\r\na"), "STORED");
    assert_eq!(client.ask("flush_all 2"), "OK");
    assert_eq!(client.ask("debugtime 1"), "OK");
    assert_eq!(client.ask("mg before"), "HD", "not yet");
    assert_eq!(client.ask("debugtime 1"), "OK");
    assert_eq!(client.ask("mg before"), "EN");
    assert_eq!(client.ask("set during 0 0 1\r\na"), "STORED");
    assert_eq!(
        client.ask("mg during"),
        "EN",
        "stored in the second of the flush"
    );
    assert_eq!(client.ask("debugtime 1"), "OK");
    assert_eq!(client.ask("mg during"), "EN");
    assert_eq!(client.ask("set after 0 0 1\r\na"), "STORED");
    assert_eq!(client.ask("mg after"), "HD");
}

#[test]
fn the_access_time_is_refreshed_at_most_once_a_minute() {
    let server = ours(&["-o", "test_clock"]);
    let mut client = server.connect();
    assert_eq!(client.ask("debugtime p"), "OK");
    assert_eq!(client.ask("ms k 1\r\na"), "HD");
    for (later_s, answer) in [
        (0, "HD l0"),
        (30, "HD l30"),
        (29, "HD l59"),
        (1, "HD l60"),
        (0, "HD l0"),
        (10, "HD l10"),
    ] {
        assert_eq!(client.ask(format!("debugtime {later_s}")), "OK");
        assert_eq!(client.ask("mg k l"), answer);
    }
}
