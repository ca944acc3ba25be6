//! The two ends of a connection's bytes: what waits to be sent, what came and is not yet understood. Shared by the load
//! generator and the memcached subject; knows no request and no reply.
//!
//! The poll is edge-triggered: [`Stream::receive`] reads until nothing is left, or an end that came with the last bytes
//! would never be told.

use super::target::{Socket, Target};
use mio::{Interest, Poll, Token};
use std::io::{self, Read, Write};

pub struct Stream {
    target: Target,
    token: Token,
    socket: Option<Socket>,
    /// Requests are appended here; [`Stream::flush`] sends them.
    pub out: Vec<u8>,
    out_at: usize,
    input: Box<[u8]>,
    from: usize,
    to: usize,
}

impl Stream {
    /// Not open yet. A read takes up to `input_bytes` at once.
    pub fn new(target: Target, token: Token, input_bytes: usize) -> Self {
        Stream {
            target,
            token,
            socket: None,
            out: Vec::new(),
            out_at: 0,
            input: vec![0; input_bytes].into_boxed_slice(),
            from: 0,
            to: 0,
        }
    }

    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn is_open(&self) -> bool {
        self.socket.is_some()
    }

    /// Connects and has the poll tell of it.
    pub fn open(&mut self, poll: &Poll) -> io::Result<()> {
        let mut socket = self.target.connect()?;
        let interest = Interest::READABLE | Interest::WRITABLE;
        poll.registry()
            .register(socket.source(), self.token, interest)?;
        self.socket = Some(socket);
        Ok(())
    }

    /// Closes and forgets every byte of either direction.
    pub fn close(&mut self, poll: &Poll) {
        if let Some(mut socket) = self.socket.take() {
            // Closing takes it off the poll all the same.
            let _ = poll.registry().deregister(socket.source());
        }
        self.out.clear();
        (self.out_at, self.from, self.to) = (0, 0, 0);
    }

    /// Writes what is queued, as far as the socket takes it: bytes written. An error says why the connection is over.
    pub fn flush(&mut self) -> Result<u64, String> {
        let Some(socket) = &mut self.socket else {
            return Ok(0);
        };
        let mut sent = 0;
        while self.out_at < self.out.len() {
            match socket.write(&self.out[self.out_at..]) {
                Ok(0) => return Err("it takes no more bytes".into()),
                Ok(bytes) => {
                    self.out_at += bytes;
                    sent += bytes as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.kind().to_string()),
            }
        }
        self.out.clear();
        self.out_at = 0;
        Ok(sent)
    }

    /// Reads what has come. After each read `understand` is given all bytes not yet understood and how many of them are new, and
    /// answers how many it has taken; its error ends the connection. `closed` is the poll's word that the other side has ended.
    pub fn receive(
        &mut self,
        closed: bool,
        mut understand: impl FnMut(&[u8], usize) -> Result<usize, String>,
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
            self.from += understand(&self.input[self.from..self.to], bytes)?;
            self.compact();
            // A short read has emptied the socket; more raises another edge. An end that came with these bytes does
            // not: read on until it shows.
            if bytes < room && !closed {
                return Ok(());
            }
        }
    }

    fn compact(&mut self) {
        if self.from == self.to {
            (self.from, self.to) = (0, 0);
        } else if self.to == self.input.len() {
            self.input.copy_within(self.from..self.to, 0);
            (self.from, self.to) = (0, self.to - self.from);
        }
    }
}
