//! Copying and comparing bytes that another thread may be writing at the same moment.
//!
//! A Rust reference or a plain copy would be a data race, so on x86-64 the accesses are made by
//! inline assembly (which may do whatever relaxed byte-atomics could) and elsewhere by `AtomicU8`.
//! The bytes that arrive may be torn; callers validate the item's header afterwards and throw torn
//! copies away. Compiled `AtomicU64` loops are never vectorised (+27 ns a KiB): hence the assembly.

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod imp {
    use std::arch::asm;

    /// At this size `rep movsb` overtakes the 32-byte loop: its start costs more than a KiB of moves saves (10 % of
    /// the server's CPU at pipeline 16, 1 KiB values).
    const STRING_MOVE_BYTES: usize = 2048;

    /// Copies `len` bytes from `from` to `to`; either may race with other racing accesses.
    ///
    /// # Safety
    /// `from` must be readable and `to` writable for `len` bytes for the whole call, and they must
    /// not overlap. Nobody may access the racing side by plain reads or writes meanwhile.
    #[inline(always)]
    pub(crate) unsafe fn copy(mut from: *const u8, mut to: *mut u8, len: usize) {
        if len >= STRING_MOVE_BYTES {
            // SAFETY: the caller vouches for both ranges; the direction flag is clear by the ABI.
            unsafe {
                asm!("rep movsb", inout("rcx") len => _, inout("rsi") from => _, inout("rdi") to => _,
                     options(nostack, preserves_flags));
            }
            return;
        }
        let mut left = len;
        while left >= 64 {
            // SAFETY: at least 64 bytes are left on both sides.
            unsafe {
                asm!("movups {a}, [{f}]", "movups {b}, [{f} + 16]", "movups {c}, [{f} + 32]", "movups {d}, [{f} + 48]",
                     "movups [{t}], {a}", "movups [{t} + 16], {b}", "movups [{t} + 32], {c}", "movups [{t} + 48], {d}",
                     a = out(xmm_reg) _, b = out(xmm_reg) _, c = out(xmm_reg) _, d = out(xmm_reg) _,
                     f = in(reg) from, t = in(reg) to, options(nostack, preserves_flags));
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
        let from: Vec<u8> = (0..1500u32).map(|i| (i * 7 + i / 256) as u8).collect();
        for len in (0..600).chain([1000, 1499]) {
            for shift in [0, 1, 3] {
                if shift + len > from.len() {
                    continue;
                }
                let mut to = vec![0xEE; len + 2];
                // SAFETY: both ranges hold `len` bytes and are this test's own.
                unsafe { copy(from[shift..].as_ptr(), to[1..].as_mut_ptr(), len) };
                assert_eq!(&to[1..1 + len], &from[shift..shift + len]);
                assert_eq!((to[0], to[len + 1]), (0xEE, 0xEE), "length {len}");
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
