//! Listings of all keys (`lru_crawler metadump`, `mgdump`, `stats cachedump`) and of all connections (`stats conns`).
//!
//! A listing is a walk that is put aside whenever its output has to drain; the connection carries it. Others are
//! served between its steps, and a client that does not read costs one walk's memory and no more.

use super::conversation::Conversation;
use crate::net::Talk;
use crate::shared::Shared;
use crate::stats::{self, Lines};
use crate::wire::{percent_encode, push_u64, push_word};
use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use std::fmt::Write;
use std::sync::Arc;
use thermocline::{Cache, Meta, Scan};

/// Steps of up to 100 us before others have their turn, however little they print: after a flush a listing walks over
/// millions of items and prints none.
const STEPS_PER_TURN: usize = 16;
/// memcached stops a cachedump at 2 MB; so does ours.
const CACHE_DUMP_BYTES_MAX: u64 = 2 << 20;

#[derive(Clone, Copy, Debug)]
pub(super) enum What {
    Metadump,
    Mgdump,
    /// `limit` keys; 0: as many as fit.
    Items {
        limit: u64,
    },
}

impl What {
    /// What the last line says.
    pub(super) fn end(self) -> &'static [u8] {
        match self {
            What::Mgdump => b"EN",
            What::Metadump | What::Items { .. } => b"END",
        }
    }
}

pub enum Listing {
    Keys(Box<Keys>),
    /// `stats conns`, from this place in the registry on.
    Connections(Arc<Shared>, usize),
}

pub struct Keys {
    scan: Scan,
    what: What,
    listed: u64,
    listed_bytes: u64,
}

impl Listing {
    pub(super) fn keys(cache: &Cache, what: What) -> Listing {
        Listing::Keys(Box::new(Keys {
            scan: cache.scan(),
            what,
            listed: 0,
            listed_bytes: 0,
        }))
    }

    pub(super) fn connections(shared: Arc<Shared>) -> Listing {
        Listing::Connections(shared, 0)
    }

    /// One step into `out`; false at the end.
    fn step(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Listing::Keys(keys) => keys.step(out),
            Listing::Connections(shared, from) => {
                let (lines, next) = stats::connections(shared, *from);
                put_stats(out, lines);
                *from = next.unwrap_or(0);
                next.is_some()
            }
        }
    }

    fn end(&self) -> &'static [u8] {
        match self {
            Listing::Keys(keys) => keys.what.end(),
            Listing::Connections(..) => b"END",
        }
    }
}

impl Keys {
    /// One step of the walk into `out`; false at its end.
    fn step(&mut self, out: &mut Vec<u8>) -> bool {
        let before = out.len();
        let (what, listed) = (self.what, &mut self.listed);
        let more = self.scan.step(|key, meta| {
            if let What::Items { limit } = what {
                if limit > 0 && *listed >= limit {
                    return;
                }
            }
            *listed += 1;
            match what {
                What::Metadump => metadump(out, key, meta),
                What::Mgdump => mgdump(out, key),
                What::Items { .. } => cachedump(out, key, meta),
            }
        });
        self.listed_bytes += (out.len() - before) as u64;
        more && !self.is_full()
    }

    fn is_full(&self) -> bool {
        match self.what {
            What::Items { limit } => {
                self.listed_bytes >= CACHE_DUMP_BYTES_MAX || (limit > 0 && self.listed >= limit)
            }
            _ => false,
        }
    }
}

impl Conversation {
    /// Goes on with the listing; true when it has come to its end.
    pub(super) fn continue_listing(&mut self, talk: &mut Talk) -> bool {
        let Some(listing) = &mut talk.listing else {
            return true;
        };
        let mut steps = 0;
        while listing.step(&mut self.out.bytes) {
            steps += 1;
            if self.out.is_high() || steps == STEPS_PER_TURN {
                return false;
            }
        }
        self.out.line(listing.end());
        talk.listing = None;
        true
    }
}

/// `STAT name value`, a line each.
pub(super) fn put_stats(out: &mut Vec<u8>, lines: Lines) {
    for (name, value) in lines {
        let line: [&[u8]; 5] = [b"STAT ", name.as_bytes(), b" ", value.as_bytes(), b"\r\n"];
        line.iter().for_each(|part| out.extend_from_slice(part));
    }
}

fn metadump(out: &mut Vec<u8>, key: &[u8], meta: &Meta) {
    let marks = meta.marks.unwrap_or_default();
    out.extend_from_slice(b"key=");
    percent_encode(out, key);
    let expiry = meta
        .expires_at_ms
        .map_or("-1".to_string(), |at| (at / 1000).to_string());
    let mut text = String::with_capacity(96);
    let written = writeln!(
        text,
        " exp={expiry} la={} cas={} fetch={} cls=1 size={} flags={}",
        marks.last_access_s,
        meta.token.unwrap_or(0),
        if marks.fetched { "yes" } else { "no" },
        meta.stored_bytes,
        meta.flags
    );
    written.expect("writing to a string cannot fail");
    out.extend_from_slice(text.as_bytes());
}

/// Lines that can be sent back as they are, to warm another server.
fn mgdump(out: &mut Vec<u8>, key: &[u8]) {
    out.extend_from_slice(b"mg ");
    if key.iter().all(|b| b.is_ascii_graphic()) {
        out.extend_from_slice(key);
    } else {
        out.extend_from_slice(STANDARD.encode(key).as_bytes());
        out.extend_from_slice(b" b");
    }
    out.extend_from_slice(b"\r\n");
}

fn cachedump(out: &mut Vec<u8>, key: &[u8], meta: &Meta) {
    out.extend_from_slice(b"ITEM ");
    push_word(out, key);
    out.extend_from_slice(b" [");
    push_u64(out, meta.value_bytes as u64);
    out.extend_from_slice(b" b; ");
    push_u64(out, meta.expires_at_ms.map_or(0, |at| at / 1000));
    out.extend_from_slice(b" s]\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_is_no_word_goes_in_base64() {
        let mut out = Vec::new();
        mgdump(&mut out, b"a\nb");
        mgdump(&mut out, b"ab");
        assert_eq!(out, b"mg YQpi b\r\nmg ab\r\n");
    }
}
