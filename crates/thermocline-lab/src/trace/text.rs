//! The plain format: `key size`, one request a line. A key of digits is its own number, any other is hashed.

use super::format::excerpt;
use super::Request;
use anyhow::{bail, Result};

pub fn request(line: &[u8]) -> Result<Request> {
    let mut words = line
        .split(|byte| byte.is_ascii_whitespace())
        .filter(|word| !word.is_empty());
    let (Some(key), Some(size), None) = (words.next(), words.next(), words.next()) else {
        bail!("`{}` is not `key size`", excerpt(line));
    };
    Ok(Request::read(
        key_id(key),
        number(size, "the size", u64::MAX)?,
    ))
}

/// A number for a key: itself where it is one of at most 19 digits, else 64 bits of hash.
pub fn key_id(key: &[u8]) -> u64 {
    let leading_zero = key.len() > 1 && key[0] == b'0';
    if key.len() <= 19 && !leading_zero {
        if let Ok(number) = number(key, "the key", u64::MAX) {
            return number;
        }
    }
    // FNV-1a with a finalizer: the trace of a run can be told from the file alone, on any machine.
    let hash = key.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    });
    crate::workload::mix(hash)
}

/// A decimal number of at most `max`.
pub fn number(digits: &[u8], what: &str, max: u64) -> Result<u64> {
    let bad = || format!("{what} is `{}`", excerpt(digits));
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        bail!("{}, not a whole number", bad());
    }
    let value = digits.iter().try_fold(0u64, |value, digit| {
        value
            .checked_mul(10)?
            .checked_add(u64::from(digit - b'0'))
            .filter(|value| *value <= max)
    });
    match value {
        Some(value) => Ok(value),
        None => bail!("{}, above {max}", bad()),
    }
}
