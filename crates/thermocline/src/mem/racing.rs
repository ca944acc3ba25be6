//! Copying and comparing bytes that another thread may be writing at the same moment.
//!
//! A Rust reference or a plain copy would be a data race, so on x86-64 the accesses are made by
//! inline assembly (which may do whatever relaxed byte-atomics could) and elsewhere by `AtomicU8`.
//! The bytes that arrive may be torn; callers validate the item's header afterwards and throw torn
//! copies away. Compiled `AtomicU64` loops are never vectorised (+27 ns a KiB): hence the assembly.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;

    /// From this size on the target is aligned first: a 16-byte store that is not costs this loop a third more.
    const ALIGNED_BYTES: usize = 256;
    /// At this size `rep movsb` overtakes the loop where the processor is built for it; elsewhere (AMD before Zen 3) it takes
    /// more than twice the loop's time for what is in the processor's caches, and no less for what is not.
    const STRING_MOVE_BYTES: usize = 2048;

    /// Copies `len` bytes from `from` to `to`; either may race with other racing accesses.
    ///
    /// # Safety
    /// `from` must be readable and `to` writable for `len` bytes for the whole call, and they must
    /// not overlap. Nobody may access the racing side by plain reads or writes meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn copy(mut from: *const u8, mut to: *mut u8, len: usize) {
        if len >= ALIGNED_BYTES {
            // SAFETY: the caller vouches for both ranges.
            return unsafe { copy_long(from, to, len) };
        }
        let mut left = len;
        while left >= 64 {
            // SAFETY: at least 64 bytes are left on both sides.
            unsafe {
                copy_64(from, to);
                from = from.add(64);
                to = to.add(64);
            }
            left -= 64;
        }
        if left >= 32 {
            // SAFETY: at least 32 bytes are left on both sides.
            unsafe {
                asm!("movups {a}, [{f}]", "movups {b}, [{f} + 16]", "movups [{t}], {a}", "movups [{t} + 16], {b}",
                     a = out(xmm_reg) _, b = out(xmm_reg) _, f = in(reg) from, t = in(reg) to,
                     options(nostack, preserves_flags));
                from = from.add(32);
                to = to.add(32);
            }
            left -= 32;
        }
        // SAFETY: `left` bytes remain, and the overlapping tail moves stay inside the ranges.
        unsafe { copy_tail(from, to, left) }
    }

    /// # Safety
    /// As `copy`, with `len >= 64`.
    #[inline(never)]
    unsafe fn copy_long(from: *const u8, to: *mut u8, len: usize) {
        if len >= STRING_MOVE_BYTES && is_x86_feature_detected!("ermsb") {
            // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
            return unsafe {
                asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                     options(nostack, preserves_flags));
            };
        }
        // The first 16 bytes and the last 64 are moved as they lie; in between the target is aligned. What they share with
        // the aligned moves is written twice.
        // SAFETY: 64 <= len: all moves lie inside the ranges, and `to + done` is a multiple of 16 in the loop.
        unsafe {
            asm!("movups {a}, [{f}]", "movups [{t}], {a}", a = out(xmm_reg) _, f = in(reg) from, t = in(reg) to,
                 options(nostack, preserves_flags));
            let mut done = 16 - (to as usize & 15);
            while len - done > 64 {
                asm!("movups {a}, [{f}]", "movups {b}, [{f} + 16]", "movups {c}, [{f} + 32]", "movups {d}, [{f} + 48]",
                     "movaps [{t}], {a}", "movaps [{t} + 16], {b}", "movaps [{t} + 32], {c}", "movaps [{t} + 48], {d}",
                     a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                     f = in(reg) from.add(done), t = in(reg) to.add(done), options(nostack, preserves_flags));
                done += 64;
            }
            copy_64(from.add(len - 64), to.add(len - 64));
        }
    }

    /// # Safety
    /// As `copy`, with 64 bytes.
    #[inline(always)]
    unsafe fn copy_64(from: *const u8, to: *mut u8) {
        // SAFETY: the caller vouches for 64 bytes on both sides.
        unsafe {
            asm!("movups {a}, [{f}]", "movups {b}, [{f} + 16]", "movups {c}, [{f} + 32]", "movups {d}, [{f} + 48]",
                 "movups [{t}], {a}", "movups [{t} + 16], {b}", "movups [{t} + 32], {c}", "movups [{t} + 48], {d}",
                 a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                 f = in(reg) from, t = in(reg) to, options(nostack, preserves_flags));
        }
    }

    /// # Safety
    /// As `copy`, with `len < 32`.
    #[inline(always)]
    unsafe fn copy_tail(from: *const u8, to: *mut u8, len: usize) {
        if len >= 16 {
            // SAFETY: 16 <= len: both 16-byte moves lie inside the range.
            unsafe {
                asm!("movups {a}, [{f}]", "movups {b}, [{f} + {n} - 16]", "movups [{t}], {a}", "movups [{t} + {n} - 16], {b}",
                     a = out(xmm_reg) _, b = out(xmm_reg) _, f = in(reg) from, t = in(reg) to, n = in(reg) len,
                     options(nostack, preserves_flags));
            }
        } else if len >= 8 {
            // SAFETY: 8 <= len.
            unsafe {
                asm!("mov {a}, [{f}]", "mov {b}, [{f} + {n} - 8]", "mov [{t}], {a}", "mov [{t} + {n} - 8], {b}",
                     a = out(reg) _, b = out(reg) _, f = in(reg) from, t = in(reg) to, n = in(reg) len,
                     options(nostack, preserves_flags));
            }
        } else if len >= 4 {
            // SAFETY: 4 <= len.
            unsafe {
                asm!("mov {a:e}, [{f}]", "mov {b:e}, [{f} + {n} - 4]", "mov [{t}], {a:e}", "mov [{t} + {n} - 4], {b:e}",
                     a = out(reg) _, b = out(reg) _, f = in(reg) from, t = in(reg) to, n = in(reg) len,
                     options(nostack, preserves_flags));
            }
        } else {
            for i in 0..len {
                // SAFETY: i < len.
                unsafe {
                    asm!("mov {a}, [{f}]", "mov [{t}], {a}", a = out(reg_byte) _, f = in(reg) from.add(i),
                         t = in(reg) to.add(i), options(nostack, preserves_flags));
                }
            }
        }
    }

    /// # Safety
    /// `at` must be readable for 8 bytes.
    #[inline(always)]
    unsafe fn load64(at: *const u8) -> u64 {
        let word: u64;
        // SAFETY: the caller vouches for 8 readable bytes.
        unsafe {
            asm!("mov {w}, [{p}]", w = out(reg) word, p = in(reg) at,
                 options(nostack, preserves_flags, readonly));
        }
        word
    }

    /// # Safety
    /// `at` must be readable for 4 bytes.
    #[inline(always)]
    unsafe fn load32(at: *const u8) -> u32 {
        let word: u32;
        // SAFETY: the caller vouches for 4 readable bytes.
        unsafe {
            asm!("mov {w:e}, [{p}]", w = out(reg) word, p = in(reg) at,
                 options(nostack, preserves_flags, readonly));
        }
        word
    }

    /// # Safety
    /// `at` must be readable for 1 byte.
    #[inline(always)]
    unsafe fn load8(at: *const u8) -> u8 {
        let byte: u8;
        // SAFETY: the caller vouches for the byte.
        unsafe {
            asm!("mov {b}, [{p}]", b = out(reg_byte) byte, p = in(reg) at,
                 options(nostack, preserves_flags, readonly));
        }
        byte
    }

    /// Whether the bytes at `at` equal `other`.
    ///
    /// # Safety
    /// `at` must be readable for `other.len()` bytes; nobody may write there by plain stores.
    #[inline(always)]
    pub(crate) unsafe fn equals(at: *const u8, other: &[u8]) -> bool {
        let (len, to) = (other.len(), other.as_ptr());
        // SAFETY: every load lies inside 0..len, which is `other`'s length and what the caller vouches for.
        unsafe {
            let words = |i: usize| load64(at.add(i)) == to.add(i).cast::<u64>().read_unaligned();
            let halves = |i: usize| load32(at.add(i)) == to.add(i).cast::<u32>().read_unaligned();
            if len > 16 {
                let mut i = 0;
                while i + 8 < len {
                    if !words(i) {
                        return false;
                    }
                    i += 8;
                }
                words(len - 8)
            } else if len >= 8 {
                words(0) && words(len - 8)
            } else if len >= 4 {
                halves(0) && halves(len - 4)
            } else {
                (0..len).all(|i| load8(at.add(i)) == *to.add(i))
            }
        }
    }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
mod imp {
    use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

    /// Copies `len` bytes from `from` to `to`; either may race with other racing accesses.
    ///
    /// # Safety
    /// As on x86-64: both ranges valid for the call, no overlap, no plain access meanwhile.
    pub(crate) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
        for i in 0..len {
            // SAFETY: i < len; bytes are always aligned.
            unsafe {
                let byte = (*from.add(i).cast::<AtomicU8>()).load(Relaxed);
                (*to.add(i).cast::<AtomicU8>()).store(byte, Relaxed);
            }
        }
    }

    /// Whether the bytes at `at` equal `other`.
    ///
    /// # Safety
    /// `at` must be readable for `other.len()` bytes; nobody may write there by plain stores.
    pub(crate) unsafe fn equals(at: *const u8, other: &[u8]) -> bool {
        // SAFETY: i < other.len().
        (0..other.len())
            .all(|i| unsafe { (*at.add(i).cast::<AtomicU8>()).load(Relaxed) } == other[i])
    }
}

pub(crate) use imp::{copy, equals};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_every_length_exactly() {
        let from: Vec<u8> = (0..6000u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for len in (0..600).chain([1000, 1499, 2047, 2048, 2049, 5000]) {
            for (shift, at) in [(0, 0), (1, 1), (3, 16), (0, 7), (8, 15)] {
                let mut to = vec![0xEE; at + len + 20];
                // SAFETY: both ranges hold `len` bytes and are this test's own.
                unsafe { copy(from[shift..].as_ptr(), to[at..].as_mut_ptr(), len) };
                assert_eq!(&to[at..at + len], &from[shift..shift + len]);
                let around = [&to[..at], &to[at + len..]].concat();
                assert_eq!(around, [0xEE].repeat(at + 20), "length {len} to {at}");
            }
        }
    }

    #[test]
    fn compares_every_length_exactly() {
        let bytes: Vec<u8> = (0..80u8).collect();
        for len in 0..80 {
            // SAFETY: `len` bytes are readable.
            assert!(unsafe { equals(bytes.as_ptr(), &bytes[..len]) });
            for wrong in 0..len {
                let mut other = bytes[..len].to_vec();
                other[wrong] ^= 1;
                // SAFETY: as above.
                assert!(!unsafe { equals(bytes.as_ptr(), &other) }, "{len} {wrong}");
            }
        }
    }
}
