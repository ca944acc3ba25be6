//! The memcached wire: bytes in, typed requests out.
//!
//! Owns: splitting lines, reading words and numbers, the text and meta grammars and what each malformed line is answered.
//! Leaves to others: sockets (`net`), what a request does (`command`).
//! Must hold: a parser copies nothing, allocates nothing, and never panics, whatever the bytes.

mod key;
mod meta;
mod number;
mod quick;
mod request;
mod text;

pub use key::{percent_encode, push_word};
pub use meta::{ArithMode, FlagWords, MetaError, MetaFlags, StoreMode, FLAGS_MAX, OPAQUE_MAX};
pub use number::{parse_i64, parse_u32, parse_u64, push_u64};
pub use quick::{quick_read, Read};
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
        let start = self.0.iter().position(|&b| b != b' ')?;
        let line = &self.0[start..];
        let (word, rest) = line.split_at(blank_at(line));
        self.0 = rest;
        Some(word)
    }
}

const ONES: u64 = 0x0101_0101_0101_0101;
const HIGHS: u64 = ONES << 7;

/// Where the first blank is, or the end.
#[inline]
fn blank_at(line: &[u8]) -> usize {
    // A byte is 0 where there was a blank.
    let blanks = |bytes: u64| {
        let bytes = bytes ^ (ONES * u64::from(b' '));
        bytes.wrapping_sub(ONES) & !bytes & HIGHS
    };
    first_at(line, blanks, |byte| byte == b' ')
}

/// Where the first blank or control character is, or the end.
#[inline]
fn word_end(input: &[u8]) -> usize {
    const AFTER_BLANK: u64 = b' ' as u64 + 1;
    let low = |bytes: u64| bytes.wrapping_sub(ONES * AFTER_BLANK) & !bytes & HIGHS;
    first_at(input, low, |byte| byte <= b' ')
}

/// The first byte that is looked for, or the end. Eight bytes at a time (`marks`: the lowest bit that is set belongs to the
/// first of them): keys are short, so that a vectorised search costs more to start than it saves.
#[inline]
fn first_at(input: &[u8], marks: impl Fn(u64) -> u64, is: impl Fn(u8) -> bool) -> usize {
    let mut at = 0;
    while let Some(chunk) = input[at..].first_chunk::<8>() {
        let marks = marks(u64::from_le_bytes(*chunk));
        if marks != 0 {
            return at + marks.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    let tail = &input[at..];
    at + tail.iter().position(|&byte| is(byte)).unwrap_or(tail.len())
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

/// Random words for tests, the same each time unless `SEED` says otherwise.
#[cfg(test)]
fn random(seed: u64) -> impl FnMut() -> u64 {
    let asked = std::env::var("SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed = asked.unwrap_or(seed);
    println!("SEED={seed}");
    let mut random = seed | 1;
    move || {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random
    }
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
    fn the_first_blank_is_found_whatever_stands_around_it() {
        for bytes in 0..40 {
            for fill in [b'a', 0, 0x1F, 0x21, 0xA0, 0xFF] {
                let mut line = vec![fill; bytes];
                assert_eq!(blank_at(&line), bytes);
                let word = if fill < b' ' { 0 } else { bytes };
                assert_eq!(word_end(&line), word);
                for at in (0..bytes).rev() {
                    line[at] = b' ';
                    assert_eq!(blank_at(&line), at, "{line:?}");
                }
            }
        }
    }

    #[test]
    fn lines_end_with_or_without_carriage_return() {
        assert_eq!(split_line(b"get a\r\nx"), Some((b"get a".as_slice(), 7)));
        assert_eq!(split_line(b"get a\nx"), Some((b"get a".as_slice(), 6)));
        assert_eq!(split_line(b"\n"), Some((b"".as_slice(), 1)));
        assert_eq!(split_line(b"get a\r"), None);
    }
}
