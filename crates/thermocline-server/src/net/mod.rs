//! Sockets, event loops and the buffers between them.
//!
//! Owns: accepting, reading, writing, what is kept of a connection, and the limits on all of it.
//! Leaves to others: what the bytes mean (`wire`) and what they do (`command`).

mod accept;
mod connection;
mod desk;
mod limits;
mod listener;
mod output;
mod pool;
mod registry;
mod socket;
mod worker;

pub use accept::{Acceptor, AcceptorHandle};
pub use connection::Talk;
pub use limits::*;
pub use listener::{bind_tcp, bind_unix, named, Bound, BoundSocket, SocketFile};
pub use output::{Backlog, Out};
pub use pool::{pinned_bytes, reserved_bytes, Charge, Pool};
pub use registry::{Registry, Seen};
pub use socket::Stream;
pub use worker::{Mailbox, Worker};
