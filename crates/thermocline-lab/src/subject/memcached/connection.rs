//! One connection of a worker: bytes out, bytes in, and the requests that wait for their replies, in order.
//! Says what each reply was for; what that means for the operation is the worker's.

use crate::load::reply::{Parser, Reply, Step};
use crate::load::stream::Stream;
use crate::load::target::Target;
use crate::workload::{Stamp, STAMP_BYTES};
use anyhow::{Context, Result};
use mio::{Poll, Token};
use std::collections::VecDeque;

/// A read takes up to this much at once, bytes.
const INPUT_BYTES: usize = 128 << 10;

/// What a request under way is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    Read,
    Write,
    Delete,
    /// The write of a read-modify-write; what its read found.
    Rewrite {
        hit: bool,
    },
    /// A write of what a read missed: no operation waits for it.
    Fill,
}

/// A request under way, for operation `index` of batch `slot`.
#[derive(Clone, Copy, Debug)]
pub struct Flight {
    pub slot: usize,
    pub index: usize,
    pub purpose: Purpose,
    pub started_ns: u64,
}

/// What came back for the request that was first in line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Said {
    Value {
        bytes: u64,
        head: Stamp,
    },
    Miss,
    Stored,
    /// Not there, or there already.
    Not,
}

/// A reply, or an error line for it.
pub enum Settled {
    Said(Flight, Said),
    Refused(Flight, String),
}

pub struct Connection {
    stream: Stream,
    waiting: Waiting,
    /// When a byte last came, or a request was sent to an idle server.
    pub progress_ns: u64,
}

/// The requests without a reply, and how far the replies are.
#[derive(Default)]
struct Waiting {
    parser: Parser,
    flights: VecDeque<Flight>,
    /// A value arriving, and whose.
    arriving: Option<(Flight, Said)>,
    /// Text protocol: the END after a value is still to come.
    await_end: bool,
}

impl Connection {
    pub fn open(target: Target, token: Token, poll: &Poll) -> Result<Connection> {
        let mut connection = Connection {
            stream: Stream::new(target, token, INPUT_BYTES),
            waiting: Waiting::default(),
            progress_ns: 0,
        };
        connection.reopen(poll)?;
        Ok(connection)
    }

    /// Closes, forgets what was under way, and opens anew.
    pub fn reopen(&mut self, poll: &Poll) -> Result<()> {
        self.stream.close(poll);
        self.waiting = Waiting::default();
        self.stream
            .open(poll)
            .with_context(|| format!("cannot connect to {:?}", self.stream.target().place))
    }

    pub fn under_way(&self) -> usize {
        self.waiting.flights.len() + usize::from(self.waiting.arriving.is_some())
    }

    pub fn is_idle(&self) -> bool {
        self.under_way() == 0 && !self.waiting.await_end
    }

    /// Appends a request's bytes by `write`; sent by the next [`Connection::flush`].
    pub fn queue(&mut self, flight: Flight, write: impl FnOnce(&mut Vec<u8>)) {
        write(&mut self.stream.out);
        if self.is_idle() {
            self.progress_ns = flight.started_ns;
        }
        self.waiting.flights.push_back(flight);
    }

    /// Everything under way, for failing it.
    pub fn abandon(&mut self) -> Vec<Flight> {
        let arriving = self.waiting.arriving.take().map(|(flight, _)| flight);
        let flights = self.waiting.flights.drain(..);
        arriving.into_iter().chain(flights).collect()
    }

    pub fn flush(&mut self) -> Result<(), String> {
        self.stream.flush().map(drop)
    }

    /// Reads what has come; `settled` gets each reply. `closed` is the poll's word that the other side has ended.
    pub fn receive(
        &mut self,
        closed: bool,
        now_ns: impl Fn() -> u64,
        settled: &mut Vec<(Settled, u64)>,
    ) -> Result<(), String> {
        let (waiting, progress_ns) = (&mut self.waiting, &mut self.progress_ns);
        self.stream.receive(closed, |input, _| {
            *progress_ns = now_ns();
            waiting.settle_all(input, *progress_ns, settled)
        })
    }
}

impl Waiting {
    /// Settles what `input` answers; how many bytes of it were understood.
    fn settle_all(
        &mut self,
        input: &[u8],
        now_ns: u64,
        settled: &mut Vec<(Settled, u64)>,
    ) -> Result<usize, String> {
        let mut from = 0;
        loop {
            match self.parser.step(&input[from..]) {
                Step::More => return Ok(from),
                Step::Broken(why) => return Err(why.to_string()),
                Step::Skip(bytes) => {
                    from += bytes;
                    if self.parser.is_idle() {
                        if let Some((flight, said)) = self.arriving.take() {
                            settled.push((Settled::Said(flight, said), now_ns));
                        }
                    }
                }
                Step::Reply(reply, bytes) => {
                    from += bytes;
                    let one = self.one(reply)?;
                    settled.extend(one.map(|one| (one, now_ns)));
                }
            }
        }
    }

    fn one(&mut self, reply: Reply<'_>) -> Result<Option<Settled>, String> {
        if self.await_end {
            self.await_end = false;
            return match reply {
                Reply::End => Ok(None),
                _ => Err("a value beyond the key asked for".into()),
            };
        }
        let flight = self.flights.pop_front().ok_or("a reply nobody asked for")?;
        let is_read = flight.purpose == Purpose::Read;
        let said = match reply {
            Reply::Value {
                key,
                value_bytes,
                head: bytes,
            } if is_read => {
                let mut head = Stamp::default();
                head[..bytes.len().min(STAMP_BYTES)].copy_from_slice(bytes);
                self.await_end = key.is_some();
                let said = Said::Value {
                    bytes: value_bytes,
                    head,
                };
                self.arriving = Some((flight, said));
                return Ok(None);
            }
            Reply::Miss | Reply::End if is_read => Said::Miss,
            Reply::Stored if !is_read => Said::Stored,
            Reply::Refused(line) => match (line, is_read) {
                (b"DELETED", false) => Said::Stored,
                (b"NOT_STORED" | b"NOT_FOUND" | b"NS" | b"NF" | b"EXISTS" | b"EX", false) => {
                    Said::Not
                }
                _ => {
                    let text = String::from_utf8_lossy(&line[..line.len().min(60)]).into_owned();
                    return Ok(Some(Settled::Refused(flight, text)));
                }
            },
            _ => return Err("a reply of the wrong kind".into()),
        };
        Ok(Some(Settled::Said(flight, said)))
    }
}
