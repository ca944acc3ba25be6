//! Where items lie: records in segments, a large item's chunks among them.

use std::collections::VecDeque;
use std::hash::Hasher;

use crate::policy::Pool;

#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) hash: u64,
    pub(super) size: u32,
    pub(super) part: Part,
}

/// What a record is to its item.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// All of it, or the head of one in chunks.
    Item,
    /// Its chunk of this number.
    Chunk(u32),
}

impl Record {
    pub(super) fn item(hash: u64, bytes: u64) -> Record {
        Record {
            hash,
            size: bytes as u32,
            part: Part::Item,
        }
    }
}

/// An item that lies in chunks.
#[derive(Debug)]
pub(super) struct Large {
    /// What the policy weighs.
    pub(super) size: u64,
    /// Where the chunks lie: segment, record and bytes of each.
    pub(super) chunks: Vec<(u32, u32, u64)>,
}

impl Large {
    pub(super) fn set(&mut self, number: u32, place: (u32, u32, u64)) {
        match self.chunks.get_mut(number as usize) {
            Some(chunk) => *chunk = place,
            None => self.chunks.push(place),
        }
    }
}

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) id: u32,
    pub(super) generation: u32,
    pub(super) used_bytes: u64,
    pub(super) dead_bytes: u64,
    pub(super) records: Vec<Record>,
}

/// What is filled from one side: a lane of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lane {
    Fresh(Pool),
    Survivors,
    Compaction,
}

impl Lane {
    pub(super) fn pool(self) -> Pool {
        match self {
            Lane::Fresh(pool) => pool,
            Lane::Survivors | Lane::Compaction => Pool::Main,
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Queue {
    pub(super) sealed: VecDeque<Segment>,
    pub(super) used_bytes: u64,
}

/// Where a key's item lies: the segment of this id, and which of its records.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resident {
    pub(super) segment: u32,
    pub(super) record: u32,
    /// Bytes of its record.
    pub(super) size: u32,
    pub(super) counter: u8,
}

/// Keys are hashes already.
#[derive(Debug, Default)]
pub(super) struct Hashed(u64);

impl Hasher for Hashed {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
