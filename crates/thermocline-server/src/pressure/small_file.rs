//! A small file of the kernel's that is looked at again and again: kept open, so that a look is one system call.
//!
//! A file of /proc or of a control group is made anew for a read from its beginning, and one read brings all of it that
//! the buffer has room for: a short read is the end, and no second one is made to hear so. Opening, asking for the
//! size, reading twice and closing were five calls a file: 400 a second, a third of the pressure thread's time.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Looks between two tries to open a file that was not there: ten seconds.
const ABSENT_LOOKS: u32 = 100;
/// The longest of these files (`memory.stat`) has 5 KiB.
const BUFFER_BYTES: usize = 16 << 10;
/// What is longer is none of ours.
const TEXT_BYTES_MAX: usize = 1 << 20;

pub(super) struct SmallFile {
    path: PathBuf,
    file: Option<File>,
    /// Looks until it is tried again.
    absent: u32,
}

impl SmallFile {
    pub(super) fn new(path: PathBuf) -> SmallFile {
        SmallFile {
            path,
            file: None,
            absent: 0,
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// What it says now, in `buffer`. None: it is not there, cannot be read, or is no text.
    pub(super) fn read<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Option<&'b str> {
        let file = self.open()?;
        buffer.resize(buffer.len().max(BUFFER_BYTES), 0);
        let bytes = loop {
            match file.read_at(buffer, 0) {
                Ok(bytes) if bytes < buffer.len() => break Some(bytes),
                Ok(_) if buffer.len() < TEXT_BYTES_MAX => buffer.resize(2 * buffer.len(), 0),
                // Too long, or its control group is gone: another of this name may come.
                _ => break None,
            }
        };
        if bytes.is_none() {
            self.file = None;
        }
        std::str::from_utf8(&buffer[..bytes?]).ok()
    }

    /// Just one number, and a line's end.
    pub(super) fn number(&mut self, buffer: &mut Vec<u8>) -> Option<u64> {
        self.read(buffer)?.trim().parse().ok()
    }

    fn open(&mut self) -> Option<&File> {
        if self.file.is_none() {
            if self.absent > 0 {
                self.absent -= 1;
                return None;
            }
            self.file = File::open(&self.path).ok();
            if self.file.is_none() {
                self.absent = ABSENT_LOOKS;
            }
        }
        self.file.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn each_look_sees_what_it_says_now_and_a_late_file_is_found() {
        let name = format!("thermocline-small-file-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let (mut file, mut buffer) = (SmallFile::new(path.clone()), Vec::new());
        assert_eq!(file.read(&mut buffer), None);
        let long = "x".repeat(3 * BUFFER_BYTES);
        fs::write(&path, &long).expect("written");
        assert_eq!(file.number(&mut buffer), None, "not tried again at once");
        let looks = (0..ABSENT_LOOKS).find(|_| file.read(&mut buffer) == Some(&long));
        assert_eq!(looks, Some(ABSENT_LOOKS - 1));
        fs::write(&path, "7\n").expect("written");
        assert_eq!(file.number(&mut buffer), Some(7));
        fs::write(&path, "8\n").expect("written");
        assert_eq!(file.number(&mut buffer), Some(8));
        fs::remove_file(&path).expect("removed");
    }
}
