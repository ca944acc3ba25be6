//! The end of a server whose memory is a file: the next one may have it.

use crate::config::{PageMode, Settings};
use crate::shared::Shared;
use std::sync::Arc;
use std::time::Duration;
use thermocline::Start;

/// Threads that are just ending may hold the cache for a moment.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// Whether the memory outlives the process.
pub fn is_kept(settings: &Settings) -> bool {
    settings.page_mode == PageMode::Shmem && settings.memory_dir.is_some()
}

/// Keeps the cache's memory for the next process, if it is a file. All event loops have ended.
pub fn keep(mut shared: Arc<Shared>) {
    if !is_kept(&shared.settings) {
        return;
    }
    for _ in 0..TRIES {
        match Arc::try_unwrap(shared) {
            Ok(alone) => {
                return match alone.into_cache().keep() {
                    Ok(kept) => {
                        tracing::info!(items = kept.items, "memory kept for the next start")
                    }
                    Err(error) => {
                        tracing::warn!(%error, "memory is not kept: the next start is cold")
                    }
                };
            }
            Err(used) => shared = used,
        }
        std::thread::sleep(PAUSE);
    }
    tracing::warn!("memory is not kept: the cache is still in use; the next start is cold");
}

/// How the cache came to its contents, for banner and statistics. None: without a memory file there is nothing to tell.
pub fn describe(start: &Start, settings: &Settings) -> Option<String> {
    match start {
        Start::ColdBecause(why) => Some(format!("cold: the memory file is of no use: {why}")),
        Start::Warm { items, ms } => Some(format!("warm: {items} items taken over in {ms} ms")),
        _ if settings.memory_dir.is_some() => Some("cold: the memory file is new".into()),
        _ => None,
    }
}
