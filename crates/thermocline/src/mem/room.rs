//! How much the file system of a memory file can hold.
//!
//! Leaves to others: the file itself (`backing`), and what lack of room means (`cache/pages`).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Bytes of a file system that bounds what it holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Room {
    /// All of it.
    pub(crate) whole: u64,
    /// Free, or the memory file's own already.
    pub(crate) ours: u64,
}

/// Unit of `st_blocks`.
const BLOCK_BYTES: u64 = 512;

impl Room {
    /// For the memory file `path` (which need not be there) in `directory`. None: a file system of memory without a
    /// limit of its own, or none of memory.
    pub(crate) fn of(directory: &Path, path: &Path) -> io::Result<Option<Room>> {
        let directory = File::open(directory)?;
        // SAFETY: all zeros is a statfs; the call fills it in.
        let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and `facts` is alive.
        if unsafe { libc::fstatfs(directory.as_raw_fd(), &mut facts) } != 0 {
            return Err(io::Error::last_os_error());
        }
        let of_memory = [libc::TMPFS_MAGIC, libc::HUGETLBFS_MAGIC].contains(&facts.f_type);
        if !of_memory || facts.f_blocks == 0 {
            return Ok(None);
        }
        let bytes = |blocks: u64| blocks.saturating_mul(facts.f_bsize as u64);
        let own = path
            .metadata()
            .map_or(0, |file| file.blocks() * BLOCK_BYTES);
        Ok(Some(Room {
            whole: bytes(facts.f_blocks),
            ours: bytes(facts.f_bavail).saturating_add(own),
        }))
    }
}
