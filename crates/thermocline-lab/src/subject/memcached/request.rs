//! Requests as bytes, in memcached's two protocols.

use crate::workload::Kind;
use std::io::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    Text,
    /// As text, but the reads of a pipeline are one `get` line.
    MultiGet,
    Meta,
}

impl Dialect {
    pub fn name(self) -> &'static str {
        match self {
            Dialect::Text => "text",
            Dialect::MultiGet => "multi-get",
            Dialect::Meta => "meta",
        }
    }

    /// A read of its own.
    pub fn read(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Dialect::Text | Dialect::MultiGet => line(out, &[b"get ", key, b"\r\n"]),
            Dialect::Meta => line(out, &[b"mg ", key, b" v\r\n"]),
        }
    }

    pub fn delete(self, key: &[u8], out: &mut Vec<u8>) {
        match self {
            Dialect::Text | Dialect::MultiGet => line(out, &[b"delete ", key, b"\r\n"]),
            Dialect::Meta => line(out, &[b"md ", key, b"\r\n"]),
        }
    }

    /// `kind` says how: as it comes, only if absent, only if there.
    pub fn write(self, how: How, key: &[u8], value: &[&[u8]], out: &mut Vec<u8>) {
        let bytes: usize = value.iter().map(|part| part.len()).sum();
        match self {
            Dialect::Text | Dialect::MultiGet => {
                line(out, &[how.verb(), b" ", key]);
                write!(out, " 0 0 {bytes}\r\n").expect("writing to memory does not fail");
            }
            Dialect::Meta => {
                line(out, &[b"ms ", key]);
                write!(out, " {bytes}").expect("writing to memory does not fail");
                line(out, &[how.mode(), b"\r\n"]);
            }
        }
        line(out, value);
        out.extend_from_slice(b"\r\n");
    }
}

/// The three ways to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    Set,
    Add,
    Replace,
}

impl How {
    /// `replace`: updates are to find their key.
    pub fn of(kind: Kind, replace: bool) -> How {
        match kind {
            Kind::Add => How::Add,
            Kind::Update if replace => How::Replace,
            _ => How::Set,
        }
    }

    fn verb(self) -> &'static [u8] {
        match self {
            How::Set => b"set",
            How::Add => b"add",
            How::Replace => b"replace",
        }
    }

    fn mode(self) -> &'static [u8] {
        match self {
            How::Set => b"",
            How::Add => b" ME",
            How::Replace => b" MR",
        }
    }
}

fn line(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_spelt_right() {
        let said = |make: &dyn Fn(&mut Vec<u8>)| {
            let mut out = Vec::new();
            make(&mut out);
            String::from_utf8(out).unwrap()
        };
        use Dialect::*;
        assert_eq!(said(&|o| Text.read(b"k", o)), "get k\r\n");
        assert_eq!(said(&|o| Meta.read(b"k", o)), "mg k v\r\n");
        assert_eq!(said(&|o| Text.delete(b"k", o)), "delete k\r\n");
        let value: [&[u8]; 2] = [b"ab", b"c"];
        for (dialect, how, text) in [
            (Text, How::Set, "set k 0 0 3\r\nabc\r\n"),
            (Text, How::Add, "add k 0 0 3\r\nabc\r\n"),
            (Text, How::Replace, "replace k 0 0 3\r\nabc\r\n"),
            (Meta, How::Set, "ms k 3\r\nabc\r\n"),
            (Meta, How::Add, "ms k 3 ME\r\nabc\r\n"),
            (Meta, How::Replace, "ms k 3 MR\r\nabc\r\n"),
        ] {
            assert_eq!(said(&|o| dialect.write(how, b"k", &value, o)), text);
        }
    }
}
