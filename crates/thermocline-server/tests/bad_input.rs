//! Bad input, each with a clear answer: what clients, operators and circumstances can do to a server.

mod common;

use common::{our_binary, ours, wait_until, Client, Running, PATIENCE};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn run(args: &[&str]) -> Output {
    Command::new(our_binary())
        .args(args)
        .env_remove("THERMOCLINE_TEST_VENV")
        .stdin(Stdio::null())
        .output()
        .expect("the binary runs")
}

fn refused(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(64), "{args:?}: {output:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_value_over_the_limit_is_swallowed_and_the_old_one_is_gone() {
    let server = ours(&["-I", "2048"]);
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 3\r\nold"), "STORED");
    let big = "x".repeat(5000);
    assert_eq!(
        client.ask(format!("set k 0 0 5000\r\n{big}")),
        "SERVER_ERROR object too large for cache"
    );
    assert_eq!(client.ask("get k"), "END");
    assert_eq!(client.ask("set k 0 0 3\r\nnew"), "STORED");
    assert_eq!(client.stat("store_too_large"), 1);
}

#[test]
fn a_touch_that_finds_no_room_says_so() {
    const BYTES: usize = 100_000;
    let server = ours(&["-m", "64", "-M", "-t", "1"]);
    let mut client = server.connect();
    let value = "x".repeat(BYTES);
    let mut set = |number: usize| client.ask(format!("set k{number} 0 0 {BYTES}\r\n{value}"));
    let stored = (0..).take_while(|&number| set(number) == "STORED").count();
    assert!(stored > 100);
    let mut client = server.connect();
    for request in [
        "touch k0 100",
        "gat 100 k0",
        "gats 100 none k0",
        "mg k0 T100 v",
    ] {
        let answer = client.ask(request);
        assert_eq!(answer, "SERVER_ERROR out of memory", "{request}");
    }
    assert_eq!(client.ask("mg k0 t"), "HD t-1", "it is there, as it was");
    assert_eq!(client.ask("touch none 100"), "NOT_FOUND");
    assert_eq!(
        (client.stat("touch_hits"), client.stat("touch_misses")),
        (0, 2)
    );
}

#[test]
fn a_key_over_the_limit_is_refused_and_its_payload_swallowed() {
    let server = ours(&[]);
    let mut client = server.connect();
    let key = "k".repeat(251);
    assert_eq!(
        client.ask(format!("set {key} 0 0 3\r\nabc")),
        "CLIENT_ERROR bad command line format"
    );
    assert_eq!(client.ask("mn"), "MN");
}

#[test]
fn half_a_request_then_silence_hurts_nobody() {
    let server = ours(&["-o", "idle_timeout=1"]);
    let mut halves: Vec<TcpStream> = [
        "get a",
        "set k 0 0 100\r\nabc",
        "set k 0 0 500000\r\nabc",
        "ms k 10 ",
    ]
    .iter()
    .map(|half| {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
        stream.write_all(half.as_bytes()).expect("takes bytes");
        stream
    })
    .collect();
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
    for stream in &mut halves {
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        assert_eq!(
            stream.read(&mut [0; 16]).expect("closed in time"),
            0,
            "closed by idle_timeout, without a word"
        );
    }
    let mut client = server.connect();
    assert_eq!(client.ask("get k"), "VALUE k 0 1");
    client.text();
    client.text();
    assert!(client.stat("idle_kicks") >= 4);
}

#[test]
fn a_client_that_dies_in_the_middle_of_a_large_value_changes_nothing() {
    let server = ours(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("set big 0 0 3\r\nold"), "STORED");
    for _ in 0..50 {
        let mut dying = server.connect();
        dying.send("set big 0 0 1000000\r\n");
        dying.send(vec![b'x'; 300_000]);
        drop(dying);
    }
    wait_until("the dead connections are gone", || {
        client.stat("curr_connections") == 1
    });
    assert_eq!(client.ask("get big"), "VALUE big 0 3");
    assert_eq!([client.text(), client.text()], ["old", "END"]);
}

/// What they announced would take most of a full server; only what they sent may.
#[test]
fn clients_that_die_in_the_middle_of_large_values_evict_no_more_than_they_sent() {
    const CLIENTS: usize = 40;
    const ANNOUNCED: usize = 1_000_000;
    const SENT: usize = 70_000;
    let server = ours(&["-m", "64", "-t", "1"]);
    let mut client = server.connect();
    let value = "v".repeat(1000);
    for number in 0..80_000 {
        client.send(format!("set key{number} 0 0 1000 noreply\r\n{value}\r\n"));
    }
    assert_eq!(client.ask("mn"), "MN");
    let before = client.stat("evictions");
    assert!(before > 0, "the server is full");
    let dying: Vec<Client> = (0..CLIENTS)
        .map(|number| {
            let mut dying = server.connect();
            dying.send(format!("set big{number} 0 0 {ANNOUNCED}\r\n"));
            dying.send(vec![b'x'; SENT]);
            dying
        })
        .collect();
    wait_until("all wait for the rest", || {
        client.stat("curr_connections") == CLIENTS as u64 + 1
    });
    drop(dying);
    wait_until("the dead connections are gone", || {
        client.stat("curr_connections") == 1
    });
    // Reclaim goes by segments and keeps some free: up to 4 MiB of 64.
    let evicted = (client.stat("evictions") - before) as usize * 1000;
    assert!(
        evicted <= CLIENTS * SENT + (4 << 20),
        "{evicted} bytes evicted for {} sent of {} announced",
        CLIENTS * SENT,
        CLIENTS * ANNOUNCED
    );
}

#[test]
fn a_hundred_thousand_pipelined_gets_without_reading_stay_bounded_and_are_answered() {
    const GETS: usize = 100_000;
    let server = ours(&["-m", "128"]);
    let mut client = server.connect();
    let value = "v".repeat(1000);
    assert_eq!(client.ask(format!("set k 0 0 1000\r\n{value}")), "STORED");
    let before = server.resident_bytes();
    let mut greedy = server.connect();
    let mut writing = greedy.stream.try_clone().expect("cloned");
    let writer = std::thread::spawn(move || {
        // Blocks as soon as the server no longer reads: that is the backpressure this test is about.
        writing
            .write_all(&b"get k\r\n".repeat(GETS))
            .expect("taken in the end");
    });
    wait_until("the server waits for its reader", || {
        client.connections("conn_mwrite") == 1
    });
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 8 << 20,
        "the server grew by {grown} bytes for one client"
    );
    assert_eq!(client.ask("mn"), "MN", "others are served meanwhile");
    let reply = format!("VALUE k 0 1000\r\n{value}\r\nEND\r\n").into_bytes();
    for number in 0..GETS {
        assert!(
            greedy.exact(reply.len()) == reply,
            "reply {number} is wrong"
        );
    }
    writer.join().expect("written");
}

#[test]
fn clients_that_never_read_cannot_fill_memory() {
    let server = ours(&["-m", "128", "-o", "read_buf_mem_limit=2"]);
    let mut client = server.connect();
    let value = "v".repeat(500_000);
    assert_eq!(client.ask(format!("set k 0 0 500000\r\n{value}")), "STORED");
    let before = server.resident_bytes();
    let mut greedy = Vec::new();
    for _ in 0..100 {
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).expect("connects");
        stream
            .write_all(&b"get k\r\n".repeat(200))
            .expect("fits the socket");
        greedy.push(stream);
    }
    // Each has been answered until its reader had to be waited for, or was closed for it.
    wait_until("all are under way", || {
        let closed = client.stat("read_buf_oom") as usize;
        client.connections("conn_mwrite") + closed >= greedy.len()
    });
    let grown = server.resident_bytes().saturating_sub(before);
    assert!(
        grown < 16 << 20,
        "the server grew by {grown} bytes for clients that never read"
    );
    assert_eq!(client.ask("set other 0 0 1\r\na"), "STORED");
    assert_eq!(client.ask("mn"), "MN");
}

#[test]
fn a_thousand_idle_connections_cost_next_to_nothing() {
    let server = ours(&["-c", "1600"]);
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
    // The first few hundred fault in what the server has once, and the cache touches its memory ahead: not their cost.
    let first: Vec<Client> = (0..500).map(|_| server.connect()).collect();
    wait_until("the first are connected", || {
        client.stat("curr_connections") == 501
    });
    let mut before = 0;
    wait_until("memory comes to rest", || {
        let earlier = std::mem::replace(&mut before, server.resident_bytes());
        std::thread::sleep(Duration::from_millis(300));
        earlier == before
    });
    let idle: Vec<Client> = (0..1000).map(|_| server.connect()).collect();
    wait_until("all are connected", || {
        client.stat("curr_connections") == 1501
    });
    let each = server.resident_bytes().saturating_sub(before) / 1000;
    assert!(each < 1024, "an idle connection costs {each} bytes");
    assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
    drop((first, idle));
    wait_until("all are gone", || client.stat("curr_connections") == 1);
}

#[test]
fn at_the_cap_connections_are_refused_or_wait_as_configured() {
    let server = ours(&["-c", "3"]);
    let mut kept = three(&server);
    let mut refused = server.connect();
    assert_eq!(refused.text(), "ERROR Too many open connections");
    assert_eq!(refused.line(), None);
    assert!(kept[0].stat("rejected_connections") >= 1);

    let server = ours(&["-c", "3", "-o", "no_maxconns_fast"]);
    let mut kept = three(&server);
    let mut waiting = server.connect();
    waiting.send("mn\r\n");
    wait_until("accepting stops", || kept[0].stat("accepting_conns") == 0);
    drop(kept.pop());
    assert_eq!(waiting.text(), "MN", "accepted as soon as another has gone");
    assert!(kept[0].stat("listen_disabled_num") >= 1);
}

/// Three connections, once the one that looked whether the server is up has gone.
fn three(server: &Running) -> Vec<Client> {
    let mut first = server.connect();
    wait_until("the first is alone", || first.stat("curr_connections") == 1);
    let mut kept = vec![first, server.connect(), server.connect()];
    assert!(kept.iter_mut().all(|client| client.ask("mn") == "MN"));
    kept
}

#[test]
fn running_out_of_file_descriptors_is_survived() {
    let server = ours(&["-c", "1000", "-t", "1"]);
    let mut client = server.connect();
    assert_eq!(client.ask("mn"), "MN");
    // The limit is taken away from the running server: before, it would only have raised it.
    let lowered = Command::new("prlimit")
        .args(["--pid", &server.child.id().to_string(), "--nofile=40:40"])
        .status();
    if !lowered.is_ok_and(|status| status.success()) {
        return common::skip("prlimit is not installed");
    }
    let crowd: Vec<TcpStream> = (0..60)
        .filter_map(|_| TcpStream::connect(("127.0.0.1", server.port)).ok())
        .collect();
    wait_until("accepting stops", || client.stat("accepting_conns") == 0);
    drop(crowd);
    let mut late = server.connect();
    assert_eq!(late.ask("mn"), "MN", "accepting goes on");
    assert!(client.stat("listen_disabled_num") >= 1);
    let said = server.log.text();
    assert!(said.contains("raise the limit of open files"), "{said}");
}

#[test]
fn nuls_and_control_bytes_are_ordinary_bytes() {
    let server = ours(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask(b"set a\0\x01\xff 0 0 3\r\n\0\r\n"), "STORED");
    client.send(b"get a\0\x01\xff\r\n");
    assert_eq!(client.line().expect("a line"), b"VALUE a\0\x01\xff 0 3");
    assert_eq!(client.exact(5), b"\0\r\n\r\n");
    assert_eq!(client.text(), "END");
    assert_eq!(client.ask(b"\0\0\0\0"), "ERROR");
}

#[test]
fn negative_and_overflowing_numbers_are_refused() {
    let server = ours(&[]);
    let mut client = server.connect();
    let bad = "CLIENT_ERROR bad command line format";
    for line in [
        "set k 0 0 -1",
        "set k 0 0 -2147483648",
        "set k 0 0 2147483646",
        "set k 0 0 99999999999999999999",
        "set k 0 0 0x10",
        "ms k -1",
        "ms k 99999999999999999999",
        "verbosity -1",
        "cache_memlimit -1",
        "cache_memlimit 99999999999999999999",
    ] {
        assert_eq!(client.ask(line), bad, "{line}");
    }
    for line in [
        "set k -1 0 1\r\na",
        "set k 18446744073709551616 0 1\r\na",
        "set k 0 x 1\r\na",
        "ms k 1 F-1\r\na",
    ] {
        assert_eq!(client.ask(line), bad, "{line}");
    }
    assert_eq!(
        client.ask("set k 0 99999999999999999999 1\r\na"),
        "STORED",
        "far in the future"
    );
    assert_eq!(
        client.ask("mg k t f"),
        format!("HD t{} f0", client_ttl(&server))
    );
    assert_eq!(
        client.ask("set k 0 -99999999999999999999 1\r\na"),
        "STORED",
        "long ago"
    );
    assert_eq!(client.ask("mg k"), "EN");
    assert_eq!(
        client.ask("incr k 18446744073709551616"),
        "CLIENT_ERROR invalid numeric delta argument"
    );
    assert_eq!(
        client.ask("flush_all 1x"),
        "CLIENT_ERROR invalid exptime argument"
    );
}

fn client_ttl(server: &Running) -> String {
    let mut client = server.connect();
    let answer = client.ask("mg k t");
    answer.strip_prefix("HD t").expect("a ttl").to_string()
}

#[test]
fn random_bytes_never_stop_the_server() {
    let seed = std::env::var("SEED")
        .ok()
        .and_then(|s| s.parse().ok())
        .unwrap_or(20_261_130_u64);
    println!("SEED={seed}");
    let mut word = seed | 1;
    let mut next = move || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word
    };
    let server = ours(&["-I", "4096"]);
    let pieces: [&[u8]; 24] = [
        b"get ",
        b"set ",
        b"ms ",
        b"mg ",
        b"md ",
        b"ma ",
        b"mn\r\n",
        b"k",
        b"k1 ",
        b"0 ",
        b"5",
        b"-1 ",
        b"\r\n",
        b"\r\n",
        b"\n",
        b" v t k c",
        b" N30",
        b" I",
        b" C1",
        b"incr ",
        b"gat 0 ",
        b"9999",
        b"\0",
        b"hello\r\n",
    ];
    for _ in 0..200 {
        let mut stream =
            TcpStream::connect(("127.0.0.1", server.port)).expect("the server still accepts");
        let mut bytes = Vec::new();
        for _ in 0..next() % 400 {
            bytes.extend_from_slice(pieces[next() as usize % pieces.len()]);
        }
        // The server may close on us; that is an answer, too.
        let _closed = stream
            .write_all(&bytes)
            .and_then(|()| stream.shutdown(Shutdown::Write));
        stream.set_read_timeout(Some(PATIENCE)).expect("set");
        let mut answers = Vec::new();
        let _reset = stream.read_to_end(&mut answers);
    }
    assert_eq!(server.connect().ask("mn"), "MN");
}

#[test]
fn configuration_typos_are_named() {
    let text = refused(&["serve", "--memmory", "1GiB"]);
    assert!(text.contains("--memory"), "{text}");
    let text = refused(&["serve", "--memory", "lots"]);
    assert!(
        text.contains("--memory") && text.contains("no size"),
        "{text}"
    );
    let text = refused(&["serve", "--memory", "-5"]);
    assert!(text.contains("--memory: \"-5\""), "{text}");
    let text = refused(&["serve", "--memcached", "nowhere"]);
    assert!(
        text.contains("--memcached") && text.contains("ADDR:PORT"),
        "{text}"
    );
    let path = std::env::temp_dir().join(format!("thermocline-typo-{}.toml", std::process::id()));
    std::fs::write(&path, "threds = 2\n").expect("written");
    let text = refused(&["serve", "--config", path.to_str().expect("UTF-8")]);
    assert!(
        text.contains("threds") && text.contains("did you mean threads?"),
        "{text}"
    );
    std::fs::write(&path, "threads = \n").expect("written");
    assert!(refused(&["serve", "--config", path.to_str().expect("UTF-8")]).contains("toml"));
    std::fs::remove_file(&path).expect("removed");
    assert!(refused(&["serve", "--config", "/nonexistent.toml"]).contains("cannot be read"));
    assert!(refused(&["memcached", "--memory-limt=5"]).contains("--memory-limit"));
}

#[test]
fn an_impossible_budget_is_refused_with_the_minimum() {
    let text = refused(&[
        "serve",
        "--memory",
        "12MiB",
        "--item-size-max",
        "64KiB",
        "--buffer-pool",
        "1MiB",
    ]);
    assert!(text.contains("at least") && text.contains("MiB"), "{text}");
    for few in ["1MiB", "10MiB", "16MiB"] {
        let text = refused(&["serve", "--memory", few]);
        assert!(
            text.contains("memory = ") && text.contains("at least") && text.contains("MiB"),
            "{few}: {text}"
        );
    }
    let text = refused(&["serve", "--memory", "64MiB", "--memory-max", "1TiB"]);
    assert!(
        text.contains("at least") && text.contains("memory_max"),
        "{text}"
    );
    let text = refused(&["serve", "--memory", "128MiB", "--item-size-max", "60MiB"]);
    assert!(text.contains("a quarter of memory (128MiB)"), "{text}");
    let text = refused(&["serve", "--memory", "64"]);
    assert!(
        text.contains("64 bytes") && text.contains("64MiB"),
        "{text}"
    );
}

#[test]
fn a_budget_beyond_all_bounds_is_named_by_its_flag() {
    let text = refused(&["memcached", "-m", "99999999999"]);
    assert!(text.contains("-m") && text.contains("33554432"), "{text}");
    let text = refused(&["serve", "--memory", "99999999999MiB"]);
    assert!(!text.contains("memory_max"), "{text}");
}

#[test]
fn a_port_in_use_is_named() {
    let server = ours(&[]);
    let place = format!("127.0.0.1:{}", server.port);
    let output = run(&["serve", "--memcached", &place, "--http", "none"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1));
    assert!(
        text.contains(&place) && text.contains("another server"),
        "{text}"
    );
}

#[test]
fn what_memcached_refuses_at_the_start_is_refused() {
    for flags in [
        ["-I", "1000"],
        ["-I", "256m"],
        ["-B", "foo"],
        ["-c", "0"],
        ["-t", "0"],
        ["-f", "1"],
    ] {
        refused(&["memcached", flags[0], flags[1]]);
    }
    let server = ours(&["-I", "512k"]);
    let settings = server.connect().stats("settings");
    assert!(settings.contains(&("item_size_max".into(), "524288".into())));
    let server = ours(&["-m", "256", "-I", "32m"]);
    let settings = server.connect().stats("settings");
    assert!(settings.contains(&("item_size_max".into(), "33554432".into())));
}

#[test]
fn a_graceful_stop_answers_what_is_under_way() {
    let server = ours(&[]);
    let mut idle = server.connect();
    assert_eq!(idle.ask("mn"), "MN");
    let mut busy = server.connect();
    busy.send("set k 0 0 5\r\nhe");
    assert_eq!(server.connect().ask("mn"), "MN");
    server.signal(Signal::SIGTERM);
    assert_eq!(idle.line(), None, "an idle connection is closed at once");
    wait_until("the listener is closed", || {
        TcpStream::connect(("127.0.0.1", server.port)).is_err()
    });
    busy.send("llo\r\n");
    assert_eq!(busy.text(), "STORED");
    assert_eq!(busy.line(), None);
    let mut server = server;
    wait_until(
        "the process ends",
        || matches!(server.child.try_wait(), Ok(Some(status)) if status.success()),
    );
}

#[test]
fn a_stuck_request_does_not_outlive_the_deadline_or_a_second_signal() {
    let mut server = ours(&[]);
    let mut stuck = server.connect();
    stuck.send("set k 0 0 5\r\nhe");
    assert_eq!(server.connect().ask("mn"), "MN");
    server.signal(Signal::SIGTERM);
    std::thread::sleep(Duration::from_millis(300));
    assert!(
        matches!(server.child.try_wait(), Ok(None)),
        "it waits for the request"
    );
    server.signal(Signal::SIGTERM);
    wait_until("the process ends", || {
        matches!(server.child.try_wait(), Ok(Some(_)))
    });
}

#[test]
fn half_a_large_value_then_silence_is_closed_by_the_output_timeout() {
    let flags = ["--memory", "64MiB", "--http", "none"];
    let server = common::serve(&[&flags[..], &["--output-timeout-s", "1"]].concat());
    let mut silent = server.connect();
    silent.send("set k 0 0 1000000\r\nx");
    let mut idle = server.connect();
    assert_eq!(silent.line(), None, "closed without a word");
    assert_eq!(idle.ask("get k"), "END", "an idle connection is not");
}
