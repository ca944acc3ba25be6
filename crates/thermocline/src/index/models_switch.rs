//! Switches that take a guarding line out, so that the models can show they notice.
//!
//! Outside the model checker every switch is the constant `false` and costs nothing.

/// The guarding lines the models can remove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Mutant {
    /// A reader believes a miss without looking at its directory word again.
    NoRecheck = 1,
    /// `publish` inserts without looking for the key under the lock.
    NoSecondLook,
    /// `bump` is a plain store.
    PlainBump,
    /// `move_if` changes the slot without the unit's lock.
    MoveWithoutLock,
    /// A split publishes the second half's head before its followers.
    HeadBeforeFollower,
    /// A lock is taken without comparing the depths of the own and the head word.
    NoDepthCheck,
    /// A block is moved although its owner's word does not name it.
    MoveUnpublished,
    /// A slab changes its class at once.
    NoGrace,
    /// A walk copies a unit without holding it.
    ScanUnlocked,
    /// Unlocking wakes nobody.
    NoWake,
}

#[cfg(shuttle)]
thread_local! {
    // Shuttle runs all threads of a model on one thread of the system.
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(shuttle)]
pub(super) fn mutant(which: Mutant) -> bool {
    ACTIVE.with(|active| active.get() == Some(which))
}

#[cfg(all(shuttle, test))]
pub(super) fn activate(which: Option<Mutant>) {
    ACTIVE.with(|active| active.set(which));
}

#[cfg(not(shuttle))]
#[inline(always)]
pub(super) fn mutant(_which: Mutant) -> bool {
    false
}
