//! One connection of a worker: bytes out, bytes in, and the requests that wait for their replies, in order.
//! Says what each reply was for; what that means for the operation is the worker's.

use crate::load::reply::{Parser, Reply, Step};
use crate::load::target::{Socket, Target};
use crate::workload::{Stamp, STAMP_BYTES};
use anyhow::{Context, Result};
use mio::{Interest, Poll, Token};
use std::collections::VecDeque;
use std::io::{self, Read, Write};

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
    target: Target,
    token: Token,
    socket: Option<Socket>,
    pub out: Vec<u8>,
    out_at: usize,
    input: Box<[u8]>,
    from: usize,
    to: usize,
    parser: Parser,
    pub flights: VecDeque<Flight>,
    /// A value arriving, and whose.
    arriving: Option<(Flight, Said)>,
    /// Text protocol: the END after a value is still to come.
    await_end: bool,
    /// When a byte last came, or a request was sent to an idle server.
    pub progress_ns: u64,
}

impl Connection {
    pub fn open(target: Target, token: Token, poll: &Poll) -> Result<Connection> {
        let mut connection = Connection {
            target,
            token,
            socket: None,
            out: Vec::new(),
            out_at: 0,
            input: vec![0; INPUT_BYTES].into_boxed_slice(),
            from: 0,
            to: 0,
            parser: Parser::default(),
            flights: VecDeque::new(),
            arriving: None,
            await_end: false,
            progress_ns: 0,
        };
        connection.reopen(poll)?;
        Ok(connection)
    }

    /// Closes, forgets what was under way, and opens anew.
    pub fn reopen(&mut self, poll: &Poll) -> Result<()> {
        if let Some(mut socket) = self.socket.take() {
            // Closing takes it off the poll all the same.
            let _ = poll.registry().deregister(socket.source());
        }
        self.out.clear();
        self.flights.clear();
        (self.out_at, self.from, self.to) = (0, 0, 0);
        (self.parser, self.arriving, self.await_end) = (Parser::default(), None, false);
        let mut socket = self
            .target
            .connect()
            .with_context(|| format!("cannot connect to {:?}", self.target.place))?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(socket.source(), self.token, interest)
            .context("a connection cannot be watched")?;
        self.socket = Some(socket);
        Ok(())
    }

    pub fn under_way(&self) -> usize {
        self.flights.len() + usize::from(self.arriving.is_some())
    }

    pub fn is_idle(&self) -> bool {
        self.under_way() == 0 && !self.await_end
    }

    /// Everything under way, for failing it.
    pub fn abandon(&mut self) -> Vec<Flight> {
        let arriving = self.arriving.take().map(|(flight, _)| flight);
        arriving.into_iter().chain(self.flights.drain(..)).collect()
    }

    pub fn flush(&mut self) -> Result<(), String> {
        let Some(socket) = &mut self.socket else {
            return Ok(());
        };
        while self.out_at < self.out.len() {
            match socket.write(&self.out[self.out_at..]) {
                Ok(0) => return Err("it takes no more bytes".into()),
                Ok(bytes) => self.out_at += bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.kind().to_string()),
            }
        }
        self.out.clear();
        self.out_at = 0;
        Ok(())
    }

    /// Reads what has come; `settled` gets each reply. `closed` is the poll's word that the other side has ended.
    pub fn receive(
        &mut self,
        closed: bool,
        now_ns: impl Fn() -> u64,
        settled: &mut Vec<(Settled, u64)>,
    ) -> Result<(), String> {
        loop {
            let Some(socket) = &mut self.socket else {
                return Ok(());
            };
            let room = self.input.len() - self.to;
            let bytes = match socket.read(&mut self.input[self.to..]) {
                Ok(0) => return Err("closed by the server".into()),
                Ok(bytes) => bytes,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error.kind().to_string()),
            };
            self.to += bytes;
            let now = now_ns();
            self.progress_ns = now;
            self.settle_all(now, settled)?;
            // A short read has emptied the socket; more raises another edge. An end that came with these bytes does
            // not: read on until it shows.
            if bytes < room && !closed {
                return Ok(());
            }
        }
    }

    fn settle_all(&mut self, now_ns: u64, settled: &mut Vec<(Settled, u64)>) -> Result<(), String> {
        // Taken out so that replies can borrow it meanwhile.
        let input = std::mem::take(&mut self.input);
        let result = loop {
            match self.parser.step(&input[self.from..self.to]) {
                Step::More => break Ok(()),
                Step::Broken(why) => break Err(why.to_string()),
                Step::Skip(bytes) => {
                    self.from += bytes;
                    if self.parser.is_idle() {
                        if let Some((flight, said)) = self.arriving.take() {
                            settled.push((Settled::Said(flight, said), now_ns));
                        }
                    }
                }
                Step::Reply(reply, bytes) => {
                    self.from += bytes;
                    match self.one(reply) {
                        Ok(None) => {}
                        Ok(Some(one)) => settled.push((one, now_ns)),
                        Err(why) => break Err(why),
                    }
                }
            }
        };
        self.input = input;
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.to == self.input.len() {
            self.input.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
        result
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
