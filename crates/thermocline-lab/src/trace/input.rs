//! The bytes of a trace file: opened, decompressed where its first bytes say so (zstd, gzip), and cut into
//! lines or records of bounded length.

use anyhow::{bail, Context, Result};
use flate2::bufread::MultiGzDecoder;
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

/// Longest line, bytes: a memcached key is at most 250, MSR lines are under 100.
pub const LINE_BYTES_MAX: usize = 4096;
/// Buffer in front of the decompressor and behind it, bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// Largest zstd window accepted, as a power of two: 128 MiB, what `zstd` itself accepts unasked.
const WINDOW_LOG_MAX: u32 = 27;

const ZSTD_MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];
const GZIP_MAGIC: [u8; 2] = [0x1F, 0x8B];

/// A byte stream that can be peeked at.
pub type Input = Box<dyn BufRead + Send>;

/// Opens `path` and undoes its compression.
pub fn open(path: &Path) -> Result<Input> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    decompress(file).with_context(|| format!("cannot read {}", path.display()))
}

/// The same over any reader.
pub fn decompress(raw: impl Read + Send + 'static) -> Result<Input> {
    let mut raw = BufReader::with_capacity(BUFFER_BYTES, raw);
    let head = raw.fill_buf()?;
    if head.starts_with(&ZSTD_MAGIC) {
        let mut decoder = zstd::stream::read::Decoder::with_buffer(raw)?;
        decoder.window_log_max(WINDOW_LOG_MAX)?;
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    if head.starts_with(&GZIP_MAGIC) {
        let decoder = MultiGzDecoder::new(raw);
        return Ok(Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder)));
    }
    Ok(Box::new(raw))
}

/// Reads one line into `line`, without its end. False at the end of the input.
pub fn read_line(input: &mut Input, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    loop {
        let buffer = input.fill_buf()?;
        if buffer.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let piece = &buffer[..end.unwrap_or(buffer.len())];
        if line.len() + piece.len() > LINE_BYTES_MAX {
            bail!("a line is longer than {LINE_BYTES_MAX} bytes: is this the right --format?");
        }
        line.extend_from_slice(piece);
        let used = piece.len() + usize::from(end.is_some());
        input.consume(used);
        if end.is_some() {
            if line.last() == Some(&b'\r') {
                line.pop();
            }
            return Ok(true);
        }
    }
}

/// Fills `record`. False at the end of the input; an error if it ends within a record.
pub fn read_record(input: &mut Input, record: &mut [u8]) -> Result<bool> {
    let mut filled = 0;
    while filled < record.len() {
        match input.read(&mut record[filled..]) {
            Ok(0) if filled == 0 => return Ok(false),
            Ok(0) => bail!(
                "the file ends after {filled} of the record's {} bytes",
                record.len()
            ),
            Ok(count) => filled += count,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(true)
}
