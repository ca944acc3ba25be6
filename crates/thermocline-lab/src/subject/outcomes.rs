//! What became of a batch: an answer and a time for each operation, and counts of what is beside them.
//!
//! Owns no histogram and no total: the measuring loop makes those. Reused from batch to batch.

use std::collections::BTreeMap;
use std::time::Instant;

/// What the subject said to one operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// Nothing: the worker did not come to it.
    #[default]
    Unanswered,
    Hit,
    Miss,
    /// Written, deleted.
    Stored,
    /// A write the subject would not take for want of room or size: its right, but counted.
    Refused,
    /// ADD of what is there, REPLACE or DELETE of what is not: neither refusal nor error.
    NotStored,
    /// A hit with another value than the key's.
    Wrong,
    /// See [`Outcomes::failures`].
    Failed,
}

/// One operation's answer and times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    pub answer: Answer,
    /// When it was begun, ns after [`Outcomes::zero`]; 0 with `service_ns` 0: this one was not timed.
    pub started_ns: u64,
    /// From the beginning to the answer, ns. Workers of fast subjects time one in some.
    pub service_ns: u64,
}

/// Different failure texts kept; the rest are counted together.
const FAILURE_KINDS_MAX: usize = 32;

/// The outcomes of one batch, by the operation's index.
#[derive(Debug)]
pub struct Outcomes {
    /// Time 0 of `started_ns` and of the operations' `intended_ns`.
    pub zero: Instant,
    pub all: Vec<Outcome>,
    /// Writes made because a read missed; not among the operations.
    pub fills: u64,
    /// Of those, the ones the subject refused.
    pub fills_refused: u64,
    /// Why operations failed, and how many; emptied by [`Outcomes::take_failures`] only.
    pub failures: BTreeMap<String, u64>,
}

impl Outcomes {
    pub fn new(zero: Instant) -> Self {
        Outcomes {
            zero,
            all: Vec::new(),
            fills: 0,
            fills_refused: 0,
            failures: BTreeMap::new(),
        }
    }

    /// Makes room for a batch of `count`, all unanswered.
    #[inline]
    pub fn reset(&mut self, count: usize) {
        self.all.clear();
        self.all.resize(count, Outcome::default());
        self.fills = 0;
        self.fills_refused = 0;
    }

    /// An answer without a time.
    #[inline]
    pub fn set(&mut self, index: usize, answer: Answer) {
        self.all[index].answer = answer;
    }

    /// An answer with its times, both ns after `zero`.
    #[inline]
    pub fn set_timed(&mut self, index: usize, answer: Answer, started_ns: u64, ended_ns: u64) {
        self.all[index] = Outcome {
            answer,
            started_ns,
            service_ns: ended_ns.saturating_sub(started_ns).max(1),
        };
    }

    /// This operation failed because of `why`.
    pub fn fail(&mut self, index: usize, why: &str) {
        self.all[index].answer = Answer::Failed;
        let is_known = self.failures.contains_key(why) || self.failures.len() < FAILURE_KINDS_MAX;
        let why = if is_known { why } else { "other" };
        *self.failures.entry(why.to_string()).or_default() += 1;
    }

    pub fn take_failures(&mut self) -> BTreeMap<String, u64> {
        std::mem::take(&mut self.failures)
    }

    /// ns since `zero`.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.zero.elapsed().as_nanos() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_forgets_the_one_before_and_failure_kinds_are_bounded() {
        let mut outcomes = Outcomes::new(Instant::now());
        outcomes.reset(2);
        outcomes.set_timed(1, Answer::Hit, 5, 5);
        assert_eq!(outcomes.all[1].service_ns, 1, "a timed one is never 0");
        outcomes.reset(100);
        assert!(outcomes.all.iter().all(|o| *o == Outcome::default()));
        for index in 0..100 {
            outcomes.fail(index, &format!("kind {index}"));
        }
        let failures = outcomes.take_failures();
        assert_eq!(failures.values().sum::<u64>(), 100);
        assert_eq!(failures.len(), FAILURE_KINDS_MAX + 1);
        assert!(outcomes.failures.is_empty());
    }
}
