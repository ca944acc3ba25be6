//! `ms` in all its modes, and what meta commands share.

use super::conversation::Conversation;
use super::expiry::Expire;
use super::meta_reply::{self, Facts, Of};
use super::rewrite::{is_long, Rewrite};
use super::store::{joined, NO_ROOM, TOO_LARGE};
use crate::net::{Talk, REWRITE_BYTES_MIN};
use crate::wire::{MetaFlags, MetaSet, Refusal, StoreMode};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use std::borrow::Cow;
use thermocline::{Change, Error, Expiry, Marks, Meta, Mode, NewValue, SetOptions, Stored, View};

/// The expiry an item has, for writing it back unchanged.
pub(super) fn kept_expiry(meta: &Meta) -> Expiry {
    meta.expires_at_ms.map_or(Expiry::Never, Expiry::AtMs)
}

impl Conversation {
    /// The key as stored. None: it was no base64, and that has been answered.
    pub(super) fn decoded<'k>(
        &mut self,
        key: &'k [u8],
        flags: &MetaFlags<'_>,
    ) -> Option<Cow<'k, [u8]>> {
        self.decoded_or(key, flags, Refusal::BAD_BASE64)
    }

    /// `decoded`, with the answer to what is no base64.
    pub(super) fn decoded_or<'k>(
        &mut self,
        key: &'k [u8],
        flags: &MetaFlags<'_>,
        refusal: Refusal,
    ) -> Option<Cow<'k, [u8]>> {
        if !flags.base64() {
            return Some(Cow::Borrowed(key));
        }
        match STANDARD.decode(key) {
            Ok(decoded) if !decoded.is_empty() => Some(Cow::Owned(decoded)),
            _ => {
                self.out.line(refusal.answer);
                None
            }
        }
    }

    pub(super) fn meta_options(&self, set: &MetaSet<'_>) -> SetOptions {
        let flags = &set.flags;
        let now_ms = self.now_ms;
        SetOptions {
            flags: flags.client_flags,
            expiry: Expire::of(flags.ttl_s.unwrap_or(0), now_ms).engine(),
            mode: match (flags.compare, flags.store_mode) {
                (Some(token), _) => Mode::CompareAndSet(token),
                (None, StoreMode::Set) => Mode::Set,
                (None, StoreMode::Add) => Mode::Add,
                (None, StoreMode::Replace) => Mode::Replace,
                (None, StoreMode::Append) => Mode::Append,
                (None, StoreMode::Prepend) => Mode::Prepend,
            },
            token: flags.explicit,
            marks: Marks {
                base64: flags.base64(),
                ..Marks::default()
            },
            want_token: flags.has(b'c'),
        }
    }

    pub(super) fn meta_set(
        &mut self,
        talk: &mut Talk,
        set: &MetaSet<'_>,
        value: &[u8],
        line: &[u8],
    ) {
        self.counters.cmd_meta.add(1);
        let Some(key) = self.decoded(set.key, &set.flags) else {
            return;
        };
        let options = self.meta_options(set);
        let outcome = match self.needs_update(set) {
            false => Some(self.cache.set_with(&key, value, &options)),
            true => self.update_set(&key, set, value, &options),
        };
        match outcome {
            Some(outcome) => self.answer_meta_set(set, &key, outcome),
            None => talk.rewrite = Some(Box::new(Rewrite::new(line, value))),
        }
    }

    /// What the engine's own conditions do not cover: a comparison beside another mode, invalidation, vivifying.
    fn needs_update(&self, set: &MetaSet<'_>) -> bool {
        let flags = &set.flags;
        let joins = matches!(flags.store_mode, StoreMode::Append | StoreMode::Prepend);
        let compares_too = flags.compare.is_some() && flags.store_mode != StoreMode::Set;
        compares_too || flags.has(b'I') || joins
    }

    /// None: it makes a value of one that is too long for one go.
    fn update_set(
        &mut self,
        key: &[u8],
        set: &MetaSet<'_>,
        value: &[u8],
        options: &SetOptions,
    ) -> Option<Result<Stored, Error>> {
        let flags = &set.flags;
        let now_ms = self.now_ms;
        let vivify = flags
            .vivify_s
            .map(|ttl_s| Expire::of(ttl_s, now_ms).engine());
        let most = self.shared.settings.value_size_max(key.len());
        // Only what joins needs the old value.
        let shown_max = match flags.store_mode {
            StoreMode::Append | StoreMode::Prepend => REWRITE_BYTES_MIN,
            _ => 0,
        };
        let updated = self.cache.update_short(key, shown_max, |view| {
            let mut marks = options.marks;
            // The other modes say first whether there must be an item at all.
            let compares = match flags.store_mode {
                StoreMode::Set | StoreMode::Replace => true,
                StoreMode::Add => false,
                StoreMode::Append | StoreMode::Prepend => view.is_some(),
            };
            if compares {
                if let Err(refusal) = compared(view.as_ref(), flags, &mut marks) {
                    return (Change::Keep, Some(Ok(refusal)));
                }
            }
            let plain = NewValue {
                value: value.to_vec(),
                flags: options.flags,
                expiry: options.expiry,
                token: options.token,
                marks,
            };
            match (flags.store_mode, view) {
                (StoreMode::Add, Some(_)) | (StoreMode::Replace, None) => {
                    (Change::Keep, Some(Ok(Stored::NotStored)))
                }
                (StoreMode::Set | StoreMode::Add | StoreMode::Replace, _) => {
                    (Change::Put(plain), Some(Ok(Stored::Stored(None))))
                }
                (StoreMode::Append | StoreMode::Prepend, None) => match vivify {
                    None => (Change::Keep, Some(Ok(Stored::NotStored))),
                    Some(expiry) => (
                        Change::Put(NewValue { expiry, ..plain }),
                        Some(Ok(Stored::Stored(None))),
                    ),
                },
                (mode, Some(view)) => {
                    let bytes = (view.meta.value_bytes + value.len()) as u64;
                    if bytes > most {
                        let error = Error::ValueTooLarge { bytes, max: most };
                        return (Change::Keep, Some(Err(error)));
                    }
                    if is_long(view.meta.value_bytes, value.len()) {
                        return (Change::Keep, None);
                    }
                    let change = Change::Put(NewValue {
                        value: joined(view.value, value, mode == StoreMode::Prepend),
                        flags: view.meta.flags,
                        expiry: kept_expiry(view.meta),
                        token: options.token,
                        marks: view.meta.marks.unwrap_or(marks),
                    });
                    (change, Some(Ok(Stored::Stored(None))))
                }
            }
        });
        let updated = match updated {
            Ok(updated) => updated,
            Err(error) => return Some(Err(error)),
        };
        Some(match updated.answer? {
            Ok(Stored::Stored(_)) => Ok(Stored::Stored(updated.token)),
            other => other,
        })
    }

    pub(super) fn answer_meta_set(
        &mut self,
        set: &MetaSet<'_>,
        key: &[u8],
        outcome: Result<Stored, Error>,
    ) {
        self.count_store(key, set.bytes, &outcome);
        if let (Some(_), Ok(stored)) = (set.flags.compare, &outcome) {
            self.count_cas(*stored);
        }
        let joins = matches!(set.flags.store_mode, StoreMode::Append | StoreMode::Prepend);
        let word: &[u8] = match outcome {
            Ok(Stored::Stored(token)) => return self.answer_stored(set, key, token),
            Ok(Stored::NotStored) => b"NS",
            Ok(Stored::Exists) => b"EX",
            Ok(Stored::NotFound) => b"NF",
            Err(Error::ValueTooLarge { .. }) if joins => b"NS",
            Err(error) => {
                if !joins {
                    self.cache.delete(key);
                }
                return self.out.line(match error {
                    Error::ValueTooLarge { .. } => TOO_LARGE,
                    _ => NO_ROOM,
                });
            }
        };
        self.answer_set(word, set, set.bytes as usize, 0);
    }

    fn answer_stored(&mut self, set: &MetaSet<'_>, key: &[u8], token: Option<u64>) {
        let flags = &set.flags;
        if flags.quiet() {
            return;
        }
        let joins = matches!(flags.store_mode, StoreMode::Append | StoreMode::Prepend);
        let value_bytes = match flags.has(b's') && joins {
            true => self
                .cache
                .peek(key, false)
                .map_or(0, |meta| meta.value_bytes),
            false => set.bytes as usize,
        };
        self.answer_set(b"HD", set, value_bytes, token.unwrap_or(0));
    }

    /// The same flags come back whatever came of it; what was not stored has the token 0.
    fn answer_set(&mut self, word: &[u8], set: &MetaSet<'_>, value_bytes: usize, token: u64) {
        let facts = Facts {
            value_bytes,
            token,
            base64: set.flags.base64(),
            ..Facts::default()
        };
        self.out.push(word);
        meta_reply::returned(
            Of::Set,
            &mut self.out.bytes,
            set.key,
            &set.flags.sent,
            &facts,
        );
        self.out.push(b"\r\n");
    }
}

/// Tokens the cache makes lie between these. They never repeat, but what is written later may have the smaller one:
/// cores write into segments of their own. Tokens that clients give with E are in order, and rarely lie here.
const OWN_TOKENS: std::ops::Range<u64> = 1 << 40..u64::MAX;

/// Whether `expected` is of an earlier version than `actual`, which it differs from. Of two tokens of our own the one
/// the item has is the later.
fn is_older(expected: u64, actual: u64) -> bool {
    expected < actual || (OWN_TOKENS.contains(&expected) && OWN_TOKENS.contains(&actual))
}

/// The C flag. With I, an older token than the item's may still store, but what it stores is stale.
pub(super) fn compared(
    view: Option<&View<'_>>,
    flags: &MetaFlags<'_>,
    marks: &mut Marks,
) -> Result<(), Stored> {
    let Some(expected) = flags.compare else {
        return Ok(());
    };
    let Some(view) = view else {
        return Err(Stored::NotFound);
    };
    let actual = view.meta.token.unwrap_or(0);
    if actual == expected {
        return Ok(());
    }
    if flags.has(b'I') && is_older(expected, actual) {
        marks.stale = true;
        marks.won = view.meta.marks.unwrap_or_default().won;
        return Ok(());
    }
    Err(Stored::Exists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_of_clients_are_in_order_and_our_own_are_not() {
        assert!(is_older(5, 6) && !is_older(6, 5));
        let ours = 1 << 50;
        assert!(is_older(ours + 1, ours) && is_older(ours, ours + 1));
        assert!(!is_older(u64::MAX, ours) && !is_older(ours, 6) && is_older(6, ours));
        // From 2034 on our own are so large.
        let late = 3 << 62;
        assert!(is_older(late + 1, late) && is_older(late, late + 1));
    }
}
