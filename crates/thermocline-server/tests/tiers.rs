//! `thermocline tiers` and `POST /tiers`: compression is switched and trimmed while the server runs.

mod common;

use common::{free_port, our_binary, Client, PATIENCE};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A server with an admin door, ended with the test.
struct Served {
    child: Child,
    port: u16,
    admin: String,
}

impl Served {
    fn new() -> Served {
        let (port, admin) = (free_port(), format!("127.0.0.1:{}", free_port()));
        let child = Command::new(our_binary())
            .args(["serve", "--memcached", &format!("127.0.0.1:{port}")])
            .args(["--http", &admin, "--memory", "64MiB", "--threads", "1"])
            .args(["--compress", "off", "--hot-percent", "10"])
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the server starts");
        let served = Served { child, port, admin };
        let until = Instant::now() + PATIENCE;
        while TcpStream::connect(("127.0.0.1", port)).is_err()
            || TcpStream::connect(&served.admin).is_err()
        {
            assert!(Instant::now() < until, "the server does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        served
    }

    fn tiers(&self, args: &[&str]) -> Output {
        Command::new(our_binary())
            .args(["tiers", "--http", &self.admin])
            .args(args)
            .output()
            .expect("the binary runs")
    }

    /// The status line that a raw request gets.
    fn status(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(&self.admin).expect("the admin door is open");
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers");
        answer.lines().next().unwrap_or_default().to_string()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ended_already = self.child.kill();
        let _reaped_already = self.child.wait();
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fill(client: &mut Client, from: u32, count: u32) {
    for n in from..from + count {
        let value = format!("{{\"name\":\"amber {n}\",\"place\":\"fjord\"}} ").repeat(30);
        let stored = client.ask(format!("set user:{n} 0 0 {}\r\n{value}", value.len()));
        assert_eq!(stored, "STORED");
    }
}

#[test]
fn compression_is_switched_and_trimmed_from_the_command_line() {
    let server = Served::new();
    let mut client = Client::connect(server.port);
    let shown = text(&server.tiers(&[]).stdout);
    assert!(shown.starts_with("compress off, now off"), "{shown}");
    assert!(
        shown.contains("hot's share while compression is on: 10 %"),
        "{shown}"
    );
    let forced = server.tiers(&["--force", "on"]);
    assert!(
        text(&forced.stdout).starts_with("compress on, now on"),
        "{}",
        text(&forced.stderr)
    );
    let until = Instant::now() + Duration::from_secs(60);
    let mut from = 0;
    let coded = |server: &Served| {
        let page = text(&server.tiers(&["--json"]).stdout);
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        page["tier_compressed_items"].as_f64().expect("a figure")
    };
    while coded(&server) < 5000.0 {
        assert!(Instant::now() < until, "nothing is compressed");
        fill(&mut client, from, 20_000);
        from += 20_000;
    }
    let before = coded(&server);
    let trimmed = server.tiers(&["--trim-age", "0", "--trim-bytes", "4MiB"]);
    assert!(
        text(&trimmed.stdout).contains("segments were evicted"),
        "{}",
        text(&trimmed.stderr)
    );
    assert!(coded(&server) < before);
    let forced = server.tiers(&["--force", "off"]);
    assert!(
        text(&forced.stdout).starts_with("compress off, now off"),
        "{}",
        text(&forced.stderr)
    );
    assert!(!server.tiers(&["--force", "sometimes"]).status.success());
}

#[test]
fn what_is_asked_wrongly_or_by_a_browser_is_refused() {
    let server = Served::new();
    let status = |path: &str, more: &str| {
        server.status(&format!("POST {path} HTTP/1.0\r\nHost: x\r\n{more}\r\n"))
    };
    for (path, more, code) in [
        (
            "/tiers?compress=on",
            "Origin: http://example.org\r\n",
            "403",
        ),
        ("/tiers?compress=maybe", "", "400"),
        ("/tiers", "", "400"),
        ("/tiers/trim?age=x", "", "400"),
        ("/tiers/trim?age=60&bytes=many", "", "400"),
        ("/metrics", "", "405"),
        ("/tiers?compress=auto", "", "200"),
    ] {
        assert!(
            status(path, more).contains(code),
            "{path}: {}",
            status(path, more)
        );
    }
    let metrics = server.status("GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n");
    assert!(metrics.contains("200"));
}
