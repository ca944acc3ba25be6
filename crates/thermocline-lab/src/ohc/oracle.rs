//! What must come out if keys are uniform: a share f of them is resident, reads hit with chance f, and a write
//! evicts with chance 1 - f. The resident keys are counted by asking for each, and evictions by what a number of
//! further writes displace, so that the check is the same for every engine. Runs after the measurement.

use super::args::Args;
use crate::subject::{Answer, Outcomes, Subject, Worker};
use crate::workload::ohc::{Histogram, Ohc, Table};
use crate::workload::{Batch, Kind, Random, Workload};
use anyhow::{bail, Result};
use serde::{Deserialize, Serialize};
use std::time::Instant;

/// Keys asked for at a time.
const BATCH: usize = 256;
/// Writes whose evictions are counted, and bytes they may write.
const WRITES_MAX: u64 = 200_000;
const WRITE_BYTES_MAX: f64 = 2e9;
/// How often resident keys are counted while these writes are made: with values of all sizes their number
/// fluctuates (of 8,000 keys by 0.5 %), and a mean of several counts is what rates are compared with. Of many keys one
/// count before and one after tell enough.
const ROUNDS: u64 = 8;
const KEYS_OF_ROUNDS_MAX: u64 = 1_000_000;
/// Two digits.
const TOLERANCE: f64 = 0.01;

/// What was counted, and what it was compared with.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Oracle {
    pub keys: u64,
    /// By the first count.
    pub resident: u64,
    /// Resident over all keys, the mean of all counts.
    pub resident_share: f64,
    /// capacity / (keys x entry): what the accounting promises; 1 where all fits.
    pub predicted_share: f64,
    /// Bytes an entry is charged, for that prediction.
    pub entry_bytes: f64,
    /// Of the measured reads.
    pub hit_rate: f64,
    /// Counted over the writes made for it.
    pub evictions_per_write: f64,
    pub writes_counted: u64,
    pub histogram: Option<Histogram>,
}

impl Oracle {
    /// Hit rate against the counted share.
    pub fn hit_error(&self) -> f64 {
        self.hit_rate - self.resident_share
    }

    /// Evictions a write against the share that is not there.
    pub fn eviction_error(&self) -> f64 {
        self.evictions_per_write - (1.0 - self.resident_share)
    }

    /// Counted share against the accounting's.
    pub fn share_error(&self) -> f64 {
        self.resident_share - self.predicted_share
    }

    /// Hit rate and evictions agree with the counted share to two digits.
    pub fn holds(&self) -> bool {
        self.hit_error().abs() <= TOLERANCE && self.eviction_error().abs() <= TOLERANCE
    }
}

/// Why there can be no oracle, if so.
pub fn impossible(args: &Args) -> Option<&'static str> {
    let workload = &args.workload;
    let same = workload.read_keys.min() == workload.write_keys.min()
        && workload.read_keys.max() == workload.write_keys.max();
    if !workload.read_keys.is_uniform() || !workload.write_keys.is_uniform() || !same {
        return Some("keys are not uniform over one range");
    }
    if args.read_through {
        return Some("asking for keys would fill them (--read-through)");
    }
    if workload.read_ratio == 0.0 {
        return Some("nothing was read");
    }
    None
}

/// Counts and compares. Costs up to nine passes over the keys and 200,000 writes.
pub fn check(
    args: &Args,
    ohc: &Ohc,
    subject: &dyn Subject,
    hit_rate: f64,
    charge: f64,
) -> Result<Oracle> {
    let mut counter = Counter {
        ohc,
        worker: subject.worker(0)?,
        batch: Batch::default(),
        outcomes: Outcomes::new(Instant::now()),
        random: Random::lane(args.workload.seed, 5_000_000),
    };
    let mut table = Table::new(args.table);
    subject.settle();
    let before = counter.resident(args.histogram.then_some(&mut table))?;
    let (_, item_bytes) = ohc.items_expected();
    let rounds = if ohc.keys() <= KEYS_OF_ROUNDS_MAX {
        ROUNDS
    } else {
        1
    };
    let writes =
        ((WRITE_BYTES_MAX / item_bytes) as u64).clamp(rounds, WRITES_MAX) / rounds * rounds;
    let (mut added, mut counted, mut after) = (0, before, before);
    for _ in 0..rounds {
        added += counter.write(writes / rounds)?;
        subject.settle();
        after = counter.resident(None)?;
        counted += after;
    }
    let evicted = (before + added).saturating_sub(after);
    let entry_bytes = item_bytes + charge;
    let keys = ohc.keys();
    Ok(Oracle {
        keys,
        resident: before,
        resident_share: counted as f64 / (rounds + 1) as f64 / keys as f64,
        predicted_share: (args.capacity_bytes as f64 / (keys as f64 * entry_bytes)).min(1.0),
        entry_bytes,
        hit_rate,
        evictions_per_write: evicted as f64 / writes.max(1) as f64,
        writes_counted: writes,
        histogram: args.histogram.then(|| table.histogram()),
    })
}

struct Counter<'a> {
    ohc: &'a Ohc,
    worker: Box<dyn Worker + 'a>,
    batch: Batch,
    outcomes: Outcomes,
    random: Random,
}

impl Counter<'_> {
    /// Asks for every key.
    fn resident(&mut self, mut table: Option<&mut Table>) -> Result<u64> {
        let keys = &self.ohc.settings().write_keys;
        let (mut next, last) = (keys.min(), keys.max());
        let mut resident = 0;
        while next <= last {
            self.batch.clear();
            while self.batch.len() < BATCH && next <= last {
                self.ohc.push(&mut self.batch, Kind::Read, next, 0);
                next += 1;
            }
            self.apply()?;
            for index in 0..self.batch.len() {
                if self.outcomes.all[index].answer == Answer::Hit {
                    resident += 1;
                    if let Some(table) = table.as_deref_mut() {
                        table.add(self.batch.key(index));
                    }
                }
            }
        }
        Ok(resident)
    }

    /// Writes keys as the workload does, asking for each first; returns how many were not there.
    fn write(&mut self, count: u64) -> Result<u64> {
        let settings = self.ohc.settings();
        let (mut left, mut added) = (count, 0);
        while left > 0 {
            self.batch.clear();
            self.ohc.share(&mut self.batch);
            let pairs = left.min(BATCH as u64 / 2);
            for _ in 0..pairs {
                let number = settings.write_keys.sample(&mut self.random);
                let bytes = settings.value_bytes.sample(&mut self.random);
                self.ohc.push(&mut self.batch, Kind::Read, number, bytes);
                self.ohc.push(&mut self.batch, Kind::Write, number, bytes);
            }
            left -= pairs;
            self.apply()?;
            added += self
                .outcomes
                .all
                .chunks_exact(2)
                .filter(|pair| pair[0].answer == Answer::Miss && pair[1].answer == Answer::Stored)
                .count() as u64;
        }
        Ok(added)
    }

    fn apply(&mut self) -> Result<()> {
        self.outcomes.reset(self.batch.len());
        self.worker.apply(&self.batch, &mut self.outcomes)?;
        if let Some((why, count)) = self.outcomes.take_failures().into_iter().next() {
            bail!("while counting resident keys: {count} x {why}");
        }
        Ok(())
    }
}
