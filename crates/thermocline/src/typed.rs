//! Caches of Rust values: a codec turns keys and values into bytes and back.
//!
//! Owns what happens when a codec fails. Encoding: the error goes to the caller and the cache is left as it
//! was. Decoding: bytes of another program version, say. `get` takes them for a miss, counts them and
//! removes that version, so that the caller's refill takes its place; `try_get` gives the error instead and
//! leaves the item.

use crate::cache::{Cache, Expiry, Guard, Mode, SetOptions, Stored, Want};
use crate::error::Error;
use crate::loader::{LoadError, LoadOptions};
use std::convert::Infallible;
use std::fmt;
use std::marker::PhantomData;
use std::string::FromUtf8Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::Arc;

/// Turns keys of type `K` and values of type `V` into bytes and back.
///
/// Equal keys must give equal bytes, and different keys different ones.
pub trait Codec<K: ?Sized, V> {
    /// What can go wrong.
    type Error;
    /// Appends the key's bytes.
    fn encode_key(&self, key: &K, out: &mut Vec<u8>) -> Result<(), Self::Error>;
    /// Appends the value's bytes.
    fn encode_value(&self, value: &V, out: &mut Vec<u8>) -> Result<(), Self::Error>;
    /// A value from its bytes, which may be any bytes at all.
    fn decode_value(&self, bytes: &[u8]) -> Result<V, Self::Error>;
}

/// Keys that are bytes (or text), values that are bytes or text, stored as they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Plain;

impl<K: AsRef<[u8]> + ?Sized> Codec<K, Vec<u8>> for Plain {
    type Error = Infallible;

    fn encode_key(&self, key: &K, out: &mut Vec<u8>) -> Result<(), Infallible> {
        out.extend_from_slice(key.as_ref());
        Ok(())
    }

    fn encode_value(&self, value: &Vec<u8>, out: &mut Vec<u8>) -> Result<(), Infallible> {
        out.extend_from_slice(value);
        Ok(())
    }

    fn decode_value(&self, bytes: &[u8]) -> Result<Vec<u8>, Infallible> {
        Ok(bytes.to_vec())
    }
}

impl<K: AsRef<[u8]> + ?Sized> Codec<K, String> for Plain {
    type Error = FromUtf8Error;

    fn encode_key(&self, key: &K, out: &mut Vec<u8>) -> Result<(), FromUtf8Error> {
        out.extend_from_slice(key.as_ref());
        Ok(())
    }

    fn encode_value(&self, value: &String, out: &mut Vec<u8>) -> Result<(), FromUtf8Error> {
        out.extend_from_slice(value.as_bytes());
        Ok(())
    }

    fn decode_value(&self, bytes: &[u8]) -> Result<String, FromUtf8Error> {
        String::from_utf8(bytes.to_vec())
    }
}

/// Everything serde can write and read, in postcard's format: compact, and without names, so that a
/// changed type needs a changed key (a version in it) or a flushed cache.
#[cfg(feature = "serde")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Postcard;

#[cfg(feature = "serde")]
impl<K, V> Codec<K, V> for Postcard
where
    K: serde::Serialize + ?Sized,
    V: serde::Serialize + serde::de::DeserializeOwned,
{
    type Error = postcard::Error;

    fn encode_key(&self, key: &K, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
        postcard::to_io(key, out).map(|_| ())
    }

    fn encode_value(&self, value: &V, out: &mut Vec<u8>) -> Result<(), postcard::Error> {
        postcard::to_io(value, out).map(|_| ())
    }

    /// Bytes left over are an error: the value was of another type.
    fn decode_value(&self, bytes: &[u8]) -> Result<V, postcard::Error> {
        match postcard::take_from_bytes(bytes)? {
            (value, []) => Ok(value),
            _ => Err(postcard::Error::DeserializeBadEncoding),
        }
    }
}

/// Why a typed operation was refused.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedError<C> {
    /// The codec could not turn a key or a value into bytes, or bytes into a value.
    Codec(C),
    /// The cache refused.
    Cache(Error),
}

/// Why a typed load has no value.
#[derive(Debug)]
#[non_exhaustive]
pub enum TypedLoadError<E, C> {
    /// The loader failed.
    Loader(E),
    /// The codec failed on what it made, or on the key.
    Codec(C),
}

impl<C: fmt::Display> fmt::Display for TypedError<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypedError::Codec(error) => write!(f, "codec: {error}"),
            TypedError::Cache(error) => write!(f, "{error}"),
        }
    }
}

impl<E: fmt::Display, C: fmt::Display> fmt::Display for TypedLoadError<E, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TypedLoadError::Loader(error) => write!(f, "{error}"),
            TypedLoadError::Codec(error) => write!(f, "codec: {error}"),
        }
    }
}

impl<C: fmt::Debug + fmt::Display> std::error::Error for TypedError<C> {}
impl<E: fmt::Debug + fmt::Display, C: fmt::Debug + fmt::Display> std::error::Error
    for TypedLoadError<E, C>
{
}

/// A cache of values of type `V` under keys of type `K`. Handles are cheap to clone.
///
/// ```
/// use thermocline::{Cache, Config, Plain, Typed};
/// let cache = Cache::new(Config::new(16 << 20)).unwrap();
/// let names: Typed<str, String, Plain> = Typed::new(cache, Plain);
/// names.set("fi", &"Suomi".to_string()).unwrap();
/// assert_eq!(names.get("fi").as_deref(), Some("Suomi"));
/// ```
pub struct Typed<K: ?Sized, V, C> {
    cache: Cache,
    codec: Arc<C>,
    undecodable: Arc<AtomicU64>,
    types: PhantomData<fn(&K) -> V>,
}

impl<K: ?Sized, V, C> Clone for Typed<K, V, C> {
    fn clone(&self) -> Self {
        Typed {
            cache: self.cache.clone(),
            codec: self.codec.clone(),
            undecodable: self.undecodable.clone(),
            types: PhantomData,
        }
    }
}

impl<K: ?Sized, V, C> fmt::Debug for Typed<K, V, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Typed")
            .field("cache", &self.cache)
            .finish_non_exhaustive()
    }
}

impl<K: ?Sized, V, C: Codec<K, V>> Typed<K, V, C> {
    /// Puts types on a cache. Several typed views of one cache share its keys: keep them apart yourself.
    pub fn new(cache: Cache, codec: C) -> Self {
        Typed {
            cache,
            codec: Arc::new(codec),
            undecodable: Arc::new(AtomicU64::new(0)),
            types: PhantomData,
        }
    }

    /// The cache below.
    pub fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Values found that did not decode, since this view (or what it was cloned from) was made.
    pub fn undecodable(&self) -> u64 {
        self.undecodable.load(Ordering::Relaxed)
    }

    /// The value of `key`. One that does not decode is a miss, counted and removed; so is a key that
    /// does not encode (a miss only).
    pub fn get(&self, key: &K) -> Option<V> {
        let bytes = self.key(key).ok()?;
        let guard = self.cache.get(&bytes)?;
        match self.decode(&guard) {
            Ok(value) => Some(value),
            Err(_) => {
                self.forget(&bytes);
                None
            }
        }
    }

    /// The value of `key`, or why it could not be read. Removes nothing.
    pub fn try_get(&self, key: &K) -> Result<Option<V>, TypedError<C::Error>> {
        let bytes = self.key(key)?;
        match self.cache.get(&bytes) {
            None => Ok(None),
            Some(guard) => self.decode(&guard).map(Some).map_err(TypedError::Codec),
        }
    }

    /// Stores `value` under `key`.
    pub fn set(&self, key: &K, value: &V) -> Result<(), TypedError<C::Error>> {
        self.set_with(key, value, &SetOptions::default())
            .map(|_| ())
    }

    /// Stores `value` on a condition, with flags and expiry. Append and prepend join encoded bytes, which
    /// few codecs can read.
    pub fn set_with(
        &self,
        key: &K,
        value: &V,
        options: &SetOptions,
    ) -> Result<Stored, TypedError<C::Error>> {
        let key = self.key(key)?;
        let value = self.value(value).map_err(TypedError::Codec)?;
        self.cache
            .set_with(&key, &value, options)
            .map_err(TypedError::Cache)
    }

    /// Stores `value` if `key` is not there.
    pub fn add(&self, key: &K, value: &V) -> Result<bool, TypedError<C::Error>> {
        let options = SetOptions {
            mode: Mode::Add,
            ..SetOptions::default()
        };
        Ok(self.set_with(key, value, &options)?.is_stored())
    }

    /// Whether `key` is there.
    pub fn contains(&self, key: &K) -> Result<bool, TypedError<C::Error>> {
        Ok(self.cache.contains(&self.key(key)?))
    }

    /// Removes `key`; whether it was there.
    pub fn delete(&self, key: &K) -> Result<bool, TypedError<C::Error>> {
        Ok(self.cache.delete(&self.key(key)?))
    }

    /// Gives `key` another expiry; false if it is not there.
    pub fn touch(&self, key: &K, expiry: Expiry) -> Result<bool, TypedError<C::Error>> {
        let key = self.key(key)?;
        self.cache.touch(&key, expiry).map_err(TypedError::Cache)
    }

    /// `Cache::get_or_load` with values. The caller that loads gets what its loader made, all others what
    /// its bytes decode to. A cached value that does not decode is counted, removed and loaded anew.
    #[allow(clippy::type_complexity)]
    pub fn get_or_load<E>(
        &self,
        key: &K,
        options: &LoadOptions,
        loader: impl FnOnce() -> Result<V, E>,
    ) -> Result<V, LoadError<TypedLoadError<E, C::Error>>>
    where
        E: Send + Sync + 'static,
        C::Error: Send + Sync + 'static,
    {
        let codec = |error| LoadError::Failed(Arc::new(TypedLoadError::Codec(error)));
        let key = self.encoded_key(key).map_err(codec)?;
        let mut loader = Some(loader);
        let mut made = None;
        loop {
            let loaded = self.cache.get_or_load(&key, options, || {
                let load = loader.take().expect("a caller loads at most once");
                let value = load().map_err(TypedLoadError::Loader)?;
                let bytes = self.value(&value).map_err(TypedLoadError::Codec)?;
                made = Some(value);
                Ok(bytes)
            })?;
            if let Some(value) = made {
                return Ok(value);
            }
            match self.codec.decode_value(&loaded.as_slice()) {
                Ok(value) => return Ok(value),
                // What another caller has just made does not decode: loading again would not help.
                Err(error) if loaded.meta().is_none() => return Err(codec(error)),
                Err(_) => self.forget(&key),
            }
        }
    }

    fn encoded_key(&self, key: &K) -> Result<Vec<u8>, C::Error> {
        let mut bytes = Vec::new();
        self.codec.encode_key(key, &mut bytes)?;
        Ok(bytes)
    }

    fn key(&self, key: &K) -> Result<Vec<u8>, TypedError<C::Error>> {
        self.encoded_key(key).map_err(TypedError::Codec)
    }

    fn value(&self, value: &V) -> Result<Vec<u8>, C::Error> {
        let mut bytes = Vec::new();
        self.codec.encode_value(value, &mut bytes)?;
        Ok(bytes)
    }

    fn decode(&self, guard: &Guard) -> Result<V, C::Error> {
        self.codec.decode_value(&guard.as_slice())
    }

    /// Counts a value that does not decode, and removes it if it is still such a one.
    fn forget(&self, key: &[u8]) {
        self.undecodable.fetch_add(1, Ordering::Relaxed);
        let want = Want {
            token: true,
            mark: false,
            count: false,
        };
        let hash = self.cache.inner.store.hash(key);
        let Some(guard) = self.cache.get_as(hash, key, want) else {
            return;
        };
        if self.decode(&guard).is_err() {
            let token = guard.meta().token.unwrap_or_default();
            // Refused only if the key is no key, and it was found under it.
            let _ = self.cache.delete_version(key, token);
        }
    }
}
