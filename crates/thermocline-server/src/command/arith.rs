//! `incr`, `decr` and `ma`.

use super::conversation::Conversation;
use super::expiry::Expire;
use super::meta_reply::{self, Facts, Of};
use super::meta_set::kept_expiry;
use crate::wire::{push_u64, Arith, ArithMode, Meta, Refusal};
use thermocline::{Change, Error, Marks, NewValue, View};

pub(super) const NOT_A_NUMBER: &[u8] =
    b"CLIENT_ERROR cannot increment or decrement non-numeric value";

/// A counter has at most 20 digits; memcached looks no further.
const DIGITS_MAX: usize = 20;

/// What a step led to.
enum Outcome {
    /// The new number, and when the item would have expired before this.
    Stepped(u64, Option<u64>),
    Created(u64),
    NotFound,
    Exists,
    NotANumber,
}

impl Conversation {
    pub(super) fn arith(&mut self, arith: &Arith<'_>) {
        let (up, delta) = (arith.up, arith.delta);
        let outcome = self
            .cache
            .update_short(arith.key, DIGITS_MAX, |view| match view {
                None => (Change::Keep, Outcome::NotFound),
                Some(view) => stepped(&view, up, delta, None, None),
            });
        let outcome = outcome.map(|updated| updated.answer);
        self.count_arith(up, &outcome);
        if arith.noreply {
            return;
        }
        match outcome {
            Ok(Outcome::Stepped(value, _) | Outcome::Created(value)) => {
                push_u64(&mut self.out.bytes, value);
                self.out.push(b"\r\n");
            }
            Ok(Outcome::NotANumber) => self.out.line(NOT_A_NUMBER),
            Ok(Outcome::NotFound | Outcome::Exists) => self.out.line(b"NOT_FOUND"),
            Err(_) => self.out.line(b"SERVER_ERROR out of memory in incr"),
        }
    }

    fn count_arith(&mut self, up: bool, outcome: &Result<Outcome, Error>) {
        let counter = match (outcome, up) {
            (Ok(Outcome::Stepped(..)), true) => &self.counters.incr_hits,
            (Ok(Outcome::Stepped(..)), false) => &self.counters.decr_hits,
            (Ok(Outcome::NotFound | Outcome::Created(_)), true) => &self.counters.incr_misses,
            (Ok(Outcome::NotFound | Outcome::Created(_)), false) => &self.counters.decr_misses,
            (Ok(Outcome::Exists), _) => &self.counters.cas_badval,
            (Ok(Outcome::NotANumber), _) => return,
            (Err(_), _) => &self.counters.store_no_memory,
        };
        counter.add(1);
    }

    pub(super) fn meta_arith(&mut self, meta: &Meta<'_>) {
        self.counters.cmd_meta.add(1);
        let Some(key) = self.decoded_or(meta.key, &meta.flags, Refusal::BAD_FLAG) else {
            return;
        };
        let flags = &meta.flags;
        let up = flags.arith_mode == ArithMode::Up;
        let now_ms = self.now_ms;
        let ttl = flags.ttl_s.map(|ttl_s| Expire::of(ttl_s, now_ms).engine());
        let made = Expire::of(flags.made_ttl_s(), now_ms).engine();
        let outcome = self
            .cache
            .update_short(&key, DIGITS_MAX, |view| match view {
                None if flags.vivify_s.is_none() => (Change::Keep, Outcome::NotFound),
                None => {
                    let change = Change::Put(NewValue {
                        value: flags.initial.to_string().into_bytes(),
                        flags: 0,
                        expiry: made,
                        token: flags.explicit,
                        marks: Marks {
                            base64: flags.base64(),
                            ..Marks::default()
                        },
                    });
                    (change, Outcome::Created(flags.initial))
                }
                Some(view) if flags.compare.is_some() && flags.compare != view.meta.token => {
                    (Change::Keep, Outcome::Exists)
                }
                Some(view) => stepped(&view, up, flags.delta.unwrap_or(1), ttl, flags.explicit),
            });
        let token = outcome.as_ref().ok().and_then(|updated| updated.token);
        let outcome = outcome.map(|updated| updated.answer);
        self.count_arith(up, &outcome);
        let facts = Facts {
            token: token.unwrap_or(0),
            touched_s: flags
                .ttl_s
                .map(|ttl_s| meta_reply::given_s(Expire::of(ttl_s, now_ms), now_ms)),
            ..Facts::default()
        };
        match outcome {
            Ok(Outcome::Stepped(..)) if flags.quiet() => {}
            Ok(Outcome::Stepped(value, expires_at_ms)) => {
                let ttl_s = expires_at_ms.map(|at| meta_reply::ttl_s(at, now_ms));
                self.answer_number(meta, value, Facts { ttl_s, ..facts })
            }
            // Shown even when quiet, as memcached does: the client learns that it began to count.
            Ok(Outcome::Created(value)) => {
                let made = Expire::of(flags.vivify_s.unwrap_or(0), now_ms);
                let made_s = Some(meta_reply::given_s(made, now_ms));
                self.answer_number(meta, value, Facts { made_s, ..facts })
            }
            Ok(Outcome::NotFound) => {
                meta_reply::miss(&mut self.out.bytes, b"NF", meta.key, &flags.sent)
            }
            Ok(Outcome::Exists) => {
                meta_reply::miss(&mut self.out.bytes, b"EX", meta.key, &flags.sent)
            }
            Ok(Outcome::NotANumber) => self.out.line(NOT_A_NUMBER),
            Err(_) => meta_reply::miss(&mut self.out.bytes, b"NS", meta.key, &flags.sent),
        }
    }

    fn answer_number(&mut self, meta: &Meta<'_>, value: u64, facts: Facts) {
        let mut digits = Vec::with_capacity(DIGITS_MAX);
        push_u64(&mut digits, value);
        let facts = Facts {
            value_bytes: digits.len(),
            ..facts
        };
        meta_reply::hit(
            Of::Arith,
            &mut self.out.bytes,
            meta.key,
            &meta.flags.sent,
            &facts,
        );
        self.out.push(b"\r\n");
        if meta.flags.has(b'v') {
            self.out.line(&digits);
        }
    }
}

/// The change one step makes. Upwards it wraps at 2^64, downwards it stops at 0, as memcached does.
fn stepped(
    view: &View<'_>,
    up: bool,
    delta: u64,
    ttl: Option<thermocline::Expiry>,
    token: Option<u64>,
) -> (Change, Outcome) {
    // A longer value is not shown here, and is no number.
    let Some(old) = counter_value(view.value) else {
        return (Change::Keep, Outcome::NotANumber);
    };
    let new = match up {
        true => old.wrapping_add(delta),
        false => old.saturating_sub(delta),
    };
    let change = Change::Put(NewValue {
        value: shown(new, view.value.len()),
        flags: view.meta.flags,
        expiry: ttl.unwrap_or_else(|| kept_expiry(view.meta)),
        token,
        marks: view.meta.marks.unwrap_or_default(),
    });
    (change, Outcome::Stepped(new, view.meta.expires_at_ms))
}

/// A shorter number is padded to the old length: the item keeps its size and is overwritten where it lies.
fn shown(value: u64, old_bytes: usize) -> Vec<u8> {
    let mut digits = value.to_string().into_bytes();
    if old_bytes <= DIGITS_MAX && digits.len() < old_bytes {
        digits.resize(old_bytes, b' ');
    }
    digits
}

/// Blanks around, zeros in front and a plus sign are taken; anything else, a minus sign too, is no counter.
fn counter_value(value: &[u8]) -> Option<u64> {
    if value.len() > DIGITS_MAX {
        return None;
    }
    crate::wire::parse_u64(value.trim_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_as_memcached_reads_them() {
        for (text, value) in [
            (" 5", 5),
            ("5 ", 5),
            ("05", 5),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(counter_value(text.as_bytes()), Some(value), "{text:?}");
        }
        for text in [
            "",
            "-5",
            "x",
            "5x",
            "18446744073709551616",
            "000000000000000000001",
            " ",
        ] {
            assert_eq!(counter_value(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn shorter_numbers_keep_the_length() {
        assert_eq!(shown(9, 2), b"9 ");
        assert_eq!(shown(10, 1), b"10");
        assert_eq!(shown(0, 20).len(), 20);
    }
}
