//! A subject whose workers are wrapped in others: everything else is the inner subject's.

use super::{Alone, Subject, Worker};
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Makes a worker of a worker.
pub trait Wrap: Send + Sync {
    fn worker<'a>(&'a self, id: usize, inner: Box<dyn Worker + 'a>) -> Box<dyn Worker + 'a>;
}

/// See the file's head.
pub struct Wrapped<W> {
    inner: Box<dyn Subject>,
    wrap: W,
}

impl<W: Wrap> Wrapped<W> {
    pub fn new(inner: Box<dyn Subject>, wrap: W) -> Self {
        Wrapped { inner, wrap }
    }
}

impl<W: Wrap> Subject for Wrapped<W> {
    fn worker(&self, id: usize) -> Result<Box<dyn Worker + '_>> {
        Ok(self.wrap.worker(id, self.inner.worker(id)?))
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
