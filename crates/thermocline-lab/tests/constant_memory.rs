//! What the lab holds does not grow with what it has seen: a trace of 192 MB and fifty times as many operations leave
//! the process's peak where it was.

use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Mutex;
use thermocline_lab::bench::harness::{self, HarnessOptions};
use thermocline_lab::trace::{Format, Reader};

/// The peak is the process's: one at a time.
static ALONE: Mutex<()> = Mutex::new(());
/// Peaks wander by what an allocator keeps; a list of what was seen would be ten times this.
const SLACK_KB: u64 = 16 << 10;

fn peak_kb() -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let word = line.unwrap().split_whitespace().next().unwrap();
    word.parse().unwrap()
}

/// An oracleGeneral trace that is nowhere: each record another object.
struct Endless {
    record: u64,
    left: u64,
}

impl Read for Endless {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let mut written = 0;
        for slot in out.chunks_exact_mut(24) {
            if self.left == 0 {
                break;
            }
            slot[..4].copy_from_slice(&((self.record >> 10) as u32).to_le_bytes());
            slot[4..12].copy_from_slice(&self.record.to_le_bytes());
            slot[12..16].copy_from_slice(&100u32.to_le_bytes());
            slot[16..].copy_from_slice(&(-1i64).to_le_bytes());
            (self.record, self.left) = (self.record + 1, self.left - 1);
            written += 24;
        }
        Ok(written)
    }
}

fn read(records: u64) {
    let endless = Endless {
        record: 0,
        left: records,
    };
    let input = Box::new(BufReader::with_capacity(24 << 10, endless));
    let reader = Reader::new(Path::new("endless"), input, Some(Format::OracleGeneral)).unwrap();
    let mut ids = 0u64;
    for (at, request) in reader.enumerate() {
        ids += u64::from(request.unwrap().id == at as u64);
    }
    assert_eq!(ids, records);
}

#[test]
fn a_long_trace_takes_no_more_than_a_short_one() {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    read(100_000);
    let before = peak_kb();
    read(8_000_000);
    let grown = peak_kb() - before;
    assert!(grown < SLACK_KB, "192 MB of trace took {grown} kB");
}

#[test]
fn many_operations_take_no_more_than_a_few() {
    let _alone = ALONE.lock().unwrap_or_else(|held| held.into_inner());
    let measured = |ops| {
        harness::run(&HarnessOptions {
            ops,
            rounds: 1,
            json: false,
        })
        .unwrap()
    };
    measured(40_000);
    let before = peak_kb();
    measured(2_000_000);
    let grown = peak_kb() - before;
    assert!(grown < SLACK_KB, "2 M operations took {grown} kB");
}
