//! Imports fall like water: each module of the engine uses only modules of lower levels.
//!
//! The table is the one in ARCHITECTURE.md; the test reads both it and the sources, so neither can
//! drift. Test code inside the sources may use what it likes, and so may doc comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn manifest() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Module -> level, from the rows `| 3 | \`segment\` ... |` of ARCHITECTURE.md.
fn levels() -> Option<BTreeMap<String, u32>> {
    let page = fs::read_to_string(manifest().join("../../ARCHITECTURE.md")).ok()?;
    let mut levels = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let Some(level) = cells.get(1).and_then(|cell| cell.parse::<u32>().ok()) else {
            continue;
        };
        for module in cells[2].split('`').skip(1).step_by(2) {
            levels.insert(module.trim_end_matches('/').to_string(), level);
        }
    }
    Some(levels)
}

fn sources(under: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(under).expect("the sources are readable") {
        let path = entry.expect("a directory entry").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The lines of a file without the items that `#[cfg(test)]` and its like stand before.
fn shipped_lines(text: &str) -> Vec<&str> {
    let mut kept = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let is_test = line.contains("cfg(test") || line.contains("cfg(all(test");
        if !is_test {
            kept.push(line);
            continue;
        }
        // Attributes and comments, then one item: up to its `;`, or up to the brace that closes it.
        let indent = &line[..line.len() - line.trim_start().len()];
        let close = format!("{indent}}}");
        for line in lines.by_ref() {
            let done = line.trim_end().ends_with(';') && line.starts_with(indent);
            let braced = line == close || line.trim_end().ends_with("{}");
            let one_line = line.contains('{') && line.trim_end().ends_with('}');
            if done && !line.starts_with(&format!("{indent} ")) || braced || one_line {
                break;
            }
        }
    }
    kept
}

/// The modules a file names by `crate::x`, outside comments and test code.
fn imports(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in shipped_lines(text) {
        let line = line.split("//").next().unwrap_or("");
        for piece in line.split("crate::").skip(1) {
            assert!(
                !piece.starts_with('{') && !piece.starts_with('*'),
                "name each module by its own path: {line}"
            );
            let name: String = piece
                .chars()
                .take_while(|c| c.is_ascii_lowercase() || *c == '_')
                .collect();
            found.push(name);
        }
    }
    found
}

fn module_of(path: &Path, root: &Path) -> String {
    let inside = path.strip_prefix(root).expect("under the root");
    let first = inside.iter().next().expect("a file name");
    Path::new(first)
        .file_stem()
        .expect("a stem")
        .to_string_lossy()
        .into_owned()
}

#[test]
fn modules_use_lower_levels_only() {
    let Some(levels) = levels() else {
        eprintln!("skipped: ARCHITECTURE.md is not there (the crate stands alone)");
        return;
    };
    let root = manifest().join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "the walk found the sources");
    let mut wrong = Vec::new();
    for file in &files {
        let name = file
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let is_test = name.as_deref().is_some_and(|name| {
            [
                "tests.rs",
                "models.rs",
                "simulation.rs",
                "replays.rs",
                "bench.rs",
            ]
            .contains(&name)
        });
        let module = module_of(file, &root);
        if module == "lib" || is_test {
            continue;
        }
        let Some(level) = levels.get(&module) else {
            wrong.push(format!("{module} has no level in ARCHITECTURE.md"));
            continue;
        };
        let text = fs::read_to_string(file).expect("a source file");
        for used in imports(&text) {
            match levels.get(&used) {
                _ if used == module || used.is_empty() => {}
                Some(below) if below < level => {}
                Some(other) => wrong.push(format!(
                    "{module} (level {level}) uses {used} (level {other})"
                )),
                None => wrong.push(format!("{module} uses {used}, which has no level")),
            }
        }
    }
    wrong.sort();
    wrong.dedup();
    assert!(wrong.is_empty(), "{wrong:#?}");
}
