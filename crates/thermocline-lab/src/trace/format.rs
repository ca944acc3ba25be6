//! Which format a file is in: asked for by name, or found by the file's name and its first bytes.

use super::oracle;
use anyhow::{bail, Result};
use std::path::Path;

/// The formats that are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// `key size`, one request a line
    #[value(name = "text")]
    Text,
    /// libCacheSim's oracleGeneral: 24-byte binary records
    #[value(name = "oracle-general")]
    OracleGeneral,
    /// Twitter: time, key, key size, value size, client, operation, TTL
    #[value(name = "twitter")]
    Twitter,
    /// MSR Cambridge: time, host, disk, type, offset, size, response time
    #[value(name = "msr")]
    Msr,
}

impl Format {
    pub fn name(self) -> &'static str {
        match self {
            Format::Text => "text",
            Format::OracleGeneral => "oracle-general",
            Format::Twitter => "twitter",
            Format::Msr => "msr",
        }
    }

    /// The format of a file of this name that begins (decompressed) with `head`.
    pub fn find(path: &Path, head: &[u8]) -> Result<Format> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().to_ascii_lowercase())
            .unwrap_or_default();
        if name.contains("oraclegeneral") {
            return Ok(Format::OracleGeneral);
        }
        let line = head.split(|byte| *byte == b'\n').next().unwrap_or(&[]);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        if let Some(format) = by_line(line) {
            return Ok(format);
        }
        if oracle::is_plausible(head) {
            return Ok(Format::OracleGeneral);
        }
        bail!(
            "{}: neither its name nor its first line `{}` says which format it is in; give --format text, \
             oracle-general, twitter or msr",
            path.display(),
            excerpt(line)
        )
    }
}

fn by_line(line: &[u8]) -> Option<Format> {
    let fields: Vec<&[u8]> = line.split(|byte| *byte == b',').collect();
    if fields.len() == 7 {
        if [&b"Read"[..], b"Write"].contains(&fields[3]) {
            return Some(Format::Msr);
        }
        if super::twitter::kind(fields[5]).is_some() {
            return Some(Format::Twitter);
        }
    }
    super::text::request(line).ok().map(|_| Format::Text)
}

/// At most 60 bytes of what was read, for a message.
pub(super) fn excerpt(bytes: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]);
    let dots = if bytes.len() > 60 { "..." } else { "" };
    format!("{}{dots}", shown.escape_debug())
}
