//! A table of settings, read key by key: what nobody asked for is refused at the end, with the nearest known
//! name. Every error names the full key (`subject.memory`), what stands there and what may.
//!
//! Values are JSON's: TOML files and command lines are turned into it before they come here.

use crate::nearest::nearest;
use crate::units::{parse_bytes, parse_count, parse_duration};
use anyhow::{bail, Result};
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// The settings of one part, by key.
pub type Table = BTreeMap<String, Value>;

/// `NAME=VALUE` as a setting: the value is JSON where it is, else a word.
pub fn assignment(text: &str) -> Option<(String, Value)> {
    let (name, value) = text.split_once('=')?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
    Some((name.to_string(), value))
}

/// A table being read.
#[derive(Clone, Debug)]
pub struct Settings {
    path: String,
    values: Table,
    known: Vec<&'static str>,
}

impl Settings {
    /// `path` is what stands before each key in messages: `subject`.
    pub fn new(path: impl Into<String>, values: Table) -> Self {
        Settings {
            path: path.into(),
            values,
            known: Vec::new(),
        }
    }

    /// The value of `key`, if there is one.
    pub fn take(&mut self, key: &'static str) -> Option<Value> {
        self.known.push(key);
        self.values.remove(key)
    }

    fn wrong(&self, key: &str, value: &Value, wanted: &str) -> anyhow::Error {
        anyhow::anyhow!("`{}` = {value}: {wanted}", self.name(key))
    }

    /// That `key` must be given, or that it was meant by another name that is there. `what` says what to write.
    pub fn missing(&self, key: &'static str, what: &str) -> anyhow::Error {
        let there: Vec<&str> = self.values.keys().map(String::as_str).collect();
        match nearest(key, there.iter().copied()) {
            Some(slip) if !self.known.contains(&slip) => anyhow::anyhow!(
                "`{}`: unknown name `{slip}`; did you mean `{key}`?",
                self.name(slip)
            ),
            _ => anyhow::anyhow!("`{}` is missing: {what}", self.name(key)),
        }
    }

    /// The key as the user writes it.
    pub fn name(&self, key: &str) -> String {
        match self.path.as_str() {
            "" => key.to_string(),
            path => format!("{path}.{key}"),
        }
    }

    /// A string.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => Ok(Some(text)),
            Some(other) => Err(self.wrong(key, &other, "write a string in quotes")),
        }
    }

    /// What `parse` makes of a string or number; its message goes to the user.
    pub fn parsed<T>(
        &mut self,
        key: &'static str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>> {
        let Some(value) = self.take(key) else {
            return Ok(None);
        };
        let text = match &value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            other => return Err(self.wrong(key, other, "write a string or a number")),
        };
        match parse(&text) {
            Ok(parsed) => Ok(Some(parsed)),
            Err(why) => bail!("`{}`: {why}", self.name(key)),
        }
    }

    /// Bytes: a number, or `"64MiB"`.
    pub fn bytes(&mut self, key: &'static str) -> Result<Option<u64>> {
        self.parsed(key, parse_bytes)
    }

    /// A count: a number, or `"10M"`.
    pub fn count(&mut self, key: &'static str) -> Result<Option<u64>> {
        self.parsed(key, parse_count)
    }

    /// A duration: seconds as a number, or `"200ms"`.
    pub fn duration(&mut self, key: &'static str) -> Result<Option<Duration>> {
        self.parsed(key, parse_duration)
    }

    /// A finite number.
    pub fn number(&mut self, key: &'static str) -> Result<Option<f64>> {
        self.parsed(key, |text| {
            let number: f64 = text
                .parse()
                .map_err(|_| format!("`{text}` is not a number"))?;
            if !number.is_finite() {
                return Err(format!("`{text}` is not a finite number"));
            }
            Ok(number)
        })
    }

    pub fn truth(&mut self, key: &'static str) -> Result<Option<bool>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::Bool(truth)) => Ok(Some(truth)),
            Some(other) => Err(self.wrong(key, &other, "write true or false")),
        }
    }

    /// One of a few words.
    pub fn choice<T: Copy>(
        &mut self,
        key: &'static str,
        choices: &[(&'static str, T)],
    ) -> Result<Option<T>> {
        let Some(text) = self.text(key)? else {
            return Ok(None);
        };
        match choices.iter().find(|(name, _)| *name == text) {
            Some((_, choice)) => Ok(Some(*choice)),
            None => {
                let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
                bail!("`{}`: {}", self.name(key), unknown(&text, &names))
            }
        }
    }

    /// A list of strings; one string alone is split at spaces.
    pub fn words(&mut self, key: &'static str) -> Result<Option<Vec<String>>> {
        match self.take(key) {
            None => Ok(None),
            Some(Value::String(text)) => {
                Ok(Some(text.split_whitespace().map(str::to_string).collect()))
            }
            Some(Value::Array(items)) => items
                .iter()
                .map(|item| match item {
                    Value::String(text) => Ok(text.clone()),
                    Value::Number(number) => Ok(number.to_string()),
                    other => Err(self.wrong(key, other, "write a list of strings")),
                })
                .collect::<Result<_>>()
                .map(Some),
            Some(other) => Err(self.wrong(key, &other, "write a list of strings")),
        }
    }

    /// All that is left, whatever its keys: for parts that hand settings on.
    pub fn rest(&mut self) -> Table {
        std::mem::take(&mut self.values)
    }

    /// Refuses what nobody asked for.
    pub fn finish(self) -> Result<()> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(key) => bail!("`{}`: {}", self.name(key), unknown(key, &self.known)),
        }
    }
}

/// `unknown word; did you mean ...` or the list of what there is.
pub fn unknown(word: &str, known: &[&str]) -> String {
    match nearest(word, known.iter().copied()) {
        Some(near) => format!("unknown name `{word}`; did you mean `{near}`?"),
        None => {
            let mut names = known.to_vec();
            names.sort_unstable();
            names.dedup();
            format!("unknown name `{word}`; there are: {}", names.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn settings(values: Value) -> Settings {
        Settings::new("subject", serde_json::from_value(values).unwrap())
    }

    #[test]
    fn values_are_read_in_their_units() {
        let mut s = settings(json!({
            "memory": "64MiB", "keys": 1000, "wait": "5ms", "rate": 1.5, "fill": true,
            "policy": "lru", "flags": ["-a", 3], "words": "x  y"
        }));
        assert_eq!(s.bytes("memory").unwrap(), Some(64 << 20));
        assert_eq!(s.count("keys").unwrap(), Some(1000));
        assert_eq!(s.duration("wait").unwrap(), Some(Duration::from_millis(5)));
        assert_eq!(s.number("rate").unwrap(), Some(1.5));
        assert_eq!(s.truth("fill").unwrap(), Some(true));
        let choices = [("fifo", 1), ("lru", 2)];
        assert_eq!(s.choice("policy", &choices).unwrap(), Some(2));
        assert_eq!(s.words("flags").unwrap().unwrap(), ["-a", "3"]);
        assert_eq!(s.words("words").unwrap().unwrap(), ["x", "y"]);
        assert_eq!(s.text("absent").unwrap(), None);
        s.finish().unwrap();
    }

    #[test]
    fn errors_name_the_key_and_suggest() {
        let mut s = settings(json!({ "memroy": "1GiB" }));
        s.bytes("memory").unwrap();
        let error = s.finish().unwrap_err().to_string();
        assert_eq!(
            error,
            "`subject.memroy`: unknown name `memroy`; did you mean `memory`?"
        );
        let error = settings(json!({ "memory": true })).bytes("memory");
        assert!(error.unwrap_err().to_string().contains("subject.memory"));
        let error = settings(json!({ "policy": "lru2" }))
            .choice("policy", &[("lru", ()), ("fifo", ())])
            .unwrap_err();
        assert!(error.to_string().contains("did you mean `lru`"), "{error}");
        let error = settings(json!({ "policy": "clockwork" }))
            .choice("policy", &[("lru", ()), ("fifo", ())])
            .unwrap_err();
        assert!(
            error.to_string().contains("there are: fifo, lru"),
            "{error}"
        );
    }
}
