//! One turn of one connection, with the worker's shared buffers.
//!
//! The order of work is always the same: send what is unsent; answer what is read but unanswered; read once; answer all
//! of it; send once. A connection whose output is blocked is not read from.
//!
//! Must hold: `unread` stays set until a read came back short, for the events are edge-triggered.

use super::connection::{Connection, Wanted};
use super::{OUTPUT_HIGH_BYTES, READ_BYTES};
use crate::command::{Conversation, Next};
use std::io::{self, ErrorKind, Read};
use std::sync::atomic::Ordering::Relaxed;

/// What becomes of a connection after a turn.
#[derive(PartialEq, Eq)]
pub(super) enum Fate {
    Keep,
    Close,
}

/// What a worker works with: lent to one connection at a time.
pub(super) struct Desk {
    input: Vec<u8>,
    pub conversation: Conversation,
}

impl Desk {
    pub fn new(conversation: Conversation) -> Desk {
        Desk {
            input: vec![0; READ_BYTES],
            conversation,
        }
    }

    /// Send, answer, read, answer, send: one turn. `Err` means that the socket failed.
    pub fn turn(&mut self, connection: &mut Connection, now_s: u32) -> io::Result<Fate> {
        if !self.send_backlog(connection, now_s)? {
            return Ok(Fate::Keep);
        }
        if connection.has_work() {
            if let Some(fate) = self.work_off(connection, &[])? {
                return Ok(fate);
            }
        }
        if connection.closing {
            return Ok(Fate::Close);
        }
        if !connection.unread {
            return Ok(Fate::Keep);
        }
        self.read(connection, now_s)
    }

    /// True when nothing is left to send.
    fn send_backlog(&mut self, connection: &mut Connection, now_s: u32) -> io::Result<bool> {
        let Some(backlog) = &mut connection.backlog else {
            return Ok(true);
        };
        let mut written = 0;
        let pool = &self.conversation.shared.pool;
        let gone = backlog.send(&mut connection.stream, pool, &mut written)?;
        self.conversation.counters.bytes_written.add(written);
        if written > 0 {
            connection.moved_s = now_s;
        }
        if gone {
            connection.backlog = None;
        }
        Ok(gone)
    }

    fn read(&mut self, connection: &mut Connection, now_s: u32) -> io::Result<Fate> {
        let read = loop {
            match connection.stream.read(&mut self.input) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    connection.unread = false;
                    return Ok(Fate::Keep);
                }
                result => break result?,
            }
        };
        if read == 0 {
            return Ok(Fate::Close);
        }
        // A read that did not fill the buffer has emptied the socket: no second read to hear EAGAIN.
        connection.unread = read == self.input.len() || connection.peer_done;
        connection.moved_s = now_s;
        connection.seen.last_s.store(now_s, Relaxed);
        self.conversation.counters.bytes_read.add(read as u64);
        let input = std::mem::take(&mut self.input);
        let fate = self.work_off(connection, &input[..read]);
        self.input = input;
        Ok(fate?.unwrap_or(Fate::Keep))
    }

    /// Answers what is in `rest` and then in `data`. Whatever cannot be answered yet is in `rest` afterwards.
    /// None: all that could be done is done, and sent.
    fn work_off(
        &mut self,
        connection: &mut Connection,
        mut data: &[u8],
    ) -> io::Result<Option<Fate>> {
        loop {
            let next = if connection.rest.is_empty() {
                let step = self.conversation.run(&mut connection.talk, data);
                data = &data[step.consumed..];
                step.next
            } else {
                if !connection.has_work() {
                    data = connection.top_up(data);
                    if !connection.has_work() {
                        let too_long = self.conversation.line_is_too_long(&connection.rest);
                        return Ok(
                            (connection.wanted == Wanted::Line && too_long).then_some(Fate::Close)
                        );
                    }
                }
                let step = self
                    .conversation
                    .run(&mut connection.talk, &connection.rest);
                connection.consume(step.consumed);
                step.next
            };
            self.send(connection)?;
            match next {
                Next::Close if connection.backlog.is_none() => {
                    connection.stream.finish();
                    return Ok(Some(Fate::Close));
                }
                Next::Close => {
                    connection.closing = true;
                    connection.rest = Vec::new();
                    return Ok(Some(Fate::Keep));
                }
                Next::Line | Next::Bytes(_) => {
                    connection.wanted = match next {
                        Next::Bytes(bytes) => Wanted::Bytes(bytes),
                        _ => Wanted::Line,
                    };
                    if connection.rest.is_empty() {
                        connection.keep(data);
                        let blocked = connection.backlog.is_some();
                        return Ok(blocked.then_some(Fate::Keep));
                    }
                    if connection.backlog.is_some() {
                        connection.keep(data);
                        return Ok(Some(Fate::Keep));
                    }
                    if data.is_empty() {
                        return Ok(None);
                    }
                }
                Next::Done if data.is_empty() && connection.rest.is_empty() => {
                    connection.wanted = Wanted::Anything;
                    return Ok(connection.backlog.is_some().then_some(Fate::Keep));
                }
                Next::Done | Next::Flush | Next::Yield => {
                    connection.wanted = Wanted::Anything;
                    if next == Next::Yield || connection.backlog.is_some() {
                        connection.keep(data);
                        return Ok(Some(Fate::Keep));
                    }
                }
            }
        }
    }

    fn send(&mut self, connection: &mut Connection) -> io::Result<()> {
        let out = &mut self.conversation.out;
        if out.is_empty() {
            return Ok(());
        }
        debug_assert!(connection.backlog.is_none(), "blocked output is sent first");
        let mut written = 0;
        let pool = &self.conversation.shared.pool;
        let backlog = out.send(&mut connection.stream, pool, &mut written);
        self.conversation.counters.bytes_written.add(written);
        let now_s = self.conversation.now_s;
        connection.backlog = backlog?.map(|rest| Box::new(rest.begun_at(now_s)));
        Ok(())
    }
}

const _: () = assert!(OUTPUT_HIGH_BYTES >= READ_BYTES);
