//! The rivals, each at the settings its own documentation recommends for a byte-bounded cache of byte strings:
//! keys `Box<[u8]>`, values `Bytes` copied in, weights in bytes, room for the expected items from the start,
//! the fast hasher where the default is a slow one. Public calls only.

mod foyer;
mod moka;
mod quick_cache;
mod segcache;

pub use foyer::Foyer;
pub use moka::Moka;
pub use quick_cache::QuickCache;
pub use segcache::{SegPolicy, Segcache};

/// Their key type. Values are `Bytes`.
type Key = Box<[u8]>;

/// What every rival is built from.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Bytes the weights may add up to.
    pub bytes: u64,
    /// Added to the weight of each item (0: payload only).
    pub charge_per_item: u32,
    /// Items expected when full, for sizing tables.
    pub items: u64,
    pub threads: usize,
    /// Largest value.
    pub value_bytes_max: u32,
    /// Shards; None: as many as the engine would make by itself for these threads.
    pub shards: Option<usize>,
}

impl Room {
    /// The weight of an item.
    #[inline]
    fn weight(&self, key: &[u8], value: &[u8]) -> u64 {
        (key.len() + value.len()) as u64 + u64::from(self.charge_per_item)
    }
}
