//! The binary: reads the command line, runs one verb, prints its report. rc 0 only if nothing failed.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use thermocline_lab::bench::Bench;
use thermocline_lab::engines::{self, EngineOptions};
use thermocline_lab::load::{self, LoadOptions};
use thermocline_lab::memory_read::{self, MemoryReadOptions};
use thermocline_lab::replay;
use thermocline_lab::report::Report;
use thermocline_lab::restore::{self, RestoreOptions};
use thermocline_lab::with::{self, WithOptions};

/// Measures caches beside each other, honestly
#[derive(Parser)]
#[command(name = "thermolab", version)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    Load(LoadOptions),
    Engines(EngineOptions),
    Replay(replay::ReplayOptions),
    ReplaySuite(replay::SuiteOptions),
    #[command(subcommand)]
    Bench(Bench),
    MemoryRead(MemoryReadOptions),
    Restore(RestoreOptions),
    With(WithOptions),
    /// One arm of one round; started by the other verbs
    #[command(hide = true)]
    EngineChild {
        spec: String,
    },
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Load(options) => {
            load::run(&options).and_then(|result| print(&result.report(), options.json))
        }
        Verb::Engines(options) => engines::run(&options).and_then(|r| print(&r, options.json)),
        Verb::Bench(bench) => bench.run().and_then(|report| print(&report, bench.json())),
        Verb::MemoryRead(options) => memory_read::run(&options).map(|()| 0),
        Verb::Restore(options) => restore::run(&options).map(|()| 0),
        Verb::With(options) => with::run(&options),
        Verb::Replay(options) => replay::run(&options).map(|()| 0),
        Verb::ReplaySuite(options) => replay::suite::run(&options),
        Verb::EngineChild { spec } => engines::child::run(&spec).map(|()| 0),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("thermolab: {failures} operations failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("thermolab: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the report and returns the number of failures.
fn print(report: &Report, json: bool) -> anyhow::Result<u64> {
    report.print(json)?;
    Ok(report.failures)
}
