//! Walking over all slots while others work.
//!
//! The walk goes by the order of the hash, which never changes: units are only ever divided, so the
//! end of the last unit seen is the start of one for good. Each key's range is visited once; it cannot
//! loop, and no key that stays comes twice, whatever moves, splits or is rebuilt.

use super::lock::Position;
use super::models_switch::{mutant, Mutant};
use super::word::{Level, FINE};
use super::Index;
use crate::location::Slot;

/// How far a walk has come.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Cursor {
    /// The next fine word.
    next: usize,
}

impl Cursor {
    /// How much of the walk is done, 0.0 to 1.0.
    pub(crate) fn progress(&self, index: &Index) -> f64 {
        self.next as f64 / (index.words * FINE) as f64
    }
}

impl Index {
    /// Appends the slots of the next unit (at most 448) to `out`. False when the walk was over before.
    /// Holds the unit's lock for the copy (1 us). Be pinned from here to the last use of the slots.
    pub(crate) fn scan(&self, cursor: &mut Cursor, out: &mut Vec<Slot>) -> bool {
        if cursor.next >= self.words * FINE {
            return false;
        }
        out.reserve(super::unit::SLOTS_MAX);
        let unit = self.lock(Position {
            coarse: cursor.next / FINE,
            fine: cursor.next,
        });
        let (word, head, block) = (unit.word, unit.head, unit.block());
        let held = (!mutant(Mutant::ScanUnlocked)).then_some(unit);
        if word.steps() > 0 {
            block.for_each(word.steps(), |slot| out.push(slot));
        }
        drop(held);
        let end = head.index + word.run();
        cursor.next = match head.level {
            Level::Coarse => end * FINE,
            Level::Fine => end,
        };
        true
    }
}
