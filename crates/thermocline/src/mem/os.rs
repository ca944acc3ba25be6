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

/// Processor time of this thread, nanoseconds; 0: not known. About 200 ns a call.
pub(crate) fn thread_cpu_ns() -> u64 {
    #[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
    {
        cpu_ns(libc::CLOCK_THREAD_CPUTIME_ID)
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
    {
        0
    }
}

/// Processor time of all threads of this process, nanoseconds; 0: not known.
pub(crate) fn process_cpu_ns() -> u64 {
    #[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
    {
        cpu_ns(libc::CLOCK_PROCESS_CPUTIME_ID)
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
    {
        0
    }
}

#[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
fn cpu_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a live timespec; the call writes nothing else.
    match unsafe { libc::clock_gettime(clock, &mut now) } {
        0 => now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64,
        _ => 0,
    }
}

/// Time that all processors of the machine have been idle, together, nanoseconds, in steps of 10 ms; None: the system does
/// not say. Reads a file: 20 us, a millisecond on a machine of hundreds of processors.
pub(crate) fn idle_ns() -> Option<u64> {
    #[cfg(all(target_os = "linux", not(miri), not(shuttle)))]
    {
        use std::io::Read;
        let mut head = [0u8; 256];
        let bytes = std::fs::File::open("/proc/stat")
            .ok()?
            .read(&mut head)
            .ok()?;
        idle_of(std::str::from_utf8(&head[..bytes]).ok()?)
    }
    #[cfg(not(all(target_os = "linux", not(miri), not(shuttle))))]
    {
        None
    }
}

/// From the first line of `/proc/stat`: user, nice, system, idle, waiting for I/O, in hundredths of a second. Where all are
/// 0 nothing is counted.
#[cfg(any(
    all(test, not(shuttle)),
    all(target_os = "linux", not(miri), not(shuttle))
))]
fn idle_of(stat: &str) -> Option<u64> {
    let mut words = stat.lines().next()?.split_ascii_whitespace();
    let all = words.next().filter(|&word| word == "cpu");
    all?;
    let times: Vec<u64> = words.take(5).map_while(|word| word.parse().ok()).collect();
    let [user, _, system, idle, io] = times[..] else {
        return None;
    };
    (user + system > 0).then(|| (idle + io) * 10_000_000)
}

/// Gives back to the system what the allocator keeps of the `bytes` that this thread has just freed, where it can. Takes a
/// millisecond or so.
///
/// glibc gives back what lies free within a thread's heap, but not its end before that is twice as long as the largest
/// block freed so far (2 to 64 MiB): 1.9 MB stayed after a training, 3 % of a cache of 64 MiB. So the end is taken once
/// more, untouched and in blocks too small to be mapped alone, and freed while one block behind it makes it an inner part.
pub(crate) fn trim_heap(bytes: usize) {
    const BLOCK_BYTES: usize = 64 << 10;
    let block = |_| std::hint::black_box(Vec::<u8>::with_capacity(BLOCK_BYTES));
    let mut blocks: Vec<Vec<u8>> = (0..=bytes.div_ceil(BLOCK_BYTES)).map(block).collect();
    let last = blocks.pop();
    drop(blocks);
    #[cfg(all(target_os = "linux", target_env = "gnu", not(miri)))]
    // SAFETY: touches only memory that the allocator knows to be free.
    unsafe {
        libc::malloc_trim(0);
    }
    drop(last);
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

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn idle_time_is_read_from_the_first_line() {
        let stat = "cpu  100 5 50 1000 20 0 3 0 0 0\ncpu0 50 2 25 500 10 0 1 0 0 0\n";
        assert_eq!(idle_of(stat), Some(10_200_000_000));
        assert_eq!(idle_of("cpu  0 0 0 0 0 0 0 0 0 0\n"), None);
        assert_eq!(idle_of("cpu0 1 2 3 4 5\n"), None);
        assert_eq!(idle_of(""), None);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn work_takes_processor_time() {
        // In this order: what the thread does between the two counts for the process only.
        let (process, thread) = (process_cpu_ns(), thread_cpu_ns());
        let mut sum = 0u64;
        while thread_cpu_ns() < thread + 2_000_000 {
            sum = sum.wrapping_mul(31).wrapping_add(1);
        }
        std::hint::black_box(sum);
        assert!(process_cpu_ns() >= process + 2_000_000);
    }
}
