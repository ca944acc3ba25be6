//! Words and buckets of the index, for the lookup's inner loop, and the tag compare: which of a
//! bucket's 8 slots carry a tag.
//!
//! A slot's tag is its upper 16 bits. Four 16-byte loads, two shuffles, a shift, two packs, one compare:
//! at 4 M items a miss takes 50 ns where the compiled loop takes 92. The loads are inline assembly
//! because other threads store to these words: 8-byte lanes of an aligned SSE move are relaxed atomic
//! loads. Callers load the slot they pick again with Acquire.
//!
//! `Words` is a copy of a region's bounds: kept in registers, they need not be read again after each
//! asm block, which may have written anything as far as the compiler knows. `Lines` are many buckets in a
//! row, checked once, for those who arrange or move whole blocks of them.

#[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
pub(crate) use portable::{Lines, Words};
#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
pub(crate) use sse2::{Lines, Words};

use super::Region;

/// Bytes of a bucket: a cache line.
const BUCKET_BYTES: usize = 64;

impl Region {
    /// Slots of a bucket. The models' buckets are small, to keep the schedules short.
    pub(crate) const BUCKET_SLOTS: usize = if cfg!(shuttle) { 2 } else { 8 };

    #[inline(always)]
    pub(crate) fn words(&self) -> Words<'_> {
        Words::of(self)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
mod sse2 {
    use super::super::region::outside;
    use super::{Region, BUCKET_BYTES};
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::marker::PhantomData;
    use std::ptr::with_exposed_provenance;
    use std::sync::atomic::AtomicU64;

    /// The 8-byte words of a region.
    #[derive(Clone, Copy)]
    pub(crate) struct Words<'a> {
        base: usize,
        bytes: usize,
        region: PhantomData<&'a Region>,
    }

    impl<'a> Words<'a> {
        #[inline(always)]
        pub(super) fn of(region: &'a Region) -> Words<'a> {
            let (base, end) = region.address_range();
            Words {
                base,
                bytes: end - base,
                region: PhantomData,
            }
        }

        /// The word at `offset`, a multiple of 8.
        #[inline(always)]
        pub(crate) fn u64(self, offset: usize) -> &'a AtomicU64 {
            // Regions are whole multiples of 2 MiB: an aligned word that starts inside ends inside.
            if offset % 8 != 0 || offset >= self.bytes {
                outside();
            }
            // SAFETY: in bounds and aligned, mapped for the life of the region; index regions are
            // only ever accessed as atomic words.
            unsafe { &*with_exposed_provenance(self.base + offset) }
        }

        /// The bucket at `offset`, a multiple of 64.
        #[inline(always)]
        pub(crate) fn bucket(self, offset: usize) -> Bucket<'a> {
            if offset % BUCKET_BYTES != 0 || offset >= self.bytes {
                outside();
            }
            Bucket {
                address: self.base + offset,
                region: PhantomData,
            }
        }

        /// So many buckets in a row, the first at `offset`, a multiple of 64.
        #[inline(always)]
        pub(crate) fn lines(self, offset: usize, buckets: usize) -> Lines<'a> {
            let room = self.bytes.saturating_sub(offset) / BUCKET_BYTES;
            if offset % BUCKET_BYTES != 0 || buckets > room {
                outside();
            }
            Lines {
                address: self.base + offset,
                slots: buckets * Region::BUCKET_SLOTS,
                region: PhantomData,
            }
        }
    }

    /// Buckets in a row. Made by `Words::lines` only: wholly inside the region and aligned to 64.
    #[derive(Clone, Copy)]
    pub(crate) struct Lines<'a> {
        address: usize,
        slots: usize,
        region: PhantomData<&'a Region>,
    }

    impl<'a> Lines<'a> {
        #[inline(always)]
        pub(crate) fn slots(self) -> usize {
            self.slots
        }

        #[inline(always)]
        pub(crate) fn slot(self, index: usize) -> &'a AtomicU64 {
            if index >= self.slots {
                outside();
            }
            // SAFETY: one of the words just checked; index regions are only ever accessed as atomic words.
            unsafe { &*with_exposed_provenance(self.address + index * 8) }
        }

        /// Divides them into `N` parts; `N` divides the number of buckets.
        #[inline(always)]
        pub(crate) fn parts<const N: usize>(self) -> [Lines<'a>; N] {
            if self.slots % (N * Region::BUCKET_SLOTS) != 0 {
                outside();
            }
            let slots = self.slots / N;
            std::array::from_fn(|part| Lines {
                address: self.address + part * slots * 8,
                slots,
                region: PhantomData,
            })
        }

        /// Empties all slots, each as by a relaxed store.
        #[inline(always)]
        pub(crate) fn clear(self) {
            for at in (0..self.slots * 8).step_by(BUCKET_BYTES) {
                // SAFETY: a line in bounds, aligned to 64. The 8-byte lanes of an aligned SSE move are relaxed
                // atomic stores.
                unsafe {
                    asm!("movaps [{p}], {z}", "movaps [{p} + 16], {z}", "movaps [{p} + 32], {z}", "movaps [{p} + 48], {z}",
                         p = in(reg) self.address + at, z = in(xmm_reg) _mm_setzero_ps(), options(nostack, preserves_flags));
                }
            }
        }

        /// Copies all slots to as many others, each as by a relaxed load and a relaxed store.
        #[inline(always)]
        pub(crate) fn copy_to(self, to: Lines<'a>) {
            if self.slots != to.slots {
                outside();
            }
            for at in (0..self.slots * 8).step_by(BUCKET_BYTES) {
                // SAFETY: a line of each, in bounds and aligned to 64, wholly read before it is written. The
                // 8-byte lanes of an aligned SSE move are relaxed atomic accesses.
                unsafe {
                    asm!("movaps {a}, [{p}]", "movaps {b}, [{p} + 16]", "movaps {c}, [{p} + 32]", "movaps {d}, [{p} + 48]",
                         "movaps [{q}], {a}", "movaps [{q} + 16], {b}", "movaps [{q} + 32], {c}", "movaps [{q} + 48], {d}",
                         p = in(reg) self.address + at, q = in(reg) to.address + at, a = out(xmm_reg) _, b = out(xmm_reg) _,
                         c = out(xmm_reg) _, d = out(xmm_reg) _, options(nostack, preserves_flags));
                }
            }
        }
    }

    /// A line of 8 slots. Made by `Words::bucket` only: wholly inside the region and aligned to 64.
    #[derive(Clone, Copy)]
    pub(crate) struct Bucket<'a> {
        address: usize,
        region: PhantomData<&'a Region>,
    }

    impl<'a> Bucket<'a> {
        /// One bit for each slot whose upper 16 bits are `tag`. Empty slots match tag 0: look at the
        /// slot before believing it.
        #[inline(always)]
        pub(crate) fn match_tags(self, tag: u16) -> u32 {
            let (a, b, c, d): (__m128, __m128, __m128, __m128);
            // SAFETY: 64 readable bytes, aligned to 64; nobody writes them by plain stores.
            unsafe {
                asm!("movaps {a}, [{p}]", "movaps {b}, [{p} + 16]", "movaps {c}, [{p} + 32]", "movaps {d}, [{p} + 48]",
                     p = in(reg) self.address, a = out(xmm_reg) a, b = out(xmm_reg) b, c = out(xmm_reg) c,
                     d = out(xmm_reg) d, options(nostack, preserves_flags, readonly));
            }
            compare(a, b, c, d, tag)
        }

        #[inline(always)]
        pub(crate) fn slot(self, index: usize) -> &'a AtomicU64 {
            // SAFETY: one of the bucket's 8 words.
            unsafe { &*with_exposed_provenance(self.address + (index & 7) * 8) }
        }
    }

    #[inline(always)]
    fn compare(a: __m128, b: __m128, c: __m128, d: __m128, tag: u16) -> u32 {
        // SAFETY: SSE2 is part of x86-64.
        unsafe {
            // The upper half of each slot, then its upper quarter, sign-extended so that the pack
            // does not saturate.
            let low = _mm_srai_epi32::<16>(_mm_castps_si128(_mm_shuffle_ps::<0xDD>(a, b)));
            let high = _mm_srai_epi32::<16>(_mm_castps_si128(_mm_shuffle_ps::<0xDD>(c, d)));
            let equal = _mm_cmpeq_epi16(_mm_packs_epi32(low, high), _mm_set1_epi16(tag as i16));
            _mm_movemask_epi8(_mm_packs_epi16(equal, _mm_setzero_si128())) as u32
        }
    }
}

/// The same by single words: other processors, Miri, the model checker.
#[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
mod portable {
    use super::{Region, BUCKET_BYTES};
    use crate::sync::{AtomicU64, Ordering};

    /// The 8-byte words of a region.
    #[derive(Clone, Copy)]
    pub(crate) struct Words<'a>(&'a Region);

    impl<'a> Words<'a> {
        pub(super) fn of(region: &'a Region) -> Words<'a> {
            Words(region)
        }

        /// The word at `offset`, a multiple of 8.
        pub(crate) fn u64(self, offset: usize) -> &'a AtomicU64 {
            self.0.u64(offset)
        }

        /// The bucket at `offset`, a multiple of 64.
        pub(crate) fn bucket(self, offset: usize) -> Bucket<'a> {
            assert!(offset % BUCKET_BYTES == 0);
            Bucket {
                region: self.0,
                offset,
            }
        }

        /// So many buckets in a row, the first at `offset`, a multiple of 64.
        pub(crate) fn lines(self, offset: usize, buckets: usize) -> Lines<'a> {
            assert!(offset % BUCKET_BYTES == 0);
            Lines {
                region: self.0,
                offset,
                slots: buckets * Region::BUCKET_SLOTS,
            }
        }
    }

    /// Buckets in a row.
    #[derive(Clone, Copy)]
    pub(crate) struct Lines<'a> {
        region: &'a Region,
        offset: usize,
        slots: usize,
    }

    impl<'a> Lines<'a> {
        pub(crate) fn slots(self) -> usize {
            self.slots
        }

        pub(crate) fn slot(self, index: usize) -> &'a AtomicU64 {
            assert!(index < self.slots);
            let (bucket, slot) = (index / Region::BUCKET_SLOTS, index % Region::BUCKET_SLOTS);
            self.region
                .u64(self.offset + bucket * BUCKET_BYTES + slot * 8)
        }

        /// Divides them into `N` parts; `N` divides the number of buckets.
        pub(crate) fn parts<const N: usize>(self) -> [Lines<'a>; N] {
            let buckets = self.slots / Region::BUCKET_SLOTS;
            assert!(buckets % N == 0);
            std::array::from_fn(|part| Lines {
                offset: self.offset + part * (buckets / N) * BUCKET_BYTES,
                slots: self.slots / N,
                ..self
            })
        }

        /// Empties all slots, each by a relaxed store.
        pub(crate) fn clear(self) {
            (0..self.slots).for_each(|index| self.slot(index).store(0, Ordering::Relaxed));
        }

        /// Copies all slots to as many others, each by a relaxed load and a relaxed store.
        pub(crate) fn copy_to(self, to: Lines<'a>) {
            assert!(self.slots == to.slots);
            for index in 0..self.slots {
                let value = self.slot(index).load(Ordering::Relaxed);
                to.slot(index).store(value, Ordering::Relaxed);
            }
        }
    }

    /// A line of 8 slots.
    #[derive(Clone, Copy)]
    pub(crate) struct Bucket<'a> {
        region: &'a Region,
        offset: usize,
    }

    impl<'a> Bucket<'a> {
        /// One bit for each slot whose upper 16 bits are `tag`. Empty slots match tag 0: look at the
        /// slot before believing it.
        pub(crate) fn match_tags(self, tag: u16) -> u32 {
            (0..Region::BUCKET_SLOTS).fold(0, |mask, i| {
                let slot = self.slot(i).load(Ordering::Relaxed);
                mask | ((slot >> 48) as u16 == tag) as u32 * (1 << i)
            })
        }

        pub(crate) fn slot(self, index: usize) -> &'a AtomicU64 {
            self.region.u64(self.offset + index * 8)
        }
    }
}

#[cfg(all(test, not(shuttle), not(miri)))]
impl Region {
    /// CPU time of this thread, nanoseconds, for the measurements of the modules above.
    pub(crate) fn thread_cpu_ns() -> u64 {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: the call writes one timespec, which is ours.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut now) };
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::{Grain, Region, EXTENT_BYTES};
    use crate::sync::Ordering;

    #[test]
    fn finds_each_slot_and_no_other() {
        let region = Region::reserve(EXTENT_BYTES, Grain::Index, false).unwrap();
        let mut seed = 0x0123_4567_89AB_CDEF_u64;
        for round in 0..2000usize {
            let at = (round * 64) % EXTENT_BYTES;
            let mut tags = [0u16; 8];
            for (i, tag) in tags.iter_mut().enumerate() {
                seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                let any = (seed >> 40) as u16;
                *tag = [0, 1, 0x7FFF, 0x8000, 0xFFFF, any][(seed >> 33) as usize % 6];
                let slot = (*tag as u64) << 48 | seed >> 16;
                region
                    .words()
                    .bucket(at)
                    .slot(i)
                    .store(slot, Ordering::Relaxed);
                assert_eq!(region.u64(at + i * 8).load(Ordering::Relaxed), slot);
            }
            for probe in [0, 1, 0x7FFF, 0x8000, 0xFFFF, tags[round % 8]] {
                let expected = (0..8).fold(0, |m, i| m | ((tags[i] == probe) as u32) << i);
                let found = region.words().bucket(at).match_tags(probe);
                assert_eq!(found, expected, "{tags:x?} {probe:x}");
            }
        }
    }

    #[test]
    fn lines_are_copied_whole_and_nothing_beside_them() {
        let region = Region::reserve(EXTENT_BYTES, Grain::Index, false).unwrap();
        let (from, to) = (region.words().lines(128, 3), region.words().lines(1024, 3));
        for index in 0..from.slots() {
            from.slot(index).store(index as u64 + 1, Ordering::Relaxed);
        }
        from.copy_to(to);
        let found = |at: usize| region.u64(at).load(Ordering::Relaxed);
        for index in 0..24 {
            assert_eq!(found(128 + index * 8), index as u64 + 1);
            assert_eq!(found(1024 + index * 8), index as u64 + 1);
        }
        assert_eq!((found(1024 - 8), found(1024 + 24 * 8)), (0, 0));
        let thirds: [_; 3] = from.parts();
        assert_eq!(
            thirds.map(|part| part.slot(7).load(Ordering::Relaxed)),
            [8, 16, 24]
        );
        region.u64(128 - 8).store(7, Ordering::Relaxed);
        region.u64(128 + 24 * 8).store(7, Ordering::Relaxed);
        from.clear();
        assert!((0..24).all(|index| found(128 + index * 8) == 0));
        assert_eq!((found(128 - 8), found(128 + 24 * 8)), (7, 7));
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn lines_past_the_end_are_refused() {
        let region = Region::reserve(EXTENT_BYTES, Grain::Index, false).unwrap();
        region.words().lines(EXTENT_BYTES - 128, 3);
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn a_slot_past_the_last_line_is_refused() {
        let region = Region::reserve(EXTENT_BYTES, Grain::Index, false).unwrap();
        region.words().lines(0, 3).slot(24);
    }

    #[test]
    #[should_panic(expected = "outside the region")]
    fn a_bucket_past_the_end_is_refused() {
        let region = Region::reserve(EXTENT_BYTES, Grain::Index, false).unwrap();
        region.words().bucket(EXTENT_BYTES);
    }
}
