//! Values in chunks, in the compressed tier: each chunk coded alone, and every way to read and change them the same.

mod torture;

use thermocline::{Cache, CompressMode, Config, SetOptions, Which};
use torture::text_of;

const MEMORY: u64 = 32 << 20;
/// Over a quarter of a segment of this cache.
const VALUE_BYTES: usize = 300_000;
const KEYS: u64 = 400;

fn cache(mode: CompressMode) -> Cache {
    let mut config = Config::new(MEMORY);
    (config.compress, config.threads, config.seed) = (mode, 1, Some(7));
    Cache::new(config).expect("a cache")
}

fn key(n: u64) -> Vec<u8> {
    format!("page:{n:06}").into_bytes()
}

/// Small values first, so that there is a dictionary, then large ones over and over.
fn filled(mode: CompressMode) -> Cache {
    let cache = trained(mode);
    for n in 0..KEYS {
        cache.set(&key(n), &text_of(n, VALUE_BYTES)).expect("room");
    }
    cache
}

fn trained(mode: CompressMode) -> Cache {
    let cache = cache(mode);
    for n in 0..2 * MEMORY / 600 {
        let _ = cache.set(format!("user:{n}").as_bytes(), &text_of(n, 600));
    }
    let until = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while mode == CompressMode::On
        && cache.tiers().trained == 0
        && std::time::Instant::now() < until
    {
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    cache
}

fn there(cache: &Cache) -> Vec<u64> {
    (0..KEYS).filter(|&n| cache.contains(&key(n))).collect()
}

#[test]
fn large_values_are_coded_chunk_by_chunk() {
    let (on, off) = (filled(CompressMode::On), filled(CompressMode::Off));
    let (with, without) = (there(&on), there(&off));
    assert!(
        with.len() * 2 > without.len() * 3,
        "{} with, {} without",
        with.len(),
        without.len()
    );
    // The oldest lie compressed.
    let mut oldest = with.iter().copied();
    let mut next = || oldest.next().expect("many are there");
    let decoded = on.tiers().decoded;
    for _ in 0..8 {
        let n = next();
        let (key, value) = (key(n), text_of(n, VALUE_BYTES));
        let guard = on.get(&key).expect("it is there");
        assert!(guard.pieces() > 1 && guard == value[..], "key {n}");
        assert_eq!(guard.meta().value_bytes, VALUE_BYTES);
        let mut into = b"before".to_vec();
        on.get_into(&key, &mut into).expect("it is there");
        assert!(into[..6] == *b"before" && into[6..] == value);
        let mut part = Vec::new();
        on.get_part(&key, 70_000..200_001, &mut part)
            .expect("it is there");
        assert!(part == value[70_000..200_001]);
    }
    assert!(on.tiers().decoded > decoded, "none of them was coded");

    let n = next();
    assert!(on.append(&key(n), b"-end").unwrap());
    let expected = [&text_of(n, VALUE_BYTES)[..], b"-end"].concat();
    assert!(on.get(&key(n)).unwrap() == expected[..]);
    let n = next();
    let token = on.peek(&key(n), true).unwrap().token.unwrap();
    let stored = on.compare_and_set(&key(n), b"new", token).unwrap();
    assert!(stored.is_stored() && on.get(&key(n)).unwrap() == b"new"[..]);
    let n = next();
    assert!(on.incr(&key(n), 1).is_err() && on.delete(&key(n)));
    assert!(on.get(&key(n)).is_none());
    let n = next();
    let other = text_of(n + KEYS, VALUE_BYTES);
    on.set_with(&key(n), &other, &SetOptions::default())
        .unwrap();
    assert!(on.get(&key(n)).unwrap() == other[..]);

    let path = std::env::temp_dir().join(format!("thermocline-large-{}", std::process::id()));
    on.save(&path, Which::All).expect("it can be saved");
    let again = cache(CompressMode::Off);
    again.load(&path).expect("it can be loaded");
    std::fs::remove_file(&path).expect("the file is ours");
    let loaded = there(&again);
    assert!(loaded.len() > 20, "{} loaded", loaded.len());
    for n in loaded {
        let (there, here) = (again.get(&key(n)), on.get(&key(n)));
        assert!(here.is_none_or(|here| there.is_some_and(|it| it == *here.as_slice())));
    }
    assert_eq!(on.tiers().decompress_fail, 0);
    // Chunks are booked with the dictionaries they need, and off when they are buried.
    for n in 0..KEYS {
        on.delete(&key(n));
    }
    for n in 0..2 * MEMORY / 600 {
        on.delete(format!("user:{n}").as_bytes());
    }
    let dictionaries = on.tiers().dictionaries;
    let items: u64 = dictionaries.iter().map(|it| it.items).sum();
    let bytes: u64 = dictionaries.iter().map(|it| it.coded_bytes).sum();
    assert_eq!((items, bytes), (0, 0), "{dictionaries:?}");
}

/// A value of an eighth of the cache, read in order: one chunk of it is on the heap at a time, whoever waits in between.
#[test]
fn a_reader_has_one_decoded_chunk_at_a_time() {
    const LONG_BYTES: usize = 4_000_000;
    let cache = trained(CompressMode::On);
    let value = text_of(1, LONG_BYTES);
    let mut guard = None;
    for n in 0..40 * MEMORY / 600 {
        if n % 1000 == 0 {
            guard = cache.get(b"long").filter(|guard| guard.is_coded());
            if guard.is_some() {
                break;
            }
            if !cache.contains(b"long") {
                cache.set(b"long", &value).expect("room");
            }
        }
        let _ = cache.set(format!("user:{n}").as_bytes(), &text_of(n, 600));
    }
    let mut guard = guard.expect("it lies compressed in the end");
    let (chunks, decoded) = (guard.pieces() as u64, cache.tiers().decoded);
    assert!(chunks > 12, "{chunks} chunks");
    assert_eq!(guard.heap_bytes(), 0, "nothing is decoded beforehand");
    let (mut at, mut most) = (0, 0);
    while at < LONG_BYTES {
        assert!(guard.make_ready(at));
        most = most.max(guard.heap_bytes());
        let piece = guard.ready_from(at).next().expect("it was made ready");
        assert!(*piece == value[at..at + piece.len()], "from {at}");
        // What was taken in part is lent on without being decoded again.
        at += piece.len().min(50_000);
    }
    assert!(most <= LONG_BYTES / 12, "{most} bytes at once");
    assert!(cache.tiers().decoded - decoded <= chunks, "each once");
    assert!(guard.to_vec() == value && guard == value[..]);
    let (mut whole, mut part) = (b"before".to_vec(), Vec::new());
    cache.get_into(b"long", &mut whole).expect("it is there");
    assert!(whole[6..] == value);
    let decoded = cache.tiers().decoded;
    let middle = LONG_BYTES / 2..LONG_BYTES / 2 + 10;
    cache
        .get_part(b"long", middle.clone(), &mut part)
        .expect("it is there");
    assert!(part == value[middle]);
    assert!(
        cache.tiers().decoded - decoded <= 2,
        "no more than it takes"
    );
    // It goes on, whatever becomes of the item.
    cache.delete(b"long");
    for n in 0..4 * MEMORY / 600 {
        let _ = cache.set(format!("user:{n}").as_bytes(), &text_of(n + 1, 600));
    }
    assert!(guard.chunks().flat_map(|it| it.into_owned()).eq(value));
    assert_eq!(cache.tiers().decompress_fail, 0);
}
