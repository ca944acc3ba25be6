//! Thermocline: an off-heap cache engine.
#![deny(unsafe_code)]
#![allow(dead_code)]

mod location;
mod mem;
mod sync;
