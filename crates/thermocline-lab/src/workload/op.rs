//! An operation and a batch of them: what a workload says to a subject, whoever either is.
//!
//! Owns the words (`Op`, `Kind`, `Batch`, `Source`, `Workload`); leaves to workloads what is drawn, to subjects
//! what is done with it. A batch is reused: its memory is bounded by the batch, never by the run.

use anyhow::Result;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is asked of the subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Get the value.
    Read,
    /// Store it, whether the key is there or not.
    Write,
    /// Store a key that the workload has not written before.
    Insert,
    /// Write a key that the workload believes to be there (memcached: REPLACE where the layout asks for it).
    Update,
    /// A read, then a write of the same key, as one operation.
    ReadModifyWrite,
    /// Keys in order from this one on; `value_bytes` is how many. Caches refuse it.
    Scan,
    Delete,
    /// Store only if the key is absent.
    Add,
}

impl Kind {
    pub const COUNT: usize = 8;
    pub const ALL: [Kind; Kind::COUNT] = [
        Kind::Read,
        Kind::Write,
        Kind::Insert,
        Kind::Update,
        Kind::ReadModifyWrite,
        Kind::Scan,
        Kind::Delete,
        Kind::Add,
    ];

    /// Its first step looks the key up: it can hit or miss.
    #[inline]
    pub fn reads(self) -> bool {
        matches!(self, Kind::Read | Kind::ReadModifyWrite | Kind::Scan)
    }

    /// The name in reports.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::Insert => "insert",
            Kind::Update => "update",
            Kind::ReadModifyWrite => "read_modify_write",
            Kind::Scan => "scan",
            Kind::Delete => "delete",
            Kind::Add => "add",
        }
    }
}

/// `intended_ns` of an operation that is to start as soon as its turn comes (closed loop).
pub const UNSCHEDULED: u64 = u64::MAX;

/// One operation; its key bytes lie in the batch at the same index.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// When it is meant to start, ns after the phase's start; [`UNSCHEDULED`] in a closed loop.
    pub intended_ns: u64,
    /// The key's number: names the stamp its value carries.
    pub id: u64,
    /// Length of the value to be written; for a read, the length expected.
    pub value_bytes: u32,
    pub kind: Kind,
}

impl Op {
    /// An operation without a timetable.
    #[inline]
    pub fn new(kind: Kind, id: u64, value_bytes: u32) -> Self {
        Op {
            intended_ns: UNSCHEDULED,
            id,
            value_bytes,
            kind,
        }
    }
}

/// A run of operations with their keys and, where the workload makes them itself, their values.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    pub ops: Vec<Op>,
    /// The keys are its first `keys_bytes`; what lies behind is left from earlier batches.
    keys: Vec<u8>,
    keys_bytes: usize,
    key_ends: Vec<u32>,
    /// Empty while no operation brought a value of its own.
    brought: Vec<Brought>,
    values: Vec<u8>,
    lent: Vec<Arc<[u8]>>,
    /// What values are cut from that no operation brought.
    filler: Option<Arc<[u8]>>,
}

/// Where the value lies that an operation brought.
#[derive(Clone, Copy, Debug)]
enum Brought {
    Nothing,
    /// A piece of the batch's `values`.
    Written {
        from: u32,
        to: u32,
    },
    /// The one at this place of `lent`.
    Lent(u32),
}

impl Batch {
    #[inline]
    pub fn len(&self) -> usize {
        self.ops.len()
    }

    pub fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub fn clear(&mut self) {
        self.ops.clear();
        self.keys_bytes = 0;
        self.key_ends.clear();
        self.brought.clear();
        self.values.clear();
        self.lent.clear();
    }

    #[inline]
    pub fn key(&self, index: usize) -> &[u8] {
        span(&self.keys, &self.key_ends, index)
    }

    /// The value the workload gave: the operation's own, or a piece of the workload's filler (for a read, what a
    /// fill writes). `None` if the subject's worker is to make one of `value_bytes` with the key's stamp in
    /// front.
    #[inline]
    pub fn value(&self, index: usize) -> Option<&[u8]> {
        self.own_value(index).or_else(|| {
            let value_bytes = self.ops[index].value_bytes as usize;
            self.filler.as_ref()?.get(..value_bytes)
        })
    }

    /// The value that a hit of this read must have, where the workload knows.
    #[inline]
    pub fn expected(&self, index: usize) -> Option<&[u8]> {
        match self.ops[index].kind {
            Kind::Read => self.own_value(index),
            _ => None,
        }
    }

    #[inline]
    fn own_value(&self, index: usize) -> Option<&[u8]> {
        match *self.brought.get(index)? {
            Brought::Nothing => None,
            Brought::Written { from, to } => Some(&self.values[from as usize..to as usize]),
            Brought::Lent(at) => Some(&self.lent[at as usize]),
        }
    }

    /// From now on, values that no operation brings are the first bytes of `filler`: for values too large to be
    /// copied into a batch. A value longer than the filler is the worker's to make.
    pub fn share_filler(&mut self, filler: &Arc<[u8]>) {
        if !self
            .filler
            .as_ref()
            .is_some_and(|own| Arc::ptr_eq(own, filler))
        {
            self.filler = Some(filler.clone());
        }
    }

    /// Adds an operation whose key is `key_bytes` long; `key` writes all of it. Returns its index.
    #[inline]
    pub fn push(&mut self, op: Op, key_bytes: usize, key: impl FnOnce(&mut [u8])) -> usize {
        self.push_within(op, key_bytes, |room| {
            key(room);
            key_bytes
        })
    }

    /// Adds an operation whose key `key` writes to the front of `bytes_max` bytes, which hold anything; it returns how
    /// long the key is. No copy and no zeros first: either is a call that costs as much as the key. Returns its index.
    #[inline]
    pub fn push_within(
        &mut self,
        op: Op,
        bytes_max: usize,
        key: impl FnOnce(&mut [u8]) -> usize,
    ) -> usize {
        let (from, to) = (self.keys_bytes, self.keys_bytes + bytes_max);
        if self.keys.len() < to {
            self.keys.resize(to, 0);
        }
        let key_bytes = key(&mut self.keys[from..to]);
        debug_assert!(key_bytes <= bytes_max);
        self.keys_bytes += key_bytes;
        self.pushed(op)
    }

    /// The operation whose key has just been appended.
    #[inline]
    fn pushed(&mut self, op: Op) -> usize {
        self.key_ends.push(self.keys_bytes as u32);
        if !self.brought.is_empty() {
            self.brought.push(Brought::Nothing);
        }
        self.ops.push(op);
        self.ops.len() - 1
    }

    /// Gives the last operation a value: `value` gets the key and appends the value's bytes. `value_bytes` follows.
    pub fn push_value(&mut self, value: impl FnOnce(&[u8], &mut Vec<u8>)) {
        let from = self.values.len() as u32;
        let key = match self.ops.len() {
            0 => &[][..],
            some => span(&self.keys, &self.key_ends, some - 1),
        };
        value(key, &mut self.values);
        let to = self.values.len() as u32;
        self.bring(Brought::Written { from, to }, to - from);
    }

    /// The same with a value that is shared: it costs a count, however long it is.
    #[inline]
    pub fn lend_value(&mut self, value: &Arc<[u8]>) {
        let at = self.lent.len() as u32;
        self.lent.push(value.clone());
        self.bring(Brought::Lent(at), value.len() as u32);
    }

    #[inline]
    fn bring(&mut self, brought: Brought, value_bytes: u32) {
        self.brought.resize(self.ops.len(), Brought::Nothing);
        if let (Some(last), Some(op)) = (self.brought.last_mut(), self.ops.last_mut()) {
            *last = brought;
            op.value_bytes = value_bytes;
        }
    }
}

/// Part `index` of `bytes` cut at `ends`.
#[inline]
fn span<'a>(bytes: &'a [u8], ends: &[u32], index: usize) -> &'a [u8] {
    let from = if index == 0 { 0 } else { ends[index - 1] };
    &bytes[from as usize..ends[index] as usize]
}

/// The operations of one worker, in order.
pub trait Source: Send {
    /// Clears `batch` and puts up to `count` operations in; returns how many, 0 at the end.
    fn fill(&mut self, batch: &mut Batch, count: usize) -> Result<usize>;

    /// What became of the last batch, for workloads that heed it (an insert is visible once acknowledged).
    fn settled(&mut self, _batch: &Batch) {}
}

/// What is asked for in one point.
pub trait Workload: Send + Sync {
    /// The measured operations of worker `worker` of `workers`.
    fn worker(&self, worker: usize, workers: usize) -> Result<Box<dyn Source>>;

    /// What is written before: each worker its share, together every item once. `None`: nothing is.
    fn load(&self, worker: usize, workers: usize) -> Result<Option<Box<dyn Source>>>;

    /// Every resolved property, and what the draw came to, for the record of the environment.
    fn describe(&self) -> BTreeMap<String, Value>;

    /// Longest value it writes, bytes.
    fn value_bytes_max(&self) -> u32;

    /// Different keys it will use, and bytes of key and value of an average item: for sizing tables.
    fn items_expected(&self) -> (u64, f64);

    /// Reads may be checked against the key's stamp and length: false where others write the values.
    fn is_stamped(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_of_any_length_lie_beside_their_operations() {
        let mut batch = Batch::default();
        for round in 0..2 {
            batch.clear();
            let put = |batch: &mut Batch, kind, id, key: &'static [u8]| {
                batch.push(Op::new(kind, id, 7), key.len(), |out| {
                    out.copy_from_slice(key)
                })
            };
            put(&mut batch, Kind::Read, 1, b"one");
            assert_eq!(put(&mut batch, Kind::Write, 2, b""), 1);
            assert_eq!(batch.value(1), None, "round {round}");
            put(&mut batch, Kind::Insert, 3, b"three");
            batch.push_value(|_, out| out.extend_from_slice(b"value"));
            put(&mut batch, Kind::Read, 4, b"4");
            put(&mut batch, Kind::Update, 5, b"5");
            batch.push_value(|key, out| out.extend_from_slice(&[b"v", key].concat()));
            put(&mut batch, Kind::Update, 6, b"6");
            batch.lend_value(&Arc::from(&b"lent"[..]));
            put(&mut batch, Kind::Insert, 7, b"7");
            batch.push_value(|_, _| ());
            let keys: Vec<&[u8]> = (0..batch.len()).map(|i| batch.key(i)).collect();
            assert_eq!(keys, [&b"one"[..], b"", b"three", b"4", b"5", b"6", b"7"]);
            assert_eq!(batch.value(0), None);
            assert_eq!(batch.value(2), Some(&b"value"[..]));
            assert_eq!(batch.value(3), None);
            assert_eq!(batch.value(4), Some(&b"v5"[..]));
            assert_eq!(batch.value(5), Some(&b"lent"[..]));
            assert_eq!(batch.value(6), Some(&b""[..]), "empty is a value");
            assert_eq!(batch.ops[5].value_bytes, 4);
            assert_eq!((batch.ops[2].value_bytes, batch.ops[3].value_bytes), (5, 7));
        }
    }

    #[test]
    fn values_are_cut_from_the_filler_and_reads_may_know_theirs() {
        let mut batch = Batch::default();
        batch.share_filler(&Arc::from(&b"filler"[..]));
        let put = |batch: &mut Batch, kind, value_bytes| {
            batch.push(Op::new(kind, 1, value_bytes), 1, |key| key.fill(b'k'))
        };
        put(&mut batch, Kind::Write, 3);
        put(&mut batch, Kind::Read, 4);
        put(&mut batch, Kind::Write, 7);
        assert_eq!(batch.value(0), Some(&b"fil"[..]));
        assert_eq!(
            (batch.value(1), batch.expected(1)),
            (Some(&b"fill"[..]), None)
        );
        assert_eq!(batch.value(2), None, "longer than the filler");
        put(&mut batch, Kind::Read, 0);
        batch.push_value(|_, out| out.extend_from_slice(b"own"));
        assert_eq!(batch.expected(3), Some(&b"own"[..]));
        assert_eq!(batch.value(3), Some(&b"own"[..]));
        assert_eq!(
            (batch.value(1), batch.expected(1)),
            (Some(&b"fill"[..]), None)
        );
    }

    #[test]
    fn kinds_are_listed_once_each() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, index);
        }
    }
}
