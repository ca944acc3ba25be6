//! thermolab: measures caches beside each other.
//!
//! - `workload`: what is asked for: keys, sizes, popularity, the mix. Pure and seeded.
//! - `trace`: recorded requests, read from files of the field's formats, and synthetic ones of known recipe.
//! - `load`: a load generator for memcached and RESP servers.
//! - `engines`: the same operation stream over our engine and its rivals, in child processes.
//! - `bench`: one verb for each row of the project's target table.
//! - `replay`: a trace through the real engine or a rival, and suites of such runs.
//! - `subject`: what is measured, behind one trait; `measure` drives it through one point.
//! - `experiment`: one question as a file; `run`: its points taken and written; `point`: the schema of results.
//! - `knob`: the machine's settings, changed, read back and put back; `environment`: what a point was measured on.
//! - `machine_hooks`: both around a point; `restore`, `with`: both by hand.
//! - `memory_read`: what a random read of a mapped file costs; `page_gets`: what a get does, by kind of page; `neighbour`:
//!   who lives when memory is short; `restart`: how long a stopped server takes to be back.
//! - `servers`: a port for a server and where its program lies.
//! - `root`: where the kernel's files are looked for.
//! - `stats`: pure functions from runs to verdicts; `report`: verdicts, tables and plots of a campaign; `ttest`: of an R script.
//! - `diff`: what differs between the machines of two results; `export`: an experiment taken to another machine.
//! - `ycsb`, `ohc`: those two benchmarks as verbs; `ycsb_report`: YCSB's final report, written and read.
//! - `closed_pipe`: how `| head` ends the program.
//! - `machine`, `nearest`, `units`: what the figures were taken on, what was meant by a name, how sizes are read.
//!
//! What must hold: operations are counted exactly, failed operations are never results, and a figure that
//! could not be taken is absent, not zero.
#![forbid(unsafe_code)]

pub mod bench;
pub mod closed_pipe;
pub mod diff;
pub mod engines;
pub mod environment;
pub mod experiment;
pub mod export;
pub mod histogram;
pub mod knob;
pub mod load;
pub mod machine;
pub mod machine_hooks;
pub mod measure;
pub mod memory_read;
pub mod nearest;
pub mod neighbour;
pub mod ohc;
pub mod pace;
pub mod page_gets;
pub mod point;
pub mod replay;
pub mod report;
pub mod restart;
pub mod restore;
pub mod root;
pub mod run;
pub mod servers;
pub mod settings;
pub mod stats;
pub mod subject;
pub mod trace;
pub mod ttest;
pub mod units;
pub mod with;
pub mod workload;
pub mod ycsb;
pub mod ycsb_report;
