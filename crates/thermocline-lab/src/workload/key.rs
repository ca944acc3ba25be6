//! Key bytes from key numbers, and the stamp a value carries so that a reader can tell whose it is.
//! Key numbers are scrambled by a bijection: popular keys are not neighbours, no two numbers share a key.

use super::random::mix;

/// Keys are at least this long: 16 hexadecimal digits name 2^64 keys without collision.
pub const KEY_BYTES_MIN: usize = 16;

/// Bytes at the front of a value that say which key it belongs to.
pub const STAMP_BYTES: usize = 8;

/// See [`stamp`].
pub type Stamp = [u8; STAMP_BYTES];

/// What the first eight bytes of key `id`'s value are. Values shorter than that carry none.
#[inline]
pub fn stamp(id: u64) -> Stamp {
    mix(id ^ 0x7468_6572_6d6f).to_le_bytes()
}

/// Writes the key of number `id` over the whole of `out`, which is at least [`KEY_BYTES_MIN`] long:
/// 16 hexadecimal digits, then dashes.
#[inline]
pub fn key_into(id: u64, out: &mut [u8]) {
    let word = mix(id);
    let (digits, rest) = out.split_at_mut(KEY_BYTES_MIN);
    digits[..8].copy_from_slice(&eight_digits((word >> 32) as u32));
    digits[8..].copy_from_slice(&eight_digits(word as u32));
    rest.fill(b'-');
}

/// Eight hexadecimal digits at once: spread the nibbles to bytes, then add '0' or 'a' - 10 to each.
#[inline]
fn eight_digits(word: u32) -> [u8; 8] {
    let mut x = u64::from(word);
    x = ((x << 16) | x) & 0x0000_ffff_0000_ffff;
    x = ((x << 8) | x) & 0x00ff_00ff_00ff_00ff;
    x = ((x << 4) | x) & 0x0f0f_0f0f_0f0f_0f0f;
    let above_nine = ((x + 0x0606_0606_0606_0606) >> 4) & 0x0101_0101_0101_0101;
    (x + 0x3030_3030_3030_3030 + above_nine * 0x27).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn digits_are_hexadecimal() {
        for word in [0u32, 0x0123_4567, 0x89ab_cdef, u32::MAX] {
            assert_eq!(eight_digits(word), format!("{word:08x}").as_bytes());
        }
    }

    #[test]
    fn keys_are_distinct_and_of_the_asked_length() {
        let mut seen = HashSet::new();
        let mut key = [0u8; 20];
        for id in 0..10_000 {
            key_into(id, &mut key);
            assert!(key.iter().all(|b| b.is_ascii_graphic()));
            assert!(seen.insert(key));
        }
        assert_eq!(&key[16..], b"----");
    }
}
