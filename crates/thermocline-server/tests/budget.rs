//! The budget is the process: whatever clients do, resident memory stays within it.

mod common;

use common::ours;
use std::io::{Read, Write};
use std::net::TcpStream;

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
    let peak = status_bytes(server.child.id(), "VmHWM:");
    let most = MEBIBYTES * (1 << 20) * 102 / 100;
    println!("VmHWM {peak} bytes of {} allowed", MEBIBYTES << 20);
    assert!(peak <= most, "{peak} bytes, {most} allowed");
    assert!(
        peak > (MEBIBYTES << 20) / 2,
        "the test used only {peak} bytes"
    );
    drop((idle, greedy));
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

fn status_bytes(process: u32, name: &str) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = text
        .lines()
        .find(|line| line.starts_with(name))
        .expect("a figure");
    let kilobytes: u64 = line
        .split_whitespace()
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a number");
    kilobytes * 1024
}
