//! The turns of an event loop over connections: send what may be sent, wait, take what has come, and now and then look
//! for connections that are stuck. Shared by the load generator and the memcached subject, which say what is sent and
//! what becomes of an answer.

use anyhow::{Context, Result};
use mio::{Events, Poll};
use std::io::ErrorKind;
use std::time::Duration;

/// How often stuck connections are looked for, ns.
const PATROL_NS: u64 = 100_000_000;

/// No turn waits longer than this: stuck connections raise no event.
pub const WAIT_MAX: Duration = Duration::from_millis(100);

/// What the connections are used for.
pub trait Turns {
    fn now_ns(&self) -> u64;

    fn poll(&mut self) -> &mut Poll;

    /// Sends what may be sent. How long the next reply may be waited for; None: all is settled.
    fn issue(&mut self) -> Result<Option<Duration>>;

    /// Connection `index` has something to read, or room to write. `closed` is the poll's word that the server has ended
    /// its side.
    fn on_ready(&mut self, index: usize, closed: bool) -> Result<()>;

    /// The connections without a byte for too long.
    fn stuck(&mut self, now_ns: u64) -> Vec<usize>;

    /// Settles what was under way on a connection that has failed, and opens it anew.
    fn dropped(&mut self, index: usize, why: &str) -> Result<()>;
}

/// Takes turns until all is settled.
pub fn take(all: &mut impl Turns) -> Result<()> {
    let mut events = Events::with_capacity(1024);
    let mut patrol_ns = all.now_ns() + PATROL_NS;
    while let Some(wait) = all.issue()? {
        match all.poll().poll(&mut events, Some(wait.min(WAIT_MAX))) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            other => other.context("the event poll failed")?,
        }
        for event in &events {
            let closed = event.is_read_closed() || event.is_error();
            all.on_ready(event.token().0, closed)?;
        }
        let now_ns = all.now_ns();
        if now_ns >= patrol_ns {
            patrol_ns = now_ns + PATROL_NS;
            for index in all.stuck(now_ns) {
                all.dropped(index, "no reply within the timeout")?;
            }
        }
    }
    Ok(())
}
