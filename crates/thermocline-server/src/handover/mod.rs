//! Live handover: the next server takes the listening sockets of the running one, so that no connection is refused.
//!
//! ```text
//! running:  Serving --next asks--> Offered --ready | stop--> Draining -> gone (the connection ends with the process)
//!              ^                      |
//!              +----- next is gone ---+
//! next:     Asking -> Taken -> Starting --ready--> Serving                      memory of its own
//!                       \---stop--> Waiting (until the running one is gone) -> Starting -> Serving    a memory file
//! ```
//! Until the next one has said `ready` or `stop` nothing has changed for the running one: if the next one fails before,
//! it goes on. With a memory file the running one has to leave it first: meanwhile connections wait in the kernel's
//! queue, for the sockets stay open.
//!
//! Must hold: who asks is the same user or root. A socket's name in the file system goes with its last owner.

mod door;
mod taken;
mod wire;

pub use door::{duplicates, Door};
pub use taken::Taken;
