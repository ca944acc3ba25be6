//! One connection: bytes out, bytes in, and the requests between them. Shared by the load generator and the memcached
//! subject, which say what is asked and what an answer is worth.

use super::awaited::{Awaited, Request, Said};
use super::stream::Stream;
use super::target::Target;
use mio::{Poll, Token};
use std::io;

/// A read takes up to this much at once, bytes: sixteen replies of 16 KiB.
const INPUT_BYTES: usize = 256 << 10;

pub struct Pipe<R> {
    stream: Stream,
    awaited: Awaited<R>,
    /// A `get` line of several keys has not been ended yet.
    is_line_open: bool,
    /// Bytes received since this was last taken.
    pub bytes_in: u64,
    /// When a byte last came, or a request was given to an idle server.
    progress_ns: u64,
}

impl<R: Request> Pipe<R> {
    /// Not open yet.
    pub fn new(target: Target, token: Token) -> Self {
        Pipe {
            stream: Stream::new(target, token, INPUT_BYTES),
            awaited: Awaited::default(),
            is_line_open: false,
            bytes_in: 0,
            progress_ns: 0,
        }
    }

    pub fn open(&mut self, poll: &Poll) -> io::Result<()> {
        self.stream.open(poll)
    }

    /// Closes, and hands back what was under way, for failing it.
    pub fn close(&mut self, poll: &Poll) -> Vec<R> {
        self.stream.close(poll);
        self.is_line_open = false;
        self.awaited.abandon()
    }

    pub fn target(&self) -> &Target {
        self.stream.target()
    }

    pub fn is_open(&self) -> bool {
        self.stream.is_open()
    }

    pub fn under_way(&self) -> usize {
        self.awaited.count()
    }

    /// Nothing is under way: the next pipeline may go.
    pub fn is_idle(&self) -> bool {
        self.awaited.is_idle()
    }

    /// Under way without a byte from the server for longer than `timeout_ns`.
    pub fn is_stuck(&self, now_ns: u64, timeout_ns: u64) -> bool {
        self.is_open() && !self.is_idle() && now_ns.saturating_sub(self.progress_ns) > timeout_ns
    }

    /// A request of its own, whose bytes `write` appends. Sent by the next [`Pipe::flush`].
    pub fn queue(&mut self, request: R, now_ns: u64, write: impl FnOnce(&mut Vec<u8>)) {
        self.end_line();
        self.enter(request, true, now_ns);
        write(&mut self.stream.out);
    }

    /// One more key of a `get` line, which ends before the next request of another kind or the next flush.
    pub fn queue_key(&mut self, read: R, now_ns: u64, write_key: impl FnOnce(&mut Vec<u8>)) {
        self.enter(read, false, now_ns);
        if !std::mem::replace(&mut self.is_line_open, true) {
            self.stream.out.extend_from_slice(b"get");
        }
        self.stream.out.push(b' ');
        write_key(&mut self.stream.out);
    }

    fn enter(&mut self, request: R, ends_line: bool, now_ns: u64) {
        if self.is_idle() {
            self.progress_ns = now_ns;
        }
        self.awaited.push(request, ends_line);
    }

    fn end_line(&mut self) {
        if std::mem::take(&mut self.is_line_open) {
            self.stream.out.extend_from_slice(b"\r\n");
            self.awaited.end_line();
        }
    }

    /// The `count` requests queued last.
    pub fn newest_mut(&mut self, count: usize) -> impl Iterator<Item = &mut R> {
        self.awaited.newest_mut(count)
    }

    /// Writes what is queued, as far as the socket takes it: bytes written. An error says why the connection is over.
    pub fn flush(&mut self) -> Result<u64, String> {
        self.end_line();
        self.stream.flush()
    }

    /// Reads what has come; `settle` gets each answer and when its bytes came, which is asked once for each read. `closed` is
    /// the poll's word that the server has ended its side; `is_key` compares a read with the key that a reply repeats.
    pub fn receive(
        &mut self,
        closed: bool,
        now_ns: impl Fn() -> u64,
        is_key: impl Fn(&R, &[u8]) -> bool,
        mut settle: impl FnMut(R, Said, u64),
    ) -> Result<(), String> {
        let Pipe {
            stream,
            awaited,
            bytes_in,
            progress_ns,
            ..
        } = self;
        stream.receive(closed, |input, new_bytes| {
            let now = now_ns();
            *progress_ns = now;
            *bytes_in += new_bytes as u64;
            awaited.settle_all(input, &is_key, |request, said| settle(request, said, now))
        })
    }
}
