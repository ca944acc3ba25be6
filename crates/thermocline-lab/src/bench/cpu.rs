//! The rows that compare engines or thread counts: presets of `engines` and the ratios of their points.

use super::row::{Bound, Rows};
use crate::engines::{self, Arm, EngineOptions, Equal, Point};
use crate::machine::Machine;
use crate::report::{show, Report, Spread, Table};
use crate::units::{parse_bytes, parse_count};
use crate::workload::{Popularity, ValueSize};
use anyhow::Result;
use clap::Args;

/// CPU an operation beside quick_cache and segcache, 90/10 and 50/50, at equal payload
#[derive(Args, Clone, Debug)]
pub struct CpuOptions {
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    #[arg(long, value_parser = parse_count, default_value = "1M")]
    pub keys: u64,
    /// Key and value bytes each engine holds: a third of the data
    #[arg(long, value_parser = parse_bytes, default_value = "330MiB")]
    pub memory: u64,
    #[arg(long, value_parser = parse_count, default_value = "1.2M")]
    pub ops: u64,
    /// Before anything is counted. By 2.4M the cache has just been filled, and hit ratios rise for three times as long
    #[arg(long, value_parser = parse_count, default_value = "9.6M")]
    pub warm_ops: u64,
    #[arg(long, default_value_t = 1)]
    pub threads: usize,
    /// What is equal between the engines
    #[arg(long, value_enum, default_value = "payload")]
    pub equal: Equal,
    /// Also foyer and moka
    #[arg(long)]
    pub all: bool,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// CPU an operation with two threads against one, reads and writes
#[derive(Args, Clone, Debug)]
pub struct ThreadsOptions {
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    #[arg(long, default_value_t = 2)]
    pub threads: usize,
    #[arg(long, value_parser = parse_count, default_value = "300k")]
    pub keys: u64,
    #[arg(long, value_parser = parse_count, default_value = "2M")]
    pub ops: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// A share of reads, with what our CPU over the rivals' may be.
struct Mix {
    name: &'static str,
    read_ratio: f64,
    over_quick_cache: (Bound, Bound),
    over_segcache: (Bound, Bound),
    /// Of overwrites by values of the same size, where enough is written to ask for it.
    in_place: Option<Bound>,
}

const MIXES: [Mix; 2] = [
    Mix {
        name: "90/10",
        read_ratio: 0.9,
        over_quick_cache: (Bound::AtMost(1.0), Bound::AtMost(0.75)),
        over_segcache: (Bound::AtMost(0.95), Bound::AtMost(0.8)),
        in_place: None,
    },
    Mix {
        name: "50/50",
        read_ratio: 0.5,
        over_quick_cache: (Bound::AtMost(1.0), Bound::AtMost(0.8)),
        over_segcache: (Bound::Free, Bound::Free),
        in_place: Some(Bound::AtLeast(0.80)),
    },
];

pub fn cpu(options: &CpuOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    let mut figures = Table::new([
        "mix",
        "engine",
        "CPU ns/op",
        "hit ratio",
        "live payload MiB",
        "memory told MiB",
        "in place",
    ]);
    let (mut points, mut failures) = (serde_json::Map::new(), 0);
    for mix in &MIXES {
        let run = mix_run(options, mix);
        let taken = engines::measure(&run)?;
        add_ratios(&mut rows, mix, &taken);
        add_figures(&mut figures, mix, &run.arms(), &taken);
        failures += engines::failures(&taken, true);
        points.insert(mix.name.into(), serde_json::to_value(&taken)?);
    }
    let mut report = Report::new(
        "CPU per operation beside the rivals",
        machine,
        rows.into_table(),
    );
    report.details.push(figures);
    report.notes.push(cpu_note(options));
    report.failures = failures;
    report.points = points.into();
    Ok(report)
}

fn mix_run(options: &CpuOptions, mix: &Mix) -> EngineOptions {
    EngineOptions {
        arms: if options.all {
            Arm::ALL.to_vec()
        } else {
            Arm::ALL[..3].to_vec()
        },
        memory: options.memory,
        equal: options.equal,
        keys: options.keys,
        value_size: ValueSize::Fixed(1024),
        read_ratio: mix.read_ratio,
        threads: options.threads,
        ops: options.ops,
        warm_ops: options.warm_ops,
        rounds: options.rounds,
        allow_refused: true,
        ..EngineOptions::preset()
    }
}

fn add_ratios(rows: &mut Rows, mix: &Mix, taken: &[Point]) {
    let name = mix.name;
    for (arm, (least, ambition)) in [
        (Arm::QuickCache, mix.over_quick_cache),
        (Arm::Segcache, mix.over_segcache),
    ] {
        rows.add(
            format!("CPU per op, {name}, over {}", arm.name()),
            ratio_of(taken, Arm::Thermocline, arm, |p| Some(p.cpu_ns_per_op)),
            2,
            least,
            ambition,
        );
    }
    rows.add(
        format!("hit ratio, {name}, over quick_cache's"),
        ratio_of(taken, Arm::Thermocline, Arm::QuickCache, Point::hit_ratio),
        4,
        Bound::AtLeast(1.0),
        Bound::Free,
    );
    if let Some(least) = mix.in_place {
        rows.add(
            format!("overwrites in place, {name}"),
            engines::spread(taken, Arm::Thermocline, engines::in_place),
            3,
            least,
            Bound::Free,
        );
    }
}

fn add_figures(figures: &mut Table, mix: &Mix, arms: &[Arm], taken: &[Point]) {
    let mebibytes = |bytes: u64| Some(bytes as f64 / f64::from(1 << 20));
    for &arm in arms {
        let of = |figure: &dyn Fn(&Point) -> Option<f64>| engines::spread(taken, arm, figure);
        figures.row([
            mix.name.to_string(),
            arm.name().to_string(),
            show(of(&|p| Some(p.cpu_ns_per_op)), 0),
            show(of(&|p| p.hit_ratio()), 4),
            show(of(&|p| mebibytes(p.live_payload_bytes)), 1),
            show(of(&|p| mebibytes(p.memory_bytes)), 0),
            show(of(&engines::in_place), 3),
        ]);
    }
}

fn cpu_note(options: &CpuOptions) -> String {
    format!(
        "1 KiB values, zipf 0.99 over {} keys, {} thread(s), {} operations after a warm-up of {}, {}, {} rounds interleaved; ratios within a round; engines' own threads included; a hit looks at the value's first 8 bytes through the cheapest door of each engine (the rivals lend the value, ours copies those bytes: get_part)",
        options.keys,
        options.threads,
        options.ops,
        options.warm_ops,
        match options.equal {
            Equal::Payload => "equal room for key and value bytes (the rivals are told what ours came to hold), metadata charged to nobody",
            Equal::Memory => "equal memory, rivals charged their metadata",
        },
        options.rounds
    )
}

/// The figure of one arm over another's, round by round.
fn ratio_of(
    points: &[Point],
    arm: Arm,
    to: Arm,
    figure: impl Fn(&Point) -> Option<f64>,
) -> Option<Spread> {
    let theirs = engines::of_arm(points, to);
    Spread::of(engines::of_arm(points, arm).into_iter().filter_map(|ours| {
        let them = theirs.iter().find(|point| point.round == ours.round)?;
        Some(figure(ours)? / figure(them)?)
    }))
}

pub fn threads(options: &ThreadsOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut rows = Rows::default();
    let (mut all, mut failures) = (serde_json::Map::new(), 0);
    for (name, read_ratio, most, ambition) in
        [("reads", 1.0, 1.10, 1.05), ("writes", 0.0, 1.20, 1.10)]
    {
        // Everything fits: what is compared is calls meeting calls, not how often reclaim runs.
        let base = EngineOptions {
            arms: vec![Arm::Thermocline],
            memory: options.keys * 1600,
            keys: options.keys,
            value_size: ValueSize::Fixed(1024),
            key_distribution: Popularity::Zipf(0.99),
            read_ratio,
            load_all: true,
            warm_ops: options.ops / 4,
            ..EngineOptions::preset()
        };
        let (mut ratios, mut ones, mut points) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..options.rounds {
            let mut of = |threads: usize| -> Result<Point> {
                let run = EngineOptions {
                    threads,
                    ops: options.ops * threads as u64,
                    ..base.clone()
                };
                let point = engines::in_child(&run.spec(Arm::Thermocline, round, run.memory))?;
                points.push(point.clone());
                Ok(point)
            };
            // Every second round in reverse: a machine that drifts does not favour one side.
            let (one, many) = if round % 2 == 0 {
                (of(1)?, of(options.threads)?)
            } else {
                let many = of(options.threads)?;
                (of(1)?, many)
            };
            ratios.push(many.cpu_ns_per_op / one.cpu_ns_per_op);
            ones.push(one.cpu_ns_per_op);
        }
        rows.add(
            format!("{} threads' CPU per op over one's, {name}", options.threads),
            Spread::of(ratios),
            2,
            Bound::AtMost(most),
            Bound::AtMost(ambition),
        );
        rows.show(
            format!("one thread, {name}, ns CPU an op"),
            Spread::of(ones),
            0,
        );
        failures += engines::failures(&points, false);
        all.insert(name.into(), serde_json::to_value(&points)?);
    }
    let mut report = Report::new("threads", machine, rows.into_table());
    report.notes.push(format!(
        "1 KiB values, zipf 0.99 over {} keys that all fit; contention needs as many free cores as threads: see the load above",
        options.keys
    ));
    report.failures = failures;
    report.points = all.into();
    Ok(report)
}
