//! Where the kernel's files are looked for: `/`, or a directory that imitates one for tests.
//! Owns reading, writing and listing them with the reason when that fails; what the values mean is left to
//! `knob` and `environment`.
//!
//! Must hold: under an imitated root nothing outside that directory is read or written. There a write behaves
//! as the kernel's would: `always [madvise] never` keeps its words and moves the brackets.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// The most one kernel file may give, bytes: /proc/kallsyms and its like are not for us.
const FILE_BYTES_MAX: u64 = 4 << 20;

#[derive(Clone, Debug)]
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// The machine itself.
    pub fn live() -> Self {
        Root { path: "/".into() }
    }

    /// A directory holding `proc`, `sys` and so on, as a stand-in for the machine.
    pub fn imitated(path: impl Into<PathBuf>) -> Self {
        Root { path: path.into() }
    }

    pub fn at(path: &Path) -> Self {
        Root { path: path.into() }
    }

    pub fn is_live(&self) -> bool {
        self.path == Path::new("/")
    }

    /// Where `name`, an absolute path, lies under this root.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name.trim_start_matches('/'))
    }

    pub fn exists(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The text without its last line end, or why it cannot be read.
    pub fn read(&self, name: &str) -> Result<String, String> {
        let bytes = self.read_bytes(name)?;
        let text = String::from_utf8_lossy(&bytes);
        Ok(text.trim_end().to_string())
    }

    /// At most 4 MiB of the file, or why it cannot be read.
    pub fn read_bytes(&self, name: &str) -> Result<Vec<u8>, String> {
        use std::io::Read;
        let reason = |error: io::Error| reason(&error).to_string();
        let file = fs::File::open(self.path(name)).map_err(reason)?;
        let mut bytes = Vec::new();
        file.take(FILE_BYTES_MAX)
            .read_to_end(&mut bytes)
            .map_err(reason)?;
        Ok(bytes)
    }

    /// Writes a value the way the kernel wants it: one write call, nothing created.
    pub fn write(&self, name: &str, value: &str) -> io::Result<()> {
        let path = self.path(name);
        if self.is_live() {
            let mut file = fs::OpenOptions::new().write(true).open(path)?;
            return file.write_all(value.as_bytes());
        }
        let old = fs::read_to_string(&path)?;
        self.replace(&path, &imitated_value(&old, value)?)
    }

    /// Gives a file of an imitated root other contents at once: as with the kernel's own, no end of the writer leaves
    /// half of them.
    pub fn replace(&self, path: &Path, text: &str) -> io::Result<()> {
        let new = self.path(&format!("/.thermolab-new-{}", std::process::id()));
        fs::write(&new, text)?;
        fs::rename(new, path)
    }

    /// Names in a directory, sorted; empty when there is none.
    pub fn list(&self, name: &str) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.path(name)) else {
            return Vec::new();
        };
        let mut names: Vec<String> = entries
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }
}

/// What an imitated file holds after `value` was written to it.
fn imitated_value(old: &str, value: &str) -> io::Result<String> {
    if !old.contains('[') {
        return Ok(format!("{}\n", value.trim()));
    }
    let words: Vec<&str> = old
        .split_whitespace()
        .map(|word| word.trim_matches(['[', ']']))
        .collect();
    if !words.contains(&value.trim()) {
        return Err(io::Error::from(io::ErrorKind::InvalidInput));
    }
    let marked: Vec<String> = words
        .iter()
        .map(|word| match *word == value.trim() {
            true => format!("[{word}]"),
            false => word.to_string(),
        })
        .collect();
    Ok(marked.join(" ") + "\n")
}

/// An error in few words, without the number.
pub fn reason(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::NotFound => "not there on this kernel",
        io::ErrorKind::PermissionDenied => "no permission to read it",
        io::ErrorKind::InvalidInput => "the kernel refused the value",
        io::ErrorKind::Unsupported => "not supported here",
        io::ErrorKind::ResourceBusy => "busy",
        _ => "could not be read or written",
    }
}

/// `always [madvise] never` -> `madvise`; a text without brackets is itself.
pub fn chosen(text: &str) -> &str {
    text.split(['[', ']']).nth(1).unwrap_or(text).trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_imitated_choice_moves_its_brackets_and_refuses_strangers() {
        let old = "always [madvise] never\n";
        assert_eq!(
            imitated_value(old, "never").unwrap(),
            "always madvise [never]\n"
        );
        assert!(imitated_value(old, "sometimes").is_err());
        assert_eq!(imitated_value("60\n", "100").unwrap(), "100\n");
    }

    #[test]
    fn reading_says_why_not() {
        let root = Root::live();
        assert_eq!(root.read("/proc/sys/kernel/ostype").unwrap(), "Linux");
        assert_eq!(
            root.read("/proc/no-such-file").unwrap_err(),
            "not there on this kernel"
        );
    }

    #[test]
    fn the_bracketed_word_is_chosen() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("[lzo-rle] lzo lz4"), "lzo-rle");
        assert_eq!(chosen("plain"), "plain");
    }
}
