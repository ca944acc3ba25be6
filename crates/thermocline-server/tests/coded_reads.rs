//! Large values that lie compressed, and readers that take them slowly: each has one decoded chunk at a time, gets every byte,
//! and is in nobody's way.

mod common;

use common::served::Served;
use common::{wait_until, Client};
use nix::sys::signal::Signal;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Much more than a 64th of the server's 64 MiB, and than sockets take of it unread.
const VALUE_BYTES: usize = 5_000_000;
/// A quarter of a segment of 256 KiB, and less by what is written before it.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS: u64 = (VALUE_BYTES / CHUNK_BYTES) as u64;

/// Text that follows from `seed`, of which a codec makes a third.
fn text(seed: u64, bytes: usize) -> Vec<u8> {
    let mut word = seed;
    let mut text = Vec::with_capacity(bytes + 64);
    while text.len() < bytes {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let name = ["amber", "coral", "ember", "frost"][word as usize >> 62];
        let n = word >> 44;
        text.extend_from_slice(format!("{{\"name\":\"{name}\",\"n\":{n}}} ").as_bytes());
    }
    text.truncate(bytes);
    text
}

fn set(client: &mut Client, key: &str, value: &[u8]) {
    client.send(format!("set {key} 0 0 {}\r\n", value.len()));
    client.send(value);
    assert_eq!(client.ask(""), "STORED");
}

/// The body of the answer to a `get` of one key.
fn body_of(client: &mut Client, key: &str) -> Option<Vec<u8>> {
    let line = client.text();
    if line == "END" {
        return None;
    }
    assert_eq!(line, format!("VALUE {key} 0 {VALUE_BYTES}"));
    let mut body = client.exact(VALUE_BYTES + 2);
    body.truncate(VALUE_BYTES);
    assert_eq!(client.text(), "END");
    Some(body)
}

/// Values, or chunks of them, that were decoded for readers so far.
fn decoded(client: &mut Client) -> u64 {
    let lines = client.stats("tiers");
    let line = lines.iter().find(|(name, _)| name == "tier_decoded");
    line.expect("it is counted").1.parse().expect("a number")
}

/// Bytes of the cache's memory that are lent to connections beyond what is reserved for them.
fn leased_bytes(server: &Served) -> u64 {
    let mut stream = TcpStream::connect(&server.admin).expect("the admin door is open");
    stream
        .write_all(b"GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n")
        .expect("it listens");
    let mut page = String::new();
    stream.read_to_string(&mut page).expect("it answers");
    let mut lines = page.lines();
    let line = lines.find_map(|line| line.strip_prefix("thermocline_memory_leased_bytes "));
    line.expect("it is shown").parse().expect("a number")
}

/// A full server of which the value of `long` lies compressed.
fn server_with_a_coded_value() -> (Served, Client, Vec<u8>) {
    let flags = [
        "--compress",
        "on",
        "--drain-deadline-s",
        "1",
        "--item-size-max",
        "8MiB",
    ];
    let server = Served::new(&flags);
    let mut client = server.running.connect();
    let value = text(1, VALUE_BYTES);
    for round in 0..200 {
        small_sets(&mut client, round, 1000);
        let before = decoded(&mut client);
        client.send("get long\r\n");
        match body_of(&mut client, "long") {
            Some(body) => assert!(body == value, "round {round}"),
            None if round >= 60 => set(&mut client, "long", &value),
            None => {}
        }
        if decoded(&mut client) - before >= CHUNKS / 2 {
            return (server, client, value);
        }
    }
    panic!("it does not come to lie compressed");
}

fn small_sets(client: &mut Client, round: u64, sets: u64) {
    for n in 0..sets {
        let value = text(round * sets + n, 1000);
        let head = format!("set user:{n}:{round} 0 0 {} noreply\r\n", value.len());
        client.send([head.as_bytes(), &value, b"\r\n"].concat());
    }
    assert_eq!(client.ask("mn"), "MN");
}

/// A client that has asked for the value, and takes none of it.
fn slow_reader(server: &Served, client: &mut Client) -> TcpStream {
    let waiting = client.connections("conn_mwrite");
    let stream = asking(server);
    wait_until("its answer waits", || {
        client.connections("conn_mwrite") > waiting
    });
    stream
}

/// The same that may not have been heard yet.
fn asking(server: &Served) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    let address: SocketAddr = ([127, 0, 0, 1], server.running.port).into();
    socket.connect(&address.into()).expect("accepted");
    let mut stream: TcpStream = socket.into();
    stream.write_all(b"get long\r\n").expect("taken");
    stream
}

/// Takes the whole answer.
fn read_whole(stream: TcpStream, value: &[u8]) {
    let timeout = Some(Duration::from_secs(20));
    stream.set_read_timeout(timeout).expect("set");
    let mut answer = Vec::new();
    let head = format!("VALUE long 0 {VALUE_BYTES}\r\n");
    let bytes = head.len() + VALUE_BYTES + "\r\nEND\r\n".len();
    let read = stream.take(bytes as u64).read_to_end(&mut answer);
    assert_eq!(read.expect("it is sent"), bytes);
    assert!(answer.starts_with(head.as_bytes()) && answer.ends_with(b"\r\nEND\r\n"));
    assert!(answer[head.len()..][..VALUE_BYTES] == *value);
}

#[test]
fn a_slow_reader_has_a_chunk_at_a_time() {
    const READERS: u64 = 4;
    let (server, mut client, value) = server_with_a_coded_value();
    let before = decoded(&mut client);
    let readers: Vec<TcpStream> = (0..READERS)
        .map(|_| slow_reader(&server, &mut client))
        .collect();
    let begun = decoded(&mut client) - before;
    // Those that the sockets have taken meanwhile, and the one that waits.
    println!("{begun} of {} chunks decoded", READERS * CHUNKS);
    assert!(begun < READERS * CHUNKS * 3 / 4, "{begun} chunks");
    assert!(begun >= READERS, "they are read compressed");
    let leased = leased_bytes(&server);
    println!("{leased} bytes leased");
    assert!(leased <= 2 << 20, "{leased} bytes leased");
    for reader in readers {
        read_whole(reader, &value);
    }
    let done = decoded(&mut client) - before;
    assert!(done <= READERS * (CHUNKS + 2), "{done} chunks: each once");
}

/// Several of one batch, lines between them, and made longer from where it lies.
#[test]
fn coded_values_are_answered_in_order_and_appended_to() {
    let (_server, mut client, value) = server_with_a_coded_value();
    set(&mut client, "small", b"s");
    let before = decoded(&mut client);
    client.send("get long small long\r\nmg long v\r\n");
    for key in ["long", "small", "long"] {
        let bytes = if key == "small" { 1 } else { VALUE_BYTES };
        assert_eq!(client.text(), format!("VALUE {key} 0 {bytes}"));
        let body = client.exact(bytes + 2);
        assert!(key == "small" || body[..bytes] == value);
    }
    assert_eq!(client.text(), "END");
    assert_eq!(client.text(), format!("VA {VALUE_BYTES}"));
    assert!(client.exact(VALUE_BYTES + 2)[..VALUE_BYTES] == value);
    let read = decoded(&mut client) - before;
    assert!(read >= 3 * CHUNKS / 2, "{read} chunks: they lie compressed");
    for (verb, bytes) in [("append", 1), ("prepend", 2)] {
        client.send(format!("{verb} long 0 0 1\r\nx\r\nmg long v\r\n"));
        assert_eq!(client.text(), "STORED");
        assert_eq!(client.text(), format!("VA {}", VALUE_BYTES + bytes));
        let body = client.exact(VALUE_BYTES + bytes + 2);
        assert!(body[bytes - 1..][..VALUE_BYTES] == value);
        assert_eq!(body[VALUE_BYTES + bytes - 1], b'x');
    }
}

/// Replaced, deleted, and all that lay beside it evicted: who began to read the old value gets the rest of it.
#[test]
fn a_value_that_goes_while_it_is_read_is_read_to_its_end() {
    let (server, mut client, value) = server_with_a_coded_value();
    let first = slow_reader(&server, &mut client);
    let second = slow_reader(&server, &mut client);
    set(&mut client, "long", &text(2, VALUE_BYTES));
    small_sets(&mut client, 1000, 20_000);
    read_whole(first, &value);
    client.ask("delete long");
    small_sets(&mut client, 2000, 100_000);
    read_whole(second, &value);
    assert_eq!(client.ask("mg long"), "EN");
}

/// The chunks of those that are gone lie between those of others: the memory is the cache's again all the same, and not the
/// allocator's beside it.
#[test]
fn memory_of_readers_that_are_gone_is_no_more_than_it_was() {
    const READERS: usize = 200;
    let (server, mut client, _) = server_with_a_coded_value();
    // Within the two seconds that all of them are given.
    let mut readers: Vec<TcpStream> = (0..READERS).map(|_| asking(&server)).collect();
    let mut leased = 0;
    wait_until("most answers wait", || {
        leased = leased_bytes(&server);
        leased > 10 << 20
    });
    let mut number = 0;
    readers.retain(|_| {
        number += 1;
        number % 20 == 0
    });
    small_sets(&mut client, 1000, 100_000);
    wait_until("the lease is given back", || {
        leased_bytes(&server) < leased / 4
    });
    small_sets(&mut client, 2000, 100_000);
    let resident = server.running.resident_bytes();
    println!("{resident} bytes resident of {}", 64 << 20);
    assert!(resident <= (64 << 20) * 102 / 100, "{resident} bytes");
}

#[test]
fn a_server_stops_beside_a_reader_in_the_middle() {
    let (mut server, mut client, _) = server_with_a_coded_value();
    let reader = slow_reader(&server, &mut client);
    let asked = Instant::now();
    server.running.signal(Signal::SIGTERM);
    wait_until("it stops", || {
        matches!(server.running.child.try_wait(), Ok(Some(_)))
    });
    println!("stopped after {:?}", asked.elapsed());
    drop(reader);
}
