//! Recorded requests: what was asked of some cache, one request after the other, read from a file.
//!
//! Owns the field's formats (`key size` text, libCacheSim's oracleGeneral, Twitter's and MSR's CSV), their
//! compression, the synthetic traces of known recipe, and a trace's facts (requests, keys, bytes). Leaves what
//! is done with a request to others. Must hold: memory does not grow with the length of the trace, and no
//! byte of a file can make it panic: an error names the file and the line or record.

mod facts;
mod format;
mod input;
mod msr;
mod oracle;
mod reader;
mod source;
mod synthetic;
#[cfg(test)]
mod tests;
mod text;
mod twitter;

pub use facts::{Facts, KEYS_EXACT_MAX};
pub use format::Format;
pub use reader::{Origin, Reader};
pub use source::{Pace, TraceWorkload};
pub use synthetic::Recipe;

use crate::workload::Kind;

/// One request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it came, ns since some beginning; 0 throughout where the trace records no time.
    pub at_ns: u64,
    /// Names the key: the number the trace gives, or 64 bits of hash where it gives words.
    pub id: u64,
    /// Bytes of the key; 0 where the trace counts it in with `value_bytes` or does not say.
    pub key_bytes: u32,
    /// Bytes of the value (of the whole item where the trace knows no key length).
    pub value_bytes: u64,
    /// Time to live of what is written, seconds; 0: none.
    pub ttl_s: u32,
    pub kind: Kind,
}

impl Request {
    /// A read of an item of `bytes`.
    pub fn read(id: u64, bytes: u64) -> Request {
        Request {
            at_ns: 0,
            id,
            key_bytes: 0,
            value_bytes: bytes,
            ttl_s: 0,
            kind: Kind::Read,
        }
    }

    /// Bytes of the item: key and value.
    pub fn item_bytes(&self) -> u64 {
        u64::from(self.key_bytes) + self.value_bytes
    }
}
