//! What the lab itself costs an operation: drawing it, handing it over, booking its outcome. Shown with the engine
//! that does nothing, through the same path as any point of an experiment.

use super::row::{Bound, Rows};
use crate::experiment::workloads::read_workload;
use crate::machine::Machine;
use crate::measure::{measure, Events, Job, Loop, Phase, Setup};
use crate::report::{Report, Spread};
use crate::settings::Table;
use crate::subject::{read_subject, StartContext};
use anyhow::Result;
use clap::Args;
use serde_json::json;
use std::time::Duration;

/// What harness and generator cost an operation, with a subject that does nothing
#[derive(Args, Clone, Debug)]
pub struct HarnessOptions {
    /// Operations of a round
    #[arg(long, default_value = "4M", value_parser = crate::units::parse_count)]
    pub ops: u64,
    #[arg(long, default_value_t = 3)]
    pub rounds: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Listens to nothing.
struct Quiet;

impl Events for Quiet {
    fn begins(&mut self, _: Phase, _: Option<Duration>, _: u32) -> Result<()> {
        Ok(())
    }

    fn ended(&mut self, _: Phase, _: u32) -> Result<()> {
        Ok(())
    }
}

pub fn run(options: &HarnessOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    for (name, workload) in [
        ("mix, zipf 0.99", json!({ "popularity": "zipf:0.99" })),
        ("mix, uniform", json!({ "popularity": "uniform" })),
        (
            "YCSB, zipfian",
            json!({ "kind": "ycsb", "recordcount": 1_000_000, "requestdistribution": "zipfian" }),
        ),
    ] {
        let mut figures = Vec::new();
        for round in 0..options.rounds {
            figures.push(cpu_ns_per_op(
                serde_json::from_value(workload.clone())?,
                options.ops,
                round,
            )?);
        }
        rows.add(
            format!("{name}: CPU ns an operation"),
            Spread::of(figures),
            1,
            Bound::AtMost(100.0),
            Bound::AtMost(50.0),
        );
    }
    let mut report = Report::new(
        "what the lab costs an operation",
        machine,
        rows.into_table(),
    );
    report.notes.push(
        "One thread, batches drawn, given to the null engine and booked; one operation in 64 is timed".into(),
    );
    Ok(report)
}

fn cpu_ns_per_op(workload: Table, ops: u64, round: u64) -> Result<f64> {
    let workload = read_workload(workload, 1 + round)?;
    let setup = Setup {
        workers: 1,
        load: false,
        warmup: Duration::from_millis(200),
        duration: Duration::from_secs(600),
        operations: Some(ops.max(1)),
        ..Setup::default()
    };
    let (items, item_bytes) = workload.items_expected();
    let recipe = read_subject(serde_json::from_value(json!({ "kind": "null" }))?)?;
    let subject = recipe.start(&StartContext {
        workers: 1,
        value_bytes_max: workload.value_bytes_max(),
        items,
        item_bytes,
        is_stamped: false,
        seed: 1,
        scratch: std::env::temp_dir(),
        members: Vec::new(),
    })?;
    let job = Job {
        subject: subject.as_ref(),
        workload: workload.as_ref(),
        setup: &setup,
        mode: Loop::Closed,
        seed: 1,
        concurrency: 1,
    };
    Ok(measure(&job, &mut Quiet)?.metrics["cpu_ns_per_op"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_is_measured() {
        let report = run(&HarnessOptions {
            ops: 20_000,
            rounds: 1,
            json: false,
        })
        .unwrap();
        assert_eq!(report.table.rows.len(), 3);
        for row in &report.table.rows {
            assert!(row[1].parse::<f64>().unwrap() > 0.0, "{row:?}");
        }
    }
}
