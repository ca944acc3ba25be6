//! What is kept of one connection. An idle one owns no buffer: about 200 bytes.

use super::{Backlog, Charge, Pool, Seen, Stream};
use crate::command::{Body, Listing, MoreKeys, Rewrite};
use std::sync::Arc;

/// One client.
pub struct Connection {
    pub stream: Stream,
    pub talk: Talk,
    /// Bytes read but not answered yet. Empty (and without allocation) while idle.
    pub rest: Vec<u8>,
    /// What `rest` lacks.
    pub wanted: Wanted,
    /// Replies the socket did not take.
    pub backlog: Option<Box<Backlog>>,
    /// What the pool knows of `rest` and `backlog`.
    pub charged: Charge,
    pub seen: Arc<Seen>,
    /// Its place in the registry.
    pub place: usize,
    /// The kernel may have more for us: edge-triggered events say so only once.
    pub unread: bool,
    /// Waiting in the worker's queue for another turn.
    pub queued: bool,
    /// Nothing more is read; closes when the backlog is gone.
    pub closing: bool,
    /// The peer sends no more.
    pub peer_done: bool,
    /// Second in which bytes last moved, in either direction.
    pub moved_s: u32,
}

impl Talk {
    /// A large value is on its way into the cache, in memory that is taken already.
    pub fn is_streaming(&self) -> bool {
        matches!(self.body.as_deref(), Some(Body::Stream(_)))
    }
}

/// What must arrive before the bytes kept can be worked on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Nothing: whatever is there can be worked on.
    Anything,
    /// A newline.
    Line,
    /// So many bytes in all: a line and its payload.
    Bytes(usize),
}

/// The protocol's side of a connection.
#[derive(Default)]
pub struct Talk {
    /// Logged in, or no login is asked for.
    pub trusted: bool,
    /// A payload on its way through.
    pub body: Option<Box<Body>>,
    /// A long list of keys, interrupted to send what was found.
    pub more: Option<MoreKeys>,
    /// A long value being made of another, a piece a turn.
    pub rewrite: Option<Box<Rewrite>>,
    /// A listing of keys, continued as its output drains.
    pub listing: Option<Box<Listing>>,
}

// Thousands of idle connections are usual: what each costs is kept in sight.
const _: () = assert!(std::mem::size_of::<Connection>() <= 256);

impl Connection {
    /// What is kept now. Behind blocked output everything waits for the peer to read.
    pub fn charge(&self, pool: &Pool) -> Charge {
        let (mut rest, mut streamed) = (self.rest.capacity() as u64, 0);
        let mut decoded = self.backlog.as_ref().map_or(0, |backlog| backlog.decoded());
        if let Some(body) = &self.talk.body {
            streamed += body.pinned();
        }
        if let Some(rewrite) = &self.talk.rewrite {
            rest += rewrite.own_bytes();
            streamed += rewrite.pinned(pool.segment_bytes());
            decoded += rewrite.decoded();
        }
        if !pool.leases() {
            rest += std::mem::take(&mut decoded);
        }
        match &self.backlog {
            Some(backlog) => Charge {
                input: 0,
                output: rest + backlog.bytes(),
                held: backlog.held(),
                decoded,
                streamed,
            },
            None => Charge {
                input: rest,
                decoded,
                streamed,
                ..Charge::default()
            },
        }
    }

    /// Output waits for the socket: the peer does not read.
    pub fn is_blocked(&self) -> bool {
        self.backlog.as_ref().is_some_and(|rest| rest.is_blocked())
    }

    /// Nothing of the client's is under way: it may be closed without loss.
    pub fn is_idle(&self) -> bool {
        self.rest.is_empty()
            && self.backlog.is_none()
            && self.talk.body.is_none()
            && self.talk.rewrite.is_none()
            && self.talk.listing.is_none()
    }

    /// There is something that can be worked on without reading more.
    pub fn has_work(&self) -> bool {
        self.talk.listing.is_some()
            || self.talk.rewrite.is_some()
            || match self.wanted {
                Wanted::Anything => !self.rest.is_empty(),
                Wanted::Line => false,
                Wanted::Bytes(bytes) => self.rest.len() >= bytes,
            }
    }

    /// Moves from `data` into `rest` just what `rest` lacks; returns the remainder of `data`.
    pub fn top_up<'a>(&mut self, data: &'a [u8]) -> &'a [u8] {
        let take = match self.wanted {
            Wanted::Anything => 0,
            Wanted::Line => memchr::memchr(b'\n', data).map_or(data.len(), |at| {
                self.wanted = Wanted::Anything;
                at + 1
            }),
            Wanted::Bytes(bytes) => bytes.saturating_sub(self.rest.len()).min(data.len()),
        };
        self.grow(take);
        self.rest.extend_from_slice(&data[..take]);
        &data[take..]
    }

    /// Makes room for `more` bytes: doubling, but never beyond the request that is waited for, for room is charged.
    fn grow(&mut self, more: usize) {
        let needed = self.rest.len() + more;
        if needed > self.rest.capacity() {
            let most = match self.wanted {
                Wanted::Bytes(bytes) => bytes.max(needed),
                _ => usize::MAX,
            };
            let target = (2 * self.rest.capacity()).clamp(needed, most);
            self.rest.reserve_exact(target - self.rest.len());
        }
    }

    /// The first bytes of `rest` have been answered. An emptied buffer is given back.
    pub fn consume(&mut self, bytes: usize) {
        if bytes >= self.rest.len() {
            self.rest = Vec::new();
        } else {
            self.rest.drain(..bytes);
        }
    }

    /// Keeps bytes that were read but cannot be answered yet.
    pub fn keep(&mut self, data: &[u8]) {
        self.rest.extend_from_slice(data);
    }
}
