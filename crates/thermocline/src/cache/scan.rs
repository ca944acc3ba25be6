//! Walking over all items while the cache is used.
//!
//! The walk follows the order of the hash: it ends, an item that stays and is not rewritten comes exactly
//! once, and one that is stored, removed or overwritten meanwhile may or may not come.

use super::update::Change;
use super::value::{Guard, Meta};
use super::{Cache, Inner};
use crate::index::Cursor;
use crate::location::{Place, Slot};
use crate::store::Store;
use crate::sync::pause;
use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

/// A step ends when it has copied so many bytes of keys: a unit of keys of 64 KiB is shown in several steps.
const KEY_BYTES_MAX: usize = 128 << 10;

/// A walk that can be put aside between steps: it holds no lock, no pin and no item. Send.
pub struct Scan {
    inner: Arc<Inner>,
    cursor: Cursor,
    slots: Vec<Slot>,
    /// The keys of the unit, one after the other, and where each ends.
    keys: Vec<u8>,
    metas: Vec<(usize, Meta)>,
    heats: Vec<Heat>,
    shown: Shown,
}

/// What has been shown of a range of the index that one step did not come to the end of. An item is known again by the
/// place and birth of its record, and by its hash if it has moved meanwhile.
#[derive(Default)]
struct Shown {
    until: Option<Cursor>,
    records: HashSet<u64>,
    hashes: HashSet<u64>,
}

impl Shown {
    /// The walk has come to `cursor`: what lies before is not met again.
    fn forget_before(&mut self, cursor: Cursor) {
        if self.until.is_some_and(|until| cursor >= until) {
            *self = Shown::default();
        }
    }

    fn is_empty(&self) -> bool {
        self.until.is_none()
    }
}

/// How much an item is worth keeping: accesses lately, then the generation of its segment.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Heat {
    counter: u32,
    generation: u32,
}

impl Scan {
    /// Shows the items of the next unit of the index (up to 448, and no more than 192 KiB of keys) to `each`, which may
    /// take its time: keys and facts were copied before. False when the walk is over.
    pub fn step(&mut self, mut each: impl FnMut(&[u8], &Meta)) -> bool {
        self.step_with_heat(|key, meta, _| each(key, meta))
    }

    /// `step` that also says how hot each item is.
    pub(crate) fn step_with_heat(&mut self, mut each: impl FnMut(&[u8], &Meta, Heat)) -> bool {
        if !self.read_unit() {
            return false;
        }
        let mut from = 0;
        for ((to, meta), heat) in self.metas.iter().zip(&self.heats) {
            each(&self.keys[from..*to], meta, *heat);
            from = *to;
        }
        true
    }

    /// Copies keys and facts of one unit under one pin (30 to 100 us), so that no item moves away between
    /// its slot and its bytes. Stops at `KEY_BYTES_MAX`; then the next step looks at the unit again.
    fn read_unit(&mut self) -> bool {
        let store = &self.inner.store;
        let _pin = store.pin();
        self.slots.clear();
        self.keys.clear();
        self.metas.clear();
        self.heats.clear();
        let start = self.cursor;
        if !store.index.scan(&mut self.cursor, &mut self.slots) {
            return false;
        }
        self.shown.forget_before(start);
        let mut read = Vec::new();
        let mut slots = self.slots.iter();
        for slot in slots.by_ref() {
            let record = record_at(store, slot.place());
            if self.shown.records.contains(&record) {
                continue;
            }
            let (from, count) = (self.keys.len(), self.metas.len());
            let mut tries = 0;
            while !read_item(store, slot.place(), &mut self.keys, &mut self.metas) {
                tries += 1;
                pause(tries);
            }
            if self.metas.len() == count {
                continue;
            }
            if !self.shown.is_empty() {
                let hash = store.hash(&self.keys[from..]);
                if self.shown.hashes.contains(&hash) {
                    self.keys.truncate(from);
                    self.metas.pop();
                    continue;
                }
            }
            self.heats.push(Heat {
                counter: slot.counter(),
                generation: store.segments.of(slot.place()).generation(),
            });
            read.push(record);
            if self.keys.len() >= KEY_BYTES_MAX {
                break;
            }
        }
        if slots.len() > 0 {
            self.come_again(start, &read);
        }
        true
    }

    /// The step ends before its unit does: the next begins with the same unit.
    fn come_again(&mut self, start: Cursor, read: &[u64]) {
        let mut from = 0;
        for (to, _) in &self.metas {
            let hash = self.inner.store.hash(&self.keys[from..*to]);
            self.shown.hashes.insert(hash);
            from = *to;
        }
        self.shown.records.extend(read);
        self.shown.until = self.shown.until.max(Some(self.cursor));
        self.cursor = start;
    }

    /// How much of the walk is done, 0.0 to 1.0.
    pub fn progress(&self) -> f64 {
        self.cursor.progress(&self.inner.store.index)
    }
}

/// What no other record in the index is called, now or later: room that is used again has another version.
fn record_at(store: &Store, place: Place) -> u64 {
    let version = match store.segments.of(place).reuse_version() {
        0 => 0,
        _ => store.item(place).header().version(),
    };
    store.segments.token(place, version)
}

/// Copies key and facts of an item, unless it is gone. False: a writer raced.
fn read_item(
    store: &Store,
    place: Place,
    keys: &mut Vec<u8>,
    metas: &mut Vec<(usize, Meta)>,
) -> bool {
    let Some(seen) = store.see(place) else {
        return false;
    };
    let gone = store.is_gone(place, &seen.fields);
    let mut meta = Meta::new(&seen.fields, store.value_bytes(&seen), seen.layout.reserved);
    // To be shown, not to be relied on: it is not marked as handed out.
    meta.token = Some(store.token(&seen));
    if !seen.header.still(seen.item.header_after_copy()) {
        return false;
    }
    if !gone {
        seen.item.append_key(&seen.layout, keys);
        metas.push((keys.len(), meta));
    }
    true
}

/// Iterator over keys. See `Scan` for what it promises.
pub struct Keys {
    scan: Scan,
    ready: VecDeque<Vec<u8>>,
}

impl Iterator for Keys {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        while self.ready.is_empty() {
            let ready = &mut self.ready;
            if !self.scan.step(|key, _| ready.push_back(key.to_vec())) {
                return None;
            }
        }
        self.ready.pop_front()
    }
}

/// A removal under way in a thread of its own. Dropped, it stops at its next step.
#[must_use = "dropped, a removal stops at its next step: keep it, or join it"]
pub struct Removal {
    removed: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Removal {
    /// Items removed so far.
    pub fn removed(&self) -> u64 {
        self.removed.load(Ordering::Relaxed)
    }

    /// Waits for the end; how many items were removed. If the test panicked the removal ended there, and the panic
    /// goes on here.
    pub fn join(mut self) -> u64 {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
        self.removed()
    }
}

impl Drop for Removal {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.stop.store(true, Ordering::Relaxed);
            let _ = thread.join();
        }
    }
}

impl Cache {
    /// A walk over all items.
    pub fn scan(&self) -> Scan {
        Scan {
            inner: self.inner.clone(),
            cursor: Cursor::default(),
            slots: Vec::new(),
            keys: Vec::new(),
            metas: Vec::new(),
            heats: Vec::new(),
            shown: Shown::default(),
        }
    }

    /// All keys, safe under concurrent change.
    pub fn keys(&self) -> Keys {
        Keys {
            scan: self.scan(),
            ready: VecDeque::new(),
        }
    }

    /// Removes every item for which `test` says so, in a thread of its own. An item overwritten meanwhile is
    /// tested again. The test sees a copy of the value only if it asks for it.
    ///
    /// ```
    /// # use thermocline::{Cache, Config};
    /// # let cache = Cache::new(Config::new(16 << 20))?;
    /// cache.set(b"old 1", b"x")?;
    /// cache.set(b"new 1", b"x")?;
    /// let removal = cache.remove_if(|key, _, _| key.starts_with(b"old "))?;
    /// assert_eq!(removal.join(), 1);
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn remove_if(
        &self,
        test: impl Fn(&[u8], &Meta, &dyn Fn() -> Option<Guard>) -> bool + Send + 'static,
    ) -> std::io::Result<Removal> {
        let removed = Arc::new(AtomicU64::new(0));
        let stop = Arc::new(AtomicBool::new(false));
        let cache = self.clone();
        let (count, stopped) = (removed.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("thermocline-remove".into())
            .spawn(move || {
                let mut scan = cache.scan();
                let remove = |key: &[u8], meta: &Meta| {
                    let wanted = |meta: &Meta| test(key, meta, &|| cache.get(key));
                    if stopped.load(Ordering::Relaxed) || !wanted(meta) {
                        return;
                    }
                    // Asked again of the very version that goes.
                    let removed = cache.update(key, |view| match view {
                        Some(view) if wanted(view.meta) => (Change::Remove, 1),
                        _ => (Change::Keep, 0),
                    });
                    count.fetch_add(removed.map_or(0, |done| done.answer), Ordering::Relaxed);
                };
                while !stopped.load(Ordering::Relaxed) && scan.step(remove) {}
            })?;
        Ok(Removal {
            removed,
            stop,
            thread: Some(thread),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use std::collections::HashMap;

    /// Every key once, a bounded number of bytes a step, however long the keys: also while they move about.
    #[test]
    fn long_keys_are_shown_in_pieces_and_each_once() {
        let mut config = Config::new(256 << 20);
        config.background = false;
        let cache = Cache::new(config).expect("room");
        let key = |n: usize| format!("{n:07}").repeat(60_000 / 7).into_bytes();
        for n in 0..1500 {
            cache.set(&key(n), b"v").expect("stored");
            cache
                .set(format!("short{n}").as_bytes(), b"v")
                .expect("stored");
        }
        let mut scan = cache.scan();
        let mut seen: HashMap<Vec<u8>, u32> = HashMap::new();
        let mut steps = 0;
        loop {
            let mut bytes = 0;
            let more = scan.step(|key, _| {
                bytes += key.len();
                *seen.entry(key.to_vec()).or_default() += 1;
            });
            assert!(
                bytes < KEY_BYTES_MAX + crate::KEY_MAX,
                "{bytes} bytes in one step"
            );
            if !more {
                break;
            }
            steps += 1;
            // Rewritten under way: it may come or not, and it must not bring others twice.
            cache.set(&key(steps % 1500), b"w").expect("stored");
        }
        assert!(
            steps > 1500 * 60_000 / (KEY_BYTES_MAX + crate::KEY_MAX),
            "{steps} steps"
        );
        let stayed = (0..1500).map(|n| format!("short{n}").into_bytes());
        for key in stayed {
            assert_eq!(
                seen.get(&key),
                Some(&1),
                "{:?}",
                String::from_utf8_lossy(&key)
            );
        }
        assert!(seen.len() > 1500 && seen.values().all(|&times| times <= 2));
    }
}
