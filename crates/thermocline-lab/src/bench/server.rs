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
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// How long each cell runs in a round
    #[arg(long, value_parser = parse_duration, default_value = "2s")]
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
        for round in 0..=options.rounds {
            let mut arms = ARMS.to_vec();
            if round % 2 == 1 {
                arms.reverse();
            }
            for cell in CELLS.into_iter().filter(|cell| cell.0 == value_bytes) {
                for &arm in &arms {
                    // The last round counts system calls: tracing would slow the others.
                    let syscalls = (round == options.rounds).then_some(options.syscall_ops);
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
fn rounds(
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
    let of = |arm| rounds(taken, arm, cell, |r| r.server_cpu_us_per_op);
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

fn report(options: &ServerOptions, machine: Machine, taken: &[Taken]) -> Report {
    let mut rows = Rows::default();
    let (small_1, small_16, large_16) = (CELLS[0], CELLS[1], CELLS[3]);
    let last = options.rounds;
    let ratio = |ours, theirs, cell| ratio(taken, last, ours, theirs, cell);
    let (most, free) = (Bound::AtMost, Bound::Free);
    rows.add(
        "1 KiB, pipeline 1, CPU of get / memcached get",
        ratio(OURS_GET, MEMCACHED_GET, small_1),
        2,
        most(0.90),
        most(0.80),
    );
    rows.add(
        "1 KiB, pipeline 16, get / memcached mg",
        ratio(OURS_GET, MEMCACHED_MG, small_16),
        2,
        most(0.65),
        most(0.50),
    );
    rows.add(
        "1 KiB, pipeline 16, mg / memcached mg",
        ratio(OURS_MG, MEMCACHED_MG, small_16),
        2,
        most(0.65),
        most(0.50),
    );
    rows.add(
        "1 KiB, pipeline 16, get / redis get",
        ratio(OURS_GET, REDIS_GET, small_16),
        2,
        most(0.60),
        most(0.45),
    );
    rows.add(
        "1 KiB, pipeline 16, get / memcached get",
        ratio(OURS_GET, MEMCACHED_GET, small_16),
        2,
        free,
        free,
    );
    rows.add(
        "1 KiB, pipeline 16, multi-get / memcached multi-get",
        ratio(OURS_MULTI, MEMCACHED_MULTI, small_16),
        2,
        free,
        free,
    );
    // Plain get of memcached sends a packet each, so mg is its better form; both are shown.
    rows.add(
        "16 KiB, pipeline 16, get / memcached get",
        ratio(OURS_GET, MEMCACHED_GET, large_16),
        2,
        most(0.50),
        most(0.40),
    );
    rows.add(
        "16 KiB, pipeline 16, get / memcached mg",
        ratio(OURS_GET, MEMCACHED_MG, large_16),
        2,
        free,
        free,
    );
    rows.add(
        "16 KiB, pipeline 16, get / redis get",
        ratio(OURS_GET, REDIS_GET, large_16),
        2,
        most(0.65),
        most(0.50),
    );
    let calls = |cell| {
        Spread::of(
            rounds(taken, OURS_GET, cell, |r| r.server_syscalls_per_op)
                .into_iter()
                .map(|(_, v)| v),
        )
    };
    rows.add(
        "system calls an op, pipeline 1",
        calls(small_1),
        2,
        most(2.2),
        free,
    );
    rows.add(
        "system calls an op, pipeline 16",
        calls(small_16),
        3,
        most(0.14),
        free,
    );
    let mut report = Report::new(
        "server CPU beside memcached and Redis",
        machine,
        rows.into_table(),
    );
    report.notes = vec![
        format!(
            "{} connections, one loader thread, one server thread each, {} keys of 1 KiB ({}), reads that all hit, {} rounds of {:?} interleaved; ratios within a round, median [min–max]",
            options.connections, options.keys, options.key_distribution, options.rounds, options.duration
        ),
    ];
    report.details.push(figures(taken, last));
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
                rounds(taken, arm, cell, figure)
                    .into_iter()
                    .filter(|(r, _)| *r < last)
                    .map(|(_, v)| v),
            )
        };
        let calls = |cell| {
            Spread::of(
                rounds(taken, arm, cell, |r| r.server_syscalls_per_op)
                    .into_iter()
                    .map(|(_, v)| v),
            )
        };
        let mut row = vec![arm.name()];
        row.extend(CELLS.map(|cell| show(of(cell, &|r| r.server_cpu_us_per_op), 2)));
        row.extend(
            [CELLS[0], CELLS[1]].map(|cell| show(of(cell, &|r| Some(r.service?.p99_us)), 0)),
        );
        row.extend([CELLS[0], CELLS[1]].map(|cell| show(calls(cell), 3)));
        table.row(row);
    }
    table
}
