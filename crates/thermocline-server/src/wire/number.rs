//! Numbers of the wire: decimal in, decimal out.
//!
//! Must hold: nothing wraps. A number too large for its type is refused (unsigned) or saturates (times), never cut.

/// Decimal digits only, as tokens, deltas and flags are written. An optional plus sign is taken, as memcached takes it.
#[inline]
pub fn parse_u64(word: &[u8]) -> Option<u64> {
    let digits = word.strip_prefix(b"+").unwrap_or(word);
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

pub fn parse_u32(word: &[u8]) -> Option<u32> {
    parse_u64(word).and_then(|value| u32::try_from(value).ok())
}

/// A signed number such as an expiry time. Beyond 64 bits it saturates: a far date stays far, a far past stays past.
#[inline]
pub fn parse_i64(word: &[u8]) -> Option<i64> {
    let (negative, digits) = match word.first()? {
        b'-' => (true, &word[1..]),
        b'+' => (false, &word[1..]),
        _ => (false, word),
    };
    if digits.is_empty() {
        return None;
    }
    let mut value: i64 = 0;
    for &digit in digits {
        let digit = digit.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.saturating_mul(10).saturating_add(i64::from(digit));
    }
    Some(if negative { -value } else { value })
}

/// Appends `value` in decimal. Every reply holds several numbers: this avoids the formatting machinery.
#[inline]
pub fn push_u64(out: &mut Vec<u8>, mut value: u64) {
    // Client flags are 0 mostly.
    if value < 10 {
        return out.push(b'0' + value as u8);
    }
    if value < 10_000 {
        return push_short(out, value as usize);
    }
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    while value >= 10 {
        let pair = (value % 100) as usize * 2;
        value /= 100;
        at -= 2;
        digits[at..at + 2].copy_from_slice(&PAIRS[pair..pair + 2]);
    }
    if value > 0 {
        at -= 1;
        digits[at] = b'0' + value as u8;
    }
    out.extend_from_slice(&digits[at..]);
}

/// Two to four digits: a length of so many bytes is what most values have. Four are written, and those beyond cut off,
/// which spares a copy of unknown length.
#[inline]
fn push_short(out: &mut Vec<u8>, value: usize) {
    let (high, low) = (value / 100 * 2, value % 100 * 2);
    let digits = [PAIRS[high], PAIRS[high + 1], PAIRS[low], PAIRS[low + 1]];
    let zeros = usize::from(value < 1000) + usize::from(value < 100);
    let len = out.len() + digits.len() - zeros;
    out.extend_from_slice(&(u32::from_le_bytes(digits) >> (8 * zeros)).to_le_bytes());
    out.truncate(len);
}

/// 00 to 99: half as many divisions as digit by digit.
static PAIRS: [u8; 200] = pairs();

const fn pairs() -> [u8; 200] {
    let mut pairs = [0; 200];
    let mut n = 0;
    while n < 100 {
        pairs[2 * n] = b'0' + (n / 10) as u8;
        pairs[2 * n + 1] = b'0' + (n % 10) as u8;
        n += 1;
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsigned_numbers_refuse_what_does_not_fit() {
        assert_eq!(parse_u64(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(parse_u64(b"18446744073709551616"), None);
        for bad in [b"".as_slice(), b"-1", b"1x", b" 1", b"0x1", b"+"] {
            assert_eq!(parse_u64(bad), None, "{bad:?}");
        }
        assert_eq!(parse_u32(b"4294967295"), Some(u32::MAX));
        assert_eq!(parse_u32(b"4294967296"), None);
    }

    #[test]
    fn signed_numbers_saturate() {
        assert_eq!(parse_i64(b"-1"), Some(-1));
        assert_eq!(parse_i64(b"+7"), Some(7));
        assert_eq!(parse_i64(b"99999999999999999999999"), Some(i64::MAX));
        assert_eq!(parse_i64(b"-99999999999999999999999"), Some(-i64::MAX));
        for bad in [b"".as_slice(), b"-", b"1.5", b"x"] {
            assert_eq!(parse_i64(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn numbers_print_as_the_formatter_prints_them() {
        let powers = (0..20).flat_map(|n| {
            let power = 10u64.pow(n);
            [power - 1, power, power + 1, 7 * (power / 8)]
        });
        for value in (0..2000).chain(powers).chain([12_345, u64::MAX]) {
            let mut out = Vec::new();
            push_u64(&mut out, value);
            assert_eq!(out, value.to_string().into_bytes());
        }
    }
}
