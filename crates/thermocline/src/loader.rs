//! `get_or_load`: values made on a miss, one load a key, however many ask.
//!
//! ```text
//!  load      refresh ahead        soft expiry       grace            hard expiry
//!   |-- fresh ----|-- fresh, one refreshes --|-- stale, one refreshes --|-- gone: one loads, all wait --
//! ```
//! The cache stores the hard expiry only; the soft one is the hard one less `LoadOptions::grace`. Owns the
//! steps of a load and what its callers get. Leaves the records of loads under way to `flight`.
//!
//! Must hold: a failure is never stored. A loaded value never overwrites what others wrote while it was
//! loaded: a first load adds, a refresh replaces the very version it found stale.

use crate::cache::{Cache, Expiry, Guard, Meta, Mode, SetOptions, Want};
use crate::error::Error;
use crate::flight::{Flight, Lead, Outcome, Part};
use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// How loaded values are stored, and when they are loaded anew. Use the same for all loads of a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadOptions {
    /// When a loaded value gets stale (its soft expiry).
    pub expiry: Expiry,
    /// For how long after that it may still be served while one caller loads it anew. It stays in the
    /// cache for so much longer.
    pub grace: Duration,
    /// For how long before its soft expiry a read may load it anew, on the reading caller's time.
    pub refresh_ahead: Duration,
    /// The client flags to store with it.
    pub flags: u32,
}

/// Where a value came from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The cache.
    Cached,
    /// The cache, past its soft expiry: somebody else is loading it anew.
    Stale,
    /// The caller's own loader.
    Loaded,
    /// Another caller's loader, waited for.
    Shared,
}

/// A value and where it came from. Values of one load share their bytes. Send.
#[derive(Debug)]
pub struct Loaded {
    bytes: Bytes,
    origin: Origin,
}

#[derive(Debug)]
enum Bytes {
    Cached(Guard),
    Made(Arc<Vec<u8>>),
}

impl Loaded {
    /// The value: borrowed unless a large one is stored in several pieces.
    pub fn as_slice(&self) -> Cow<'_, [u8]> {
        match &self.bytes {
            Bytes::Cached(guard) => guard.as_slice(),
            Bytes::Made(value) => Cow::Borrowed(value.as_slice()),
        }
    }

    /// The value as its own vector; copies unless nobody else has it.
    pub fn into_vec(self) -> Vec<u8> {
        match self.bytes {
            Bytes::Cached(guard) => guard.to_vec(),
            Bytes::Made(value) => Arc::try_unwrap(value).unwrap_or_else(|shared| shared.to_vec()),
        }
    }

    /// Bytes of the value.
    pub fn len(&self) -> usize {
        match &self.bytes {
            Bytes::Cached(guard) => guard.len(),
            Bytes::Made(value) => value.len(),
        }
    }

    /// Whether the value is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where it came from.
    pub fn origin(&self) -> Origin {
        self.origin
    }

    /// Facts of the item, if it came from the cache.
    pub fn meta(&self) -> Option<&Meta> {
        match &self.bytes {
            Bytes::Cached(guard) => Some(guard.meta()),
            Bytes::Made(_) => None,
        }
    }

    pub(crate) fn made(value: Arc<Vec<u8>>, origin: Origin) -> Loaded {
        Loaded {
            bytes: Bytes::Made(value),
            origin,
        }
    }

    fn cached(guard: Guard, origin: Origin) -> Loaded {
        Loaded {
            bytes: Bytes::Cached(guard),
            origin,
        }
    }
}

/// Why there is no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError<E> {
    /// The loader failed: this caller's or the one it waited for. Nothing was stored; the next call loads.
    Failed(Arc<E>),
    /// The loader of another caller panicked. Nothing was stored; the next call loads.
    Panicked,
    /// The loader asked for the key it is loading. It would have waited for itself.
    Recursive,
    /// The cache takes no such key. The loader was not called.
    Refused(Error),
}

impl<E: fmt::Display> fmt::Display for LoadError<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Failed(error) => write!(f, "the loader failed: {error}"),
            LoadError::Panicked => write!(f, "the loader panicked in another caller; call again"),
            LoadError::Recursive => write!(
                f,
                "the loader asked for the key it is loading: read it by get instead"
            ),
            LoadError::Refused(error) => write!(f, "{error}"),
        }
    }
}

impl<E: std::error::Error + 'static> std::error::Error for LoadError<E> {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Failed(error) => Some(&**error),
            LoadError::Refused(error) => Some(error),
            LoadError::Panicked | LoadError::Recursive => None,
        }
    }
}

/// What a caller has to do next.
pub(crate) enum Turn<'a> {
    Have(Loaded),
    /// Load; the mode to store in.
    Load(Lead<'a>, Mode),
    Wait(Arc<Flight>),
    Recursive,
}

/// How an item stands between its times.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Age {
    Fresh,
    /// Fresh, and near enough to its soft expiry.
    Ahead,
    Stale,
}

impl LoadOptions {
    fn age(&self, meta: &Meta, now_ms: impl FnOnce() -> u64) -> Age {
        let Some(hard_ms) = meta.expires_at_ms else {
            return Age::Fresh;
        };
        if self.grace.is_zero() && self.refresh_ahead.is_zero() {
            return Age::Fresh;
        }
        let soft_ms = hard_ms.saturating_sub(millis(self.grace));
        let now_ms = now_ms();
        if now_ms >= soft_ms {
            Age::Stale
        } else if now_ms.saturating_add(millis(self.refresh_ahead)) >= soft_ms {
            Age::Ahead
        } else {
            Age::Fresh
        }
    }
}

fn millis(time: Duration) -> u64 {
    time.as_millis().min(u64::MAX as u128) as u64
}

impl Cache {
    /// How many callers wait for the load of `key` that is under way; 0 where there is none. Takes one lock for some
    /// instructions.
    pub fn load_waiters(&self, key: &[u8]) -> usize {
        let hash = self.inner.store.hash(key);
        self.inner.loads.waiters(hash, key)
    }

    /// The value of `key`; on a miss, what `loader` makes, stored for the next to come.
    ///
    /// However many callers miss a key at once, one loader runs, on its caller's thread; the others sleep
    /// until it has ended and get its value (or its error) even if the item has been removed again.
    /// A failure is not stored. If the loader panics, the panic goes on in its caller and the others get
    /// `LoadError::Panicked`. A value the cache has no room for is handed out all the same.
    ///
    /// Within `grace` after the soft expiry one caller loads anew and all others get the stale value; if
    /// that load fails its caller gets the error, and `get` still has the stale value until the grace is
    /// over. Within `refresh_ahead` before it one caller loads anew and all others read on.
    ///
    /// A loader that asks for its own key gets `LoadError::Recursive`. Loaders of two threads that ask
    /// for each other's keys wait for ever, as with any two locks taken in different orders. Callers that
    /// wait for a load whose error is of another type than theirs do their own load after it failed.
    /// A `delete` while a first load is under way does not keep the loaded value from being stored.
    pub fn get_or_load<E, F>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        loader: F,
    ) -> Result<Loaded, LoadError<E>>
    where
        E: Send + Sync + 'static,
        F: FnOnce() -> Result<Vec<u8>, E>,
    {
        let mut first = true;
        loop {
            match self.turn(key, options, first)? {
                Turn::Have(value) => return Ok(value),
                Turn::Recursive => return Err(LoadError::Recursive),
                Turn::Wait(flight) => {
                    if let Some(shared) = shared(flight.wait()) {
                        return shared;
                    }
                }
                Turn::Load(mut lead, mode) => {
                    lead.enter();
                    let made = loader();
                    return self.end_load(key, options, lead, mode, made);
                }
            }
            first = false;
        }
    }

    /// Reads, and says what there is to do. `count`: as a hit or a miss, and as an access.
    pub(crate) fn turn<'a, E>(
        &'a self,
        key: &'a [u8],
        options: &LoadOptions,
        count: bool,
    ) -> Result<Turn<'a>, LoadError<E>> {
        self.inner.check_key(key).map_err(LoadError::Refused)?;
        let hash = self.inner.store.hash(key);
        let now_ms = || self.now_ms();
        let loads = &self.inner.loads;
        if let Some(guard) = self.look(hash, key, count, false) {
            let age = options.age(guard.meta(), now_ms);
            let origin = match age {
                Age::Fresh => return Ok(Turn::Have(Loaded::cached(guard, Origin::Cached))),
                Age::Ahead => Origin::Cached,
                Age::Stale => Origin::Stale,
            };
            return Ok(match loads.lead(hash, key) {
                None => Turn::Have(Loaded::cached(guard, origin)),
                Some(lead) => self.confirm(hash, key, options, lead),
            });
        }
        Ok(match loads.join(hash, key) {
            Part::Wait(flight) if flight.runs_here() => Turn::Recursive,
            Part::Wait(flight) => Turn::Wait(flight),
            Part::Lead(lead) => self.confirm(hash, key, options, lead),
        })
    }

    /// Looks again now that nobody else can be loading: another load may have ended between the first
    /// look and the claim, and then there is nothing to do.
    fn confirm<'a>(
        &'a self,
        hash: u64,
        key: &[u8],
        options: &LoadOptions,
        lead: Lead<'a>,
    ) -> Turn<'a> {
        let Some(guard) = self.look(hash, key, false, true) else {
            return Turn::Load(lead, Mode::Add);
        };
        if options.age(guard.meta(), || self.now_ms()) == Age::Fresh {
            lead.end(Outcome::Abandoned);
            return Turn::Have(Loaded::cached(guard, Origin::Cached));
        }
        let token = guard.meta().token.expect("the look asked for the token");
        Turn::Load(lead, Mode::CompareAndSet(token))
    }

    fn look(&self, hash: u64, key: &[u8], count: bool, token: bool) -> Option<Guard> {
        let want = Want {
            token,
            mark: count,
            count,
        };
        self.get_as(hash, key, want)
    }

    /// Stores what the loader made and wakes who waits for it.
    pub(crate) fn end_load<E: Send + Sync + 'static>(
        &self,
        key: &[u8],
        options: &LoadOptions,
        lead: Lead<'_>,
        mode: Mode,
        made: Result<Vec<u8>, E>,
    ) -> Result<Loaded, LoadError<E>> {
        match made {
            Ok(value) => {
                // No room, too large, or written by others meanwhile: the value is good all the same.
                let _ = self.set_with(key, &value, &self.load_set_options(options, mode));
                let value = Arc::new(value);
                lead.end(Outcome::Value(value.clone()));
                Ok(Loaded::made(value, Origin::Loaded))
            }
            Err(error) => {
                let error = Arc::new(error);
                lead.end(Outcome::Failed(error.clone()));
                Err(LoadError::Failed(error))
            }
        }
    }

    fn load_set_options(&self, options: &LoadOptions, mode: Mode) -> SetOptions {
        let expiry = match self.inner.expires_ms(options.expiry) {
            0 => Expiry::Never,
            soft_ms => Expiry::AtMs(soft_ms.saturating_add(millis(options.grace))),
        };
        SetOptions {
            flags: options.flags,
            expiry,
            mode,
            ..SetOptions::default()
        }
    }
}

/// What a waiter gets of another's load. None: look again.
pub(crate) fn shared<E: Send + Sync + 'static>(
    outcome: Outcome,
) -> Option<Result<Loaded, LoadError<E>>> {
    match outcome {
        Outcome::Value(value) => Some(Ok(Loaded::made(value, Origin::Shared))),
        Outcome::Panicked => Some(Err(LoadError::Panicked)),
        Outcome::Failed(error) => error.downcast().ok().map(|e| Err(LoadError::Failed(e))),
        Outcome::Abandoned => None,
    }
}
