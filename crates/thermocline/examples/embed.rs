//! A cache in fifteen lines: `cargo run --example embed`.

use std::time::Duration;
use thermocline::{Cache, Config, Expiry, SetOptions};

fn main() -> Result<(), thermocline::Error> {
    let cache = Cache::new(Config::new(64 << 20))?;
    cache.set(b"greeting", b"hello")?;
    let brief = SetOptions {
        expiry: Expiry::In(Duration::from_secs(60)),
        ..SetOptions::default()
    };
    cache.set_with(b"session:7", b"signed in", &brief)?;
    if let Some(value) = cache.get(b"greeting") {
        println!("greeting = {}", String::from_utf8_lossy(&value.as_slice()));
    }
    println!("{} items in {} bytes", cache.len(), cache.memory());
    Ok(())
}
