//! `thermolab engines`: the same operation stream over our engine and its rivals.
//!
//! The parent plans the rounds and reads the children's points; a child runs one arm once (`child`). Arms are
//! interleaved, every second round in reverse, so that a machine that slows down slows all of them.

pub mod child;
pub mod engine;
pub mod file_store;
pub mod null;
pub mod options;
pub mod ours;
pub mod rivals;
pub mod spec;
pub mod worker;

pub use options::{EngineOptions, Equal};
pub use spec::{Arm, Point, Spec};

use crate::machine::Machine;
use crate::report::{show, Report, Spread, Table};
use crate::units::show_bytes;
use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};

/// Runs every arm in every round and reports medians.
pub fn run(options: &EngineOptions) -> Result<Report> {
    let machine = Machine::read();
    let points = measure(options)?;
    Ok(report(options, machine, &points))
}

/// The points of all rounds, in the order they were taken.
pub fn measure(options: &EngineOptions) -> Result<Vec<Point>> {
    options.check()?;
    let arms = options.arms();
    let memory = memory_of_each(options, &arms)?;
    let mut points = Vec::new();
    for round in 0..options.rounds {
        let mut order = arms.clone();
        if round % 2 == 1 {
            order.reverse();
        }
        for arm in order {
            points.push(in_child(&options.spec(arm, round, memory[&arm]))?);
        }
    }
    Ok(points)
}

/// What each arm is told. An engine whose setting bounds more than the payload holds what it holds, to some segments:
/// it comes first, and those that hold their setting to the byte are told what it held.
fn memory_of_each(options: &EngineOptions, arms: &[Arm]) -> Result<BTreeMap<Arm, u64>> {
    let mut payload = options.memory;
    let mut memory = BTreeMap::new();
    for &arm in arms.iter().filter(|arm| arm.bounds_more_than_payload()) {
        let told = told_for_payload(options, arm)?;
        memory.insert(arm, told);
        if options.equal == Equal::Payload && evicts(options) {
            payload = held_at(options, arm, told)?;
        }
    }
    for &arm in arms.iter().filter(|arm| !arm.bounds_more_than_payload()) {
        memory.insert(arm, payload);
    }
    Ok(memory)
}

fn evicts(options: &EngineOptions) -> bool {
    let all_keys = options.keys as f64 * (options.key_size as f64 + options.value_size.mean());
    all_keys > options.memory as f64
}

/// The setting at which an engine that bounds more than the payload holds about as much payload as it should, found by
/// running it, unrecorded.
fn told_for_payload(options: &EngineOptions, arm: Arm) -> Result<u64> {
    if options.equal == Equal::Memory {
        return Ok(options.memory);
    }
    if !evicts(options) {
        // Nothing is evicted: there is no payload to equal, only room to give.
        return Ok(options.memory + options.memory / 4);
    }
    let mut told = options.memory;
    // The share of fixed costs changes with the size: the second run corrects the first. Whole runs, because what an
    // engine holds wanders while it runs: taken after the warm-up alone it was half a hundredth too much.
    for round in 0..2 {
        let held = held(options, arm, round, told)?;
        told = (told as f64 * options.memory as f64 / held as f64).round() as u64;
    }
    Ok(told)
}

/// Payload that an arm comes to hold at a setting, the mean of two runs. The setting found may miss by a hundredth: what
/// is held goes in steps of whole extents.
fn held_at(options: &EngineOptions, arm: Arm, told: u64) -> Result<u64> {
    Ok((held(options, arm, 0, told)? + held(options, arm, 1, told)?) / 2)
}

fn held(options: &EngineOptions, arm: Arm, round: usize, told: u64) -> Result<u64> {
    let trial = options.spec(arm, round, told);
    Ok(in_child(&trial)?.live_payload_bytes.max(1))
}

/// Runs one specification in a child process of this binary.
pub fn in_child(spec: &Spec) -> Result<Point> {
    let binary = std::env::current_exe().context("cannot find this binary to start children")?;
    let output = Command::new(binary)
        .arg("engine-child")
        .arg(serde_json::to_string(spec)?)
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start a child")?;
    if !output.status.success() {
        bail!("the {} child ended with {}", spec.arm.name(), output.status);
    }
    let line = String::from_utf8_lossy(&output.stdout);
    serde_json::from_str(line.trim())
        .with_context(|| format!("the {} child printed `{line}`", spec.arm.name()))
}

/// The points of one arm.
pub fn of_arm(points: &[Point], arm: Arm) -> Vec<&Point> {
    points.iter().filter(|point| point.arm == arm).collect()
}

/// The spread of one figure of one arm.
pub fn spread(
    points: &[Point],
    arm: Arm,
    figure: impl Fn(&Point) -> Option<f64>,
) -> Option<Spread> {
    Spread::of(of_arm(points, arm).into_iter().filter_map(figure))
}

/// Failures of the points: wrong values always, refused writes unless allowed.
pub fn failures(points: &[Point], allow_refused: bool) -> u64 {
    points
        .iter()
        .map(|point| point.wrong + if allow_refused { 0 } else { point.refused })
        .sum()
}

fn report(options: &EngineOptions, machine: Machine, points: &[Point]) -> Report {
    let mut table = Table::new([
        "engine",
        "CPU ns/op",
        "of it own threads",
        "Mop/s",
        "p50 ns",
        "p99 ns",
        "p99.9 ns",
        "hit ratio",
        "live payload",
        "VmHWM",
        "beside payload B/item",
        "metadata B/item",
        "in place",
        "refused",
    ]);
    for arm in options.arms() {
        let of = |figure: &dyn Fn(&Point) -> Option<f64>| spread(points, arm, figure);
        let bytes = |figure: &dyn Fn(&Point) -> u64| {
            of(&|p| Some(figure(p) as f64)).map_or("–".into(), |s| show_bytes(s.median as u64))
        };
        table.row([
            arm.name().to_string(),
            show(of(&|p| Some(p.cpu_ns_per_op)), 0),
            show(of(&|p| Some(p.background_ns_per_op)), 0),
            show(of(&|p| Some(p.ops_per_s / 1e6)), 2),
            show(of(&|p| Some(p.p50_ns)), 0),
            show(of(&|p| Some(p.p99_ns)), 0),
            show(of(&|p| Some(p.p999_ns)), 0),
            show(of(&|p| p.hit_ratio()), 4),
            bytes(&|p| p.live_payload_bytes),
            bytes(&|p| p.resident_peak_bytes),
            show(of(&|p| p.beside_payload_bytes_per_item()), 0),
            show(of(&|p| p.own.metadata_bytes_per_item), 1),
            show(of(&|p| in_place(p)), 3),
            show(of(&|p| Some(p.refused as f64)), 0),
        ]);
    }
    let mut report = Report::new("engines", machine, table);
    report.notes = notes(options, points);
    report.failures = failures(points, options.allow_refused);
    report.points = serde_json::to_value(points).unwrap_or_default();
    report
}

/// Share of the overwrites that happened in place.
pub fn in_place(point: &Point) -> Option<f64> {
    let overwrites = point.own.overwrites?;
    (overwrites > 0).then(|| point.own.overwrites_in_place.unwrap_or(0) as f64 / overwrites as f64)
}

fn notes(options: &EngineOptions, points: &[Point]) -> Vec<String> {
    let told: Vec<String> = options
        .arms()
        .into_iter()
        .filter_map(|arm| {
            let point = points.iter().find(|point| point.arm == arm)?;
            Some(format!("{} {}", arm.name(), show_bytes(point.memory_bytes)))
        })
        .collect();
    let mut notes = vec![
        format!(
            "{} operations a round after {} to warm up, {} rounds, arms interleaved; median [min–max]",
            options.ops, options.warm_ops, options.rounds
        ),
        "an operation is a read, with the write of what it missed, or a write; CPU by thread clocks, the engine's own threads included".into(),
        format!("memory told: {}", told.join(", ")),
    ];
    if options.equal == Equal::Payload {
        notes.push(format!(
            "equal: {} of keys and values; metadata, shown beside, is not charged to anyone",
            show_bytes(options.memory)
        ));
    }
    notes
}
