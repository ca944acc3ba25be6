//! For tests that turn knobs of the machine they run on.

use std::process::Command;

/// Puts back what a lab that was killed here earlier still held, a test run's too: knobs are refused until somebody did.
pub fn put_back() {
    let output = Command::new(env!("CARGO_BIN_EXE_thermolab"))
        .arg("restore")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
}
