//! The server around the protocol: listeners, logins, stopping, listings, statistics, metrics, configuration.
//!
//! One file of short stories that share a started server; each stands by itself.

mod common;

use common::{free_port, our_binary, ours, serve_command, wait_until, Client, Running, PATIENCE};
use nix::sys::signal::Signal;
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

fn temporary(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("thermocline-{name}-{}", std::process::id()))
}

/// `thermocline serve` with these flags beside a memcached listener on a free port.
fn serve(flags: &[&str], environment: &[(&str, &str)]) -> Running {
    let port = free_port();
    let mut command = serve_command(port, &[&["--memory", "64MiB"], flags].concat());
    command.envs(environment.iter().copied());
    Running::started(command, port)
}

fn http(port: u16, path: &str) -> (u16, String) {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("the admin port answers");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    let request = format!("GET {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    let (head, body) = text.split_once("\r\n\r\n").expect("head and body");
    let status = head
        .split(' ')
        .nth(1)
        .and_then(|word| word.parse().ok())
        .expect("a status");
    (status, body.to_string())
}

#[test]
fn several_listeners_of_all_kinds_serve_the_same_cache() {
    let path = temporary("listeners.sock");
    let (other, unix) = (free_port(), format!("unix:{}", path.display()));
    let ipv6 = std::net::TcpListener::bind("[::1]:0").is_ok();
    let other_place = if ipv6 {
        format!("[::1]:{other}")
    } else {
        format!("127.0.0.1:{other}")
    };
    let server = serve(
        &[
            "--memcached",
            &other_place,
            "--memcached",
            &unix,
            "--unix-mode",
            "600",
            "--http",
            "none",
        ],
        &[],
    );
    assert_eq!(server.connect().ask("set k 0 0 5\r\nhello"), "STORED");
    let mut second = TcpStream::connect(&other_place).expect("the second listener accepts");
    let mut third = UnixStream::connect(&path).expect("the unix socket accepts");
    for stream in [&mut second as &mut dyn ReadWrite, &mut third] {
        stream.write_all(b"get k\r\n").expect("sent");
        let mut answer = [0; 25];
        stream.read_exact(&mut answer).expect("answered");
        assert_eq!(&answer, b"VALUE k 0 5\r\nhello\r\nEND\r\n");
    }
}

#[test]
fn a_unix_socket_has_its_mode_and_goes_with_the_server() {
    let path = temporary("mode.sock");
    let mut server = serve(
        &[
            "--memcached",
            &format!("unix:{}", path.display()),
            "--unix-mode",
            "640",
        ],
        &[("THERMOCLINE_HTTP", "none")],
    );
    let mode = std::fs::metadata(&path)
        .expect("the socket is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o640);
    server.signal(Signal::SIGTERM);
    assert!(server.child.wait().expect("it ends").success());
    assert!(!path.exists(), "the socket file stays behind");
}

trait ReadWrite: Read + Write {}
impl<T: Read + Write> ReadWrite for T {}

#[test]
fn a_login_is_asked_for_and_the_password_file_is_read_again() {
    let path = temporary("logins");
    std::fs::write(&path, "foo:bar\n").expect("written");
    let server = ours(&["-Y", path.to_str().expect("UTF-8")]);
    let mut client = server.connect();
    assert_eq!(client.ask("get a"), "CLIENT_ERROR unauthenticated");
    assert_eq!(
        client.ask("set x 0 0 7\r\nfoo baz"),
        "CLIENT_ERROR authentication failure"
    );
    assert_eq!(client.ask("get a"), "CLIENT_ERROR unauthenticated");
    client.send("set x 0 0 7\r\nfo");
    std::thread::sleep(Duration::from_millis(50));
    client.send("o bar\r\n");
    assert_eq!(client.text(), "STORED");
    assert_eq!(client.ask("get x"), "END", "a login is no item");
    assert_eq!(client.stat("auth_cmds"), 2);
    assert_eq!(client.stat("auth_errors"), 1);

    std::fs::write(&path, "foo:new\n").expect("written");
    server.signal(Signal::SIGHUP);
    let until = Instant::now() + PATIENCE;
    while server.connect().ask("set x 0 0 7\r\nfoo new") != "STORED" {
        assert!(Instant::now() < until, "the new password is never taken");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        server.connect().ask("set x 0 0 7\r\nfoo bar"),
        "CLIENT_ERROR authentication failure"
    );
    std::fs::write(&path, "nonsense\n").expect("written");
    server.signal(Signal::SIGHUP);
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(
        server.connect().ask("set x 0 0 7\r\nfoo new"),
        "STORED",
        "a bad file changes nothing"
    );
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn shutdown_works_when_allowed() {
    for (command, expected) in [
        ("shutdown", true),
        ("shutdown graceful", true),
        ("shutdown nosuch", false),
        ("shutdown graceful please", false),
    ] {
        let mut server = ours(&["-A"]);
        let mut client = server.connect();
        client.send(format!("{command}\r\n"));
        match expected {
            true => {
                assert_eq!(client.line(), None);
                assert!(server.child.wait().expect("it ends").success());
            }
            false => assert_eq!(client.text(), "CLIENT_ERROR invalid shutdown mode"),
        }
    }
}

#[test]
fn a_graceful_signal_of_memcached_stops_the_server() {
    for signal in [Signal::SIGINT, Signal::SIGUSR1] {
        let mut server = ours(&[]);
        assert_eq!(server.connect().ask("mn"), "MN");
        server.signal(signal);
        assert!(server.child.wait().expect("it ends").success());
    }
}

#[test]
fn a_daemon_writes_its_pid_and_stops() {
    let (port, path) = (free_port(), temporary("daemon.pid"));
    let status = Command::new(our_binary())
        .args([
            "memcached",
            "-d",
            "-l",
            "127.0.0.1",
            "-p",
            &port.to_string(),
            "-P",
        ])
        .arg(&path)
        .status()
        .expect("the binary runs");
    assert!(status.success());
    let until = Instant::now() + PATIENCE;
    let pid = loop {
        if let Ok(text) = std::fs::read_to_string(&path) {
            if let Ok(pid) = text.trim().parse::<i32>() {
                break nix::unistd::Pid::from_raw(pid);
            }
        }
        assert!(Instant::now() < until, "no pid file");
        std::thread::sleep(Duration::from_millis(10));
    };
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        assert!(Instant::now() < until, "the daemon does not listen");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!(Client::connect(port).ask("mn"), "MN");
    nix::sys::signal::kill(pid, Signal::SIGTERM).expect("it runs");
    while path.exists() {
        assert!(Instant::now() < until, "the pid file stays behind");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_binary_speaks_memcacheds_flags_under_memcacheds_name() {
    let link = temporary("dir").join("memcached");
    std::fs::create_dir_all(link.parent().expect("a parent")).expect("made");
    let _old = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(our_binary(), &link).expect("linked");
    let output = Command::new(&link).arg("-h").output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        text.contains("-s, --unix-socket") && text.contains("--enable-shutdown"),
        "{text}"
    );
    assert!(
        !text.contains("enable-ssl"),
        "what is not there is not named"
    );
    std::fs::remove_dir_all(link.parent().expect("a parent")).expect("removed");
}

#[test]
fn settings_come_from_flags_environment_and_file_in_this_order() {
    let path = temporary("settings.toml");
    std::fs::write(
        &path,
        "memory = \"100MiB\"\nthreads = 3\nconnections_max = 7\n",
    )
    .expect("written");
    let output = Command::new(our_binary())
        .args(["serve", "--print-config", "--memory", "300MiB"])
        .env("THERMOCLINE_CONFIG", &path)
        .env("THERMOCLINE_MEMORY", "200MiB")
        .env("THERMOCLINE_THREADS", "5")
        .env_remove("THERMOCLINE_TEST_VENV")
        .output()
        .expect("the binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success());
    for line in [
        "memory = \"300MiB\"",
        "threads = 5",
        "connections_max = 7",
        "key_size_max = 250",
    ] {
        assert!(
            text.lines().any(|other| other == line),
            "{line} is not in\n{text}"
        );
    }
    std::fs::remove_file(path).expect("removed");
}

#[test]
fn keys_can_be_dumped() {
    let server = ours(&[]);
    let mut client = server.connect();
    for number in 0..5000 {
        client.send(format!(
            "set key%{number} 3 {} 4 noreply\r\nabcd\r\n",
            1000 * (number % 2)
        ));
    }
    client.send("lru_crawler metadump all\r\n");
    assert_eq!(client.text(), "OK");
    let mut keys = HashSet::new();
    loop {
        let line = client.text();
        if line == "END" {
            break;
        }
        let key = line
            .strip_prefix("key=key%25")
            .expect(&line)
            .split(' ')
            .next()
            .expect("a key")
            .to_string();
        assert!(
            line.contains(" exp=") && line.contains(" cas=") && line.contains(" size="),
            "{line}"
        );
        assert!(keys.insert(key), "{line} came twice");
    }
    assert_eq!(keys.len(), 5000);
    client.send("lru_crawler mgdump all\r\n");
    assert_eq!(client.text(), "OK");
    let mut count = 0;
    while let Some(line) = client.line() {
        if line == b"EN" {
            break;
        }
        assert!(line.starts_with(b"mg key%"));
        count += 1;
    }
    assert_eq!(count, 5000);
    client.send("stats cachedump 1 10\r\n");
    for _ in 0..10 {
        assert!(client.text().starts_with("ITEM key%"));
    }
    assert_eq!(client.text(), "END");
    let server = ours(&["-X"]);
    assert_eq!(
        server.connect().ask("lru_crawler metadump all"),
        "ERROR metadump not allowed"
    );
}

#[test]
fn a_dump_nobody_reads_stops_nobody() {
    let server = ours(&["-t", "1"]);
    let mut client = server.connect();
    for number in 0..100_000 {
        client.send(format!(
            "set a_rather_long_key_name_{number} 0 0 1 noreply\r\na\r\n"
        ));
    }
    assert_eq!(client.ask("mn"), "MN");
    let mut sleepy = server.connect();
    sleepy.send("lru_crawler metadump all\r\n");
    for _ in 0..100 {
        assert_eq!(client.ask("mn"), "MN");
    }
    let mut lines = 0;
    while sleepy.text() != "END" {
        lines += 1;
    }
    assert_eq!(lines, 100_001, "OK and every key");
}

/// What Prometheus' exporter for memcached and memcached-tool read beside the general figures.
const NAMES_OF: &[(&str, &[&str])] = &[
    (
        "settings",
        &[
            "maxbytes",
            "maxconns",
            "tcpport",
            "evictions",
            "growth_factor",
            "chunk_size",
            "num_threads",
            "item_size_max",
            "lru_crawler",
            "lru_maintainer_thread",
        ],
    ),
    (
        "items",
        &[
            "items:1:number",
            "items:1:number_hot",
            "items:1:number_warm",
            "items:1:number_cold",
            "items:1:age",
            "items:1:mem_requested",
            "items:1:evicted",
            "items:1:evicted_nonzero",
            "items:1:evicted_time",
            "items:1:evicted_unfetched",
            "items:1:expired_unfetched",
            "items:1:outofmemory",
            "items:1:tailrepairs",
            "items:1:reclaimed",
            "items:1:crawler_reclaimed",
            "items:1:crawler_items_checked",
            "items:1:lrutail_reflocked",
            "items:1:moves_to_cold",
            "items:1:moves_to_warm",
            "items:1:moves_within_lru",
            "items:1:direct_reclaims",
        ],
    ),
    (
        "slabs",
        &[
            "1:chunk_size",
            "1:chunks_per_page",
            "1:total_pages",
            "1:total_chunks",
            "1:used_chunks",
            "1:free_chunks",
            "1:free_chunks_end",
            "1:get_hits",
            "1:cmd_set",
            "1:delete_hits",
            "1:incr_hits",
            "1:decr_hits",
            "1:cas_hits",
            "1:cas_badval",
            "1:touch_hits",
            "active_slabs",
            "total_malloced",
        ],
    ),
];

#[test]
fn the_names_exporters_read_are_there() {
    let server = ours(&[]);
    let mut client = server.connect();
    assert_eq!(client.ask("set k 0 0 1\r\na"), "STORED");
    let general: Vec<String> = client.stats("").into_iter().map(|(name, _)| name).collect();
    for name in include_str!("stats_names.txt").lines() {
        assert!(
            general.iter().any(|other| other == name),
            "stats lacks {name}"
        );
    }
    assert_eq!(
        general.len(),
        general.iter().collect::<HashSet<_>>().len(),
        "a name comes twice"
    );
    for (of, names) in NAMES_OF {
        let lines = client.stats(of);
        for name in *names {
            assert!(
                lines.iter().any(|(other, _)| other == name),
                "stats {of} lacks {name}"
            );
        }
    }
    let items = client.stats("items");
    assert!(items.contains(&("items:1:number".into(), "1".into())));
    let connections = client.stats("conns");
    let listener = format!("tcp:127.0.0.1:{}", server.port);
    assert_eq!(connections[0], ("l0:addr".into(), listener));
    assert!(connections.iter().any(|(_, value)| value == "conn_read"));
    assert!(connections
        .iter()
        .any(|(name, _)| name.ends_with(":listen_addr")));
}

#[test]
fn counts_are_right_and_can_be_reset() {
    let server = ours(&[]);
    let mut client = server.connect();
    client.ask("set k 0 0 1\r\n1");
    client.ask("incr k 1");
    client.ask("get miss");
    client.send("get k k k\r\n");
    (0..7).for_each(|_| drop(client.text()));
    client.ask("delete k");
    client.ask("delete k");
    client.ask("touch k 1");
    for (name, value) in [
        ("cmd_set", 1),
        ("cmd_get", 4),
        ("get_hits", 3),
        ("get_misses", 1),
        ("incr_hits", 1),
        ("delete_hits", 1),
        ("delete_misses", 1),
        ("touch_misses", 1),
        ("curr_connections", 1),
    ] {
        assert_eq!(client.stat(name), value, "{name}");
    }
    // So long that it is streamed in.
    let value = "x".repeat(100_000);
    assert_eq!(client.ask(format!("ms long 100000\r\n{value}")), "HD");
    assert_eq!(client.stat("cmd_meta"), 1);
    assert_eq!(client.ask("stats reset"), "RESET");
    assert_eq!(client.stat("cmd_get"), 0);
    assert_eq!(client.stat("get_hits"), 0);
}

#[test]
fn prefixes_are_counted_when_asked() {
    let server = ours(&["-D", "/"]);
    let mut client = server.connect();
    client.ask("set a/1 0 0 1\r\nx");
    client.ask("get a/2");
    client.ask("delete a/1");
    assert_eq!(
        client.ask("stats detail dump"),
        "PREFIX a get 1 hit 0 set 1 del 1"
    );
    assert_eq!(client.text(), "END");
}

#[test]
fn big_and_hot_keys_are_listed() {
    let admin = free_port();
    let server = serve(&["--http", &format!("127.0.0.1:{admin}")], &[]);
    let mut client = server.connect();
    for (key, bytes) in [("small", 10), ("large", 50_000), ("larger", 60_000)] {
        assert_eq!(
            client.ask(format!("set {key} 0 0 {bytes}\r\n{}", "x".repeat(bytes))),
            "STORED"
        );
    }
    client.send(b"get small\r\n".repeat(20_000));
    (0..60_000).for_each(|_| drop(client.line()));
    let big = client.stats("bigkeys 2");
    assert_eq!(
        big,
        [
            ("larger".to_string(), "60000".to_string()),
            ("large".to_string(), "50000".to_string())
        ]
    );
    assert_eq!(client.ask("delete larger"), "DELETED");
    assert_eq!(client.stats("bigkeys")[0].0, "large");
    assert_eq!(client.stats("hotkeys 1")[0].0, "small");
    let (status, text) = http(admin, "/keys/big?n=1");
    assert!(
        status == 200 && text.contains("large") && text.contains("50000"),
        "{text}"
    );
    let (status, text) = http(admin, "/keys/hot");
    assert!(status == 200 && text.contains("small"), "{text}");
    for wrong in ["stats hotkeys x", "stats bigkeys -1"] {
        assert_eq!(client.ask(wrong), "CLIENT_ERROR bad command line format");
    }
    assert_eq!(http(admin, "/keys/hot?n=x").0, 400);
    assert_eq!(http(admin, "/keys/big?n=").0, 400);
}

#[test]
fn the_admin_door_answers() {
    let admin = free_port();
    let server = serve(&["--http", &format!("127.0.0.1:{admin}")], &[]);
    assert_eq!(server.connect().ask("set k 0 0 1\r\na"), "STORED");
    assert_eq!(http(admin, "/healthz"), (200, "ok\n".into()));
    assert_eq!(http(admin, "/readyz"), (200, "ready\n".into()));
    assert_eq!(http(admin, "/nosuch").0, 404);
    let (status, text) = http(admin, "/metrics");
    assert_eq!(status, 200);
    let mut names = HashSet::new();
    for line in text.lines() {
        match line.strip_prefix("# ") {
            Some(comment) => {
                let words: Vec<&str> = comment.splitn(3, ' ').collect();
                assert!(
                    words.len() == 3 && words[1].starts_with("thermocline_"),
                    "{line}"
                );
            }
            None => {
                let (name, value) = line.split_once(' ').expect("name and value");
                assert!(
                    name.starts_with("thermocline_") && value.parse::<f64>().is_ok(),
                    "{line}"
                );
                assert!(names.insert(name.to_string()), "{name} comes twice");
            }
        }
    }
    for name in [
        "thermocline_cache_items",
        "thermocline_command_get_hits_total",
        "thermocline_connections_open",
        "thermocline_memory_limit_bytes",
        "thermocline_process_resident_peak_bytes",
        "thermocline_reclaim_workingset_refault_total",
    ] {
        assert!(names.contains(name), "no {name}");
    }
    let (status, text) = http(admin, "/stats");
    assert!(
        status == 200 && text.contains("\"curr_items\": 1") && text.contains("\"buffer_pool\""),
        "{text}"
    );
    assert!(text.contains("\"cache_items\": 1,"), "a count: {text}");
}

#[test]
fn readiness_ends_with_the_drain() {
    let admin = free_port();
    let server = serve(&["--http", &format!("127.0.0.1:{admin}")], &[]);
    let mut stuck = server.connect();
    stuck.send("set k 0 0 5\r\nhe");
    assert_eq!(server.connect().ask("mn"), "MN");
    server.signal(Signal::SIGTERM);
    let until = Instant::now() + PATIENCE;
    while http(admin, "/readyz").0 != 503 {
        assert!(Instant::now() < until, "ready for ever");
    }
    assert_eq!(http(admin, "/healthz").0, 200);
    stuck.send("llo\r\n");
    assert_eq!(stuck.text(), "STORED");
}

#[test]
fn large_values_stream_in_and_out_whole() {
    let server = ours(&["-m", "256", "-I", "32m"]);
    let mut client = server.connect();
    let mut word = 1u64;
    let mut value: Vec<u8> = Vec::new();
    while value.len() < 8 << 20 {
        word = word.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        value.extend_from_slice(&word.to_be_bytes());
    }
    for (number, bytes) in [65_535, 65_536, 65_537, 200_000, 1 << 20, 3_333_333, 8 << 20]
        .into_iter()
        .enumerate()
    {
        client.send(format!("set big{number} 7 0 {bytes}\r\n"));
        for part in value[..bytes].chunks(50_001) {
            client.send(part);
        }
        client.send("\r\n");
        assert_eq!(client.text(), "STORED", "{bytes}");
        client.send(format!("get big{number} big{number}\r\n"));
        for _ in 0..2 {
            assert_eq!(client.text(), format!("VALUE big{number} 7 {bytes}"));
            assert!(
                client.exact(bytes) == value[..bytes],
                "{bytes} bytes came back different"
            );
            assert_eq!(client.text(), "");
        }
        assert_eq!(client.text(), "END");
    }
    client.send(format!("ms bigms {} T100 c k\r\n", 500_000));
    client.send(&value[..500_000]);
    client.send("\r\n");
    let answer = client.text();
    assert!(
        answer.starts_with("HD c") && answer.ends_with(" kbigms"),
        "{answer}"
    );
    client.send(format!("append bigms 0 0 {}\r\n", 300_000));
    client.send(&value[500_000..800_000]);
    client.send("\r\n");
    assert_eq!(client.text(), "STORED");
    client.send("mg bigms s v\r\n");
    assert_eq!(client.text(), "VA 800000 s800000");
    assert!(client.exact(800_000) == value[..800_000]);
    assert_eq!(client.text(), "");
    client.send(format!("ms YmlnYjY0 {} b k\r\n", 300_000));
    client.send(&value[..300_000]);
    client.send("\r\n");
    assert_eq!(client.text(), "HD kYmlnYjY0 b");
    client.send("mg bigb64 s\r\n");
    assert_eq!(client.text(), "HD s300000");
    client.send(format!("append bigb64 0 0 {}\r\n", 9_000_000));
    client.send(&value[..]);
    client.send(&value[..9_000_000 - value.len()]);
    client.send("\r\n");
    assert_eq!(client.text(), "SERVER_ERROR out of memory storing object");
    client.send(format!("set bigbad 0 0 {}\r\n", 300_000));
    client.send(&value[..300_000]);
    client.send("xx");
    assert_eq!(client.text(), "CLIENT_ERROR bad data chunk");
    assert_eq!(client.ask("get bigbad"), "END");
}

#[test]
fn keys_beyond_250_bytes_are_taken_when_asked_for() {
    let server = serve(&["--key-size-max", "4000", "--http", "none"], &[]);
    let mut client = server.connect();
    let key = "k".repeat(4000);
    assert_eq!(client.ask(format!("set {key} 0 0 1\r\na")), "STORED");
    assert_eq!(client.ask(format!("get {key}")), format!("VALUE {key} 0 1"));
    assert_eq!((client.text(), client.text()), ("a".into(), "END".into()));
    assert_eq!(
        client.ask(format!("get {key}k")),
        "CLIENT_ERROR bad command line format"
    );
}

#[test]
fn keys_per_request_have_a_limit() {
    let server = serve(&["--keys-per-request-max", "100", "--http", "none"], &[]);
    let mut client = server.connect();
    assert_eq!(client.ask(format!("get {}", "k ".repeat(100))), "END");
    assert_eq!(
        client.ask(format!("get {}", "k ".repeat(101))),
        "CLIENT_ERROR too many keys in one request"
    );
}

#[test]
fn a_many_key_get_with_large_values_is_answered_in_order() {
    let server = ours(&["-m", "128"]);
    let mut client = server.connect();
    let value = |number: usize| format!("{number:04}").repeat(5000);
    for number in 0..50 {
        assert_eq!(
            client.ask(format!("set k{number} 0 0 20000\r\n{}", value(number))),
            "STORED"
        );
    }
    // More output than any buffer takes: the list is interrupted and continued many times.
    let keys: Vec<String> = (0..2000)
        .map(|number| format!("k{}", number % 60))
        .collect();
    client.send(format!(
        "gats 100 {}\r\nget {}\r\nmn\r\n",
        keys.join(" "),
        keys.join(" ")
    ));
    for _ in 0..2 {
        for number in (0..2000)
            .map(|number| number % 60)
            .filter(|number| *number < 50)
        {
            assert!(client
                .text()
                .starts_with(&format!("VALUE k{number} 0 20000")));
            assert!(client.text() == value(number));
        }
        assert_eq!(client.text(), "END");
    }
    assert_eq!(client.text(), "MN");
}

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
fn memory_can_be_changed_while_it_runs() {
    let server = ours(&["-m", "128"]);
    let mut client = server.connect();
    assert_eq!(client.stat("limit_maxbytes"), 128 << 20);
    assert_eq!(client.ask("cache_memlimit 200"), "OK");
    assert_eq!(client.stat("limit_maxbytes"), 200 << 20);
    let value = "x".repeat(100_000);
    for number in 0..1500 {
        client.ask(format!("set k{number} 0 0 100000\r\n{value}"));
    }
    // The later line says the same and is no bother.
    assert_eq!(client.ask("cache_memlimit 96"), "OK");
    assert_eq!(client.ask("cache_memlimit 96"), "OK");
    assert_eq!(client.stat("limit_maxbytes"), 96 << 20);
    let until = Instant::now() + PATIENCE;
    while client.stat("bytes") > 90 << 20 {
        assert!(Instant::now() < until, "it does not shrink");
    }
    assert!(client
        .ask("cache_memlimit 100000")
        .starts_with("MEMLIMIT_ADJUST_FAILED"));
}

#[test]
fn without_eviction_a_full_cache_refuses() {
    let server = ours(&["-M", "-m", "64"]);
    let mut client = server.connect();
    let value = "x".repeat(100_000);
    let refused = (0..2000).find_map(|number| {
        let answer = client.ask(format!("set k{number} 0 0 100000\r\n{value}"));
        (answer != "STORED").then_some((number, answer))
    });
    let (number, answer) = refused.expect("a full cache");
    assert_eq!(answer, "SERVER_ERROR out of memory storing object");
    assert!(number > 100, "refused after {number}");
    assert_eq!(client.ask("get k0"), "VALUE k0 0 100000");
    client.exact(100_002);
    assert_eq!(client.text(), "END");
    assert_eq!(client.stat("evictions"), 0);
}

#[test]
fn flush_and_watch_can_be_forbidden() {
    let server = ours(&["-F", "-W"]);
    let mut client = server.connect();
    assert_eq!(
        client.ask("flush_all"),
        "CLIENT_ERROR flush_all not allowed"
    );
    assert_eq!(
        client.ask("watch"),
        "CLIENT_ERROR watch commands not allowed"
    );
    let server = ours(&[]);
    assert_eq!(server.connect().ask("watch fetchers"), "OK");
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

#[test]
fn the_banner_says_what_was_got_in_text_or_json() {
    for format in ["text", "json"] {
        let port = free_port();
        let flags = ["--memory", "64MiB", "--threads", "1", "--http", "none"];
        let flags = [&flags[..], &["--log-format", format]].concat();
        let running = Running::started(serve_command(port, &flags), port);
        let mut lines = Vec::new();
        wait_until("the banner is there", || {
            lines = running.log.text().lines().map(String::from).collect();
            lines.len() >= 6
        });
        lines.truncate(6);
        let text = lines.join("\n");
        for part in [
            "64.0 MiB",
            " resident on huge pages (",
            &format!("127.0.0.1:{port}"),
            "1 event loop,",
            "http off",
        ] {
            assert!(text.contains(part), "no {part} in\n{text}");
        }
        if format == "json" {
            for line in &lines {
                let value: serde_json::Value = serde_json::from_str(line).expect("JSON");
                assert!(
                    value["level"] == "INFO" && value["message"].is_string(),
                    "{line}"
                );
            }
        }
        drop(running);
    }
}

#[test]
fn a_budget_beyond_what_there_is_is_warned_of() {
    let port = free_port();
    let flags = ["--memory", "1TiB", "--memory-max", "1TiB", "--http", "none"];
    let running = Running::started(serve_command(port, &flags), port);
    wait_until("it is warned of", || {
        let text = running.log.text();
        text.contains("memory = 1048576 MiB is more than")
    });
}

#[test]
fn the_service_manager_is_told() {
    let path = temporary("notify.sock");
    let _old = std::fs::remove_file(&path);
    let socket = std::os::unix::net::UnixDatagram::bind(&path).expect("a notify socket");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let hear = || {
        let mut part = [0; 512];
        let count = socket.recv(&mut part).expect("a message");
        String::from_utf8_lossy(&part[..count]).into_owned()
    };
    let server = serve(
        &["--http", "none"],
        &[("NOTIFY_SOCKET", path.to_str().expect("UTF-8"))],
    );
    assert!(hear().contains("READY=1"));
    server.signal(Signal::SIGHUP);
    assert!(hear().contains("RELOADING=1"));
    assert!(hear().contains("READY=1"));
    server.signal(Signal::SIGTERM);
    assert!(hear().contains("STOPPING=1"));
    std::fs::remove_file(path).expect("removed");
}
