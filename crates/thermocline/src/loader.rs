//! Loading values on a miss: one load a key, however many ask.

/// Loads under way.
pub(crate) struct Loads {}

impl Loads {
    pub(crate) fn new() -> Loads {
        Loads {}
    }
}
