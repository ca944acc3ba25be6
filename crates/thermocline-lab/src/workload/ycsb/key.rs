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
const DIGITS: usize = 20;

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

    /// Hands the key of `number` to `take`. Allocates nothing if `scratch` has the room; where nothing stands before
    /// `user` and no zeros after it, the key is made in registers and a line of the stack.
    #[inline]
    pub fn with<R>(&self, number: u64, scratch: &mut Vec<u8>, take: impl FnOnce(&[u8]) -> R) -> R {
        let value = if self.hashed {
            hash(number)
        } else {
            number as i64
        };
        let mut text = [0u8; PREFIX.len() + DIGITS];
        let digits: &mut [u8; DIGITS] = (&mut text[PREFIX.len()..])
            .try_into()
            .expect("that many are behind the prefix");
        let from = decimal(value, digits);
        if self.prefix.is_empty() && DIGITS - from >= self.digits_min {
            text[from..from + PREFIX.len()].copy_from_slice(PREFIX);
            return take(&text[from..]);
        }
        let digits = &text[PREFIX.len() + from..];
        scratch.clear();
        scratch.extend_from_slice(&self.prefix);
        scratch.extend_from_slice(PREFIX);
        for _ in digits.len()..self.digits_min {
            scratch.push(b'0');
        }
        scratch.extend_from_slice(digits);
        take(scratch)
    }
}

/// Digit pairs, so that two digits cost one division.
const PAIRS: [u8; 200] = {
    let mut table = [0u8; 200];
    let mut n = 0;
    while n < 100 {
        table[2 * n] = b'0' + (n / 10) as u8;
        table[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    table
};

/// Writes eight digits, zeros in front.
#[inline]
fn eight_digits(number: u32, out: &mut [u8]) {
    let (high, low) = (number / 10_000, number % 10_000);
    for (at, pair) in [high / 100, high % 100, low / 100, low % 100]
        .into_iter()
        .enumerate()
    {
        let from = pair as usize * 2;
        out[2 * at..2 * at + 2].copy_from_slice(&PAIRS[from..from + 2]);
    }
}

/// Writes `value` at the end of `out` and returns where it begins.
#[inline]
pub(super) fn decimal(value: i64, out: &mut [u8; DIGITS]) -> usize {
    let mut rest = value.unsigned_abs();
    let mut at = out.len();
    // A hash has 19 digits: its groups of eight do not wait for each other's divisions.
    if rest >= 10_000_000_000_000_000 {
        let (high, low) = (rest / 100_000_000, (rest % 100_000_000) as u32);
        eight_digits(low, &mut out[12..]);
        eight_digits((high % 100_000_000) as u32, &mut out[4..12]);
        rest = high / 100_000_000;
        at = 4;
    }
    while rest >= 100 {
        let pair = (rest % 100) as usize * 2;
        rest /= 100;
        at -= 2;
        out[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if rest >= 10 {
        at -= 2;
        let pair = rest as usize * 2;
        out[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    } else {
        at -= 1;
        out[at] = b'0' + rest as u8;
    }
    if value < 0 {
        at -= 1;
        out[at] = b'-';
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(format: &KeyFormat, number: u64) -> String {
        let key = format.with(number, &mut Vec::new(), <[u8]>::to_vec);
        assert!(key.len() <= format.bytes_max());
        String::from_utf8(key).unwrap()
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
    fn decimals_are_those_of_the_standard_library() {
        let mut random = crate::workload::Random::new(11);
        for shift in 0..64 {
            for value in [random.word() >> shift, 1 << shift, (1 << shift) - 1] {
                let mut out = [0; 20];
                let from = decimal(value as i64, &mut out);
                assert_eq!(&out[from..], (value as i64).to_string().as_bytes());
            }
        }
    }
}
