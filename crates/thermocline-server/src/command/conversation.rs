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
use crate::wire::{self, Limits, Read, Request, Words};
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
            if let Some(next) = self.before_a_line(talk, input, &mut at, served) {
                break next;
            }
            if let Some((read, line_bytes)) = self.quick_read(talk, &input[at..]) {
                served += 1;
                resume = self.batch_read(&mut batch, read, at);
                if resume.is_some() {
                    break Next::Flush;
                }
                at += line_bytes;
                continue;
            }
            let Some((line, line_bytes)) = wire::split_line(&input[at..]) else {
                break match self.line_is_too_long(&input[at..]) {
                    true => Next::Close,
                    false => Next::Line,
                };
            };
            served += 1;
            match self.one_line(talk, &mut batch, input, at, line, line_bytes) {
                Took::Bytes(bytes) => at += bytes,
                Took::Last(bytes, next) => {
                    at += bytes;
                    break next;
                }
                Took::PiledUp(place) => {
                    resume = Some(place);
                    break Next::Flush;
                }
            }
        };
        if let Some(Resume { at: place, more }) = resume.or_else(|| self.flush(&mut batch)) {
            (at, talk.more, next) = (place, more, Next::Flush);
        }
        Step { consumed: at, next }
    }

    /// The common case: a read of one key, for a client whose lines are read as they come.
    #[inline]
    fn quick_read<'a>(&self, talk: &Talk, input: &'a [u8]) -> Option<(Read<'a>, usize)> {
        match talk.more.is_some() || !talk.trusted {
            true => None,
            false => wire::quick_read(input, self.limits.key_size_max),
        }
    }

    /// What was begun before goes on first. Some: no further line is taken up now.
    #[inline]
    fn before_a_line(
        &mut self,
        talk: &mut Talk,
        input: &[u8],
        at: &mut usize,
        served: usize,
    ) -> Option<Next> {
        if talk.listing.is_some() && !self.continue_listing(talk) {
            return Some(Next::Yield);
        }
        if talk.rewrite.is_some() && !self.continue_rewrite(talk) {
            return Some(Next::Yield);
        }
        if talk.body.is_some() {
            *at += self.feed_body(talk, &input[*at..]);
            if talk.body.is_some() {
                return Some(Next::Done);
            }
        }
        if self.out.is_high() {
            return Some(Next::Flush);
        }
        if *at == input.len() {
            return Some(Next::Done);
        }
        if served == self.shared.settings.requests_per_turn {
            self.counters.conn_yields.add(1);
            return Some(Next::Yield);
        }
        None
    }

    /// The line that begins at `at`: read into the batch, or, once that is answered, carried out.
    #[inline]
    fn one_line<'a>(
        &mut self,
        talk: &mut Talk,
        batch: &mut Batch<'a>,
        input: &'a [u8],
        at: usize,
        line: &'a [u8],
        line_bytes: usize,
    ) -> Took {
        if talk.more.is_some() || !talk.trusted {
            if let Some(resume) = self.flush(batch) {
                return Took::PiledUp(resume);
            }
            return self.special_line(talk, line, line_bytes, &input[at..]);
        }
        let request = match wire::parse(line, self.limits) {
            Ok(request) => request,
            Err(refusal) => {
                if let Some(resume) = self.flush(batch) {
                    return Took::PiledUp(resume);
                }
                self.out.line(refusal.answer);
                talk.body = Body::swallow(refusal.swallow);
                return Took::Bytes(line_bytes);
            }
        };
        let piled_up = match request {
            // Reads gather until something else comes along.
            Request::Get(get) => {
                let line = KeyLine {
                    at,
                    bytes: line.len(),
                    continued: false,
                };
                self.batch_get(batch, get, line)
            }
            Request::MetaGet(meta) if Batch::takes(&meta) => {
                let (key, flags) = (meta.key, meta.flags.sent);
                self.batch_read(batch, Read::Meta { key, flags }, at)
            }
            request => {
                if let Some(resume) = self.flush(batch) {
                    return Took::PiledUp(resume);
                }
                return self.alone(talk, request, line, line_bytes, &input[at + line_bytes..]);
            }
        };
        piled_up.map_or(Took::Bytes(line_bytes), Took::PiledUp)
    }

    /// A request that is no plain read: what came before it has been answered.
    fn alone(
        &mut self,
        talk: &mut Talk,
        request: Request<'_>,
        line: &[u8],
        line_bytes: usize,
        after: &[u8],
    ) -> Took {
        let payload = request.payload_bytes();
        if payload > 0 {
            return match self.payload(talk, request, line, after) {
                Payload::Used(bytes) => Took::Bytes(line_bytes + bytes),
                Payload::Wait => Took::Last(0, Next::Bytes(line_bytes + payload as usize)),
            };
        }
        match self.command(talk, request, line) {
            Line::Done => Took::Bytes(line_bytes),
            Line::Close => Took::Last(line_bytes + after.len(), Next::Close),
            Line::More(left) => Took::Last(line.len() - left, Next::Flush),
        }
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
    ) -> Took {
        if let Some(more) = talk.more.take() {
            let left = self.more_keys(more, Words::new(line));
            if left == 0 {
                return Took::Bytes(line_bytes);
            }
            talk.more = Some(more);
            return Took::Bytes(line.len() - left);
        }
        match self.login(talk, line, &input[line_bytes..]) {
            Some(payload) => Took::Bytes(line_bytes + payload),
            None => {
                let bytes = line_bytes + super::auth::payload_bytes(line);
                Took::Last(0, Next::Bytes(bytes))
            }
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

/// How far the input of `run` is done with after a line.
enum Took {
    Bytes(usize),
    /// So many bytes, and no further line now.
    Last(usize, Next),
    /// Output piled up: the input goes on there.
    PiledUp(Resume),
}
