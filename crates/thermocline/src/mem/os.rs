//! What the operating system says of this process: time, core, memory.

/// Milliseconds of a clock that never jumps; coarse (1 to 4 ms), about 5 ns a call.
#[inline]
pub(crate) fn monotonic_ms() -> u64 {
    #[cfg(all(target_os = "linux", not(miri)))]
    {
        let mut now = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: `now` is a live timespec; the call writes nothing else.
        let failed = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_COARSE, &mut now) } != 0;
        debug_assert!(
            !failed,
            "the coarse monotonic clock exists since Linux 2.6.32"
        );
        now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000
    }
    #[cfg(not(all(target_os = "linux", not(miri))))]
    {
        use std::{sync::OnceLock, time::Instant};
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_millis() as u64
    }
}

/// Gives back to the system what the allocator keeps of freed memory, where it can. Takes a millisecond or so.
pub(crate) fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: touches only memory that the allocator knows to be free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Whether the kernel knows a `madvise` advice. Asks about nothing: a range of no bytes.
pub(crate) fn knows_advice(advice: libc::c_int) -> bool {
    // SAFETY: a range of no bytes at a page boundary; the kernel looks at the advice and at nothing else.
    unsafe { libc::madvise(4096 as *mut libc::c_void, 0, advice) == 0 }
}

/// The core this thread runs on, as a hint for choosing an open segment.
#[inline]
pub(crate) fn current_core() -> usize {
    #[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
    {
        // SAFETY: sched_getcpu takes no arguments and touches no memory of ours.
        let core = unsafe { libc::sched_getcpu() };
        core.max(0) as usize
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
    {
        0
    }
}
