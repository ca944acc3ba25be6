//! Consecutive reads of a pipeline, looked up together and answered in order.
//!
//! Owns: `get`, `gets` and those `mg` that only read. What else an `mg` may do (touch, vivify, recache) is in
//! `meta_get`. The reply of a value is written around the bytes the engine appends: nothing is copied twice.

use super::conversation::{Conversation, MoreKeys};
use super::meta_reply;
use crate::net::{Out, BATCH_KEYS, COPY_BYTES_MAX};
use crate::stats::WorkerCounters;
use crate::wire::{push_u64, Get, Meta as MetaRequest, MetaFlags, Words};
use arrayvec::ArrayVec;
use thermocline::{Guard, Meta, ReadSink, Want};

/// One key that is asked for, and how it is to be answered.
enum Ask<'a> {
    /// A key of a `get`; the last of its line is followed by END.
    Text {
        key: &'a [u8],
        token: bool,
        last: bool,
    },
    Meta {
        key: &'a [u8],
        flags: MetaFlags<'a>,
    },
}

pub struct Batch<'a> {
    keys: ArrayVec<&'a [u8], BATCH_KEYS>,
    asks: ArrayVec<Ask<'a>, BATCH_KEYS>,
    want: Want,
}

/// Where a long key list was left.
pub(super) struct Left {
    /// Bytes of the line that were not looked at.
    pub bytes: usize,
    pub more: MoreKeys,
}

impl<'a> Batch<'a> {
    pub fn new() -> Batch<'a> {
        Batch {
            keys: ArrayVec::new(),
            asks: ArrayVec::new(),
            want: Want::default(),
        }
    }

    /// Whether this `mg` does nothing but read a key that stands on the wire as it is.
    pub fn takes(meta: &MetaRequest<'_>) -> bool {
        const CHANGES: [u8; 6] = *b"NRTECb";
        !CHANGES.iter().any(|letter| meta.flags.has(*letter))
    }

    fn is_full(&self) -> bool {
        self.keys.is_full()
    }
}

impl Conversation {
    /// Adds the keys of a `get`. Some: output piled up before the end of the list.
    pub(super) fn batch_get<'a>(&mut self, batch: &mut Batch<'a>, get: Get<'a>) -> Option<Left> {
        let want = Want {
            token: get.token,
            ..Want::default()
        };
        let mut keys = get.keys;
        let mut next = keys.next();
        while let Some(key) = next {
            if self.make_room(batch, want) {
                let bytes = key.len() + keys.rest().len();
                let more = MoreKeys {
                    token: get.token,
                    touch: None,
                };
                return Some(Left { bytes, more });
            }
            next = keys.next();
            batch.keys.push(key);
            batch.asks.push(Ask::Text {
                key,
                token: get.token,
                last: next.is_none(),
            });
        }
        None
    }

    pub(super) fn batch_meta<'a>(&mut self, batch: &mut Batch<'a>, meta: MetaRequest<'a>) {
        let unmarked = meta.flags.has(b'u');
        let want = Want {
            token: meta.flags.has(b'c'),
            mark: !unmarked,
            count: true,
        };
        self.make_room(batch, want);
        self.counters.cmd_meta.add(1);
        batch.keys.push(meta.key);
        batch.asks.push(Ask::Meta {
            key: meta.key,
            flags: meta.flags,
        });
    }

    /// Answers what is gathered if one more key of this kind would not fit; true when output has piled up.
    fn make_room(&mut self, batch: &mut Batch<'_>, want: Want) -> bool {
        if !batch.is_full() && (batch.keys.is_empty() || batch.want == want) {
            batch.want = want;
            return false;
        }
        self.flush(batch);
        batch.want = want;
        self.out.is_high()
    }

    /// Looks up and answers everything gathered so far.
    pub(super) fn flush(&mut self, batch: &mut Batch<'_>) {
        if batch.keys.is_empty() {
            return;
        }
        let mut replies = Replies {
            asks: &batch.asks,
            out: &mut self.out,
            now_ms: self.now_ms,
            value_at: 0,
            claims: Vec::new(),
            hits: 0,
        };
        self.cache.get_many(&batch.keys, batch.want, &mut replies);
        let (hits, claims) = (replies.hits, replies.claims);
        count(&self.counters, batch.keys.len() as u64, hits);
        if self.shared.detail.is_on() {
            self.shared.detail.gets(&batch.keys);
        }
        for (index, at) in claims {
            self.settle_claim(batch.keys[index], at);
        }
        batch.keys.clear();
        batch.asks.clear();
    }

    /// A stale item was read that nobody had claimed: the reply says "X W", you won. If somebody else was quicker
    /// it has to say "Z X", which is as long.
    fn settle_claim(&mut self, key: &[u8], at: usize) {
        if !self.claim(key, |marks, _| marks.stale) {
            if let Some(words) = self.out.bytes.get_mut(at..at + 4) {
                words.copy_from_slice(b" Z X");
            }
        }
    }

    /// Continues a list of keys; returns the bytes of the line that are left when output piles up again.
    pub(super) fn more_keys(&mut self, more: MoreKeys, keys: Words<'_>) -> usize {
        if let Some(touch) = more.touch {
            return self.touch_keys(more.token, touch, keys);
        }
        let mut batch = Batch::new();
        if keys.clone().next().is_none() {
            self.out.line(b"END");
            return 0;
        }
        let get = Get {
            keys,
            token: more.token,
        };
        let left = self.batch_get(&mut batch, get);
        self.flush(&mut batch);
        left.map_or(0, |left| left.bytes)
    }
}

fn count(counters: &WorkerCounters, keys: u64, hits: u64) {
    counters.cmd_get.add(keys);
    counters.get_hits.add(hits);
    counters.get_misses.add(keys - hits);
}

/// Writes replies while the engine reads.
struct Replies<'s, 'a> {
    asks: &'s [Ask<'a>],
    out: &'s mut Out,
    now_ms: u64,
    /// Where the value of the current item begins in the buffer.
    value_at: usize,
    /// Stale items that this batch seems to have won: which, and where the reply says so.
    claims: Vec<(usize, usize)>,
    hits: u64,
}

impl Replies<'_, '_> {
    /// When a writer raced, the engine reads again and calls `head` once more, or `held`, or `miss`: what an earlier
    /// head said, its claim included, has been cut off and counts no more.
    fn forget_claim(&mut self, index: usize) {
        self.claims.retain(|(claimed, _)| *claimed != index);
    }

    /// Everything before the value; true if the value is to follow.
    fn write_head(&mut self, index: usize, meta: &Meta) -> bool {
        self.forget_claim(index);
        match &self.asks[index] {
            Ask::Text { key, token, .. } => {
                let out = &mut self.out.bytes;
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                out.push(b' ');
                push_u64(out, u64::from(meta.flags));
                out.push(b' ');
                push_u64(out, meta.value_bytes as u64);
                if *token {
                    out.push(b' ');
                    push_u64(out, meta.token.unwrap_or(0));
                }
                out.extend_from_slice(b"\r\n");
                true
            }
            Ask::Meta { key, flags } => {
                let marks = meta.marks.unwrap_or_default();
                let facts = meta_reply::Facts::of(meta, self.now_ms);
                meta_reply::hit(&mut self.out.bytes, key, flags, &facts);
                if marks.won {
                    self.out.push(b" Z");
                }
                if marks.stale {
                    if marks.won {
                        self.out.push(b" X");
                    } else {
                        self.claims.push((index, self.out.bytes.len()));
                        self.out.push(b" X W");
                    }
                }
                self.out.push(b"\r\n");
                flags.has(b'v')
            }
        }
    }

    fn write_end(&mut self, index: usize) {
        if let Ask::Text { last: true, .. } = self.asks[index] {
            self.out.push(b"END\r\n");
        }
    }
}

impl ReadSink for Replies<'_, '_> {
    #[inline]
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.out.bytes
    }

    #[inline]
    fn copy_max(&self) -> usize {
        COPY_BYTES_MAX
    }

    fn head(&mut self, index: usize, meta: &Meta) {
        self.write_head(index, meta);
        self.value_at = self.out.bytes.len();
    }

    fn tail(&mut self, index: usize, _meta: &Meta) {
        self.hits += 1;
        match &self.asks[index] {
            Ask::Meta { flags, .. } if !flags.has(b'v') => self.out.bytes.truncate(self.value_at),
            _ => self.out.push(b"\r\n"),
        }
        self.write_end(index);
    }

    fn held(&mut self, index: usize, guard: Guard) {
        self.hits += 1;
        let meta = *guard.meta();
        if self.write_head(index, &meta) {
            self.out.hold(guard);
            self.out.push(b"\r\n");
        }
        self.write_end(index);
    }

    fn miss(&mut self, index: usize) {
        self.forget_claim(index);
        if let Ask::Meta { key, flags } = &self.asks[index] {
            if !flags.quiet() {
                meta_reply::miss(&mut self.out.bytes, b"EN", key, flags);
            }
        }
        self.write_end(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline::Marks;

    /// What the engine does when a writer races: it cuts the reply off and asks for another.
    #[test]
    fn a_claim_of_a_reply_that_was_cut_off_is_forgotten() {
        let asks = [Ask::Meta {
            key: b"k",
            flags: MetaFlags::default(),
        }];
        let stale = Meta {
            marks: Some(Marks {
                stale: true,
                ..Marks::default()
            }),
            ..Meta::default()
        };
        let mut out = Out::default();
        let mut replies = Replies {
            asks: &asks,
            out: &mut out,
            now_ms: 0,
            value_at: 0,
            claims: Vec::new(),
            hits: 0,
        };
        let cut = |replies: &mut Replies<'_, '_>| replies.buffer().clear();
        replies.head(0, &stale);
        assert_eq!(replies.claims.len(), 1);
        cut(&mut replies);
        replies.head(0, &stale);
        assert_eq!(replies.claims.len(), 1, "claimed once, however often read");
        cut(&mut replies);
        replies.head(0, &Meta::default());
        assert!(replies.claims.is_empty(), "refreshed meanwhile");
        cut(&mut replies);
        replies.head(0, &stale);
        cut(&mut replies);
        replies.miss(0);
        assert!(replies.claims.is_empty(), "gone meanwhile");
    }
}
