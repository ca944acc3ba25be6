//! Switches that take a guarding line out, so that the models of the engine can show they notice.
//!
//! As in `index/models_switch.rs`: outside the model checker every switch is the constant `false`.

/// The guarding lines the models can remove.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(not(shuttle), allow(dead_code))]
pub(crate) enum Mutant {
    /// A reader believes its copy without comparing headers.
    NoHeaderCheck,
    /// A slot turns to a record that is not yet written.
    PublishUnwritten,
    /// An item is overwritten in place though its version has reached the last one there is.
    VersionWraps,
    /// A removal heeds neither that the item is held nor that its slot has gone: either line alone keeps its bytes
    /// from being buried twice.
    RemoveBlind,
    /// A mover copies an item without freezing it, and writers do not heed that their segment is being
    /// drained: either line alone keeps overwrites from being lost.
    NoFreezeNorDrainingCheck,
    /// A publication by copy does not lock the item it rests on.
    NoLockOfOld,
    /// A sealed segment is drained though writers who reserved in it are still pinned.
    NotSettled,
    /// A sealed segment is drained though long writes are under way in it.
    WritersIgnored,
    /// A condemned segment is reused at once.
    NoGrace,
    /// A chunk whose owner's head is locked counts as nobody's.
    LockedHeadIsGone,
    /// A moved chunk is put into its owner's table without comparing.
    ChunkBlind,
    /// An item that a writer is changing is taken for expired by what its fields read in between.
    OverUnchecked,
    /// An expired item that a reader met is taken out without its lock.
    ExpireUnlocked,
    /// Segments are opened while a flush takes its mark.
    NoHold,
    /// A full lane is emptied without comparing.
    SealBlind,
    /// A mover heeds neither that an item is held nor that its slot has gone: either line alone keeps a deleted
    /// item from being counted on.
    MoveBlind,
    /// A publication by copy does not see that what it rests on was flushed.
    DarkIgnored,
    /// A record that a flush has made invisible is published all the same.
    PublishDark,
    /// The end of a load wakes nobody.
    Silent,
    /// A leader that goes away leaves its waiters waiting.
    NoLastWord,
    /// A load that has ended stays in the table.
    StaysListed,
    /// Dead runs are given back while readers from before are still pinned.
    ThinNoGrace,
    /// Dead runs are given back while a guard holds their segment.
    ThinHeld,
    /// Room of dead records is used again while readers from before are still pinned.
    ReuseNoGrace,
    /// The same while a guard holds the segment.
    ReuseHeld,
    /// What is written there begins at the version it had before.
    ReuseSameVersion,
    /// A flush leaves holes open in what it has made invisible.
    FlushKeepsHoles,
    /// A segment in which room was used again is queued as if it had been sealed long ago.
    NotSealedAnew,
    /// A group is dropped while reclaim moves items.
    DropUnlocked,
    /// The mark of a dropped group is forgotten while readers from before are still pinned.
    ForgetNoGrace,
}

#[cfg(shuttle)]
thread_local! {
    // Shuttle runs all threads of a model on one thread of the system.
    static ACTIVE: std::cell::Cell<Option<Mutant>> = const { std::cell::Cell::new(None) };
}

#[cfg(shuttle)]
pub(crate) fn mutant(which: Mutant) -> bool {
    ACTIVE.with(|active| active.get() == Some(which))
}

#[cfg(all(shuttle, test))]
pub(crate) fn activate(which: Option<Mutant>) {
    ACTIVE.with(|active| active.set(which));
}

#[cfg(not(shuttle))]
#[inline(always)]
pub(crate) fn mutant(_which: Mutant) -> bool {
    false
}
