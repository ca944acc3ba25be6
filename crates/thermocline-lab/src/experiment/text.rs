//! The text of an experiment file: TOML to a table of JSON values, and where in the file each key stands, so that
//! every complaint can name its line.

use crate::settings::Table;
use anyhow::{anyhow, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use toml::de::{DeTable, DeValue};

/// Largest experiment file, bytes.
pub const TEXT_BYTES_MAX: usize = 1 << 20;

/// Line of each key, by its full name (`arm.subject.policy`: those of all arms are one).
#[derive(Clone, Debug, Default)]
pub struct Places(BTreeMap<String, usize>);

/// Reads the TOML of `text`.
pub fn parse(text: &str) -> Result<(Table, Places)> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(anyhow!("is larger than {TEXT_BYTES_MAX} bytes"));
    }
    let complaint = |error: toml::de::Error| {
        let line = error.span().map_or(1, |span| line_of(text, span.start));
        anyhow!("line {line}: {}", error.message())
    };
    let table: Table = toml::from_str(text).map_err(complaint)?;
    let mut places = Places::default();
    let positions = DeTable::parse(text).map_err(complaint)?;
    places.walk("", positions.get_ref(), text);
    Ok((table, places))
}

fn line_of(text: &str, offset: usize) -> usize {
    let offset = offset.min(text.len());
    1 + text.as_bytes()[..offset]
        .iter()
        .filter(|b| **b == b'\n')
        .count()
}

impl Places {
    fn walk(&mut self, path: &str, table: &DeTable<'_>, text: &str) {
        for (key, value) in table.iter() {
            let name = match path {
                "" => key.get_ref().to_string(),
                path => format!("{path}.{}", key.get_ref()),
            };
            let line = line_of(text, key.span().start);
            match value.get_ref() {
                DeValue::Table(inner) => self.walk(&name, inner, text),
                DeValue::Array(items) => {
                    for item in items.iter() {
                        if let DeValue::Table(inner) = item.get_ref() {
                            self.walk(&name, inner, text);
                        }
                    }
                }
                _ => {}
            }
            self.0.entry(name).or_insert(line);
        }
    }

    /// The line of `key`, in its own section or in an arm's or the matrix's overrides.
    pub fn line(&self, key: &str) -> Option<usize> {
        self.0
            .get(key)
            .or_else(|| self.0.get(&format!("arm.{key}")))
            .or_else(|| self.0.get(&format!("matrix.{key}")))
            .copied()
    }

    /// Adds the line of the key that stands first in backquotes in `complaint`.
    pub fn locate(&self, complaint: &anyhow::Error) -> anyhow::Error {
        let text = format!("{complaint:#}");
        match text.split('`').nth(1).and_then(|key| self.line(key)) {
            Some(line) => anyhow!("line {line}: {text}"),
            None => anyhow!("{text}"),
        }
    }
}

/// Nested tables as dotted keys: `{subject: {policy: "lru"}}` is `subject.policy`.
pub fn flatten(table: Table) -> Table {
    let mut flat = Table::new();
    for (key, value) in table {
        match value {
            Value::Object(inner) => {
                for (rest, value) in flatten(inner.into_iter().collect()) {
                    flat.insert(format!("{key}.{rest}"), value);
                }
            }
            value => drop(flat.insert(key, value)),
        }
    }
    flat
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "question = \"q\"\n\n[subject]\nkind = \"moka\"\nmemory = \"1GiB\"\n\n[[arm]]\nname = \"a\"\nsubject.policy = \"x\"\n";

    #[test]
    fn keys_have_lines() {
        let (table, places) = parse(TEXT).unwrap();
        assert_eq!(table["subject"]["memory"], "1GiB");
        assert_eq!(places.line("subject.memory"), Some(5));
        assert_eq!(places.line("subject.policy"), Some(9), "by way of the arm");
        let located = places.locate(&anyhow!("`subject.kind`: unknown"));
        assert_eq!(located.to_string(), "line 4: `subject.kind`: unknown");
    }

    #[test]
    fn broken_toml_names_its_line() {
        let error = parse("a = 1\nb = \n").unwrap_err().to_string();
        assert!(error.starts_with("line 2"), "{error}");
        assert!(parse("a = 1\na = 2\n")
            .unwrap_err()
            .to_string()
            .contains("line 2"));
    }

    #[test]
    fn nested_tables_are_dotted_keys() {
        let (table, _) = parse("a.b.c = 1\na.d = [1, 2]\ne = 2\n").unwrap();
        let flat = flatten(table);
        let keys: Vec<&str> = flat.keys().map(String::as_str).collect();
        assert_eq!(keys, ["a.b.c", "a.d", "e"]);
    }

    #[test]
    fn random_text_never_panics() {
        let mut random = crate::workload::Random::new(9);
        for _ in 0..3000 {
            let mut bytes = TEXT.as_bytes().to_vec();
            for _ in 0..=random.below(6) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = b"[]{}=.\"'\n#\\0a\xff"[random.below(14) as usize];
            }
            let _ = parse(&String::from_utf8_lossy(&bytes));
        }
    }
}
