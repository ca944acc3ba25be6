//! Consecutive reads of a pipeline, looked up together and answered in order.
//!
//! Owns: `get`, `gets` and those `mg` that only read. What else an `mg` may do (touch, vivify, recache) is in
//! `meta_get`. The reply of a value is written around the bytes the engine appends: nothing is copied twice.

use super::conversation::{Conversation, MoreKeys};
use super::meta_reply;
use crate::net::{Out, BATCH_KEYS, COPY_BYTES_MAX};
use crate::stats::WorkerCounters;
use crate::wire::{push_u64, FlagWords, Get, Meta as MetaRequest, Read, Words};
use arrayvec::ArrayVec;
use thermocline::{Guard, Meta, ReadSink, Want};

/// How a key that is asked for is to be answered.
enum Ask<'a> {
    /// A key of a `get`; the last of its line is followed by END.
    Text {
        token: bool,
        last: bool,
    },
    Meta {
        flags: FlagWords<'a>,
    },
}

pub struct Batch<'a> {
    keys: ArrayVec<&'a [u8], BATCH_KEYS>,
    asks: ArrayVec<Ask<'a>, BATCH_KEYS>,
    /// Where in the input each is to be taken up again if it is not answered this time.
    places: ArrayVec<Resume, BATCH_KEYS>,
    want: Want,
}

/// Output piled up: here the input goes on once it has been sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Resume {
    /// Byte of the input.
    pub at: usize,
    /// Some: this is in the middle of a list of keys.
    pub more: Option<MoreKeys>,
}

/// Where a line of keys lies in the input.
#[derive(Clone, Copy)]
pub(super) struct KeyLine {
    pub at: usize,
    pub bytes: usize,
    /// Its beginning has been answered before.
    pub continued: bool,
}

impl<'a> Batch<'a> {
    pub fn new() -> Batch<'a> {
        Batch {
            keys: ArrayVec::new(),
            asks: ArrayVec::new(),
            places: ArrayVec::new(),
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

    fn push(&mut self, key: &'a [u8], ask: Ask<'a>, place: Resume) {
        self.keys.push(key);
        self.asks.push(ask);
        self.places.push(place);
    }
}

impl Conversation {
    /// Adds the keys of a `get`. Some: output piled up before the end of the list.
    pub(super) fn batch_get<'a>(
        &mut self,
        batch: &mut Batch<'a>,
        get: Get<'a>,
        line: KeyLine,
    ) -> Option<Resume> {
        let want = Want {
            token: get.token,
            ..Want::default()
        };
        let more = MoreKeys {
            token: get.token,
            touch: None,
        };
        let mut place = Resume {
            at: line.at,
            more: line.continued.then_some(more),
        };
        let mut keys = get.keys;
        let mut next = keys.next();
        while let Some(key) = next {
            if let Some(resume) = self.make_room(batch, want, place) {
                return Some(resume);
            }
            next = keys.next();
            let (token, last) = (get.token, next.is_none());
            batch.push(key, Ask::Text { token, last }, place);
            let left = next.map_or(0, |next| next.len() + keys.rest().len());
            place = Resume {
                at: line.at + line.bytes - left,
                more: Some(more),
            };
        }
        None
    }

    /// Adds the one key of a line that begins at `at`. Some: output piled up.
    #[inline]
    pub(super) fn batch_read<'a>(
        &mut self,
        batch: &mut Batch<'a>,
        read: Read<'a>,
        at: usize,
    ) -> Option<Resume> {
        let (key, ask, want) = match read {
            Read::Get(key) => {
                let (token, last) = (false, true);
                (key, Ask::Text { token, last }, Want::default())
            }
            Read::Meta { key, flags } => {
                let want = Want {
                    token: flags.has(b'c'),
                    mark: !flags.has(b'u'),
                    count: true,
                };
                (key, Ask::Meta { flags }, want)
            }
        };
        let place = Resume { at, more: None };
        let resume = self.make_room(batch, want, place);
        if resume.is_none() {
            batch.push(key, ask, place);
        }
        resume
    }

    /// Answers what is gathered if one more key of this kind, from `place`, would not fit. Some: output has piled up.
    fn make_room(&mut self, batch: &mut Batch<'_>, want: Want, place: Resume) -> Option<Resume> {
        if !batch.is_full() && (batch.keys.is_empty() || batch.want == want) {
            batch.want = want;
            return None;
        }
        let resume = self.flush(batch);
        batch.want = want;
        resume.or(self.out.is_high().then_some(place))
    }

    /// Looks up and answers what is gathered, as far as output may pile up. Some: the rest was not looked at.
    pub(super) fn flush(&mut self, batch: &mut Batch<'_>) -> Option<Resume> {
        if batch.keys.is_empty() {
            return None;
        }
        let mut replies = Replies {
            keys: &batch.keys,
            asks: &batch.asks,
            out: &mut self.out,
            now_ms: self.now_ms,
            value_at: 0,
            claims: Vec::new(),
            answered: Answered::default(),
        };
        self.cache.get_many(&batch.keys, batch.want, &mut replies);
        let (answered, claims) = (replies.answered, replies.claims);
        answered.count(&self.counters);
        if self.shared.detail.is_on() {
            self.shared.detail.gets(&batch.keys[..answered.keys]);
        }
        for (index, at) in claims {
            self.settle_claim(batch.keys[index], at);
        }
        let resume = batch.places.get(answered.keys).copied();
        batch.keys.clear();
        batch.asks.clear();
        batch.places.clear();
        resume
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
        let line = KeyLine {
            at: 0,
            bytes: keys.rest().len(),
            continued: true,
        };
        let get = Get {
            keys,
            token: more.token,
        };
        let resume = self.batch_get(&mut batch, get, line);
        let resume = resume.or_else(|| self.flush(&mut batch));
        resume.map_or(0, |resume| line.bytes - resume.at)
    }
}

/// How far a batch came.
#[derive(Clone, Copy, Default)]
struct Answered {
    keys: usize,
    hits: usize,
    /// Lines of `get` of which it was the last key.
    lines: u64,
    /// `mg`.
    metas: u64,
}

impl Answered {
    fn count(&self, counters: &WorkerCounters) {
        counters.cmd_get.add(self.keys as u64);
        counters.get_hits.add(self.hits as u64);
        counters.get_misses.add((self.keys - self.hits) as u64);
        counters.cmd_get_lines.add(self.lines);
        counters.cmd_meta.add(self.metas);
    }
}

/// Writes replies while the engine reads.
struct Replies<'s, 'a> {
    keys: &'s [&'a [u8]],
    asks: &'s [Ask<'a>],
    out: &'s mut Out,
    now_ms: u64,
    /// Where the value of the current item begins in the buffer.
    value_at: usize,
    /// Stale items that this batch seems to have won: which, and where the reply says so.
    claims: Vec<(usize, usize)>,
    answered: Answered,
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
        let key = self.keys[index];
        match &self.asks[index] {
            Ask::Text { token, .. } => {
                let out = &mut self.out.bytes;
                out.extend_from_slice(b"VALUE ");
                out.extend_from_slice(key);
                if meta.flags == 0 {
                    out.extend_from_slice(b" 0 ");
                } else {
                    out.push(b' ');
                    push_u64(out, u64::from(meta.flags));
                    out.push(b' ');
                }
                push_u64(out, meta.value_bytes as u64);
                if *token {
                    out.push(b' ');
                    push_u64(out, meta.token.unwrap_or(0));
                }
                out.extend_from_slice(b"\r\n");
                true
            }
            Ask::Meta { flags } => {
                let marks = meta.marks.unwrap_or_default();
                meta_reply::read(&mut self.out.bytes, key, flags, meta, self.now_ms);
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
        self.answered.keys += 1;
        match self.asks[index] {
            Ask::Text { last: true, .. } => {
                self.answered.lines += 1;
                self.out.push(b"END\r\n");
            }
            Ask::Text { .. } => {}
            Ask::Meta { .. } => self.answered.metas += 1,
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
        self.answered.hits += 1;
        match &self.asks[index] {
            // In one push what the two below would write: most replies end so.
            Ask::Text { last: true, .. } => {
                self.answered.keys += 1;
                self.answered.lines += 1;
                return self.out.push(b"\r\nEND\r\n");
            }
            Ask::Meta { flags, .. } if !flags.has(b'v') => self.out.bytes.truncate(self.value_at),
            _ => self.out.push(b"\r\n"),
        }
        self.write_end(index);
    }

    fn held(&mut self, index: usize, guard: Guard) {
        self.answered.hits += 1;
        let meta = *guard.meta();
        if self.write_head(index, &meta) {
            self.out.hold(guard);
            self.out.push(b"\r\n");
        }
        self.write_end(index);
    }

    fn miss(&mut self, index: usize) {
        self.forget_claim(index);
        if let Ask::Meta { flags } = &self.asks[index] {
            if !flags.quiet() {
                let key = self.keys[index];
                meta_reply::miss(&mut self.out.bytes, b"EN", key, flags);
            }
        }
        self.write_end(index);
    }

    #[inline]
    fn wants_value(&self, index: usize) -> bool {
        match &self.asks[index] {
            Ask::Text { .. } => true,
            Ask::Meta { flags } => flags.has(b'v'),
        }
    }

    /// A few large values are enough to be sent first: held ones cannot be taken back when the peer does not read.
    #[inline]
    fn wants_more(&self) -> bool {
        !self.out.is_high()
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
            flags: FlagWords::default(),
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
            keys: &[b"k"],
            asks: &asks,
            out: &mut out,
            now_ms: 0,
            value_at: 0,
            claims: Vec::new(),
            answered: Answered::default(),
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
