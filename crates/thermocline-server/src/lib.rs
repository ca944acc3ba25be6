//! The Thermocline server as a library: a memory limit that is kept, behind the memcached protocol.
//!
//! ```text
//! cli -> config -> server: bind, reserve, start -> net: accept, event loops -> wire -> command -> thermocline
//!                                               -> admin: metrics, health, statistics over HTTP
//! ```
//! `Server::start(settings)` runs one inside any program; `examples/in_process.rs` shows it.
#![forbid(unsafe_code)]

pub mod admin;
mod admin_client;
pub mod cli;
mod clock;
mod command;
pub mod config;
mod descriptors;
mod groups;
mod handover;
pub mod logging;
mod lru_gen;
mod malloc;
mod net;
mod pages;
mod pressure;
mod process;
mod reserve;
pub mod server;
mod shared;
pub mod stats;
mod tiers;
mod top;
mod warm;
pub mod wire;
mod wss;

pub use config::{Listen, Settings};
pub use server::{Prepared, Server, StartError};
pub use shared::{Shared, Stop};
