//! Where a phase's operations come from.

use crate::workload::{Kind, Mix, Op, Stream};

/// The operations of one thread's phase.
pub enum PhaseOps {
    /// Every key once, as a write: the loading phase.
    Preload(Mix),
    Mix(Box<Stream>),
}

impl PhaseOps {
    /// Operation number `index` of the phase.
    pub fn op(&mut self, index: u64) -> Op {
        match self {
            PhaseOps::Preload(mix) => Op::new(Kind::Write, index, mix.sizes.of(index, 0)),
            PhaseOps::Mix(stream) => stream.next_op(),
        }
    }
}
