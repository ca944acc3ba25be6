//! A payload on its way through a connection: swallowed, or streamed into the cache.

use super::conversation::Conversation;
use super::store::{BAD_CHUNK, NO_ROOM};
use crate::net::{pinned_bytes, Talk, STALLED_SECONDS, UPLOAD_BYTES_MIN};
use crate::wire::{self, Request};
use thermocline::{Error, Writer};

pub enum Body {
    /// Bytes nobody wants, line end included.
    Swallow(u64),
    Stream(Box<Stream>),
}

pub struct Stream {
    /// The request line, to be read again when the payload is complete.
    line: Vec<u8>,
    /// None when the cache refused: the payload is then only counted down.
    writer: Result<Writer, Error>,
    value_left: u64,
    value_taken: u64,
    pace: Pace,
    segment_bytes: u64,
    /// How much of CRLF has come, and whether it was right.
    end: Vec<u8>,
}

/// How fast a payload comes in, by windows of `STALLED_SECONDS`: one byte now and then is no progress.
#[derive(Default)]
struct Pace {
    /// Second in which the window began, and the bytes that had come by then.
    window: Option<(u32, u64)>,
    /// So it was in the last whole window.
    is_slow: bool,
}

impl Pace {
    /// Looked at once a second.
    fn look(&mut self, now_s: u32, taken: u64) -> bool {
        let (since_s, before) = *self.window.get_or_insert((now_s, taken));
        if u64::from(now_s.saturating_sub(since_s)) >= STALLED_SECONDS {
            self.is_slow = taken - before < UPLOAD_BYTES_MIN;
            self.window = Some((now_s, taken));
        }
        self.is_slow
    }
}

impl Body {
    pub fn swallow(bytes: u64) -> Option<Box<Body>> {
        (bytes > 0).then(|| Box::new(Body::Swallow(bytes)))
    }

    pub fn stream(
        line: &[u8],
        bytes: u64,
        writer: Result<Writer, Error>,
        segment_bytes: u64,
    ) -> Body {
        Body::Stream(Box::new(Stream {
            line: line.to_vec(),
            writer,
            value_left: bytes,
            value_taken: 0,
            pace: Pace::default(),
            segment_bytes,
            end: Vec::with_capacity(2),
        }))
    }
}

impl Body {
    /// Bytes of the cache's memory that cannot be reused before this payload is complete; see `pinned_bytes`.
    pub fn pinned(&self) -> u64 {
        match self {
            Body::Swallow(_) => 0,
            Body::Stream(stream) => stream.pinned_with(0),
        }
    }
}

impl Body {
    /// Whether so little of a large value has come lately that others may have its room.
    pub fn is_slow(&mut self, now_s: u32) -> bool {
        match self {
            Body::Swallow(_) => false,
            Body::Stream(stream) => stream.pace.look(now_s, stream.value_taken),
        }
    }
}

impl Stream {
    /// What is pinned once `more` bytes have been taken.
    fn pinned_with(&self, more: u64) -> u64 {
        match (&self.writer, self.value_taken + more) {
            (Err(_), _) | (_, 0) => 0,
            (Ok(_), taken) => pinned_bytes(taken, self.segment_bytes),
        }
    }

    /// How much more is pinned once its share of the input has been taken.
    fn growth(&self, input: &[u8]) -> u64 {
        let more = self.value_left.min(input.len() as u64);
        self.pinned_with(more) - self.pinned_with(0)
    }

    /// Takes its share of the input; returns how much that was.
    fn take(&mut self, input: &[u8]) -> usize {
        let value = input
            .len()
            .min(usize::try_from(self.value_left).unwrap_or(usize::MAX));
        if let Ok(writer) = &mut self.writer {
            if let Err(error) = writer.write(&input[..value]) {
                self.writer = Err(error);
            }
        }
        self.value_left -= value as u64;
        self.value_taken += value as u64;
        let mut used = value;
        if self.value_left == 0 {
            let end = (2 - self.end.len()).min(input.len() - used);
            self.end.extend_from_slice(&input[used..used + end]);
            used += end;
        }
        used
    }

    fn is_complete(&self) -> bool {
        self.value_left == 0 && self.end.len() == 2
    }
}

impl Conversation {
    /// Feeds the payload under way; clears `talk.body` when it is complete. Returns the bytes used.
    pub(super) fn feed_body(&mut self, talk: &mut Talk, input: &[u8]) -> usize {
        let Some(body) = &mut talk.body else { return 0 };
        match body.as_mut() {
            Body::Swallow(left) => {
                let used = input
                    .len()
                    .min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= used as u64;
                if *left == 0 {
                    talk.body = None;
                }
                used
            }
            Body::Stream(stream) => {
                if !self.shared.pool.may_stream(stream.growth(input)) {
                    self.refuse_stream(stream);
                }
                let used = stream.take(input);
                if stream.is_complete() {
                    if let Some(body) = talk.body.take() {
                        self.finish_stream(*body);
                    }
                }
                used
            }
        }
    }

    /// Gives up the room of a payload that stands still or trickles; see `refuse_stream`.
    pub fn refuse_upload(&mut self, talk: &mut Talk) {
        if let Some(Body::Stream(stream)) = talk.body.as_deref_mut() {
            if stream.writer.is_ok() {
                self.refuse_stream(stream);
            }
        }
    }

    /// Values on their way in pin too much: this one is counted down only.
    fn refuse_stream(&mut self, stream: &mut Stream) {
        stream.writer = Err(Error::NoRoom);
    }

    fn finish_stream(&mut self, body: Body) {
        let Body::Stream(stream) = body else { return };
        let Stream {
            line, writer, end, ..
        } = *stream;
        let request = wire::parse(&line, self.limits);
        let whole = end == b"\r\n";
        if let (Ok(request), Err(_), true) = (&request, &writer, whole) {
            // Not before: a client that dies half way changes nothing.
            self.drop_refused(request);
        }
        match request {
            Ok(Request::Store(store)) if whole => {
                let outcome = writer.and_then(Writer::commit);
                self.answer_store(&store, outcome);
            }
            Ok(Request::MetaSet(set)) if whole => {
                let outcome = writer.and_then(Writer::commit);
                // It was decoded when the payload began to arrive.
                if let Some(key) = self.decoded(set.key, &set.flags) {
                    self.answer_meta_set(&set, &key, outcome);
                }
            }
            Ok(Request::Store(store)) => self.bad_chunk(&store),
            Ok(Request::MetaSet(_)) => self.out.line(BAD_CHUNK),
            // The same line was a store when it came in.
            _ => self.out.line(NO_ROOM),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trickle_is_slow_and_a_stream_is_not() {
        let window = STALLED_SECONDS as u32;
        let looks = |bytes_a_second: u64, from_s: u32| {
            let mut pace = Pace::default();
            let mut look = |s: u32| pace.look(s, u64::from(s) * bytes_a_second);
            (from_s..from_s + 3 * window)
                .map(&mut look)
                .collect::<Vec<bool>>()
        };
        let enough = UPLOAD_BYTES_MIN / STALLED_SECONDS + 1;
        assert!(looks(enough, 1_000).iter().all(|slow| !slow));
        let trickle = looks(1, 1_000);
        assert!(
            trickle[..window as usize].iter().all(|slow| !slow),
            "not yet"
        );
        assert!(trickle[window as usize..].iter().all(|slow| *slow));
        // It comes to life again.
        let mut pace = Pace::default();
        assert!(!pace.look(0, 0) && pace.look(window, 5));
        assert!(!pace.look(2 * window, 5 + UPLOAD_BYTES_MIN));
    }
}
