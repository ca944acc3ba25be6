//! `delete`, `touch`, `flush_all` and `md`.

use super::conversation::Conversation;
use super::expiry::Expire;
use super::meta_reply;
use super::rewrite::Rewrite;
use crate::net::{Talk, REWRITE_BYTES_MIN};
use crate::wire::{Delete, Flush, Meta, MetaFlags, Refusal, Touch};
use thermocline::{Change, Marks, NewValue};

/// No room for what is no store: a new expiry, for one, may need a copy of the item. The item is there, as it was.
pub(super) const OUT_OF_MEMORY: &[u8] = b"SERVER_ERROR out of memory";

/// What came of a meta delete.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    Done,
    NotFound,
    Exists,
    NoRoom,
}

impl Conversation {
    pub(super) fn delete(&mut self, delete: &Delete<'_>) {
        let found = self.cache.delete(delete.key);
        self.count_delete(delete.key, found);
        if !delete.noreply {
            self.out.line(if found { b"DELETED" } else { b"NOT_FOUND" });
        }
    }

    fn count_delete(&mut self, key: &[u8], found: bool) {
        match found {
            true => self.counters.delete_hits.add(1),
            false => self.counters.delete_misses.add(1),
        }
        if self.shared.detail.is_on() {
            self.shared.detail.delete(key);
        }
    }

    pub(super) fn touch(&mut self, touch: &Touch<'_>) {
        let expire = Expire::of(touch.expiry_s, self.now_ms);
        let touched = self.cache.touch(touch.key, expire.engine());
        self.count_touch(touched.as_ref().ok().copied());
        if !touch.noreply {
            self.out.line(match touched {
                Ok(true) => b"TOUCHED",
                Ok(false) => b"NOT_FOUND",
                Err(_) => OUT_OF_MEMORY,
            });
        }
    }

    /// None: there was no room, which is neither hit nor miss.
    pub(super) fn count_touch(&mut self, found: Option<bool>) {
        self.counters.cmd_touch.add(1);
        match found {
            Some(true) => self.counters.touch_hits.add(1),
            Some(false) => self.counters.touch_misses.add(1),
            None => self.counters.store_no_memory.add(1),
        }
    }

    /// At once, or at a second to come: then everything stored up to and during that second is gone.
    pub(super) fn flush_all(&mut self, flush: &Flush) {
        self.counters.cmd_flush.add(1);
        if !self.shared.settings.allow_flush {
            if !flush.noreply {
                self.out.line(b"CLIENT_ERROR flush_all not allowed");
            }
            return;
        }
        match Expire::of(flush.delay_s, self.now_ms) {
            Expire::At(unix_ms) => self.cache.flush_at(unix_ms / 1000),
            Expire::Never | Expire::Past => self.cache.flush(),
        }
        if !flush.noreply {
            self.out.line(b"OK");
        }
    }

    pub(super) fn meta_delete(&mut self, talk: &mut Talk, meta: &Meta<'_>, line: &[u8]) {
        self.counters.cmd_meta.add(1);
        let Some(key) = self.decoded_or(meta.key, &meta.flags, Refusal::BAD_FLAG) else {
            return;
        };
        match self.carry_out_meta_delete(&key, &meta.flags) {
            Some(outcome) => self.answer_meta_delete(meta, &key, outcome),
            None => talk.rewrite = Some(Box::new(Rewrite::new(line, &[]))),
        }
    }

    pub(super) fn answer_meta_delete(&mut self, meta: &Meta<'_>, key: &[u8], outcome: Outcome) {
        self.count_delete(key, outcome == Outcome::Done);
        let word: &[u8] = match outcome {
            Outcome::Done if meta.flags.quiet() => return,
            Outcome::Done => b"HD",
            Outcome::NotFound => b"NF",
            Outcome::Exists => b"EX",
            Outcome::NoRoom => return self.out.line(OUT_OF_MEMORY),
        };
        meta_reply::miss(&mut self.out.bytes, word, meta.key, &meta.flags.sent);
    }

    /// None: a long value is to be marked, which is a copy of it.
    fn carry_out_meta_delete(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Option<Outcome> {
        let (invalidate, empty) = (flags.has(b'I'), flags.has(b'x'));
        if flags.compare.is_none() && !invalidate && !empty {
            return Some(match self.cache.delete(key) {
                true => Outcome::Done,
                false => Outcome::NotFound,
            });
        }
        let now_ms = self.now_ms;
        let ttl = flags.ttl_s.map(|ttl_s| Expire::of(ttl_s, now_ms).engine());
        let shown_max = match invalidate && !empty {
            true => REWRITE_BYTES_MIN,
            false => 0,
        };
        let updated = self.cache.update_short(key, shown_max, |view| {
            let Some(view) = view else {
                return (Change::Keep, Some(Outcome::NotFound));
            };
            if flags.compare.is_some() && flags.compare != view.meta.token {
                return (Change::Keep, Some(Outcome::Exists));
            }
            if !invalidate && !empty {
                return (Change::Remove, Some(Outcome::Done));
            }
            if !empty && view.meta.value_bytes > shown_max {
                return (Change::Keep, None);
            }
            let old = view.meta.marks.unwrap_or_default();
            let marks = Marks {
                stale: invalidate || old.stale,
                won: !invalidate && old.won,
                ..old
            };
            let change = Change::Put(NewValue {
                value: if empty {
                    Vec::new()
                } else {
                    view.value.to_vec()
                },
                flags: if empty { 0 } else { view.meta.flags },
                expiry: ttl.unwrap_or_else(|| super::meta_set::kept_expiry(view.meta)),
                token: flags.explicit,
                marks,
            });
            (change, Some(Outcome::Done))
        });
        updated.map_or(Some(Outcome::NoRoom), |updated| updated.answer)
    }
}
