//! The requests of a connection that wait for their replies, in order, and which of them each reply answers. Knows the
//! replies' bytes by `reply`; what an answer means for an operation is the caller's.
//!
//! What must hold: every request that entered leaves exactly once, settled or abandoned, whatever the server says.

use super::reply::{Parser, Reply, Step};
use crate::workload::{Stamp, STAMP_BYTES};
use std::collections::VecDeque;

/// A request under way, as far as replies tell requests apart.
pub trait Request: Copy {
    fn is_read(&self) -> bool;
}

/// What came back for a request.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// The whole value has come; `head` is its first bytes.
    Value {
        bytes: u64,
        head: Stamp,
    },
    Miss,
    /// Stored, or deleted.
    Stored,
    /// A write found its key there, or not there: these words.
    Not(&'static str),
    /// An error line, its first bytes.
    Refused(String),
}

/// What a server says of a write whose condition does not hold.
const NOT: [&str; 6] = ["NOT_STORED", "NOT_FOUND", "NS", "NF", "EXISTS", "EX"];

pub struct Awaited<R> {
    parser: Parser,
    line: VecDeque<Waiting<R>>,
    /// A value arriving, and whose.
    arriving: Option<(R, Said)>,
    /// The last key of a `get` line was found: its END is still to come.
    await_end: bool,
}

#[derive(Clone, Copy)]
struct Waiting<R> {
    request: R,
    /// Not followed by another key of the same `get` line.
    ends_line: bool,
}

impl<R> Default for Awaited<R> {
    fn default() -> Self {
        Awaited {
            parser: Parser::default(),
            line: VecDeque::new(),
            arriving: None,
            await_end: false,
        }
    }
}

impl<R: Request> Awaited<R> {
    pub fn push(&mut self, request: R, ends_line: bool) {
        self.line.push_back(Waiting { request, ends_line });
    }

    /// The newest request is the last key of its `get` line.
    pub fn end_line(&mut self) {
        if let Some(last) = self.line.back_mut() {
            last.ends_line = true;
        }
    }

    pub fn count(&self) -> usize {
        self.line.len() + usize::from(self.arriving.is_some())
    }

    pub fn is_idle(&self) -> bool {
        self.count() == 0 && !self.await_end
    }

    /// The `count` requests that entered last.
    pub fn newest_mut(&mut self, count: usize) -> impl Iterator<Item = &mut R> {
        let first = self.line.len() - count;
        self.line
            .range_mut(first..)
            .map(|waiting| &mut waiting.request)
    }

    /// Forgets everything under way, for failing it.
    pub fn abandon(&mut self) -> Vec<R> {
        let all = std::mem::take(self);
        let arriving = all.arriving.into_iter().map(|(request, _)| request);
        let rest = all.line.into_iter().map(|waiting| waiting.request);
        arriving.chain(rest).collect()
    }

    /// Settles what `input` answers; how many bytes of it were understood. `is_key` compares a read with the key that a reply
    /// repeats. An error ends the connection.
    pub fn settle_all(
        &mut self,
        input: &[u8],
        is_key: impl Fn(&R, &[u8]) -> bool,
        mut settle: impl FnMut(R, Said),
    ) -> Result<usize, String> {
        let mut from = 0;
        loop {
            match self.parser.step(&input[from..]) {
                Step::More => return Ok(from),
                Step::Broken(why) => return Err(why.to_string()),
                Step::Skip(bytes) => {
                    from += bytes;
                    if self.parser.is_idle() {
                        if let Some((request, said)) = self.arriving.take() {
                            settle(request, said);
                        }
                    }
                }
                Step::Reply(reply, bytes) => {
                    from += bytes;
                    self.settle(reply, &is_key, &mut settle)?;
                }
            }
        }
    }

    fn settle(
        &mut self,
        reply: Reply<'_>,
        is_key: &impl Fn(&R, &[u8]) -> bool,
        settle: &mut impl FnMut(R, Said),
    ) -> Result<(), String> {
        if std::mem::take(&mut self.await_end) {
            return match reply {
                // An error in place of the END: all its keys have been answered.
                Reply::End | Reply::Refused(_) => Ok(()),
                _ => Err("a value beyond the keys asked for".into()),
            };
        }
        match reply {
            Reply::Value {
                key,
                value_bytes,
                head,
            } => {
                let found = self.found(key, is_key, settle)?;
                self.await_end = key.is_some() && found.ends_line;
                self.arriving = Some((found.request, value(value_bytes, head)));
            }
            Reply::Miss => settle(self.pop(true)?.request, Said::Miss),
            Reply::End => loop {
                let missed = self.pop(true)?;
                settle(missed.request, Said::Miss);
                if missed.ends_line {
                    break;
                }
            },
            Reply::Stored => settle(self.pop(false)?.request, Said::Stored),
            Reply::Refused(line) => self.refused(line, settle)?,
        }
        Ok(())
    }

    /// The read that a value answers. Keys of its `get` line that were passed over are misses.
    fn found(
        &mut self,
        key: Option<&[u8]>,
        is_key: &impl Fn(&R, &[u8]) -> bool,
        settle: &mut impl FnMut(R, Said),
    ) -> Result<Waiting<R>, String> {
        loop {
            let read = self.pop(true)?;
            if key.is_none_or(|key| is_key(&read.request, key)) {
                return Ok(read);
            }
            settle(read.request, Said::Miss);
            if read.ends_line {
                return Err("a value for a key not asked for".into());
            }
        }
    }

    fn pop(&mut self, is_read: bool) -> Result<Waiting<R>, String> {
        let first = self.line.front().ok_or("a reply nobody asked for")?;
        if first.request.is_read() != is_read {
            return Err("a reply of the wrong kind".into());
        }
        let first = *first;
        self.line.pop_front();
        Ok(first)
    }

    /// A word for a write, or an error line: that fails the request it answers, of a `get` line all keys not yet found.
    fn refused(&mut self, line: &[u8], settle: &mut impl FnMut(R, Said)) -> Result<(), String> {
        let is_write = self.line.front().is_some_and(|w| !w.request.is_read());
        let not = NOT.iter().find(|word| word.as_bytes() == line);
        let text = || String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
        let said = match not {
            _ if is_write && line == b"DELETED" => Said::Stored,
            Some(word) if is_write => Said::Not(word),
            _ => Said::Refused(text()),
        };
        loop {
            let Some(first) = self.line.pop_front() else {
                return Err(format!("unasked-for `{}`", text()));
            };
            settle(first.request, said.clone());
            if first.ends_line {
                return Ok(());
            }
        }
    }
}

fn value(bytes: u64, first: &[u8]) -> Said {
    let mut head = Stamp::default();
    let count = first.len().min(STAMP_BYTES);
    head[..count].copy_from_slice(&first[..count]);
    Said::Value { bytes, head }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A read of the key that is its letter; a capital is a write.
    impl Request for u8 {
        fn is_read(&self) -> bool {
            self.is_ascii_lowercase()
        }
    }

    fn awaited(requests: &[(u8, bool)]) -> Awaited<u8> {
        let mut awaited = Awaited::default();
        for (request, ends_line) in requests {
            awaited.push(*request, *ends_line);
        }
        awaited
    }

    fn settled(awaited: &mut Awaited<u8>, input: &[u8]) -> (Result<usize, String>, String) {
        let mut text = String::new();
        let end = awaited.settle_all(
            input,
            |request, key| key == [*request],
            |request, said| {
                let word = match said {
                    Said::Value { bytes, .. } => format!("={bytes}"),
                    Said::Miss => "-".into(),
                    Said::Stored => "+".into(),
                    Said::Not(word) => format!("!{word}"),
                    Said::Refused(line) => format!("({line})"),
                };
                text += &format!("{}{word} ", request as char);
            },
        );
        (end, text.trim_end().to_string())
    }

    #[test]
    fn keys_of_a_line_that_are_passed_over_have_missed() {
        let all = [
            (b'a', false),
            (b'b', false),
            (b'c', false),
            (b'd', true),
            (b'E', true),
            (b'f', true),
        ];
        let mut line = awaited(&all);
        let input = b"VALUE b 0 1\r\nx\r\nVALUE c 0 2\r\nxy\r\nEND\r\nNS\r\nEND\r\n";
        let (end, text) = settled(&mut line, input);
        assert_eq!(
            (end, text.as_str()),
            (Ok(input.len()), "a- b=1 c=2 d- E!NS f-")
        );
        assert!(line.is_idle());
    }

    #[test]
    fn the_end_after_the_last_key_is_waited_for() {
        let mut line = awaited(&[(b'a', false), (b'b', true), (b'c', true)]);
        let (_, text) = settled(&mut line, b"VALUE b 0 1\r\nx\r\n");
        assert_eq!((text.as_str(), line.count()), ("a- b=1", 1));
        let (_, text) = settled(&mut line, b"END\r\nVALUE c 0 0\r\n\r\n");
        assert_eq!((text.as_str(), line.is_idle()), ("c=0", false));
        assert_eq!(settled(&mut line, b"END\r\n").1, "");
        assert!(line.is_idle());
    }

    #[test]
    fn an_error_fails_the_keys_of_its_line_and_no_others() {
        let mut line = awaited(&[(b'a', false), (b'b', true), (b'c', true)]);
        let (_, text) = settled(&mut line, b"SERVER_ERROR no\r\n");
        assert_eq!(text, "a(SERVER_ERROR no) b(SERVER_ERROR no)");
        assert_eq!(line.abandon(), [b'c']);
        assert!(line.is_idle());
    }

    #[test]
    fn replies_that_fit_no_request_end_the_connection() {
        type Case<'a> = (&'a [(u8, bool)], &'a [u8], &'a str);
        let cases: [Case<'_>; 5] = [
            (&[], b"STORED\r\n", "nobody asked for"),
            (&[], b"ERROR\r\n", "unasked-for `ERROR`"),
            (&[(b'a', true)], b"STORED\r\n", "wrong kind"),
            (&[(b'a', true)], b"VALUE z 0 0\r\n", "not asked for"),
            (
                &[(b'a', true), (b'b', true)],
                b"VALUE a 0 0\r\n\r\nVALUE b 0 0\r\n",
                "beyond the keys",
            ),
        ];
        for (requests, input, why) in cases {
            let (end, _) = settled(&mut awaited(requests), input);
            assert!(end.clone().is_err_and(|said| said.contains(why)), "{end:?}");
        }
    }
}
