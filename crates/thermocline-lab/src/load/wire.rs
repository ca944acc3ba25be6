//! Requests as bytes, in each dialect. Replies are `reply`'s.

use crate::workload::{key_into, stamp, STAMP_BYTES};
use clap::ValueEnum;
use serde::Serialize;
use std::io::Write;

/// How reads are asked for; writes follow the family (`set`, `ms`, SET).
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Dialect {
    /// memcached `get`, one key each
    TextGet,
    /// memcached `get` with all the keys of a pipeline's run of reads
    MultiGet,
    /// memcached meta get, `mg <key> v`
    Mg,
    /// Redis GET
    RespGet,
}

/// Bytes of payload shared by all writes; values are cut from it.
pub struct Payload {
    bytes: Vec<u8>,
}

impl Payload {
    /// Incompressible filler for values up to `bytes_max`.
    pub fn new(bytes_max: u32, seed: u64) -> Self {
        let mut random = crate::workload::Random::new(seed);
        let mut bytes = vec![0u8; bytes_max as usize];
        for word in bytes.chunks_mut(8) {
            let next = random.word().to_le_bytes();
            word.copy_from_slice(&next[..word.len()]);
        }
        Payload { bytes }
    }

    /// Appends key `id`'s value: its stamp, where it fits, then filler.
    fn append(&self, id: u64, value_bytes: u32, out: &mut Vec<u8>) {
        let value_bytes = value_bytes as usize;
        if value_bytes < STAMP_BYTES {
            out.extend_from_slice(&self.bytes[..value_bytes]);
            return;
        }
        out.extend_from_slice(&stamp(id));
        out.extend_from_slice(&self.bytes[STAMP_BYTES..value_bytes]);
    }
}

/// Writes requests into a connection's output buffer.
pub struct Encoder<'a> {
    pub dialect: Dialect,
    pub key_bytes: usize,
    pub payload: &'a Payload,
}

impl Encoder<'_> {
    /// One read of its own.
    pub fn read(&self, id: u64, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::TextGet | Dialect::MultiGet => {
                out.extend_from_slice(b"get ");
                self.key(id, out);
                out.extend_from_slice(b"\r\n");
            }
            Dialect::Mg => {
                out.extend_from_slice(b"mg ");
                self.key(id, out);
                out.extend_from_slice(b" v\r\n");
            }
            Dialect::RespGet => {
                out.extend_from_slice(b"*2\r\n$3\r\nGET\r\n");
                self.resp_key(id, out);
            }
        }
    }

    /// One write.
    pub fn write(&self, id: u64, value_bytes: u32, out: &mut Vec<u8>) {
        match self.dialect {
            Dialect::TextGet | Dialect::MultiGet => {
                out.extend_from_slice(b"set ");
                self.key(id, out);
                number(b" 0 0 ", value_bytes, out);
            }
            Dialect::Mg => {
                out.extend_from_slice(b"ms ");
                self.key(id, out);
                number(b" ", value_bytes, out);
            }
            Dialect::RespGet => {
                out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
                self.resp_key(id, out);
                number(b"$", value_bytes, out);
            }
        }
        self.payload.append(id, value_bytes, out);
        out.extend_from_slice(b"\r\n");
    }

    fn resp_key(&self, id: u64, out: &mut Vec<u8>) {
        number(b"$", self.key_bytes as u32, out);
        self.key(id, out);
        out.extend_from_slice(b"\r\n");
    }

    pub fn key(&self, id: u64, out: &mut Vec<u8>) {
        let at = out.len();
        out.resize(at + self.key_bytes, 0);
        key_into(id, &mut out[at..]);
    }
}

fn number(before: &[u8], value: u32, out: &mut Vec<u8>) {
    out.extend_from_slice(before);
    write!(out, "{value}\r\n").expect("writing to memory does not fail");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(dialect: Dialect, write: bool) -> String {
        let payload = Payload {
            bytes: b"????????abcd".to_vec(),
        };
        let encoder = Encoder {
            dialect,
            key_bytes: 16,
            payload: &payload,
        };
        let mut out = Vec::new();
        if write {
            encoder.write(1, 10, &mut out);
        } else {
            encoder.read(1, &mut out);
        }
        let mut key = [0u8; 16];
        key_into(1, &mut key);
        let out = String::from_utf8_lossy(&out).replace(&*String::from_utf8_lossy(&key), "K");
        out.replace(&*String::from_utf8_lossy(&stamp(1)), "stamp")
    }

    #[test]
    fn requests_are_spelt_right() {
        assert_eq!(text(Dialect::TextGet, false), "get K\r\n");
        assert_eq!(text(Dialect::Mg, false), "mg K v\r\n");
        assert_eq!(
            text(Dialect::RespGet, false),
            "*2\r\n$3\r\nGET\r\n$16\r\nK\r\n"
        );
        assert_eq!(text(Dialect::TextGet, true), "set K 0 0 10\r\nstampab\r\n");
        assert_eq!(text(Dialect::Mg, true), "ms K 10\r\nstampab\r\n");
        assert_eq!(
            text(Dialect::RespGet, true),
            "*3\r\n$3\r\nSET\r\n$16\r\nK\r\n$10\r\nstampab\r\n"
        );
    }
}
