//! What of the memory budget is the server's own: measured and computed once at the start, given to the engine as
//! `reserved_bytes`, so that the budget bounds the process.

use crate::config::Settings;
use crate::net::WORKER_BYTES;
use crate::pages;

/// A connection without buffers: its own record, its entry in the list, the kernel-side share of our allocator.
const CONNECTION_BYTES: u64 = 512;
/// Stack pages a thread touches, and its share of the allocator.
const THREAD_BYTES: u64 = 128 << 10;
/// The admin thread with its runtime and the connections it serves.
const ADMIN_BYTES: u64 = 1 << 20;
/// Code and data of our own that are touched only later: pages of the executable that have not been read at the start.
const LATER_BYTES: u64 = 4 << 20;
/// If the kernel does not tell, this much is taken for resident at the start.
const BASE_BYTES_GUESS: u64 = 8 << 20;

/// Bytes, by what they are for.
#[derive(Clone, Copy, Debug)]
pub struct Reserve {
    pub base: u64,
    pub workers: u64,
    pub connections: u64,
    pub pool: u64,
    pub admin: u64,
}

impl Reserve {
    pub fn of(settings: &Settings) -> Reserve {
        let threads = settings.threads as u64;
        Reserve {
            base: pages::status_bytes("VmRSS:").unwrap_or(BASE_BYTES_GUESS) + LATER_BYTES,
            workers: threads * (WORKER_BYTES + THREAD_BYTES),
            // Room is kept for the first few thousand; a cap of a million must not eat a small budget unused.
            connections: (settings.connections_max as u64).min(8192) * CONNECTION_BYTES,
            pool: settings.buffer_pool_bytes(),
            admin: if settings.http.is_empty() {
                0
            } else {
                ADMIN_BYTES
            },
        }
    }

    pub fn bytes(&self) -> u64 {
        self.base + self.workers + self.connections + self.pool + self.admin
    }
}
