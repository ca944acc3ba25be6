//! YCSB's keys: `user` and a number, hashed or not, padded with zeros. Owns the hash (64-bit FNV over the eight
//! octets, low octet first, made positive as Java does) and the writing of decimals.
//! Leaves to others which number is asked for.

/// What every key begins with.
pub const PREFIX: &[u8] = b"user";

/// The longest padding accepted, digits: a key must fit memcached's 250 bytes with its table before it.
pub const ZERO_PADDING_MAX: u64 = 200;

const FNV_OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const FNV_PRIME: u64 = 1_099_511_628_211;

/// The longest number: a sign and 19 digits.
pub(super) const DIGITS: usize = 20;

/// Four steps over octets that are zero.
const FNV_PRIME_4: u64 = {
    let two = FNV_PRIME.wrapping_mul(FNV_PRIME);
    two.wrapping_mul(two)
};

/// YCSB's hash of a key number: positive, except for the one input in 2^64 whose hash has no positive twin.
#[inline]
pub fn hash(number: u64) -> i64 {
    let mut rest = number;
    let mut word = FNV_OFFSET;
    let octets = if number >> 32 == 0 { 4 } else { 8 };
    for _ in 0..octets {
        word = (word ^ (rest & 0xff)).wrapping_mul(FNV_PRIME);
        rest >>= 8;
    }
    if octets == 4 {
        word = word.wrapping_mul(FNV_PRIME_4);
    }
    (word as i64).wrapping_abs()
}

/// How a key number becomes key bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyFormat {
    /// Written before `user`: empty, or the table and a dash in the memcached layout.
    pub prefix: Vec<u8>,
    /// `insertorder=hashed`; anything else keeps the numbers.
    pub hashed: bool,
    /// `zeropadding`: digits at the least.
    pub digits_min: usize,
}

impl KeyFormat {
    /// The longest key this makes, bytes: a sign and 19 digits, or the padding.
    pub fn bytes_max(&self) -> usize {
        self.prefix.len() + PREFIX.len() + self.digits_min.max(DIGITS)
    }

    /// Writes the key of `number` to the front of `out`, which has room for the longest; returns its length.
    #[inline]
    pub fn write(&self, number: u64, out: &mut [u8]) -> usize {
        let value = if self.hashed {
            hash(number)
        } else {
            number as i64
        };
        let (prefix, rest) = out.split_at_mut(self.prefix.len());
        if !prefix.is_empty() {
            prefix.copy_from_slice(&self.prefix);
        }
        let key_bytes = match rest.first_chunk_mut() {
            Some(room) if value >= SEVENTEEN_DIGITS && self.digits_min <= 17 => {
                long_key(value as u64, room)
            }
            _ => self.padded_key(value, rest),
        };
        self.prefix.len() + key_bytes
    }

    fn padded_key(&self, value: i64, out: &mut [u8]) -> usize {
        let mut text = [0; DIGITS];
        let digits = decimal(value, &mut text);
        let zeros = self.digits_min.saturating_sub(digits.len());
        let (user, rest) = out.split_at_mut(PREFIX.len());
        user.copy_from_slice(PREFIX);
        rest[..zeros].fill(b'0');
        rest[zeros..zeros + digits.len()].copy_from_slice(digits);
        PREFIX.len() + zeros + digits.len()
    }
}

/// The smallest number of 17 digits: hashes below it are one in a thousand.
const SEVENTEEN_DIGITS: i64 = 10_000_000_000_000_000;

/// The key of a hash of 17 digits or more, in four stores: each lies over what the one before wrote too much.
#[inline]
fn long_key(value: u64, out: &mut [u8; PREFIX.len() + DIGITS]) -> usize {
    let [top, middle, low] = groups(value);
    // At most 922, so its first digit is always 0.
    let zeros = 1 + usize::from(top < 100) + usize::from(top < 10);
    out[..4].copy_from_slice(PREFIX);
    let top = u32::from_le_bytes(four_digits(top)) >> (8 * zeros);
    out[4..8].copy_from_slice(&top.to_le_bytes());
    let from = 8 - zeros;
    out[from..from + 8].copy_from_slice(&eight_digits(middle));
    out[from + 8..from + 16].copy_from_slice(&eight_digits(low));
    from + 16
}

/// The value as at most four digits, eight and eight.
#[inline]
fn groups(value: u64) -> [u32; 3] {
    let high = value / 100_000_000;
    [
        (high / 100_000_000) as u32,
        (high % 100_000_000) as u32,
        (value % 100_000_000) as u32,
    ]
}

/// The digits of a number below 10^8, zeros in front: halves, then pairs, then digits, all of a kind at once. Each
/// division is a multiplication and a shift, exact for what can stand in its lane.
#[inline]
fn eight_digits(number: u32) -> [u8; 8] {
    let number = u64::from(number);
    let high = number / 10_000;
    let halves = high | ((number - high * 10_000) << 32);
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let pairs = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((pairs * 103) >> 10) & 0x000f_000f_000f_000f;
    let digits = tens | ((pairs - tens * 10) << 8);
    (digits + 0x3030_3030_3030_3030).to_le_bytes()
}

/// The digits of a number below 10^4.
#[inline]
fn four_digits(number: u32) -> [u8; 4] {
    let [.., a, b, c, d] = eight_digits(number);
    [a, b, c, d]
}

/// `value` in decimal, at the end of `out`.
pub(super) fn decimal(value: i64, out: &mut [u8; DIGITS]) -> &[u8] {
    let [top, middle, low] = groups(value.unsigned_abs());
    out[..4].copy_from_slice(&four_digits(top));
    out[4..12].copy_from_slice(&eight_digits(middle));
    out[12..].copy_from_slice(&eight_digits(low));
    let zeros = out[..DIGITS - 1].iter().take_while(|&&digit| digit == b'0');
    let mut from = zeros.count();
    if value < 0 {
        // There is room: 19 digits are the most.
        from -= 1;
        out[from] = b'-';
    }
    &out[from..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(format: &KeyFormat, number: u64) -> String {
        let mut out = vec![b'?'; format.bytes_max()];
        let key_bytes = format.write(number, &mut out);
        String::from_utf8(out[..key_bytes].to_vec()).unwrap()
    }

    #[test]
    fn hashed_keys_are_those_of_ycsbs_own_class() {
        let format = KeyFormat {
            prefix: Vec::new(),
            hashed: true,
            digits_min: 1,
        };
        for (number, expected) in [
            (0, "user6284781860667377211"),
            (1, "user8517097267634966620"),
            (2, "user1820151046732198393"),
            (3, "user4052466453699787802"),
            (10, "user2408371864701034737"),
            (999, "user2071219101098386137"),
            (1000, "user5952875239596136740"),
            (129_999_999, "user2629273125623066468"),
            (2_147_483_647, "user627943977067101855"),
        ] {
            assert_eq!(key(&format, number), expected, "key number {number}");
        }
    }

    #[test]
    fn ordered_keys_are_padded_and_prefixed() {
        let mut format = KeyFormat {
            prefix: b"usertable-".to_vec(),
            hashed: false,
            digits_min: 1,
        };
        assert_eq!(key(&format, 0), "usertable-user0");
        assert_eq!(key(&format, 1005), "usertable-user1005");
        format.digits_min = 12;
        assert_eq!(key(&format, 1005), "usertable-user000000001005");
        format.prefix.clear();
        assert_eq!(key(&format, 1005), "user000000001005");
        format.digits_min = 4;
        assert_eq!(key(&format, 1005), "user1005");
        assert_eq!(key(&format, 5), "user0005");
    }

    #[test]
    fn decimals_and_keys_are_those_of_the_standard_library() {
        let mut random = crate::workload::Random::new(11);
        let format = KeyFormat {
            prefix: b"t-".to_vec(),
            hashed: false,
            digits_min: 1,
        };
        let check = |value: u64| {
            let value = value as i64;
            assert_eq!(
                decimal(value, &mut [0; DIGITS]),
                value.to_string().as_bytes()
            );
            assert_eq!(key(&format, value as u64), format!("t-user{value}"));
        };
        for shift in 0..64 {
            for value in [random.word() >> shift, 1 << shift, (1 << shift) - 1] {
                check(value);
            }
        }
        for power in 0..19 {
            let value = 10u64.pow(power);
            for value in [value - 1, value, value + 1, value * 9] {
                check(value);
            }
        }
    }

    #[test]
    fn eight_digits_are_those_of_the_standard_library() {
        // Every lane's every value, and both ends of the halves.
        for number in (0..10_000).flat_map(|n| [n, n * 10_000, n * 10_000 + 9_999, 99_990_000 + n])
        {
            assert_eq!(eight_digits(number), format!("{number:08}").as_bytes());
        }
    }
}
