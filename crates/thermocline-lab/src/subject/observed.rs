//! A subject with someone looking over its workers' shoulders: every batch and its outcomes are shown to an eye
//! before they are booked. For status lines and raw latencies, which the measuring loop does not keep.

use super::wrapped::Wrap;
use super::{Feed, Outcomes, Worker};
use crate::workload::Batch;
use anyhow::Result;
use std::sync::Arc;
use std::time::Instant;

/// Looks at batches. Called from the workers' threads, between batches: what it costs is not latency, but it is
/// throughput.
pub trait Eye: Send + Sync {
    fn see(&self, worker: usize, batch: &Batch, outcomes: &Outcomes);
}

/// Has an eye look over every worker's shoulder.
pub struct Observed(pub Arc<dyn Eye>);

impl Wrap for Observed {
    fn worker<'a>(&'a self, id: usize, inner: Box<dyn Worker + 'a>) -> Box<dyn Worker + 'a> {
        Box::new(ObservedWorker {
            inner,
            id,
            eye: self.0.as_ref(),
        })
    }
}

struct ObservedWorker<'a> {
    inner: Box<dyn Worker + 'a>,
    id: usize,
    eye: &'a dyn Eye,
}

impl Worker for ObservedWorker<'_> {
    fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()> {
        let applied = self.inner.apply(batch, outcomes);
        self.eye.see(self.id, batch, outcomes);
        applied
    }

    fn drive(&mut self, feed: &mut dyn Feed) -> Result<()> {
        self.inner.drive(&mut ObservedFeed {
            inner: feed,
            id: self.id,
            eye: self.eye,
        })
    }
}

struct ObservedFeed<'a> {
    inner: &'a mut dyn Feed,
    id: usize,
    eye: &'a dyn Eye,
}

impl Feed for ObservedFeed<'_> {
    fn zero(&self) -> Instant {
        self.inner.zero()
    }

    fn next(&mut self, batch: &mut Batch, room: usize) -> Result<usize> {
        self.inner.next(batch, room)
    }

    fn done(&mut self, batch: &Batch, outcomes: &mut Outcomes) {
        self.eye.see(self.id, batch, outcomes);
        self.inner.done(batch, outcomes);
    }
}
