//! Replies of meta commands: the flags of the request walked in order, each answered from the item's facts.

use super::expiry::Expire;
use crate::wire::{push_u64, FlagWords};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use thermocline::Meta;

/// What a reply may tell of an item. Read before the request changed anything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Facts {
    pub value_bytes: usize,
    pub flags: u32,
    /// Before this request. None: never expires.
    pub ttl_s: Option<u64>,
    /// From where T stands in the request.
    pub touched_s: Option<Option<u64>>,
    /// From where N stands in the request, if it made the item.
    pub made_s: Option<Option<u64>>,
    pub token: u64,
    pub fetched: bool,
    pub idle_s: u64,
    /// The item was stored under a key that came in base64.
    pub base64: bool,
}

impl Facts {
    pub fn of(meta: &Meta, now_ms: u64) -> Facts {
        let marks = meta.marks.unwrap_or_default();
        Facts {
            value_bytes: meta.value_bytes,
            flags: meta.flags,
            ttl_s: meta.expires_at_ms.map(|at| ttl_s(at, now_ms)),
            token: meta.token.unwrap_or(0),
            fetched: marks.fetched,
            idle_s: (now_ms / 1000).saturating_sub(u64::from(marks.last_access_s)),
            base64: marks.base64,
            touched_s: None,
            made_s: None,
        }
    }
}

/// Seconds left of a time that a request gives; what is over has none.
pub fn given_s(expire: Expire, now_ms: u64) -> Option<u64> {
    match expire {
        Expire::Never => None,
        Expire::Past => Some(0),
        Expire::At(at) => Some(ttl_s(at, now_ms)),
    }
}

/// Seconds left, begun ones counted: an item stored for 30 s says 30.
pub fn ttl_s(expires_at_ms: u64, now_ms: u64) -> u64 {
    expires_at_ms.saturating_sub(now_ms).div_ceil(1000)
}

/// Which command answers: each tells other facts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Of {
    Get,
    Set,
    Arith,
}

/// What a read of an item begins with, without the line end: facts are gathered where they are asked for.
#[inline]
pub fn read(out: &mut Vec<u8>, key: &[u8], flags: &FlagWords<'_>, meta: &Meta, now_ms: u64) {
    size(out, flags, meta.value_bytes);
    if flags.asks_for_facts() {
        returned(Of::Get, out, key, flags, &Facts::of(meta, now_ms));
    }
}

/// `HD` or `VA size` and the flags asked for, without the line end.
pub fn hit(of: Of, out: &mut Vec<u8>, key: &[u8], flags: &FlagWords<'_>, facts: &Facts) {
    size(out, flags, facts.value_bytes);
    returned(of, out, key, flags, facts);
}

#[inline]
fn size(out: &mut Vec<u8>, flags: &FlagWords<'_>, value_bytes: usize) {
    if flags.has(b'v') {
        out.extend_from_slice(b"VA ");
        push_u64(out, value_bytes as u64);
    } else {
        out.extend_from_slice(b"HD");
    }
}

/// The flags that come back on a hit or a store. `key` is as it stood on the wire.
pub fn returned(of: Of, out: &mut Vec<u8>, key: &[u8], flags: &FlagWords<'_>, facts: &Facts) {
    let (get, set) = (of == Of::Get, of == Of::Set);
    let mut ttl_s = facts.ttl_s;
    for word in flags.words() {
        match word[0] {
            b'k' => returned_key(out, key, flags.base64(), facts.base64),
            b'O' => returned_word(out, word),
            b'f' if get => number(out, b'f', u64::from(facts.flags)),
            b's' if get || set => number(out, b's', facts.value_bytes as u64),
            b'c' => number(out, b'c', facts.token),
            b'h' if get => number(out, b'h', u64::from(facts.fetched)),
            b'l' if get => number(out, b'l', facts.idle_s),
            b'T' => ttl_s = facts.touched_s.unwrap_or(ttl_s),
            b'N' => ttl_s = facts.made_s.unwrap_or(ttl_s),
            b't' if !set => match ttl_s {
                Some(ttl_s) => number(out, b't', ttl_s),
                None => out.extend_from_slice(b" t-1"),
            },
            _ => {}
        }
    }
}

/// A whole line for what was not found or not done: only key and opaque come back.
pub fn miss(out: &mut Vec<u8>, word: &[u8], key: &[u8], flags: &FlagWords<'_>) {
    out.extend_from_slice(word);
    for word in flags.words() {
        match word[0] {
            b'k' => returned_key(out, key, flags.base64(), flags.base64()),
            b'O' => returned_word(out, word),
            _ => {}
        }
    }
    out.extend_from_slice(b"\r\n");
}

/// A key goes back as it was stored: in base64 when it was stored so, whatever this request wrote.
fn returned_key(out: &mut Vec<u8>, key: &[u8], sent_base64: bool, stored_base64: bool) {
    out.extend_from_slice(b" k");
    match (sent_base64, stored_base64) {
        (false, true) => out.extend_from_slice(STANDARD.encode(key).as_bytes()),
        _ => out.extend_from_slice(key),
    }
    if stored_base64 || sent_base64 {
        out.extend_from_slice(b" b");
    }
}

fn returned_word(out: &mut Vec<u8>, word: &[u8]) {
    out.push(b' ');
    out.extend_from_slice(word);
}

fn number(out: &mut Vec<u8>, letter: u8, value: u64) {
    out.extend_from_slice(&[b' ', letter]);
    push_u64(out, value);
}
