//! `set`, `add`, `replace`, `append`, `prepend`, `cas`: whole payloads, refusals, and beginning a streamed one.

use super::body::Body;
use super::conversation::Conversation;
use super::expiry::Expire;
use super::meta_set::kept_expiry;
use super::rewrite::{is_long, Rewrite};
use crate::net::{Talk, REWRITE_BYTES_MIN};
use crate::wire::{MetaSet, Request, Store, StoreMode, Verb};
use std::borrow::Cow;
use thermocline::{Change, Error, Mode, NewValue, SetOptions, Stored};

pub(super) const BAD_CHUNK: &[u8] = b"CLIENT_ERROR bad data chunk";
pub(super) const TOO_LARGE: &[u8] = b"SERVER_ERROR object too large for cache";
pub(super) const NO_ROOM: &[u8] = b"SERVER_ERROR out of memory storing object";

/// What became of a request's payload.
pub(super) enum Payload {
    /// So many of its bytes were used (fewer than all when the rest is swallowed or streamed).
    Used(usize),
    /// It has not arrived yet.
    Wait,
}

impl Conversation {
    pub(super) fn is_too_large(&self, request: &Request<'_>) -> bool {
        let (key, bytes) = match request {
            Request::Store(store) => (store.key, store.bytes),
            Request::MetaSet(set) => (set.key, set.bytes),
            _ => return false,
        };
        bytes > self.shared.settings.value_size_max(key.len())
    }

    /// The payload will not be taken. As in memcached the old value goes with `set`, and with `ms` whatever its flags:
    /// nobody may go on reading what was to be replaced. The other commands leave it.
    pub(super) fn drop_refused(&mut self, request: &Request<'_>) {
        match request {
            Request::Store(store) if matches!(store.verb, Verb::Set) => {
                self.cache.delete(store.key);
            }
            Request::MetaSet(set) => {
                if let Some(key) = self.decoded(set.key, &set.flags) {
                    self.cache.delete(&key);
                }
            }
            _ => {}
        }
    }

    /// Says why a payload is not taken; to an `ms` even when quiet, for its client cannot know otherwise.
    fn refuse(&mut self, request: &Request<'_>, why: &[u8]) {
        let noreply = match request {
            Request::Store(store) => store.noreply,
            Request::MetaSet(set) => {
                self.counters.cmd_meta.add(1);
                if self.decoded(set.key, &set.flags).is_none() {
                    return;
                }
                false
            }
            _ => false,
        };
        self.drop_refused(request);
        if !noreply {
            self.out.line(why);
        }
    }

    pub(super) fn refuse_too_large(&mut self, request: &Request<'_>) {
        self.counters.store_too_large.add(1);
        self.refuse(request, TOO_LARGE);
    }

    pub(super) fn bad_chunk(&mut self, store: &Store<'_>) {
        if !store.noreply {
            self.out.line(BAD_CHUNK);
        }
    }

    pub(super) fn options(&self, store: &Store<'_>) -> SetOptions {
        SetOptions {
            flags: store.flags,
            expiry: Expire::of(store.expiry_s, self.now_ms).engine(),
            mode: match store.verb {
                Verb::Set => Mode::Set,
                Verb::Add => Mode::Add,
                Verb::Replace => Mode::Replace,
                Verb::Append => Mode::Append,
                Verb::Prepend => Mode::Prepend,
                Verb::Cas(token) => Mode::CompareAndSet(token),
            },
            ..SetOptions::default()
        }
    }

    pub(super) fn store(&mut self, talk: &mut Talk, store: &Store<'_>, value: &[u8], line: &[u8]) {
        let outcome = match store.verb {
            Verb::Append | Verb::Prepend => self.join(store, value),
            _ => {
                let options = self.options(store);
                Some(self.cache.set_with(store.key, value, &options))
            }
        };
        match outcome {
            Some(outcome) => self.answer_store(store, outcome),
            None => talk.rewrite = Some(Box::new(Rewrite::new(line, value))),
        }
    }

    /// `append` and `prepend` to what is there. None: that is too long for one go.
    fn join(&mut self, store: &Store<'_>, value: &[u8]) -> Option<Result<Stored, Error>> {
        let most = self.shared.settings.value_size_max(store.key.len());
        let update = self
            .cache
            .update_short(store.key, REWRITE_BYTES_MIN, |view| {
                let Some(view) = view else {
                    return (Change::Keep, Some(Stored::NotStored));
                };
                if (view.meta.value_bytes + value.len()) as u64 > most {
                    return (Change::Keep, Some(Stored::NotStored));
                }
                if is_long(view.meta.value_bytes, value.len()) {
                    return (Change::Keep, None);
                }
                let new = NewValue {
                    value: joined(view.value, value, store.verb == Verb::Prepend),
                    flags: view.meta.flags,
                    expiry: kept_expiry(view.meta),
                    token: None,
                    marks: view.meta.marks.unwrap_or_default(),
                };
                (Change::Put(new), Some(Stored::Stored(None)))
            });
        match update {
            Ok(updated) => updated.answer.map(Ok),
            Err(error) => Some(Err(error)),
        }
    }

    pub(super) fn answer_store(&mut self, store: &Store<'_>, outcome: Result<Stored, Error>) {
        self.count_store(store.key, store.bytes, &outcome);
        if let (Verb::Cas(_), Ok(stored)) = (store.verb, &outcome) {
            self.count_cas(*stored);
        }
        let joins = matches!(store.verb, Verb::Append | Verb::Prepend);
        let answer: &[u8] = match outcome {
            Ok(Stored::Stored(_)) => b"STORED",
            Ok(Stored::NotStored) => b"NOT_STORED",
            Ok(Stored::Exists) => b"EXISTS",
            Ok(Stored::NotFound) => b"NOT_FOUND",
            // Joined they are too long: memcached keeps the old value and says no more than this.
            Err(Error::ValueTooLarge { .. }) if joins => b"NOT_STORED",
            Err(Error::ValueTooLarge { .. }) => TOO_LARGE,
            Err(_) => NO_ROOM,
        };
        if !store.noreply {
            self.out.line(answer);
        }
    }

    pub(super) fn count_store(&mut self, key: &[u8], bytes: u64, outcome: &Result<Stored, Error>) {
        self.counters.cmd_set.add(1);
        match outcome {
            Ok(Stored::Stored(_)) => {
                self.counters.total_items.add(1);
                self.shared.big_keys.note(key, bytes);
            }
            Ok(_) => {}
            Err(Error::ValueTooLarge { .. }) => self.counters.store_too_large.add(1),
            Err(_) => self.counters.store_no_memory.add(1),
        }
        if self.shared.detail.is_on() {
            self.shared.detail.set(key);
        }
    }

    pub(super) fn count_cas(&mut self, stored: Stored) {
        let counter = match stored {
            Stored::Stored(_) => &self.counters.cas_hits,
            Stored::Exists => &self.counters.cas_badval,
            Stored::NotStored | Stored::NotFound => &self.counters.cas_misses,
        };
        counter.add(1);
    }

    /// A large payload that has not arrived: it goes into the cache as it comes. What needs the old value or more than
    /// a plain condition waits in the connection instead, charged to the buffer pool.
    pub(super) fn begin_stream(
        &mut self,
        talk: &mut Talk,
        request: Request<'_>,
        line: &[u8],
    ) -> Payload {
        let bytes = request.payload_bytes();
        let (key, options) = match &request {
            Request::Store(store) if !matches!(store.verb, Verb::Append | Verb::Prepend) => {
                (Cow::Borrowed(store.key), self.options(store))
            }
            Request::MetaSet(set) if is_plain(set) => {
                let Some(key) = self.decoded(set.key, &set.flags) else {
                    talk.body = Body::swallow(bytes);
                    return Payload::Used(0);
                };
                (key, self.meta_options(set))
            }
            request => return self.wait_if_it_fits(talk, request),
        };
        if let Request::MetaSet(_) = &request {
            self.counters.cmd_meta.add(1);
        }
        let value_bytes = bytes - 2;
        let writer = self.cache.write(&key, value_bytes as usize, &options);
        let body = Body::stream(line, value_bytes, writer, self.shared.pool.segment_bytes());
        talk.body = Some(Box::new(body));
        Payload::Used(0)
    }

    /// A payload that must be whole before anything is done with it has to fit the buffer pool.
    fn wait_if_it_fits(&mut self, talk: &mut Talk, request: &Request<'_>) -> Payload {
        let bytes = request.payload_bytes();
        if bytes <= self.shared.pool.request_bytes_max() {
            return Payload::Wait;
        }
        self.counters.store_no_memory.add(1);
        self.refuse(request, NO_ROOM);
        talk.body = Body::swallow(bytes);
        Payload::Used(0)
    }
}

/// The old value with the new bytes at one of its ends.
pub(super) fn joined(old: &[u8], new: &[u8], first: bool) -> Vec<u8> {
    match first {
        true => [new, old].concat(),
        false => [old, new].concat(),
    }
}

/// Whether an `ms` asks for no more than the engine's own conditions.
fn is_plain(set: &MetaSet<'_>) -> bool {
    let flags = &set.flags;
    let joins = matches!(flags.store_mode, StoreMode::Append | StoreMode::Prepend);
    let compares_too = flags.compare.is_some() && flags.store_mode != StoreMode::Set;
    !joins && !compares_too && !flags.has(b'I')
}
