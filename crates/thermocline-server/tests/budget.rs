//! The budget is the process: whatever clients do, resident memory stays within it.

mod common;

use common::served::Served;
use common::{ours, PATIENCE};
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const MEBIBYTES: u64 = 256;

/// Writers of all sizes, readers, idle connections, clients that never read: at its peak the process has used no more
/// than 1.02 times what `-m` says.
#[test]
fn the_process_stays_within_its_budget_under_every_kind_of_client() {
    let server = ours(&["-m", &MEBIBYTES.to_string(), "-c", "2000"]);
    let port = server.port;
    let idle: Vec<TcpStream> = (0..500)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("accepted"))
        .collect();
    let writers: Vec<_> = (0..4u64)
        .map(|number| std::thread::spawn(move || write_all_sizes(port, number)))
        .collect();
    for writer in writers {
        writer.join().expect("a writer finished");
    }
    let mut client = server.connect();
    let value = "v".repeat(500_000);
    assert_eq!(
        client.ask(format!("set huge 0 0 500000\r\n{value}")),
        "STORED"
    );
    let greedy: Vec<TcpStream> = (0..50)
        .map(|_| {
            let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("accepted");
            stream
                .write_all(&b"get huge\r\n".repeat(500))
                .expect("fits");
            stream
        })
        .collect();
    write_all_sizes(port, 99);
    assert!(client.stat("evictions") > 0, "the cache was never full");
    let peak = server.resident_peak_bytes();
    let most = MEBIBYTES * (1 << 20) * 102 / 100;
    println!("peak {peak} bytes of {} allowed", MEBIBYTES << 20);
    assert!(peak <= most, "{peak} bytes, {most} allowed");
    assert!(
        peak > (MEBIBYTES << 20) / 2,
        "the test used only {peak} bytes"
    );
    drop((idle, greedy));
}

/// Values that lie compressed are decoded into the heap: that too is counted, when their readers are slow.
#[test]
fn readers_that_do_not_take_compressed_values_keep_no_memory_beyond_the_budget() {
    const READERS: usize = 400;
    let server = Served::new(&["--compress", "on", "--hot-percent", "5"]);
    let mut client = server.running.connect();
    let until = Instant::now() + PATIENCE;
    let mut stored = 0;
    while compressed_bytes(&server) < 60e6 {
        assert!(Instant::now() < until, "too little is compressed");
        for _ in 0..200 {
            let value = records(stored, 1400);
            let request = format!("set k{stored} 0 0 {}\r\n{value}", value.len());
            assert_eq!(client.ask(request), "STORED");
            stored += 1;
        }
    }
    let reads_before = client.stat("cmd_get");
    let readers: Vec<TcpStream> = (0..READERS)
        .map(|number| {
            let mut stream = narrow(server.running.port);
            let key = |n: usize| format!(" k{}", stored - 1 - (number * 10 + n) % 900);
            let keys: String = (0..100).map(key).collect();
            let request = format!("get{keys}\r\n");
            stream.write_all(request.as_bytes()).expect("fits");
            stream
        })
        .collect();
    let until = Instant::now() + PATIENCE;
    while client.stat("cmd_get") < reads_before + 2 * READERS as u64 {
        assert!(Instant::now() < until, "not all requests were begun");
        std::thread::sleep(Duration::from_millis(20));
    }
    let peak = server.running.resident_peak_bytes();
    println!("peak {peak} bytes of {}", 64 << 20);
    assert!(peak <= (64 << 20) * 102 / 100, "{peak} bytes");
    assert_eq!(client.ask("mn"), "MN", "others are served");
    drop(readers);
}

/// Bytes of the values that lie compressed.
fn compressed_bytes(server: &Served) -> f64 {
    let page = server.ask("tiers", &["--json"]).stdout;
    let page: serde_json::Value = serde_json::from_slice(&page).expect("JSON");
    page["tier_compressed_plain_bytes"]
        .as_f64()
        .expect("a figure")
}

/// A value of so many records, about 46 bytes each, that a dictionary makes a sixth of.
fn records(number: usize, count: usize) -> String {
    let mut word = number as u64;
    let mut record = || {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let (name, n) = (
            ["amber", "coral", "ember", "frost"][word as usize >> 62],
            word >> 44,
        );
        format!("{{\"name\":\"{name}\",\"place\":\"fjord\",\"n\":{n}}} ")
    };
    (0..count).map(|_| record()).collect()
}

/// A connection whose own end takes next to nothing unread.
fn narrow(port: u16) -> TcpStream {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).expect("a socket");
    socket.set_recv_buffer_size(4096).expect("set");
    let address: SocketAddr = ([127, 0, 0, 1], port).into();
    socket.connect(&address.into()).expect("accepted");
    socket.into()
}

/// About 100 MB from 64 bytes to 200 KB, a third of it overwriting, with noreply and without.
fn write_all_sizes(port: u16, seed: u64) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("accepted");
    let payload = vec![b'p'; 200_000];
    let mut word = seed * 2 + 1;
    let mut sent = 0;
    while sent < 100 << 20 {
        word = word
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let bytes = (64u64 << (word >> 60).min(11)).min(200_000) as usize;
        let key = (word >> 20) % 200_000;
        let mut request = format!("set writer{seed}key{key} 0 0 {bytes} noreply\r\n").into_bytes();
        request.extend_from_slice(&payload[..bytes]);
        request.extend_from_slice(b"\r\n");
        stream.write_all(&request).expect("taken");
        sent += bytes;
    }
    stream.write_all(b"mn\r\n").expect("taken");
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).expect("answered");
    assert_eq!(&answer, b"MN\r\n");
}
