//! The other side of a worker: where its operations come from and where their outcomes go.

use super::Outcomes;
use crate::workload::Batch;
use anyhow::Result;
use std::time::Instant;

/// What a worker draws from, for one phase (loading, warm-up, the measured part).
pub trait Feed {
    /// Time 0 of the phase.
    fn zero(&self) -> Instant;

    /// Clears `batch` and puts up to `room` operations in; 0: the phase is over. With a timetable, these are
    /// the operations that fall due soon, and at least the next one however far off.
    fn next(&mut self, batch: &mut Batch, room: usize) -> Result<usize>;

    /// Every operation of `batch` has its outcome.
    fn done(&mut self, batch: &Batch, outcomes: &mut Outcomes);
}
