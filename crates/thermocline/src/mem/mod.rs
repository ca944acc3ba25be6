//! All raw memory of the engine, and all its unsafe code.
//!
//! `page_mode`: which pages are asked for and what the machine can give. `backing`: mapping them. `region`:
//! reserved address space, word and byte access. `racing`: copying bytes another thread may be writing.
//! `budget`: what may be taken. `extent`: 2 MiB pieces of a region. `smaps`: what the kernel really gave.
//! `kept`: memory that outlives its process. `pin`: epochs that keep retired memory from being reused under a
//! reader. `tags`: words and buckets of the index, and the 8-slot tag compare. `mapped_file`: a file's pages for
//! the lab to read.
#![allow(unsafe_code)]

mod backing;
mod budget;
mod extent;
pub(crate) mod kept;
#[cfg(all(target_os = "linux", not(shuttle)))]
mod mapped_file;
mod os;
mod page_mode;
mod pin;
mod racing;
mod region;
mod room;
mod smaps;
mod tags;

pub use backing::Numa;
#[cfg(all(test, not(shuttle)))]
pub(crate) use backing::Pages;
pub(crate) use backing::{Backing, MemoryFile};
pub(crate) use budget::Budget;
pub(crate) use extent::{Collapsed, ExtentId, Extents, EXTENT_BYTES};
#[cfg(all(target_os = "linux", not(shuttle)))]
pub use mapped_file::MappedFile;
pub(crate) use os::{
    current_core, idle_ns, monotonic_ms, process_cpu_ns, thread_cpu_ns, trim_heap,
};
pub(crate) use page_mode::{choose, gigantic_pages, Machine};
pub use page_mode::{PageMode, PAGE_MODES};
pub(crate) use pin::{Domain, Pin, THREADS_MAX};
pub(crate) use region::{Grain, Region};
pub(crate) use room::Room;
pub(crate) use smaps::read as read_smaps;
pub use smaps::PageBytes;
pub(crate) use tags::{Lines, Words};
