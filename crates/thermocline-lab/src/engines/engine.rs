//! What every engine in this process is asked, and nothing more: get, set, contains, delete, and figures.
//! Values are checked through this door too: a hit returns the value's first bytes.

use crate::workload::{Stamp, STAMP_BYTES};
use serde_json::Value;
use std::collections::BTreeMap;

/// What a hit is made to do with the value.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Reading {
    /// Look at the first 8 bytes, through the cheapest door the engine has
    Head,
    /// Copy the whole value into the caller's buffer
    Copy,
}

/// A hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub value_bytes: usize,
    pub head: Stamp,
}

impl Found {
    /// From a borrowed value; with [`Reading::Copy`] the value is copied to `out` first.
    #[inline]
    pub fn read(value: &[u8], reading: Reading, out: &mut Vec<u8>) -> Found {
        if reading == Reading::Copy {
            out.clear();
            out.extend_from_slice(value);
            return Found::of(out);
        }
        Found::of(value)
    }

    #[inline]
    pub fn of(value: &[u8]) -> Found {
        let mut head = [0; STAMP_BYTES];
        let bytes = value.len().min(STAMP_BYTES);
        head[..bytes].copy_from_slice(&value[..bytes]);
        Found {
            value_bytes: value.len(),
            head,
        }
    }
}

/// One engine, shared by all threads.
pub trait Engine: Send + Sync {
    fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found>;

    /// False if the engine refused it.
    fn set(&self, key: &[u8], value: &[u8]) -> bool;

    /// Is the key there? Must not count as an access where the engine lets us ask so.
    fn contains(&self, key: &[u8]) -> bool;

    /// Removes it; false if it was not there.
    fn delete(&self, key: &[u8]) -> bool;

    /// Finish what the engine does later (queued evictions), before its state is read.
    fn settle(&self) {}

    /// What only some engines can say of themselves.
    fn own_figures(&self) -> OwnFigures {
        OwnFigures::default()
    }

    /// Figures it keeps anyway, by name: cheap enough to be asked a few times a second.
    fn counters(&self) -> BTreeMap<String, f64> {
        BTreeMap::new()
    }

    /// Settings in force, and what it got.
    fn facts(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }
}

/// Figures an engine gives of itself; absent where it gives none.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct OwnFigures {
    /// Index, headers, padding, policy memory: everything that is not key and value, bytes an item.
    pub metadata_bytes_per_item: Option<f64>,
    /// Overwrites of equal size, and those that happened in place.
    pub overwrites: Option<u64>,
    pub overwrites_in_place: Option<u64>,
    /// Writes refused for want of room, and because of their size.
    pub refused_room: Option<u64>,
    pub refused_size: Option<u64>,
    /// Live bytes over the bytes of all segments, free ones included.
    pub live_ratio: Option<f64>,
}

/// An engine for tests of what drives engines.
#[cfg(test)]
pub mod testing {
    use super::*;
    use std::collections::HashMap;
    use std::sync::Mutex;

    /// A map that spoils every hit or refuses every write, if told to.
    #[derive(Default)]
    pub struct Map {
        pub items: Mutex<HashMap<Vec<u8>, Vec<u8>>>,
        pub spoils: bool,
        pub refuses: bool,
    }

    impl Engine for Map {
        fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found> {
            let mut value = self.items.lock().unwrap().get(key)?.clone();
            value[0] ^= u8::from(self.spoils);
            Some(Found::read(&value, reading, out))
        }

        fn set(&self, key: &[u8], value: &[u8]) -> bool {
            if !self.refuses {
                let (key, value) = (key.to_vec(), value.to_vec());
                self.items.lock().unwrap().insert(key, value);
            }
            !self.refuses
        }

        fn contains(&self, key: &[u8]) -> bool {
            self.items.lock().unwrap().contains_key(key)
        }

        fn delete(&self, key: &[u8]) -> bool {
            self.items.lock().unwrap().remove(key).is_some()
        }
    }
}
