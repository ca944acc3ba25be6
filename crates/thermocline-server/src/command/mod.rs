//! What requests do: from parsed lines and payloads to calls of the cache and replies.
//!
//! Owns: the order of replies, batches of reads, payloads on their way in, every answer of the protocol.
//! Leaves to others: bytes on sockets (`net`), grammar (`wire`), storage (`thermocline`).
//! Must hold: a pipeline sees its own writes, because a batch of reads is answered before anything else is done.

mod admin;
mod arith;
mod auth;
mod batch;
mod body;
mod conversation;
mod delete;
mod expiry;
mod gat;
mod listing;
mod meta_get;
mod meta_reply;
mod meta_set;
mod one;
mod rewrite;
mod store;

pub use auth::Logins;
pub use body::Body;
pub use conversation::{Conversation, MoreKeys, Next};
pub use listing::Listing;
pub use rewrite::Rewrite;
