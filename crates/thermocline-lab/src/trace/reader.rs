//! One trace, request by request: a file of any format, or a synthetic recipe. Holds one line or record.

use super::input::{self, Input};
use super::synthetic::Recipe;
use super::{msr, oracle, text, twitter, Format, Request};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Where a trace comes from: a path, or `syn:NAME`.
#[derive(Clone, Debug, PartialEq)]
pub enum Origin {
    File(PathBuf),
    Synthetic(Recipe),
}

impl FromStr for Origin {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("syn:") {
            Some(name) => Ok(Origin::Synthetic(name.parse()?)),
            None => Ok(Origin::File(text.into())),
        }
    }
}

impl Origin {
    /// The name in reports: the file's without its endings, or `syn_NAME`.
    pub fn name(&self) -> String {
        match self {
            Origin::Synthetic(recipe) => format!("syn_{}", recipe.name()),
            Origin::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                let mut name = name.to_string_lossy().into_owned();
                for ending in [".zst", ".gz", ".txt", ".csv", ".bin", ".oracleGeneral"] {
                    if let Some(stem) = name.strip_suffix(ending).filter(|stem| !stem.is_empty()) {
                        name = stem.to_string();
                    }
                }
                name
            }
        }
    }

    /// Opens it at its first request. `format`: else found by name and content.
    pub fn open(&self, format: Option<Format>) -> Result<Reader> {
        match self {
            Origin::File(path) => Reader::open(path, format),
            Origin::Synthetic(recipe) => Ok(Reader::synthetic(*recipe)),
        }
    }
}

/// How a line becomes a request.
type Parse = fn(&[u8]) -> Result<Request>;

enum Lines {
    Text(Input, Parse),
    Oracle(Input),
    Synthetic(Box<dyn Iterator<Item = Request> + Send>),
}

/// A trace being read.
pub struct Reader {
    name: PathBuf,
    has_times: bool,
    lines: Lines,
    line: Vec<u8>,
    /// Lines or records read.
    position: u64,
}

impl Reader {
    fn open(path: &Path, format: Option<Format>) -> Result<Reader> {
        let input = input::open(path)?;
        Reader::new(path, input, format)
    }

    /// Over an input that is open. `path` is for messages, and for the format where none is given.
    pub fn new(path: &Path, mut input: Input, format: Option<Format>) -> Result<Reader> {
        let format = match format {
            Some(format) => format,
            None => {
                let head = input
                    .fill_buf()
                    .with_context(|| format!("cannot read {}", path.display()))?;
                Format::find(path, head)?
            }
        };
        let lines = match format {
            Format::Text => Lines::Text(input, text::request),
            Format::Twitter => Lines::Text(input, twitter::request),
            Format::Msr => Lines::Text(input, msr::request),
            Format::OracleGeneral => Lines::Oracle(input),
        };
        Ok(Reader {
            name: path.to_path_buf(),
            has_times: format != Format::Text,
            lines,
            line: Vec::new(),
            position: 0,
        })
    }

    fn synthetic(recipe: Recipe) -> Reader {
        Reader {
            name: format!("syn:{}", recipe.name()).into(),
            has_times: false,
            lines: Lines::Synthetic(recipe.requests()),
            line: Vec::new(),
            position: 0,
        }
    }

    /// Whether its requests say when they came.
    pub fn has_times(&self) -> bool {
        self.has_times
    }

    /// The next request; None at the end.
    pub fn next_request(&mut self) -> Result<Option<Request>> {
        self.position += 1;
        let next = self.step();
        next.with_context(|| {
            let unit = match self.lines {
                Lines::Oracle(_) => "record",
                _ => "line",
            };
            format!("{}, {unit} {}", self.name.display(), self.position)
        })
    }

    fn step(&mut self) -> Result<Option<Request>> {
        match &mut self.lines {
            Lines::Synthetic(requests) => Ok(requests.next()),
            Lines::Oracle(input) => {
                let mut record = [0; oracle::RECORD_BYTES];
                let is_there = input::read_record(input, &mut record)?;
                Ok(is_there.then(|| oracle::request(&record)))
            }
            Lines::Text(input, parse) => {
                while input::read_line(input, &mut self.line)? {
                    if !self.line.is_empty() {
                        return parse(&self.line).map(Some);
                    }
                    self.position += 1;
                }
                Ok(None)
            }
        }
    }
}

impl Iterator for Reader {
    type Item = Result<Request>;

    fn next(&mut self) -> Option<Result<Request>> {
        self.next_request().transpose()
    }
}
