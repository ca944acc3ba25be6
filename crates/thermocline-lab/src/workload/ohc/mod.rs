//! The workload of OHC's own benchmark: its distribution grammar, keys, values and independent draws, and the
//! bucket histogram of its table.

mod buckets;
mod distribution;
mod hash;
mod source;

pub use buckets::{Histogram, Table, TableShape, BUCKETS_MAX};
pub use distribution::Distribution;
pub use hash::HashMode;
pub use source::{Content, Ohc, OhcSettings, LENGTH_BYTES};
