//! Properties as Java reads them, each remembering where it was said: files given with `-P` merge in their order,
//! `-p name=value` wins over all files wherever it stands. Leaves the meaning of names to `settings`.

use anyhow::{bail, Context, Result};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

/// Bytes a properties file may have, and properties in all: a hundred is a long file.
pub const FILE_BYTES_MAX: u64 = 1 << 20;
/// See [`FILE_BYTES_MAX`].
pub const PROPERTIES_MAX: usize = 4096;

/// Where a value was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A file and its line, counted from 1.
    File { name: String, line: usize },
    /// A flag, as written.
    Flag(String),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { name, line } => write!(f, "{name}:{line}"),
            Origin::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

/// A value and where it was said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    pub value: String,
    pub origin: Origin,
}

/// Names and values, the last said of each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    said: BTreeMap<String, Property>,
}

impl Properties {
    /// Files in their order, then flags.
    pub fn merge(files: &[impl AsRef<Path>], flags: &[String]) -> Result<Self> {
        let mut properties = Properties::default();
        for file in files {
            properties.read_file(file.as_ref())?;
        }
        for flag in flags {
            properties.set_flag(flag)?;
        }
        Ok(properties)
    }

    /// Adds a file's properties; they win over those said before.
    pub fn read_file(&mut self, path: &Path) -> Result<()> {
        let name = path.display().to_string();
        let size = std::fs::metadata(path)
            .with_context(|| format!("-P {name}: cannot read this file"))?
            .len();
        if size > FILE_BYTES_MAX {
            bail!("-P {name}: {size} bytes; a properties file has at most {FILE_BYTES_MAX}");
        }
        let bytes =
            std::fs::read(path).with_context(|| format!("-P {name}: cannot read this file"))?;
        self.read_bytes(&bytes, &name)
    }

    /// The same from bytes, which Java takes for Latin-1.
    pub fn read_bytes(&mut self, bytes: &[u8], name: &str) -> Result<()> {
        let text: Vec<char> = bytes.iter().map(|&byte| byte as char).collect();
        for (line, words) in logical_lines(&text) {
            let origin = Origin::File {
                name: name.to_string(),
                line,
            };
            let (key, value) = split(&words).map_err(|why| anyhow::anyhow!("{origin}: {why}"))?;
            self.set(key, value, origin)?;
        }
        Ok(())
    }

    /// Adds one `name=value`, as after `-p`.
    pub fn set_flag(&mut self, flag: &str) -> Result<()> {
        let Some((name, value)) = flag.split_once('=') else {
            bail!("-p {flag}: write -p name=value");
        };
        self.set(
            name.trim().to_string(),
            value.to_string(),
            Origin::Flag(format!("-p {flag}")),
        )
    }

    /// Adds a value said by another flag.
    pub fn set(&mut self, name: String, value: String, origin: Origin) -> Result<()> {
        if self.said.len() >= PROPERTIES_MAX && !self.said.contains_key(&name) {
            bail!("{origin}: more than {PROPERTIES_MAX} properties");
        }
        self.said.insert(name, Property { value, origin });
        Ok(())
    }

    pub fn get(&self, name: &str) -> Option<&Property> {
        self.said.get(name)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&str, &Property)> {
        self.said.iter().map(|(name, said)| (name.as_str(), said))
    }
}

/// Lines with those that end in a backslash joined to the next, comments and blank lines left out; each with the
/// number of its first.
fn logical_lines(text: &[char]) -> Vec<(usize, Vec<char>)> {
    let mut lines = Vec::new();
    let mut open: Option<(usize, Vec<char>)> = None;
    for (at, line) in physical_lines(text).into_iter().enumerate() {
        let line = trim_start(line);
        if open.is_none() && (line.is_empty() || line[0] == '#' || line[0] == '!') {
            continue;
        }
        let backslashes = line.iter().rev().take_while(|&&c| c == '\\').count();
        let goes_on = backslashes % 2 == 1;
        let words = &line[..line.len() - usize::from(goes_on)];
        let (_, joined) = open.get_or_insert_with(|| (at + 1, Vec::new()));
        joined.extend_from_slice(words);
        if !goes_on {
            lines.extend(open.take());
        }
    }
    lines.extend(open);
    lines
}

fn physical_lines(text: &[char]) -> Vec<&[char]> {
    let mut lines = Vec::new();
    let mut from = 0;
    let mut at = 0;
    while at < text.len() {
        if text[at] == '\n' || text[at] == '\r' {
            lines.push(&text[from..at]);
            at += usize::from(text[at] == '\r' && text.get(at + 1) == Some(&'\n'));
            from = at + 1;
        }
        at += 1;
    }
    lines.push(&text[from..]);
    lines
}

fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

fn trim_start(line: &[char]) -> &[char] {
    let from = line
        .iter()
        .position(|&c| !is_space(c))
        .unwrap_or(line.len());
    &line[from..]
}

/// A name up to the first `=`, `:` or space, and what follows.
fn split(line: &[char]) -> Result<(String, String), String> {
    let mut at = 0;
    while at < line.len() && !matches!(line[at], '=' | ':') && !is_space(line[at]) {
        at += if line[at] == '\\' { 2 } else { 1 };
    }
    let at = at.min(line.len());
    let name = unescape(&line[..at])?;
    let mut rest = trim_start(&line[at..]);
    if let Some('=' | ':') = rest.first() {
        rest = trim_start(&rest[1..]);
    }
    Ok((name, unescape(rest)?))
}

fn unescape(text: &[char]) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.iter().copied();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\x0c'),
            Some('u') => {
                let digits: String = rest.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16)
                    .ok()
                    .filter(|_| digits.len() == 4)
                    .ok_or_else(|| format!("`\\u{digits}` needs four hexadecimal digits"))?;
                // Halves of surrogate pairs have no meaning of their own.
                out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Properties {
        let mut properties = Properties::default();
        properties.read_bytes(text.as_bytes(), "w").unwrap();
        properties
    }

    fn value<'a>(properties: &'a Properties, name: &str) -> &'a str {
        &properties
            .get(name)
            .unwrap_or_else(|| panic!("{name}"))
            .value
    }

    #[test]
    fn javas_grammar_is_read() {
        let text = "# comment\n! another = 1\n\n  recordcount = 1000\nworkload:site.ycsb.CoreWorkload\r\n\
                    fieldcount 10\nlabel=a \\\n    b\nempty\ntab=\\t|\\u0041\\:\nx\\=y=z\nlast\\\\=1\\\\\nend=e\\";
        let properties = read(text);
        for (name, expected) in [
            ("recordcount", "1000"),
            ("workload", "site.ycsb.CoreWorkload"),
            ("fieldcount", "10"),
            ("label", "a b"),
            ("empty", ""),
            ("tab", "\t|A:"),
            ("x=y", "z"),
            ("last\\", "1\\"),
            ("end", "e"),
        ] {
            assert_eq!(value(&properties, name), expected, "{name}");
        }
        let origin = &properties.get("tab").unwrap().origin;
        assert_eq!(origin.to_string(), "w:10");
        assert_eq!(properties.iter().count(), 9);
    }

    #[test]
    fn later_files_and_flags_win() {
        let mut properties = read("a=1\nb=1\nc=1");
        properties.read_bytes(b"b=2\nc=2", "v").unwrap();
        properties.set_flag("c=3=x").unwrap();
        assert_eq!(value(&properties, "a"), "1");
        assert_eq!(value(&properties, "b"), "2");
        assert_eq!(value(&properties, "c"), "3=x");
        assert!(properties.set_flag("nonsense").is_err());
    }

    #[test]
    fn faults_name_their_line_or_file() {
        let mut properties = Properties::default();
        let error = properties
            .read_bytes(b"a=1\n\nb=\\u00g1\n", "w")
            .unwrap_err();
        assert!(error.to_string().starts_with("w:3:"), "{error}");
        let error = properties.read_file(Path::new("/no/such")).unwrap_err();
        assert!(error.to_string().contains("-P /no/such"), "{error}");
    }

    #[test]
    fn any_bytes_are_read_or_refused() {
        let seed = std::env::var("SEED").map_or(17, |s| s.parse().expect("SEED is a number"));
        println!("SEED={seed}");
        let mut random = crate::workload::Random::new(seed);
        let letters = b"ab=: \t\\u00\n\r#!\xe9\x00";
        for _ in 0..3000 {
            let bytes: Vec<u8> = (0..random.below(40))
                .map(|_| letters[random.below(letters.len() as u64) as usize])
                .collect();
            let mut properties = Properties::default();
            if properties.read_bytes(&bytes, "w").is_err() {
                assert!(bytes.windows(2).any(|pair| pair == b"\\u"), "{bytes:?}");
            }
        }
    }
}
