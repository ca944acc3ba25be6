//! Many clients that stop half way, with large values: those who go on are still served.

mod common;

use common::{serve, Client, Running};
use nix::sys::signal::Signal;
use std::io::{ErrorKind, Read, Write};
use std::time::{Duration, Instant};

/// What a server may take to answer in the midst of it. Waits in series took half a minute and more.
const SOON: Duration = Duration::from_secs(8);
const VALUE_BYTES: usize = 900_000;

/// 64 MiB and one event loop, which all clients share.
fn server() -> Running {
    let flags = ["--memory", "64MiB", "--http", "none", "--threads", "1"];
    serve(&[&flags[..], &["--drain-deadline-s", "1"]].concat())
}

/// A client that has sent `sent` bytes of a value of `VALUE_BYTES`. What the socket does not take is not sent.
fn half_upload(server: &Running, number: usize, sent: usize) -> Client {
    let mut client = server.connect();
    client.stream.set_nonblocking(true).expect("set");
    let line = format!("set half{number} 0 0 {VALUE_BYTES}\r\n");
    let bytes = [line.as_bytes(), &vec![b'x'; sent]].concat();
    let mut at = 0;
    while at < bytes.len() {
        match client.stream.write(&bytes[at..]) {
            Ok(taken) => at += taken,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    client.stream.set_nonblocking(false).expect("set");
    client
}

/// Small sets one after the other; how many of them were refused.
fn refused_of(client: &mut Client, sets: usize) -> usize {
    let value = "s".repeat(1000);
    let refused = |number: &usize| {
        let answer = client.ask(format!("set small{number} 0 0 1000\r\n{value}"));
        assert!(answer == "STORED" || answer == NO_ROOM, "{answer}");
        answer == NO_ROOM
    };
    (0..sets).filter(refused).count()
}

/// Enough to fill the cache once more.
const SETS: usize = 60_000;
/// A machine that has other things to do may keep a thread from working for longer than a write waits.
const REFUSED_MAX: usize = SETS / 500;
const NO_ROOM: &str = "SERVER_ERROR out of memory storing object";

#[test]
fn who_waits_for_room_does_not_stop_the_event_loop() {
    let mut server = server();
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 1\r\nv"), "STORED");
    refused_of(&mut client, SETS);
    let halves: Vec<Client> = (0..400)
        .map(|number| half_upload(&server, number, VALUE_BYTES / 2))
        .collect();
    // By now or a moment later all of that has to be taken in.
    for _ in 0..20 {
        let asked = Instant::now();
        let answer = client.ask("mg k");
        assert!(asked.elapsed() < SOON, "a read took {:?}", asked.elapsed());
        assert!(answer == "HD" || answer == "EN", "{answer}");
    }
    let asked = Instant::now();
    server.signal(Signal::SIGTERM);
    while !matches!(server.child.try_wait(), Ok(Some(_))) {
        assert!(asked.elapsed() < SOON, "it does not stop");
        std::thread::sleep(Duration::from_millis(20));
    }
    drop(halves);
}

#[test]
fn half_uploads_leave_room_for_small_sets() {
    for (uploads, between) in [(40, 700), (200, 300)] {
        let server = server();
        let mut client = server.connect();
        refused_of(&mut client, SETS);
        let halves: Vec<Client> = (0..uploads)
            .map(|number| {
                let half = half_upload(&server, number, 60_000);
                refused_of(&mut client, between);
                half
            })
            .collect();
        let refused = refused_of(&mut client, SETS);
        println!("{uploads} uploads, {between} sets between: {refused} of {SETS} sets refused");
        drop(halves);
        assert!(refused <= REFUSED_MAX, "{refused} of {SETS} were refused");
    }
}

/// Long enough for any machine; a window of ten seconds has to pass.
const WINDOWS: Duration = Duration::from_secs(90);

#[test]
fn uploads_that_trickle_lose_their_room() {
    let server = server();
    let mut halves: Vec<Client> = (0..100)
        .map(|number| half_upload(&server, number, VALUE_BYTES / 2))
        .collect();
    let mut client = server.connect();
    let value = "w".repeat(VALUE_BYTES);
    let mut is_stored = || {
        let answer = client.ask(format!("set whole 0 0 {VALUE_BYTES}\r\n{value}"));
        assert!(answer == "STORED" || answer == NO_ROOM, "{answer}");
        answer == "STORED"
    };
    assert!(!is_stored(), "half of memory is taken");
    let until = Instant::now() + WINDOWS;
    while !is_stored() {
        assert!(Instant::now() < until, "they keep it for ever");
        for half in &mut halves {
            half.stream.set_nonblocking(true).expect("set");
            // What the socket does not take now it takes the next time.
            let _sent = half.stream.write(b"x");
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

/// Clients that ask for a value each, one after the other, and do not read the answer.
fn slow_readers(server: &Running, readers: usize, bytes: usize) -> Vec<Client> {
    let mut client = server.connect();
    let value = "l".repeat(bytes);
    (0..readers)
        .map(|number| {
            let answer = client.ask(format!("set large{number} 0 0 {bytes}\r\n{value}"));
            assert!(answer == "STORED" || answer == NO_ROOM, "{answer}");
            let mut reader = server.connect();
            // More than the sockets take between them.
            let key = format!(" large{number}");
            reader.send(format!("get{}\r\n", key.repeat(10_000_000 / bytes)));
            reader
        })
        .collect()
}

/// 100 MB of answers that nobody takes, or hardly.
#[test]
fn slow_readers_leave_room_for_sets() {
    for trickle in [false, true] {
        let server = server();
        let mut slow = slow_readers(&server, 100, 1_000_000);
        let mut client = server.connect();
        let mut refused = 0;
        for _ in 0..30 {
            refused += refused_of(&mut client, SETS / 30);
            for reader in slow.iter_mut().filter(|_| trickle) {
                reader.stream.set_nonblocking(true).expect("set");
                let _closed_or_empty = reader.stream.read(&mut [0; 4096]);
            }
        }
        println!("trickle {trickle}: {refused} of {SETS} sets refused");
        assert!(refused <= REFUSED_MAX, "{refused} of {SETS} were refused");
    }
}
