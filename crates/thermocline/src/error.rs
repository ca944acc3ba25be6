//! What can go wrong, and what to do about it.

use std::fmt;
use std::io;

/// Why an operation was refused. A miss is not an error.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The configuration cannot work; the text names the key, the value and the bound.
    Config(String),
    /// The key is empty or longer than the cache takes. Nothing was changed.
    KeySize {
        /// Bytes of the refused key.
        bytes: usize,
        /// The largest key this cache takes, bytes.
        max: usize,
    },
    /// The value is longer than the cache takes. A `set` has removed the key's old value.
    ValueTooLarge {
        /// Bytes of the refused value.
        bytes: u64,
        /// The largest value this cache takes, bytes.
        max: u64,
    },
    /// No room could be made in time: everything is pinned, held, being written, or too young to be evicted
    /// (`Config::min_ttl`). A `set` has removed the key's old value. Try again, hold fewer guards, or give the cache
    /// more memory.
    NoRoom,
    /// The stored value is not a decimal number of at most 20 digits.
    NotANumber,
    /// A command of the `lru_gen` interface that is none, or names a generation it must not; the text says which.
    Command(String),
    /// The operating system refused something.
    Io(io::Error),
    /// A save file is not one of ours or is of another version.
    Format(String),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Config(text) => write!(f, "configuration: {text}"),
            Error::KeySize { bytes: 0, .. } => write!(f, "empty key: keys have at least 1 byte"),
            Error::KeySize { bytes, max } => {
                write!(
                    f,
                    "key of {bytes} bytes: this cache takes keys of up to {max} bytes"
                )
            }
            Error::ValueTooLarge { bytes, max } => {
                write!(
                    f,
                    "value of {bytes} bytes: this cache takes values of up to {max} bytes"
                )
            }
            Error::NoRoom => write!(
                f,
                "no room could be made: too much memory is pinned, held by guards, or too young to be evicted"
            ),
            Error::NotANumber => write!(f, "the stored value is not a decimal number"),
            Error::Command(text) => write!(f, "lru_gen: {text}"),
            Error::Io(error) => write!(f, "{error}"),
            Error::Format(text) => write!(f, "save file: {text}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::Io(error)
    }
}
