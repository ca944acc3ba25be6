//! Values of another schema under the same keys. In a process of its own and without a thread: how many values go by until
//! they are coded well depends on nobody's speed and nobody's pins.

use thermocline::{Cache, Clock, CompressMode, Config};

const MEMORY: u64 = 16 << 20;
const OLD: [&str; 4] = [
    "firstNameOfCustomer",
    "lastNameOfCustomer",
    "streetAndNumber",
    "dateOfBirth",
];
const NEW: [&str; 4] = [
    "article_identifier",
    "warehouse_location",
    "unit_price_euro",
    "last_delivery",
];

fn cache() -> Cache {
    let mut config = Config::new(MEMORY);
    config.compress = CompressMode::On;
    config.background = false;
    config.threads = 1;
    config.seed = Some(7);
    config.clock = Clock::manual(1_800_000_000_000);
    Cache::new(config).expect("a cache")
}

fn record(n: u64, names: [&str; 4]) -> Vec<u8> {
    let word = |salt: u64| {
        let words = [
            "amber", "birch", "cedar", "delta", "ember", "fjord", "glade", "heath",
        ];
        words[((n + salt).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as usize % 8]
    };
    let field = |name: &str| format!("\"{name}\":\"{} {}\"", word(name.len() as u64), n * 7919);
    format!("{{{}}}", names.map(field).join(",")).into_bytes()
}

fn write(cache: &Cache, names: [&str; 4], keys: std::ops::Range<u64>) {
    for n in keys {
        let key = format!("user:{n:010}");
        let stored = cache.set(key.as_bytes(), &record(n, names));
        stored.expect("room can always be made");
    }
}

/// Plain over coded bytes of what was coded lately.
fn ratio(cache: &Cache) -> f64 {
    let kinds = cache.tiers().kinds;
    let kind = kinds.iter().find(|kind| kind.prefix == "user");
    kind.map_or(0.0, |kind| kind.ratio)
}

/// Its own dictionary is trained, and by the time as many values have gone by as the cache holds, they are coded as well
/// as by a cache that never saw the old schema.
#[test]
fn a_changed_schema_is_learned_within_a_turnover() {
    const BEFORE: u64 = 120_000;
    const STEP: u64 = 2_000;
    let (fresh, changed) = (cache(), cache());
    write(&fresh, NEW, 0..BEFORE);
    write(&changed, OLD, 0..BEFORE);
    let own = ratio(&fresh);
    let (mut from, end) = (BEFORE, BEFORE + changed.len());
    let mut lowest = f64::MAX;
    while from < end {
        write(&changed, NEW, from..from + STEP);
        from += STEP;
        lowest = lowest.min(ratio(&changed));
    }
    let after = ratio(&changed);
    assert!(
        lowest < own * 0.9,
        "{lowest:.2} with the old dictionary, {own:.2} with its own"
    );
    assert!(
        after > own * 0.95,
        "{after:.2} after a turnover, {own:.2} with its own"
    );
}
