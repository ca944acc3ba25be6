//! Values made on a miss, once however many ask; served stale while one caller refreshes:
//! `cargo run --example loader`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use thermocline::{Cache, Config, Expiry, LoadError, LoadOptions};

/// Stands for a slow database.
fn query(calls: &AtomicU32) -> Result<Vec<u8>, String> {
    thread::sleep(Duration::from_millis(100));
    Ok(format!("answer {}", calls.fetch_add(1, Ordering::Relaxed) + 1).into_bytes())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::new(Config::new(64 << 20))?;
    let calls = AtomicU32::new(0);
    let options = LoadOptions {
        expiry: Expiry::In(Duration::from_millis(300)),
        grace: Duration::from_secs(60),
        ..LoadOptions::default()
    };
    let ask = || cache.get_or_load(b"question", &options, || query(&calls));
    let ask_four_times = |when: &str| {
        thread::scope(|scope| {
            for asker in 0..4 {
                scope.spawn(move || match ask() {
                    Ok(value) => println!(
                        "{when}, asker {asker}: {} ({:?})",
                        String::from_utf8_lossy(&value.as_slice()),
                        value.origin()
                    ),
                    Err(error) => println!("{when}, asker {asker}: {error}"),
                });
            }
        });
    };
    ask_four_times("first");
    assert_eq!(calls.load(Ordering::Relaxed), 1, "one load for four askers");
    thread::sleep(Duration::from_millis(400));
    ask_four_times("stale");
    assert_eq!(calls.load(Ordering::Relaxed), 2, "one of four refreshed");

    let failed = cache.get_or_load(b"other", &options, || Err("the database is down"));
    assert!(matches!(failed, Err(LoadError::Failed(_))));
    assert!(!cache.contains(b"other"), "failures are not stored");
    Ok(())
}
