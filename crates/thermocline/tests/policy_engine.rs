//! The real engine under each policy, against the simulation of the same policy: the same requests, the same
//! bytes, one thread, no background. What differs is what real memory costs: open segments of several lanes,
//! two segments of reserve, the fresh floor, and a capacity that shrinks as the index grows.
#![cfg(feature = "simulate")]

use thermocline::simulate::{mixed, Simulation, SimulationConfig};
use thermocline::{Cache, Config, Expiry, Objective, PageMode, ReclaimPolicy};

const SEED: u64 = 7;
/// Bytes of a value; with key and header an item takes 1,024.
const VALUE_BYTES: usize = 1008;

fn config(policy: ReclaimPolicy) -> Config {
    let mut config = Config::new(32 << 20);
    config.page_mode = PageMode::Base;
    config.policy = policy;
    config.background = false;
    config.threads = 1;
    config.seed = Some(SEED);
    config.fresh_min = Some(0);
    config
}

/// Zipf over 60,000 keys with a scan of new keys in between: what a policy can do well or badly.
fn requests(count: u64) -> impl Iterator<Item = u64> {
    let keys = 60_000u64;
    let sums: Vec<f64> = (1..=keys)
        .scan(0.0, |sum, rank| {
            *sum += (rank as f64).powf(-0.9);
            Some(*sum)
        })
        .collect();
    let total = sums[keys as usize - 1];
    (0..count).map(move |i| {
        if i % 50_000 >= 40_000 {
            return keys + i;
        }
        let drawn = mixed(SEED, i) as f64 / u64::MAX as f64 * total;
        sums.partition_point(|sum| *sum <= drawn) as u64
    })
}

struct Run {
    miss_ratio: f64,
    capacity_bytes: u64,
    segment_bytes: u64,
    item_bytes: u64,
    copied: f64,
    live: f64,
}

fn engine(config: Config, count: u64) -> Run {
    let cache = Cache::new(config).expect("a cache");
    let value = vec![7u8; VALUE_BYTES];
    let mut buffer = Vec::new();
    let mut misses = 0u64;
    for key in requests(count) {
        let key = key.to_be_bytes();
        buffer.clear();
        if cache.get_into(&key, &mut buffer).is_none() {
            misses += 1;
            cache.set(&key, &value).expect("room is made");
        } else {
            assert_eq!(buffer, value);
        }
    }
    let stats = cache.stats();
    assert_eq!(stats.misses, misses);
    Run {
        miss_ratio: misses as f64 / count as f64,
        capacity_bytes: stats.segment_bytes_total,
        segment_bytes: stats.segment_bytes,
        item_bytes: stats.mean_item_bytes as u64,
        copied: stats.moved_bytes as f64 / stats.inserted_bytes as f64,
        live: stats.live_bytes as f64 / stats.segment_bytes_total as f64,
    }
}

fn simulated(policy: ReclaimPolicy, of: &Run, count: u64) -> f64 {
    let mut simulation = Simulation::new(SimulationConfig {
        policy,
        segment_bytes: of.segment_bytes,
        ..SimulationConfig::new(of.capacity_bytes)
    });
    for key in requests(count) {
        simulation.request(mixed(3, key), of.item_bytes);
    }
    simulation.counters().miss_ratio()
}

#[test]
fn the_engine_does_what_the_simulation_says() {
    for policy in ReclaimPolicy::ALL {
        let run = engine(config(policy), 600_000);
        let simulated = simulated(policy, &run, 600_000);
        println!(
            "{policy}: engine {:.4}, simulation {simulated:.4}, {} segments of {} bytes, items of {}, copied {:.2}, live {:.3}",
            run.miss_ratio,
            run.capacity_bytes / run.segment_bytes,
            run.segment_bytes,
            run.item_bytes,
            run.copied,
            run.live
        );
        let apart = (run.miss_ratio - simulated).abs();
        assert!(apart <= 0.012, "{policy}: {apart:.4} apart");
    }
}

#[test]
fn every_objective_runs_and_charges_what_it_keeps() {
    for objective in Objective::ALL {
        let mut config = config(ReclaimPolicy::GenDuel);
        config.objective = objective;
        let cache = Cache::new(config).expect("a cache");
        for key in requests(200_000) {
            let bytes = 16 + (mixed(5, key) % 3_000) as usize;
            let key = key.to_be_bytes();
            if cache.get(&key).is_none() {
                cache.set(&key, &vec![1; bytes]).expect("room is made");
            }
        }
        let stats = cache.stats();
        println!(
            "{objective}: {} bytes of shadows, {} of ghosts, setting {}, 1 key in {}",
            stats.shadow_bytes, stats.ghost_bytes, stats.policy_setting, stats.policy_sampling
        );
        assert!(stats.shadow_bytes > 0 && stats.ghost_bytes > 0);
        assert!(stats.charged_bytes <= stats.memory_bytes);
        assert!(stats.evicted > 0);
    }
}

/// What is set stays readable for the floor's bytes of later writes, under every policy and objective.
#[test]
fn what_was_stored_outlives_the_fresh_floor() {
    for objective in Objective::ALL {
        let mut config = config(ReclaimPolicy::GenDuel);
        config.objective = objective;
        config.fresh_min = None;
        let cache = Cache::new(config).expect("a cache");
        let value = vec![1u8; VALUE_BYTES];
        let floor_items = (32u64 << 20) / 50 / 1024;
        for i in 0..100_000u64 {
            // Now and then one sixteen times the mean.
            let large = vec![2u8; VALUE_BYTES * 16];
            let value = if i % 100 == 0 { &large } else { &value };
            cache.set(&i.to_be_bytes(), value).expect("room is made");
            if i >= floor_items {
                let old = i - floor_items / 2;
                assert!(
                    cache.contains(&old.to_be_bytes()),
                    "{objective}: {old} at {i}"
                );
            }
        }
    }
}

/// What is only ever touched, by `touch` or by get-and-touch, is in use: a stream of new keys does not evict it. (A
/// session store reads by nothing else.)
#[test]
fn what_is_touched_is_kept() {
    let hot = 500u32;
    for read in [false, true] {
        let cache = Cache::new(config(ReclaimPolicy::GenDuel)).expect("a cache");
        let value = vec![7u8; VALUE_BYTES];
        // Whole seconds over whole seconds: one word, the item stays where it is.
        let in_an_hour = Expiry::AtMs((cache.now_ms() / 1000 + 3600) * 1000);
        let key = |number: u32| [b'h', 0, 0, 0, number as u8, (number >> 8) as u8];
        // A full cache: what is new stands in probation, and leaves from there unless it is asked for.
        for i in 0..40_000u32 {
            cache.set(&i.to_be_bytes(), &value).expect("stored");
        }
        for number in 0..hot {
            cache.set(&key(number), &value).expect("stored");
            assert!(cache.touch(&key(number), in_an_hour).expect("room"));
        }
        for i in 40_000..100_000u32 {
            cache.set(&i.to_be_bytes(), &value).expect("stored");
            if i % 3 > 0 {
                continue;
            }
            let key = key(i / 3 % hot);
            match read {
                true => drop(cache.get_and_touch(&key, in_an_hour).expect("room")),
                false => drop(cache.touch(&key, in_an_hour).expect("room")),
            }
        }
        let kept = (0..hot)
            .filter(|&number| cache.contains(&key(number)))
            .count();
        assert!(kept as u32 > hot * 9 / 10, "{kept} of {hot} (read: {read})");
    }
}
