//! Atomic read-modify-write, and the operations made of it.
//!
//! `update` reads a version, lets the caller decide without any lock held, and carries the change out only
//! if that very version is still there; otherwise it reads again. The decision may so be asked for more
//! than once; it must have no other effect than its answer.

use super::options::{Expiry, Mode, SetOptions, Stored};
use super::value::{return_buffer, Marks, Meta};
use super::version::{Look, Snapshot};
use super::write::{Condition, Expected};
use super::{Cache, Want};
use crate::error::Error;
use crate::item::{Fields, MarkWord, Measured, Record};
use crate::sync::{pause, Ordering};

/// A number has at most so many bytes; a longer value is none, and is not read.
const DIGITS_MAX: usize = 64;

/// What is there, as `update` shows it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Its facts, with the CAS token.
    pub meta: &'a Meta,
    /// Its value.
    pub value: &'a [u8],
}

/// A value to be put by `update`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NewValue {
    /// The bytes.
    pub value: Vec<u8>,
    /// The client's flags.
    pub flags: u32,
    /// When it expires.
    pub expiry: Expiry,
    /// A CAS token of the caller's choice; None: one that never was before.
    pub token: Option<u64>,
    /// Marks to begin with, in a cache that keeps them.
    pub marks: Marks,
}

/// What `update` is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Nothing.
    Keep,
    /// Remove the item.
    Remove,
    /// Store a value.
    Put(NewValue),
    /// Give the item another expiry; value and CAS token stay.
    Touch(Expiry),
    /// Set the item's marks (stale, won, base64, fetched); everything else stays.
    Marks(Marks),
}

/// What `update` did.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Updated<R> {
    /// What the deciding closure answered.
    pub answer: R,
    /// CAS token of the item as it is now, if a value was put.
    pub token: Option<u64>,
}

/// What came of carrying a change out.
enum Carried {
    /// Done; the token of the item, if a value was put.
    Out(Option<u64>),
    /// The item has changed meanwhile.
    Changed,
    /// It takes a copy of the value, which was not read.
    NeedsValue,
}

impl Cache {
    /// Reads the item under `key`, asks `decide` what to do, and does it unless the item has changed
    /// meanwhile; then it starts again. `decide` runs without locks and may run several times.
    pub fn update<R>(
        &self,
        key: &[u8],
        decide: impl FnMut(Option<View<'_>>) -> (Change, R),
    ) -> Result<Updated<R>, Error> {
        self.update_seen(key, Look::Token, usize::MAX, decide)
    }

    /// `update` that copies no value longer than `value_max` bytes: of such an item `decide` sees an empty value, and
    /// its length in `meta.value_bytes`. Another expiry or other marks then take no copy either, unless the item is
    /// just being moved or has no expiry to change.
    pub fn update_short<R>(
        &self,
        key: &[u8],
        value_max: usize,
        decide: impl FnMut(Option<View<'_>>) -> (Change, R),
    ) -> Result<Updated<R>, Error> {
        self.update_seen(key, Look::Token, value_max, decide)
    }

    fn update_seen<R>(
        &self,
        key: &[u8],
        look: Look,
        mut value_max: usize,
        mut decide: impl FnMut(Option<View<'_>>) -> (Change, R),
    ) -> Result<Updated<R>, Error> {
        self.inner.begin_write(key)?;
        let hash = self.inner.store.hash(key);
        let mut tries = 0;
        loop {
            let snapshot = self.inner.snapshot(hash, key, look, value_max);
            let view = snapshot.as_ref().map(|snapshot| View {
                meta: &snapshot.meta,
                value: &snapshot.value,
            });
            let (change, answer) = decide(view);
            let token_out = look == Look::Token;
            let carried = self.carry_out(hash, key, snapshot.as_ref(), change, token_out)?;
            if let Some(snapshot) = snapshot {
                return_buffer(snapshot.value);
            }
            match carried {
                Carried::Out(token) => return Ok(Updated { answer, token }),
                Carried::NeedsValue => value_max = usize::MAX,
                Carried::Changed => {}
            }
            tries += 1;
            pause(tries);
        }
    }

    fn carry_out(
        &self,
        hash: u64,
        key: &[u8],
        snapshot: Option<&Snapshot>,
        change: Change,
        token_out: bool,
    ) -> Result<Carried, Error> {
        let done = |yes: bool| match yes {
            true => Carried::Out(None),
            false => Carried::Changed,
        };
        match (change, snapshot) {
            (Change::Keep, _) => Ok(Carried::Out(None)),
            (Change::Put(new), _) => Ok(match self.put(key, snapshot, new, token_out)? {
                Some(token) => Carried::Out(token),
                None => Carried::Changed,
            }),
            (_, None) => Ok(Carried::Out(None)),
            (Change::Remove, Some(old)) => Ok(done(self.inner.remove_version(hash, old))),
            (Change::Touch(expiry), Some(old)) => {
                let expires_ms = self.inner.expires_ms(expiry);
                match self.inner.touch_in_place(hash, old, expires_ms) {
                    Some(yes) => Ok(done(yes)),
                    None if !old.whole => Ok(Carried::NeedsValue),
                    None => self.touch_by_copy(key, old, expires_ms).map(done),
                }
            }
            (Change::Marks(marks), Some(old)) => match self.inner.mark_in_place(hash, old, marks) {
                Some(yes) => Ok(done(yes)),
                None if !old.whole => Ok(Carried::NeedsValue),
                None => self.marks_by_copy(key, old, marks).map(done),
            },
        }
    }

    fn put(
        &self,
        key: &[u8],
        snapshot: Option<&Snapshot>,
        new: NewValue,
        token_out: bool,
    ) -> Result<Option<Option<u64>>, Error> {
        self.inner.check_value(new.value.len() as u64)?;
        let options = SetOptions {
            flags: new.flags,
            expiry: new.expiry,
            token: new.token,
            marks: new.marks,
            want_token: token_out,
            mode: Mode::Set,
        };
        let condition = match snapshot {
            Some(old) => Condition::Version(Expected {
                token_free: false,
                ..old.expected
            }),
            None => Condition::Absent,
        };
        let fields = self.inner.fields(&options);
        self.put_record(key, fields, &new.value, condition, token_out)
    }

    fn put_record(
        &self,
        key: &[u8],
        fields: Fields,
        value: &[u8],
        condition: Condition,
        token_out: bool,
    ) -> Result<Option<Option<u64>>, Error> {
        let mut record = Measured::new(Record { key, fields, value });
        record.token_out = token_out;
        let stored = if self.inner.is_large(&record) {
            let mut writer = self
                .inner
                .large_writer(key, value.len(), fields, condition)?;
            writer.write(value)?;
            writer.commit()?
        } else {
            self.inner.store_record(&record, condition)?
        };
        Ok(match stored {
            Stored::Stored(token) => Some(token),
            _ => None,
        })
    }

    /// Gives `key` another expiry; false if it is not there. The CAS token stays. An access, as a get is. Where the item has an
    /// expiry already and both are whole seconds it is one word, whatever the value's size; else the item
    /// is written anew.
    pub fn touch(&self, key: &[u8], expiry: Expiry) -> Result<bool, Error> {
        let touched = self.touch_unseen(key, expiry)?;
        if touched {
            self.inner.accessed_by_touch(key);
        }
        Ok(touched)
    }

    /// `touch` that is no access: to reclaim, and to what counts accesses, the item was not asked for.
    pub fn touch_unseen(&self, key: &[u8], expiry: Expiry) -> Result<bool, Error> {
        self.inner.begin_write(key)?;
        let hash = self.inner.store.hash(key);
        let expires_ms = self.inner.expires_ms(expiry);
        let mut look = Look::Facts;
        let mut tries = 0;
        loop {
            let Some(old) = self.inner.snapshot(hash, key, look, usize::MAX) else {
                return Ok(false);
            };
            match self.inner.touch_in_place(hash, &old, expires_ms) {
                Some(true) => return Ok(true),
                Some(false) => {}
                None if look == Look::Facts => {
                    look = Look::Value;
                    continue;
                }
                None if self.touch_by_copy(key, &old, expires_ms)? => return Ok(true),
                None => {}
            }
            tries += 1;
            pause(tries);
        }
    }

    /// `touch`, and the value as it is; an access, as a get is.
    pub fn get_and_touch(
        &self,
        key: &[u8],
        expiry: Expiry,
    ) -> Result<Option<(Meta, Vec<u8>)>, Error> {
        self.get_and_touch_as(key, expiry, Want::default())
    }

    /// `get_and_touch` with a token where it is wanted, and counted and marked as an access only where that is.
    pub fn get_and_touch_as(
        &self,
        key: &[u8],
        expiry: Expiry,
        want: Want,
    ) -> Result<Option<(Meta, Vec<u8>)>, Error> {
        let look = match want.token {
            true => Look::Token,
            false => Look::Value,
        };
        let updated = self.update_seen(key, look, usize::MAX, |view| {
            let answer = view.map(|view| {
                let token = view.meta.token.filter(|_| want.token);
                let meta = Meta {
                    token,
                    ..*view.meta
                };
                (meta, view.value.to_vec())
            });
            (Change::Touch(expiry), answer)
        })?;
        let found = updated.answer.is_some();
        if want.count {
            self.inner.count_read(key, found);
        }
        if want.mark && found {
            self.inner.accessed_by_touch(key);
        }
        Ok(updated.answer)
    }

    /// Adds to a decimal number; wraps at 2^64. None: nothing is there.
    pub fn incr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        self.step(key, |number| number.wrapping_add(by))
    }

    /// Subtracts from a decimal number; stops at 0. None: nothing is there.
    pub fn decr(&self, key: &[u8], by: u64) -> Result<Option<u64>, Error> {
        self.step(key, |number| number.saturating_sub(by))
    }

    fn step(&self, key: &[u8], step: impl Fn(u64) -> u64) -> Result<Option<u64>, Error> {
        let updated = self.update_seen(key, Look::Value, DIGITS_MAX, |view| {
            let Some(view) = view else {
                return (Change::Keep, Ok(None));
            };
            match parse_number(view.value).map(&step) {
                None => (Change::Keep, Err(Error::NotANumber)),
                Some(number) => {
                    let put = NewValue {
                        value: number.to_string().into_bytes(),
                        ..same_but_value(&view)
                    };
                    (Change::Put(put), Ok(Some(number)))
                }
            }
        })?;
        updated.answer
    }

    /// Append and prepend: flags and expiry of the old item stay.
    pub(crate) fn concatenate(
        &self,
        key: &[u8],
        more: &[u8],
        options: &SetOptions,
    ) -> Result<Stored, Error> {
        let before = options.mode == Mode::Prepend;
        let max = self.inner.item_size_max.load(Ordering::Relaxed);
        let look = match options.want_token {
            true => Look::Token,
            false => Look::Value,
        };
        let updated = self.update_seen(key, look, usize::MAX, |view| {
            let Some(view) = view else {
                return (Change::Keep, false);
            };
            let bytes = view.value.len() + more.len();
            if bytes as u64 > max {
                return (Change::Keep, false);
            }
            let mut value = Vec::with_capacity(bytes);
            let (first, second) = match before {
                true => (more, view.value),
                false => (view.value, more),
            };
            value.extend_from_slice(first);
            value.extend_from_slice(second);
            let put = NewValue {
                value,
                token: options.token,
                ..same_but_value(&view)
            };
            (Change::Put(put), true)
        })?;
        Ok(match updated.answer {
            true => Stored::Stored(updated.token.filter(|_| options.want_token)),
            false => Stored::NotStored,
        })
    }

    fn marks_by_copy(&self, key: &[u8], old: &Snapshot, marks: Marks) -> Result<bool, Error> {
        let access_s = old.fields.marks.map_or(0, |word| word.access_s());
        let fields = Fields {
            marks: Some(MarkWord::new(marks.flags(), access_s)),
            token: old.carried_token(),
            ..old.fields
        };
        self.write_anew(key, old, fields)
    }

    fn touch_by_copy(&self, key: &[u8], old: &Snapshot, expires_ms: u64) -> Result<bool, Error> {
        let fields = Fields {
            expires_ms,
            token: old.carried_token(),
            ..old.fields
        };
        self.write_anew(key, old, fields)
    }

    /// Writes the value that is there once more, with other facts. False: another version is there.
    fn write_anew(&self, key: &[u8], old: &Snapshot, fields: Fields) -> Result<bool, Error> {
        let condition = Condition::Version(Expected {
            value_stays: true,
            ..old.expected
        });
        Ok(self
            .put_record(key, fields, &old.value, condition, false)?
            .is_some())
    }

    /// Removes `key`; whether it was there.
    pub fn delete(&self, key: &[u8]) -> bool {
        self.inner.delete(key)
    }

    /// Removes `key` if it still has `token`.
    pub fn delete_version(&self, key: &[u8], token: u64) -> Result<Stored, Error> {
        let updated = self.update(key, |view| match view {
            None => (Change::Keep, Stored::NotFound),
            Some(view) if view.meta.token == Some(token) => (Change::Remove, Stored::Stored(None)),
            Some(_) => (Change::Keep, Stored::Exists),
        })?;
        Ok(updated.answer)
    }
}

fn same_but_value(view: &View<'_>) -> NewValue {
    NewValue {
        value: Vec::new(),
        flags: view.meta.flags,
        expiry: view.meta.expires_at_ms.map_or(Expiry::Never, Expiry::AtMs),
        token: None,
        marks: view.meta.marks.unwrap_or_default(),
    }
}

/// A decimal number as memcached reads it: blanks around, at most 20 digits, no sign.
pub(crate) fn parse_number(text: &[u8]) -> Option<u64> {
    let digits = text.trim_ascii();
    if digits.is_empty() || digits.len() > 20 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::parse_number;

    #[test]
    fn numbers_as_memcached_reads_them() {
        for (text, number) in [
            ("5", Some(5)),
            (" 5", Some(5)),
            ("5 ", Some(5)),
            ("05", Some(5)),
            ("18446744073709551615", Some(u64::MAX)),
            ("18446744073709551616", None),
            ("000000000000000000001", None),
            ("-5", None),
            ("+5", None),
            ("", None),
            (" ", None),
            ("5a", None),
        ] {
            assert_eq!(parse_number(text.as_bytes()), number, "{text:?}");
        }
    }
}
