//! Reads which modules of a crate use which, and holds it against a table of levels in ARCHITECTURE.md. Shared by the
//! crates' own tests. Test code inside the sources may use what it likes, and so may doc comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Every use of a module that is not of a lower level. `None`: the page is not there (the crate stands alone).
/// `prefix` is what stands before the numbers of this crate's rows; files named in `tests` are test code.
pub fn wrong(page: &Path, prefix: &str, root: &Path, tests: &[&str]) -> Option<Vec<String>> {
    let levels = levels(page, prefix)?;
    let mut files = Vec::new();
    sources(root, &mut files);
    assert!(files.len() > 20, "the walk found the sources");
    let mut wrong = Vec::new();
    for file in &files {
        let name = file.file_name().map(|name| name.to_string_lossy());
        let is_test = name.is_some_and(|name| tests.contains(&name.as_ref()));
        let module = module_of(file, root);
        if module == "lib" || module == "main" || is_test {
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
    Some(wrong)
}

/// Module -> level, from the rows `| 3 | \`segment\` ... |` of ARCHITECTURE.md, their number behind `prefix`.
fn levels(page: &Path, prefix: &str) -> Option<BTreeMap<String, u32>> {
    let page = fs::read_to_string(page).ok()?;
    let mut levels = BTreeMap::new();
    for line in page.lines() {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let number = |cell: &&str| cell.strip_prefix(prefix)?.parse::<u32>().ok();
        let Some(level) = cells.get(1).and_then(number) else {
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
