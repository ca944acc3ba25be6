//! Commands about the server: limits, stopping, listings, and harmless answers where memcached has knobs we have not.

use super::conversation::{Conversation, Line};
use super::listing::{put_stats, Listing, What};
use crate::config::memcached::MEMORY_BYTES_MIN;
use crate::net::Talk;
use crate::server::VERSION;
use crate::stats;
use crate::wire::{parse_i64, parse_u64, Admin, Refusal, Words};

const OK: &[u8] = b"OK";
/// Keys listed by `stats hotkeys` and `stats bigkeys` when no number is given.
const KEYS_LISTED: usize = 20;
/// The slab class all items are said to be of.
const OUR_CLASS: u64 = 1;
/// Classes of memcached, 0 among them.
const CLASSES: u64 = 64;
const BAD_CLASS: &[u8] = b"BADCLASS invalid class id";

impl Conversation {
    pub(super) fn admin(&mut self, talk: &mut Talk, admin: Admin<'_>) -> Line {
        match admin {
            Admin::Stats(words) => self.stats(talk, words),
            Admin::Version => self.out.line(format!("VERSION {VERSION}").as_bytes()),
            Admin::Verbosity(words) => self.verbosity(words),
            Admin::Shutdown(words) => return self.shutdown(words),
            Admin::CacheMemlimit(words) => self.cache_memlimit(words),
            Admin::LruCrawler(words) => self.lru_crawler(talk, words),
            Admin::Lru(words) => self.lru(words),
            Admin::Slabs(words) => self.slabs(words),
            Admin::Watch(words) => self.watch(words),
            Admin::RefreshCerts => self.out.line(b"Error TLS not enabled"),
            Admin::DebugTime(words) => self.debug_time(words),
        }
        Line::Done
    }

    fn bad_line(&mut self) {
        self.out.line(Refusal::BAD_LINE.answer);
    }

    fn stats(&mut self, talk: &mut Talk, mut words: Words<'_>) {
        let (what, argument) = (words.next(), words.next());
        let shared = self.shared.clone();
        let lines = match what {
            None => stats::general(&shared),
            Some(b"settings") => stats::settings(&shared),
            Some(b"pages") => stats::pages(&shared),
            Some(b"tiers") => stats::tiers::lines(&shared.cache.tiers()),
            Some(b"items") => stats::items(&shared),
            Some(b"slabs") => stats::slabs(&shared),
            Some(b"sizes") => vec![("sizes_status".into(), "disabled".into())],
            Some(b"conns") => {
                put_stats(&mut self.out.bytes, stats::listeners(&shared));
                talk.listing = Some(Box::new(Listing::connections(shared)));
                return;
            }
            Some(b"hotkeys") => match count(argument) {
                Some(count) => stats::hot_keys(&shared, count),
                None => return self.bad_line(),
            },
            Some(b"bigkeys") => match count(argument) {
                Some(count) => stats::big_keys(&shared, count),
                None => return self.bad_line(),
            },
            Some(b"extstore") => Vec::new(),
            Some(b"reset") => {
                shared.reset_stats();
                return self.out.line(b"RESET");
            }
            Some(b"detail") => return self.stats_detail(argument),
            Some(b"cachedump") => return self.cache_dump(talk, argument, words.next()),
            Some(_) => return self.out.line(Refusal::UNKNOWN.answer),
        };
        put_stats(&mut self.out.bytes, lines);
        self.out.line(b"END");
    }

    fn stats_detail(&mut self, argument: Option<&[u8]>) {
        let detail = &self.shared.detail;
        match argument {
            Some(b"on") => detail.switch(true),
            Some(b"off") => detail.switch(false),
            Some(b"dump") => {
                let text = detail.dump();
                self.out.push(&text);
                return self.out.line(b"END");
            }
            _ => {
                return self
                    .out
                    .line(b"CLIENT_ERROR usage: stats detail on|off|dump")
            }
        }
        self.out.line(OK);
    }

    /// `stats cachedump <class> <limit>`: all items are of class 1. Tools ask for one class after the other until they
    /// are told that there is none such.
    fn cache_dump(&mut self, talk: &mut Talk, class: Option<&[u8]>, limit: Option<&[u8]>) {
        if !self.shared.settings.allow_dump {
            return self.out.line(b"CLIENT_ERROR stats cachedump not allowed");
        }
        let (Some(class), Some(limit)) = (class, limit) else {
            return self.out.line(b"CLIENT_ERROR bad command line");
        };
        match (parse_u64(class), parse_u64(limit)) {
            (Some(OUR_CLASS), Some(limit)) => {
                let items = Listing::keys(&self.cache, What::Items { limit });
                talk.listing = Some(Box::new(items));
            }
            (Some(CLASSES..), Some(_)) => self.out.line(b"CLIENT_ERROR Illegal slab id"),
            (Some(_), Some(_)) => self.out.line(b"END"),
            _ => self.bad_line(),
        }
    }

    /// Quiet whatever else the line says, if its last word is noreply.
    fn verbosity(&mut self, mut words: Words<'_>) {
        let level = words.next();
        let silent = level == Some(b"noreply") || words.last() == Some(b"noreply");
        let level = level.and_then(parse_u64);
        if let Some(level) = level {
            crate::logging::set_verbosity(level);
        }
        match level {
            _ if silent => {}
            Some(_) => self.out.line(OK),
            None => self.bad_line(),
        }
    }

    fn shutdown(&mut self, mut words: Words<'_>) -> Line {
        if !self.shared.settings.allow_shutdown {
            self.out.line(b"SERVER_ERROR: shutdown not enabled");
            return Line::Done;
        }
        match (words.next(), words.next()) {
            (None, _) => self.shared.begin_stop(crate::shared::Stop::Now),
            (Some(b"graceful"), None) => self.shared.begin_stop(crate::shared::Stop::Drain),
            _ => {
                self.out.line(b"CLIENT_ERROR invalid shutdown mode");
                return Line::Done;
            }
        }
        Line::Close
    }

    /// Megabytes for the whole process, as `-m` and `--memory` are.
    fn cache_memlimit(&mut self, mut words: Words<'_>) {
        let megabytes = words.next().and_then(parse_u64);
        let Some(bytes) = megabytes.and_then(|megabytes| megabytes.checked_mul(1 << 20)) else {
            return self.bad_line();
        };
        let silent = words.last() == Some(b"noreply");
        let answer = if bytes < MEMORY_BYTES_MIN {
            let least = MEMORY_BYTES_MIN >> 20;
            format!("MEMLIMIT_TOO_SMALL cannot set maxbytes to less than {least}m")
        } else {
            match self.shared.set_memory(bytes) {
                Ok(()) => "OK".to_string(),
                Err(error) => format!("MEMLIMIT_ADJUST_FAILED {error}"),
            }
        };
        if !silent {
            self.out.line(answer.as_bytes());
        }
    }

    fn lru_crawler(&mut self, talk: &mut Talk, mut words: Words<'_>) {
        let dump = match (words.next(), words.next()) {
            (Some(b"metadump"), Some(classes)) => (What::Metadump, classes),
            (Some(b"mgdump"), Some(classes)) => (What::Mgdump, classes),
            // Expired items are found without a crawler: these knobs move nothing.
            (Some(b"crawl"), Some(classes)) => {
                return self.out.line(match holds_our_class(classes) {
                    Some(_) => OK,
                    None => BAD_CLASS,
                })
            }
            (Some(b"enable" | b"disable"), _) => return self.out.line(OK),
            (Some(b"sleep" | b"tocrawl"), Some(_)) => return self.out.line(OK),
            (Some(b"metadump" | b"mgdump" | b"crawl" | b"sleep" | b"tocrawl") | None, _) => {
                return self.bad_line()
            }
            (Some(_), _) => return self.out.line(Refusal::UNKNOWN.answer),
        };
        if !self.shared.settings.allow_dump {
            return self.out.line(b"ERROR metadump not allowed");
        }
        let (what, classes) = dump;
        match holds_our_class(classes) {
            Some(true) => {
                self.out.line(OK);
                talk.listing = Some(Box::new(Listing::keys(&self.cache, what)));
            }
            Some(false) => {
                self.out.line(OK);
                self.out.line(what.end());
            }
            None => self.out.line(BAD_CLASS),
        }
    }

    fn lru(&mut self, mut words: Words<'_>) {
        match (words.next(), words.next()) {
            (Some(b"mode" | b"tune" | b"temp_ttl"), Some(_)) => self.out.line(OK),
            (Some(b"mode" | b"tune" | b"temp_ttl") | None, None) => self.bad_line(),
            _ => self.out.line(Refusal::UNKNOWN.answer),
        }
    }

    /// There are no slab classes to move pages between: an answer that ends a script without harm.
    fn slabs(&mut self, mut words: Words<'_>) {
        match (
            words.next(),
            words.next().map(parse_i64),
            words.next().map(parse_i64),
        ) {
            (Some(b"automove"), Some(Some(_)), None) => self.out.line(OK),
            (Some(b"reassign"), Some(Some(from)), Some(Some(to))) => {
                self.out.line(match from < 0 || to < 0 {
                    true => b"BADCLASS invalid src or dst class id",
                    false => b"NOSPARE source class has no spare pages",
                })
            }
            (Some(b"automove" | b"reassign") | None, ..) => self.bad_line(),
            _ => self.out.line(Refusal::UNKNOWN.answer),
        }
    }

    /// Accepted so that a monitor does not fail; nothing is ever logged to it.
    fn watch(&mut self, words: Words<'_>) {
        const KINDS: [&[u8]; 8] = [
            b"fetchers",
            b"mutations",
            b"evictions",
            b"connevents",
            b"deletions",
            b"rawcmds",
            b"proxyreqs",
            b"proxyevents",
        ];
        if !self.shared.settings.allow_watch {
            return self.out.line(b"CLIENT_ERROR watch commands not allowed");
        }
        match words.into_iter().all(|word| KINDS.contains(&word)) {
            true => self.out.line(OK),
            false => self.out.line(Refusal::UNKNOWN.answer),
        }
    }

    /// `debugtime N | p | r`: moves, stops and resumes the clock. Only with the test clock.
    fn debug_time(&mut self, mut words: Words<'_>) {
        let Some(clock) = self.shared.test_clock() else {
            return self.out.line(Refusal::UNKNOWN.answer);
        };
        match words.next() {
            Some(b"p") => clock.pause(),
            Some(b"r") => clock.resume(),
            Some(word) => match parse_u64(word) {
                Some(seconds) => clock.advance_s(seconds),
                None => return self.bad_line(),
            },
            None => return self.bad_line(),
        }
        self.now_ms = self.shared.now_ms();
        self.out.line(OK);
    }
}

/// Whether `all`, `hash` or a list of classes (`1,2,3`) holds ours. None: it names a class that memcached has not.
fn holds_our_class(classes: &[u8]) -> Option<bool> {
    if classes == b"all" || classes == b"hash" {
        return Some(true);
    }
    let mut holds = false;
    for class in classes.split(|byte| *byte == b',') {
        match parse_u64(class) {
            Some(class @ 1..CLASSES) => holds |= class == OUR_CLASS,
            _ => return None,
        }
    }
    Some(holds)
}

/// How many keys are asked for. None: not a number.
fn count(argument: Option<&[u8]>) -> Option<usize> {
    let number = match argument {
        Some(word) => usize::try_from(parse_u64(word)?).unwrap_or(usize::MAX),
        None => KEYS_LISTED,
    };
    Some(number.clamp(1, stats::KEYS_LISTED_MAX))
}
