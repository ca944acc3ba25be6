//! The conversation: lines, payloads and their order.
//!
//! `run` is handed all bytes there are and says how far it came and what it waits for. It never blocks, and it stops
//! early when so much output is waiting that it should be sent first.

use super::batch::{Batch, KeyLine, Resume};
use super::body::Body;
use super::expiry::Expire;
use super::store::Payload;
use crate::net::{Out, Talk, LINE_EXTRA_BYTES, OUTPUT_HIGH_BYTES, STREAM_BYTES_MIN};
use crate::shared::Shared;
use crate::stats::WorkerCounters;
use crate::wire::{self, Limits, Request, Words};
use std::sync::Arc;
use thermocline::Cache;

/// What the caller is to do next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Everything was answered.
    Done,
    /// The rest of the input is the beginning of a line.
    Line,
    /// The rest of the input is a request of so many bytes, payload included.
    Bytes(usize),
    /// Send what there is, then call again.
    Flush,
    /// Others have their turn, then call again.
    Yield,
    /// Send what there is and close.
    Close,
}

pub struct Step {
    /// Bytes of the input that are done with.
    pub consumed: usize,
    pub next: Next,
}

/// A `get` or `gat` of many keys that was interrupted; the rest of its line is still in the input.
#[derive(Clone, Copy, Debug)]
pub struct MoreKeys {
    pub token: bool,
    /// For `gat`: the new expiry.
    pub touch: Option<Expire>,
}

/// A worker's end of all its conversations.
pub struct Conversation {
    pub cache: Cache,
    pub shared: Arc<Shared>,
    pub counters: Arc<WorkerCounters>,
    pub out: Out,
    pub(super) limits: Limits,
    /// Second of the server's own count.
    pub now_s: u32,
    /// Unix milliseconds at the beginning of this turn of the loop.
    pub now_ms: u64,
}

/// How a single line left off.
pub(super) enum Line {
    /// Answered; so many payload bytes were used besides the line.
    Done,
    Close,
    /// Keys are left in this tail of the line.
    More(usize),
}

impl Conversation {
    pub fn new(shared: Arc<Shared>, counters: Arc<WorkerCounters>) -> Conversation {
        Conversation {
            limits: Limits {
                key_size_max: shared.settings.key_size_max,
                keys_max: shared.settings.keys_per_request_max,
            },
            cache: shared.cache.clone(),
            shared,
            counters,
            out: Out::with_capacity(OUTPUT_HIGH_BYTES),
            now_s: 0,
            now_ms: 0,
        }
    }

    /// Answers as much of `input` as can be answered.
    pub fn run(&mut self, talk: &mut Talk, input: &[u8]) -> Step {
        let mut batch = Batch::new();
        let mut at = 0;
        let mut served = 0;
        let mut resume = None;
        let mut next = loop {
            if talk.listing.is_some() && !self.continue_listing(talk) {
                break Next::Yield;
            }
            if talk.rewrite.is_some() && !self.continue_rewrite(talk) {
                break Next::Yield;
            }
            if talk.body.is_some() {
                at += self.feed_body(talk, &input[at..]);
                if talk.body.is_some() {
                    break Next::Done;
                }
            }
            if self.out.is_high() {
                break Next::Flush;
            }
            if at == input.len() {
                break Next::Done;
            }
            if served == self.shared.settings.requests_per_turn {
                self.counters.conn_yields.add(1);
                break Next::Yield;
            }
            let Some((line, line_bytes)) = wire::split_line(&input[at..]) else {
                break if self.line_is_too_long(&input[at..]) {
                    Next::Close
                } else {
                    Next::Line
                };
            };
            served += 1;
            if talk.more.is_some() || !talk.trusted {
                resume = self.flush(&mut batch);
                if resume.is_some() {
                    break Next::Flush;
                }
                match self.special_line(talk, line, line_bytes, &input[at..]) {
                    Special::Consumed(bytes) => at += bytes,
                    Special::Wait(next) => break next,
                }
                continue;
            }
            let request = match wire::parse(line, self.limits) {
                Ok(request) => request,
                Err(refusal) => {
                    resume = self.flush(&mut batch);
                    if resume.is_some() {
                        break Next::Flush;
                    }
                    self.out.line(refusal.answer);
                    at += line_bytes;
                    talk.body = Body::swallow(refusal.swallow);
                    continue;
                }
            };
            match request {
                // The common case: reads gather until something else comes along.
                Request::Get(get) => {
                    let line = KeyLine {
                        at,
                        bytes: line.len(),
                        continued: false,
                    };
                    resume = self.batch_get(&mut batch, get, line);
                    if resume.is_some() {
                        break Next::Flush;
                    }
                    at += line_bytes;
                }
                Request::MetaGet(meta) if Batch::takes(&meta) => {
                    resume = self.batch_meta(&mut batch, meta, at);
                    if resume.is_some() {
                        break Next::Flush;
                    }
                    at += line_bytes;
                }
                request => {
                    resume = self.flush(&mut batch);
                    if resume.is_some() {
                        break Next::Flush;
                    }
                    let payload = request.payload_bytes();
                    if payload > 0 {
                        match self.payload(talk, request, line, &input[at + line_bytes..]) {
                            Payload::Used(bytes) => at += line_bytes + bytes,
                            Payload::Wait => break Next::Bytes(line_bytes + payload as usize),
                        }
                        continue;
                    }
                    match self.command(talk, request, line) {
                        Line::Done => at += line_bytes,
                        Line::Close => {
                            at = input.len();
                            break Next::Close;
                        }
                        Line::More(left) => {
                            at += line.len() - left;
                            break Next::Flush;
                        }
                    }
                }
            }
        };
        if let Some(Resume { at: place, more }) = resume.or_else(|| self.flush(&mut batch)) {
            (at, talk.more, next) = (place, more, Next::Flush);
        }
        Step { consumed: at, next }
    }

    /// A beginning of a line that will be no command, however it goes on. memcached closes without a word, too.
    pub fn line_is_too_long(&self, line: &[u8]) -> bool {
        let settings = &self.shared.settings;
        let is_get = [b"get ".as_slice(), b"gets ", b"gat ", b"gats ", b"bget "]
            .iter()
            .any(|word| line.starts_with(word));
        match is_get {
            true => line.len() > settings.request_line_max,
            // Base64 makes a key a third longer.
            false => line.len() > settings.key_size_max / 3 * 4 + LINE_EXTRA_BYTES,
        }
    }

    /// Lines that are read differently: the rest of a long key list, and a client that has not logged in.
    fn special_line(
        &mut self,
        talk: &mut Talk,
        line: &[u8],
        line_bytes: usize,
        input: &[u8],
    ) -> Special {
        if let Some(more) = talk.more.take() {
            let left = self.more_keys(more, Words::new(line));
            if left == 0 {
                return Special::Consumed(line_bytes);
            }
            talk.more = Some(more);
            return Special::Consumed(line.len() - left);
        }
        match self.login(talk, line, &input[line_bytes..]) {
            Some(payload) => Special::Consumed(line_bytes + payload),
            None => Special::Wait(Next::Bytes(line_bytes + super::auth::payload_bytes(line))),
        }
    }

    /// Requests without payload.
    fn command(&mut self, talk: &mut Talk, request: Request<'_>, line: &[u8]) -> Line {
        match request {
            Request::GetTouch(get) => return self.get_touch(talk, get),
            Request::Delete(delete) => self.delete(&delete),
            Request::Arith(arith) => self.arith(&arith),
            Request::Touch(touch) => self.touch(&touch),
            Request::MetaGet(meta) => self.meta_get(&meta),
            Request::MetaDelete(meta) => self.meta_delete(talk, &meta, line),
            Request::MetaArith(meta) => self.meta_arith(&meta),
            Request::MetaDebug(meta) => self.meta_debug(&meta),
            Request::MetaNoop => self.out.line(b"MN"),
            Request::Flush(flush) => self.flush_all(&flush),
            Request::Quit => return Line::Close,
            Request::Admin(admin) => return self.admin(talk, admin),
            Request::Get(_) | Request::Store(_) | Request::MetaSet(_) => {
                unreachable!("reads and stores were taken above")
            }
        }
        Line::Done
    }

    /// A request with its payload: carried out when whole, streamed when large, else waited for.
    fn payload(
        &mut self,
        talk: &mut Talk,
        request: Request<'_>,
        line: &[u8],
        after: &[u8],
    ) -> Payload {
        let bytes = request.payload_bytes();
        match request {
            request if self.is_too_large(&request) => {
                self.refuse_too_large(&request);
                talk.body = Body::swallow(bytes);
                Payload::Used(0)
            }
            request if after.len() as u64 >= bytes => {
                let (value, end) = after[..bytes as usize].split_at(bytes as usize - 2);
                let whole = end == b"\r\n";
                match request {
                    Request::Store(store) if whole => self.store(talk, &store, value, line),
                    Request::MetaSet(set) if whole => self.meta_set(talk, &set, value, line),
                    Request::Store(store) => self.bad_chunk(&store),
                    _ => self.out.line(super::store::BAD_CHUNK),
                }
                // After a payload that was longer than said, its rest is read as a command, as memcached does.
                Payload::Used(bytes as usize)
            }
            request if bytes - 2 > STREAM_BYTES_MIN => self.begin_stream(talk, request, line),
            _ => Payload::Wait,
        }
    }
}

enum Special {
    Consumed(usize),
    Wait(Next),
}
