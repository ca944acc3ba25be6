//! Ctrl-C and its like while knobs are held: a thread that waits for signals, sets a flag that loops may look at, and after a
//! grace (or at a second signal) restores and ends the process itself, whatever the rest is busy with.

use super::held::restore_held;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Once;
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static INSTALLED: Once = Once::new();

/// How long a run may take to end by itself after the first signal.
const GRACE: Duration = Duration::from_secs(15);

/// Whether the user wants it to end.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// From now on SIGINT, SIGTERM and SIGHUP end the process in order. Once is enough; more calls do nothing.
pub fn restore_on_signals() {
    INSTALLED.call_once(|| {
        let started = std::thread::Builder::new()
            .name("signals".into())
            .spawn(wait);
        if let Err(error) = started {
            eprintln!("thermolab: Ctrl-C will not restore knobs (no thread: {error}); `thermolab restore` will");
        }
    });
}

fn wait() {
    let Ok(mut signals) = Signals::new([SIGINT, SIGTERM, SIGHUP]) else {
        eprintln!("thermolab: Ctrl-C will not restore knobs; `thermolab restore` will");
        return;
    };
    let Some(signal) = signals.forever().next() else {
        return;
    };
    INTERRUPTED.store(true, Ordering::Relaxed);
    eprintln!("thermolab: interrupted; ending the point and restoring (again to end at once)");
    let end = Instant::now() + GRACE;
    while Instant::now() < end && signals.pending().next().is_none() {
        std::thread::sleep(Duration::from_millis(50));
    }
    if let Err(trouble) = restore_held() {
        eprintln!("thermolab: {trouble}");
    }
    std::process::exit(128 + signal);
}
