//! Budget lent to the embedder for a while: buffers that come and go, charged like everything else.
//!
//! `Config::reserved_bytes` is for what is always there; a lease for what seldom is. Lending never waits: where the
//! budget is used up the background thread gives extents back until it fits again, a few milliseconds later.

use super::{Cache, Inner};
use crate::mem::trim_heap;
use crate::sync::Ordering;
use std::sync::Arc;

/// Bytes of a cache's budget in its embedder's hands. Dropped, they are the cache's again.
pub struct Lease {
    inner: Arc<Inner>,
    bytes: u64,
}

impl std::fmt::Debug for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lease").field("bytes", &self.bytes).finish()
    }
}

impl Cache {
    /// A lease of nothing yet: see [`Lease::resize`].
    pub fn lease(&self) -> Lease {
        Lease {
            inner: self.inner.clone(),
            bytes: 0,
        }
    }
}

impl Lease {
    /// Bytes lent now.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back all but `bytes` of it, once what was freed of the heap has gone back to the system, as far as the C library
    /// can: else the cache fills the budget again while the allocator still has the memory. A millisecond or so, longer
    /// where much was freed in small pieces. Nothing where it has no more than that.
    pub fn give_back(&mut self, bytes: u64) {
        if bytes < self.bytes {
            trim_heap(0);
            self.resize(bytes);
        }
    }

    /// Takes more of the budget or gives some back. Takes no lock and never waits; evicts, in the background,
    /// where the budget is used up, even in a cache that else evicts nothing (`Config::evict`).
    pub fn resize(&mut self, bytes: u64) {
        let budget = &self.inner.store.budget;
        if bytes > self.bytes {
            budget.charge_over(bytes - self.bytes);
        } else {
            budget.uncharge(self.bytes - bytes);
        }
        let leased = &self.inner.leased_bytes;
        leased.fetch_add(bytes, Ordering::Relaxed);
        leased.fetch_sub(self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
        if budget.excess_bytes() > 0 {
            self.inner.wake_if_short();
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.resize(0);
    }
}
