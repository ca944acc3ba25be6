//! Inserts that failed are tried again after a while, as YCSB does in its load where it is asked to.

use crate::subject::wrapped::Wrap;
use crate::subject::{Answer, Outcomes, Worker};
use crate::workload::{Batch, Kind, Random};
use anyhow::Result;
use std::time::Duration;

/// Has workers try failed inserts again.
pub struct Retrying {
    pub times: u32,
    /// Slept before each, times 0.8 to 1.2.
    pub after: Duration,
    pub seed: u64,
}

impl Wrap for Retrying {
    fn worker<'a>(&'a self, id: usize, inner: Box<dyn Worker + 'a>) -> Box<dyn Worker + 'a> {
        Box::new(RetryingWorker {
            inner,
            times: self.times,
            after: self.after,
            random: Random::lane(self.seed, 3_000_000 + id as u64),
        })
    }
}

struct RetryingWorker<'a> {
    inner: Box<dyn Worker + 'a>,
    times: u32,
    after: Duration,
    random: Random,
}

impl Worker for RetryingWorker<'_> {
    /// `drive` is left at its usual: one batch after the other, so that this is asked for each.
    fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()> {
        self.inner.apply(batch, outcomes)?;
        for _ in 0..self.times {
            let failed: Vec<usize> = (0..batch.len())
                .filter(|&index| is_failed_insert(batch, outcomes, index))
                .collect();
            if failed.is_empty() {
                break;
            }
            let patience = 0.8 + 0.4 * self.random.unit();
            std::thread::sleep(self.after.mul_f64(patience));
            self.again(batch, outcomes, &failed)?;
        }
        Ok(())
    }
}

impl RetryingWorker<'_> {
    fn again(&mut self, batch: &Batch, outcomes: &mut Outcomes, failed: &[usize]) -> Result<()> {
        let mut part = Batch::default();
        for &index in failed {
            let key = batch.key(index);
            part.push(batch.ops[index], key.len(), |out| out.copy_from_slice(key));
            if let Some(value) = batch.value(index) {
                part.push_value(|_, out| out.extend_from_slice(value));
            }
        }
        let mut second = Outcomes::new(outcomes.zero);
        second.reset(part.len());
        // What failed the first time and not the second has not failed.
        outcomes.take_failures();
        self.inner.apply(&part, &mut second)?;
        for (&index, outcome) in failed.iter().zip(&second.all) {
            outcomes.all[index] = *outcome;
        }
        for (why, count) in second.take_failures() {
            *outcomes.failures.entry(why).or_default() += count;
        }
        Ok(())
    }
}

fn is_failed_insert(batch: &Batch, outcomes: &Outcomes, index: usize) -> bool {
    matches!(batch.ops[index].kind, Kind::Insert | Kind::Add)
        && matches!(outcomes.all[index].answer, Answer::Failed | Answer::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Op;
    use std::time::Instant;

    /// Fails each insert so many times.
    struct Stubborn(u32);

    impl Worker for Stubborn {
        fn apply(&mut self, batch: &Batch, outcomes: &mut Outcomes) -> Result<()> {
            for index in 0..batch.len() {
                assert_eq!(batch.value(index), Some(&b"value"[..]));
                if self.0 > 0 {
                    outcomes.fail(index, "not yet");
                } else {
                    outcomes.set_timed(index, Answer::Stored, 0, 5);
                }
            }
            self.0 = self.0.saturating_sub(1);
            Ok(())
        }
    }

    fn outcome(failures: u32, times: u32) -> (Answer, u64) {
        let mut worker = RetryingWorker {
            inner: Box::new(Stubborn(failures)),
            times,
            after: Duration::from_millis(1),
            random: Random::new(1),
        };
        let mut batch = Batch::default();
        batch.push(Op::new(Kind::Insert, 1, 5), 1, |key| key.fill(b'k'));
        batch.push_value(|_, out| out.extend_from_slice(b"value"));
        let mut outcomes = Outcomes::new(Instant::now());
        outcomes.reset(1);
        worker.apply(&batch, &mut outcomes).unwrap();
        (outcomes.all[0].answer, outcomes.failures.values().sum())
    }

    #[test]
    fn inserts_are_tried_as_often_as_asked() {
        assert_eq!(outcome(2, 2), (Answer::Stored, 0));
        assert_eq!(outcome(3, 2), (Answer::Failed, 1));
        assert_eq!(outcome(1, 0), (Answer::Failed, 1));
    }
}
