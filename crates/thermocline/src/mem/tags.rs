//! The tag compare: which of a bucket's 8 slots carry a tag.
//!
//! A slot's tag is its upper 16 bits. Four 16-byte loads, two shuffles, a shift, two packs, one compare:
//! 96 ns a hit and 50 a miss at 4 M items, where the compiled loop takes 130 and 92. The loads are
//! inline assembly because other threads store to these words: 8-byte lanes of an aligned SSE move
//! are relaxed atomic loads, and the asm block orders nothing. Callers load the slot they pick again
//! with Acquire.

use super::Region;

impl Region {
    /// Slots of a bucket. The models' buckets are small, to keep the schedules short.
    pub(crate) const BUCKET_SLOTS: usize = if cfg!(shuttle) { 2 } else { 8 };

    /// One bit for each of the 8 slots at `offset` (a multiple of 64) whose upper 16 bits are `tag`.
    /// Empty slots match tag 0: look at the slot before believing it.
    #[inline(always)]
    pub(crate) fn match_tags(&self, offset: usize, tag: u16) -> u32 {
        assert!(offset % 64 == 0);
        imp::match_tags(self, offset, tag)
    }
}

#[cfg(all(target_arch = "x86_64", not(miri), not(shuttle)))]
mod imp {
    use super::Region;
    use std::arch::asm;
    use std::arch::x86_64::*;

    #[inline(always)]
    pub(super) fn match_tags(region: &Region, offset: usize, tag: u16) -> u32 {
        // In bounds: the first word is checked by `u64`, regions are whole multiples of 2 MiB, and the
        // offset is a multiple of 64, so the other 56 bytes are in bounds too.
        let bucket = region.u64(offset).as_ptr();
        let (a, b, c, d): (__m128, __m128, __m128, __m128);
        // SAFETY: 64 readable bytes, aligned to 64, see above; nobody writes them by plain stores.
        unsafe {
            asm!("movaps {a}, [{p}]", "movaps {b}, [{p} + 16]", "movaps {c}, [{p} + 32]", "movaps {d}, [{p} + 48]",
                 p = in(reg) bucket, a = out(xmm_reg) a, b = out(xmm_reg) b, c = out(xmm_reg) c,
                 d = out(xmm_reg) d, options(nostack, preserves_flags, readonly));
        }
        compare(a, b, c, d, tag)
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

#[cfg(not(all(target_arch = "x86_64", not(miri), not(shuttle))))]
mod imp {
    use super::Region;
    use crate::sync::Ordering;

    pub(super) fn match_tags(region: &Region, offset: usize, tag: u16) -> u32 {
        (0..Region::BUCKET_SLOTS).fold(0, |mask, i| {
            let slot = region.u64(offset + i * 8).load(Ordering::Relaxed);
            mask | ((slot >> 48) as u16 == tag) as u32 * (1 << i)
        })
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
                *tag =
                    [0, 1, 0x7FFF, 0x8000, 0xFFFF, (seed >> 40) as u16][(seed >> 33) as usize % 6];
                region
                    .u64(at + i * 8)
                    .store((*tag as u64) << 48 | seed >> 16, Ordering::Relaxed);
            }
            for probe in [0, 1, 0x7FFF, 0x8000, 0xFFFF, tags[round % 8]] {
                let expected = (0..8).fold(0, |m, i| m | ((tags[i] == probe) as u32) << i);
                assert_eq!(
                    region.match_tags(at, probe),
                    expected,
                    "{tags:x?} {probe:x}"
                );
            }
        }
    }
}
