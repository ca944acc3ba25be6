//! The fields of one group: values or reasons, and which of them belong to the moment only.

use crate::root::Root;
use serde_json::{json, Value};
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub struct Fields {
    lasting: BTreeMap<String, Value>,
    moment: BTreeMap<String, Value>,
}

impl Fields {
    pub fn value(&mut self, name: &str, value: Value) {
        self.lasting.insert(name.into(), value);
    }

    /// A value, or why there is none.
    pub fn read(&mut self, name: &str, value: Result<impl Into<Value>, String>) {
        self.lasting.insert(name.into(), or_unread(value));
    }

    /// As `read`, for what changes from one minute to the next.
    pub fn moment(&mut self, name: &str, value: Result<impl Into<Value>, String>) {
        self.moment.insert(name.into(), or_unread(value));
    }

    /// The text of a file.
    pub fn file(&mut self, name: &str, root: &Root, path: &str) {
        self.read(name, root.read(path));
    }

    /// Every readable file of a directory as `PREFIX.NAME`; one unread field when there is no such directory.
    pub fn directory(
        &mut self,
        prefix: &str,
        root: &Root,
        path: &str,
        wanted: impl Fn(&str) -> bool,
    ) {
        let names = root.list(path);
        if names.is_empty() {
            let why = match root.exists(path) {
                true => "the directory is empty",
                false => "not there on this kernel",
            };
            self.read(prefix, Err::<Value, _>(why.to_string()));
        }
        for name in names.iter().filter(|name| wanted(name)) {
            let file = format!("{path}/{name}");
            if root.path(&file).is_file() {
                self.file(&format!("{prefix}.{name}"), root, &file);
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.lasting.is_empty() && self.moment.is_empty()
    }

    /// What the hash is made of.
    pub fn lasting_text(&self) -> String {
        serde_json::to_string(&self.lasting).unwrap_or_default()
    }

    pub fn into_values(mut self) -> BTreeMap<String, Value> {
        self.lasting.append(&mut self.moment);
        self.lasting
    }
}

fn or_unread(value: Result<impl Into<Value>, String>) -> Value {
    match value {
        Ok(value) => value.into(),
        Err(why) => json!({ "unread": why }),
    }
}

/// The value of `NAME<separator> value` in a table such as /proc/meminfo, its first line of that name.
pub fn line_value(text: &str, name: &str, separator: char) -> Result<String, String> {
    text.lines()
        .find_map(|line| {
            let (key, value) = line.split_once(separator)?;
            (key.trim() == name).then(|| value.trim().to_string())
        })
        .ok_or_else(|| format!("no line `{name}`"))
}
