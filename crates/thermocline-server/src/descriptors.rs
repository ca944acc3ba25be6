//! The limit of open files: raised as far as connections_max needs and the system allows.

use crate::net::SPARE_DESCRIPTORS;
use nix::sys::resource::{getrlimit, setrlimit, Resource};

/// Files that can be open afterwards. Less than asked for is a warning, not an end: accepting pauses when they run out.
pub fn raise_limit(connections: usize) -> u64 {
    let wanted = connections as u64 + SPARE_DESCRIPTORS;
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return 0;
    };
    if soft >= wanted {
        return soft;
    }
    // Root may raise the hard limit as well; others get what it allows.
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
        .map(|()| wanted)
        .or_else(|_| {
            let most = wanted.min(hard);
            setrlimit(Resource::RLIMIT_NOFILE, most, hard).map(|()| most)
        })
        .unwrap_or(soft);
    if raised < wanted {
        tracing::warn!(
            open_files = raised,
            needed = wanted,
            "the limit of open files is too low for connections_max: raise it (ulimit -n, LimitNOFILE=)"
        );
    }
    raised
}
