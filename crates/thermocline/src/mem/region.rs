//! A stretch of reserved address space, and the ways to touch it.
//!
//! Addresses are offsets. Words are atomics; bytes are copied or compared by `racing`; a plain slice
//! is lent only for bytes that stand still (`settled`). Every access is bounds-checked: nothing that
//! an offset says can reach outside the mapping.
//!
//! Under `--cfg shuttle` a region is an array of the checker's atomics, so that the models run the
//! production code of the modules above.

/// What a region is for: word size of its model, alignment of its records.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Grain {
    /// 4-byte words and byte ranges.
    Items,
    /// 8-byte words.
    Index,
}

/// What every bounds check comes to; out of line and without arguments, so that a check is a compare and
/// a jump (each message of its own cost five instructions on the way in).
#[cfg(not(shuttle))]
#[cold]
#[inline(never)]
pub(super) fn outside() -> ! {
    panic!("offset outside the region");
}

#[cfg(not(shuttle))]
pub(crate) use mapped::Region;
#[cfg(shuttle)]
pub(crate) use modelled::Region;

#[cfg(not(shuttle))]
mod mapped {
    use super::super::backing::{advise, unmap, Backing};
    use super::super::racing;
    use super::Grain;
    use std::io;
    use std::ptr::NonNull;
    use std::sync::atomic::{AtomicU32, AtomicU64};

    /// Reserved address space. Pages come when touched and go when released.
    pub(crate) struct Region {
        base: NonNull<u8>,
        bytes: usize,
        backing: Backing,
    }

    // SAFETY: a Region is only an address range; all access through it is atomic, racing-safe, or to
    // bytes that stand still.
    unsafe impl Send for Region {}
    // SAFETY: as above.
    unsafe impl Sync for Region {}

    impl Region {
        /// Reserves `bytes` (a multiple of 2 MiB) of anonymous memory, aligned to 2 MiB. `huge` asks for
        /// transparent huge pages, otherwise they are refused, so that base pages are base pages.
        #[cfg(any(test, feature = "fuzzing"))]
        pub(crate) fn reserve(bytes: usize, grain: Grain, huge: bool) -> io::Result<Region> {
            Region::map(bytes, grain, &Backing::anonymous(huge))
        }

        /// Reserves `bytes` (a multiple of the backing's page) of whatever the backing is. Costs five
        /// system calls at most.
        pub(crate) fn map(bytes: usize, _grain: Grain, backing: &Backing) -> io::Result<Region> {
            assert!(bytes > 0 && bytes % backing.page_bytes() == 0);
            let base = backing.map(bytes)?;
            Ok(Region {
                base: NonNull::new(base as *mut u8).expect("mmap never returns 0"),
                bytes,
                backing: backing.clone(),
            })
        }

        pub(crate) fn backing(&self) -> &Backing {
            &self.backing
        }

        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }

        /// First and last-plus-one address, to find the region in the kernel's own books.
        pub(crate) fn address_range(&self) -> (usize, usize) {
            let base = self.base.as_ptr() as usize;
            (base, base + self.bytes)
        }

        #[inline(always)]
        fn at(&self, offset: usize, len: usize) -> *mut u8 {
            if offset > self.bytes || len > self.bytes - offset {
                super::outside();
            }
            // SAFETY: just checked to lie inside the mapping.
            unsafe { self.base.as_ptr().add(offset) }
        }

        /// The 4-byte word at `offset` (a multiple of 4).
        #[inline(always)]
        pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
            assert!(offset % 4 == 0);
            // SAFETY: in bounds, aligned, mapped for the life of self; only ever accessed as atomics
            // or racing bytes.
            unsafe { &*self.at(offset, 4).cast::<AtomicU32>() }
        }

        /// The 8-byte word at `offset` (a multiple of 8).
        #[inline(always)]
        pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
            assert!(offset % 8 == 0);
            // SAFETY: as `u32`.
            unsafe { &*self.at(offset, 8).cast::<AtomicU64>() }
        }

        /// Appends `len` bytes to `out`; they may be torn if a writer races.
        #[inline(always)]
        pub(crate) fn append_out(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
            let from = self.at(offset, len);
            out.reserve(len);
            // SAFETY: `reserve` made room for `len` bytes past the end, which are then initialised
            // before the length says so.
            unsafe {
                racing::copy(from, out.as_mut_ptr().add(out.len()), len);
                out.set_len(out.len() + len);
            }
        }

        /// Writes bytes that readers may be copying at the same time.
        #[inline(always)]
        pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
            // SAFETY: target in bounds; source is a live shared slice outside any region.
            unsafe { racing::copy(bytes.as_ptr(), self.at(offset, bytes.len()), bytes.len()) }
        }

        /// Copies within the region; the ranges must not overlap.
        pub(crate) fn copy_within(&self, from: usize, to: usize, len: usize) {
            assert!(from + len <= to || to + len <= from, "ranges overlap");
            // SAFETY: both in bounds and disjoint.
            unsafe { racing::copy(self.at(from, len), self.at(to, len), len) }
        }

        #[inline(always)]
        pub(crate) fn equals(&self, offset: usize, other: &[u8]) -> bool {
            // SAFETY: in bounds.
            unsafe { racing::equals(self.at(offset, other.len()), other) }
        }

        /// A plain view of bytes that nobody writes while the view lives: the key and value of a
        /// published immutable item whose segment is held by a pin or a count for `'a`.
        #[inline(always)]
        pub(crate) fn settled(&self, offset: usize, len: usize) -> &[u8] {
            // SAFETY: in bounds. Immutable items (above `PLAIN_MAX`) are written once, before their
            // place is published with Release; the caller found the place with Acquire and holds the
            // segment, so no writer exists while the slice lives.
            unsafe { std::slice::from_raw_parts(self.at(offset, len), len) }
        }

        /// Asks for the cache line at `offset`.
        #[inline(always)]
        pub(crate) fn prefetch(&self, offset: usize) {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: a prefetch never faults, wherever it points; nothing is read.
            unsafe {
                use std::arch::x86_64::{_mm_prefetch, _MM_HINT_T0};
                _mm_prefetch::<_MM_HINT_T0>(self.base.as_ptr().wrapping_add(offset).cast());
            }
            #[cfg(not(target_arch = "x86_64"))]
            let _ = offset;
        }

        /// Makes the pages of a range present, by writing a zero to each. Only for bytes nobody uses.
        pub(crate) fn touch(&self, offset: usize, len: usize) {
            for page in (offset..offset + len).step_by(4096) {
                self.u32(page)
                    .store(0, std::sync::atomic::Ordering::Relaxed);
            }
        }

        /// Has the kernel bring the pages of a range, contents unchanged. False: there are none to be had
        /// (an empty pool, a full file system), which a touch would have died of. 190 us for 2 MiB.
        pub(crate) fn supply(&self, offset: usize, len: usize) -> bool {
            let at = self.at(offset, len) as usize;
            loop {
                match advise(at, len, libc::MADV_POPULATE_WRITE) {
                    Ok(()) => return true,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    // A kernel from before 5.14: memory that need not be asked for can be touched.
                    Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                        return !self.backing.must_ask()
                    }
                    Err(_) => return false,
                }
            }
        }

        /// Puts ordinary memory in the place of pages that the pool has not got. Only for bytes nobody
        /// uses.
        pub(crate) fn make_ordinary(&self, offset: usize, len: usize) -> bool {
            let at = self.at(offset, len) as usize;
            self.backing.map_ordinary(at, len).is_ok()
        }

        /// Asks for one huge page in the place of the base pages of an extent, contents unchanged. Every
        /// thread that touches the extent meanwhile waits: 0.5 ms on a quiet machine, up to 0.4 s on a
        /// busy one. Err: EAGAIN or ENOMEM (not now), EINVAL (not here).
        pub(crate) fn collapse(&self, offset: usize, len: usize) -> io::Result<()> {
            advise(self.at(offset, len) as usize, len, libc::MADV_COLLAPSE)
        }

        /// Gives the pages of a range back; they read as zeros when touched again.
        pub(crate) fn release(&self, offset: usize, len: usize) {
            let at = self.at(offset, len) as usize;
            let base = self.base.as_ptr() as usize;
            let released = self.backing.release(base, at, len);
            assert!(released.is_ok(), "giving back our own memory: {released:?}");
        }
    }

    impl Drop for Region {
        fn drop(&mut self) {
            unmap(self.base.as_ptr() as usize, self.bytes);
        }
    }
}

#[cfg(shuttle)]
mod modelled {
    use super::super::backing::Backing;
    use super::Grain;
    use shuttle::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
    use std::io;

    /// A small region made of the checker's atomics.
    pub(crate) struct Region {
        words32: Vec<AtomicU32>,
        words64: Vec<AtomicU64>,
        bytes: usize,
        backing: Backing,
    }

    impl Region {
        #[cfg(any(test, feature = "fuzzing"))]
        pub(crate) fn reserve(bytes: usize, grain: Grain, huge: bool) -> io::Result<Region> {
            Region::map(bytes, grain, &Backing::anonymous(huge))
        }
        pub(crate) fn map(bytes: usize, grain: Grain, backing: &Backing) -> io::Result<Region> {
            let (n32, n64) = match grain {
                // Words of 8 bytes are tables of chunks: nothing else ever touches those bytes.
                Grain::Items => (bytes / 4, bytes / 8),
                Grain::Index => (0, bytes / 8),
            };
            Ok(Region {
                words32: (0..n32).map(|_| AtomicU32::new(0)).collect(),
                words64: (0..n64).map(|_| AtomicU64::new(0)).collect(),
                bytes,
                backing: backing.clone(),
            })
        }
        pub(crate) fn bytes(&self) -> usize {
            self.bytes
        }
        pub(crate) fn address_range(&self) -> (usize, usize) {
            (0, self.bytes)
        }
        pub(crate) fn u32(&self, offset: usize) -> &AtomicU32 {
            assert!(offset % 4 == 0);
            &self.words32[offset / 4]
        }
        pub(crate) fn u64(&self, offset: usize) -> &AtomicU64 {
            assert!(offset % 8 == 0);
            &self.words64[offset / 8]
        }
        fn byte(&self, offset: usize) -> u8 {
            (self.words32[offset / 4].load(Relaxed) >> (offset % 4 * 8)) as u8
        }
        /// Word by word: each word is one visible step for the scheduler.
        pub(crate) fn copy_out(&self, offset: usize, out: &mut [u8]) {
            let mut i = 0;
            while i < out.len() {
                let at = offset + i;
                let word = self.words32[at / 4].load(Relaxed);
                let first = at % 4;
                for b in first..4 {
                    if i < out.len() {
                        out[i] = (word >> (b * 8)) as u8;
                        i += 1;
                    }
                }
            }
        }
        pub(crate) fn append_out(&self, offset: usize, len: usize, out: &mut Vec<u8>) {
            let start = out.len();
            out.resize(start + len, 0);
            self.copy_out(offset, &mut out[start..]);
        }
        pub(crate) fn copy_in(&self, offset: usize, bytes: &[u8]) {
            let mut i = 0;
            while i < bytes.len() {
                let at = offset + i;
                let first = at % 4;
                let mut word = self.words32[at / 4].load(Relaxed);
                for b in first..4 {
                    if i < bytes.len() {
                        word = word & !(0xFF << (b * 8)) | (bytes[i] as u32) << (b * 8);
                        i += 1;
                    }
                }
                self.words32[at / 4].store(word, Relaxed);
            }
        }
        pub(crate) fn copy_within(&self, from: usize, to: usize, len: usize) {
            let mut bytes = vec![0; len];
            self.copy_out(from, &mut bytes);
            self.copy_in(to, &bytes);
        }
        pub(crate) fn equals(&self, offset: usize, other: &[u8]) -> bool {
            (0..other.len()).all(|i| self.byte(offset + i) == other[i])
        }
        /// A copy that is never freed: models are small and end soon.
        pub(crate) fn settled(&self, offset: usize, len: usize) -> &[u8] {
            let mut bytes = vec![0; len];
            self.copy_out(offset, &mut bytes);
            Box::leak(bytes.into_boxed_slice())
        }
        pub(crate) fn prefetch(&self, _offset: usize) {}
        pub(crate) fn backing(&self) -> &Backing {
            &self.backing
        }
        pub(crate) fn touch(&self, _offset: usize, _len: usize) {}
        pub(crate) fn supply(&self, _offset: usize, _len: usize) -> bool {
            true
        }
        pub(crate) fn make_ordinary(&self, _offset: usize, _len: usize) -> bool {
            true
        }
        pub(crate) fn collapse(&self, _offset: usize, _len: usize) -> io::Result<()> {
            Ok(())
        }
        pub(crate) fn release(&self, offset: usize, len: usize) {
            for word in (offset..offset + len).step_by(4) {
                if let Some(word) = self.words32.get(word / 4) {
                    word.store(0, Relaxed);
                }
            }
            for word in (offset..offset + len).step_by(8) {
                self.words64[word / 8].store(0, Relaxed);
            }
        }
    }
}
