//! What a point tells while it is taken, in this process or through a pipe from a child.

use crate::measure::Phase;
use crate::point::PointLine;
use anyhow::Result;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// One thing told, one JSON line of a child.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The subject is started and answers.
    Ready {
        /// The process that does the work.
        pid: u32,
        /// What subject and workload say of themselves.
        facts: BTreeMap<String, Value>,
    },
    /// A phase begins, of at most so long.
    Begins {
        phase: Phase,
        limit_seconds: Option<f64>,
        pid: u32,
    },
    Ended {
        phase: Phase,
        pid: u32,
    },
    /// The end.
    Taken(Box<PointLine>),
}

/// Hears events; the point waits until it has been heard, and an error ends it.
pub trait Listener {
    fn hear(&mut self, event: Event) -> Result<()>;
}
