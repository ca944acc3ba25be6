//! Why an arm's knobs are not set. `Refused` is this machine's fault and the arm's alone: it is recorded and the run goes
//! on. `Failed` is ours or the disk's: the run says so and stops.

use std::fmt;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// The machine lacks the knob, or the right to turn it, or it gave less than was asked.
    Refused(String),
    /// A change could not be journalled, made or undone.
    Failed(String),
}

impl Trouble {
    pub fn refused(reason: impl Into<String>) -> Self {
        Trouble::Refused(reason.into())
    }

    pub fn failed(reason: impl Into<String>) -> Self {
        Trouble::Failed(reason.into())
    }

    pub fn reason(&self) -> &str {
        match self {
            Trouble::Refused(reason) | Trouble::Failed(reason) => reason,
        }
    }

    /// The same kind of trouble with more to say.
    pub fn and(self, more: &str) -> Self {
        match self {
            Trouble::Refused(reason) => Trouble::Refused(format!("{reason}; {more}")),
            Trouble::Failed(reason) => Trouble::Failed(format!("{reason}; {more}")),
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason())
    }
}

impl std::error::Error for Trouble {}
