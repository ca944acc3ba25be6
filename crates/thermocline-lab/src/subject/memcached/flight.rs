//! A request of a worker on its way, and what for.

use crate::load::awaited::Request;

/// What a request under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
    Delete,
    /// The write of a read-modify-write; what its read found.
    Rewrite {
        hit: bool,
    },
    /// A write of what a read missed: no operation waits for it.
    Fill,
}

/// A request under way, for operation `index` of batch `slot`.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    pub slot: usize,
    pub index: usize,
    pub purpose: Purpose,
    pub started_ns: u64,
}

impl Request for Flight {
    fn is_read(&self) -> bool {
        self.purpose == Purpose::Read
    }
}
