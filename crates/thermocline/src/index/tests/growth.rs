//! Growing: bytes an item, lookups that stay exact, how often units are restructured and barriers raised.

use super::*;

/// Bytes an item over the last doubling: mean and worst, of what the size classes have.
pub(super) fn grow_to(index: &Index, items: u32) -> (f64, f64) {
    let (mut sum, mut points, mut worst) = (0.0, 0, 0.0f64);
    for key in 0..items {
        assert_eq!(put(index, key, place(key, 0)), Publish::Done);
        if key >= items / 2 && key % (items / 256) == 0 {
            let bytes = index.used_bytes() as f64 / index.items() as f64;
            (sum, points, worst) = (sum + bytes, points + 1, worst.max(bytes));
        }
    }
    (sum / points as f64, worst)
}

fn grows_with_exact_lookups(items: u32, memory: u64, worst_allowed: f64) {
    let index = index_for(memory);
    let (mean, worst) = grow_to(&index, items);
    println!(
        "{items} items: bytes an item in the last doubling: mean {mean:.2}, worst {worst:.2}; at the end {:.2} used, {:.2} charged",
        index.used_bytes() as f64 / items as f64,
        index.bytes() as f64 / items as f64
    );
    println!("{:?}", Counts::of(&index));
    assert_eq!(index.items(), items as u64);
    assert!(worst <= worst_allowed, "{worst} bytes an item");
    for key in 0..items {
        assert_eq!(get(&index, key), Some(place(key, 0)), "key {key}");
        assert_eq!(index.counter_of(hash(key), place(key, 0)), Some(0));
    }
    for key in items..2 * items {
        assert_eq!(get(&index, key), None);
    }
    assert_eq!(walk(&index).len(), items as usize);
    assert_eq!(index.open_holes(), 0, "one thread leaves no holes");
}

#[test]
fn grows_to_a_million_with_exact_lookups_and_few_bytes() {
    grows_with_exact_lookups(1_000_000, 300 << 20, 11.9);
}

#[test]
#[ignore = "10 M items: 10 s"]
fn grows_to_ten_million_in_ten_bytes_an_item() {
    grows_with_exact_lookups(10_000_000, 3 << 30, 10.0);
}

#[test]
fn an_insert_that_splits_a_unit_does_not_rebuild_the_half_it_goes_to() {
    let index = index_for(32 << 20);
    let stats = index.stats();
    let (mut done, mut twice) = (0, 0);
    for key in 0..400_000 {
        assert_eq!(put(&index, key, place(key, 0)), Publish::Done);
        let now = stats.rebuilds.load(Relaxed) + stats.splits.load(Relaxed);
        twice += u64::from(now > done + 1);
        done = now;
    }
    let splits = stats.splits.load(Relaxed);
    // Now and then nothing is free within reach of an item's home in a unit that was just rebuilt.
    println!("{twice} of {splits}");
    assert!(splits > 500 && twice * 50 <= splits);
    assert!((0..400_000).all(|key| get(&index, key) == Some(place(key, 0))));
}

/// Bytes an item over the last doubling as they are charged, mean and worst, with what the background thread does
/// done after every `late` inserts (never: `u32::MAX`); and how often inserts moved the epoch on.
fn charged_while_growing(items: u32, late: u32) -> (f64, f64, u64) {
    // The most a cache of 1.5 GiB may have.
    let index = index_for(3 << 30);
    let domain = index.domain();
    let (mut sum, mut points, mut worst, mut barriers) = (0.0, 0, 0.0f64, 0);
    for key in 0..items {
        let before = domain.epoch();
        {
            let _pin = Pin::new(domain);
            assert_eq!(put(&index, key, place(key, 0)), Publish::Done);
        }
        barriers += domain.epoch() - before;
        if key % late == late - 1 && index.is_untidy() {
            index.tidy();
            if index.wants_warm() {
                index.extents().warm_one();
            }
        }
        if key >= items / 2 && key % (items / 256) == 0 {
            let bytes = index.bytes() as f64 / index.items() as f64;
            (sum, points, worst) = (sum + bytes, points + 1, worst.max(bytes));
        }
    }
    (sum / points as f64, worst, barriers)
}

#[test]
#[ignore = "10 M items, three times: 30 s"]
fn charged_bytes_an_item_while_growing_to_ten_million() {
    for late in [1, 10_000, u32::MAX] {
        let grown = std::thread::spawn(move || charged_while_growing(10_000_000, late)).join();
        let (mean, worst, barriers) = grown.expect("grown");
        println!("tidied every {late} inserts: mean {mean:.2}, worst {worst:.2}, {barriers} barriers of inserts");
        assert!(mean <= 10.0 && worst <= 10.5, "{mean} {worst}");
    }
}

#[test]
#[ignore = "a count over the last doubling before 2 M items: 1 s"]
fn buckets_read() {
    let (index, items) = (index_for(300 << 20), 2_000_000);
    let (mut miss, mut home, mut looks) = (0, 0, 0);
    let (mut bytes, mut points) = (0.0, 0);
    for key in 0..items {
        assert_eq!(put(&index, key, place(key, 0)), Publish::Done);
        if key >= items / 2 && key % 50_000 == 0 {
            (bytes, points) = (bytes + index.used_bytes() as f64 / key as f64, points + 1);
            for n in 0..20_000 {
                miss += index.buckets_of_miss(hash(items + key + n));
                let hash = hash(n * 40);
                let found = index.find(hash, |place| key_of(place) == n * 40).unwrap();
                home += index.is_at_home(hash, &found) as usize;
                looks += 1;
            }
        }
    }
    let share = |count: usize| count as f64 / looks as f64;
    println!(
        "a miss reads {:.2} buckets, {:.3} of the items lie at home, {:.2} bytes an item",
        share(miss),
        share(home),
        bytes / points as f64
    );
}
