//! A trace as a workload: its requests dealt to the workers in their order, at the time they were recorded,
//! at a multiple of it, or as fast as they are taken.
//!
//! All workers of a phase read one trace together: whoever is free takes the next stretch, so the order is kept
//! but for what is in flight. Requests are dealt in short stretches; a single worker sees the trace exactly.

use super::{Format, Origin, Reader, Request};
use crate::workload::{key_into, Batch, Kind, Op, Source, Workload, KEY_BYTES_MIN, UNSCHEDULED};
use anyhow::{bail, Result};
use serde_json::{json, Value};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Requests a worker takes at a time when there are several: what two workers may be out of order by.
const STRETCH: usize = 64;
/// Keys are no longer than memcached allows, bytes.
const KEY_BYTES_MAX: u32 = 250;

/// When requests are due.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// As soon as the last one is done.
    Full,
    /// At the recorded time divided by this: 1 is as recorded, 10 ten times as fast.
    Speed(f64),
}

impl std::str::FromStr for Pace {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "full" {
            return Ok(Pace::Full);
        }
        match text.parse::<f64>() {
            Ok(speed) if speed.is_finite() && speed > 0.0 => Ok(Pace::Speed(speed)),
            _ => Err(format!(
                "`{text}`: `full`, or how many times as fast as recorded (1: as recorded)"
            )),
        }
    }
}

/// A trace to be worked off.
pub struct TraceWorkload {
    origin: Origin,
    format: Option<Format>,
    pace: Pace,
    /// Larger values are cut to this, bytes.
    value_bytes_max: u32,
    /// Keys expected and bytes an item, for sizing tables.
    expected: (u64, f64),
    round: Mutex<Round>,
}

#[derive(Default)]
struct Round {
    shared: Option<Arc<Mutex<Shared>>>,
    workers_served: usize,
}

impl TraceWorkload {
    pub fn new(
        origin: Origin,
        format: Option<Format>,
        pace: Pace,
        value_bytes_max: u32,
        expected: (u64, f64),
    ) -> Result<TraceWorkload> {
        let reader = origin.open(format)?;
        if pace != Pace::Full && !reader.has_times() {
            bail!(
                "{} records no times: it can be replayed at full speed only",
                origin.name()
            );
        }
        Ok(TraceWorkload {
            origin,
            format,
            pace,
            value_bytes_max,
            expected,
            round: Mutex::new(Round::default()),
        })
    }
}

impl Workload for TraceWorkload {
    /// A new reading of the trace begins when all workers of the last one have been served.
    fn worker(&self, _worker: usize, workers: usize) -> Result<Box<dyn Source>> {
        let mut round = lock(&self.round);
        if round.workers_served >= workers {
            *round = Round::default();
        }
        let shared = match &round.shared {
            Some(shared) => shared.clone(),
            None => Arc::new(Mutex::new(Shared {
                reader: self.origin.open(self.format)?,
                first_ns: None,
            })),
        };
        round.shared = Some(shared.clone());
        round.workers_served += 1;
        Ok(Box::new(TraceSource {
            shared,
            pace: self.pace,
            value_bytes_max: self.value_bytes_max,
            is_alone: workers == 1,
        }))
    }

    fn load(&self, _worker: usize, _workers: usize) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn describe(&self) -> BTreeMap<String, Value> {
        let speed = match self.pace {
            Pace::Full => json!("full"),
            Pace::Speed(speed) => json!(speed),
        };
        [
            ("trace", json!(self.origin.name())),
            ("speed", speed),
            ("value_bytes_max", json!(self.value_bytes_max)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn value_bytes_max(&self) -> u32 {
        self.value_bytes_max
    }

    fn items_expected(&self) -> (u64, f64) {
        self.expected
    }

    /// A key's value may change its length in the course of a trace.
    fn is_stamped(&self) -> bool {
        false
    }
}

struct Shared {
    reader: Reader,
    first_ns: Option<u64>,
}

struct TraceSource {
    shared: Arc<Mutex<Shared>>,
    pace: Pace,
    value_bytes_max: u32,
    is_alone: bool,
}

impl Source for TraceSource {
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize> {
        batch.clear();
        let count = if self.is_alone {
            count
        } else {
            count.min(STRETCH)
        };
        let shared = &mut *lock(&self.shared);
        while batch.len() < count {
            let Some(request) = shared.reader.next_request()? else {
                break;
            };
            let first_ns = *shared.first_ns.get_or_insert(request.at_ns);
            let op = Op {
                intended_ns: self.due_ns(request.at_ns.saturating_sub(first_ns)),
                ..Op::new(request.kind, request.id, self.value_bytes(&request))
            };
            let key_bytes = request.key_bytes.clamp(KEY_BYTES_MIN as u32, KEY_BYTES_MAX);
            batch.push(op, key_bytes as usize, |out| key_into(request.id, out));
        }
        Ok(batch.len())
    }
}

impl TraceSource {
    fn due_ns(&self, since_first_ns: u64) -> u64 {
        match self.pace {
            Pace::Full => UNSCHEDULED,
            Pace::Speed(speed) => (since_first_ns as f64 / speed) as u64,
        }
    }

    fn value_bytes(&self, request: &Request) -> u32 {
        match request.kind {
            Kind::Delete => 0,
            _ => request.value_bytes.min(u64::from(self.value_bytes_max)) as u32,
        }
    }
}

/// A reader that panicked is broken for good; the error it left behind says so.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn workload(pace: &str, lines: &str) -> Result<(TraceWorkload, std::path::PathBuf)> {
        let path = std::env::temp_dir().join(format!(
            "thermolab-trace-{}-{}.csv",
            std::process::id(),
            crate::workload::mix(lines.len() as u64 + pace.len() as u64)
        ));
        std::fs::File::create(&path)?.write_all(lines.as_bytes())?;
        let origin = Origin::File(path.clone());
        let made = TraceWorkload::new(origin, None, pace.parse().unwrap(), 1000, (10, 100.0));
        if made.is_err() {
            std::fs::remove_file(&path)?;
        }
        Ok((made?, path))
    }

    #[test]
    fn requests_are_due_when_recorded_or_sooner() {
        let lines = "5,k,20,100,1,get,0\n5,k2,20,5000,1,set,0\n9,k,20,100,1,delete,0\n";
        for (pace, due) in [
            ("1", 4_000_000_000),
            ("8", 500_000_000),
            ("full", UNSCHEDULED),
        ] {
            let (workload, path) = workload(pace, lines).unwrap();
            let mut batch = Batch::default();
            let mut source = workload.worker(0, 1).unwrap();
            assert_eq!(source.fill(&mut batch, 10).unwrap(), 3);
            assert_eq!(batch.ops[2].intended_ns, due);
            assert_eq!(batch.ops[1].value_bytes, 1000, "cut to the largest value");
            assert_eq!((batch.ops[2].kind, batch.key(0).len()), (Kind::Delete, 20));
            assert_eq!(source.fill(&mut batch, 10).unwrap(), 0);
            std::fs::remove_file(path).unwrap();
        }
    }

    #[test]
    fn workers_share_one_reading_and_a_new_round_starts_afresh() {
        let lines: String = (0..1000).map(|id| format!("{id} 10\n")).collect();
        let (workload, path) = workload("full", &lines).unwrap();
        for _round in 0..2 {
            let mut sources: Vec<_> = (0..3).map(|n| workload.worker(n, 3).unwrap()).collect();
            let (mut batch, mut ids) = (Batch::default(), Vec::new());
            loop {
                let mut any = 0;
                for source in &mut sources {
                    any += source.fill(&mut batch, 500).unwrap();
                    ids.extend(batch.ops.iter().map(|op| op.id));
                }
                if any == 0 {
                    break;
                }
            }
            assert_eq!(ids, (0..1000).collect::<Vec<u64>>());
        }
        std::fs::remove_file(path).unwrap();
    }

    #[test]
    fn a_trace_without_times_has_no_pace() {
        let refused = workload("1", "1 10\n").err().unwrap();
        assert!(refused.to_string().contains("full speed only"));
        assert!("0".parse::<Pace>().is_err() && "fast".parse::<Pace>().is_err());
    }
}
