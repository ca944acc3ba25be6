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

mod chunk;
mod classes;
mod control;
mod dictionaries;
mod duel;
mod gauge;
mod miss_clock;
mod options;
mod press;
mod price;
mod returns;
mod samples;
#[cfg(any(test, feature = "simulate"))]
#[cfg_attr(not(feature = "simulate"), allow(dead_code))]
pub mod score;
mod search;
mod shadow;
mod shared;
mod spent;
mod trained;

pub(crate) use control::{Came, Facts};
pub(crate) use gauge::Seen;
pub(crate) use miss_clock::Reads;
pub use options::{CompressCodec, CompressMode, CompressOptions};
pub(crate) use press::Press;
pub(crate) use price::Prices;
pub(crate) use shadow::Way;
pub(crate) use shared::Compress;
pub(crate) use spent::Totals;
pub(crate) use trained::Trained;
