//! Reading a save file back into a cache.
//!
//! Must hold: no value comes in whose checksum does not fit its head, key and bytes; no damage stops more
//! than the records it touches; nothing is allocated for a length the cache would refuse.

use super::format::{FileHeader, Head, ItemHead, NotOurs, Sum};
use super::format::{HEADER_BYTES, HEAD_BYTES, SUM_BYTES, VERSION};
use super::marks_of;
use crate::cache::{Cache, Expiry, Mode, SetOptions, Stored};
use crate::error::Error;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};

/// Bytes read from the file at a time, and bytes of a value handed on at a time.
const BUFFER_BYTES: usize = 256 << 10;
const PIECE_BYTES: usize = 64 << 10;

/// What came of a load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LoadReport {
    /// Items stored.
    pub loaded: u64,
    /// Items whose time was over.
    pub expired: u64,
    /// Items whose key was in the cache already: what is there is newer and stays.
    pub present: u64,
    /// Items the cache does not take: key or value too large, or no room.
    pub refused: u64,
    /// Damaged records, skipped. Exact if the file's end is there; else at least so many.
    pub bad: u64,
    /// The end of the file is missing: a copy was cut short. What came before it is loaded.
    pub torn: bool,
}

/// Loads all of `file` into `cache`.
pub(super) fn load(cache: &Cache, file: impl Read + Seek) -> Result<LoadReport, Error> {
    let mut source = Source {
        file: BufReader::with_capacity(BUFFER_BYTES, file),
        at: 0,
    };
    let header = read_header(&mut source)?;
    let mut load = Load {
        cache,
        report: LoadReport::default(),
        heads: 0,
        stretches: 0,
        piece: vec![0; PIECE_BYTES],
    };
    let end = load.records(&mut source, header.marker)?;
    load.report.torn = end.is_none();
    load.report.bad += match end {
        Some(items) => items.saturating_sub(load.heads),
        None => load.stretches,
    };
    Ok(load.report)
}

fn read_header(source: &mut Source<impl Read + Seek>) -> Result<FileHeader, Error> {
    let mut bytes = [0; HEADER_BYTES];
    let whole = source.fill(&mut bytes)?;
    let refused = |text: String| Err(Error::Format(text));
    match FileHeader::parse(&bytes) {
        Ok(header) if whole => Ok(header),
        Err(NotOurs::Version(version)) if whole => refused(format!(
            "version {version}, and this build reads version {VERSION}"
        )),
        Err(NotOurs::Damaged) => refused("its header is damaged; save again".into()),
        _ => refused("not a Thermocline save file".into()),
    }
}

struct Load<'a> {
    cache: &'a Cache,
    report: LoadReport,
    /// Heads of items that were whole.
    heads: u64,
    /// Stretches of the file without a whole head.
    stretches: u64,
    piece: Vec<u8>,
}

/// What became of one record.
enum Record {
    Loaded,
    Expired,
    Present,
    Refused,
    Bad,
    /// The file ended within it.
    Torn,
}

impl Load<'_> {
    /// All records. The number of items the end names, if there is an end.
    fn records(
        &mut self,
        source: &mut Source<impl Read + Seek>,
        marker: u64,
    ) -> Result<Option<u64>, Error> {
        let mut lost = false;
        loop {
            let at = source.at;
            let mut bytes = [0; HEAD_BYTES];
            let whole = source.fill(&mut bytes)?;
            match Head::parse(&bytes, marker).filter(|_| whole) {
                Some(Head::End { items }) => return Ok(Some(items)),
                Some(Head::Item(item)) => {
                    lost = false;
                    self.heads += 1;
                    let body_at = source.at;
                    let record = self.item(source, &bytes, &item)?;
                    if self.count(record) {
                        return Ok(None);
                    }
                    source.go_to(body_at + item.body_bytes())?;
                }
                None if !whole && source.at == at => return Ok(None),
                None => {
                    self.stretches += u64::from(!lost);
                    lost = true;
                    if !source.find(marker, at + 1)? {
                        return Ok(None);
                    }
                }
            }
        }
    }

    /// True: the file ended.
    fn count(&mut self, record: Record) -> bool {
        let report = &mut self.report;
        match record {
            Record::Loaded => report.loaded += 1,
            Record::Expired => report.expired += 1,
            Record::Present => report.present += 1,
            Record::Refused => report.refused += 1,
            Record::Bad => report.bad += 1,
            Record::Torn => return true,
        }
        false
    }

    /// Loads one item. May leave the rest of its body unread.
    fn item(
        &mut self,
        source: &mut Source<impl Read + Seek>,
        head: &[u8; HEAD_BYTES],
        item: &ItemHead,
    ) -> Result<Record, Error> {
        if item.expires_at_ms != 0 && item.expires_at_ms <= self.cache.now_ms() {
            return Ok(Record::Expired);
        }
        let refused = item.key_bytes as usize > self.cache.key_size_max()
            || item.value_bytes > self.cache.item_size_max();
        if refused {
            return Ok(Record::Refused);
        }
        let mut key = vec![0; item.key_bytes as usize];
        if !source.fill(&mut key)? {
            return Ok(Record::Torn);
        }
        let mut sum = Sum::of(head);
        sum.add(&key);
        let mut writer = match self
            .cache
            .write(&key, item.value_bytes as usize, &options(item))
        {
            Ok(writer) => writer,
            Err(_) => return Ok(Record::Refused),
        };
        while writer.remaining() > 0 {
            let bytes = writer.remaining().min(PIECE_BYTES);
            let piece = &mut self.piece[..bytes];
            if !source.fill(piece)? {
                return Ok(Record::Torn);
            }
            sum.add(piece);
            if writer.write(piece).is_err() {
                return Ok(Record::Refused);
            }
        }
        let mut expected = [0; SUM_BYTES];
        if !source.fill(&mut expected)? {
            return Ok(Record::Torn);
        }
        if sum.bytes() != expected {
            return Ok(Record::Bad);
        }
        Ok(match writer.commit() {
            Ok(Stored::Stored(_)) => Record::Loaded,
            Ok(_) => Record::Present,
            Err(_) => Record::Refused,
        })
    }
}

fn options(item: &ItemHead) -> SetOptions {
    SetOptions {
        flags: item.flags,
        expiry: match item.expires_at_ms {
            0 => Expiry::Never,
            at => Expiry::AtMs(at),
        },
        mode: Mode::Add,
        marks: marks_of(item.marks),
        ..SetOptions::default()
    }
}

/// A file and how far it has been read.
struct Source<R> {
    file: BufReader<R>,
    at: u64,
}

impl<R: Read + Seek> Source<R> {
    /// Fills `bytes`; false if the file ends before that.
    fn fill(&mut self, bytes: &mut [u8]) -> Result<bool, Error> {
        let mut filled = 0;
        while filled < bytes.len() {
            match self.file.read(&mut bytes[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.at += filled as u64;
        Ok(filled == bytes.len())
    }

    fn go_to(&mut self, at: u64) -> Result<(), Error> {
        let by = at as i64 - self.at as i64;
        if by != 0 {
            self.file.seek_relative(by)?;
            self.at = at;
        }
        Ok(())
    }

    /// Goes to the next place from `from` on that bears the marker. False: there is none.
    fn find(&mut self, marker: u64, from: u64) -> Result<bool, Error> {
        self.file.seek(SeekFrom::Start(from))?;
        let (mut window, mut seen) = (0u64, 0u64);
        let found = 'search: loop {
            let buffer = self.file.fill_buf()?;
            if buffer.is_empty() {
                break None;
            }
            for byte in buffer {
                window = window >> 8 | (*byte as u64) << 56;
                seen += 1;
                if seen >= 8 && window == marker {
                    break 'search Some(from + seen - 8);
                }
            }
            let read = buffer.len();
            self.file.consume(read);
        };
        let Some(at) = found else {
            return Ok(false);
        };
        self.file.seek(SeekFrom::Start(at))?;
        self.at = at;
        Ok(true)
    }
}
