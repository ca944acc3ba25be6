//! Saving a cache to a file, whole or its hottest part, and loading it again.
//!
//! Owns which items are written and how the file takes its place: a temporary file beside it is written,
//! synced and renamed, so that a crash, a kill or a full disk leaves the earlier file as it was. Leaves the
//! bytes to `format` and reading to `read`.
//!
//! Must hold: what is written for a key is one version of its item, whole.

mod format;
mod read;

pub use read::LoadReport;

use crate::cache::{Cache, Guard, Heat, Marks, Want};
use crate::error::Error;
use format::{FileHeader, Head, ItemHead, Sum};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Bytes written to the file at a time.
const BUFFER_BYTES: usize = 256 << 10;

/// Which items are saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// All.
    All,
    /// At most so many: those read most often lately (the two bits the index keeps), of these the
    /// youngest. Walks the cache twice.
    Hottest(u64),
}

/// What was saved.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct SaveReport {
    /// Items written.
    pub items: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// One save at a time in a process: the temporary file's name is the process's.
static SAVING: Mutex<()> = Mutex::new(());

impl Cache {
    /// Writes the cache to `path`, while it is used. Items that come, change or go meanwhile may or may
    /// not be in the file; each item in it is whole. Counts no reads. The file is readable by its owner
    /// only. On an error the file at `path` is what it was before, and the temporary file is gone.
    pub fn save(&self, path: impl AsRef<Path>, which: Which) -> Result<SaveReport, Error> {
        let path = path.as_ref();
        let explain = |error: Error| match error {
            Error::Io(error) => Error::Io(explained(path, error)),
            other => other,
        };
        self.save_beside(path, which).map_err(explain)
    }

    fn save_beside(&self, path: &Path, which: Which) -> Result<SaveReport, Error> {
        let _one = SAVING
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner());
        let target = target(path)?;
        let temporary = Temporary::new(&target)?;
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, &temporary.file);
        let report = self.save_to(&mut out, which)?;
        out.flush()?;
        drop(out);
        temporary.file.sync_all()?;
        temporary.rename(&target)?;
        File::open(directory(&target))?.sync_all()?;
        Ok(report)
    }

    /// Writes the cache in the format of a save file. Buffer `out` yourself.
    pub fn save_to(&self, out: &mut dyn Write, which: Which) -> Result<SaveReport, Error> {
        let header = FileHeader {
            marker: crate::hash::random_seed(),
            saved_at_ms: self.now_ms(),
        };
        let mut save = Save {
            cache: self,
            out,
            marker: header.marker,
            report: SaveReport::default(),
        };
        save.put(&header.bytes())?;
        match which {
            Which::All => save.items(|_| true)?,
            Which::Hottest(count) => {
                let mut choice = Choice::of(self, count);
                save.items(|heat| choice.takes(heat))?;
            }
        }
        let items = save.report.items;
        save.put(&Head::End { items }.bytes(header.marker))?;
        Ok(save.report)
    }

    /// Reads a file written by `save`. Keys that are in the cache stay as they are; damaged records are
    /// skipped and counted, expired ones too. `Error::Format`: the file is none of ours; nothing was loaded.
    pub fn load(&self, path: impl AsRef<Path>) -> Result<LoadReport, Error> {
        let path = path.as_ref();
        let named = |error: io::Error| {
            let text = format!("cannot load {}: {error}", path.display());
            Error::Io(io::Error::new(error.kind(), text))
        };
        let file = File::open(path).map_err(named)?;
        self.load_from(file).map_err(|error| match error {
            Error::Io(error) => named(error),
            other => other,
        })
    }

    /// Reads what `save_to` wrote. Buffers for itself.
    pub fn load_from(&self, file: impl Read + Seek) -> Result<LoadReport, Error> {
        read::load(self, file)
    }
}

struct Save<'a> {
    cache: &'a Cache,
    out: &'a mut dyn Write,
    marker: u64,
    report: SaveReport,
}

impl Save<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        self.out.write_all(bytes)?;
        self.report.bytes += bytes.len() as u64;
        Ok(())
    }

    /// Writes the items that `takes` wants.
    fn items(&mut self, mut takes: impl FnMut(Heat) -> bool) -> Result<(), Error> {
        let mut scan = self.cache.scan();
        let mut failed = None;
        let mut more = true;
        while more && failed.is_none() {
            more = scan.step_with_heat(|key, _, heat| {
                if failed.is_none() && takes(heat) {
                    failed = self.item(key).err();
                }
            });
        }
        failed.map_or(Ok(()), Err)
    }

    /// Writes the item of `key` as it is now, if it is still there.
    fn item(&mut self, key: &[u8]) -> Result<(), Error> {
        let unseen = Want {
            token: false,
            mark: false,
            count: false,
        };
        let hash = self.cache.inner.store.hash(key);
        match self.cache.get_as(hash, key, unseen) {
            Some(guard) => self.record(key, &guard),
            None => Ok(()),
        }
    }

    fn record(&mut self, key: &[u8], guard: &Guard) -> Result<(), Error> {
        let meta = guard.meta();
        let head = Head::Item(ItemHead {
            marks: marks_byte(meta.marks.unwrap_or_default()),
            key_bytes: key.len() as u32,
            value_bytes: meta.value_bytes as u64,
            expires_at_ms: meta.expires_at_ms.unwrap_or(0),
            flags: meta.flags,
        })
        .bytes(self.marker);
        let mut sum = Sum::of(&head);
        self.put(&head)?;
        sum.add(key);
        self.put(key)?;
        let mut left = meta.value_bytes;
        for piece in guard.chunks() {
            sum.add(&piece);
            self.put(&piece)?;
            left -= piece.len();
        }
        if left > 0 {
            let text = "memory was changed while a value was saved";
            return Err(Error::Io(std::io::Error::other(text)));
        }
        self.put(&sum.bytes())?;
        self.report.items += 1;
        Ok(())
    }
}

/// The marks that outlive a save: stale, won, base64. Reads begin anew.
fn marks_byte(marks: Marks) -> u8 {
    u8::from(marks.stale) | u8::from(marks.won) << 1 | u8::from(marks.base64) << 2
}

fn marks_of(byte: u8) -> Marks {
    Marks {
        stale: byte & 1 != 0,
        won: byte & 2 != 0,
        base64: byte & 4 != 0,
        ..Marks::default()
    }
}

/// The hottest items: all hotter than `threshold`, and `at_threshold` of those that are as hot.
struct Choice {
    threshold: Option<Heat>,
    at_threshold: u64,
    left: u64,
}

impl Choice {
    /// Counts items by heat: a few entries for each generation that lives.
    fn of(cache: &Cache, count: u64) -> Choice {
        let mut heats = BTreeMap::new();
        let mut scan = cache.scan();
        while scan.step_with_heat(|_, _, heat| *heats.entry(heat).or_insert(0u64) += 1) {}
        let mut choice = Choice {
            threshold: None,
            at_threshold: 0,
            left: count,
        };
        let mut wanted = count;
        for (heat, items) in heats.into_iter().rev() {
            choice.threshold = Some(heat);
            choice.at_threshold = items.min(wanted);
            wanted -= choice.at_threshold;
            if wanted == 0 {
                break;
            }
        }
        choice
    }

    fn takes(&mut self, heat: Heat) -> bool {
        if self.left == 0 {
            return false;
        }
        let Some(threshold) = self.threshold else {
            return false;
        };
        if heat < threshold || heat == threshold && self.at_threshold == 0 {
            return false;
        }
        if heat == threshold {
            self.at_threshold -= 1;
        }
        self.left -= 1;
        true
    }
}

/// A file under a name of its own, removed unless it took its place.
struct Temporary {
    file: File,
    path: PathBuf,
    renamed: bool,
}

impl Temporary {
    fn new(target: &Path) -> io::Result<Temporary> {
        let mut name = target.file_name().unwrap_or_default().to_os_string();
        name.push(".saving-");
        remove_left_over(&directory(target), &name);
        name.push(std::process::id().to_string());
        let path = target.with_file_name(name);
        let file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(&path)?;
        Ok(Temporary {
            file,
            path,
            renamed: false,
        })
    }

    fn rename(mut self, target: &Path) -> io::Result<()> {
        fs::rename(&self.path, target)?;
        self.renamed = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.renamed {
            // Nothing can be done if this fails too; the next save tries again.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Removes temporary files of saves that were killed: of processes that are no more, and this one's.
fn remove_left_over(directory: &Path, prefix: &std::ffi::OsStr) {
    let Ok(entries) = fs::read_dir(directory) else {
        return;
    };
    let prefix = prefix.as_encoded_bytes();
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name.as_encoded_bytes().strip_prefix(prefix);
        let Some(process) = process.and_then(|digits| std::str::from_utf8(digits).ok()) else {
            continue;
        };
        let Ok(process) = process.parse::<u32>() else {
            continue;
        };
        let ours = process == std::process::id();
        if ours || !Path::new("/proc").join(process.to_string()).exists() {
            let _ = fs::remove_file(entry.path());
        }
    }
}

/// The file to replace: links are followed, and what is no file is refused.
fn target(path: &Path) -> io::Result<PathBuf> {
    if path.file_name().is_none() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it names no file"));
    }
    match fs::canonicalize(path) {
        Ok(real) if fs::metadata(&real)?.is_file() => Ok(real),
        Ok(_) => Err(io::Error::new(
            ErrorKind::InvalidInput,
            "it is not a regular file",
        )),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(path.to_path_buf()),
        Err(error) => Err(error),
    }
}

fn directory(target: &Path) -> PathBuf {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// Says what failed, and what is left.
fn explained(path: &Path, error: io::Error) -> io::Error {
    let full = matches!(
        error.kind(),
        ErrorKind::StorageFull | ErrorKind::FileTooLarge
    );
    let advice = match full || error.raw_os_error() == Some(libc::EDQUOT) {
        true => "; make room there, or save fewer items (Which::Hottest)",
        false => "",
    };
    let text = format!(
        "cannot save to {}: {error}; what was there before is untouched{advice}",
        path.display()
    );
    io::Error::new(error.kind(), text)
}
