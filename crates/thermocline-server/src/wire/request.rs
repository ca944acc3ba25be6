//! What one request line says, and what a line that says nothing sensible is answered.

use super::{MetaFlags, Words};

/// memcached counts payloads in a signed 32-bit number and needs two bytes for the line end: more is a malformed line.
pub const VALUE_BYTES_MAX: u64 = i32::MAX as u64 - 2;

/// A parsed line. Borrowed slices point into the read buffer.
pub enum Request<'a> {
    Get(Get<'a>),
    GetTouch(GetTouch<'a>),
    Store(Store<'a>),
    Delete(Delete<'a>),
    Arith(Arith<'a>),
    Touch(Touch<'a>),
    MetaGet(Meta<'a>),
    MetaSet(MetaSet<'a>),
    MetaDelete(Meta<'a>),
    MetaArith(Meta<'a>),
    MetaDebug(Meta<'a>),
    MetaNoop,
    Flush(Flush),
    Admin(Admin<'a>),
    Quit,
}

impl Request<'_> {
    /// Payload bytes that follow the line, its CRLF included; 0 for requests without payload.
    pub fn payload_bytes(&self) -> u64 {
        match self {
            Request::Store(store) => store.bytes + 2,
            Request::MetaSet(set) => set.bytes + 2,
            _ => 0,
        }
    }
}

/// `get`, `gets`: keys are left as the rest of the line, a long list is worked through in batches.
pub struct Get<'a> {
    pub keys: Words<'a>,
    pub token: bool,
}

pub struct GetTouch<'a> {
    pub expiry_s: i64,
    pub get: Get<'a>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verb {
    Set,
    Add,
    Replace,
    Append,
    Prepend,
    Cas(u64),
}

pub struct Store<'a> {
    pub verb: Verb,
    pub key: &'a [u8],
    pub flags: u32,
    /// As sent: relative up to 30 days, else a date; negative is the past.
    pub expiry_s: i64,
    pub bytes: u64,
    pub noreply: bool,
}

pub struct Delete<'a> {
    pub key: &'a [u8],
    pub noreply: bool,
}

pub struct Arith<'a> {
    pub key: &'a [u8],
    pub delta: u64,
    pub up: bool,
    pub noreply: bool,
}

pub struct Touch<'a> {
    pub key: &'a [u8],
    pub expiry_s: i64,
    pub noreply: bool,
}

pub struct Meta<'a> {
    /// As on the wire: still base64 where flag `b` says so.
    pub key: &'a [u8],
    pub flags: MetaFlags<'a>,
}

pub struct MetaSet<'a> {
    pub key: &'a [u8],
    pub bytes: u64,
    pub flags: MetaFlags<'a>,
}

pub struct Flush {
    pub delay_s: i64,
    pub noreply: bool,
}

/// Commands about the server itself; their arguments are read where they are carried out.
pub enum Admin<'a> {
    Stats(Words<'a>),
    Version,
    Verbosity(Words<'a>),
    Shutdown(Words<'a>),
    CacheMemlimit(Words<'a>),
    LruCrawler(Words<'a>),
    Lru(Words<'a>),
    Slabs(Words<'a>),
    Watch(Words<'a>),
    RefreshCerts,
    DebugTime(Words<'a>),
}

/// A line that is answered without being carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The answer without its line end.
    pub answer: &'static [u8],
    /// Payload bytes that follow the line and must not be read as commands.
    pub swallow: u64,
}

impl Refusal {
    pub const BAD_LINE: Refusal = Refusal::new(b"CLIENT_ERROR bad command line format");
    pub const UNKNOWN: Refusal = Refusal::new(b"ERROR");
    pub const BAD_EXPIRY: Refusal = Refusal::new(b"CLIENT_ERROR invalid exptime argument");
    pub const BAD_DELTA: Refusal = Refusal::new(b"CLIENT_ERROR invalid numeric delta argument");
    pub const BAD_DELETE: Refusal =
        Refusal::new(b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]");
    /// A too long key among those of a `get`: memcached 1.6.45 lets an empty line follow, and so do we.
    pub const BAD_GET_KEY: Refusal = Refusal::new(b"CLIENT_ERROR bad command line format\r\n");
    pub const TOO_MANY_KEYS: Refusal = Refusal::new(b"CLIENT_ERROR too many keys in one request");
    pub const BAD_FLAG: Refusal = Refusal::new(b"CLIENT_ERROR invalid or duplicate flag");
    pub const BAD_BASE64: Refusal = Refusal::new(b"CLIENT_ERROR error decoding key");

    pub const fn new(answer: &'static [u8]) -> Refusal {
        Refusal { answer, swallow: 0 }
    }

    pub const fn swallowing(self, bytes: u64) -> Refusal {
        Refusal {
            swallow: bytes,
            ..self
        }
    }
}
