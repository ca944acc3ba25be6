//! The bytes of a save file: header, record heads, checksums. See `docs/save-format.md`.
//!
//! Owns packing and checking; does no I/O. Every head bears a marker drawn for its file, so that a reader
//! that lost its way finds the next record, and never takes one of another file (stored as a value, say)
//! for one of this.
//!
//! Must hold: what `parse` accepts is what `bytes` made, bit for bit, or the checksum failed to notice.

/// What every save file begins with.
pub(super) const MAGIC: [u8; 8] = *b"THERMOCL";
/// Version of the format.
pub(super) const VERSION: u32 = 1;
/// Bytes of the file's header.
pub(super) const HEADER_BYTES: usize = 40;
/// Bytes of a record's head.
pub(super) const HEAD_BYTES: usize = 40;
/// Bytes of the checksum behind a record's value.
pub(super) const SUM_BYTES: usize = 4;
/// Longest key of the format, bytes.
const KEY_BYTES_MAX: u32 = 64 << 10;

const ITEM: u8 = 1;
const END: u8 = 2;

/// The file's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct FileHeader {
    pub(super) marker: u64,
    pub(super) saved_at_ms: u64,
}

/// The head of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Head {
    Item(ItemHead),
    /// The last record: how many items the file has.
    End {
        items: u64,
    },
}

/// The head of an item's record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ItemHead {
    pub(super) marks: u8,
    pub(super) key_bytes: u32,
    pub(super) value_bytes: u64,
    /// Unix milliseconds; 0: never.
    pub(super) expires_at_ms: u64,
    pub(super) flags: u32,
}

impl ItemHead {
    /// Bytes behind the head, up to the next record.
    pub(super) fn body_bytes(&self) -> u64 {
        self.key_bytes as u64 + self.value_bytes + SUM_BYTES as u64
    }
}

/// Why a file cannot be read at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NotOurs {
    Magic,
    Version(u32),
    Damaged,
}

impl FileHeader {
    pub(super) fn bytes(&self) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 16, &self.marker.to_le_bytes());
        put(&mut bytes, 24, &self.saved_at_ms.to_le_bytes());
        seal(bytes)
    }

    pub(super) fn parse(bytes: &[u8; HEADER_BYTES]) -> Result<FileHeader, NotOurs> {
        if bytes[..8] != MAGIC {
            return Err(NotOurs::Magic);
        }
        let version = u32_at(bytes, 8);
        if version != VERSION {
            return Err(NotOurs::Version(version));
        }
        let header = FileHeader {
            marker: u64_at(bytes, 16),
            saved_at_ms: u64_at(bytes, 24),
        };
        match header.bytes() == *bytes {
            true => Ok(header),
            false => Err(NotOurs::Damaged),
        }
    }
}

impl Head {
    pub(super) fn bytes(&self, marker: u64) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        put(&mut bytes, 0, &marker.to_le_bytes());
        match self {
            Head::Item(item) => {
                put(&mut bytes, 8, &[ITEM, item.marks]);
                put(&mut bytes, 12, &item.key_bytes.to_le_bytes());
                put(&mut bytes, 16, &item.value_bytes.to_le_bytes());
                put(&mut bytes, 24, &item.expires_at_ms.to_le_bytes());
                put(&mut bytes, 32, &item.flags.to_le_bytes());
            }
            Head::End { items } => {
                put(&mut bytes, 8, &[END]);
                put(&mut bytes, 16, &items.to_le_bytes());
            }
        }
        seal(bytes)
    }

    /// None: damaged, or of another file.
    pub(super) fn parse(bytes: &[u8; HEAD_BYTES], marker: u64) -> Option<Head> {
        let head = match bytes[8] {
            ITEM => Head::Item(ItemHead {
                marks: bytes[9],
                key_bytes: u32_at(bytes, 12),
                value_bytes: u64_at(bytes, 16),
                expires_at_ms: u64_at(bytes, 24),
                flags: u32_at(bytes, 32),
            }),
            END => Head::End {
                items: u64_at(bytes, 16),
            },
            _ => return None,
        };
        if let Head::Item(item) = &head {
            let whole = (1..=KEY_BYTES_MAX).contains(&item.key_bytes)
                && item.value_bytes <= crate::config::ITEM_CEILING;
            if !whole {
                return None;
            }
        }
        // Unused bytes must be 0, and marker and checksum right.
        (head.bytes(marker) == *bytes).then_some(head)
    }
}

/// The checksum over a record's head, key and value, taken piece by piece.
pub(super) struct Sum(crc32fast::Hasher);

impl Sum {
    pub(super) fn of(head: &[u8; HEAD_BYTES]) -> Sum {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(head);
        Sum(hasher)
    }

    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub(super) fn bytes(self) -> [u8; SUM_BYTES] {
        self.0.finalize().to_le_bytes()
    }
}

/// The last four bytes: checksum of all before.
fn seal<const N: usize>(mut bytes: [u8; N]) -> [u8; N] {
    let sum = crc32fast::hash(&bytes[..N - 4]);
    put(&mut bytes, N - 4, &sum.to_le_bytes());
    bytes
}

fn put(bytes: &mut [u8], at: usize, field: &[u8]) {
    bytes[at..at + field.len()].copy_from_slice(field);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_flipped_bit_of_a_head_is_noticed() {
        let heads = [
            Head::Item(ItemHead {
                marks: 5,
                key_bytes: 65_536,
                value_bytes: 1 << 20,
                expires_at_ms: 1_800_000_000_123,
                flags: u32::MAX,
            }),
            Head::End { items: 77 },
        ];
        for head in heads {
            let bytes = head.bytes(0xFEED);
            assert_eq!(Head::parse(&bytes, 0xFEED), Some(head));
            assert_eq!(Head::parse(&bytes, 0xFEEC), None, "another file's");
            for bit in 0..8 * HEAD_BYTES {
                let mut damaged = bytes;
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Head::parse(&damaged, 0xFEED), None, "bit {bit}");
            }
        }
    }

    #[test]
    fn a_header_says_why_it_is_refused() {
        let header = FileHeader {
            marker: 9,
            saved_at_ms: 10,
        };
        let bytes = header.bytes();
        assert_eq!(FileHeader::parse(&bytes), Ok(header));
        let with = |at: usize| {
            let mut bytes = bytes;
            bytes[at] ^= 1;
            FileHeader::parse(&bytes)
        };
        assert_eq!(with(0), Err(NotOurs::Magic));
        assert_eq!(with(8), Err(NotOurs::Version(VERSION ^ 1)));
        for at in 12..HEADER_BYTES {
            assert_eq!(with(at), Err(NotOurs::Damaged), "byte {at}");
        }
    }
}
