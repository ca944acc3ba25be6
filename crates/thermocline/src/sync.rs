//! The atomics and locks every other module uses, so that a model checker can take their place.
//!
//! Built with `--cfg shuttle` the same production types run under shuttle's scheduler.

#[cfg(not(shuttle))]
pub(crate) use std::sync::{
    atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering},
    Condvar, Mutex, MutexGuard,
};

#[cfg(shuttle)]
pub(crate) use shuttle::sync::{
    atomic::{fence, AtomicBool, AtomicU32, AtomicU64, Ordering},
    Condvar, Mutex, MutexGuard,
};

/// Locks a mutex whose data stay valid even if a holder panicked (counters, lists of ids).
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Gives the core away for a moment while another thread finishes a short step.
pub(crate) fn pause(spins: u32) {
    #[cfg(not(shuttle))]
    if spins < 64 {
        std::hint::spin_loop();
    } else {
        std::thread::yield_now();
    }
    #[cfg(shuttle)]
    {
        let _ = spins;
        shuttle::thread::yield_now();
    }
}
