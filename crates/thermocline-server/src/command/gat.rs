//! `gat`, `gats`: read and touch, key by key.

use super::conversation::{Conversation, Line, MoreKeys};
use super::delete::OUT_OF_MEMORY;
use super::expiry::Expire;
use super::one::read_and_touch;
use crate::net::Talk;
use crate::wire::{push_u64, GetTouch, Words};
use thermocline::{Error, Want};

impl Conversation {
    pub(super) fn get_touch(&mut self, talk: &mut Talk, request: GetTouch<'_>) -> Line {
        let expire = Expire::of(request.expiry_s, self.now_ms);
        let token = request.get.token;
        match self.touch_keys(token, expire, request.get.keys) {
            0 => Line::Done,
            left => {
                talk.more = Some(MoreKeys {
                    token,
                    touch: Some(expire),
                });
                Line::More(left)
            }
        }
    }

    /// Answers keys until output piles up; returns the bytes of the line that are left, 0 when END was said, or an error
    /// that ends the reply.
    pub(super) fn touch_keys(&mut self, token: bool, expire: Expire, mut keys: Words<'_>) -> usize {
        while let Some(key) = keys.next() {
            if self.touch_key(key, token, expire).is_err() {
                self.out.line(OUT_OF_MEMORY);
                return 0;
            }
            let rest = keys.rest();
            if self.out.is_high() && keys.clone().next().is_some() {
                return rest.len();
            }
        }
        self.out.line(b"END");
        0
    }

    fn touch_key(&mut self, key: &[u8], token: bool, expire: Expire) -> Result<(), Error> {
        let want = Want {
            token,
            ..Want::default()
        };
        let found = read_and_touch(&self.cache, key, expire.engine(), want, true);
        self.count_touch(found.as_ref().ok().map(Option::is_some));
        self.counters.cmd_get.add(1);
        let Some(found) = found? else {
            self.counters.get_misses.add(1);
            return Ok(());
        };
        self.counters.get_hits.add(1);
        let meta = found.meta;
        let out = &mut self.out.bytes;
        out.extend_from_slice(b"VALUE ");
        out.extend_from_slice(key);
        out.push(b' ');
        push_u64(out, u64::from(meta.flags));
        out.push(b' ');
        push_u64(out, meta.value_bytes as u64);
        if token {
            out.push(b' ');
            push_u64(out, meta.token.unwrap_or(0));
        }
        self.out.push(b"\r\n");
        found.put(&mut self.out);
        self.out.push(b"\r\n");
        Ok(())
    }
}
