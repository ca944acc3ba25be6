//! Groups of keys: counted, dropped whole, protected up to a share. A model of random operations, and threads.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::RwLock;
use thermocline::{Cache, CompressMode, Config, Group, GroupStats};

fn config(memory: u64, groups: &[&str]) -> Config {
    let mut config = Config::new(memory);
    config.groups = groups.iter().map(|p| Group::new(p.as_bytes())).collect();
    config.threads = 1;
    config
}

fn of(cache: &Cache, prefix: &str) -> GroupStats {
    let all = cache.groups();
    let found = all.into_iter().find(|g| g.prefix == prefix.as_bytes());
    found.expect("configured")
}

/// xorshift
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

const PREFIXES: [&str; 3] = ["user:", "user:vip:", "page:"];

/// The longest configured prefix that fits.
fn group_of(key: &str) -> Option<&'static str> {
    let fits = PREFIXES
        .into_iter()
        .filter(|prefix| key.starts_with(prefix));
    fits.max_by_key(|prefix| prefix.len())
}

/// A hit must be what the model holds; a miss is right where the model has nothing, or after pressure.
fn model(seed: u64, memory: u64, compress: CompressMode, background: bool) {
    let mut config = config(memory, &PREFIXES);
    config.background = background;
    config.compress = compress;
    config.seed = Some(seed);
    let cache = Cache::new(config).unwrap();
    let mut random = Random(seed);
    let mut model: HashMap<String, Vec<u8>> = HashMap::new();
    let mut reads = HashMap::from(PREFIXES.map(|prefix| (prefix, (0u64, 0u64))));
    for step in 0..60_000u64 {
        let key = format!(
            "{}{}",
            ["user:", "user:vip:", "page:", "other:"][random.below(4) as usize],
            random.below(6000)
        );
        let size = [20, 200, 900, 900, 5000, 70_000]
            [random.below(if step % 50 == 0 { 6 } else { 4 }) as usize];
        let value = vec![b'a' + (step % 26) as u8; size + random.below(8) as usize];
        match random.below(1000) {
            0..=399 => {
                cache.set(key.as_bytes(), &value).unwrap();
                model.insert(key, value);
            }
            400..=429 => {
                let stored = cache.add(key.as_bytes(), &value).unwrap();
                if stored {
                    model.insert(key, value);
                } else {
                    assert!(
                        model.contains_key(&key),
                        "seed {seed}: add refused for {key}"
                    );
                }
            }
            430..=459 => {
                if cache.append(key.as_bytes(), b"tail").unwrap() {
                    let whole = model.get_mut(&key);
                    let whole = whole.unwrap_or_else(|| panic!("seed {seed}: {key} was gone"));
                    whole.extend_from_slice(b"tail");
                } else {
                    model.remove(&key);
                }
            }
            460..=489 => {
                let there = cache.delete(key.as_bytes());
                let known = model.remove(&key).is_some();
                assert!(
                    known || !there,
                    "seed {seed}: {key} was gone and is deleted"
                );
            }
            490..=492 => {
                let prefix = PREFIXES[random.below(3) as usize];
                assert!(cache.drop_group(prefix.as_bytes()));
                model.retain(|key, _| group_of(key) != Some(prefix));
                assert_eq!(of(&cache, prefix).bytes, 0, "seed {seed}");
            }
            493 => {
                cache.flush();
                model.clear();
            }
            494 => cache.sweep(),
            _ => {
                let found = cache.get(key.as_bytes()).map(|guard| guard.to_vec());
                if let Some(group) = group_of(&key) {
                    let counts = reads.get_mut(group).unwrap();
                    match found {
                        Some(_) => counts.0 += 1,
                        None => counts.1 += 1,
                    }
                }
                match (found, model.get(&key)) {
                    (Some(found), known) => assert_eq!(
                        Some(&found),
                        known,
                        "seed {seed}, step {step}: {key} came back"
                    ),
                    (None, Some(_)) => {
                        model.remove(&key);
                    }
                    (None, None) => {}
                }
            }
        }
    }
    for (prefix, (hits, misses)) in reads {
        let group = of(&cache, prefix);
        assert_eq!(
            (group.hits, group.misses),
            (hits, misses),
            "seed {seed}: {prefix}"
        );
    }
    // Every byte that was counted is uncounted when its record goes.
    for key in model.keys() {
        cache.delete(key.as_bytes());
    }
    for prefix in PREFIXES {
        assert_eq!(of(&cache, prefix).bytes, 0, "seed {seed}: {prefix}");
    }
}

#[test]
fn a_dropped_item_never_comes_back_and_a_stored_one_is_there() {
    let seeds = match std::env::var("SEED") {
        Ok(seed) => vec![seed.parse().expect("a number")],
        Err(_) => vec![11, 12, 13],
    };
    for seed in seeds {
        model(seed, 16 << 20, CompressMode::Off, false);
        model(seed, 64 << 20, CompressMode::Off, true);
        model(seed, 16 << 20, CompressMode::On, true);
    }
}

#[test]
fn a_drop_gives_the_memory_back_before_anything_live_goes() {
    let mut config = config(32 << 20, &["soon:"]);
    config.background = false;
    let cache = Cache::new(config).unwrap();
    let put = |name: &str, count: u32| {
        for n in 0..count {
            cache
                .set(format!("{name}:{n}").as_bytes(), &[7; 1000])
                .unwrap();
        }
    };
    for n in 0..100 {
        // Among each other, so that every segment holds both.
        put(&format!("live{n}"), 100);
        for m in 0..100 {
            cache
                .set(format!("soon:{}", n * 100 + m).as_bytes(), &[7; 1000])
                .unwrap();
        }
    }
    let group = of(&cache, "soon:");
    assert!(group.bytes > 10_000_000, "{group:?}");
    assert_eq!(cache.stats().evicted, 0);
    assert!(cache.drop_group(b"soon:") && !cache.drop_group(b"never"));
    let group = of(&cache, "soon:");
    assert_eq!((group.bytes, group.drops), (0, 1));
    put("new", 14_000);
    let stats = cache.stats();
    assert_eq!(stats.evicted, 0, "a live item went before a dropped one");
    assert!(stats.expired >= 2_000, "{}", stats.expired);
    for n in 0..100 {
        for m in 0..100 {
            assert!(cache.contains(format!("live{n}:{m}").as_bytes()));
        }
    }
    // Overwriting after the drop is a new item, in a segment the mark does not reach.
    cache.set(b"soon:5", &[8; 1000]).unwrap();
    assert_eq!(cache.get(b"soon:5").unwrap().to_vec(), [8; 1000]);
    cache.set(b"soon:5", &[9; 1000]).unwrap();
    cache.drop_group(b"soon:");
    assert!(
        cache.get(b"soon:5").is_none(),
        "in place or not, it was stored before"
    );
    assert_eq!(of(&cache, "soon:").drops, 2);
}

/// Values carry the number of drops that were over when they were written; no reader may ever see one from before a
/// drop that was over when the read began. Reclaim, compression and promotion move items all the while.
#[test]
fn no_thread_sees_what_was_dropped_before_it_looked() {
    for compress in [CompressMode::Off, CompressMode::On] {
        let mut config = config(16 << 20, &["a:", "b:"]);
        config.threads = 2;
        config.compress = compress;
        let cache = Cache::new(config).unwrap();
        // Writers note the number and store under the read side, so that a drop is before or after both.
        let (gate, drops, done) = (RwLock::new(()), AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..2u64 {
                let (cache, gate, drops, done) = (&cache, &gate, &drops, &done);
                scope.spawn(move || {
                    let mut random = Random(77 + thread);
                    while !done.load(Ordering::Relaxed) {
                        let group = ["a", "b"][random.below(2) as usize];
                        let key = format!("{group}:{}", random.below(20_000));
                        if random.below(2) == 0 {
                            let _before_or_after = gate.read().unwrap();
                            let number = drops.load(Ordering::SeqCst);
                            let mut value = vec![b'x'; 300 + random.below(900) as usize];
                            value[..8].copy_from_slice(&number.to_le_bytes());
                            // Refused for want of room: then the key is gone.
                            let _ = cache.set(key.as_bytes(), &value);
                        } else {
                            let over = drops.load(Ordering::SeqCst);
                            if let Some(value) = cache.get(key.as_bytes()) {
                                let number =
                                    u64::from_le_bytes(value.to_vec()[..8].try_into().unwrap());
                                assert!(
                                    group != "a" || number >= over,
                                    "{key} of {number} drops was read after {over}"
                                );
                            }
                        }
                    }
                });
            }
            for _ in 0..60 {
                std::thread::sleep(std::time::Duration::from_millis(10));
                let _alone = gate.write().unwrap();
                cache.drop_group(b"a:");
                drops.fetch_add(1, Ordering::SeqCst);
            }
            done.store(true, Ordering::Relaxed);
        });
        assert_eq!(of(&cache, "a:").drops, 60);
        assert!(of(&cache, "b:").hits > 0);
    }
}

#[test]
fn a_promised_share_survives_a_flood() {
    let mut config = config(32 << 20, &["kept:", "rest:"]);
    config.background = false;
    config.groups[0].share = 0.2;
    let cache = Cache::new(config).unwrap();
    for n in 0..4000 {
        cache
            .set(format!("kept:{n}").as_bytes(), &[7; 1000])
            .unwrap();
    }
    for n in 0..100_000 {
        cache
            .set(format!("rest:{n}").as_bytes(), &[7; 1000])
            .unwrap();
    }
    let there = |n: &i32| cache.contains(format!("kept:{n}").as_bytes());
    assert_eq!((0..4000).filter(there).count(), 4000);
    assert_eq!(of(&cache, "kept:").evicted, 0);
    assert_eq!(of(&cache, "rest:").evicted, cache.stats().evicted);
    // More than was promised may go.
    for n in 0..20_000 {
        cache
            .set(format!("kept:{n}").as_bytes(), &[7; 1000])
            .unwrap();
    }
    for n in 0..100_000 {
        cache
            .set(format!("rest:{n}").as_bytes(), &[8; 1000])
            .unwrap();
    }
    let kept = of(&cache, "kept:");
    assert!(kept.evicted > 0, "{kept:?}");
    assert!(kept.bytes > 5_000_000, "{kept:?}");
}

#[test]
fn what_was_dropped_or_flushed_is_no_hot_key() {
    let mut config = config(32 << 20, &["a:", "b:"]);
    config.hot_keys = true;
    let cache = Cache::new(config).expect("a cache");
    for key in ["a:1", "b:1"] {
        cache.set(key.as_bytes(), b"v").expect("room");
        (0..2_000).for_each(|_| assert!(cache.get(key.as_bytes()).is_some()));
    }
    let listed = || -> Vec<Vec<u8>> { cache.hot_keys(10).into_iter().map(|hot| hot.key).collect() };
    let mut both = listed();
    both.sort();
    assert_eq!(both, [b"a:1", b"b:1"]);
    assert!(cache.drop_group(b"a:"));
    assert_eq!(listed(), [b"b:1"]);
    cache.flush();
    assert!(listed().is_empty());
}

#[test]
fn what_cannot_be_a_group_is_refused_by_name() {
    let refused = |groups: Vec<Group>| {
        let mut config = Config::new(16 << 20);
        config.groups = groups;
        Cache::new(config).expect_err("must be refused").to_string()
    };
    assert!(refused(vec![Group::new("")]).contains("1 to 64 bytes"));
    assert!(refused(vec![Group::new("a".repeat(65))]).contains("1 to 64 bytes"));
    assert!(refused(vec![Group::new("a"), Group::new("a")]).contains("twice"));
    let promised = |prefix: &str, share: f64| Group {
        share,
        ..Group::new(prefix)
    };
    assert!(refused(vec![promised("a", 0.6)]).contains("share = 0.6"));
    assert!(refused(vec![promised("a", 0.3), promised("b", 0.3)]).contains("together"));
    assert!(Cache::new(Config::new(16 << 20))
        .unwrap()
        .groups()
        .is_empty());
}
