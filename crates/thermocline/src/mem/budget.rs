//! The one number everything is charged against: extents, tables, ghosts, what the embedder reserved.
//!
//! Reserve before you allocate: `try_charge` first, then touch memory. The limit may be lowered below
//! what is charged; then nothing more is granted until enough has been given back.

use crate::sync::{AtomicU64, Ordering};

pub(crate) struct Budget {
    limit_bytes: AtomicU64,
    charged_bytes: AtomicU64,
}

impl Budget {
    pub(crate) fn new(limit_bytes: u64) -> Budget {
        Budget {
            limit_bytes: AtomicU64::new(limit_bytes),
            charged_bytes: AtomicU64::new(0),
        }
    }

    /// Takes `bytes` if they fit under the limit.
    pub(crate) fn try_charge(&self, bytes: u64) -> bool {
        let limit = self.limit_bytes();
        let mut charged = self.charged_bytes.load(Ordering::Relaxed);
        loop {
            let next = charged.saturating_add(bytes);
            if next > limit {
                return false;
            }
            match self.charged_bytes.compare_exchange_weak(
                charged,
                next,
                Ordering::Relaxed,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => charged = now,
            }
        }
    }

    /// Takes `bytes` whether they fit or not: what is too much shows as `excess_bytes` until it is given back.
    pub(crate) fn charge_over(&self, bytes: u64) {
        self.charged_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn uncharge(&self, bytes: u64) {
        let before = self.charged_bytes.fetch_sub(bytes, Ordering::Relaxed);
        assert!(before >= bytes, "more given back than was charged");
    }

    pub(crate) fn limit_bytes(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn charged_bytes(&self) -> u64 {
        self.charged_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limit(&self, bytes: u64) {
        self.limit_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that can still be charged.
    pub(crate) fn free_bytes(&self) -> u64 {
        self.limit_bytes().saturating_sub(self.charged_bytes())
    }

    /// Bytes charged above the limit, after it was lowered.
    pub(crate) fn excess_bytes(&self) -> u64 {
        self.charged_bytes().saturating_sub(self.limit_bytes())
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn grants_up_to_the_limit_and_no_byte_more() {
        let budget = Budget::new(100);
        assert!(budget.try_charge(60));
        assert!(!budget.try_charge(41));
        assert!(budget.try_charge(40));
        budget.set_limit(50);
        assert_eq!(budget.excess_bytes(), 50);
        budget.uncharge(60);
        assert!(budget.try_charge(10));
        assert_eq!(budget.free_bytes(), 0);
    }
}
