//! Counts and latencies of one worker's phase, and of all workers' merged. Its size does not depend on how many
//! operations it has seen.

use crate::histogram::latency_histogram;
use crate::subject::{Answer, Outcome, Outcomes};
use crate::workload::{Batch, Kind, Op, UNSCHEDULED};
use hdrhistogram::Histogram;
use std::collections::BTreeMap;

const ANSWERS: usize = 8;

/// What came of a phase.
#[derive(Default)]
pub struct Tally {
    counts: [[u64; ANSWERS]; Kind::COUNT],
    /// From the beginning of an operation to its answer, by kind, made when first needed.
    service: [Option<Histogram<u64>>; Kind::COUNT],
    /// From the intended beginning, of operations that had one.
    response: [Option<Histogram<u64>>; Kind::COUNT],
    pub fills: u64,
    pub fills_refused: u64,
    pub failures: BTreeMap<String, u64>,
    /// Time between a batch's issue and its last answer, ns; 0 where batches overlap.
    pub in_subject_ns: u64,
}

fn record(slot: &mut Option<Histogram<u64>>, value: u64) {
    slot.get_or_insert_with(latency_histogram)
        .saturating_record(value.max(1));
}

impl Tally {
    /// Books a batch.
    pub fn add(&mut self, batch: &Batch, outcomes: &mut Outcomes) {
        for (op, outcome) in batch.ops.iter().zip(&outcomes.all) {
            self.counts[op.kind as usize][outcome.answer as usize] += 1;
            if outcome.service_ns > 0 {
                self.time(op, outcome);
            }
        }
        self.fills += outcomes.fills;
        self.fills_refused += outcomes.fills_refused;
        if !outcomes.failures.is_empty() {
            merge_counts(&mut self.failures, outcomes.take_failures());
        }
    }

    fn time(&mut self, op: &Op, outcome: &Outcome) {
        // What failed has no time worth a place among the answers'.
        if outcome.answer == Answer::Failed {
            return;
        }
        record(&mut self.service[op.kind as usize], outcome.service_ns);
        if op.intended_ns != UNSCHEDULED {
            let ended_ns = outcome.started_ns + outcome.service_ns;
            let response_ns = ended_ns.saturating_sub(op.intended_ns);
            record(&mut self.response[op.kind as usize], response_ns);
        }
    }

    pub fn merge(&mut self, other: Tally) {
        for (own, others) in self.counts.iter_mut().zip(other.counts) {
            for (count, more) in own.iter_mut().zip(others) {
                *count += more;
            }
        }
        merge_histograms(&mut self.service, other.service);
        merge_histograms(&mut self.response, other.response);
        self.fills += other.fills;
        self.fills_refused += other.fills_refused;
        merge_counts(&mut self.failures, other.failures);
        self.in_subject_ns += other.in_subject_ns;
    }

    /// Operations of one kind with one answer.
    pub fn count(&self, kind: Kind, answer: Answer) -> u64 {
        self.counts[kind as usize][answer as usize]
    }

    /// Operations of any kind with this answer.
    pub fn answered(&self, answer: Answer) -> u64 {
        self.counts
            .iter()
            .map(|of_kind| of_kind[answer as usize])
            .sum()
    }

    /// Operations of this kind that were answered as they should be.
    pub fn completed_of(&self, kind: Kind) -> u64 {
        use Answer::*;
        [Hit, Miss, Stored, Refused, NotStored]
            .into_iter()
            .map(|answer| self.count(kind, answer))
            .sum()
    }

    /// Operations that were answered as they should be: a miss and a refusal are answers.
    pub fn completed(&self) -> u64 {
        Kind::ALL
            .into_iter()
            .map(|kind| self.completed_of(kind))
            .sum()
    }

    /// Wrong values, failures, and operations nobody came to.
    pub fn broken(&self) -> u64 {
        use Answer::*;
        [Wrong, Failed, Unanswered]
            .into_iter()
            .map(|answer| self.answered(answer))
            .sum()
    }

    pub fn hits(&self) -> u64 {
        self.answered(Answer::Hit)
    }

    pub fn misses(&self) -> u64 {
        self.answered(Answer::Miss)
    }

    /// Service times of a kind; `None` if none was timed.
    pub fn service_of(&self, kind: Kind) -> Option<&Histogram<u64>> {
        self.service[kind as usize].as_ref()
    }

    /// Response times of a kind; `None` in a closed loop.
    pub fn response_of(&self, kind: Kind) -> Option<&Histogram<u64>> {
        self.response[kind as usize].as_ref()
    }

    /// Service times of all kinds.
    pub fn service(&self) -> Option<Histogram<u64>> {
        joined(&self.service)
    }

    /// Response times of all kinds; in a closed loop they are the service times.
    pub fn response(&self) -> Option<Histogram<u64>> {
        joined(&self.response).or_else(|| self.service())
    }
}

fn joined(parts: &[Option<Histogram<u64>>]) -> Option<Histogram<u64>> {
    let mut parts = parts.iter().flatten();
    let mut all = parts.next()?.clone();
    for part in parts {
        all.add(part).expect("equal bounds");
    }
    Some(all)
}

fn merge_histograms(
    own: &mut [Option<Histogram<u64>>],
    others: [Option<Histogram<u64>>; Kind::COUNT],
) {
    for (own, other) in own.iter_mut().zip(others) {
        match (own.as_mut(), other) {
            (Some(own), Some(other)) => own.add(&other).expect("equal bounds"),
            (None, Some(other)) => *own = Some(other),
            (_, None) => {}
        }
    }
}

/// Different failure texts kept over all workers.
const FAILURE_KINDS_MAX: usize = 64;

fn merge_counts(own: &mut BTreeMap<String, u64>, others: BTreeMap<String, u64>) {
    for (why, count) in others {
        let is_known = own.contains_key(&why) || own.len() < FAILURE_KINDS_MAX;
        let why = if is_known { why } else { "other".into() };
        *own.entry(why).or_default() += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    fn tally(ops: &[(Kind, Answer, u64, u64, u64)]) -> Tally {
        let (mut batch, mut outcomes) = (Batch::default(), Outcomes::new(Instant::now()));
        for (kind, ..) in ops {
            batch.push(Op::new(*kind, 1, 1), 1, |key| key.fill(b'k'));
        }
        outcomes.reset(ops.len());
        for (index, &(_, answer, intended, started, ended)) in ops.iter().enumerate() {
            batch.ops[index].intended_ns = intended;
            match answer {
                Answer::Failed => outcomes.fail(index, "why"),
                _ => outcomes.set_timed(index, answer, started, ended),
            }
        }
        let mut tally = Tally::default();
        tally.add(&batch, &mut outcomes);
        tally
    }

    #[test]
    fn service_begins_at_the_start_and_response_at_the_intended_start() {
        let late = tally(&[(Kind::Read, Answer::Hit, 1000, 50_000, 60_000)]);
        assert_eq!(late.service().unwrap().max() / 100, 100);
        assert_eq!(late.response().unwrap().max() / 1000, 59);
        let closed = tally(&[(Kind::Read, Answer::Hit, UNSCHEDULED, 50_000, 60_000)]);
        assert_eq!(closed.response(), closed.service());
    }

    #[test]
    fn merging_adds_and_broken_operations_are_no_results() {
        let mut all = tally(&[
            (Kind::Read, Answer::Hit, UNSCHEDULED, 0, 10),
            (Kind::Read, Answer::Wrong, UNSCHEDULED, 0, 10),
        ]);
        all.merge(tally(&[
            (Kind::Read, Answer::Miss, UNSCHEDULED, 0, 10),
            (Kind::Write, Answer::Refused, UNSCHEDULED, 0, 10),
            (Kind::Write, Answer::Failed, UNSCHEDULED, 0, 10),
            (Kind::Write, Answer::Unanswered, UNSCHEDULED, 0, 10),
        ]));
        assert_eq!((all.completed(), all.broken()), (3, 3));
        assert_eq!((all.hits(), all.misses()), (1, 1));
        assert_eq!(all.completed_of(Kind::Write), 1);
        assert_eq!(all.failures["why"], 1);
    }
}
