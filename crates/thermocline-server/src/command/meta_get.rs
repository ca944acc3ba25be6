//! `mg` with flags that change something (T, N, R, E), that compare (C), or with a key in base64; and `me`.

use super::conversation::Conversation;
use super::delete::OUT_OF_MEMORY;
use super::expiry::Expire;
use super::meta_reply::{self, Facts, Of};
use super::one::{read_and_touch, read_one, Found};
use crate::wire::{Meta as MetaRequest, MetaFlags};
use thermocline::{Change, Error, Marks, Meta, NewValue, Updated, Want};

impl Conversation {
    pub(super) fn meta_get(&mut self, request: &MetaRequest<'_>) {
        self.counters.cmd_meta.add(1);
        let flags = &request.flags;
        let Some(key) = self.decoded(request.key, flags) else {
            return;
        };
        let read = self.read_or_create(&key, flags);
        self.counters.cmd_get.add(1);
        let Ok((found, created)) = read else {
            return self.out.line(OUT_OF_MEMORY);
        };
        let Some(found) = found else {
            self.counters.get_misses.add(1);
            if !flags.quiet() {
                meta_reply::miss(&mut self.out.bytes, b"EN", request.key, &flags.sent);
            }
            return;
        };
        match created {
            true => self.counters.get_misses.add(1),
            false => self.counters.get_hits.add(1),
        }
        let won = created || self.wins(&key, flags, &found.meta);
        self.answer_read(request, found, created, won);
    }

    /// The item, touched where T asks for it, or made by N; true when it was made.
    fn read_or_create(
        &mut self,
        key: &[u8],
        flags: &MetaFlags<'_>,
    ) -> Result<(Option<Found>, bool), Error> {
        let now_ms = self.now_ms;
        // A second look only when somebody made or removed the item between reading and making.
        loop {
            let found = match flags.ttl_s {
                Some(ttl_s) => {
                    let expiry = Expire::of(ttl_s, now_ms).engine();
                    let found =
                        read_and_touch(&self.cache, key, expiry, wanted(flags), flags.has(b'v'));
                    self.count_touch(found.as_ref().ok().map(Option::is_some));
                    found?
                }
                None => self.read_one(key, flags),
            };
            let (None, Some(_)) = (&found, flags.vivify_s) else {
                return Ok((found, false));
            };
            match self.vivify(key, flags)? {
                made if made.answer => {
                    let meta = Meta {
                        token: made.token,
                        marks: Some(Marks {
                            base64: flags.base64(),
                            last_access_s: (now_ms / 1000) as u32,
                            ..Marks::default()
                        }),
                        ..Meta::default()
                    };
                    return Ok((Some(Found::copied(meta, Vec::new())), true));
                }
                _ => {}
            }
        }
    }

    fn read_one(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Option<Found> {
        read_one(&self.cache, key, wanted(flags), flags.has(b'v'))
    }

    /// Makes an empty item that carries the claim of whoever asked; the answer is false where there is one already.
    /// One whose time is over from the start is answered as if it were there, and is gone.
    fn vivify(&mut self, key: &[u8], flags: &MetaFlags<'_>) -> Result<Updated<bool>, Error> {
        let expiry = Expire::of(flags.made_ttl_s(), self.now_ms).engine();
        self.cache.update_short(key, 0, |view| match view {
            Some(_) => (Change::Keep, false),
            None => {
                let change = Change::Put(NewValue {
                    value: Vec::new(),
                    flags: 0,
                    expiry,
                    token: flags.explicit,
                    marks: Marks {
                        won: true,
                        base64: flags.base64(),
                        ..Marks::default()
                    },
                });
                (change, true)
            }
        })
    }

    /// Whether this reader is the one to refresh the item: stale, or with little time left, and not yet claimed.
    fn wins(&mut self, key: &[u8], flags: &MetaFlags<'_>, meta: &Meta) -> bool {
        let now_ms = self.now_ms;
        let soon = |expires_at_ms: Option<u64>| {
            let limit_s = flags.recache_s.unwrap_or(0).max(0) as u64;
            expires_at_ms.is_some_and(|at| meta_reply::ttl_s(at, now_ms) < limit_s)
        };
        let touched = flags.ttl_s.map(|ttl_s| Expire::of(ttl_s, now_ms));
        let late = match touched {
            Some(expire) if flags.before(b'T', b'R') => {
                let limit_s = flags.recache_s.unwrap_or(0).max(0) as u64;
                meta_reply::given_s(expire, now_ms).is_some_and(|left_s| left_s < limit_s)
            }
            _ => soon(meta.expires_at_ms),
        };
        let marks = meta.marks.unwrap_or_default();
        if marks.won || !(marks.stale || late) {
            return false;
        }
        // Asked of the item as it is now; where T has moved its end already, that says nothing any more.
        self.claim(key, |marks, expires_at_ms| {
            marks.stale || (late && (touched.is_some() || soon(expires_at_ms)))
        })
    }

    /// Sets the won mark if nobody has and the item still deserves it; true for the one who did.
    pub(super) fn claim(
        &mut self,
        key: &[u8],
        deserves: impl Fn(&Marks, Option<u64>) -> bool,
    ) -> bool {
        let claimed = self.cache.update_short(key, 0, |view| {
            let Some(view) = view else {
                return (Change::Keep, false);
            };
            let marks = view.meta.marks.unwrap_or_default();
            if marks.won || !deserves(&marks, view.meta.expires_at_ms) {
                return (Change::Keep, false);
            }
            let marks = Marks { won: true, ..marks };
            (Change::Marks(marks), true)
        });
        claimed.is_ok_and(|updated| updated.answer)
    }

    fn answer_read(&mut self, request: &MetaRequest<'_>, found: Found, created: bool, won: bool) {
        let flags = &request.flags;
        let meta = found.meta;
        let marks = meta.marks.unwrap_or_default();
        let now_ms = self.now_ms;
        let given = |ttl_s: i64| meta_reply::given_s(Expire::of(ttl_s, now_ms), now_ms);
        let facts = Facts {
            touched_s: flags.ttl_s.map(given),
            made_s: flags.vivify_s.filter(|_| created).map(given),
            ..Facts::of(&meta, now_ms)
        };
        // The client has this very version: no need to send it again.
        let same = flags.compare.is_some() && flags.compare == meta.token;
        let value = flags.has(b'v') && !same;
        if flags.has(b'v') && same {
            self.out.push(b"HD");
            meta_reply::returned(
                Of::Get,
                &mut self.out.bytes,
                request.key,
                &flags.sent,
                &facts,
            );
        } else {
            meta_reply::hit(
                Of::Get,
                &mut self.out.bytes,
                request.key,
                &flags.sent,
                &facts,
            );
        }
        if marks.won && !created {
            self.out.push(b" Z");
        }
        if marks.stale {
            self.out.push(b" X");
        }
        if won {
            self.out.push(b" W");
        } else if marks.stale && !marks.won {
            // Somebody claimed it between our read and our claim.
            let at = self.out.bytes.len() - 2;
            self.out.bytes.truncate(at);
            self.out.push(b" Z X");
        }
        self.out.push(b"\r\n");
        if value {
            found.put(&mut self.out);
            self.out.push(b"\r\n");
        }
    }

    /// `me`: what is known of an item, for people.
    pub(super) fn meta_debug(&mut self, request: &MetaRequest<'_>) {
        self.counters.cmd_meta.add(1);
        let Some(key) = self.decoded(request.key, &request.flags) else {
            return;
        };
        let Some(meta) = self.cache.peek(&key, true) else {
            return self.out.line(b"EN");
        };
        let facts = Facts::of(&meta, self.now_ms);
        self.out.push(b"ME ");
        self.out.push(request.key);
        let ttl = facts
            .ttl_s
            .map_or("-1".to_string(), |ttl_s| ttl_s.to_string());
        let text = format!(
            " exp={ttl} la={} cas={} fetch={} cls=1 size={}",
            facts.idle_s,
            facts.token,
            if facts.fetched { "yes" } else { "no" },
            meta.stored_bytes
        );
        self.out.line(text.as_bytes());
    }
}

/// What the flags of a meta get ask for beside value and facts.
fn wanted(flags: &MetaFlags<'_>) -> Want {
    Want {
        token: flags.has(b'c') || flags.compare.is_some(),
        mark: !flags.has(b'u'),
        count: true,
    }
}
