//! What is measured: an engine, a server, a command. The traits, and the words in which a worker answers.
//!
//! A subject is started for one point and stopped after it. Its workers take batches of operations and say of
//! each what became of it and how long it took. Runners know this page and none of the kinds.

pub mod command;
pub mod embedded;
pub mod engine_recipe;
pub mod feed;
pub mod file_recipe;
pub mod kinds;
pub mod last_words;
pub mod memcached;
pub mod mock;
pub mod observed;
pub mod outcomes;
pub mod recipe;
pub mod server;
pub mod slow_store;
pub mod wrapped;

pub use command::cgroup_shell;
pub use feed::Feed;
pub use kinds::read_subject;
pub use outcomes::{Answer, Outcome, Outcomes};
pub use recipe::{Recipe, StartContext, Works};

use crate::workload::Batch;
use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// Something that can be measured, ready: started, reachable, empty.
pub trait Subject: Send + Sync {
    /// A worker of its own thread, `id` from 0.
    fn worker(&self, id: usize) -> Result<Box<dyn Worker + '_>>;

    /// Figures the subject keeps of itself, now. Names end in a unit; counters in `_total`.
    /// Called a few times a second while workers run: cheap.
    fn counters(&self) -> BTreeMap<String, f64>;

    /// What it is and what it got: version, settings in force, page mode found.
    fn facts(&self) -> BTreeMap<String, Value>;

    /// The process that does the work, where it is not this one.
    fn pid(&self) -> Option<u32> {
        None
    }

    /// Finishes what it does later (queued evictions), before its counters are read.
    fn settle(&self) {}

    /// An error once it can no longer be measured: a server that died, with its status and last words.
    fn health(&self) -> Result<()> {
        Ok(())
    }

    /// Subjects that bring their own work (a shell command): runs it once, for `limit` at most, and hands its
    /// figures back. `None`: it has workers.
    fn run_alone(&self, _limit: Option<Duration>) -> Option<Result<Alone>> {
        None
    }

    /// Ends it and gives back what it holds.
    fn stop(self: Box<Self>) -> Result<()>;
}

/// One thread's door to a subject.
pub trait Worker: Send {
    /// Does all operations of `batch` and sets the outcome of each; `outcomes` is reset to the batch by the
    /// caller. An operation with a timetable starts no earlier than its time. An error means that no further
    /// operation can be done; what a server refuses is an outcome, not an error.
    fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()>;

    /// Draws from `feed` until it is dry. Workers that keep more than one batch on its way do it their own way.
    fn drive(&mut self, feed: &mut dyn Feed) -> Result<()> {
        let mut batch = Batch::default();
        let mut outcomes = Outcomes::new(feed.zero());
        while feed.next(&mut batch, usize::MAX)? > 0 {
            outcomes.reset(batch.len());
            let applied = self.apply(&batch, &mut outcomes);
            feed.done(&batch, &mut outcomes);
            applied?;
        }
        Ok(())
    }
}

/// What a subject that ran alone has to say.
#[derive(Clone, Debug, Default)]
pub struct Alone {
    /// Figures by name, as the command's output or the kernel gave them.
    pub metrics: BTreeMap<String, f64>,
    /// Before/after differences: `vmstat`, `psi`, `rusage`, `cgroup`.
    pub deltas: BTreeMap<String, BTreeMap<String, f64>>,
    pub series: BTreeMap<String, Vec<(f64, f64)>>,
    /// The cause of the end: `exit 0`, `time limit`.
    pub end: String,
    pub seconds: f64,
    pub warnings: Vec<String>,
}
