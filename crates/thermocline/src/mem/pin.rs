//! Epoch pins: while a thread is pinned, nothing retired after it pinned is reused.
//!
//! ```text
//! pin:     slot := epoch (Relaxed); compiler fence          0.6 ns
//! unpin:   slot := 0 (Release)
//! advance: g := epoch; membarrier; any slot not 0 and not g -> refused; epoch := g + 1
//! retired at r  ->  free when epoch >= r + 2
//! ```
//! The barrier is on the reclaimer's side (`membarrier` private-expedited). Where the kernel denies it
//! the pin itself fences (2.2 ns): chosen once, before the first pin. Pins nest; the outer one counts.
//! Keep pins under 3 us: never over a system call, a wait, or a user's closure.

#[cfg(shuttle)]
use crate::sync::fence;
use crate::sync::{AtomicU64, Ordering};
use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// Threads that may be pinned at one time. A thread keeps its slot until it ends.
pub(crate) const THREADS_MAX: usize = 64 * 256;
const SLOTS_MAX: usize = THREADS_MAX;
const CHUNK: usize = 64;
/// An unowned slot.
const FREE: u64 = u64::MAX;
const FIRST_EPOCH: u64 = 2;

#[repr(align(64))]
struct PinSlot(AtomicU64, usize);

/// The epoch and everyone who may hold it back. One a process.
pub(crate) struct Domain {
    epoch: AtomicU64,
    chunks: Vec<OnceLock<Box<[PinSlot]>>>,
    /// Pins fence by themselves because the kernel has no expedited membarrier for us.
    fenced: bool,
}

impl Domain {
    pub(crate) fn new() -> Domain {
        Domain {
            epoch: AtomicU64::new(FIRST_EPOCH),
            chunks: (0..SLOTS_MAX / CHUNK).map(|_| OnceLock::new()).collect(),
            fenced: !barrier::register(),
        }
    }

    /// The domain of this process.
    #[cfg(not(shuttle))]
    pub(crate) fn global() -> &'static Domain {
        static GLOBAL: OnceLock<Domain> = OnceLock::new();
        GLOBAL.get_or_init(Domain::new)
    }

    /// A model gets a domain of its own each time; it is small and leaks.
    #[cfg(shuttle)]
    pub(crate) fn global() -> &'static Domain {
        Box::leak(Box::new(Domain::new()))
    }

    /// The present epoch: what to stamp retired memory with.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::SeqCst)
    }

    /// Whether memory retired at `retired` can be reused.
    pub(crate) fn passed(&self, retired: u64) -> bool {
        self.epoch() >= retired + 2
    }

    /// Tries to move the epoch on by one. Costs a membarrier: 0.5 us idle, 12 us when other cores run
    /// our threads; call it once per 256 KiB to 1 MiB retired.
    pub(crate) fn try_advance(&self) -> bool {
        let now = self.epoch.load(Ordering::SeqCst);
        barrier::heavy(self.fenced);
        for chunk in &self.chunks {
            let Some(slots) = chunk.get() else { break };
            for slot in slots.iter() {
                let held = slot.0.load(Ordering::Acquire);
                if held != 0 && held != FREE && held != now {
                    return false;
                }
            }
        }
        self.epoch
            .compare_exchange(now, now + 1, Ordering::SeqCst, Ordering::Relaxed)
            .is_ok()
    }

    fn claim_slot(&self) -> &PinSlot {
        for (n, chunk) in self.chunks.iter().enumerate() {
            let slots = chunk.get_or_init(|| {
                (0..CHUNK)
                    .map(|i| PinSlot(AtomicU64::new(FREE), n * CHUNK + i))
                    .collect()
            });
            for slot in slots.iter() {
                let claim = slot
                    .0
                    .compare_exchange(FREE, 0, Ordering::Acquire, Ordering::Relaxed);
                if claim.is_ok() {
                    return slot;
                }
            }
        }
        panic!("more than {SLOTS_MAX} threads use caches at the same time");
    }

    #[inline(always)]
    fn publish(&self, slot: &PinSlot) {
        slot.0
            .store(self.epoch.load(Ordering::Relaxed), Ordering::Relaxed);
        barrier::light(self.fenced);
    }
}

/// A hold on everything found while it lives. Not Send: it belongs to its thread.
pub(crate) struct Pin {
    #[cfg(shuttle)]
    slot: &'static PinSlot,
    #[cfg(not(shuttle))]
    late: Option<&'static PinSlot>,
    number: usize,
    not_send: PhantomData<*const ()>,
}

#[cfg(shuttle)]
impl Pin {
    pub(crate) fn new(domain: &'static Domain) -> Pin {
        let slot = domain.claim_slot();
        domain.publish(slot);
        fence(Ordering::SeqCst);
        Pin {
            slot,
            number: slot.1,
            not_send: PhantomData,
        }
    }
}

#[cfg(shuttle)]
impl Drop for Pin {
    fn drop(&mut self) {
        self.slot.0.store(FREE, Ordering::Release);
    }
}

/// This thread's slot, given back when the thread ends.
#[cfg(not(shuttle))]
struct Local {
    slot: Cell<Option<&'static PinSlot>>,
    depth: Cell<u32>,
}

#[cfg(not(shuttle))]
impl Drop for Local {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take() {
            slot.0.store(FREE, Ordering::Release);
        }
    }
}

#[cfg(not(shuttle))]
thread_local! {
    static LOCAL: Local = const { Local { slot: Cell::new(None), depth: Cell::new(0) } };
}

#[cfg(not(shuttle))]
impl Pin {
    #[inline(always)]
    pub(crate) fn new(domain: &'static Domain) -> Pin {
        let own = LOCAL.try_with(|local| {
            let depth = local.depth.get();
            local.depth.set(depth + 1);
            let slot = match local.slot.get() {
                Some(slot) => slot,
                None => first_use(domain, local),
            };
            if depth == 0 {
                domain.publish(slot);
            }
            slot.1
        });
        match own {
            Ok(number) => Pin {
                late: None,
                number,
                not_send: PhantomData,
            },
            Err(_) => Pin::in_destructor(domain),
        }
    }

    /// The thread is ending and its slot is gone: borrow one for this pin alone.
    #[cold]
    fn in_destructor(domain: &'static Domain) -> Pin {
        let slot = domain.claim_slot();
        domain.publish(slot);
        Pin {
            late: Some(slot),
            number: slot.1,
            not_send: PhantomData,
        }
    }
}

impl Pin {
    /// A small number no other pinned thread has: who may write which counters.
    #[inline(always)]
    pub(crate) fn number(&self) -> usize {
        self.number
    }
}

#[cfg(not(shuttle))]
#[cold]
fn first_use(domain: &'static Domain, local: &Local) -> &'static PinSlot {
    let slot = domain.claim_slot();
    local.slot.set(Some(slot));
    slot
}

#[cfg(not(shuttle))]
impl Drop for Pin {
    #[inline(always)]
    fn drop(&mut self) {
        if let Some(slot) = self.late {
            slot.0.store(FREE, Ordering::Release);
            return;
        }
        // A pin made by this thread's local is dropped before the local is: Pin is not Send.
        let _ = LOCAL.try_with(|local| {
            let depth = local.depth.get() - 1;
            local.depth.set(depth);
            if depth == 0 {
                if let Some(slot) = local.slot.get() {
                    slot.0.store(0, Ordering::Release);
                }
            }
        });
    }
}

#[cfg(all(target_os = "linux", not(shuttle), not(miri)))]
mod barrier {
    use std::sync::atomic::{compiler_fence, fence, Ordering};

    const QUERY: libc::c_int = 0;
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        // SAFETY: membarrier takes integers only and touches no memory of ours.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
    }

    /// True when expedited barriers are to be had; false under old kernels or seccomp.
    pub(super) fn register() -> bool {
        let wanted = (PRIVATE_EXPEDITED | REGISTER_PRIVATE_EXPEDITED) as libc::c_long;
        let known = membarrier(QUERY);
        known >= 0 && known & wanted == wanted && membarrier(REGISTER_PRIVATE_EXPEDITED) == 0
    }

    #[inline(always)]
    pub(super) fn light(fenced: bool) {
        if fenced {
            fence(Ordering::SeqCst);
        } else {
            compiler_fence(Ordering::SeqCst);
        }
    }

    pub(super) fn heavy(fenced: bool) {
        fence(Ordering::SeqCst);
        if !fenced {
            let done = membarrier(PRIVATE_EXPEDITED) == 0;
            assert!(done, "membarrier was registered and is now refused");
        }
    }
}

#[cfg(not(all(target_os = "linux", not(shuttle), not(miri))))]
mod barrier {
    use crate::sync::{fence, Ordering};

    pub(super) fn register() -> bool {
        false
    }
    pub(super) fn light(_fenced: bool) {
        fence(Ordering::SeqCst);
    }
    pub(super) fn heavy(_fenced: bool) {
        fence(Ordering::SeqCst);
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn fresh() -> &'static Domain {
        Box::leak(Box::new(Domain::new()))
    }

    // LOCAL is tied to the first domain a thread uses: each test thread uses one domain only.
    fn on_thread(body: impl FnOnce() + Send + 'static) {
        std::thread::spawn(body).join().expect("test thread");
    }

    #[test]
    fn a_pin_holds_the_epoch_back_by_one() {
        on_thread(|| {
            let domain = fresh();
            let retired = domain.epoch();
            let pin = Pin::new(domain);
            let nested = Pin::new(domain);
            assert!(domain.try_advance());
            assert!(!domain.try_advance(), "still pinned in the old epoch");
            drop(nested);
            assert!(!domain.try_advance(), "the outer pin counts");
            assert!(!domain.passed(retired));
            drop(pin);
            assert!(domain.try_advance());
            assert!(domain.passed(retired));
        });
    }

    #[test]
    fn another_threads_pin_counts_and_its_slot_is_reused() {
        let domain = fresh();
        let (ready, wait) = mpsc::channel();
        let (go, stop) = mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let _pin = Pin::new(domain);
            ready.send(()).expect("test is listening");
            let _ = stop.recv();
        });
        wait.recv().expect("thread pins");
        assert!(domain.try_advance());
        assert!(!domain.try_advance());
        go.send(()).expect("thread waits");
        thread.join().expect("thread ends");
        assert!(domain.try_advance());
        let used: usize = domain.chunks.iter().filter(|c| c.get().is_some()).count();
        for _ in 0..200 {
            on_thread(move || drop(Pin::new(domain)));
        }
        let now: usize = domain.chunks.iter().filter(|c| c.get().is_some()).count();
        assert_eq!(used, now, "slots of ended threads are reused");
    }
}
