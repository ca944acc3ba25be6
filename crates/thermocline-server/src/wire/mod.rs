//! The memcached wire: bytes in, typed requests out.
//!
//! Owns: splitting lines, reading words and numbers, the text and meta grammars and what each malformed line is answered.
//! Leaves to others: sockets (`net`), what a request does (`command`).
//! Must hold: a parser copies nothing, allocates nothing, and never panics, whatever the bytes.

mod meta;
mod number;
mod request;
mod text;

pub use meta::{ArithMode, MetaError, MetaFlags, StoreMode, FLAGS_MAX, OPAQUE_MAX};
pub use number::{parse_i64, parse_u32, parse_u64, push_u64};
pub use request::{
    Admin, Arith, Delete, Flush, Get, GetTouch, Meta, MetaSet, Refusal, Request, Store, Touch,
    Verb, VALUE_BYTES_MAX,
};
pub use text::{parse, Limits};

/// The words of a line, split at blanks.
#[derive(Clone)]
pub struct Words<'a>(&'a [u8]);

impl<'a> Words<'a> {
    pub fn new(line: &'a [u8]) -> Words<'a> {
        Words(line)
    }

    /// What has not been handed out yet.
    pub fn rest(&self) -> &'a [u8] {
        self.0
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let line = self.0;
        let start = line.iter().position(|&b| b != b' ')?;
        // Keys are short, so a plain loop beats a vectorised search here.
        let end = line[start..]
            .iter()
            .position(|&b| b == b' ')
            .map_or(line.len(), |n| start + n);
        self.0 = &line[end..];
        Some(&line[start..end])
    }
}

/// The first line of `input` without its end, and how many bytes it took with it.
/// A bare newline ends a command as well as CRLF does; `None` means no newline has arrived.
#[inline]
pub fn split_line(input: &[u8]) -> Option<(&[u8], usize)> {
    let end = memchr::memchr(b'\n', input)?;
    let line = match input[..end].split_last() {
        Some((b'\r', line)) => line,
        _ => &input[..end],
    };
    Some((line, end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_skip_any_number_of_blanks() {
        let words: Vec<&[u8]> = Words::new(b"  get  a b ").collect();
        assert_eq!(words, [b"get".as_slice(), b"a", b"b"]);
    }

    #[test]
    fn lines_end_with_or_without_carriage_return() {
        assert_eq!(split_line(b"get a\r\nx"), Some((b"get a".as_slice(), 7)));
        assert_eq!(split_line(b"get a\nx"), Some((b"get a".as_slice(), 6)));
        assert_eq!(split_line(b"\n"), Some((b"".as_slice(), 1)));
        assert_eq!(split_line(b"get a\r"), None);
    }
}
