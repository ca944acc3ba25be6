//! Compression of items: which are worth it, with which dictionary, and what it costs.
//!
//! Owns dictionaries, their training, admission and measured costs. Leaves to `codec` the bytes, to
//! `reclaim` when an item is demoted and where it goes, to `cache` what a reader does with a coded value.
//!
//! ```text
//! demote:  Press::code -> admission -> (sample) -> current dictionary of the kind -> coded, or refused
//! read:    Compress::decode -> dictionary by number -> value, or None: read again
//! train:   samples full -> background: train, judge on values it has not seen -> install -> next kind
//! ```

mod classes;
mod control;
mod dictionaries;
mod duel;
mod gauge;
mod miss_clock;
mod options;
mod press;
mod returns;
mod samples;
#[cfg(any(test, feature = "simulate"))]
#[cfg_attr(not(feature = "simulate"), allow(dead_code))]
pub mod score;
mod search;
mod shadow;
mod shared;
mod trained;

pub(crate) use control::Facts;
pub(crate) use gauge::Seen;
pub use options::{CompressCodec, CompressMode, CompressOptions};
pub(crate) use press::Press;
pub(crate) use shadow::Way;
pub(crate) use shared::Compress;
pub(crate) use trained::Trained;
