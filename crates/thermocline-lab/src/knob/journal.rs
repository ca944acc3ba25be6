//! What was changed on this machine and how to undo it, on disk before each change is made.
//! Owns the file, its lock and its lines; the undoing is `undo`'s.
//!
//! One line a change, appended and synced *before* the change; a second line when it was undone. A process
//! killed at any moment leaves either a change with its line, or a line whose change was never made: undoing
//! what was not done does no harm. A torn last line was never acted on.
//!
//! Must hold: the lock is held as long as changes are in force, so one lab at a time turns knobs, and
//! `restore` never undoes those of a live run.

use super::trouble::Trouble;
use super::undo::Undo;
use crate::root::Root;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where the journal lies under the root.
pub const JOURNAL: &str = "/var/lib/thermolab/journal.jsonl";

/// A journal of more than this many bytes was not written by us: one point needs under 20 KiB.
const JOURNAL_BYTES_MAX: u64 = 16 << 20;

#[derive(Serialize, Deserialize, Debug, Clone, PartialEq)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Who writes, and in which boot: after a restart the kernel's values are back by themselves.
    Owner {
        pid: u32,
        boot: String,
    },
    Change {
        step: u64,
        undo: Undo,
    },
    Undone {
        step: u64,
    },
}

/// Changes in force by their number, oldest first.
type Pending = Vec<(u64, Undo)>;

#[derive(Debug)]
pub struct Journal {
    file: File,
    path: PathBuf,
    boot: String,
    next: u64,
    pending: Pending,
    /// Whether the changes in force were made before the machine was last started.
    from_another_boot: bool,
}

/// How long a lock may be held by what a killed lab had just forked and was about to start: it has the lab's files
/// until it is another program.
const LOCK_WAIT: Duration = Duration::from_millis(500);

/// Locks a file, or says who could not within a moment.
fn try_for_a_moment(file: &File) -> Result<(), TryLockError> {
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Err(TryLockError::WouldBlock) if began.elapsed() < LOCK_WAIT => {
                std::thread::sleep(Duration::from_millis(10))
            }
            answer => return answer,
        }
    }
}

impl Journal {
    /// Opens and locks the journal. Changes left by a killed run are in `pending`.
    pub fn open(root: &Root) -> Result<Self, Trouble> {
        let path = root.path(JOURNAL);
        let named = |error: std::io::Error| {
            Trouble::failed(format!("the knob journal {}: {error}", path.display()))
        };
        if let Some(directory) = path.parent() {
            fs::create_dir_all(directory).map_err(named)?;
        }
        let mut file = OpenOptions::new()
            .read(true)
            .append(true)
            .create(true)
            .open(&path)
            .map_err(named)?;
        match try_for_a_moment(&file) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Trouble::failed(format!(
                    "another thermolab turns this machine's knobs now (it holds {}); wait for it to end",
                    path.display()
                )))
            }
            Err(TryLockError::Error(error)) => return Err(named(error)),
        }
        if file.metadata().map_err(named)?.len() > JOURNAL_BYTES_MAX {
            return Err(Trouble::failed(format!(
                "{} is larger than {JOURNAL_BYTES_MAX} bytes: not a knob journal",
                path.display()
            )));
        }
        let mut text = String::new();
        file.read_to_string(&mut text).map_err(named)?;
        let boot = boot_id(root);
        // A torn last line was never acted on; left in place it would spoil the next one.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).map_err(named)?;
        }
        let (owner_boot, pending) = replay(&text[..whole], &path)?;
        let next = pending.iter().map(|(step, _)| step + 1).max().unwrap_or(0);
        let from_another_boot = owner_boot.is_some_and(|owner| owner != boot);
        sync_directory(&path);
        Ok(Journal {
            file,
            path,
            boot,
            next,
            pending,
            from_another_boot,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    pub fn pending(&self) -> &[(u64, Undo)] {
        &self.pending
    }

    pub fn from_another_boot(&self) -> bool {
        self.from_another_boot
    }

    /// Books a change that is about to be made; on disk when this returns.
    pub fn before(&mut self, undo: Undo) -> Result<u64, Trouble> {
        if self.pending.is_empty() {
            self.begin()?;
        }
        let step = self.next;
        self.append(&Line::Change {
            step,
            undo: undo.clone(),
        })?;
        self.next += 1;
        self.pending.push((step, undo));
        Ok(step)
    }

    /// Books that a change was undone.
    pub fn undone(&mut self, step: u64) -> Result<(), Trouble> {
        self.append(&Line::Undone { step })?;
        self.pending.retain(|(pending, _)| *pending != step);
        if self.pending.is_empty() {
            self.clear()?;
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<(), Trouble> {
        self.clear()?;
        self.from_another_boot = false;
        self.append(&Line::Owner {
            pid: std::process::id(),
            boot: self.boot.clone(),
        })
    }

    fn clear(&mut self) -> Result<(), Trouble> {
        self.file
            .set_len(0)
            .and_then(|()| self.file.seek(SeekFrom::Start(0)).map(drop))
            .and_then(|()| self.file.sync_all())
            .map_err(|error| self.trouble(&error))
    }

    fn append(&mut self, line: &Line) -> Result<(), Trouble> {
        let mut text = serde_json::to_string(line)
            .map_err(|error| Trouble::failed(format!("a journal line: {error}")))?;
        text.push('\n');
        self.file
            .write_all(text.as_bytes())
            .and_then(|()| self.file.sync_data())
            .map_err(|error| self.trouble(&error))
    }

    fn trouble(&self, error: &std::io::Error) -> Trouble {
        Trouble::failed(format!("the knob journal {}: {error}", self.path.display()))
    }
}

/// The boot of the last owner and the changes not yet undone.
fn replay(text: &str, path: &Path) -> Result<(Option<String>, Pending), Trouble> {
    let mut boot = None;
    let mut pending: Pending = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line: Line = serde_json::from_str(line).map_err(|error| {
            Trouble::failed(format!(
                "{} line {}: {error}; nothing was undone. Undo the lines by hand, then empty the file",
                path.display(),
                number + 1
            ))
        })?;
        match line {
            Line::Owner { boot: id, .. } => boot = Some(id),
            Line::Change { step, undo } => pending.push((step, undo)),
            Line::Undone { step } => pending.retain(|(pending, _)| *pending != step),
        }
    }
    Ok((boot, pending))
}

fn boot_id(root: &Root) -> String {
    root.read("/proc/sys/kernel/random/boot_id")
        .unwrap_or_else(|_| "unknown".into())
}

/// So that the file's name itself survives a power cut; a file system without it has its own ways.
fn sync_directory(path: &Path) {
    if let Some(directory) = path.parent().and_then(|parent| File::open(parent).ok()) {
        let _ = directory.sync_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let root = Root::imitated(directory.path());
        (directory, root)
    }

    fn write(path: &str) -> Undo {
        Undo::Write {
            path: path.into(),
            was: "1".into(),
        }
    }

    #[test]
    fn changes_survive_their_writer_and_a_torn_last_line() {
        let (_directory, root) = root();
        {
            let mut journal = Journal::open(&root).unwrap();
            journal.before(write("/a")).unwrap();
            journal.before(write("/b")).unwrap();
            journal.before(write("/c")).unwrap();
            journal.undone(1).unwrap();
        }
        let path = root.path(JOURNAL);
        let mut text = fs::read_to_string(&path).unwrap();
        text.push_str("{\"change\":{\"step\":9,\"un");
        fs::write(&path, text).unwrap();
        let journal = Journal::open(&root).unwrap();
        let steps: Vec<u64> = journal.pending().iter().map(|(step, _)| *step).collect();
        assert_eq!(steps, [0, 2]);
        assert_eq!(journal.pending()[1].1, write("/c"));
        drop(journal);
        let mut journal = Journal::open(&root).unwrap();
        journal.undone(2).unwrap();
        drop(journal);
        assert_eq!(Journal::open(&root).unwrap().pending().len(), 1);
    }

    #[test]
    fn nothing_is_left_when_all_is_undone() {
        let (_directory, root) = root();
        let mut journal = Journal::open(&root).unwrap();
        let step = journal.before(write("/a")).unwrap();
        journal.undone(step).unwrap();
        assert_eq!(fs::metadata(root.path(JOURNAL)).unwrap().len(), 0);
    }

    #[test]
    fn a_second_lab_is_turned_away() {
        let (_directory, root) = root();
        let first = Journal::open(&root).unwrap();
        let error = Journal::open(&root).unwrap_err();
        assert!(error.reason().contains("another thermolab"), "{error}");
        drop(first);
        assert!(Journal::open(&root).is_ok());
    }

    #[test]
    fn another_boot_is_seen() {
        let (_directory, root) = root();
        let boot = root.path("/proc/sys/kernel/random/boot_id");
        fs::create_dir_all(boot.parent().unwrap()).unwrap();
        fs::write(&boot, "first\n").unwrap();
        Journal::open(&root).unwrap().before(write("/a")).unwrap();
        assert!(!Journal::open(&root).unwrap().from_another_boot());
        fs::write(&boot, "second\n").unwrap();
        assert!(Journal::open(&root).unwrap().from_another_boot());
    }

    #[test]
    fn a_line_that_is_not_ours_stops_the_undoing() {
        let (_directory, root) = root();
        let path = root.path(JOURNAL);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "{\"what\":1}\n").unwrap();
        let error = Journal::open(&root).unwrap_err();
        assert!(error.reason().contains("line 1"), "{error}");
    }
}
