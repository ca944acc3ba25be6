//! The compressed tier through the front door: what is coded is an item like any other.

mod torture;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thermocline::{
    Cache, Clock, CompressMode, Config, Expiry, Guard, Meta, Mode, PressureListener, ReadSink,
    SetOptions, Stored, Want, Which,
};
use torture::{bytes_of, text_of};

const START_MS: u64 = 1_800_000_000_000;
const MEMORY: u64 = 16 << 20;
const VALUE_BYTES: usize = 600;

fn config(mode: CompressMode) -> Config {
    let mut config = Config::new(MEMORY);
    config.compress = mode;
    config.seed = Some(7);
    config.threads = 1;
    config
}

fn key(n: u64) -> Vec<u8> {
    format!("user:{n:010}").into_bytes()
}

/// Stores keys from `from` on until `count` are stored, each read once soon after so that it is kept.
fn fill(cache: &Cache, from: u64, count: u64, options: &SetOptions) {
    for n in from..from + count {
        let stored = cache.set_with(&key(n), &text_of(n, VALUE_BYTES), options);
        stored.expect("room can always be made");
    }
}

/// Keys whose items lie coded: they take less room than their values would.
fn coded_keys(cache: &Cache, below: u64) -> Vec<u64> {
    let is_coded = |n: &u64| {
        let meta = cache.peek(&key(*n), false);
        meta.is_some_and(|meta| meta.stored_bytes < meta.value_bytes)
    };
    (0..below).filter(is_coded).collect()
}

/// A cache that was filled three times over, and what of it is coded.
fn full(clock: &Clock, options: &SetOptions) -> (Cache, Vec<u64>) {
    let mut config = config(CompressMode::On);
    config.clock = clock.clone();
    config.marks = true;
    let cache = Cache::new(config).expect("a cache");
    let keys = 3 * MEMORY / VALUE_BYTES as u64;
    // Dictionaries are trained in the background; what goes by before the first is not coded.
    let until = Instant::now() + Duration::from_secs(30);
    while cache.tiers().trained == 0 && Instant::now() < until {
        fill(&cache, 0, keys, options);
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(cache.tiers().trained > 0, "no dictionary in 30 s");
    fill(&cache, keys, keys / 2, options);
    let coded = coded_keys(&cache, 2 * keys);
    assert!(coded.len() > 10_000, "{} items are coded", coded.len());
    (cache, coded)
}

#[test]
fn many_more_items_fit_and_all_read_back_whole() {
    let clock = Clock::manual(START_MS);
    let (cache, coded) = full(&clock, &SetOptions::default());
    nothing_went_down_before_the_first_dictionary(&cache);
    training_was_paid_for_and_given_back(&cache);
    let plain = Cache::new(config(CompressMode::Off)).expect("a cache");
    fill(
        &plain,
        0,
        6 * MEMORY / VALUE_BYTES as u64,
        &SetOptions::default(),
    );
    let (with, without) = (cache.len(), plain.len());
    // Twice as many where the background thread has time for the better search; here writers help it out.
    assert!(
        with * 2 > without * 3,
        "{with} items with, {without} without"
    );
    for &n in &coded {
        if let Some(value) = cache.get(&key(n)) {
            assert_eq!(value, text_of(n, VALUE_BYTES)[..], "key {n}");
        }
    }
    let tiers = cache.tiers();
    assert_eq!((tiers.decompress_fail, tiers.on), (0, true));
    assert!(tiers.coded_items > 0 && tiers.coded_bytes * 2 < tiers.plain_bytes);
    assert!(tiers.trained > 0 && tiers.promoted > 0, "{tiers:?}");
    assert_eq!(plain.tiers().demoted, 0);
}

/// However long its training takes: the clock stands still.
fn nothing_went_down_before_the_first_dictionary(cache: &Cache) {
    let tiers = cache.tiers();
    assert!(!tiers.held_back && tiers.trained > 0 && tiers.demoted > 0);
    let dictionaries = &tiers.dictionaries;
    let uncoded = dictionaries.iter().find(|it| it.id == 0);
    assert_eq!(uncoded.map(|it| it.items), Some(0), "{dictionaries:?}");
    assert!(
        tiers.coded >= tiers.demoted,
        "{} of {} demoted were coded",
        tiers.coded,
        tiers.demoted
    );
}

/// The budget knows of everything: samples, scratch and tables.
fn training_was_paid_for_and_given_back(cache: &Cache) {
    for _ in 0..50 {
        assert!(cache.stats().charged_bytes <= MEMORY, "{:?}", cache.stats());
        std::thread::sleep(Duration::from_millis(5));
    }
    let memory: u64 = cache
        .tiers()
        .dictionaries
        .iter()
        .map(|it| it.memory_bytes)
        .sum();
    assert!(memory < MEMORY / 40, "{memory} bytes of dictionaries");
}

#[derive(Default)]
struct Sink {
    buffer: Vec<u8>,
    got: Vec<Option<(Meta, Vec<u8>)>>,
    copy_max: usize,
}

impl ReadSink for Sink {
    fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }
    fn copy_max(&self) -> usize {
        self.copy_max
    }
    fn head(&mut self, _index: usize, _meta: &Meta) {
        self.buffer.clear();
    }
    fn tail(&mut self, _index: usize, meta: &Meta) {
        self.got.push(Some((*meta, self.buffer.clone())));
    }
    fn held(&mut self, _index: usize, guard: Guard) {
        self.got.push(Some((*guard.meta(), guard.to_vec())));
    }
    fn miss(&mut self, _index: usize) {
        self.got.push(None);
    }
}

#[test]
fn every_way_to_read_gives_the_same() {
    let options = SetOptions {
        flags: 0xABCD,
        expiry: Expiry::AtMs(START_MS + 3_600_000),
        ..SetOptions::default()
    };
    let (cache, coded) = full(&Clock::manual(START_MS), &options);
    for &n in coded.iter().take(200) {
        let (key, value) = (key(n), text_of(n, VALUE_BYTES));
        let guard = cache.get(&key).expect("it is there");
        assert_eq!(guard, value[..]);
        let meta = *guard.meta();
        assert_eq!((meta.value_bytes, meta.flags), (VALUE_BYTES, 0xABCD));
        assert_eq!(meta.expires_at_ms, Some(START_MS + 3_600_000));
        let mut into = b"before".to_vec();
        cache.get_into(&key, &mut into).expect("it is there");
        assert_eq!(into, [b"before", &value[..]].concat());
        let length = cache.get_with(&key, |meta, bytes| (meta.value_bytes, bytes.to_vec()));
        assert_eq!(length, Some((VALUE_BYTES, value.clone())));
        assert!(cache.contains(&key));
    }
    for copy_max in [0, 4000] {
        let keys: Vec<Vec<u8>> = coded.iter().take(100).map(|&n| key(n)).collect();
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut sink = Sink {
            copy_max,
            ..Sink::default()
        };
        cache.get_many(&slices, Want::default(), &mut sink);
        for (&n, got) in coded.iter().zip(&sink.got) {
            let (meta, value) = got.as_ref().expect("it is there");
            assert_eq!((meta.flags, meta.value_bytes), (0xABCD, VALUE_BYTES));
            assert_eq!(value, &text_of(n, VALUE_BYTES));
        }
    }
}

#[test]
fn every_way_to_change_starts_from_the_value() {
    let clock = Clock::manual(START_MS);
    let (cache, coded) = full(&clock, &SetOptions::default());
    let mut coded = coded.into_iter();
    let mut next = || coded.next().expect("many are coded");

    let n = next();
    assert!(cache.append(&key(n), b"-end").unwrap());
    assert!(cache.prepend(&key(n), b"start-").unwrap());
    let expected = [b"start-", &text_of(n, VALUE_BYTES)[..], b"-end"].concat();
    assert_eq!(cache.get(&key(n)).unwrap(), expected[..]);

    let n = next();
    let token = cache.peek(&key(n), true).unwrap().token.unwrap();
    assert_eq!(
        cache.compare_and_set(&key(n), b"new", token + 1).unwrap(),
        Stored::Exists
    );
    assert!(cache
        .compare_and_set(&key(n), b"new", token)
        .unwrap()
        .is_stored());
    assert_eq!(cache.get(&key(n)).unwrap(), b"new"[..]);

    let n = next();
    assert!(cache.touch(&key(n), Expiry::AtMs(START_MS + 5000)).unwrap());
    assert_eq!(cache.get(&key(n)).unwrap(), text_of(n, VALUE_BYTES)[..]);
    clock.advance_ms(6000);
    assert!(cache.get(&key(n)).is_none(), "its time is over");

    let n = next();
    assert!(cache.incr(&key(n), 1).is_err(), "text is no number");
    assert!(!cache.add(&key(n), b"other").unwrap());
    assert!(cache.replace(&key(n), b"other").unwrap());
    assert_eq!(cache.get(&key(n)).unwrap(), b"other"[..]);

    let n = next();
    assert!(cache.delete(&key(n)));
    assert!(cache.get(&key(n)).is_none() && !cache.delete(&key(n)));

    let n = next();
    let too_large = vec![0; cache.item_size_max() as usize + 1];
    let mode = SetOptions {
        mode: Mode::Set,
        ..SetOptions::default()
    };
    assert!(cache.set_with(&key(n), &too_large, &mode).is_err());
    assert!(
        cache.get(&key(n)).is_none(),
        "a refused set leaves no old value"
    );
}

#[test]
fn tokens_outlive_the_way_down_and_up() {
    let (cache, _) = full(&Clock::manual(START_MS), &SetOptions::default());
    let first = 10_000_000;
    fill(&cache, first, 3000, &SetOptions::default());
    let tokens: Vec<Option<u64>> = (first..first + 3000)
        .map(|n| cache.peek(&key(n), true).and_then(|meta| meta.token))
        .collect();
    // Several times what hot holds, far less than would push them out below.
    let more = MEMORY / 4 / VALUE_BYTES as u64;
    fill(&cache, first + 3000, more, &SetOptions::default());
    let mut seen = 0;
    for (n, token) in (first..).zip(tokens) {
        for _ in 0..20 {
            // Reads promote some of them.
            cache.get(&key(n));
        }
        if let Some(meta) = cache.peek(&key(n), true) {
            assert_eq!(meta.token, token, "key {n}");
            seen += 1;
        }
    }
    assert!(seen > 100, "{seen} of 3000 are still there");
}

#[test]
fn saved_and_loaded_it_is_all_there() {
    let (cache, coded) = full(&Clock::manual(START_MS), &SetOptions::default());
    let path = std::env::temp_dir().join(format!("thermocline-compressed-{}", std::process::id()));
    cache.save(&path, Which::All).expect("it can be saved");
    let other = Cache::new(config(CompressMode::On)).expect("a cache");
    other.load(&path).expect("it can be loaded");
    std::fs::remove_file(&path).expect("the file is ours");
    let mut there = 0;
    for &n in &coded {
        if let Some(value) = other.get(&key(n)) {
            assert_eq!(value, text_of(n, VALUE_BYTES)[..]);
            there += 1;
        }
    }
    // What is loaded before the other's first dictionary takes its whole room.
    assert!(there * 10 > coded.len() * 3, "{there} of {}", coded.len());
}

#[test]
fn what_does_not_compress_stays_as_it_is() {
    let cache = Cache::new(config(CompressMode::On)).expect("a cache");
    let keys = 3 * MEMORY / VALUE_BYTES as u64;
    for n in 0..keys {
        cache.set(&key(n), &bytes_of(n, VALUE_BYTES)).expect("room");
    }
    let tiers = cache.tiers();
    // It may go down uncoded or not at all: that is found out while the cache fills.
    assert!(tiers.coded_items * 100 < cache.len());
    assert!(tiers.reject_compress_poor > 0 && tiers.skipped > 10 * tiers.reject_compress_poor);
    let there = (0..keys).filter(|&n| {
        let value = cache.get(&key(n));
        value.is_some_and(|value| value == bytes_of(n, VALUE_BYTES)[..])
    });
    assert!(there.count() as u64 * VALUE_BYTES as u64 > MEMORY / 2);
}

/// Values too long for samples bring no dictionary: after two seconds of evicting, demotion begins without one.
#[test]
fn demotion_does_not_wait_for_ever() {
    let clock = Clock::manual(START_MS);
    let mut config = config(CompressMode::On);
    config.clock = clock.clone();
    let cache = Cache::new(config).expect("a cache");
    let bytes = 20 << 10;
    let keys = 2 * MEMORY / bytes as u64;
    let fill = |from: u64| {
        (from..from + keys).for_each(|n| cache.set(&key(n), &text_of(n, bytes)).expect("room"));
        cache.tiers()
    };
    let held_back = fill(0);
    assert!(held_back.held_back && held_back.demoted == 0 && cache.stats().evicted > 0);
    // Half a second of the clock at a time, until it is seen: who looks is a thread.
    let until = Instant::now() + Duration::from_secs(60);
    let (mut steps, mut demoted) = (0, 0);
    while demoted == 0 && Instant::now() < until {
        clock.advance_ms(500);
        steps += 1;
        std::thread::sleep(Duration::from_millis(20));
        demoted = fill(steps * keys).demoted;
    }
    let begun = cache.tiers();
    assert!(
        demoted > 0 && !begun.held_back && steps >= 4,
        "{steps}: {begun:?}"
    );
}

#[test]
fn while_everything_fits_nothing_is_demoted_and_nobody_is_warned() {
    let warned = Arc::new(AtomicU32::new(0));
    let counts = warned.clone();
    let mut config = config(CompressMode::Auto);
    config.pressure_listener = Some(PressureListener::new(move || {
        counts.fetch_add(1, Ordering::Relaxed);
    }));
    let cache = Cache::new(config).expect("a cache");
    let fits = MEMORY / 3 / VALUE_BYTES as u64;
    (0..5).for_each(|_| fill(&cache, 0, fits, &SetOptions::default()));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!((cache.tiers().demoted, cache.tiers().pressure), (0, 0));
    assert_eq!(warned.load(Ordering::Relaxed), 0);
    // Auto waits for somebody who misses something.
    cache
        .set_compress(CompressMode::On)
        .expect("nothing is kept");
    fill(&cache, fits, 4 * fits, &SetOptions::default());
    let until = Instant::now() + Duration::from_secs(10);
    while warned.load(Ordering::Relaxed) == 0 && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(
        warned.load(Ordering::Relaxed),
        1,
        "the first demotions warn once"
    );
    assert!(cache.tiers().pressure >= 1);
    assert_eq!(cache.tiers().warned, 1);
}

/// Misses so cheap that coding never pays: auto goes off, and what dictionaries took of the budget holds items. Switched on it
/// has them again.
#[test]
fn auto_that_is_off_for_its_price_gives_back_what_it_took() {
    let mut config = config(CompressMode::Auto);
    config.miss_cost = Some(Duration::from_micros(1));
    let cache = Cache::new(config).expect("a cache");
    let keys = 3 * MEMORY / VALUE_BYTES as u64;
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        fill(&cache, 0, keys, &SetOptions::default());
        (0..keys).for_each(|n| drop(cache.get(&key(n))));
        let tiers = cache.tiers();
        let has_one = tiers.dictionaries.len() > 1;
        // Trained and given back can both fall into one fill: counted, not looked for.
        if tiers.trained > 0 && !has_one && !tiers.on && tiers.coded_items == 0 {
            break;
        }
        assert!(Instant::now() < until, "{tiers:?}");
    }
    cache
        .set_compress(CompressMode::On)
        .expect("nothing is kept");
    while cache.tiers().coded_items == 0 || cache.tiers().dictionaries.len() < 2 {
        fill(&cache, 0, keys, &SetOptions::default());
        assert!(Instant::now() < until, "{:?}", cache.tiers());
    }
    for n in 0..keys {
        if let Some(value) = cache.get(&key(n)) {
            assert_eq!(value, text_of(n, VALUE_BYTES)[..]);
        }
    }
}

#[test]
fn the_budget_can_shrink_and_grow_under_it() {
    // The least such a cache can be set to is 18 MiB.
    let memory_now = 2 * MEMORY;
    let mut config = config(CompressMode::On);
    config.memory = memory_now;
    config.memory_max = Some(2 * memory_now);
    let cache = Cache::new(config).expect("a cache");
    let keys = 3 * MEMORY / VALUE_BYTES as u64;
    fill(&cache, 0, keys, &SetOptions::default());
    for memory in [memory_now * 2 / 3, 2 * memory_now, memory_now] {
        cache.set_memory(memory).expect("nothing is held");
        assert!(cache.stats().charged_bytes <= memory);
        fill(&cache, keys, keys, &SetOptions::default());
        for n in 0..2 * keys {
            if let Some(value) = cache.get(&key(n)) {
                assert_eq!(value, text_of(n, VALUE_BYTES)[..]);
            }
        }
    }
}

#[test]
fn compression_is_switched_while_the_cache_runs() {
    let cache = Cache::new(config(CompressMode::Off)).expect("a cache");
    let keys = 3 * MEMORY / VALUE_BYTES as u64;
    fill(&cache, 0, keys, &SetOptions::default());
    assert_eq!((cache.tiers().demoted, cache.tiers().on), (0, false));
    let without = cache.len();
    cache
        .set_compress(CompressMode::On)
        .expect("nothing is kept");
    let until = Instant::now() + Duration::from_secs(30);
    let mut from = keys;
    while (cache.tiers().trained == 0 || cache.len() < without * 5 / 4) && Instant::now() < until {
        fill(&cache, from, keys / 10, &SetOptions::default());
        from += keys / 10;
    }
    let tiers = cache.tiers();
    assert!(
        tiers.on && tiers.mode == CompressMode::On && tiers.coded_items > 10_000,
        "{tiers:?}"
    );
    assert!(
        cache.len() > without * 5 / 4,
        "{} after {without}",
        cache.len()
    );
    let kind = tiers.kinds.iter().find(|kind| kind.prefix == "user");
    assert!(
        kind.is_some_and(|kind| kind.ratio > 1.5),
        "{:?}",
        tiers.kinds
    );
    for &n in coded_keys(&cache, from).iter().take(1000) {
        let value = cache.get(&key(n)).expect("nobody writes");
        assert_eq!(value, text_of(n, VALUE_BYTES)[..]);
    }
    cache
        .set_compress(CompressMode::Off)
        .expect("off is always possible");
    let (demoted, coded) = (cache.tiers().demoted, cache.tiers().coded_items);
    // What is coded stays readable, and leaves first.
    for &n in coded_keys(&cache, from).iter().take(1000) {
        assert!(cache
            .get(&key(n))
            .is_some_and(|it| it == text_of(n, VALUE_BYTES)[..]));
    }
    // Not one is left for the dictionaries to be kept for: those that are read go up, open segments are closed.
    fill(&cache, from, keys, &SetOptions::default());
    let tiers = cache.tiers();
    assert_eq!((tiers.demoted, tiers.on), (demoted, false));
    assert_eq!(tiers.coded_items, 0, "of {coded}");
    assert_eq!(tiers.decompress_fail, 0);
}

#[test]
fn what_has_lain_compressed_for_long_can_be_trimmed() {
    let clock = Clock::manual(START_MS);
    let (cache, _) = full(&clock, &SetOptions::default());
    let before = cache.tiers();
    assert_eq!(
        cache
            .trim_compressed(Duration::from_secs(60), u64::MAX)
            .segments,
        0
    );
    clock.advance_ms(120_000);
    let most = before.compressed_used_bytes / 4;
    let some = cache.trim_compressed(Duration::from_secs(60), most);
    assert!(
        some.bytes >= most && some.bytes < 2 * most,
        "{some:?} of {most}"
    );
    assert!(cache.tiers().compressed_used_bytes < before.compressed_used_bytes * 4 / 5);
    let rest = cache.trim_compressed(Duration::from_secs(60), u64::MAX);
    assert!(rest.segments > 0);
    // Open segments are not drained: a few items may be left.
    assert!(cache.tiers().coded_items * 4 < before.coded_items);
    let young = 50_000_000;
    fill(
        &cache,
        young,
        2 * MEMORY / VALUE_BYTES as u64,
        &SetOptions::default(),
    );
    assert!(cache.tiers().coded_items > 1000, "it goes on compressing");
}
