//! The client against a server small enough to misbehave on purpose.

use super::*;
use crate::subject::{read_subject, Answer, Outcomes};
use crate::workload::{key_into, Batch, Kind, Op};
use serde_json::json;
use std::collections::HashMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Instant;

/// What the server holds, and how many lines asked for keys.
#[derive(Default)]
struct Held {
    values: HashMap<String, Vec<u8>>,
    get_lines: usize,
}

type Map = Arc<Mutex<Held>>;

/// Closes each connection after `drop_after` requests; answers nothing at all if `is_silent`.
fn fake(drop_after: usize, is_silent: bool) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("memcached://{}", listener.local_addr().unwrap());
    let map = Map::default();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let map = map.clone();
            std::thread::spawn(move || serve(stream, &map, drop_after, is_silent));
        }
    });
    address
}

fn serve(stream: TcpStream, map: &Map, drop_after: usize, is_silent: bool) -> Option<()> {
    let mut input = BufReader::new(stream.try_clone().ok()?);
    let mut output = stream;
    for _ in 0..drop_after {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let words: Vec<&str> = line.split_whitespace().collect();
        let (verb, key) = (words[0], words.get(1).copied().unwrap_or_default());
        let mut held = map.lock().unwrap();
        held.get_lines += usize::from(matches!(verb, "get" | "mg"));
        let get_lines = held.get_lines;
        let map = &mut held.values;
        let is_meta = verb.starts_with('m');
        let reply = match verb {
            "mg" => match map.get(key) {
                Some(value) => {
                    [format!("VA {}\r\n", value.len()).as_bytes(), value, b"\r\n"].concat()
                }
                None => b"EN\r\n".to_vec(),
            },
            "get" => {
                let mut reply = Vec::new();
                for (key, value) in words[1..].iter().filter_map(|key| map.get_key_value(*key)) {
                    reply.extend(format!("VALUE {key} 0 {}\r\n", value.len()).bytes());
                    reply.extend(value);
                    reply.extend(b"\r\n");
                }
                [&reply[..], b"END\r\n"].concat()
            }
            "delete" | "md" => match (map.remove(key).is_some(), is_meta) {
                (true, false) => b"DELETED\r\n".to_vec(),
                (true, true) => b"HD\r\n".to_vec(),
                (false, false) => b"NOT_FOUND\r\n".to_vec(),
                (false, true) => b"NF\r\n".to_vec(),
            },
            "stats" => {
                let items = map.len();
                format!("STAT curr_items {items}\r\nSTAT cmd_get {get_lines}\r\nSTAT version x\r\nEND\r\n")
                    .into_bytes()
            }
            _ => {
                let bytes: usize = words[if is_meta { 2 } else { 4 }].parse().ok()?;
                let mut value = vec![0; bytes + 2];
                input.read_exact(&mut value).ok()?;
                value.truncate(bytes);
                let mode = words.get(3).filter(|_| is_meta).copied().unwrap_or(verb);
                let may = match mode {
                    "add" | "ME" => !map.contains_key(key),
                    "replace" | "MR" => map.contains_key(key),
                    _ => true,
                };
                if bytes == 77 {
                    b"SERVER_ERROR object too large for cache\r\n".to_vec()
                } else if may {
                    map.insert(key.to_string(), value);
                    if is_meta {
                        b"HD\r\n".to_vec()
                    } else {
                        b"STORED\r\n".to_vec()
                    }
                } else if is_meta {
                    b"NS\r\n".to_vec()
                } else {
                    b"NOT_STORED\r\n".to_vec()
                }
            }
        };
        if !is_silent {
            output.write_all(&reply).ok()?;
        }
    }
    None
}

fn start(mut values: Value, address: &str) -> Box<dyn Subject> {
    values["kind"] = "memcached".into();
    values["address"] = address.into();
    let recipe = read_subject(serde_json::from_value(values).unwrap()).unwrap();
    recipe
        .start(&StartContext {
            workers: 1,
            value_bytes_max: 1000,
            items: 100,
            item_bytes: 100.0,
            is_stamped: true,
            seed: 1,
            scratch: std::env::temp_dir(),
            members: Vec::new(),
        })
        .unwrap()
}

fn apply(subject: &dyn Subject, ops: &[Op]) -> (Result<()>, Outcomes) {
    let mut batch = Batch::default();
    for op in ops {
        batch.push(*op, 16, |key| key_into(op.id, key));
    }
    let mut outcomes = Outcomes::new(Instant::now());
    outcomes.reset(batch.len());
    let mut worker = subject.worker(0).unwrap();
    let result = worker.apply(&batch, &mut outcomes);
    (result, outcomes)
}

fn answers(outcomes: &Outcomes) -> Vec<Answer> {
    outcomes.all.iter().map(|outcome| outcome.answer).collect()
}

#[test]
fn every_kind_is_answered_in_each_protocol() {
    for protocol in ["text", "multi-get", "meta"] {
        let address = fake(usize::MAX, false);
        let settings = json!({ "protocol": protocol, "connections": 1, "update": "replace" });
        let subject = start(settings, &address);
        let op = |kind, id| Op::new(kind, id, 50);
        let (result, outcomes) = apply(
            subject.as_ref(),
            &[
                op(Kind::Update, 9),
                op(Kind::Write, 1),
                op(Kind::Read, 1),
                op(Kind::Add, 1),
                op(Kind::Add, 2),
                op(Kind::Delete, 2),
                op(Kind::Delete, 2),
                op(Kind::Read, 3),
                op(Kind::Read, 3),
                op(Kind::ReadModifyWrite, 4),
                op(Kind::ReadModifyWrite, 4),
                op(Kind::Scan, 1),
                Op::new(Kind::Write, 5, 77),
                Op::new(Kind::Read, 1, 51),
            ],
        );
        result.unwrap();
        use Answer::*;
        assert_eq!(
            answers(&outcomes),
            [
                NotStored, Stored, Hit, NotStored, Stored, Stored, NotStored, Miss, Hit, Miss, Hit,
                Failed, Refused, Wrong
            ],
            "{protocol}"
        );
        assert_eq!(outcomes.fills, 1, "the first read of 3");
        let counters = subject.counters();
        assert_eq!(counters["server_cmd_get_total"], 6.0);
        assert_eq!(counters["server_curr_items"], 3.0);
    }
}

#[test]
fn pipelines_over_several_connections_settle_each_operation_once() {
    for (protocol, get_lines) in [("text", 500.0), ("multi-get", 72.0)] {
        settle_each_operation_once(protocol, get_lines);
    }
}

fn settle_each_operation_once(protocol: &str, get_lines: f64) {
    let address = fake(usize::MAX, false);
    let settings = json!({ "protocol": protocol, "connections": 3, "pipeline": 7, "fill": false });
    let subject = start(settings, &address);
    let ops: Vec<Op> = (0..1000)
        .map(|index| {
            let kind = if index < 500 { Kind::Write } else { Kind::Read };
            Op::new(kind, index % 500, 8 + (index % 500) as u32)
        })
        .collect();
    let (result, outcomes) = apply(subject.as_ref(), &ops[..500]);
    result.unwrap();
    // One of the sizes is refused by the fake.
    let stored = answers(&outcomes)
        .iter()
        .filter(|a| **a == Answer::Stored)
        .count();
    assert_eq!(stored, 499);
    let (result, outcomes) = apply(subject.as_ref(), &ops[500..]);
    result.unwrap();
    let hits = answers(&outcomes)
        .iter()
        .filter(|a| **a == Answer::Hit)
        .count();
    assert_eq!((hits, outcomes.fills), (499, 0));
    assert_eq!(subject.counters()["server_cmd_get_total"], get_lines);
    assert!(outcomes
        .all
        .iter()
        .all(|o| o.answer == Answer::Refused || o.service_ns > 0));
}

#[test]
fn the_reads_of_a_pipeline_are_one_line_that_ends_before_a_write() {
    let address = fake(usize::MAX, false);
    let settings =
        json!({ "protocol": "multi-get", "connections": 1, "pipeline": 100, "fill": false });
    let subject = start(settings, &address);
    let ops: Vec<Op> = (0..500)
        .map(|id| Op::new(Kind::Write, id, 8 + id as u32 % 60))
        .collect();
    apply(subject.as_ref(), &ops).0.unwrap();
    let ops: Vec<Op> = (0..500)
        .map(|id| {
            // Every 50th is a write, every 10th a key that is not there, and the length tells one key's value from another's.
            let (kind, id) = match id {
                _ if id % 50 == 49 => (Kind::Write, id),
                _ if id % 10 == 3 => (Kind::Read, id + 1000),
                _ => (Kind::Read, id),
            };
            Op::new(kind, id, 8 + id as u32 % 60)
        })
        .collect();
    let (result, outcomes) = apply(subject.as_ref(), &ops);
    result.unwrap();
    let wanted = |op: &Op| match (op.kind, op.id) {
        (Kind::Write, _) => Answer::Stored,
        (_, 1000..) => Answer::Miss,
        _ => Answer::Hit,
    };
    assert_eq!(
        answers(&outcomes),
        ops.iter().map(wanted).collect::<Vec<_>>()
    );
    assert_eq!(subject.counters()["server_cmd_get_total"], 10.0);
}

#[test]
fn a_slow_store_behind_is_part_of_a_miss_and_then_it_is_filled() {
    let address = fake(usize::MAX, false);
    let subject = start(json!({ "connections": 2, "miss_cost": "5ms" }), &address);
    let reads: Vec<Op> = (0..20).map(|id| Op::new(Kind::Read, id, 100)).collect();
    let (result, outcomes) = apply(subject.as_ref(), &reads);
    result.unwrap();
    assert!(outcomes
        .all
        .iter()
        .all(|o| o.answer == Answer::Miss && o.service_ns >= 5_000_000));
    let (_, outcomes) = apply(subject.as_ref(), &reads);
    assert!(outcomes.all.iter().all(|o| o.answer == Answer::Hit));
    assert_eq!(subject.counters()["store_reads_total"], 20.0);
}

#[test]
fn dropped_connections_fail_what_was_under_way_and_open_again() {
    let address = fake(50, false);
    let subject = start(
        json!({ "connections": 1, "pipeline": 4, "fill": false }),
        &address,
    );
    let writes: Vec<Op> = (0..400).map(|id| Op::new(Kind::Write, id, 20)).collect();
    let (result, outcomes) = apply(subject.as_ref(), &writes);
    result.unwrap();
    let failed = answers(&outcomes)
        .iter()
        .filter(|a| **a == Answer::Failed)
        .count();
    assert!((1..=40).contains(&failed), "{failed} failed");
    assert_eq!(outcomes.failures.values().sum::<u64>(), failed as u64);
    assert!(!answers(&outcomes).contains(&Answer::Unanswered));
}

#[test]
fn silence_ends_at_the_timeout_with_an_error() {
    let address = fake(usize::MAX, true);
    let subject = start(json!({ "connections": 1, "timeout": "150ms" }), &address);
    let start = Instant::now();
    let (result, _) = apply(subject.as_ref(), &[Op::new(Kind::Read, 1, 20); 8]);
    let error = format!("{:#}", result.unwrap_err());
    assert!(error.contains("no reply within the timeout"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20));
}
