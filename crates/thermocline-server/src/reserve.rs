//! What of the memory budget is the server's own: measured and computed once at the start, given to the engine as
//! `reserved_bytes`, so that the budget bounds the process. Of the buffer pool only a start: the rest is leased when used.

use crate::config::Settings;
use crate::net::{reserved_bytes, WORKER_BYTES};
use crate::pages;

/// A connection without buffers: its own record, its entry in the list, the kernel-side share of our allocator.
const CONNECTION_BYTES: u64 = 512;
/// Room is kept for this many connections, or for as many as a 32nd of memory holds: a cap of a million must not eat
/// a small budget unused. Open connections beyond that come on top of the budget.
const CONNECTIONS_RESERVED: u64 = 8192;
const CONNECTIONS_SHARE: u64 = 32;
/// Stack pages a thread touches, and its share of the allocator.
const THREAD_BYTES: u64 = 128 << 10;
/// The admin thread with its runtime and the connections it serves: after 240 requests for metrics, eight at a time, a
/// server had 0.3 MiB more resident.
const ADMIN_BYTES: u64 = 512 << 10;
/// Code and data of our own that are touched only later: pages of the executable that have not been read at the start. A
/// server that had served every kind of client (tests/budget.rs) had 0.2 MiB more of them resident than at the start.
const LATER_BYTES: u64 = 512 << 10;
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
            connections: connection_bytes(settings),
            pool: match settings.evict {
                true => reserved_bytes(settings.buffer_pool_bytes()),
                // A lease makes room by evicting: not where items were promised to stay.
                false => settings.buffer_pool_bytes(),
            },
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

fn connection_bytes(settings: &Settings) -> u64 {
    let most = (CONNECTIONS_RESERVED * CONNECTION_BYTES).max(settings.memory / CONNECTIONS_SHARE);
    (settings.connections_max as u64 * CONNECTION_BYTES).min(most)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pool_is_reserved_whole_where_nothing_may_be_evicted() {
        let pool = |evict| {
            let settings = Settings {
                memory: 1 << 30,
                evict,
                ..Settings::default()
            };
            Reserve::of(&settings).pool
        };
        assert_eq!((pool(true), pool(false)), (1 << 20, 16 << 20));
    }

    #[test]
    fn room_for_connections_follows_the_cap_within_reason() {
        let bytes = |connections_max, memory| {
            connection_bytes(&Settings {
                connections_max,
                memory,
                ..Settings::default()
            })
        };
        assert_eq!(bytes(1024, 64 << 20), 512 << 10);
        assert_eq!(bytes(100_000, 64 << 20), 4 << 20);
        assert_eq!(bytes(100_000, 4 << 30), 51_200_000);
        assert_eq!(bytes(1 << 24, 4 << 30), 128 << 20);
    }
}
