//! Log lines through `tracing`: text or JSON, to standard error, with a level that `verbosity` can move.

use crate::config::{LogFormat, Settings};
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::OnceLock;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::Layer;

static LEVEL: OnceLock<reload::Handle<LevelFilter, Registry>> = OnceLock::new();
static VERBOSITY: AtomicU8 = AtomicU8::new(0);

/// Installs the subscriber. A program that embeds the server and has its own is left with its own.
pub fn init(settings: &Settings) {
    let (filter, handle) = reload::Layer::new(LevelFilter::from_level(settings.log_level));
    let writer = std::io::stderr;
    let layer = match settings.log_format {
        LogFormat::Text => tracing_subscriber::fmt::layer()
            .with_writer(writer)
            .with_target(false)
            .with_ansi(false)
            .boxed(),
        LogFormat::Json => tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(writer)
            .with_ansi(false)
            .boxed(),
    };
    let installed = tracing_subscriber::registry()
        .with(filter)
        .with(layer)
        .try_init()
        .is_ok();
    if installed {
        // Only the first subscriber is ever installed, so the place is free.
        let _first = LEVEL.set(handle);
    }
}

/// memcached's verbosity: 0 warnings, 1 events, 2 and more everything.
pub fn set_verbosity(level: u64) {
    VERBOSITY.store(level.min(255) as u8, Relaxed);
    let filter = match level {
        0 => LevelFilter::WARN,
        1 => LevelFilter::INFO,
        2 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    if let Some(handle) = LEVEL.get() {
        if let Err(error) = handle.modify(|current| *current = filter) {
            tracing::warn!(%error, "the log level could not be changed");
        }
    }
}

pub fn verbosity() -> u8 {
    VERBOSITY.load(Relaxed)
}
