//! `thermocline tiers` and `POST /tiers`: compression is switched and trimmed while the server runs.

mod common;

use common::served::Served;
use common::Client;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What a raw request to the admin door gets.
fn answer(server: &Served, request: &str) -> String {
    let mut stream = TcpStream::connect(&server.admin).expect("the admin door is open");
    stream.write_all(request.as_bytes()).expect("it listens");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    answer
}

/// Its first line.
fn status_line(server: &Served, request: &str) -> String {
    let answer = answer(server, request);
    answer.lines().next().unwrap_or_default().to_string()
}

/// A figure of the tiers: from `/metrics`, where a counter ends in `_total`, and from memcached's `stats tiers`, where it does not.
fn figures(server: &Served, client: &mut Client, name: &str) -> [f64; 2] {
    let page = answer(server, "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n");
    let metric = format!("thermocline_{name} ");
    let of_page = page.lines().find_map(|line| line.strip_prefix(&metric));
    let row = name.strip_suffix("_total").unwrap_or(name);
    let lines = client.stats("tiers");
    let of_stats = lines.iter().find(|(is, _)| is == row);
    [of_page, of_stats.map(|(_, value)| value.as_str())]
        .map(|shown| shown.unwrap_or_else(|| panic!("no {name}")))
        .map(|shown| shown.trim().parse().expect("a number"))
}

/// Stores values that `value` makes until `name` is at least `least` in both places.
fn fill_until(server: &Served, name: &str, least: f64, value: impl Fn(u32) -> String) {
    let mut client = server.running.connect();
    let start = figures(server, &mut client, name);
    assert_eq!(start, [0.0; 2], "{name} of an empty cache");
    let until = Instant::now() + Duration::from_secs(60);
    for n in 0.. {
        if n % 2_000 == 0 {
            let now = figures(server, &mut client, name);
            if now.iter().all(|&figure| figure >= least) {
                return;
            }
            assert!(Instant::now() < until, "{name} is {now:?} of {least}");
        }
        let value = value(n);
        let stored = client.ask(format!("set user:{n} 0 0 {}\r\n{value}", value.len()));
        assert_eq!(stored, "STORED");
    }
}

fn wordy(n: u32) -> String {
    format!("{{\"name\":\"amber {n}\",\"place\":\"fjord\"}} ").repeat(30)
}

/// So many bytes of noise, then so many of one byte: coded it takes a little more than the noise.
fn noisy(n: u32, noise_bytes: usize, plain_bytes: usize) -> String {
    let mut state = u64::from(n).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let noise = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        char::from(b'!' + (state >> 33) as u8 % 90)
    });
    noise
        .take(noise_bytes)
        .chain(std::iter::repeat_n('.', plain_bytes))
        .collect()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fill(client: &mut Client, from: u32, count: u32) {
    for n in from..from + count {
        let value = wordy(n);
        let stored = client.ask(format!("set user:{n} 0 0 {}\r\n{value}", value.len()));
        assert_eq!(stored, "STORED");
    }
}

/// Nobody who starts a server knows what their values gain; but memory kept for the next one would lose its dictionaries.
#[test]
fn a_server_compresses_where_it_pays_unless_its_memory_is_kept() {
    let shown = |flags: &[&str]| text(&Served::new(flags).ask("tiers", &[]).stdout);
    let usual = shown(&[]);
    assert!(usual.starts_with("compress auto, now off"), "{usual}");
    let directory =
        std::path::Path::new("/dev/shm").join(format!("thermocline-tiers-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory");
    let path = directory.to_str().expect("plain");
    let kept = shown(&["--page-mode", "shmem", "--memory-dir", path]);
    std::fs::remove_dir_all(&directory).expect("it is ours");
    assert!(kept.starts_with("compress off, now off"), "{kept}");
}

#[test]
fn compression_is_switched_and_trimmed_from_the_command_line() {
    let server = Served::new(&["--compress", "off", "--hot-percent", "10"]);
    let mut client = server.running.connect();
    let shown = text(&server.ask("tiers", &[]).stdout);
    assert!(shown.starts_with("compress off, now off"), "{shown}");
    assert!(
        shown.contains("hot's share while compression is on: 10 %"),
        "{shown}"
    );
    let forced = server.ask("tiers", &["--force", "on"]);
    assert!(
        text(&forced.stdout).starts_with("compress on, now on"),
        "{}",
        text(&forced.stderr)
    );
    let until = Instant::now() + Duration::from_secs(60);
    let mut from = 0;
    let coded = |server: &Served| {
        let page = text(&server.ask("tiers", &["--json"]).stdout);
        let page: serde_json::Value = serde_json::from_str(&page).expect("JSON");
        page["tier_compressed_items"].as_f64().expect("a figure")
    };
    while coded(&server) < 5000.0 {
        assert!(Instant::now() < until, "nothing is compressed");
        fill(&mut client, from, 20_000);
        from += 20_000;
    }
    let lines = client.stats("tiers");
    let line = |name: &str| {
        lines
            .iter()
            .find(|(is, _)| is == name)
            .map(|(_, value)| value.as_str())
    };
    assert_eq!(line("tier_mode"), Some("on"));
    let demoted: u64 = line("tier_demoted")
        .expect("a counter")
        .parse()
        .expect("a number");
    assert!(demoted >= 5000, "{demoted}");
    let before = coded(&server);
    let trimmed = server.ask("tiers", &["--trim-age", "0", "--trim-bytes", "4MiB"]);
    assert!(
        text(&trimmed.stdout).contains("segments were evicted"),
        "{}",
        text(&trimmed.stderr)
    );
    assert!(coded(&server) < before);
    let forced = server.ask("tiers", &["--force", "off"]);
    assert!(
        text(&forced.stdout).starts_with("compress off, now off"),
        "{}",
        text(&forced.stderr)
    );
    assert!(!server
        .ask("tiers", &["--force", "sometimes"])
        .status
        .success());
}

/// A cache that is filled beyond its memory: first it is warned of, then the compressed tier is full, and things leave.
#[test]
fn pressure_and_what_it_comes_of_are_shown_as_they_happen() {
    for (name, least) in [
        ("tier_early_warnings_total", 1.0),
        ("tier_pool_limit_hit_total", 1.0),
        ("tier_pressure", 2.0),
    ] {
        let server = Served::new(&["--compress", "on"]);
        fill_until(&server, name, least, |n| noisy(n, 2_400, 2_400));
    }
}

#[test]
fn values_refused_while_the_mean_is_poor_are_counted_where_they_are_shown() {
    let server = Served::new(&["--compress", "on"]);
    let name = "tier_mean_compress_poor_total";
    // Above 5/8 and below 7/8.
    fill_until(&server, name, 1.0, |n| noisy(n, 450, 150));
}

#[test]
fn what_is_asked_wrongly_or_by_a_browser_is_refused() {
    let server = Served::new(&["--compress", "off", "--hot-percent", "10"]);
    let status = |path: &str, more: &str| {
        status_line(
            &server,
            &format!("POST {path} HTTP/1.0\r\nHost: x\r\n{more}\r\n"),
        )
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
    let metrics = status_line(&server, "GET /metrics HTTP/1.0\r\nHost: x\r\n\r\n");
    assert!(metrics.contains("200"));
}
