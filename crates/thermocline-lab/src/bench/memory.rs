//! The memory rows: is the budget the process, and how much of a full cache is live.

use super::row::{one, Bound, Rows};
use crate::engines::{self, Arm, EngineOptions, Point};
use crate::machine::{meminfo_bytes, Machine};
use crate::report::Report;
use crate::units::{parse_bytes, parse_count, show_bytes};
use crate::workload::{Popularity, ValueSize};
use anyhow::Result;
use clap::Args;

/// VmHWM over budget: 32 threads, values of 1k..200k, 10 % reads
#[derive(Args, Clone, Debug)]
pub struct BudgetOptions {
    /// Budgets, separated by commas
    #[arg(long, value_delimiter = ',', value_parser = parse_bytes, default_value = "256MiB,1GiB,4GiB")]
    pub memory: Vec<u64>,
    #[arg(long, default_value = "uniform:1000..200000")]
    pub value_size: ValueSize,
    #[arg(long, default_value_t = 32)]
    pub threads: usize,
    #[arg(long, default_value_t = 0.1)]
    pub read_ratio: f64,
    /// Bytes written, in budgets
    #[arg(long, default_value_t = 6.0)]
    pub budgets_written: f64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Live bytes over segment bytes of a full cache, without and with overwriting hits of equal size
#[derive(Args, Clone, Debug)]
pub struct LiveOptions {
    #[arg(long, value_parser = parse_bytes, default_value = "1GiB")]
    pub memory: u64,
    #[arg(long, default_value = "lognormal:64..64KiB")]
    pub value_size: ValueSize,
    #[arg(long, value_parser = parse_count, default_value = "4M")]
    pub ops: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

pub fn budget(options: &BudgetOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    let (mut points, mut notes) = (Vec::new(), Vec::new());
    for &memory in &options.memory {
        if meminfo_bytes("MemAvailable").is_some_and(|free| free < memory + memory / 4) {
            notes.push(format!(
                "{}: not run, less memory is available",
                show_bytes(memory)
            ));
            continue;
        }
        let mean = options.value_size.mean();
        let run = EngineOptions {
            arms: vec![Arm::Thermocline],
            memory,
            keys: (memory as f64 * 3.0 / mean) as u64,
            value_size: options.value_size,
            key_distribution: Popularity::Uniform,
            read_ratio: options.read_ratio,
            no_fill: true,
            reserve_harness: true,
            resize: true,
            threads: options.threads,
            warm_ops: 0,
            ops: (memory as f64 * options.budgets_written / mean / (1.0 - options.read_ratio))
                as u64,
            ..EngineOptions::preset()
        };
        let point = engines::in_child(&run.spec(Arm::Thermocline, 0, memory))?;
        let peak = point.resident_peak_bytes as f64 / memory as f64;
        rows.add(
            format!("VmHWM / budget at {}", show_bytes(memory)),
            one(peak),
            3,
            Bound::AtMost(1.05),
            Bound::AtMost(1.02),
        );
        let refused = point.own.refused_room.and_then(|n| one(n as f64));
        rows.add(
            "writes refused for want of room",
            refused,
            0,
            Bound::AtMost(0.0),
            Bound::Free,
        );
        points.push(point);
    }
    let mut report = Report::new("the budget is the process", machine, rows.into_table());
    notes.push(format!(
        "{} threads, values {}, {:.0} % reads, sizes change on overwriting; VmHWM + HugetlbPages of the whole process, the harness's buffers reserved inside the budget",
        options.threads, options.value_size, options.read_ratio * 100.0
    ));
    report.notes = notes;
    report.failures = engines::failures(&points, false);
    report.points = serde_json::to_value(&points)?;
    Ok(report)
}

pub fn live(options: &LiveOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    let mut points: Vec<Point> = Vec::new();
    for (name, read_ratio, least, ambition) in [
        ("no overwrites", 1.0, 0.95, 0.975),
        ("10 % overwriting hits", 0.9, 0.93, 0.97),
        ("50 % overwriting hits", 0.5, 0.90, 0.96),
    ] {
        let run = EngineOptions {
            arms: vec![Arm::Thermocline],
            memory: options.memory,
            keys: (options.memory as f64 * 3.0 / options.value_size.mean()) as u64,
            value_size: options.value_size,
            key_distribution: Popularity::Zipf(0.99),
            read_ratio,
            warm_ops: options.ops,
            ops: options.ops,
            ..EngineOptions::preset()
        };
        let point = engines::in_child(&run.spec(Arm::Thermocline, 0, options.memory))?;
        let ratio = point.own.live_ratio.and_then(one);
        rows.add(
            format!("live bytes / segment bytes, {}, {name}", options.value_size),
            ratio,
            3,
            Bound::AtLeast(least),
            Bound::AtLeast(ambition),
        );
        let payload = point.live_payload_bytes as f64 / options.memory as f64;
        rows.show(
            format!("{name}: keys and values found / budget"),
            one(payload),
            3,
        );
        rows.show(
            format!("{name}: hit ratio"),
            point.hit_ratio().and_then(one),
            4,
        );
        points.push(point);
    }
    let mut report = Report::new("live bytes", machine, rows.into_table());
    report.notes.push(format!(
        "{} of memory, keys for three times as much, zipf 0.99; what a read misses is written; the engine's own count beside what is found by asking for every key",
        show_bytes(options.memory)
    ));
    report.failures = engines::failures(&points, false);
    report.points = serde_json::to_value(&points)?;
    Ok(report)
}
