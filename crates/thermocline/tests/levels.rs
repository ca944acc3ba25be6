//! Imports fall like water: each module of the engine uses only modules of lower levels.
//!
//! The table is the one in ARCHITECTURE.md; the test reads both it and the sources, so neither can
//! drift.

mod imports;

use std::path::Path;

#[test]
fn modules_use_lower_levels_only() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR"));
    let tests = [
        "tests.rs",
        "models.rs",
        "expiry_models.rs",
        "group_models.rs",
        "release_models.rs",
        "reuse_models.rs",
        "simulation.rs",
        "replays.rs",
        "bench.rs",
    ];
    let page = manifest.join("../../ARCHITECTURE.md");
    match imports::wrong(&page, "", &manifest.join("src"), &tests) {
        Some(wrong) => assert!(wrong.is_empty(), "{wrong:#?}"),
        None => eprintln!("skipped: ARCHITECTURE.md is not there (the crate stands alone)"),
    }
}
