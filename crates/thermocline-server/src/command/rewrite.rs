//! Values made of the one that is there, where that is too long to be copied in one go: `append` and `prepend` to a
//! long value, `md I` of one. The old value is held, the new one written piece by piece, a piece a turn of the loop,
//! and published only if the old one is still there; else it begins again.
//!
//! ```text
//! begin -> plan -> copy .. copy -> publish -> answer
//!           ^                         |
//!           +------ another version --+
//! ```

use super::conversation::Conversation;
use super::delete::Outcome;
use super::expiry::Expire;
use super::meta_set::{compared, kept_expiry};
use super::one::{read_one, Found};
use crate::net::{pinned_bytes, Talk, REWRITE_BYTES_MIN};
use crate::wire::{self, Meta, MetaSet, Request, Store, StoreMode, Verb};
use std::borrow::Cow;
use thermocline::{
    Error, Expiry, Marks, Meta as Item, Mode, SetOptions, Stored, View, Want, Writer,
};

/// One on its way. The connection carries it; nothing else of the connection is answered meanwhile.
pub struct Rewrite {
    /// The request line, read again at each attempt and at the end.
    line: Vec<u8>,
    /// What came with it.
    payload: Vec<u8>,
    attempt: Option<Attempt>,
}

struct Attempt {
    writer: Writer,
    /// The old value, held.
    old: Found,
    payload_first: bool,
    done: usize,
    total: usize,
}

/// What a request asks for, read from its line.
struct Asked<'a> {
    key: Cow<'a, [u8]>,
    way: Way<'a>,
}

enum Way<'a> {
    /// `append`, `prepend`.
    Text(Store<'a>),
    /// `ms` in mode A or P.
    Set(MetaSet<'a>),
    /// `md I`.
    Stale(Meta<'a>),
}

/// Whether a value made of an old one of so many bytes and so many new ones takes this way.
pub(super) fn is_long(old_bytes: usize, more: usize) -> bool {
    old_bytes + more > REWRITE_BYTES_MIN
}

impl Rewrite {
    pub(super) fn new(line: &[u8], payload: &[u8]) -> Rewrite {
        Rewrite {
            line: line.to_vec(),
            payload: payload.to_vec(),
            attempt: None,
        }
    }

    /// Bytes of our own it keeps.
    pub fn own_bytes(&self) -> u64 {
        (self.line.capacity() + self.payload.capacity()) as u64
    }

    /// Bytes of our own that the old value takes, if it lies compressed in the cache.
    pub fn decoded(&self) -> u64 {
        let attempt = self.attempt.as_ref();
        attempt.map_or(0, |attempt| attempt.old.heap_bytes() as u64)
    }

    /// Bytes of the cache's memory it keeps from being reused: the old value and what is written of the new one.
    pub fn pinned(&self, segment_bytes: u64) -> u64 {
        self.attempt.as_ref().map_or(0, |attempt| {
            attempt.old.meta.value_bytes as u64 + pinned_bytes(attempt.done as u64, segment_bytes)
        })
    }
}

impl Attempt {
    /// Copies one turn's worth; true when all is there.
    fn copy(&mut self, payload: &[u8]) -> Result<bool, Error> {
        let old_bytes = self.old.meta.value_bytes;
        let (payload_at, old_at) = match self.payload_first {
            true => (0, payload.len()),
            false => (old_bytes, 0),
        };
        let mut left = REWRITE_BYTES_MIN;
        while left > 0 && self.done < self.total {
            let in_payload = self.done.checked_sub(payload_at);
            let bytes = match in_payload.and_then(|at| payload.get(at..)) {
                Some(rest) if !rest.is_empty() => rest,
                _ => match self.old.bytes_at(self.done - old_at) {
                    Some(rest) if !rest.is_empty() => rest,
                    _ => return Err(damaged()),
                },
            };
            let taken = left.min(bytes.len());
            self.writer.write(&bytes[..taken])?;
            self.done += taken;
            left -= taken;
        }
        Ok(self.done == self.total)
    }
}

/// The old value was sound when it was looked at and is not now.
fn damaged() -> Error {
    let text = "memory was changed under a value";
    tracing::error!("{text}");
    Error::Io(std::io::Error::other(text))
}

/// The request of a line that was taken before; its payload length is as it was.
fn asked<'a>(conversation: &mut Conversation, line: &'a [u8]) -> Option<Asked<'a>> {
    match wire::parse(line, conversation.limits).ok()? {
        Request::Store(store) => Some(Asked {
            key: Cow::Borrowed(store.key),
            way: Way::Text(store),
        }),
        Request::MetaSet(set) => Some(Asked {
            key: conversation.decoded(set.key, &set.flags)?,
            way: Way::Set(set),
        }),
        Request::MetaDelete(meta) => Some(Asked {
            key: conversation.decoded(meta.key, &meta.flags)?,
            way: Way::Stale(meta),
        }),
        _ => None,
    }
}

impl Asked<'_> {
    /// What the item is to become, or why it stays.
    fn options(&self, item: &Item, now_ms: u64, most: u64) -> Result<SetOptions, Stored> {
        let mut marks = item.marks.unwrap_or_default();
        let view = View {
            meta: item,
            value: &[],
        };
        let (expiry, token) = match &self.way {
            Way::Text(_) => (kept_expiry(item), None),
            Way::Set(set) => {
                compared(Some(&view), &set.flags, &mut marks)?;
                (kept_expiry(item), set.flags.explicit)
            }
            Way::Stale(meta) => {
                if meta.flags.compare.is_some() && meta.flags.compare != item.token {
                    return Err(Stored::Exists);
                }
                marks = Marks {
                    stale: true,
                    won: false,
                    ..marks
                };
                let given = meta.flags.ttl_s.map(|ttl_s| Expire::of(ttl_s, now_ms));
                let expiry: Expiry = given.map_or(kept_expiry(item), Expire::engine);
                (expiry, meta.flags.explicit)
            }
        };
        if item.value_bytes as u64 > most {
            return Err(Stored::NotStored);
        }
        Ok(SetOptions {
            flags: item.flags,
            expiry,
            mode: Mode::CompareAndSet(item.token.unwrap_or(0)),
            token,
            marks,
            want_token: true,
        })
    }

    fn payload_first(&self) -> bool {
        match &self.way {
            Way::Text(store) => matches!(store.verb, Verb::Prepend),
            Way::Set(set) => set.flags.store_mode == StoreMode::Prepend,
            Way::Stale(_) => false,
        }
    }
}

impl Conversation {
    /// A turn's worth of the rewriting under way; true when there is none or it has been answered.
    pub(super) fn continue_rewrite(&mut self, talk: &mut Talk) -> bool {
        let Some(mut rewrite) = talk.rewrite.take() else {
            return true;
        };
        match self.rewrite_step(&mut rewrite) {
            None => {
                talk.rewrite = Some(rewrite);
                false
            }
            Some(outcome) => {
                self.answer_rewrite(&rewrite.line, outcome);
                true
            }
        }
    }

    /// None: to be continued.
    fn rewrite_step(&mut self, rewrite: &mut Rewrite) -> Option<Result<Stored, Error>> {
        if rewrite.attempt.is_none() {
            return self.plan(rewrite).err();
        }
        let attempt = rewrite.attempt.as_mut()?;
        match attempt.copy(&rewrite.payload) {
            Ok(false) => return None,
            Err(error) => return Some(Err(error)),
            Ok(true) => {}
        }
        let attempt = rewrite.attempt.take()?;
        match attempt.writer.commit() {
            // Another version is there, or none: it is looked at anew.
            Ok(Stored::Exists | Stored::NotFound | Stored::NotStored) => None,
            outcome => Some(outcome),
        }
    }

    /// Looks at the item and opens the new value. Err: nothing is to be written, and that is the outcome.
    fn plan(&mut self, rewrite: &mut Rewrite) -> Result<(), Result<Stored, Error>> {
        let Some(asked) = asked(self, &rewrite.line) else {
            return Err(Err(Error::NoRoom));
        };
        let missing = match &asked.way {
            Way::Stale(_) => Stored::NotFound,
            _ => Stored::NotStored,
        };
        let want = Want {
            token: true,
            mark: false,
            count: false,
        };
        let Some(old) = read_one(&self.cache, &asked.key, want, true) else {
            return Err(Ok(missing));
        };
        let pool = &self.shared.pool;
        if !pool.may_decode(old.heap_bytes_max(pool.segment_bytes())) {
            return Err(Err(Error::NoRoom));
        }
        let item = old.meta;
        let most = self.shared.settings.value_size_max(asked.key.len());
        let most = most.saturating_sub(rewrite.payload.len() as u64);
        let options = asked.options(&item, self.now_ms, most).map_err(Ok)?;
        let total = item.value_bytes + rewrite.payload.len();
        let writer = self.cache.write(&asked.key, total, &options).map_err(Err)?;
        rewrite.attempt = Some(Attempt {
            writer,
            old,
            payload_first: asked.payload_first(),
            done: 0,
            total,
        });
        Ok(())
    }

    fn answer_rewrite(&mut self, line: &[u8], outcome: Result<Stored, Error>) {
        let Some(Asked { key, way }) = asked(self, line) else {
            return;
        };
        match way {
            Way::Text(store) => self.answer_store(&store, outcome),
            Way::Set(set) => self.answer_meta_set(&set, &key, outcome),
            Way::Stale(meta) => self.answer_meta_delete(
                &meta,
                &key,
                match outcome {
                    Ok(Stored::Stored(_)) => Outcome::Done,
                    Ok(Stored::Exists) => Outcome::Exists,
                    Ok(Stored::NotFound) => Outcome::NotFound,
                    Ok(Stored::NotStored) | Err(_) => Outcome::NoRoom,
                },
            ),
        }
    }
}
