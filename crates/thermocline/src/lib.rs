#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

#[cfg(feature = "async")]
mod async_load;
mod cache;
mod clock;
pub mod codec;
mod collapse;
mod compress;
mod config;
mod curve;
mod entry;
mod error;
mod expiry;
mod flight;
#[cfg(feature = "fuzzing")]
#[doc(hidden)]
pub mod fuzzing;
mod generation;
mod ghost;
mod groups;
mod hash;
mod holes;
mod image;
mod index;
mod item;
mod loader;
mod location;
mod mem;
mod metrics;
#[cfg(all(test, shuttle))]
mod models;
mod models_switch;
mod policy;
mod reclaim;
mod save;
mod segment;
#[cfg(feature = "simulate")]
#[doc(hidden)]
pub mod simulate;
mod sketch;
mod store;
mod sync;
mod typed;
mod writer;

pub use cache::{
    Cache, Change, DictionaryUse, Expiry, Generation, GroupStats, Guard, Kept, Keys, KindUse,
    Lease, Marks, Meta, Mode, NewValue, Pages, ReadSink, Removal, Scan, SetOptions, Start, Stats,
    Stored, Tiers, Trimmed, Updated, View, Want, Writer,
};
pub use clock::Clock;
pub use collapse::{CollapseStats, STALL_BOUNDS_US};
pub use compress::{CompressCodec, CompressMode, CompressOptions};
#[doc(hidden)]
pub use config::Shape;
pub use config::{
    Cause, Config, Departure, ExtentUse, Group, Listener, Numa, PageBytes, PageMode,
    PressureListener, EXTENT_USES, KEY_MAX, MEMORY_MIN, PAGE_MODES,
};
pub use curve::{CurvePoint, Estimate, MissRatioCurve};
pub use entry::Entry;
pub use error::Error;
pub use loader::{LoadError, LoadOptions, Loaded, Origin};
#[cfg(all(target_os = "linux", not(shuttle)))]
#[doc(hidden)]
pub use mem::MappedFile;
pub use policy::{Objective, ReclaimPolicy};
pub use reclaim::limit_waits;
pub use save::{LoadReport, SaveReport, Which};
pub use sketch::HotKey;
#[cfg(feature = "serde")]
pub use typed::Postcard;
pub use typed::{Codec, Plain, Typed, TypedError, TypedLoadError};
