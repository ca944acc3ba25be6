//! A reader of our output that has seen enough (`| head`) ends the program without a word, as it ends any Unix tool.
//!
//! By unwinding, not by the signal: guards run, so a machine's knobs are put back, and a server that closes a connection is
//! still an error of that connection alone.

use std::any::Any;
use std::panic;
use std::process::ExitCode;

/// What a shell reports of a program that SIGPIPE has ended.
const ENDED_BY_SIGPIPE: u8 = 128 + 13;

/// Runs `work`; `print!` to a closed pipe ends it quietly.
pub fn ends_quietly(work: impl FnOnce() -> ExitCode) -> ExitCode {
    let usual = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        if !is_closed_pipe(info.payload()) {
            usual(info);
        }
    }));
    match panic::catch_unwind(panic::AssertUnwindSafe(work)) {
        Ok(code) => code,
        Err(payload) if is_closed_pipe(&*payload) => ExitCode::from(ENDED_BY_SIGPIPE),
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// The words of the standard library's `print!`; `tests/closed_pipe.rs` tells when they change.
fn is_closed_pipe(payload: &dyn Any) -> bool {
    payload
        .downcast_ref::<String>()
        .is_some_and(|text| text.starts_with("failed printing to stdout: Broken pipe"))
}
