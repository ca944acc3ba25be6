//! One line in, one request out.
//!
//! Owns: which words are commands, how many words each takes, and which malformed lines carry a payload to be skipped.
//! A line that names its payload's length rightly but is wrong elsewhere has its payload skipped; one whose length
//! cannot be read has nothing skipped, because nothing can be known.

use super::meta::Command;
use super::request::*;
use super::{parse_i64, parse_u64, MetaFlags, Words};

/// What a line may ask for at most.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of a key.
    pub key_size_max: usize,
    /// Keys of one `get`.
    pub keys_max: usize,
}

/// Parses one line (without its end).
#[inline]
pub fn parse(line: &[u8], limits: Limits) -> Result<Request<'_>, Refusal> {
    let key_size_max = limits.key_size_max;
    // What most lines are.
    if let Some(keys) = line.strip_prefix(b"get ") {
        return parse_get(Words::new(keys), false, limits).map(Request::Get);
    }
    let mut words = Words::new(line);
    let Some(command) = words.next() else {
        return Err(Refusal::BAD_LINE);
    };
    match command {
        b"get" => parse_get(words, false, limits).map(Request::Get),
        b"mg" => parse_meta(Command::Get, words, key_size_max).map(Request::MetaGet),
        b"set" => parse_store(Verb::Set, words, key_size_max),
        b"ms" => parse_meta_set(words, key_size_max),
        b"gets" => parse_get(words, true, limits).map(Request::Get),
        _ => parse_rarer(command, words, limits),
    }
}

fn parse_rarer<'a>(
    command: &[u8],
    words: Words<'a>,
    limits: Limits,
) -> Result<Request<'a>, Refusal> {
    let key_size_max = limits.key_size_max;
    match command {
        b"add" => parse_store(Verb::Add, words, key_size_max),
        b"replace" => parse_store(Verb::Replace, words, key_size_max),
        b"append" => parse_store(Verb::Append, words, key_size_max),
        b"prepend" => parse_store(Verb::Prepend, words, key_size_max),
        b"cas" => parse_store(Verb::Cas(0), words, key_size_max),
        // An old name of get that clients still send.
        b"bget" => parse_get(words, false, limits).map(Request::Get),
        b"gat" => parse_get_touch(words, false, limits),
        b"gats" => parse_get_touch(words, true, limits),
        b"delete" => parse_delete(words, key_size_max),
        b"incr" => parse_arith(words, true, key_size_max),
        b"decr" => parse_arith(words, false, key_size_max),
        b"touch" => parse_touch(words, key_size_max),
        b"md" => parse_meta(Command::Delete, words, key_size_max).map(Request::MetaDelete),
        b"ma" => parse_meta(Command::Arith, words, key_size_max).map(Request::MetaArith),
        b"me" => parse_meta(Command::Debug, words, key_size_max).map(Request::MetaDebug),
        b"mn" => Ok(Request::MetaNoop),
        b"flush_all" => parse_flush(words),
        b"quit" => Ok(Request::Quit),
        _ => parse_admin(command, words).map(Request::Admin),
    }
}

fn parse_admin<'a>(command: &[u8], words: Words<'a>) -> Result<Admin<'a>, Refusal> {
    Ok(match command {
        b"stats" => Admin::Stats(words),
        b"version" => Admin::Version,
        b"verbosity" => Admin::Verbosity(words),
        b"shutdown" => Admin::Shutdown(words),
        b"cache_memlimit" => Admin::CacheMemlimit(words),
        b"lru_crawler" => Admin::LruCrawler(words),
        b"lru" => Admin::Lru(words),
        b"slabs" => Admin::Slabs(words),
        b"watch" => Admin::Watch(words),
        b"refresh_certs" => Admin::RefreshCerts,
        b"debugtime" => Admin::DebugTime(words),
        _ => return Err(Refusal::UNKNOWN),
    })
}

#[inline]
fn parse_get(words: Words<'_>, token: bool, limits: Limits) -> Result<Get<'_>, Refusal> {
    let rest = words.rest();
    if rest.iter().all(|&b| b == b' ') {
        return Err(Refusal::BAD_LINE);
    }
    // Only a line longer than a key can hold a key that is too long, and n keys take at least n bytes.
    if rest.len() > limits.key_size_max && words.clone().any(|key| key.len() > limits.key_size_max)
    {
        return Err(Refusal::BAD_GET_KEY);
    }
    if rest.len() > limits.keys_max && words.clone().count() > limits.keys_max {
        return Err(Refusal::TOO_MANY_KEYS);
    }
    Ok(Get { keys: words, token })
}

fn parse_get_touch(
    mut words: Words<'_>,
    token: bool,
    limits: Limits,
) -> Result<Request<'_>, Refusal> {
    let expiry = words.next().ok_or(Refusal::BAD_LINE)?;
    if words.clone().next().is_none() {
        return Err(Refusal::BAD_LINE);
    }
    let expiry_s = parse_i64(expiry).ok_or(Refusal::BAD_EXPIRY)?;
    let get = parse_get(words, token, limits)?;
    Ok(Request::GetTouch(GetTouch { expiry_s, get }))
}

/// `<verb> key flags exptime bytes [token] [noreply]`
#[inline]
fn parse_store(
    verb: Verb,
    mut words: Words<'_>,
    key_size_max: usize,
) -> Result<Request<'_>, Refusal> {
    let mut next = || words.next().ok_or(Refusal::BAD_LINE);
    let (key, flags, expiry, bytes) = (next()?, next()?, next()?, next()?);
    let token = match verb {
        Verb::Cas(_) => Some(next()?),
        _ => None,
    };
    let bytes = parse_bytes(bytes)?;
    let bad_line = Refusal::BAD_LINE.swallowing(bytes + 2);
    let noreply = match (words.next(), words.next()) {
        (last, None) => last == Some(b"noreply"),
        _ => return Err(bad_line),
    };
    if key.len() > key_size_max {
        return Err(bad_line);
    }
    let verb = match token {
        Some(token) => Verb::Cas(parse_u64(token).ok_or(bad_line)?),
        None => verb,
    };
    Ok(Request::Store(Store {
        verb,
        key,
        // As memcached: any number is taken, and what is beyond 32 bits falls off (the meta commands refuse it).
        flags: parse_u64(flags).ok_or(bad_line)? as u32,
        expiry_s: parse_i64(expiry).ok_or(bad_line)?,
        bytes,
        noreply,
    }))
}

fn parse_bytes(word: &[u8]) -> Result<u64, Refusal> {
    parse_u64(word)
        .filter(|&bytes| bytes <= VALUE_BYTES_MAX)
        .ok_or(Refusal::BAD_LINE)
}

/// The old third word of `delete` was a time: only 0 is taken, as memcached 1.6.18 and libmemcached's checker have it.
fn parse_delete(mut words: Words<'_>, key_size_max: usize) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(Refusal::BAD_LINE)?;
    let (second, third, more) = (words.next(), words.next(), words.next());
    if key.len() > key_size_max {
        return Err(Refusal::BAD_LINE);
    }
    let noreply = match (second, third, more) {
        (None, ..) | (Some(b"0"), None, _) => false,
        (Some(b"noreply"), None, _) | (Some(b"0"), Some(b"noreply"), None) => true,
        _ => return Err(Refusal::BAD_DELETE),
    };
    Ok(Request::Delete(Delete { key, noreply }))
}

fn parse_arith(
    mut words: Words<'_>,
    up: bool,
    key_size_max: usize,
) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(Refusal::BAD_LINE)?;
    let delta = words.next().ok_or(Refusal::BAD_LINE)?;
    let noreply = words.next() == Some(b"noreply");
    if words.next().is_some() || key.len() > key_size_max {
        return Err(Refusal::BAD_LINE);
    }
    let delta = parse_u64(delta).ok_or(Refusal::BAD_DELTA)?;
    Ok(Request::Arith(Arith {
        key,
        delta,
        up,
        noreply,
    }))
}

fn parse_touch(mut words: Words<'_>, key_size_max: usize) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(Refusal::BAD_LINE)?;
    let expiry = words.next().ok_or(Refusal::BAD_LINE)?;
    let noreply = words.next() == Some(b"noreply");
    if words.next().is_some() || key.len() > key_size_max {
        return Err(Refusal::BAD_LINE);
    }
    let expiry_s = parse_i64(expiry).ok_or(Refusal::BAD_EXPIRY)?;
    Ok(Request::Touch(Touch {
        key,
        expiry_s,
        noreply,
    }))
}

/// `flush_all [delay] [noreply]`; further words are ignored.
fn parse_flush(mut words: Words<'_>) -> Result<Request<'_>, Refusal> {
    let first = words.next();
    let noreply = first == Some(b"noreply") || words.next() == Some(b"noreply");
    let delay_s = match first {
        None | Some(b"noreply") => 0,
        Some(word) => parse_i64(word).ok_or(Refusal::BAD_EXPIRY)?,
    };
    Ok(Request::Flush(Flush { delay_s, noreply }))
}

#[inline]
fn parse_meta(
    command: Command,
    mut words: Words<'_>,
    key_size_max: usize,
) -> Result<Meta<'_>, Refusal> {
    let key = words.next().ok_or(Refusal::BAD_LINE)?;
    if key.len() > key_size_max {
        return Err(Refusal::BAD_LINE);
    }
    let flags = MetaFlags::parse(command, words)?;
    Ok(Meta { key, flags })
}

/// `ms key bytes flags*`
fn parse_meta_set(mut words: Words<'_>, key_size_max: usize) -> Result<Request<'_>, Refusal> {
    let key = words.next().ok_or(Refusal::BAD_LINE)?;
    let bytes = parse_bytes(words.next().ok_or(Refusal::BAD_LINE)?)?;
    if key.len() > key_size_max {
        return Err(Refusal::BAD_LINE.swallowing(bytes + 2));
    }
    let flags =
        MetaFlags::parse(Command::Set, words).map_err(|refusal| refusal.swallowing(bytes + 2))?;
    Ok(Request::MetaSet(MetaSet { key, bytes, flags }))
}

#[cfg(test)]
mod tests {
    use super::super::random;
    use super::*;

    const LIMITS: Limits = Limits {
        key_size_max: 250,
        keys_max: 1000,
    };

    fn refusal(line: &[u8]) -> Refusal {
        match parse(line, LIMITS) {
            Err(refusal) => refusal,
            Ok(_) => panic!("{:?} must be refused", String::from_utf8_lossy(line)),
        }
    }

    #[test]
    fn a_store_line_is_read() {
        let Ok(Request::Store(store)) = parse(b"cas k 7 -1 5 99 noreply", LIMITS) else {
            panic!("must parse");
        };
        assert_eq!(store.verb, Verb::Cas(99));
        assert_eq!((store.key, store.flags), (b"k".as_slice(), 7));
        assert_eq!((store.expiry_s, store.bytes, store.noreply), (-1, 5, true));
        let Ok(Request::Store(store)) = parse(b"set k 4294967303 0 5", LIMITS) else {
            panic!("must parse");
        };
        assert_eq!(store.flags, 7, "beyond 32 bits");
    }

    #[test]
    fn a_readable_length_is_swallowed_and_an_unreadable_one_is_not() {
        assert_eq!(refusal(b"set k x 0 5"), Refusal::BAD_LINE.swallowing(7));
        assert_eq!(refusal(b"set k -1 0 5"), Refusal::BAD_LINE.swallowing(7));
        assert_eq!(refusal(b"set k 0 x 5"), Refusal::BAD_LINE.swallowing(7));
        assert_eq!(
            refusal(b"set k 18446744073709551616 0 5"),
            Refusal::BAD_LINE.swallowing(7)
        );
        for line in ["set k 0 0 -1", "set k 0 0 x", "set k 0 0 2147483646"] {
            assert_eq!(refusal(line.as_bytes()), Refusal::BAD_LINE, "{line}");
        }
        assert!(parse(b"set k 0 0 2147483645", LIMITS).is_ok());
        assert_eq!(refusal(b"ms k 5 F-"), Refusal::BAD_LINE.swallowing(7));
    }

    #[test]
    fn too_few_words_and_unknown_words() {
        for line in [
            "", "  ", "get", "get ", "set a", "incr n", "touch k", "mg", "md",
        ] {
            assert_eq!(refusal(line.as_bytes()), Refusal::BAD_LINE, "{line:?}");
        }
        for line in ["GET a", "foo", "Set a 0 0 1"] {
            assert_eq!(refusal(line.as_bytes()), Refusal::UNKNOWN, "{line:?}");
        }
    }

    #[test]
    fn keys_end_at_the_limit() {
        let long = "k".repeat(251);
        assert_eq!(
            refusal(format!("set {long} 0 0 5").as_bytes()),
            Refusal::BAD_LINE.swallowing(7)
        );
        assert_eq!(
            refusal(format!("get good {long} b").as_bytes()),
            Refusal::BAD_GET_KEY
        );
        assert!(parse(format!("get {}", "k".repeat(250)).as_bytes(), LIMITS).is_ok());
        assert!(parse(format!("get {}", "abc ".repeat(200)).as_bytes(), LIMITS).is_ok());
    }

    #[test]
    fn keys_of_one_request_are_counted() {
        assert!(parse(format!("get {}", "k ".repeat(1000)).as_bytes(), LIMITS).is_ok());
        assert_eq!(
            refusal(format!("get {}", "k ".repeat(1001)).as_bytes()),
            Refusal::TOO_MANY_KEYS
        );
    }

    #[test]
    fn delete_takes_only_a_zero_time() {
        assert!(parse(b"delete k 0", LIMITS).is_ok());
        assert!(parse(b"delete k noreply", LIMITS).is_ok());
        assert_eq!(refusal(b"delete k 5"), Refusal::BAD_DELETE);
    }

    #[test]
    fn flush_ignores_further_words() {
        for (line, delay, silent) in [
            ("flush_all", 0, false),
            ("flush_all noreply", 0, true),
            ("flush_all 0 noreply", 0, true),
            ("flush_all 1 2 3", 1, false),
            ("flush_all -1", -1, false),
        ] {
            let Ok(Request::Flush(flush)) = parse(line.as_bytes(), LIMITS) else {
                panic!("{line}");
            };
            assert_eq!((flush.delay_s, flush.noreply), (delay, silent), "{line}");
        }
        assert_eq!(refusal(b"flush_all x"), Refusal::BAD_EXPIRY);
    }

    #[test]
    fn random_lines_never_panic_and_keep_to_the_limits() {
        let mut next = random(0x5eed_0001);
        let stems: [&[u8]; 12] = [
            b"get ",
            b"mg ",
            b"ms ",
            b"ma ",
            b"md ",
            b"set ",
            b"cas ",
            b"gat ",
            b"incr ",
            b"stats ",
            b"flush_all ",
            b"",
        ];
        let letters = b"0123456789 abkqvtTOCEMNRDJFxI-+\0\xff";
        for _ in 0..200_000 {
            let mut line = stems[next() as usize % stems.len()].to_vec();
            for _ in 0..next() % 60 {
                line.push(letters[next() as usize % letters.len()]);
            }
            let limits = Limits {
                key_size_max: 20,
                keys_max: 10,
            };
            match parse(&line, limits) {
                Ok(Request::Store(store)) => assert!(store.key.len() <= 20),
                Ok(Request::MetaSet(set)) => assert!(set.key.len() <= 20),
                Ok(Request::Get(get)) => assert!(get.keys.clone().all(|key| key.len() <= 20)),
                Ok(_) => {}
                Err(refusal) => assert!(refusal.swallow <= VALUE_BYTES_MAX + 2),
            }
        }
    }
}
