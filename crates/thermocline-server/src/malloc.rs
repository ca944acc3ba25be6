//! Taming the C library's allocator, so that it neither multiplies arenas nor sits on freed memory.
//!
//! glibc reads its tunables from the environment before `main`, and can be told later only by an unsafe call. So the
//! command starts itself once more (same process id) with them set. An allocator crate would do it too, but a server
//! that allocates only for unfinished requests and unsent replies has no use for a faster allocator, and a second one
//! would bring memory and C code of its own.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

const MARK: &str = "THERMOCLINE_TAMED";

/// Two arenas serve any number of event loops that hardly allocate. Blocks above 64 KiB are mapped and unmapped by
/// themselves, so a burst of large unfinished requests leaves nothing behind; the heap's top goes back at 128 KiB.
const TUNABLES: [(&str, &str); 3] = [
    ("MALLOC_ARENA_MAX", "2"),
    ("MALLOC_MMAP_THRESHOLD_", "65536"),
    ("MALLOC_TRIM_THRESHOLD_", "131072"),
];

/// Returns if the tunables are in force, or cannot be brought into force.
pub fn tame() {
    if std::env::var_os(MARK).is_some()
        || TUNABLES
            .iter()
            .any(|(name, _)| std::env::var_os(name).is_some())
    {
        return;
    }
    let Ok(executable) = std::env::current_exe() else {
        return;
    };
    let mut args = std::env::args_os();
    let name = args.next().unwrap_or_else(|| OsString::from("thermocline"));
    let mut command = Command::new(executable);
    command.arg0(name).args(args).envs(TUNABLES).env(MARK, "1");
    // exec returns only if it failed: then we go on as we are.
    let error = command.exec();
    eprintln!("thermocline: could not restart with allocator settings ({error}); going on without");
}
