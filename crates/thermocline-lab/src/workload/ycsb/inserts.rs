//! Key numbers handed to inserts, and the newest record that readers may ask for: it moves on only when every
//! insert before it has been acknowledged, through a window of 2^20 numbers, as in YCSB.

use anyhow::{bail, Result};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Mutex;

/// Inserts that may be on their way at the same time.
pub const WINDOW: u64 = 1 << 20;

/// Shared by all workers of a run.
#[derive(Debug)]
pub struct Inserts {
    next: AtomicU64,
    /// Every number below it is acknowledged.
    end: AtomicU64,
    /// One bit for each number from `end` on: acknowledged out of turn.
    acknowledged: Mutex<Vec<u64>>,
}

impl Inserts {
    /// `records` are there: numbers from it on are handed out.
    pub fn new(records: u64) -> Self {
        Inserts {
            next: AtomicU64::new(records),
            end: AtomicU64::new(records),
            acknowledged: Mutex::new(vec![0; (WINDOW / 64) as usize]),
        }
    }

    /// The number of the next record to insert.
    #[inline]
    pub fn take(&self) -> Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        if number >= self.end.load(Ordering::Relaxed) + WINDOW {
            bail!("{WINDOW} inserts are on their way and the oldest is not acknowledged: use fewer workers or shorter batches");
        }
        Ok(number)
    }

    /// The newest record that may be read.
    #[inline]
    pub fn last(&self) -> u64 {
        self.end.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// These inserts are over, done or failed. One lock for all of them.
    pub fn acknowledge(&self, numbers: &mut Vec<u64>) {
        if numbers.is_empty() {
            return;
        }
        let mut bits = self.acknowledged.lock().unwrap_or_else(|e| e.into_inner());
        for number in numbers.drain(..) {
            let at = (number % WINDOW) as usize;
            bits[at / 64] |= 1 << (at % 64);
        }
        let mut end = self.end.load(Ordering::Relaxed);
        loop {
            let at = (end % WINDOW) as usize;
            if bits[at / 64] & (1 << (at % 64)) == 0 {
                break;
            }
            bits[at / 64] &= !(1 << (at % 64));
            end += 1;
        }
        self.end.store(end, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_see_only_what_is_acknowledged_without_a_gap() {
        let inserts = Inserts::new(1000);
        let taken: Vec<u64> = (0..5).map(|_| inserts.take().unwrap()).collect();
        assert_eq!(taken, [1000, 1001, 1002, 1003, 1004]);
        assert_eq!(inserts.last(), 999);
        inserts.acknowledge(&mut vec![1001, 1003]);
        assert_eq!(inserts.last(), 999);
        inserts.acknowledge(&mut vec![1000]);
        assert_eq!(inserts.last(), 1001);
        inserts.acknowledge(&mut vec![1004, 1002]);
        assert_eq!(inserts.last(), 1004);
    }

    #[test]
    fn the_window_goes_round_and_ends() {
        let inserts = Inserts::new(0);
        for _ in 0..3 {
            let mut taken: Vec<u64> = (0..WINDOW).map(|_| inserts.take().unwrap()).collect();
            assert_eq!(taken.len() as u64, WINDOW);
            inserts.acknowledge(&mut taken);
        }
        assert_eq!(inserts.last(), 3 * WINDOW - 1);
        for _ in 0..WINDOW {
            inserts.take().unwrap();
        }
        assert!(inserts
            .take()
            .unwrap_err()
            .to_string()
            .contains("on their way"));
    }
}
