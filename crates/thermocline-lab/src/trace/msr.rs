//! MSR Cambridge block traces: `time,host,disk,type,offset,size,response time`, times in 100 ns since 1601.
//! The object is what lies at (host, disk, offset); a write looks its block up and fills it, as a read does,
//! unless the replay is told to treat it as a write.

use super::format::excerpt;
use super::text::{key_id, number};
use super::Request;
use crate::workload::{mix, Kind};
use anyhow::{bail, Result};

pub fn request(line: &[u8]) -> Result<Request> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
    let [time, host, disk, kind, offset, size, _response] = fields[..] else {
        bail!("`{}` has {} fields, not 7", excerpt(line), fields.len());
    };
    let kind = match kind {
        b"Read" => Kind::Read,
        b"Write" => Kind::Write,
        _ => bail!("the type is `{}`, neither Read nor Write", excerpt(kind)),
    };
    let disk = number(disk, "the disk", u64::from(u32::MAX))?;
    let offset = number(offset, "the offset", u64::MAX)?;
    Ok(Request {
        at_ns: number(time, "the time", u64::MAX)?.saturating_mul(100),
        id: mix(offset ^ mix(disk ^ key_id(host))),
        key_bytes: 0,
        value_bytes: number(size, "the size", u64::MAX)?,
        ttl_s: 0,
        kind,
    })
}
