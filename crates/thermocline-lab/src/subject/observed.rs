//! A subject with someone looking over its workers' shoulders: every batch and its outcomes are shown to an eye
//! before they are booked. For status lines and raw latencies, which the measuring loop does not keep.

use super::{Alone, Feed, Outcomes, Subject, Worker};
use crate::workload::Batch;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Looks at batches. Called from the workers' threads, between batches: what it costs is not latency, but it is
/// throughput.
pub trait Eye: Send + Sync {
    fn see(&self, worker: usize, batch: &Batch, outcomes: &Outcomes);
}

/// See the file's head.
pub struct Observed {
    inner: Box<dyn Subject>,
    eye: Arc<dyn Eye>,
}

impl Observed {
    pub fn new(inner: Box<dyn Subject>, eye: Arc<dyn Eye>) -> Self {
        Observed { inner, eye }
    }
}

impl Subject for Observed {
    fn worker(&self, id: usize) -> Result<Box<dyn Worker + '_>> {
        Ok(Box::new(ObservedWorker {
            inner: self.inner.worker(id)?,
            id,
            eye: self.eye.as_ref(),
        }))
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        self.inner.counters()
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        self.inner.facts()
    }

    fn pid(&self) -> Option<u32> {
        self.inner.pid()
    }

    fn settle(&self) {
        self.inner.settle();
    }

    fn health(&self) -> Result<()> {
        self.inner.health()
    }

    fn run_alone(&self, limit: Option<Duration>) -> Option<Result<Alone>> {
        self.inner.run_alone(limit)
    }

    fn stop(self: Box<Self>) -> Result<()> {
        self.inner.stop()
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
