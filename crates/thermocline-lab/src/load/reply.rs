//! Replies from bytes: a state machine fed with whatever a read brought. Knows the three languages' reply
//! lines; does not know which request a reply answers: that is `connection`'s.
//!
//! Values are not collected: their first bytes are handed over for checking, the rest is skipped, so a 4 MiB
//! value needs no 4 MiB of buffer.

use crate::workload::STAMP_BYTES;

/// One thing a server said.
#[derive(Debug, PartialEq)]
pub enum Reply<'a> {
    /// A value follows or followed whole; `head` is its first bytes, `key` where the dialect repeats it.
    Value {
        key: Option<&'a [u8]>,
        value_bytes: u64,
        head: &'a [u8],
    },
    /// `EN`, `$-1`: the one key asked for is not there.
    Miss,
    /// `END`: every key of this `get` line not yet seen is not there.
    End,
    /// `STORED`, `HD`, `+OK`.
    Stored,
    /// Anything else: an error line, `NOT_STORED`.
    Refused(&'a [u8]),
}

/// What the parser found at the front of the input.
#[derive(Debug, PartialEq)]
pub enum Step<'a> {
    /// A reply, and how many bytes to drop.
    Reply(Reply<'a>, usize),
    /// Bytes of a value to drop, no reply.
    Skip(usize),
    /// Not enough input yet.
    More,
    /// Not a language we know: close the connection.
    Broken(&'static str),
}

/// A reply line longer than this is not one, bytes.
const LINE_BYTES_MAX: usize = 70_000;

/// Where the parser stands: how many bytes of a value and its line end are still to skip.
#[derive(Debug, Default)]
pub struct Parser {
    skip: u64,
}

impl Parser {
    /// Looks at `input`, the bytes not yet dropped. The caller drops what the step says, then calls again.
    pub fn step<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if self.skip > 0 {
            return self.skip_value(input);
        }
        let Some(line_bytes) = find_line(input) else {
            return if input.len() > LINE_BYTES_MAX {
                Step::Broken("a reply line without an end")
            } else {
                Step::More
            };
        };
        let (line, rest) = (&input[..line_bytes - 2], &input[line_bytes..]);
        match line.first() {
            Some(b'V') if line.starts_with(b"VALUE ") => self.text_value(line, line_bytes, rest),
            Some(b'V') if line.starts_with(b"VA ") => {
                let value_bytes = number(field(line, 1));
                self.value(None, value_bytes, line_bytes, rest)
            }
            Some(b'$') if line == b"$-1" => Step::Reply(Reply::Miss, line_bytes),
            Some(b'$') => self.value(None, number(Some(&line[1..])), line_bytes, rest),
            _ => Step::Reply(plain(line), line_bytes),
        }
    }

    fn text_value<'a>(&mut self, line: &'a [u8], line_bytes: usize, rest: &'a [u8]) -> Step<'a> {
        let value_bytes = number(field(line, 3));
        self.value(field(line, 1), value_bytes, line_bytes, rest)
    }

    fn value<'a>(
        &mut self,
        key: Option<&'a [u8]>,
        value_bytes: Option<u64>,
        line_bytes: usize,
        rest: &'a [u8],
    ) -> Step<'a> {
        let Some(value_bytes) = value_bytes else {
            return Step::Broken("a value without a length");
        };
        let head_bytes = value_bytes.min(STAMP_BYTES as u64) as usize;
        if rest.len() < head_bytes {
            return Step::More;
        }
        self.skip = value_bytes - head_bytes as u64 + 2;
        let head = &rest[..head_bytes];
        Step::Reply(
            Reply::Value {
                key,
                value_bytes,
                head,
            },
            line_bytes + head_bytes,
        )
    }

    /// Drops value bytes; the last two must be a line end, else lengths and bytes have come apart.
    fn skip_value<'a>(&mut self, input: &'a [u8]) -> Step<'a> {
        if self.skip > 2 {
            let bytes = (self.skip - 2).min(input.len() as u64);
            self.skip -= bytes;
            return if bytes == 0 {
                Step::More
            } else {
                Step::Skip(bytes as usize)
            };
        }
        match input {
            [b'\r', b'\n', ..] => {
                self.skip = 0;
                Step::Skip(2)
            }
            [_, _, ..] => Step::Broken("a value longer than its announced length"),
            _ => Step::More,
        }
    }

    /// True between replies: nothing of a value is outstanding.
    pub fn is_idle(&self) -> bool {
        self.skip == 0
    }
}

fn plain(line: &[u8]) -> Reply<'_> {
    match line {
        b"END" => Reply::End,
        b"EN" | b"_" => Reply::Miss,
        b"STORED" | b"HD" | b"+OK" => Reply::Stored,
        _ => Reply::Refused(line),
    }
}

/// Length of the first line with its line end.
fn find_line(input: &[u8]) -> Option<usize> {
    let mut from = 0;
    while let Some(at) = input[from..].iter().position(|&b| b == b'\n') {
        let at = from + at;
        if at > 0 && input[at - 1] == b'\r' {
            return Some(at + 1);
        }
        from = at + 1;
    }
    None
}

fn field(line: &[u8], index: usize) -> Option<&[u8]> {
    line.split(|&b| b == b' ').nth(index)
}

fn number(digits: Option<&[u8]>) -> Option<u64> {
    std::str::from_utf8(digits?).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Everything the parser says about `input` when it comes in pieces of `piece` bytes.
    fn all(input: &[u8], piece: usize) -> Vec<String> {
        let (mut parser, mut held, mut said) = (Parser::default(), Vec::new(), Vec::new());
        for part in input.chunks(piece) {
            held.extend_from_slice(part);
            loop {
                let used = match parser.step(&held) {
                    Step::More => break,
                    Step::Skip(used) => used,
                    Step::Broken(why) => return vec![why.to_string()],
                    Step::Reply(reply, used) => {
                        said.push(match reply {
                            Reply::Value {
                                key,
                                value_bytes,
                                head,
                            } => format!(
                                "value {} {value_bytes} {}",
                                String::from_utf8_lossy(key.unwrap_or(b"-")),
                                String::from_utf8_lossy(head)
                            ),
                            Reply::Refused(line) => {
                                format!("refused {}", String::from_utf8_lossy(line))
                            }
                            other => format!("{other:?}"),
                        });
                        used
                    }
                };
                held.drain(..used);
            }
        }
        assert!(held.is_empty() && parser.is_idle());
        said
    }

    #[test]
    fn replies_are_the_same_however_they_are_cut() {
        let input = b"VALUE k 0 12\r\nabcdefgh\r\nij\r\nEND\r\nSTORED\r\nVA 3 s3\r\nxyz\r\nEN\r\nHD\r\n$-1\r\n$0\r\n\r\n+OK\r\nSERVER_ERROR out of memory\r\n";
        let whole = all(input, input.len());
        assert_eq!(
            whole,
            [
                "value k 12 abcdefgh",
                "End",
                "Stored",
                "value - 3 xyz",
                "Miss",
                "Stored",
                "Miss",
                "value - 0 ",
                "Stored",
                "refused SERVER_ERROR out of memory"
            ]
        );
        for piece in 1..20 {
            assert_eq!(all(input, piece), whole, "cut every {piece} bytes");
        }
    }

    #[test]
    fn a_length_that_lies_breaks_the_connection() {
        assert_eq!(
            all(b"VALUE k 0 2\r\nabc\r\n", 64),
            ["a value longer than its announced length"]
        );
        assert_eq!(
            all(b"VALUE k 0 x\r\nabc\r\n", 64),
            ["a value without a length"]
        );
        assert_eq!(
            all(&[b'x'; LINE_BYTES_MAX + 1], 80_000),
            ["a reply line without an end"]
        );
    }
}
