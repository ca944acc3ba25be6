//! Imports fall like water: each module of the lab uses only modules of lower levels, by the table in ARCHITECTURE.md.

#[path = "../../thermocline/tests/imports/mod.rs"]
mod imports;

use std::path::Path;

#[test]
fn modules_use_lower_levels_only() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = manifest.join("../../ARCHITECTURE.md");
    let wrong = imports::wrong(&page, "L", &manifest.join("src"), &["tests.rs"]);
    let wrong = wrong.expect("ARCHITECTURE.md");
    assert!(wrong.is_empty(), "{wrong:#?}");
}
