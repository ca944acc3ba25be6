//! The binary: reads the command line, runs one verb, prints its report. rc 0 only if nothing failed.
#![forbid(unsafe_code)]

use clap::{Parser, Subcommand};
use std::process::ExitCode;
use thermocline_lab::bench::Bench;
use thermocline_lab::closed_pipe::ends_quietly;
use thermocline_lab::diff::{self, DiffOptions};
use thermocline_lab::engines::{self, EngineOptions};
use thermocline_lab::export::{self, ExportOptions, ImportOptions};
use thermocline_lab::load::{self, LoadOptions};
use thermocline_lab::machine_hooks::MachineHooks;
use thermocline_lab::memory_read::{self, MemoryReadOptions};
use thermocline_lab::neighbour::{self, NeighbourOptions};
use thermocline_lab::page_gets::{self, PageGetsOptions};
use thermocline_lab::replay;
use thermocline_lab::report::{self, CompareOptions, Report, ReportOptions};
use thermocline_lab::restart::{self, RestartOptions};
use thermocline_lab::restore::{self, RestoreOptions};
use thermocline_lab::run;
use thermocline_lab::run::verbs::{self, CheckArgs, ListArgs, ResumeArgs, RunArgs};
use thermocline_lab::subject::server::become_guarded;
use thermocline_lab::ttest::{self, TtestOptions};
use thermocline_lab::with::{self, WithOptions};

/// Measures caches beside each other
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
    PageGets(PageGetsOptions),
    Neighbour(NeighbourOptions),
    Restart(RestartOptions),
    Report(ReportOptions),
    Compare(CompareOptions),
    Diff(DiffOptions),
    Export(ExportOptions),
    Import(ImportOptions),
    Ttest(TtestOptions),
    Restore(RestoreOptions),
    With(WithOptions),
    Run(RunArgs),
    Resume(ResumeArgs),
    Check(CheckArgs),
    List(ListArgs),
    /// One point of a run, told on standard input; started by `run` and `resume`
    #[command(hide = true)]
    TakePoint,
    /// A server that ends with the lab; started by `run`
    #[command(hide = true)]
    DieWithParent {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Run YCSB's core workload and print YCSB's report; `thermolab ycsb --help`
    #[command(disable_help_flag = true)]
    Ycsb {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// Run the benchmark of OHC with its oracles checked; `thermolab ohc -h`
    #[command(disable_help_flag = true)]
    Ohc {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        words: Vec<String>,
    },
    /// One arm of one round; started by the other verbs
    #[command(hide = true)]
    EngineChild {
        spec: String,
    },
}

fn main() -> ExitCode {
    ends_quietly(run_verb)
}

fn run_verb() -> ExitCode {
    let result = match Cli::parse().verb {
        Verb::Load(options) => {
            load::run(&options).and_then(|result| print(&result.report(), options.json))
        }
        Verb::Engines(options) => engines::run(&options).and_then(|r| print(&r, options.json)),
        Verb::Bench(bench) => bench.run().and_then(|report| print(&report, bench.json())),
        Verb::MemoryRead(options) => memory_read::run(&options).map(|()| 0),
        Verb::PageGets(options) => page_gets::run(&options).map(|()| 0),
        Verb::Neighbour(options) => neighbour::run(&options).map(|()| 0),
        Verb::Restart(options) => restart::run(&options).map(|()| 0),
        Verb::Report(options) => report::report(&options).map(show),
        Verb::Compare(options) => report::compare(&options).map(show),
        Verb::Diff(options) => diff::run(&options).map(show),
        Verb::Export(options) => export::export(&options).map(show),
        Verb::Import(options) => export::import(&options).map(show),
        Verb::Ttest(options) => ttest::run(&options).map(show),
        Verb::Restore(options) => restore::run(&options).map(|()| 0),
        Verb::With(options) => with::run(&options),
        Verb::Replay(options) => replay::run(&options).map(|()| 0),
        Verb::ReplaySuite(options) => replay::suite::run(&options),
        Verb::Ycsb { words } => thermocline_lab::ycsb::run(&words),
        Verb::Ohc { words } => thermocline_lab::ohc::run(&words),
        Verb::Run(args) => verbs::run_verb(&args, &mut MachineHooks::live()),
        Verb::Resume(args) => verbs::resume_verb(&args, &mut MachineHooks::live()),
        Verb::Check(args) => verbs::check_verb(&args),
        Verb::List(args) => verbs::list_verb(&args),
        Verb::TakePoint => run::child::serve().map(|()| 0),
        Verb::DieWithParent { words } => Err(become_guarded(&words)),
        Verb::EngineChild { spec } => engines::child::run(&spec).map(|()| 0),
    };
    match result {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            eprintln!("thermolab: {failures} failures");
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

/// Prints text as it is.
fn show(text: String) -> u64 {
    print!("{text}");
    0
}
