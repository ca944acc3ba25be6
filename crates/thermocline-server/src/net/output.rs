//! Replies: first in one buffer per worker, then on the wire, and what the wire does not take on the connection.
//!
//! Owns: the order of copied bytes and values written from where they lie, partial writes, and the unsent rest.
//! Must hold: bytes go out in the order they were put in; a value in the middle of being sent stays pinned.

use super::{Pool, Stream, HELD_REST_COPY_BYTES, IOVEC_MAX, OUTPUT_HIGH_BYTES};
use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice, Write};
use thermocline::Guard;

/// The worker's reply buffer. Empty between connections.
#[derive(Default)]
pub struct Out {
    pub bytes: Vec<u8>,
    /// Values to be sent from the cache's memory, each after so many bytes of `bytes`.
    held: Vec<(usize, Guard)>,
    held_bytes: usize,
}

impl Out {
    pub fn with_capacity(bytes: usize) -> Out {
        Out {
            bytes: Vec::with_capacity(bytes),
            ..Out::default()
        }
    }

    #[inline]
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    #[inline]
    pub fn line(&mut self, line: &[u8]) {
        self.bytes.extend_from_slice(line);
        self.bytes.extend_from_slice(b"\r\n");
    }

    /// The value follows here, sent from where it lies.
    pub fn hold(&mut self, guard: Guard) {
        self.held_bytes += guard.len();
        self.held.push((self.bytes.len(), guard));
    }

    /// Time to write before more is answered.
    #[inline]
    pub fn is_high(&self) -> bool {
        self.bytes.len() + self.held_bytes >= OUTPUT_HIGH_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.held.is_empty()
    }

    /// Writes as much as the socket takes. What it does not take comes back as a backlog.
    pub fn send(
        &mut self,
        stream: &mut Stream,
        pool: &Pool,
        written: &mut u64,
    ) -> io::Result<Option<Backlog>> {
        if self.held.is_empty() {
            return self.send_bytes(stream, written);
        }
        let mut backlog = Backlog::default();
        let mut from = 0;
        for (at, guard) in self.held.drain(..) {
            backlog.push_bytes(&self.bytes[from..at]);
            backlog.push_held(guard);
            from = at;
        }
        backlog.push_bytes(&self.bytes[from..]);
        self.bytes.clear();
        self.held_bytes = 0;
        match backlog.send(stream, written)? {
            true => Ok(None),
            false => {
                backlog.let_go(pool);
                Ok(Some(backlog))
            }
        }
    }

    fn send_bytes(
        &mut self,
        stream: &mut Stream,
        written: &mut u64,
    ) -> io::Result<Option<Backlog>> {
        let mut sent = 0;
        while sent < self.bytes.len() {
            match stream.write(&self.bytes[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => {
                    self.clear();
                    return Err(error);
                }
            }
        }
        *written += sent as u64;
        let rest = self.bytes.get(sent..).filter(|rest| !rest.is_empty());
        let backlog = rest.map(|rest| {
            let mut backlog = Backlog::default();
            backlog.push_bytes(rest);
            backlog
        });
        self.clear();
        Ok(backlog)
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.held.clear();
        self.held_bytes = 0;
        // One huge reply must not be kept for ever.
        if self.bytes.capacity() > 2 * OUTPUT_HIGH_BYTES {
            self.bytes.shrink_to(OUTPUT_HIGH_BYTES);
        }
    }
}

/// What a connection still has to send.
#[derive(Default)]
pub struct Backlog {
    pieces: VecDeque<Piece>,
    /// Sent already of the first piece.
    sent: usize,
}

enum Piece {
    Bytes(Vec<u8>),
    Held(Guard),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Piece::Bytes(bytes) => bytes.len(),
            Piece::Held(guard) => guard.len(),
        }
    }
}

impl Backlog {
    fn push_bytes(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            self.pieces.push_back(Piece::Bytes(bytes.to_vec()));
        }
    }

    fn push_held(&mut self, guard: Guard) {
        if !guard.is_empty() {
            self.pieces.push_back(Piece::Held(guard));
        }
    }

    /// Bytes of our own memory this keeps (pinned values belong to the cache).
    pub fn bytes(&self) -> u64 {
        let own = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.capacity() as u64,
            Piece::Held(_) => 0,
        };
        self.pieces.iter().map(own).sum()
    }

    /// Values this keeps pinned in the cache.
    pub fn held(&self) -> u64 {
        let held = |piece: &&Piece| matches!(piece, Piece::Held(_));
        self.pieces.iter().filter(held).count() as u64
    }

    /// Writes as much as the socket takes; true when all is gone.
    pub fn send(&mut self, stream: &mut Stream, written: &mut u64) -> io::Result<bool> {
        while !self.pieces.is_empty() {
            let mut slices = [IoSlice::new(&[]); IOVEC_MAX];
            let count = self.gather(&mut slices);
            match stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    *written += n as u64;
                    self.advance(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Points `slices` at the unsent bytes, in order; returns how many were used.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut count = 0;
        let mut skip = self.sent;
        let mut add = |chunk: &'a [u8]| {
            let unsent = &chunk[skip.min(chunk.len())..];
            skip -= chunk.len() - unsent.len();
            if !unsent.is_empty() && count < slices.len() {
                slices[count] = IoSlice::new(unsent);
                count += 1;
            }
        };
        for piece in self.pieces.iter().take(IOVEC_MAX) {
            match piece {
                Piece::Bytes(bytes) => add(bytes),
                Piece::Held(guard) => guard.chunks().for_each(&mut add),
            }
        }
        count
    }

    fn advance(&mut self, bytes: usize) {
        self.sent += bytes;
        while let Some(first) = self.pieces.front() {
            if self.sent < first.len() {
                break;
            }
            self.sent -= first.len();
            self.pieces.pop_front();
        }
    }

    /// A slow reader must not keep whole segments from being freed: small values are copied, and so are large ones
    /// when slow readers hold as many as they may. The copies are charged to the pool like all unsent bytes.
    fn let_go(&mut self, pool: &Pool) {
        let mut held = 0;
        for piece in &mut self.pieces {
            if let Piece::Held(guard) = piece {
                if guard.len() <= HELD_REST_COPY_BYTES || !pool.may_hold(held + 1) {
                    *piece = Piece::Bytes(guard.to_vec());
                } else {
                    held += 1;
                }
            }
        }
    }
}
