//! `thermolab ycsb`: YCSB's client over the core workload.
//!
//! - `client`: its properties. `report`: its final report, written and read. `status`: its status lines.

pub mod client;
pub mod report;
pub mod status;
