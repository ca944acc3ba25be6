//! Logging in with the text protocol: `set anything 0 0 N` with `user password` as its payload.
//!
//! Until then every other line is answered "unauthenticated". The password file holds lines `user:password`.

use super::conversation::Conversation;
use crate::net::Talk;
use crate::wire::{parse_u64, Words};
use std::io;
use std::path::Path;

/// A user name and a password are short; a longer payload is not waited for.
const PAYLOAD_BYTES_MAX: u64 = 1024;
/// Lines of the password file; more is a mistake worth hearing about.
const LOGINS_MAX: usize = 1024;

/// The password file, read.
#[derive(Default)]
pub struct Logins(Vec<Vec<u8>>);

impl Logins {
    pub fn read(path: &Path) -> io::Result<Logins> {
        let bad = |text: String| {
            let text = format!("password file {}: {text}", path.display());
            io::Error::new(io::ErrorKind::InvalidData, text)
        };
        let text = std::fs::read(path).map_err(|error| bad(error.to_string()))?;
        let mut logins = Vec::new();
        for (number, line) in text.split(|&b| b == b'\n').enumerate() {
            let line = line.strip_suffix(b"\r").unwrap_or(line);
            if line.is_empty() {
                continue;
            }
            let Some(colon) = line.iter().position(|&b| b == b':') else {
                return Err(bad(format!("line {} is not user:password", number + 1)));
            };
            logins.push([&line[..colon], b" ", &line[colon + 1..]].concat());
        }
        match logins.len() {
            0 => Err(bad("holds no user:password line".into())),
            1..=LOGINS_MAX => Ok(Logins(logins)),
            _ => Err(bad(format!("holds more than {LOGINS_MAX} lines"))),
        }
    }

    /// Compares with every login and every byte: the time taken tells nothing about how near a guess was.
    pub fn accepts(&self, payload: &[u8]) -> bool {
        self.0.iter().fold(false, |accepted, login| {
            let same = login.len() == payload.len()
                && login
                    .iter()
                    .zip(payload)
                    .fold(0, |differ, (a, b)| differ | (a ^ b))
                    == 0;
            accepted | same
        })
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

/// Bytes of payload a login line announces, CRLF included; 0 for any other line.
pub(super) fn payload_bytes(line: &[u8]) -> usize {
    let mut words = Words::new(line);
    if words.next() != Some(b"set") {
        return 0;
    }
    match words.nth(3).and_then(parse_u64) {
        Some(bytes) if bytes <= PAYLOAD_BYTES_MAX => bytes as usize + 2,
        _ => 0,
    }
}

impl Conversation {
    /// A line of a client that has not logged in. Some(payload bytes used), or None while its payload is not here.
    pub(super) fn login(&mut self, talk: &mut Talk, line: &[u8], after: &[u8]) -> Option<usize> {
        let bytes = payload_bytes(line);
        if bytes == 0 {
            self.out.line(b"CLIENT_ERROR unauthenticated");
            return Some(0);
        }
        if after.len() < bytes {
            return None;
        }
        self.counters.auth_cmds.add(1);
        let (payload, end) = after[..bytes].split_at(bytes - 2);
        talk.trusted = end == b"\r\n" && self.shared.accepts_login(payload);
        if talk.trusted {
            self.out.line(b"STORED");
        } else {
            self.counters.auth_errors.add(1);
            self.out.line(b"CLIENT_ERROR authentication failure");
        }
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn logins(text: &str) -> io::Result<Logins> {
        let name = format!("thermocline-logins-{}-{}", std::process::id(), text.len());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, text).unwrap();
        let logins = Logins::read(&path);
        std::fs::remove_file(path).unwrap();
        logins
    }

    #[test]
    fn only_whole_pairs_are_accepted() {
        let logins = logins("foo:bar\r\nanna:pass:word\n\n").unwrap();
        assert!(logins.accepts(b"foo bar") && logins.accepts(b"anna pass:word"));
        for wrong in ["foo ba", "foo barr", "foo", "", "foo:bar", "anna pass"] {
            assert!(!logins.accepts(wrong.as_bytes()), "{wrong}");
        }
    }

    #[test]
    fn bad_files_are_refused() {
        assert!(logins("").is_err());
        assert!(logins("nocolon\n").is_err());
        assert!(Logins::read(Path::new("/nonexistent/file")).is_err());
    }

    #[test]
    fn only_short_sets_are_logins() {
        assert_eq!(payload_bytes(b"set x 0 0 7"), 9);
        assert_eq!(payload_bytes(b"set x 0 0 7 noreply"), 9);
        for line in ["get x", "set x 0 0", "set x 0 0 x", "set x 0 0 2000", ""] {
            assert_eq!(payload_bytes(line.as_bytes()), 0, "{line}");
        }
    }
}
