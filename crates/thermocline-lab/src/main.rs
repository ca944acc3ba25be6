//! The binary: reads the command line, runs one verb, prints its report. rc 0 only if nothing failed.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use thermocline_lab::load::{self, LoadOptions};

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
}

fn main() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Load(options) => run_load(&options),
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

/// Returns the number of failures.
fn run_load(options: &LoadOptions) -> anyhow::Result<u64> {
    let report = load::run(options)?.report();
    report.print(options.json)?;
    Ok(report.failures)
}
