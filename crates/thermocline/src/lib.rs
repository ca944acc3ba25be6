//! Thermocline: an off-heap cache engine.
#![deny(unsafe_code)]

mod cache;
mod clock;
mod config;
mod error;
mod expiry;
mod generation;
mod ghost;
mod hash;
mod index;
mod item;
mod loader;
mod location;
mod mem;
mod metrics;
mod policy;
mod reclaim;
mod segment;
mod sketch;
mod store;
mod sync;
mod writer;

pub use cache::{
    Cache, Change, Expiry, Guard, Keys, Marks, Meta, Mode, NewValue, ReadSink, Removal, Scan,
    SetOptions, Stats, Stored, Updated, View, Want, Writer,
};
pub use clock::Clock;
pub use config::{Cause, Config, Departure, Listener, PageMode, KEY_MAX, MEMORY_MIN};
pub use error::Error;
pub use sketch::HotKey;
