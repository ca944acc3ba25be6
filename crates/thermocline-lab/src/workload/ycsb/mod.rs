//! YCSB's core workload, exact: its properties and defaults, keys, distributions, values and record layouts.
//!
//! - `properties`: files and flags as Java reads them; `known`: the names; `settings`: their meaning.
//! - `key`, `field`, `row`: the bytes. `draw`: the distributions. `inserts`: records that come to be.
//! - `source`: all of it as a stream of operations.
//!
//! Equal to YCSB where it can be: keys, values that follow from keys, distributions, proportions, defaults.
//! Not equal: the order of draws, since YCSB seeds nothing. Leaves the client (threads, target, reports) to the
//! verb.

pub mod draw;
mod field;
mod inserts;
pub mod key;
pub mod known;
pub mod properties;
mod row;
pub mod settings;
mod source;

pub use properties::Properties;
pub use row::{Layout, Rows};
pub use settings::Settings;
pub use source::{Dialect, Ycsb};
