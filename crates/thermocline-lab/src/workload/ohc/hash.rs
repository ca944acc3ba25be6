//! The four hashes OHC offers, over its keys: what its bucket histogram is made with.

/// `-hm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HashMode {
    #[default]
    Murmur3,
    Crc32,
    Crc32c,
    Xx,
}

impl HashMode {
    pub const NAMES: [(&'static str, HashMode); 4] = [
        ("MURMUR3", HashMode::Murmur3),
        ("CRC32", HashMode::Crc32),
        ("CRC32C", HashMode::Crc32c),
        ("XX", HashMode::Xx),
    ];

    /// 64 bits; the two checksums double their 32.
    pub fn hash(self, key: &[u8]) -> u64 {
        let twice = |word: u32| u64::from(word) << 32 | u64::from(word);
        match self {
            HashMode::Murmur3 => murmur3(key),
            HashMode::Crc32 => twice(crc(key, 0xEDB8_8320)),
            HashMode::Crc32c => twice(crc(key, 0x82F6_3B78)),
            HashMode::Xx => xx64(key),
        }
    }
}

/// The first half of MurmurHash3 x64 128, seed 0.
fn murmur3(key: &[u8]) -> u64 {
    const C1: u64 = 0x87c3_7b91_1142_53d5;
    const C2: u64 = 0x4cf5_ad43_2745_937f;
    let first = |k: u64| k.wrapping_mul(C1).rotate_left(31).wrapping_mul(C2);
    let second = |k: u64| k.wrapping_mul(C2).rotate_left(33).wrapping_mul(C1);
    let (mut h1, mut h2) = (0u64, 0u64);
    let blocks = key.chunks_exact(16);
    let tail = blocks.remainder();
    for block in blocks {
        h1 ^= first(word(&block[..8]));
        h1 = h1
            .rotate_left(27)
            .wrapping_add(h2)
            .wrapping_mul(5)
            .wrapping_add(0x52dc_e729);
        h2 ^= second(word(&block[8..]));
        h2 = h2
            .rotate_left(31)
            .wrapping_add(h1)
            .wrapping_mul(5)
            .wrapping_add(0x3849_5ab5);
    }
    if tail.len() > 8 {
        h2 ^= second(word(&tail[8..]));
    }
    if !tail.is_empty() {
        h1 ^= first(word(&tail[..tail.len().min(8)]));
    }
    h1 ^= key.len() as u64;
    h2 ^= key.len() as u64;
    h1 = h1.wrapping_add(h2);
    h2 = h2.wrapping_add(h1);
    finish(h1).wrapping_add(finish(h2))
}

fn finish(mut h: u64) -> u64 {
    h = (h ^ (h >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    h = (h ^ (h >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    h ^ (h >> 33)
}

/// Up to eight bytes, low first.
fn word(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |word, &byte| word << 8 | u64::from(byte))
}

/// A reflected 32-bit checksum, bit by bit: keys are short and few are hashed.
fn crc(key: &[u8], polynomial: u32) -> u32 {
    !key.iter().fold(!0u32, |mut crc, &byte| {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (polynomial & (crc & 1).wrapping_neg());
        }
        crc
    })
}

const P1: u64 = 0x9E37_79B1_85EB_CA87;
const P2: u64 = 0xC2B2_AE3D_27D4_EB4F;
const P3: u64 = 0x1656_67B1_9E37_79F9;
const P4: u64 = 0x85EB_CA77_C2B2_AE63;
const P5: u64 = 0x27D4_EB2F_1656_67C5;

/// XXH64, seed 0.
fn xx64(key: &[u8]) -> u64 {
    let round = |acc: u64, input: u64| {
        acc.wrapping_add(input.wrapping_mul(P2))
            .rotate_left(31)
            .wrapping_mul(P1)
    };
    let mut rest = key;
    let mut hash = if key.len() >= 32 {
        let mut lanes = [P1.wrapping_add(P2), P2, 0, P1.wrapping_neg()];
        while rest.len() >= 32 {
            for (lane, part) in lanes.iter_mut().zip(rest.chunks_exact(8)) {
                *lane = round(*lane, word(part));
            }
            rest = &rest[32..];
        }
        let joined = lanes
            .iter()
            .zip([1, 7, 12, 18])
            .fold(0u64, |sum, (lane, turn)| {
                sum.wrapping_add(lane.rotate_left(turn))
            });
        lanes.iter().fold(joined, |hash, lane| {
            (hash ^ round(0, *lane)).wrapping_mul(P1).wrapping_add(P4)
        })
    } else {
        P5
    };
    hash = hash.wrapping_add(key.len() as u64);
    while rest.len() >= 8 {
        hash = (hash ^ round(0, word(&rest[..8])))
            .rotate_left(27)
            .wrapping_mul(P1)
            .wrapping_add(P4);
        rest = &rest[8..];
    }
    if rest.len() >= 4 {
        hash = (hash ^ word(&rest[..4]).wrapping_mul(P1))
            .rotate_left(23)
            .wrapping_mul(P2)
            .wrapping_add(P3);
        rest = &rest[4..];
    }
    for &byte in rest {
        hash = (hash ^ u64::from(byte).wrapping_mul(P5))
            .rotate_left(11)
            .wrapping_mul(P1);
    }
    hash = (hash ^ (hash >> 33)).wrapping_mul(P2);
    hash = (hash ^ (hash >> 29)).wrapping_mul(P3);
    hash ^ (hash >> 32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_values() {
        assert_eq!(crc(b"123456789", 0xEDB8_8320), 0xCBF4_3926);
        assert_eq!(crc(b"123456789", 0x82F6_3B78), 0xE306_9283);
        assert_eq!(xx64(b""), 0xEF46_DB37_51D8_E999);
        assert_eq!(xx64(b"a"), 0xD24E_C4F1_A98C_6E5B);
        assert_eq!(xx64(b"abc"), 0x44BC_2CF5_AD77_0999);
        assert_eq!(murmur3(b""), 0);
        assert_eq!(murmur3(b"hello"), 0xcbd8_a7b3_41bd_9b02);
        assert_eq!(
            murmur3(b"The quick brown fox jumps over the lazy dog"),
            0xe34b_bc7b_bc07_1b6c
        );
    }

    #[test]
    fn long_and_short_keys_of_every_mode_spread() {
        for (name, mode) in HashMode::NAMES {
            for length in [8, 16, 33, 40, 520] {
                let mut key = vec![0u8; length];
                let mut seen = std::collections::HashSet::new();
                for n in 0..1000u64 {
                    key[..8].copy_from_slice(&n.to_be_bytes());
                    seen.insert(mode.hash(&key));
                }
                assert_eq!(seen.len(), 1000, "{name} {length}");
            }
        }
    }
}
