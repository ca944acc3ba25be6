//! Everyday read-modify-write on one key, over `update`.
//!
//! Owns convenience only: each method is one `update`, atomic by its retry. The closures may so run more
//! than once and must have no other effect than their answer.

use crate::cache::{Cache, Change, Expiry, NewValue, View};
use crate::error::Error;

/// One key of a cache, to be changed in place. Holds nothing: no lock, no pin.
pub struct Entry<'a> {
    cache: &'a Cache,
    key: &'a [u8],
    flags: u32,
    expiry: Expiry,
}

impl Cache {
    /// Shows what is under `key` to `decide` and does what it says, atomically. It may be asked again if
    /// another writer won. See `update` for a version with an answer.
    ///
    /// ```
    /// # use thermocline::{Cache, Change, Config, NewValue};
    /// # let cache = Cache::new(Config::new(16 << 20))?;
    /// cache.compute(b"visits", |view| {
    ///     let before = view.map_or(0, |view| view.value.len());
    ///     Change::Put(NewValue { value: vec![b'|'; before + 1], ..NewValue::default() })
    /// })?;
    /// assert_eq!(cache.get(b"visits").unwrap().to_vec(), b"|");
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn compute(
        &self,
        key: &[u8],
        mut decide: impl FnMut(Option<View<'_>>) -> Change,
    ) -> Result<(), Error> {
        self.update(key, |view| (decide(view), ())).map(|_| ())
    }

    /// The entry of `key`, there or not.
    ///
    /// ```
    /// # use thermocline::{Cache, Config};
    /// # let cache = Cache::new(Config::new(16 << 20))?;
    /// assert_eq!(cache.entry(b"k").or_set(b"first")?, b"first");
    /// assert_eq!(cache.entry(b"k").or_set(b"second")?, b"first");
    /// assert!(cache.entry(b"k").modify(|value| value.extend_from_slice(b"!"))?);
    /// assert_eq!(cache.entry(b"k").take()?.unwrap(), b"first!");
    /// # Ok::<(), thermocline::Error>(())
    /// ```
    pub fn entry<'a>(&'a self, key: &'a [u8]) -> Entry<'a> {
        Entry {
            cache: self,
            key,
            flags: 0,
            expiry: Expiry::Default,
        }
    }
}

impl Entry<'_> {
    /// Client flags of a value this entry stores anew.
    pub fn flags(mut self, flags: u32) -> Self {
        self.flags = flags;
        self
    }

    /// Expiry of a value this entry stores anew.
    pub fn expiry(mut self, expiry: Expiry) -> Self {
        self.expiry = expiry;
        self
    }

    /// The value; if there is none, `value` is stored first.
    pub fn or_set(self, value: &[u8]) -> Result<Vec<u8>, Error> {
        self.or_set_with(|| value.to_vec())
    }

    /// The value; if there is none, what `make` makes is stored first. Several callers may make one at
    /// the same time, and the first stored is what all get. For costly ones see `get_or_load`.
    pub fn or_set_with(self, mut make: impl FnMut() -> Vec<u8>) -> Result<Vec<u8>, Error> {
        let updated = self.cache.update(self.key, |view| match view {
            Some(view) => (Change::Keep, view.value.to_vec()),
            None => {
                let value = make();
                (self.put(value.clone()), value)
            }
        })?;
        Ok(updated.answer)
    }

    /// Changes the value that is there; flags and expiry stay. False if nothing is.
    pub fn modify(self, mut change: impl FnMut(&mut Vec<u8>)) -> Result<bool, Error> {
        let updated = self.cache.update(self.key, |view| {
            let Some(view) = view else {
                return (Change::Keep, false);
            };
            let mut value = view.value.to_vec();
            change(&mut value);
            let put = NewValue {
                value,
                flags: view.meta.flags,
                expiry: view.meta.expires_at_ms.map_or(Expiry::Never, Expiry::AtMs),
                token: None,
                marks: view.meta.marks.unwrap_or_default(),
            };
            (Change::Put(put), true)
        })?;
        Ok(updated.answer)
    }

    /// Stores `value` and hands back the one that was there.
    pub fn swap(self, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let updated = self.cache.update(self.key, |view| {
            let old = view.map(|view| view.value.to_vec());
            (self.put(value.to_vec()), old)
        })?;
        Ok(updated.answer)
    }

    /// Removes the item and hands back its value.
    pub fn take(self) -> Result<Option<Vec<u8>>, Error> {
        let updated = self.cache.update(self.key, |view| {
            (Change::Remove, view.map(|view| view.value.to_vec()))
        })?;
        Ok(updated.answer)
    }

    fn put(&self, value: Vec<u8>) -> Change {
        Change::Put(NewValue {
            value,
            flags: self.flags,
            expiry: self.expiry,
            ..NewValue::default()
        })
    }
}

impl std::fmt::Debug for Entry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Entry")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}
