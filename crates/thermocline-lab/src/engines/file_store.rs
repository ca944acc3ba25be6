//! Rows in one file, read and written through the kernel's page cache, beside a heap that every read touches: a database as
//! the kernel sees one. The kernel decides which of its pages stay, so that the kernel's own reclaim can be measured under the
//! same operations as a cache.
//!
//! Must hold: a row is never read while it is written (one lock a shard is held across the call), and the file is gone with the
//! process, however that ends.

use super::engine::{Engine, Found, Reading};
use crate::workload::{mix, STAMP_BYTES};
use anyhow::{bail, Context, Result};
use rustix::fs::{fadvise, fallocate, Advice, FallocateFlags};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::RwLock;

/// Locks for the index and the rows behind it.
const SHARDS: usize = 256;
/// Rows begin at multiples of this, bytes: a database packs its rows closer than pages.
const ALIGN_BYTES: u64 = 64;
const PAGE_BYTES: usize = 4096;

/// What it is to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileStoreSize {
    pub directory: PathBuf,
    pub rows: u64,
    pub row_bytes_max: u32,
    /// Memory of its own beside the index, touched page by page.
    pub heap_bytes: u64,
}

/// Where a row lies and how long it is.
#[derive(Clone, Copy, Debug)]
struct Place {
    slot: u64,
    bytes: u32,
}

type Shard = RwLock<HashMap<Box<[u8]>, Place, ahash::RandomState>>;

pub struct FileStore {
    file: File,
    slot_bytes: u64,
    slots: u64,
    /// Slots given out; one that was deleted is not given out again.
    used: AtomicU64,
    shards: Vec<Shard>,
    hasher: ahash::RandomState,
    heap: Vec<u8>,
    read_bytes: AtomicU64,
    failed: AtomicU64,
}

impl FileStore {
    /// Reserves the file's blocks and writes the heap once.
    pub fn new(size: &FileStoreSize) -> Result<Self> {
        let slot_bytes = u64::from(size.row_bytes_max.max(1)).next_multiple_of(ALIGN_BYTES);
        let Some(file_bytes) = slot_bytes.checked_mul(size.rows.max(1)) else {
            bail!("{} rows of {slot_bytes} bytes are too many", size.rows);
        };
        let heap = usize::try_from(size.heap_bytes).context("`subject.heap`")?;
        Ok(FileStore {
            file: unnamed(&size.directory, file_bytes)?,
            slot_bytes,
            slots: size.rows.max(1),
            used: AtomicU64::new(0),
            shards: (0..SHARDS).map(|_| Shard::default()).collect(),
            hasher: ahash::RandomState::new(),
            heap: (0..heap).map(|at| at as u8 | 1).collect(),
            read_bytes: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        })
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }

    /// Reads a byte of the heap page that the key leads to.
    fn touch_heap(&self, key: &[u8]) {
        if self.heap.is_empty() {
            return;
        }
        let page = mix(self.hasher.hash_one(key)) as usize % self.heap.len().div_ceil(PAGE_BYTES);
        std::hint::black_box(self.heap[page * PAGE_BYTES]);
    }

    fn count_failure<T>(&self, done: std::io::Result<T>) -> Option<T> {
        if done.is_err() {
            self.failed.fetch_add(1, Ordering::Relaxed);
        }
        done.ok()
    }
}

/// A file of its own without a name.
fn unnamed(directory: &Path, bytes: u64) -> Result<File> {
    let shown = directory.display();
    let file = tempfile::tempfile_in(directory)
        .with_context(|| format!("`subject.directory`: no file can be made in {shown}"))?;
    fallocate(&file, FallocateFlags::empty(), 0, bytes)
        .with_context(|| format!("`subject.directory`: no room for {bytes} bytes in {shown}"))?;
    // Rows are asked for one by one: pages read ahead would be the kernel's guess, not the workload's wish.
    fadvise(&file, 0, None, Advice::Random).context("POSIX_FADV_RANDOM")?;
    Ok(file)
}

impl Engine for FileStore {
    fn get(&self, key: &[u8], reading: Reading, out: &mut Vec<u8>) -> Option<Found> {
        self.touch_heap(key);
        let rows = self.shard(key).read().unwrap_or_else(|p| p.into_inner());
        let place = *rows.get(key)?;
        let bytes = match reading {
            Reading::Copy => place.bytes as usize,
            Reading::Head => (place.bytes as usize).min(STAMP_BYTES),
        };
        out.resize(bytes, 0);
        self.count_failure(self.file.read_exact_at(out, place.slot * self.slot_bytes))?;
        self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        Some(Found {
            value_bytes: place.bytes as usize,
            ..Found::of(out)
        })
    }

    fn set(&self, key: &[u8], value: &[u8]) -> bool {
        if value.len() as u64 > self.slot_bytes {
            return false;
        }
        let mut rows = self.shard(key).write().unwrap_or_else(|p| p.into_inner());
        let known = rows.get(key).copied();
        let slot = match known {
            Some(place) => place.slot,
            None => {
                let slot = self.used.fetch_add(1, Ordering::Relaxed);
                if slot >= self.slots {
                    return false;
                }
                slot
            }
        };
        let written = self.file.write_all_at(value, slot * self.slot_bytes);
        if self.count_failure(written).is_none() {
            return false;
        }
        let bytes = value.len() as u32;
        match rows.get_mut(key) {
            Some(place) => place.bytes = bytes,
            None => drop(rows.insert(key.into(), Place { slot, bytes })),
        }
        true
    }

    fn contains(&self, key: &[u8]) -> bool {
        let rows = self.shard(key).read().unwrap_or_else(|p| p.into_inner());
        rows.contains_key(key)
    }

    fn delete(&self, key: &[u8]) -> bool {
        let mut rows = self.shard(key).write().unwrap_or_else(|p| p.into_inner());
        rows.remove(key).is_some()
    }

    fn counters(&self) -> BTreeMap<String, f64> {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed) as f64;
        [
            ("engine_read_bytes_total", count(&self.read_bytes)),
            ("engine_failed_calls_total", count(&self.failed)),
        ]
        .map(|(name, value)| (name.to_string(), value))
        .into()
    }

    fn facts(&self) -> BTreeMap<String, Value> {
        [
            ("file_bytes", self.slots * self.slot_bytes),
            ("row_bytes", self.slot_bytes),
            ("heap_bytes", self.heap.len() as u64),
        ]
        .map(|(name, value)| (name.to_string(), Value::from(value)))
        .into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn store(rows: u64, row_bytes_max: u32) -> FileStore {
        FileStore::new(&FileStoreSize {
            directory: std::env::temp_dir(),
            rows,
            row_bytes_max,
            heap_bytes: 10_000,
        })
        .unwrap()
    }

    #[test]
    fn rows_come_back_as_written_whatever_their_neighbours() {
        let store = store(3, 100);
        let mut out = Vec::new();
        for (key, fill, bytes) in [("a", 1u8, 100), ("b", 2, 64), ("c", 3, 1), ("b", 4, 90)] {
            assert!(store.set(key.as_bytes(), &vec![fill; bytes]));
        }
        for (key, fill, bytes) in [("a", 1u8, 100), ("b", 4, 90), ("c", 3, 1)] {
            let found = store.get(key.as_bytes(), Reading::Copy, &mut out).unwrap();
            assert_eq!((found.value_bytes, out.clone()), (bytes, vec![fill; bytes]));
            let found = store.get(key.as_bytes(), Reading::Head, &mut out).unwrap();
            assert_eq!((found.value_bytes, found.head[0]), (bytes, fill));
        }
        assert!(store.get(b"d", Reading::Copy, &mut out).is_none());
        assert!(store.delete(b"a") && !store.delete(b"a") && !store.contains(b"a"));
    }

    #[test]
    fn what_has_no_room_is_refused() {
        let store = store(1, 64);
        assert!(!store.set(b"a", &[0; 65]), "longer than a row");
        assert!(store.set(b"a", &[0; 64]));
        assert!(!store.set(b"b", &[0; 1]), "one row more");
        assert!(store.set(b"a", &[1; 10]), "its own place");
        let nowhere = FileStore::new(&FileStoreSize {
            directory: "/no/such/directory".into(),
            rows: 1,
            row_bytes_max: 1,
            heap_bytes: 0,
        });
        let error = format!("{:#}", nowhere.err().unwrap());
        assert!(
            error.contains("`subject.directory`") && error.contains("/no/such"),
            "{error}"
        );
    }
}
