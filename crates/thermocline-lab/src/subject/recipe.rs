//! A subject before it is started: its settings, read and checked. `check` stops here, `run` goes on.

use super::Subject;
use anyhow::Result;
use std::path::PathBuf;

/// What a subject may need to know of the point it is started for.
#[derive(Clone, Debug)]
pub struct StartContext {
    /// Workers that will drive it.
    pub workers: usize,
    /// Largest value the workload writes, bytes.
    pub value_bytes_max: u32,
    /// Different keys the workload will use.
    pub items: u64,
    /// Key and value bytes of an average item.
    pub item_bytes: f64,
    /// Values carry their key's stamp, and reads are to be checked against it.
    pub is_stamped: bool,
    pub seed: u64,
    /// For sockets, logs and the like; removed after the point.
    pub scratch: PathBuf,
    /// Files of the arm's cgroup: a process started for the point writes its own id to each before anything else. Empty: no cgroup.
    pub members: Vec<String>,
}

/// Which process does the work, and so belongs into the arm's cgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Works {
    /// The one that measures: engines.
    Here,
    /// One that the subject starts: it joins as it starts.
    Started,
    /// One that ran before: not the lab's to move.
    Elsewhere,
}

/// A checked description of a subject.
pub trait Recipe: Send + Sync {
    /// Starts it and waits until it answers.
    fn start(&self, context: &StartContext) -> Result<Box<dyn Subject>>;

    /// A server: measured in an open loop unless asked otherwise.
    fn is_server(&self) -> bool {
        false
    }

    /// Which process does the work.
    fn works(&self) -> Works {
        Works::Here
    }

    /// Brings its own work (a command): needs no workload.
    fn runs_alone(&self) -> bool {
        false
    }

    /// Connections, or threads where each is one: what throughput x latency must come to.
    fn concurrency(&self, workers: usize) -> usize {
        workers
    }

    /// What `check` should warn of.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
