//! `{name}` in a command's text: the arm's parameters, and what only the point knows (`{tmpfs}`, `{scratch}`, `{seed}`).
//! `${name}` is the shell's and stays; `{{` is a plain brace, and so is one around anything that is no name.

use crate::knob::in_force;
use crate::settings::unknown;
use crate::subject::StartContext;
use anyhow::{bail, Result};
use std::collections::BTreeMap;

/// What the point gives.
pub fn given(context: &StartContext) -> Result<BTreeMap<String, String>> {
    let in_force = in_force().unwrap_or_default();
    let mut given = BTreeMap::from([
        ("scratch".to_string(), context.scratch.display().to_string()),
        ("seed".to_string(), context.seed.to_string()),
        ("thermolab".to_string(), own_program()?),
    ]);
    if let Some(tmpfs) = in_force.tmpfs {
        given.insert("tmpfs".into(), tmpfs);
    }
    Ok(given)
}

/// The same names, for a check without a point.
pub fn stand_ins() -> BTreeMap<String, String> {
    ["scratch", "seed", "thermolab", "tmpfs"]
        .iter()
        .map(|name| (name.to_string(), name.to_string()))
        .collect()
}

fn own_program() -> Result<String> {
    let path = std::env::current_exe()?.display().to_string();
    match path.contains(char::is_whitespace) {
        true => Ok(format!("'{path}'")),
        false => Ok(path),
    }
}

pub fn fill(text: &str, names: &BTreeMap<String, String>) -> Result<String> {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        let (before, after) = (&rest[..at], &rest[at + 1..]);
        out.push_str(before);
        if before.ends_with('$') {
            out.push('{');
            rest = after;
            continue;
        }
        if let Some(plain) = after.strip_prefix('{') {
            out.push('{');
            rest = plain;
            continue;
        }
        let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let name = end.map_or(after, |end| &after[..end]);
        let is_closed = after[name.len()..].starts_with('}');
        if name.is_empty() || !is_closed {
            out.push('{');
            rest = after;
            continue;
        }
        let Some(value) = names.get(name) else {
            let known: Vec<&str> = names.keys().map(String::as_str).collect();
            bail!(
                "`{{{name}}}`: {}; a brace of the shell's own is written `{{{{`",
                unknown(name, &known)
            );
        };
        out.push_str(value);
        rest = &after[name.len() + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_filled_and_the_shells_braces_stay() {
        let names = BTreeMap::from([("jobs".to_string(), "4".to_string())]);
        for (text, filled) in [
            ("make -j{jobs} x", "make -j4 x"),
            ("echo ${jobs} {jobs}", "echo ${jobs} 4"),
            ("awk '{ print $1 }'", "awk '{ print $1 }'"),
            ("awk '{{print}'", "awk '{print}'"),
            ("f() { :; }; {", "f() { :; }; {"),
            ("{a,b}", "{a,b}"),
        ] {
            assert_eq!(fill(text, &names).unwrap(), filled, "{text}");
        }
        let error = fill("make -j{job}", &names).unwrap_err().to_string();
        assert!(error.contains("did you mean `jobs`"), "{error}");
    }

    #[test]
    fn any_text_is_survived() {
        let mut random = crate::workload::Random::new(17);
        for _ in 0..3000 {
            let text: String = (0..random.below(20))
                .map(|_| ['{', '}', '$', 'a', 'é', ' '][random.below(6) as usize])
                .collect();
            let _ = fill(&text, &BTreeMap::from([("a".to_string(), "x".to_string())]));
        }
    }
}
