//! `thermolab bench <row>`: each row of the target table by one verb, so that anyone can take it again.
//! Rows that compare engines are presets of `engines`; the others call our engine, or run servers.

pub mod compressed;
mod compressed_codec;
mod compressed_fill;
pub mod cpu;
pub mod duel;
pub mod growth;
pub mod harness;
pub mod memory;
pub mod micro;
pub mod policy_cpu;
pub mod process;
pub mod reclaim;
pub mod resident;
pub mod row;
pub mod server;
pub mod sizes;

use crate::report::Report;
use anyhow::Result;
use clap::Subcommand;

macro_rules! benches {
    ($($(#[$doc:meta])* $verb:ident($options:ty) => $run:path),* $(,)?) => {
        /// Produce rows of the target table of docs/performance.md
        #[derive(Subcommand, Clone, Debug)]
        pub enum Bench {
            $($(#[$doc])* $verb($options)),*
        }

        impl Bench {
            pub fn run(&self) -> Result<Report> {
                match self {
                    $(Bench::$verb(options) => $run(options)),*
                }
            }

            pub fn json(&self) -> bool {
                match self {
                    $(Bench::$verb(options) => options.json),*
                }
            }
        }
    };
}

benches! {
    Growth(growth::GrowthOptions) => growth::run,
    Live(memory::LiveOptions) => memory::live,
    Budget(memory::BudgetOptions) => memory::budget,
    Lookup(micro::LookupOptions) => micro::lookup,
    Overwrite(micro::OverwriteOptions) => micro::overwrite,
    Guard(micro::GuardOptions) => micro::guard,
    Sizes(sizes::SizesOptions) => sizes::run,
    Cpu(cpu::CpuOptions) => cpu::cpu,
    PolicyCpu(policy_cpu::PolicyCpuOptions) => policy_cpu::run,
    Threads(cpu::ThreadsOptions) => cpu::threads,
    Server(server::ServerOptions) => server::run,
    Harness(harness::HarnessOptions) => harness::run,
    Resident(resident::ResidentOptions) => resident::run,
    Compressed(compressed::CompressedOptions) => compressed::run,
    Duel(duel::DuelOptions) => duel::run,
    Reclaim(reclaim::ReclaimOptions) => reclaim::run,
}
