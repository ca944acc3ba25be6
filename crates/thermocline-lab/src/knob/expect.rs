//! What a knob's file must say after it was written: kernels print values otherwise than they take them.
//! Pure: texts in, a verdict out.

use crate::root::chosen;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expect {
    /// One of several words, the chosen one in brackets, or the plain word.
    Word(String),
    /// `Y`/`N`, `1`/`0`, or a mask in hexadecimal where any bit counts as yes.
    Flag(bool),
    /// The very number, decimal or hexadecimal.
    Number(u64),
    /// A limit in bytes, which kernels round down to whole pages; `None` is "no limit".
    Bytes(Option<u64>),
    /// The same text, blanks apart.
    Text(String),
}

/// Page sizes we may meet reach 64 KiB (arm64): a limit rounded by less than this is the one asked for.
const ROUNDING_BYTES: u64 = 64 << 10;
/// cgroup v1 prints "no limit" as the largest multiple of a page below 2^63.
const UNLIMITED_BYTES: u64 = 1 << 62;

impl Expect {
    /// Whether what was read back is what was asked for.
    pub fn holds(&self, read: &str) -> bool {
        match self {
            Expect::Word(word) => chosen(read) == word,
            Expect::Flag(on) => flag(read) == Some(*on),
            Expect::Number(wanted) => number(read) == Some(*wanted),
            Expect::Bytes(wanted) => bytes_hold(*wanted, read),
            Expect::Text(text) => text.split_whitespace().eq(read.split_whitespace()),
        }
    }

    /// The reading as it is put into a point.
    pub fn shown(&self, read: &str) -> String {
        match self {
            Expect::Word(_) => chosen(read).to_string(),
            _ => read.trim().to_string(),
        }
    }
}

fn bytes_hold(wanted: Option<u64>, read: &str) -> bool {
    let read = match read.trim() {
        "max" => None,
        text => match text.parse::<u64>() {
            Ok(bytes) if bytes >= UNLIMITED_BYTES => None,
            Ok(bytes) => Some(bytes),
            Err(_) => return false,
        },
    };
    match (wanted, read) {
        (None, None) => true,
        (Some(wanted), Some(read)) => read <= wanted && wanted - read < ROUNDING_BYTES,
        _ => false,
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.trim() {
        "Y" | "y" => Some(true),
        "N" | "n" => Some(false),
        other => number(other).map(|number| number != 0),
    }
}

fn number(text: &str) -> Option<u64> {
    let text = text.trim();
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernels_dialects_are_understood() {
        assert!(Expect::Word("never".into()).holds("always madvise [never]"));
        assert!(!Expect::Word("always".into()).holds("always madvise [never]"));
        assert!(Expect::Flag(true).holds("Y"));
        assert!(Expect::Flag(true).holds("0x0007"));
        assert!(Expect::Flag(false).holds("0x0000"));
        assert!(!Expect::Flag(false).holds("perhaps"));
        assert!(Expect::Number(7).holds("0x0007"));
        assert!(!Expect::Number(4).holds("3"));
    }

    #[test]
    fn limits_are_rounded_to_pages_and_no_further() {
        let limit = Expect::Bytes(Some(90_000_000));
        assert!(limit.holds("89997312"));
        assert!(!limit.holds("90112000"), "more than asked");
        assert!(!limit.holds("80000000"));
        assert!(!limit.holds("max"));
        assert!(Expect::Bytes(None).holds("9223372036854771712"));
        assert!(Expect::Bytes(None).holds("max"));
    }
}
