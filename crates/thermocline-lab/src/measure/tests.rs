//! Measuring the mock, whose truth is known.

use super::*;
use crate::settings::Table;
use crate::subject::{read_subject, StartContext};
use crate::workload::{Batch, Mix, MixWorkload, Popularity};
use serde_json::json;
use std::collections::BTreeMap;

#[derive(Default)]
struct Heard(Vec<(Phase, bool)>);

impl Events for Heard {
    fn begins(&mut self, phase: Phase, _limit: Option<Duration>, _pid: u32) -> Result<()> {
        self.0.push((phase, true));
        Ok(())
    }

    fn ended(&mut self, phase: Phase, _pid: u32) -> Result<()> {
        self.0.push((phase, false));
        Ok(())
    }
}

fn run(subject: serde_json::Value, setup: &Setup) -> (Result<Measured>, Heard) {
    let mix = MixWorkload::new(Mix {
        keys: 1000,
        key_bytes: 16,
        popularity: Popularity::Uniform,
        sizes: "100".parse().unwrap(),
        read_ratio: 0.5,
        resize: false,
        seed: 1,
    });
    run_on(&mix, subject, setup)
}

fn run_on(
    workload: &dyn Workload,
    subject: serde_json::Value,
    setup: &Setup,
) -> (Result<Measured>, Heard) {
    let table: Table = serde_json::from_value(subject).unwrap();
    let recipe = read_subject(table).unwrap();
    let context = StartContext {
        workers: setup.workers(),
        value_bytes_max: 100,
        items: 1000,
        item_bytes: 116.0,
        is_stamped: true,
        seed: 1,
        scratch: std::env::temp_dir(),
        members: Vec::new(),
    };
    let subject = recipe.start(&context).unwrap();
    let mut heard = Heard::default();
    let job = Job {
        subject: subject.as_ref(),
        workload,
        setup,
        mode: setup.loop_for(recipe.is_server()).unwrap(),
        seed: 1,
        concurrency: setup.workers(),
    };
    let measured = measure(&job, &mut heard);
    (measured, heard)
}

fn short(workers: usize) -> Setup {
    Setup {
        workers,
        warmup: Duration::from_millis(50),
        duration: Duration::from_millis(600),
        ..Setup::default()
    }
}

#[test]
fn phases_follow_each_other_and_figures_fit() {
    let (measured, heard) = run(
        json!({ "kind": "mock", "latency": "2ms", "hit_ratio": 1.0 }),
        &Setup {
            load: false,
            ..short(2)
        },
    );
    let point = measured.unwrap();
    use Phase::*;
    assert_eq!(
        heard.0,
        [
            (Warmup, true),
            (Warmup, false),
            (Measured, true),
            (Measured, false)
        ]
    );
    let m = &point.metrics;
    assert_eq!(point.end, "duration");
    assert!(m["service_ns_mean"] >= 2e6, "{m:?}");
    assert!(m["ops_per_s"] <= 1000.0 && m["hit_ratio"] == 1.0, "{m:?}");
    // Little's law: two workers, all their time in the subject.
    let under_way = m["operations_under_way"];
    assert!((1.5..2.2).contains(&under_way), "{under_way}");
    assert!(point.series["ops_per_s"].len() >= 3, "{:?}", point.series);
    assert!(point.histograms.contains_key("service_ns"));
    let back = crate::histogram::from_text(&point.histograms["service_ns"]).unwrap();
    assert_eq!(back.len(), m["operations_total"] as u64);
}

/// A trace that has been read to its end.
struct Ended;

impl Source for Ended {
    fn fill(&mut self, batch: &mut Batch, _count: usize) -> Result<usize> {
        batch.clear();
        Ok(0)
    }
}

impl Workload for Ended {
    fn worker(&self, _worker: usize, _workers: usize) -> Result<Box<dyn Source>> {
        Ok(Box::new(Ended))
    }

    fn load(&self, _worker: usize, _workers: usize) -> Result<Option<Box<dyn Source>>> {
        Ok(None)
    }

    fn describe(&self) -> BTreeMap<String, serde_json::Value> {
        BTreeMap::new()
    }

    fn value_bytes_max(&self) -> u32 {
        100
    }

    fn items_expected(&self) -> (u64, f64) {
        (1, 100.0)
    }
}

#[test]
fn a_measured_part_without_an_operation_is_no_result() {
    let (measured, heard) = run_on(&Ended, json!({ "kind": "mock" }), &short(2));
    let why = measured.err().map(|error| error.to_string());
    assert!(why.is_some_and(|why| why.contains("shorten `plan.warmup`")));
    assert_eq!(heard.0.last(), Some(&(Phase::Measured, false)));
}

#[test]
fn a_pool_of_operations_ends_the_run_exactly_and_says_so() {
    let (measured, _) = run(
        json!({ "kind": "mock" }),
        &Setup {
            operations: Some(10_003),
            duration: Duration::from_secs(60),
            ..short(3)
        },
    );
    let point = measured.unwrap();
    assert_eq!(point.end, "operations");
    assert_eq!(point.metrics["operations_total"], 10_003.0);
    assert_eq!(point.metrics["loaded_total"], 1000.0);
}

#[test]
fn an_open_loop_counts_waiting_for_a_busy_subject_and_not_for_ones_turn() {
    // 2 workers x 5 ms an operation: 400 a second at most.
    let subject = || json!({ "kind": "mock", "latency": "5ms", "is_server": true });
    let rated = |rate| Setup {
        rate: Some(rate),
        load: false,
        ..short(2)
    };
    let easy = run(subject(), &rated(50.0)).0.unwrap().metrics;
    assert!(easy["response_ns_p50"] < 15e6, "{easy:?}");
    assert!(
        easy["service_ns_p50"] >= 5e6 && easy["ops_per_s"] <= 55.0,
        "{easy:?}"
    );
    let point = run(subject(), &rated(2000.0)).0.unwrap();
    let hard = &point.metrics;
    assert!(
        hard["response_ns_p99"] > 10.0 * hard["service_ns_p50"],
        "{hard:?}"
    );
    assert!(hard["unsent_total"] > 100.0, "{hard:?}");
    assert!(point
        .warnings
        .iter()
        .any(|w| w.contains("does not keep this rate")));
}

#[test]
fn a_subject_that_dies_is_an_error_with_its_words() {
    let (measured, _) = run(json!({ "kind": "mock", "fail_after": 5000 }), &short(2));
    let error = format!("{:#}", measured.err().unwrap());
    assert!(error.contains("the mock died after 5000"), "{error}");
}

#[test]
fn wrong_values_are_counted_apart() {
    let (measured, _) = run(
        json!({ "kind": "mock", "wrong_after": 3000, "hit_ratio": 1.0 }),
        &Setup {
            operations: Some(20_000),
            warmup: Duration::ZERO,
            ..short(1)
        },
    );
    let point = measured.unwrap();
    assert!(point.metrics["wrong_total"] > 5000.0);
    assert!(point.metrics["operations_total"] + point.metrics["wrong_total"] == 20_000.0);
    let said = broken(&point.tally).to_string();
    assert!(said.contains("hits with another value"), "{said}");
}
