//! The target table's server rows: CPU and system calls an operation beside memcached and Redis.
//!
//! All servers run at once, one worker thread each; the loader takes them in turn, every second round in
//! reverse. A ratio is taken within a round, then the median over rounds: neighbours' noise meets both sides.

use super::process::{Product, Server};
use super::row::{Bound, Rows};
use crate::load::wire::Dialect;
use crate::load::{self, LoadOptions, LoadResult};
use crate::machine::Machine;
use crate::report::{show, Report, Spread, Table};
use crate::units::{parse_count, parse_duration};
use crate::workload::{Popularity, ValueSize};
use anyhow::{bail, Context, Result};
use clap::Args;
use std::path::PathBuf;
use std::time::Duration;

/// Server CPU and system calls an operation, beside memcached and Redis
#[derive(Args, Clone, Debug)]
pub struct ServerOptions {
    /// The thermocline binary
    #[arg(long)]
    pub server: PathBuf,
    #[arg(long, default_value = "memcached")]
    pub memcached: PathBuf,
    #[arg(long, default_value = "redis-server")]
    pub redis: PathBuf,
    /// Many short ones: a neighbour's work lasts seconds, and is to meet both sides of a ratio
    #[arg(long, default_value_t = 15)]
    pub rounds: usize,
    /// How long each cell runs in a round
    #[arg(long, value_parser = parse_duration, default_value = "700ms")]
    pub duration: Duration,
    #[arg(long, default_value_t = 16)]
    pub connections: usize,
    /// Keys of 1 KiB; a fifth as many of 16 KiB
    #[arg(long, value_parser = parse_count, default_value = "100k")]
    pub keys: u64,
    #[arg(long, default_value = "zipf:0.99")]
    pub key_distribution: Popularity,
    /// Operations of each system call window
    #[arg(long, value_parser = parse_count, default_value = "50k")]
    pub syscall_ops: u64,
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Windows in which system calls are counted. How many connections wake the server at once wavers: one window told
/// anything between .132 and .154 an operation.
const SYSCALL_WINDOWS: usize = 5;

/// Memory of each server, MiB: everything fits, so that reads hit.
const MEMORY_MIB: u64 = 1024;

/// A server read in one way.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Arm {
    product: Product,
    dialect: Dialect,
}

impl Arm {
    fn name(self) -> String {
        let verb = match self.dialect {
            Dialect::TextGet | Dialect::RespGet => "get",
            Dialect::MultiGet => "multi-get",
            Dialect::Mg => "mg",
        };
        format!("{} {verb}", self.product.name())
    }
}

const fn arm(product: Product, dialect: Dialect) -> Arm {
    Arm { product, dialect }
}

const OURS_GET: Arm = arm(Product::Thermocline, Dialect::TextGet);
const OURS_MG: Arm = arm(Product::Thermocline, Dialect::Mg);
const OURS_MULTI: Arm = arm(Product::Thermocline, Dialect::MultiGet);
const MEMCACHED_GET: Arm = arm(Product::Memcached, Dialect::TextGet);
const MEMCACHED_MG: Arm = arm(Product::Memcached, Dialect::Mg);
const MEMCACHED_MULTI: Arm = arm(Product::Memcached, Dialect::MultiGet);
const REDIS_GET: Arm = arm(Product::Redis, Dialect::RespGet);
const ARMS: [Arm; 7] = [
    OURS_GET,
    OURS_MG,
    OURS_MULTI,
    MEMCACHED_GET,
    MEMCACHED_MG,
    MEMCACHED_MULTI,
    REDIS_GET,
];

/// Value size and pipeline depth.
type Cell = (u32, usize);
const CELLS: [Cell; 4] = [(1 << 10, 1), (1 << 10, 16), (16 << 10, 1), (16 << 10, 16)];

/// One load run, with where it belongs.
struct Taken {
    arm: Arm,
    cell: Cell,
    round: usize,
    result: LoadResult,
}

pub fn run(options: &ServerOptions) -> Result<Report> {
    let machine = Machine::read();
    let servers = [
        Server::start(Product::Thermocline, &options.server, MEMORY_MIB)?,
        Server::start(Product::Memcached, &options.memcached, MEMORY_MIB)?,
        Server::start(Product::Redis, &options.redis, MEMORY_MIB)?,
    ];
    let mut taken = Vec::new();
    for value_bytes in [1 << 10, 16 << 10] {
        for server in &servers {
            preload(options, server, value_bytes)?;
        }
        for round in 0..options.rounds + SYSCALL_WINDOWS {
            let mut arms = ARMS.to_vec();
            if round % 2 == 1 {
                arms.reverse();
            }
            for cell in CELLS.into_iter().filter(|cell| cell.0 == value_bytes) {
                for &arm in &arms {
                    // The last rounds count system calls: tracing would slow the others.
                    let syscalls = (round >= options.rounds).then_some(options.syscall_ops);
                    if syscalls.is_none() || value_bytes == 1 << 10 {
                        let result = take(options, &servers, arm, cell, syscalls)?;
                        taken.push(Taken {
                            arm,
                            cell,
                            round,
                            result,
                        });
                    }
                }
            }
        }
    }
    Ok(report(options, machine, &taken))
}

fn load_options(options: &ServerOptions, server: &Server, value_bytes: u32) -> LoadOptions {
    LoadOptions {
        connections: options.connections,
        keys: if value_bytes > 4096 {
            (options.keys / 5).max(1)
        } else {
            options.keys
        },
        key_distribution: options.key_distribution,
        value_size: ValueSize::Fixed(value_bytes),
        pid: Some(server.pid()),
        seed: options.seed,
        ..LoadOptions::for_target(&server.url())
    }
}

fn preload(options: &ServerOptions, server: &Server, value_bytes: u32) -> Result<()> {
    let once = LoadOptions {
        requests: Some(1000),
        ..load_options(options, server, value_bytes)
    };
    let result = load::run(&once)?;
    if result.failures() > 0 {
        bail!("loading {}: {:?}", server.product.name(), result.failed);
    }
    Ok(())
}

fn take(
    options: &ServerOptions,
    servers: &[Server; 3],
    arm: Arm,
    (value_bytes, pipeline): Cell,
    syscalls: Option<u64>,
) -> Result<LoadResult> {
    let server = servers
        .iter()
        .find(|server| server.product == arm.product)
        .context("each product is started")?;
    load::run(&LoadOptions {
        pipeline,
        op: Some(arm.dialect),
        no_preload: true,
        duration: Some(if syscalls.is_some() {
            Duration::from_millis(200)
        } else {
            options.duration
        }),
        warmup: Duration::from_millis(200),
        syscalls,
        ..load_options(options, server, value_bytes)
    })
}

/// Figures of one arm and cell, one for each round.
fn by_round(
    taken: &[Taken],
    arm: Arm,
    cell: Cell,
    figure: impl Fn(&LoadResult) -> Option<f64>,
) -> Vec<(usize, f64)> {
    taken
        .iter()
        .filter(|t| t.arm == arm && t.cell == cell)
        .filter_map(|t| Some((t.round, figure(&t.result)?)))
        .collect()
}

/// CPU of `ours` over `theirs`, round by round.
fn ratio(taken: &[Taken], last: usize, ours: Arm, theirs: Arm, cell: Cell) -> Option<Spread> {
    let of = |arm| by_round(taken, arm, cell, |r| r.server_cpu_us_per_op);
    let theirs = of(theirs);
    Spread::of(
        of(ours)
            .into_iter()
            .filter(|(round, _)| *round < last)
            .filter_map(|(round, us)| {
                let (_, them) = theirs.iter().find(|(other, _)| *other == round)?;
                Some(us / them)
            }),
    )
}

/// A row of the report: CPU of `ours` over `theirs`.
struct RatioRow {
    what: &'static str,
    ours: Arm,
    theirs: Arm,
    cell: Cell,
    least: Bound,
    ambition: Bound,
}

const fn bounded(
    what: &'static str,
    (ours, theirs): (Arm, Arm),
    cell: Cell,
    (least, ambition): (f64, f64),
) -> RatioRow {
    RatioRow {
        what,
        ours,
        theirs,
        cell,
        least: Bound::AtMost(least),
        ambition: Bound::AtMost(ambition),
    }
}

const fn shown(what: &'static str, (ours, theirs): (Arm, Arm), cell: Cell) -> RatioRow {
    RatioRow {
        what,
        ours,
        theirs,
        cell,
        least: Bound::Free,
        ambition: Bound::Free,
    }
}

const SMALL_1: Cell = CELLS[0];
const SMALL_16: Cell = CELLS[1];
const LARGE_16: Cell = CELLS[3];

const RATIO_ROWS: [RatioRow; 9] = [
    bounded(
        "1 KiB, pipeline 1, CPU of get / memcached get",
        (OURS_GET, MEMCACHED_GET),
        SMALL_1,
        (0.90, 0.80),
    ),
    bounded(
        "1 KiB, pipeline 16, get / memcached mg",
        (OURS_GET, MEMCACHED_MG),
        SMALL_16,
        (0.65, 0.50),
    ),
    bounded(
        "1 KiB, pipeline 16, mg / memcached mg",
        (OURS_MG, MEMCACHED_MG),
        SMALL_16,
        (0.65, 0.50),
    ),
    bounded(
        "1 KiB, pipeline 16, get / redis get",
        (OURS_GET, REDIS_GET),
        SMALL_16,
        (0.60, 0.45),
    ),
    shown(
        "1 KiB, pipeline 16, get / memcached get",
        (OURS_GET, MEMCACHED_GET),
        SMALL_16,
    ),
    shown(
        "1 KiB, pipeline 16, multi-get / memcached multi-get",
        (OURS_MULTI, MEMCACHED_MULTI),
        SMALL_16,
    ),
    // Plain get of memcached sends a packet each, so mg is its better form; both are shown.
    bounded(
        "16 KiB, pipeline 16, get / memcached get",
        (OURS_GET, MEMCACHED_GET),
        LARGE_16,
        (0.50, 0.40),
    ),
    shown(
        "16 KiB, pipeline 16, get / memcached mg",
        (OURS_GET, MEMCACHED_MG),
        LARGE_16,
    ),
    bounded(
        "16 KiB, pipeline 16, get / redis get",
        (OURS_GET, REDIS_GET),
        LARGE_16,
        (0.65, 0.50),
    ),
];

fn report(options: &ServerOptions, machine: Machine, taken: &[Taken]) -> Report {
    let mut report = Report::new(
        "server CPU beside memcached and Redis",
        machine,
        rows(taken, options.rounds).into_table(),
    );
    report.notes = vec![
        format!(
            "{} connections, one loader thread, one server thread each, {} keys of 1 KiB ({}), reads that all hit, {} rounds of {:?} interleaved; ratios within a round, median [min–max]",
            options.connections, options.keys, options.key_distribution, options.rounds, options.duration
        ),
    ];
    report.details.push(figures(taken, options.rounds));
    report.failures = taken.iter().map(|t| t.result.failures()).sum();
    report.points = taken
        .iter()
        .map(|t| {
            serde_json::json!({
                "arm": t.arm.name(), "value_bytes": t.cell.0, "pipeline": t.cell.1, "round": t.round, "result": t.result,
            })
        })
        .collect();
    report
}

fn rows(taken: &[Taken], last: usize) -> Rows {
    let mut rows = Rows::default();
    for row in &RATIO_ROWS {
        let ratio = ratio(taken, last, row.ours, row.theirs, row.cell);
        rows.add(row.what, ratio, 2, row.least, row.ambition);
    }
    rows.add(
        "system calls an op, pipeline 1",
        calls(taken, OURS_GET, SMALL_1),
        2,
        Bound::AtMost(2.2),
        Bound::Free,
    );
    rows.add(
        "system calls an op, pipeline 16",
        calls(taken, OURS_GET, SMALL_16),
        3,
        Bound::AtMost(0.14),
        Bound::Free,
    );
    rows
}

/// System calls an operation, as counted in the last rounds.
fn calls(taken: &[Taken], arm: Arm, cell: Cell) -> Option<Spread> {
    let counted = by_round(taken, arm, cell, |r| r.server_syscalls_per_op);
    Spread::of(counted.into_iter().map(|(_, calls)| calls))
}

/// The figures the ratios are made of.
fn figures(taken: &[Taken], last: usize) -> Table {
    let mut table = Table::new([
        "server CPU µs/op",
        "1 KiB p1",
        "1 KiB p16",
        "16 KiB p1",
        "16 KiB p16",
        "p99 µs 1 KiB p1",
        "p99 µs 1 KiB p16",
        "calls/op p1",
        "calls/op p16",
    ]);
    for arm in ARMS {
        let of = |cell, figure: &dyn Fn(&LoadResult) -> Option<f64>| {
            Spread::of(
                by_round(taken, arm, cell, figure)
                    .into_iter()
                    .filter(|(r, _)| *r < last)
                    .map(|(_, v)| v),
            )
        };
        let mut row = vec![arm.name()];
        row.extend(CELLS.map(|cell| show(of(cell, &|r| r.server_cpu_us_per_op), 2)));
        row.extend(
            [CELLS[0], CELLS[1]].map(|cell| show(of(cell, &|r| Some(r.service?.p99_us)), 0)),
        );
        row.extend([CELLS[0], CELLS[1]].map(|cell| show(calls(taken, arm, cell), 3)));
        table.row(row);
    }
    table
}
