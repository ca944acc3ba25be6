//! The limit of open files: raised as far as connections_max needs and the system allows; and how many connections
//! that leaves room for.
//!
//! What must hold: clients never get the descriptors that the rest of the server needs, or nobody could ask it how it
//! is (`/healthz`) just when that matters.

use crate::config::Settings;
use crate::net::SPARE_DESCRIPTORS;
use nix::sys::resource::{getrlimit, setrlimit, Resource};

/// An event loop's own: epoll and its waker.
const LOOP_DESCRIPTORS: u64 = 2;
/// Where the limit is hardly more than what should be spare, clients still get one in so many.
const CLIENTS_SHARE: u64 = 4;

/// What the limit of open files came to.
pub struct OpenFiles {
    limit: Option<u64>,
    /// `connections_max` as it was asked for, where the limit leaves room for fewer.
    asked: Option<usize>,
}

impl OpenFiles {
    /// Raises the limit, and lowers `connections_max` to what it leaves room for.
    pub fn get(settings: &mut Settings) -> OpenFiles {
        let asked = settings.connections_max;
        let spare = spare(settings.threads);
        let limit = raise_limit(asked, spare);
        if let Some(limit) = limit {
            settings.connections_max = connections_within(asked, limit, spare);
        }
        let lowered = settings.connections_max < asked;
        if lowered {
            tracing::warn!(
                connections_max = settings.connections_max,
                asked,
                open_files = limit,
                needed = asked as u64 + spare,
                "connections_max is lowered to what the limit of open files leaves: raise it (ulimit -n, LimitNOFILE=)"
            );
        }
        OpenFiles {
            limit,
            asked: lowered.then_some(asked),
        }
    }

    /// For the banner.
    pub fn describe(&self, settings: &Settings) -> String {
        let asked = self.asked.map(|asked| format!(" ({asked} asked for)"));
        let limit = self.limit.map(|limit| format!(", {limit} open files"));
        format!(
            "{} connections at most{}{}",
            settings.connections_max,
            asked.unwrap_or_default(),
            limit.unwrap_or_default()
        )
    }
}

/// Descriptors kept from clients, with so many event loops.
pub fn spare(threads: usize) -> u64 {
    SPARE_DESCRIPTORS + threads as u64 * LOOP_DESCRIPTORS
}

/// Raises the limit to what `connections` and `spare` others need, as far as it goes. Files that can be open
/// afterwards; None: the system does not tell.
fn raise_limit(connections: usize, spare: u64) -> Option<u64> {
    let wanted = connections as u64 + spare;
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    if soft >= wanted {
        return Some(soft);
    }
    // Root may raise the hard limit as well; others get what it allows.
    let raised = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard.max(wanted))
        .map(|()| wanted)
        .or_else(|_| {
            let most = wanted.min(hard);
            setrlimit(Resource::RLIMIT_NOFILE, most, hard).map(|()| most)
        })
        .unwrap_or(soft);
    Some(raised)
}

/// Connections there may be where so many files can be open.
fn connections_within(asked: usize, open_files: u64, spare: u64) -> usize {
    let most = open_files
        .saturating_sub(spare)
        .max(open_files / CLIENTS_SHARE)
        .max(1);
    asked.min(usize::try_from(most).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_the_spare_ones_alone() {
        assert_eq!(spare(4), 136);
        assert_eq!(connections_within(1024, 1160, 136), 1024);
        assert_eq!(connections_within(1024, 1000, 136), 864);
        assert_eq!(connections_within(1024, 150, 136), 37, "a quarter");
        assert_eq!(connections_within(1024, 2, 136), 1);
    }
}
