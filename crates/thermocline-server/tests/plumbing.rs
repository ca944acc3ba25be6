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
