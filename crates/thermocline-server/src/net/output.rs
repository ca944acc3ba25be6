//! Replies: first in one buffer per worker, then on the wire, and what the wire does not take on the connection.
//!
//! Owns: the order of copied bytes and values written from where they lie, partial writes, and the unsent rest.
//! Must hold: bytes go out in the order they were put in; a value in the middle of being sent stays pinned. Of one that lies
//! compressed in chunks one chunk is decoded at a time: the one whose bytes are next.

use super::{
    Pool, Stream, HELD_REST_COPY_BYTES, IOVEC_MAX, OUTPUT_HIGH_BYTES, SEGMENT_BYTES_MAX,
    SEND_TURN_BYTES,
};
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

    /// Writes as much as the socket takes, and as one turn allows. What is left comes back as a backlog.
    pub fn send(
        &mut self,
        stream: &mut Stream,
        pool: &Pool,
        written: &mut u64,
    ) -> io::Result<Option<Backlog>> {
        let total = self.bytes.len() + self.held_bytes;
        let mut sent = 0;
        let result = loop {
            if sent == total {
                break Ok(None);
            }
            if sent >= SEND_TURN_BYTES {
                break Ok(Some(self.rest(sent, pool, false)));
            }
            match self.ready(sent).and_then(|()| self.write(stream, sent)) {
                Ok(0) => break Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    break Ok(Some(self.rest(sent, pool, true)))
                }
                Err(error) => break Err(error),
            }
        };
        *written += sent as u64;
        self.clear();
        result
    }

    /// Decodes what has to be for the bytes after the first `sent`.
    fn ready(&mut self, sent: usize) -> io::Result<()> {
        let mut held_before = 0;
        for (at, guard) in &mut self.held {
            let start = *at + held_before;
            held_before += guard.len();
            if start + guard.len() > sent {
                return make_ready(guard, sent.saturating_sub(start));
            }
        }
        Ok(())
    }

    /// One write of what follows the first `sent` bytes.
    fn write(&self, stream: &mut Stream, sent: usize) -> io::Result<usize> {
        let most = SEND_TURN_BYTES.saturating_sub(sent);
        if self.held.is_empty() {
            let unsent = &self.bytes[sent..];
            return stream.write(&unsent[..unsent.len().min(most)]);
        }
        let mut slices = [IoSlice::new(&[]); IOVEC_MAX];
        let mut gather = Gather::new(&mut slices, sent, most);
        let mut from = 0;
        for (at, guard) in &self.held {
            gather.add(&self.bytes[from..*at]);
            gather.add_value(guard);
            from = *at;
        }
        gather.add(&self.bytes[from..]);
        let count = gather.count;
        stream.write_vectored(&slices[..count])
    }

    /// What is left after `sent` bytes, to be kept with the connection.
    fn rest(&mut self, sent: usize, pool: &Pool, blocked: bool) -> Backlog {
        let mut backlog = Backlog {
            blocked,
            ..Backlog::default()
        };
        let mut from = 0;
        for (at, guard) in self.held.drain(..) {
            backlog.push_bytes(&self.bytes[from..at]);
            backlog.push_held(guard);
            from = at;
        }
        backlog.push_bytes(&self.bytes[from..]);
        backlog.advance(sent);
        if blocked {
            backlog.let_go(pool);
        }
        backlog
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
    /// The socket took no more; else it was others' turn.
    blocked: bool,
    /// Second in which it was first left over.
    since_s: u32,
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

    /// Bytes of our own memory this keeps (pinned values belong to the cache), but for values that came decoded.
    pub fn bytes(&self) -> u64 {
        let own = |piece: &Piece| match piece {
            Piece::Bytes(bytes) => bytes.capacity() as u64,
            Piece::Held(_) => 0,
        };
        self.pieces.iter().map(own).sum()
    }

    /// Bytes of the cache's memory this keeps from being reused.
    pub fn held(&self) -> u64 {
        self.guards().map(kept_bytes).sum()
    }

    /// Bytes of our own memory that values take which lie compressed in the cache: copies that were decoded, and the chunk
    /// that is next of one in chunks.
    pub fn decoded(&self) -> u64 {
        self.guards().map(|guard| guard.heap_bytes() as u64).sum()
    }

    fn guards(&self) -> impl Iterator<Item = &Guard> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Held(guard) => Some(guard),
            Piece::Bytes(_) => None,
        })
    }

    /// Second in which it was first left over.
    pub fn since_s(&self) -> u32 {
        self.since_s
    }

    /// Says when that was.
    pub fn begun_at(mut self, since_s: u32) -> Backlog {
        self.since_s = since_s;
        self
    }

    /// Whether it waits for the socket, and not just for its next turn.
    pub fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Writes as much as the socket takes and one turn allows; true when all is gone.
    pub fn send(
        &mut self,
        stream: &mut Stream,
        pool: &Pool,
        written: &mut u64,
    ) -> io::Result<bool> {
        let mut left = SEND_TURN_BYTES;
        while !self.pieces.is_empty() && left > 0 {
            self.ready()?;
            let mut slices = [IoSlice::new(&[]); IOVEC_MAX];
            let count = self.gather(&mut slices, left);
            match stream.write_vectored(&slices[..count]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => {
                    *written += n as u64;
                    left -= n.min(left);
                    self.advance(n);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    if !self.blocked {
                        self.blocked = true;
                        self.let_go(pool);
                    }
                    return Ok(false);
                }
                Err(error) => return Err(error),
            }
        }
        self.blocked = false;
        Ok(self.pieces.is_empty())
    }

    /// Decodes what has to be for the next bytes.
    fn ready(&mut self) -> io::Result<()> {
        let mut sent = self.sent;
        for piece in &mut self.pieces {
            match piece {
                Piece::Held(guard) => return make_ready(guard, sent),
                Piece::Bytes(bytes) => sent = sent.saturating_sub(bytes.len()),
            }
        }
        Ok(())
    }

    /// Points `slices` at the unsent bytes, `most` of them, in order; returns how many were used.
    fn gather<'a>(&'a self, slices: &mut [IoSlice<'a>], most: usize) -> usize {
        let mut gather = Gather::new(slices, self.sent, most);
        for piece in self.pieces.iter().take(IOVEC_MAX) {
            match piece {
                Piece::Bytes(bytes) => gather.add(bytes),
                Piece::Held(guard) => gather.add_value(guard),
            }
        }
        gather.count
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

    /// A slow reader must not keep whole segments from being freed: small values are copied, and so are middling
    /// ones when slow readers hold as much as they may, as far as the pool has room for the copies. What it has no room
    /// for stays held: then writes may have to wait, but memory is not exceeded and nobody is cut off. What keeps no
    /// segment is a copy already.
    fn let_go(&mut self, pool: &Pool) {
        let mut held = 0;
        let mut copied = 0;
        for piece in &mut self.pieces {
            if let Piece::Held(guard) = piece {
                let more = kept_bytes(guard);
                if more == 0 {
                    continue;
                }
                let bytes = guard.len();
                let small = bytes <= HELD_REST_COPY_BYTES;
                let middling = bytes <= 4 * HELD_REST_COPY_BYTES;
                let wants = small || middling && !pool.may_hold(held + more, bytes as u64);
                let mut copy = Vec::new();
                if wants && pool.could_copy(copied + bytes as u64) && guard.append_to(&mut copy) {
                    copied += bytes as u64;
                    *piece = Piece::Bytes(copy);
                } else {
                    held += more;
                }
            }
        }
    }
}

/// A value keeps the segments it lies in: its own bytes, and most of a segment (2 MiB at most) at the edge. One that
/// lies compressed was taken there chunk by chunk, among others'. A copy keeps none.
fn kept_bytes(guard: &Guard) -> u64 {
    match guard.heap_bytes() {
        _ if guard.is_coded() => guard.kept_bytes() as u64,
        0 => guard.len() as u64 + SEGMENT_BYTES_MAX,
        _ => 0,
    }
}

/// Decodes the chunk that byte `at` of a value lies in. An error ends the connection: the value was sound when its head
/// was sent, and what was sent cannot be taken back.
fn make_ready(guard: &mut Guard, at: usize) -> io::Result<()> {
    if guard.make_ready(at) {
        return Ok(());
    }
    tracing::error!(at, "memory was changed under a value that is being sent");
    Err(io::Error::other("memory was changed"))
}

/// Collects pieces for one gathering write, leaving out what was sent before and what is more than one turn's worth.
struct Gather<'s, 'a> {
    slices: &'s mut [IoSlice<'a>],
    count: usize,
    skip: usize,
    left: usize,
    /// A chunk that is not decoded yet comes next.
    closed: bool,
}

impl<'s, 'a> Gather<'s, 'a> {
    fn new(slices: &'s mut [IoSlice<'a>], skip: usize, most: usize) -> Gather<'s, 'a> {
        Gather {
            slices,
            count: 0,
            skip,
            left: most,
            closed: false,
        }
    }

    /// Adds what can be lent of a value.
    fn add_value(&mut self, guard: &'a Guard) {
        let at = self.skip.min(guard.len());
        self.skip -= at;
        let mut lent = at;
        for piece in guard.ready_from(at) {
            lent += piece.len();
            self.add(piece);
        }
        self.closed |= lent < guard.len();
    }

    fn add(&mut self, chunk: &'a [u8]) {
        let unsent = &chunk[self.skip.min(chunk.len())..];
        self.skip -= chunk.len() - unsent.len();
        let unsent = &unsent[..unsent.len().min(self.left)];
        if !unsent.is_empty() && self.count < self.slices.len() && !self.closed {
            self.slices[self.count] = IoSlice::new(unsent);
            self.count += 1;
            self.left -= unsent.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use thermocline::{Cache, Config};

    /// Every byte once and in order, whatever the socket takes at a time.
    #[test]
    fn bytes_and_values_arrive_in_order_through_a_narrow_socket() {
        let cache = Cache::new(Config::new(32 << 20)).expect("a small cache");
        let pool = Pool::new(64 << 20, 1 << 30, 2 << 20, 2, None);
        let (near, far) = mio::net::UnixStream::pair().expect("a pair");
        let (mut stream, mut far) = (Stream::Unix(near), far);
        let mut out = Out::default();
        let mut expected = Vec::new();
        for number in 0..60u32 {
            let value = vec![number as u8; 3000 * (number as usize % 40 + 1)];
            let key = number.to_string();
            cache.set(key.as_bytes(), &value).expect("stored");
            let line = format!("VALUE {number}");
            out.line(line.as_bytes());
            out.hold(cache.get(key.as_bytes()).expect("there"));
            out.push(b"\r\n");
            expected.extend_from_slice(format!("{line}\r\n").as_bytes());
            expected.extend_from_slice(&value);
            expected.extend_from_slice(b"\r\n");
        }
        let mut written = 0;
        let mut backlog = out.send(&mut stream, &pool, &mut written).expect("sent");
        assert!(out.is_empty());
        assert!(backlog.is_some(), "a socket does not take 3.6 MB at once");
        let mut arrived = Vec::new();
        let mut part = vec![0; 7777];
        while arrived.len() < expected.len() {
            if let Ok(count) = far.read(&mut part) {
                arrived.extend_from_slice(&part[..count]);
            }
            if let Some(rest) = &mut backlog {
                if rest.send(&mut stream, &pool, &mut written).expect("sent") {
                    backlog = None;
                }
            }
        }
        assert!(arrived == expected);
        assert_eq!(written, expected.len() as u64);
    }

    /// However fast the peer reads, one turn moves one turn's worth.
    #[test]
    fn a_turn_sends_so_much_and_no_more() {
        let mut config = Config::new(64 << 20);
        config.item_size_max = Some(16 << 20);
        let cache = Cache::new(config).expect("a small cache");
        let value: Vec<u8> = (0..8usize << 20).map(|n| (n >> 12) as u8).collect();
        cache.set(b"k", &value).expect("stored");
        let pool = Pool::new(64 << 20, 1 << 30, 2 << 20, 2, None);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("bound");
        let near = std::net::TcpStream::connect(listener.local_addr().expect("bound"));
        let near = near.expect("connected");
        near.set_nonblocking(true).expect("set");
        let (mut far, _) = listener.accept().expect("accepted");
        let reader = std::thread::spawn(move || {
            let mut arrived = Vec::new();
            far.read_to_end(&mut arrived).map(|_| arrived)
        });
        let mut stream = Stream::Tcp(mio::net::TcpStream::from_std(near));
        let mut out = Out::default();
        out.hold(cache.get(b"k").expect("there"));
        let (mut written, mut turns) = (0, 1);
        let mut backlog = out.send(&mut stream, &pool, &mut written).expect("sent");
        while let Some(rest) = &mut backlog {
            let before = written;
            if rest.send(&mut stream, &pool, &mut written).expect("sent") {
                backlog = None;
            }
            assert!(written - before <= SEND_TURN_BYTES as u64);
            turns += 1;
        }
        assert!(turns >= value.len() / SEND_TURN_BYTES);
        stream.finish();
        drop(stream);
        assert!(reader.join().expect("read").expect("all of it") == value);
    }
}
