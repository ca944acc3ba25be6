//! The books of the store that are neither segments nor index: flush marks, the policy's numbers, ghosts.

use super::Store;
use crate::generation::Generations;
use crate::ghost::{Ghosts, LINE_BYTES};
use crate::image::{In, Out};
use crate::policy::Pool;
use crate::segment::State;
use crate::sync::{lock, Ordering};
use std::sync::Arc;

/// The mean item size is taken over as that of so many items: as settled as it gets.
const SETTLED_ITEMS: u64 = 4096;
/// Larger items than this there are none.
const ITEM_BYTES_MAX: f64 = 1e12;

impl Store {
    pub(crate) fn write_books(&self, out: &mut Out) {
        for word in [
            &self.flush.birth,
            &self.flush.due_ms,
            &self.flush.dark_from_ms,
        ] {
            out.u64(word.load(Ordering::SeqCst));
        }
        out.u64(u64::from(self.facts.evicted.load(Ordering::SeqCst)));
        out.u64(self.policy.mean_size().to_bits());
        let words = lock(&self.generations).words();
        for word in words {
            out.u64(word);
        }
        out.u64(self.with_ghosts(Ghosts::lines).unwrap_or(0));
        self.with_ghosts(|ghosts| ghosts.words().for_each(|word| out.u64(word)));
    }

    /// Takes over what `write` wrote, once the segments are. None: it is not whole.
    pub(crate) fn read_books(&self, from: &mut In<'_>) -> Option<()> {
        for word in [
            &self.flush.birth,
            &self.flush.due_ms,
            &self.flush.dark_from_ms,
        ] {
            word.store(from.u64()?, Ordering::SeqCst);
        }
        self.refresh_marks();
        self.facts
            .evicted
            .store(from.within(0..2)? == 1, Ordering::SeqCst);
        let mean = f64::from_bits(from.u64()?);
        if !(0.0..=ITEM_BYTES_MAX).contains(&mean) {
            return None;
        }
        self.policy
            .inserted(SETTLED_ITEMS, (mean * SETTLED_ITEMS as f64) as u64);
        self.read_pools(from)?;
        let lines = from.count(LINE_BYTES as usize)? as u64;
        if lines > 0 {
            let ghosts = Ghosts::from_words(lines, || from.u64())?;
            self.budget.charge_over(ghosts.bytes());
            self.set_ghosts(Some(Arc::new(ghosts)));
        }
        Some(())
    }

    fn read_pools(&self, from: &mut In<'_>) -> Option<()> {
        let mut main = Vec::new();
        let mut probation = 0;
        for id in self.segments.in_state(State::Sealed) {
            let segment = self.segments.get(id);
            match segment.pool() {
                Pool::Main => main.push(segment.generation()),
                Pool::Probation => probation += 1,
            }
        }
        let capacity = self.facts.capacity_bytes.load(Ordering::Relaxed);
        let words = [from.u64()?, from.u64()?, from.u64()?];
        let generations = Generations::from_words(words, capacity, &main)?;
        self.facts.now.store(generations.now(), Ordering::Relaxed);
        *lock(&self.generations) = generations;
        self.facts
            .main_segments
            .store(main.len() as u32, Ordering::Relaxed);
        self.facts
            .probation_segments
            .store(probation, Ordering::Relaxed);
        Some(())
    }
}
