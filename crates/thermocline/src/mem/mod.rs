//! All raw memory of the engine, and all its unsafe code.
//!
//! `region`: reserved address space, word and byte access. `racing`: copying bytes another thread may
//! be writing. `budget`: what may be taken. `extent`: 2 MiB pieces of a region. `pin`: epochs that
//! keep retired memory from being reused under a reader. `tags`: words and buckets of the index, and
//! the 8-slot tag compare. `mapped_file`: a file's pages for the lab to read.
#![allow(unsafe_code)]

mod budget;
mod extent;
#[cfg(all(target_os = "linux", not(shuttle)))]
mod mapped_file;
mod os;
mod pin;
mod racing;
mod region;
mod tags;

pub(crate) use budget::Budget;
pub(crate) use extent::{ExtentId, Extents, EXTENT_BYTES};
#[cfg(all(target_os = "linux", not(shuttle)))]
pub use mapped_file::MappedFile;
pub(crate) use os::{current_core, monotonic_ms};
pub(crate) use pin::{Domain, Pin, THREADS_MAX};
pub(crate) use region::{Grain, Region};
pub(crate) use tags::Words;
