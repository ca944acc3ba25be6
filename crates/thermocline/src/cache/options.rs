//! What goes with a write, and what comes of it.

use super::value::Marks;
use std::time::Duration;

/// When an item expires.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Expiry {
    /// After the cache's `time_to_live`, if it has one; else never. Overwrites take it anew.
    #[default]
    Default,
    /// Never.
    Never,
    /// At this time, milliseconds since the Unix epoch. Past times store an item that is gone.
    AtMs(u64),
    /// So long from now.
    In(Duration),
}

/// On what condition a value is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Mode {
    /// Always.
    #[default]
    Set,
    /// Only if the key is not there.
    Add,
    /// Only if it is.
    Replace,
    /// Behind the value that is there; flags and expiry stay.
    Append,
    /// Before it; flags and expiry stay.
    Prepend,
    /// Only if the item still has this CAS token.
    CompareAndSet(u64),
}

/// What goes with a stored value.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SetOptions {
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// On what condition it is stored.
    pub mode: Mode,
    /// A CAS token of the caller's choice for the new version; None: one that never was before.
    pub token: Option<u64>,
    /// Marks to begin with (a cache that keeps them); `fetched` and the access time are set by the cache.
    pub marks: Marks,
    /// Hand out the token of the new version in `Stored::Stored`.
    pub want_token: bool,
}

/// What came of a write, in memcached's words.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stored {
    /// It is stored; the token of the new version, where it was asked for.
    Stored(Option<u64>),
    /// The condition did not hold (add, replace, append, prepend).
    NotStored,
    /// Another version is there (compare and set).
    Exists,
    /// Nothing is there (compare and set).
    NotFound,
}

impl Stored {
    /// Whether the value was stored.
    pub fn is_stored(self) -> bool {
        matches!(self, Stored::Stored(_))
    }
}
