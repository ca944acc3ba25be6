//! A file of a memory file system mapped whole, for measuring what its pages cost to read: a door for the lab,
//! which has no unsafe code of its own. The engine's own memory is `region`'s.
//!
//! What must hold: words are touched as atomics only, so that another process writing the file is a race between
//! values and never undefined. A file cut short while it is mapped ends the process by SIGBUS, as
//! it does for everyone who maps files: keep it to yourself.

use super::EXTENT_BYTES;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};

/// A shared mapping of the first bytes of a file, at an address that is a multiple of 2 MiB, so that huge pages
/// can back it.
pub struct MappedFile {
    base: NonNull<AtomicU64>,
    bytes: usize,
}

// SAFETY: an address range, accessed by atomics only.
unsafe impl Send for MappedFile {}
// SAFETY: as above.
unsafe impl Sync for MappedFile {}

impl MappedFile {
    /// Maps the first `bytes` of `file`, a multiple of 2 MiB that the file is long enough for. Costs three
    /// system calls; pages come when they are touched.
    pub fn map(file: &File, bytes: usize) -> io::Result<Self> {
        if bytes == 0 || bytes % EXTENT_BYTES != 0 || file.metadata()?.len() < bytes as u64 {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the length to map is a multiple of 2 MiB and no longer than the file",
            ));
        }
        let room = bytes + EXTENT_BYTES;
        let none = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        let start = mmap(0, room, libc::PROT_NONE, none, -1)?;
        let base = start.next_multiple_of(EXTENT_BYTES);
        unmap(start, base - start);
        unmap(base + bytes, start + EXTENT_BYTES - base);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let shared = libc::MAP_SHARED | libc::MAP_FIXED;
        // Over the reservation just made, of which nothing else has the address.
        if let Err(error) = mmap(base, bytes, access, shared, file.as_raw_fd()) {
            unmap(base, bytes);
            return Err(error);
        }
        let base = NonNull::new(base as *mut AtomicU64);
        let base = base.ok_or_else(|| io::Error::other("mapped at address 0"))?;
        Ok(MappedFile { base, bytes })
    }

    /// 8-byte words mapped.
    pub fn words(&self) -> usize {
        self.bytes / 8
    }

    /// The word of this index; panics beyond the end.
    #[inline(always)]
    pub fn word(&self, index: usize) -> u64 {
        self.at(index).load(Ordering::Relaxed)
    }

    #[inline(always)]
    pub fn set_word(&self, index: usize, value: u64) {
        self.at(index).store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    fn at(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.bytes / 8, "a word beyond the mapping");
        // SAFETY: in bounds, aligned, mapped for the life of self; only ever accessed as an atomic.
        unsafe { &*self.base.as_ptr().add(index) }
    }

    /// First address and the one behind the last, to find the mapping in the kernel's books.
    pub fn address_range(&self) -> (usize, usize) {
        let base = self.base.as_ptr() as usize;
        (base, base + self.bytes)
    }

    /// Asks for huge pages where the mount leaves it to advice; to be called before pages are touched.
    pub fn advise_huge(&self) -> io::Result<()> {
        self.advise(0, self.bytes, libc::MADV_HUGEPAGE)
    }

    /// Makes huge pages of what is there, 2 MiB at a time (0.5 ms each on a quiet machine, far more on a busy
    /// one); returns how many the kernel made, and the last reason where it did not.
    pub fn collapse(&self) -> (usize, Option<io::Error>) {
        let mut made = 0;
        let mut reason = None;
        for at in (0..self.bytes).step_by(EXTENT_BYTES) {
            match self.advise(at, EXTENT_BYTES, libc::MADV_COLLAPSE) {
                Ok(()) => made += 1,
                Err(error) => reason = Some(error),
            }
        }
        (made, reason)
    }

    fn advise(&self, offset: usize, bytes: usize, advice: i32) -> io::Result<()> {
        let address = self.base.as_ptr() as usize + offset;
        debug_assert!(offset + bytes <= self.bytes);
        // SAFETY: inside the mapping; both pieces of advice keep its contents.
        match unsafe { libc::madvise(address as *mut libc::c_void, bytes, advice) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

impl Drop for MappedFile {
    fn drop(&mut self) {
        unmap(self.base.as_ptr() as usize, self.bytes);
    }
}

fn mmap(address: usize, bytes: usize, access: i32, flags: i32, file: i32) -> io::Result<usize> {
    // SAFETY: without MAP_FIXED no existing memory is touched; with it, `map` passes its own reservation.
    let raw = unsafe { libc::mmap(address as *mut libc::c_void, bytes, access, flags, file, 0) };
    match raw == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(raw as usize),
    }
}

/// Nothing else refers to the range: it was mapped here and is no longer lent.
fn unmap(address: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: a part of a mapping made by `map`, given up by its owner.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_writes_another_reads_and_lengths_are_checked() {
        let path = std::env::temp_dir().join(format!("thermocline-mapped-{}", std::process::id()));
        let file = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .open(&path)
            .unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(
            MappedFile::map(&file, EXTENT_BYTES).is_err(),
            "an empty file"
        );
        file.set_len(2 * EXTENT_BYTES as u64).unwrap();
        assert!(MappedFile::map(&file, 4096).is_err(), "not a multiple");
        assert!(
            MappedFile::map(&file, 4 * EXTENT_BYTES).is_err(),
            "too long"
        );
        let one = MappedFile::map(&file, 2 * EXTENT_BYTES).unwrap();
        let two = MappedFile::map(&file, EXTENT_BYTES).unwrap();
        assert_eq!(one.address_range().0 % EXTENT_BYTES, 0);
        one.set_word(two.words() - 1, 7);
        assert_eq!((two.word(two.words() - 1), two.word(0)), (7, 0));
        let beyond = std::panic::catch_unwind(|| two.word(two.words()));
        assert!(beyond.is_err());
    }
}
