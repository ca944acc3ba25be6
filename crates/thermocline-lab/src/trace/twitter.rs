//! Twitter's cache traces: `time,key,key size,value size,client,operation,TTL`, times in seconds.

use super::format::excerpt;
use super::text::{key_id, number};
use super::Request;
use crate::workload::Kind;
use anyhow::{bail, Result};

const S: u64 = 1_000_000_000;

pub fn request(line: &[u8]) -> Result<Request> {
    let few = || anyhow::anyhow!("`{}` has fewer than 7 fields", excerpt(line));
    let comma = line.iter().position(|byte| *byte == b',').ok_or_else(few)?;
    // The key is what is left between the time and the last five fields, whatever it holds.
    let fields: Vec<&[u8]> = line[comma + 1..].rsplitn(6, |byte| *byte == b',').collect();
    let [ttl, operation, _client, value, key_size, key] = fields[..] else {
        return Err(few());
    };
    let Some(kind) = kind(operation) else {
        bail!(
            "the operation is `{}`; known are get, gets, set, add, replace, cas, append, prepend, incr, decr \
             and delete",
            excerpt(operation)
        );
    };
    Ok(Request {
        at_ns: number(&line[..comma], "the time", u64::MAX / S)? * S,
        id: key_id(key),
        key_bytes: number(key_size, "the key size", u64::from(u32::MAX))? as u32,
        value_bytes: number(value, "the value size", u64::MAX)?,
        ttl_s: number(ttl, "the TTL", u64::from(u32::MAX))? as u32,
        kind,
    })
}

pub fn kind(operation: &[u8]) -> Option<Kind> {
    match operation {
        b"get" | b"gets" => Some(Kind::Read),
        b"set" => Some(Kind::Write),
        b"add" => Some(Kind::Add),
        b"replace" | b"cas" | b"append" | b"prepend" | b"incr" | b"decr" => Some(Kind::Update),
        b"delete" => Some(Kind::Delete),
        _ => None,
    }
}
