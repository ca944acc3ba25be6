//! libCacheSim's oracleGeneral: 24 bytes a request, little-endian and packed:
//! time in seconds (u32), object (u64), size (u32), index of the next access to it (i64, -1 for none).

use super::Request;

pub const RECORD_BYTES: usize = 24;
const S: u64 = 1_000_000_000;

pub fn request(record: &[u8; RECORD_BYTES]) -> Request {
    Request {
        at_ns: u64::from(u32_at(record, 0)) * S,
        ..Request::read(u64_at(record, 4), u64::from(u32_at(record, 12)))
    }
}

/// Whether these first bytes look like it: times do not fall, sizes are not all 0, next accesses lie ahead or
/// nowhere. One record of random bytes passes in 1 of 4 cases, eight in 1 of 10^20.
pub fn is_plausible(head: &[u8]) -> bool {
    let records = head.chunks_exact(RECORD_BYTES).take(64);
    if records.len() == 0 {
        return false;
    }
    let (mut last, mut any_size) = (0, false);
    for (index, record) in records.enumerate() {
        let time = u32_at(record, 0);
        let next = u64_at(record, 16) as i64;
        let lies_ahead = next == -1 || next == i64::MAX || next > index as i64;
        if time < last || !lies_ahead || next < -1 {
            return false;
        }
        last = time;
        any_size |= u32_at(record, 12) > 0;
    }
    any_size
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&record[at..at + 4]);
    u32::from_le_bytes(bytes)
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at)) | u64::from(u32_at(record, at + 4)) << 32
}
