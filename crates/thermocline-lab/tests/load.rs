//! The traps of load generators, each a test: failed operations counted as results or rc 0; counts rounded by
//! threads or pipeline; reads of keys never inserted; queueing left out of latency, or a burst at the start;
//! hanging when connections drop.

mod fake;

use fake::{Fake, Fault};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use thermocline_lab::load::wire::Dialect;
use thermocline_lab::load::{run, LoadOptions, LoadResult};

fn options(fake: &Fake) -> LoadOptions {
    LoadOptions {
        connections: 4,
        keys: 50,
        value_size: "100".parse().unwrap(),
        requests: Some(1000),
        timeout: Duration::from_secs(5),
        ..LoadOptions::for_target(&fake.address)
    }
}

/// Runs it and fails the test if it takes longer than a stuck tool would be given.
fn within(limit: Duration, options: &LoadOptions) -> LoadResult {
    let start = Instant::now();
    let result = run(options).expect("the load runs");
    assert!(start.elapsed() < limit, "took {:?}", start.elapsed());
    result
}

#[test]
fn counts_are_exact_whatever_the_threads_and_the_pipeline() {
    for (threads, connections, pipeline, op) in [
        (1, 1, 1, Dialect::TextGet),
        (3, 5, 7, Dialect::TextGet),
        (2, 4, 16, Dialect::MultiGet),
        (1, 3, 64, Dialect::Mg),
    ] {
        let fake = Fake::start(Fault::None);
        let options = LoadOptions {
            threads,
            connections,
            pipeline,
            op: Some(op),
            requests: Some(1003),
            read_ratio: 0.8,
            ..options(&fake)
        };
        let result = within(Duration::from_secs(20), &options);
        assert_eq!(result.failures(), 0, "{:?}", result.failed);
        assert_eq!(result.completed, 1003);
        assert_eq!(result.reads + result.writes, 1003);
        assert_eq!(result.reads, fake.seen.reads.load(Ordering::SeqCst));
        assert_eq!(result.preloaded, 50);
        assert_eq!(result.writes + 50, fake.seen.writes.load(Ordering::SeqCst));
        assert_eq!(result.hits, result.reads);
    }
}

#[test]
fn refused_writes_are_failures_apart_and_the_exit_code_says_so() {
    let fake = Fake::start(Fault::RefuseWrites(10));
    let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args([
            "load",
            &fake.address,
            "--connections",
            "2",
            "--pipeline",
            "3",
        ])
        .args(["--keys", "50", "--value-size", "64", "--read-ratio", "0.5"])
        .args(["--requests", "1001", "--no-verify", "--json"])
        .output()
        .expect("thermolab runs");
    assert!(!output.status.success(), "rc 0 with refused writes");
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON on stdout");
    let point = &json["points"];
    let refused = point["failed"]["server said `SERVER_ERROR out of memory storing object`"]
        .as_u64()
        .expect("the refusal is named");
    assert!(refused > 30);
    assert_eq!(point["completed"].as_u64().unwrap() + refused, 1001);
}

#[test]
fn a_clean_run_has_exit_code_0() {
    let fake = Fake::start(Fault::None);
    let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .args(["load", &fake.address, "--keys", "20", "--requests", "200"])
        .output()
        .expect("thermolab runs");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}");
    assert!(
        text.contains("Little's law") && text.contains("200 of 200 asked for"),
        "{text}"
    );
}

#[test]
fn dropped_connections_fail_what_was_in_flight_and_the_run_ends() {
    let fake = Fake::start(Fault::DropAfterReads(10));
    let result = within(
        Duration::from_secs(20),
        &LoadOptions {
            pipeline: 4,
            ..options(&fake)
        },
    );
    let lost: u64 = result.failures();
    // A connection lives for 10 reads: of its third batch of four, two are answered and two are lost.
    assert!(
        lost > 0 && result.connections_dropped > 50,
        "{:?}",
        result.failed
    );
    assert_eq!(result.completed + lost, 1000, "{:?}", result.failed);
    assert!(
        result
            .failed
            .keys()
            .all(|why| why.contains("connection dropped")),
        "{:?}",
        result.failed
    );
}

#[test]
fn a_server_that_dies_ends_the_run_and_what_was_not_issued_is_a_failure() {
    let fake = Fake::start(Fault::DieAfterReads(100));
    let result = within(Duration::from_secs(20), &options(&fake));
    assert!(
        (90..=110).contains(&result.completed),
        "{} completed",
        result.completed
    );
    assert_eq!(
        result.completed + result.failures(),
        1000,
        "{:?}",
        result.failed
    );
    assert!(
        result
            .failed
            .keys()
            .any(|why| why.starts_with("not issued")),
        "{:?}",
        result.failed
    );
}

#[test]
fn a_silent_server_does_not_hang_the_run() {
    let fake = Fake::start(Fault::Silence);
    let timeout = Duration::from_millis(300);
    let result = within(
        Duration::from_secs(15),
        &LoadOptions {
            timeout,
            ..options(&fake)
        },
    );
    assert_eq!(result.completed, 0);
    assert!(
        result.failed.contains_key("no reply within the timeout"),
        "{:?}",
        result.failed
    );
}

#[test]
fn no_server_is_an_error() {
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = run(&LoadOptions::for_target(&format!("memcached://{closed}"))).unwrap_err();
    assert!(
        format!("{error:#}").contains("connection 1 of 16"),
        "{error:#}"
    );
}

#[test]
fn reads_of_keys_never_inserted_are_not_a_result() {
    let fake = Fake::start(Fault::None);
    let blind = LoadOptions {
        no_preload: true,
        ..options(&fake)
    };
    let result = run(&blind).unwrap();
    assert!(result.failures() > 0 && result.misses == 1000);
    let meant = run(&LoadOptions {
        allow_misses: true,
        ..blind
    })
    .unwrap();
    assert_eq!((meant.failures(), meant.hit_ratio), (0, Some(0.0)));
}

#[test]
fn misses_are_counted_in_every_dialect_and_filled_apart() {
    for op in [Dialect::TextGet, Dialect::MultiGet, Dialect::Mg] {
        let fake = Fake::start(Fault::ForgetHalf);
        let options = LoadOptions {
            op: Some(op),
            pipeline: 8,
            fill: true,
            ..options(&fake)
        };
        let result = within(Duration::from_secs(20), &options);
        assert_eq!(result.failures(), 0, "{op:?}: {:?}", result.failed);
        assert_eq!(result.hits + result.misses, 1000, "{op:?}");
        assert!(
            result.hits > 100 && result.misses > 100,
            "{op:?}: {} hits",
            result.hits
        );
        assert_eq!(
            (result.completed, result.fills),
            (1000, result.misses),
            "{op:?}"
        );
    }
}

#[test]
fn wrong_values_are_failures() {
    let fake = Fake::start(Fault::WrongValues);
    let result = run(&options(&fake)).unwrap();
    assert_eq!(result.failed["wrong value for the key"], 1000);
    assert_eq!((result.hits, result.completed), (0, 0));
}

#[test]
fn throughput_times_latency_is_what_is_in_flight() {
    let fake = Fake::start(Fault::Delay(Duration::from_millis(2)));
    let result = run(&LoadOptions {
        requests: Some(400),
        ..options(&fake)
    })
    .unwrap();
    let ratio = result.littles_law.unwrap();
    assert!((0.85..=1.05).contains(&ratio), "{ratio}");
    let mean = result.service.unwrap().mean_us;
    assert!(mean >= 2000.0, "mean {mean} µs behind a delay of 2,000");
}

#[test]
fn an_open_loop_counts_the_wait_from_the_intended_start_and_not_as_service() {
    // 500 a second on one connection; the 100th read stalls for 400 ms: some 200 starts fall into the stall.
    let fake = Fake::start(Fault::StallOnce(100, Duration::from_millis(400)));
    let options = LoadOptions {
        connections: 1,
        rate: Some(500.0),
        requests: Some(600),
        ..options(&fake)
    };
    let result = within(Duration::from_secs(20), &options);
    let (service, response) = (result.service.unwrap(), result.response.unwrap());
    assert_eq!((result.completed, result.failures()), (600, 0));
    assert!(
        response.p90_us > 200_000.0,
        "response p90 {}: the queue was left out",
        response.p90_us
    );
    assert!(
        service.p99_us < 200_000.0,
        "service p99 {}: the wait was counted as service",
        service.p99_us
    );
    assert!(service.max_us > 350_000.0 && response.max_us > 350_000.0);
}

#[test]
fn an_open_loop_keeps_its_rate_and_starts_without_a_burst() {
    let fake = Fake::start(Fault::None);
    let options = LoadOptions {
        rate: Some(1000.0),
        requests: None,
        duration: Some(Duration::from_secs(1)),
        ..options(&fake)
    };
    let result = within(Duration::from_secs(20), &options);
    assert!(
        (900..=1001).contains(&result.completed),
        "{} in 1 s at 1,000/s",
        result.completed
    );
    let times = fake.seen.read_times.lock().unwrap();
    let early = times
        .iter()
        .filter(|t| t.duration_since(times[0]) < Duration::from_millis(100))
        .count();
    assert!(early <= 150, "{early} reads in the first 100 ms at 1,000/s");
}

#[test]
fn a_rate_the_server_does_not_keep_is_a_failure() {
    let fake = Fake::start(Fault::Delay(Duration::from_millis(20)));
    let options = LoadOptions {
        connections: 1,
        rate: Some(1000.0),
        requests: None,
        duration: Some(Duration::from_millis(500)),
        ..options(&fake)
    };
    let result = within(Duration::from_secs(10), &options);
    assert!(result.completed < 60);
    assert!(
        result
            .failed
            .keys()
            .any(|why| why.contains("does not keep this rate")),
        "{:?}",
        result.failed
    );
}

#[test]
fn impossible_flags_are_refused_before_anything_is_sent() {
    let fake = Fake::start(Fault::None);
    let base = options(&fake);
    let refused = |options: LoadOptions| run(&options).unwrap_err().to_string();
    assert!(refused(LoadOptions {
        threads: 9,
        ..base.clone()
    })
    .contains("--threads"));
    assert!(refused(LoadOptions {
        read_ratio: 1.5,
        ..base.clone()
    })
    .contains("--read-ratio"));
    assert!(refused(LoadOptions {
        key_size: 3,
        ..base.clone()
    })
    .contains("--key-size"));
    assert!(refused(LoadOptions {
        syscalls: Some(1),
        ..base.clone()
    })
    .contains("--pid"));
    assert!(refused(LoadOptions {
        op: Some(Dialect::RespGet),
        ..base.clone()
    })
    .contains("--op"));
    assert_eq!(fake.seen.writes.load(Ordering::SeqCst), 0);
}
