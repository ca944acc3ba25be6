//! The documents against the server: every figure, page, flag and setting there is stands in one, and no figure that is none.

mod common;

use common::{free_port, serve, skip};
use std::collections::HashSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use thermocline_server::config::{memcached, KEYS};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A page of the documents; None where the crate stands alone.
fn document(name: &str) -> Option<String> {
    let page = std::fs::read_to_string(root().join(name)).ok();
    if page.is_none() {
        skip(&format!("{name} is not there (the crate stands alone)"));
    }
    page
}

fn get(port: u16, path: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).expect("admin port");
    let request = format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    text
}

/// The names of figures in a text, written out whole.
fn figures_named(text: &str) -> HashSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let whole = |word: &&str| word.starts_with("thermocline_") && !word.ends_with('_');
    words.filter(whole).map(str::to_string).collect()
}

/// Every page of `docs/`, and what stands beside it.
fn documents() -> Vec<PathBuf> {
    let folder = std::fs::read_dir(root().join("docs")).expect("docs/");
    let files = folder.map(|entry| entry.expect("readable").path());
    let beside = ["README.md", "CHANGELOG.md"].map(|name| root().join(name));
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    files.chain(beside).filter(is_page).collect()
}

#[test]
fn figures_and_pages_of_the_admin_port_are_documented() {
    let Some(page) = document("docs/admin.md") else {
        return;
    };
    let admin = free_port();
    let _server = serve(&["--http", &format!("127.0.0.1:{admin}"), "--groups", "a:"]);
    let metrics = get(admin, "/metrics");
    let types = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "));
    let figures: HashSet<String> = types
        .filter_map(|line| Some(line.split_once(' ')?.0.to_string()))
        .collect();
    let lacking: Vec<_> = figures.difference(&figures_named(&page)).cloned().collect();
    assert!(lacking.is_empty(), "docs/admin.md lacks {lacking:?}");
    for path in documents() {
        let text = std::fs::read_to_string(&path).expect("readable");
        let strange: Vec<_> = figures_named(&text).difference(&figures).cloned().collect();
        assert!(strange.is_empty(), "{}: no {strange:?}", path.display());
    }
    for line in get(admin, "/").lines().filter(|line| line.starts_with('/')) {
        let path = line.split(' ').next().unwrap_or(line);
        let cell = format!("`{path}`");
        assert!(page.contains(&cell), "docs/admin.md lacks {path}");
    }
}

#[test]
fn flags_of_memcached_are_documented() {
    let Some(page) = document("docs/memcached.md") else {
        return;
    };
    let help = memcached::help();
    let flags = help.lines().filter(|line| line.starts_with('-'));
    for flag in flags.filter_map(|line| line.get(..2)) {
        let listed = page
            .lines()
            .any(|line| line.starts_with('|') && line.contains(&format!("`{flag}")));
        assert!(listed, "docs/memcached.md lacks {flag}");
    }
}

#[test]
fn settings_are_documented() {
    if document("docs/memcached.md").is_none() {
        return;
    }
    let texts: Vec<String> = documents()
        .iter()
        .map(|path| std::fs::read_to_string(path).expect("readable"))
        .collect();
    for key in KEYS {
        let names = [format!("`{}", key.name), format!("--{}", key.flag())];
        let told = |text: &String| names.iter().any(|name| text.contains(&name[..]));
        assert!(texts.iter().any(told), "no document names {}", key.name);
    }
}
