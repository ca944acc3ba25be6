//! The curve against the cache it speaks of: the whole simulated at each size, the sample fed at one of them.

use super::*;
use crate::policy::simulation::{mixed, Simulation, SimulationConfig};
use crate::policy::{Objective, ReclaimPolicy};

const POLICY: ReclaimPolicy = ReclaimPolicy::GenDuel;

/// A curve beside a simulated cache of `capacity` items, after `keys` were asked for.
fn curve_of(keys: impl Iterator<Item = u64>, capacity: u64) -> (Curve, Requests, u64) {
    let settings = POLICY.settings(Objective::Balanced);
    let mut cache = Simulation::new(SimulationConfig::new(capacity));
    let curve = Curve::new(POLICY, Objective::Balanced, 5);
    let (mut requests, mut bytes_most) = (Requests::default(), 0);
    for key in keys {
        let hash = mixed(3, key);
        match cache.request(hash, 1) {
            true => requests.hits += 1,
            false => requests.inserts += 1,
        }
        if !curve.samples(hash) {
            continue;
        }
        let now = Now {
            conditions: Conditions {
                setting: &settings[cache.setting()],
                mean: 1.0,
                share_min: 0.0,
            },
            capacity_bytes: capacity / 100 * 98,
        };
        curve.access(Access::Request, hash, 1, &now);
        curve.tidy(|| requests);
        if requests.hits.is_multiple_of(1000) {
            bytes_most = bytes_most.max(lock(&curve.sampler).bytes());
        }
    }
    (curve, requests, bytes_most)
}

fn truth(keys: impl Iterator<Item = u64>, capacity: u64) -> f64 {
    let mut cache = Simulation::new(SimulationConfig::new(capacity));
    keys.for_each(|key| {
        cache.request(mixed(3, key), 1);
    });
    1.0 - cache.counters().miss_ratio()
}

/// Popularity falls with the rank, as in recorded traces: u^3 makes a few keys hot.
fn skewed(requests: u64, keys: u64) -> impl Iterator<Item = u64> + Clone {
    (0..requests).map(move |i| {
        let u = (mixed(9, i) >> 11) as f64 / (1u64 << 53) as f64;
        (u.powi(3) * keys as f64) as u64
    })
}

#[test]
fn hit_ratios_at_other_sizes_are_those_of_caches_of_those_sizes() {
    let (keys, capacity) = (skewed(600_000, 60_000), 3000);
    let (curve, requests, _) = curve_of(keys.clone(), capacity);
    let report = curve.report(capacity, requests);
    assert!(
        report.sampling > 1.0,
        "60,000 keys are too many to sample all"
    );
    let mut sum = 0.0;
    for point in &report.points {
        let there = truth(keys.clone(), point.memory_bytes);
        let off = (point.hit_ratio_since_start - there).abs() * 100.0;
        println!(
            "{}x: {:.4} for {there:.4}, off by {off:.2} points",
            point.factor, point.hit_ratio_since_start
        );
        let most = if point.estimate == Estimate::Miniature {
            1.5
        } else {
            8.0
        };
        assert!(off < most, "{}x is off by {off:.2} points", point.factor);
        sum += if point.estimate == Estimate::Miniature {
            off
        } else {
            0.0
        };
    }
    assert!(
        sum / FACTORS.len() as f64 <= 0.55,
        "mean {}",
        sum / FACTORS.len() as f64
    );
    assert!(report.error < 0.03, "{}", report.error);
}

#[test]
fn a_loop_shows_the_cliff_that_an_lru_curve_misplaces() {
    // 4,000 keys round and round, room for 2,000: twice the memory holds all, LRU would hit nothing before.
    let keys = (0..200_000u64).map(|i| i % 4000);
    let (curve, requests, _) = curve_of(keys.clone(), 2000);
    let report = curve.report(2000, requests);
    let ratio = |factor: f64| {
        let point = report.points.iter().find(|point| point.factor == factor);
        point.map_or(0.0, |point| point.hit_ratio_since_start)
    };
    assert!(
        (ratio(0.5) - truth(keys.clone(), 1000)).abs() < 0.02,
        "{}",
        ratio(0.5)
    );
    assert!(
        (ratio(4.0) - truth(keys, 8000)).abs() < 0.03,
        "{}",
        ratio(4.0)
    );
}

#[test]
fn memory_is_bounded_however_many_keys_come() {
    let (curve, requests, most) = curve_of((0..400_000).map(|i| mixed(4, i) % 200_000), 150_000);
    let report = curve.report(1, requests);
    assert!(most <= BYTES_MAX + (8 << 10), "{most} bytes");
    assert!(report.bytes <= BYTES_MAX + (8 << 10) && report.sampling >= 16.0);
}

#[test]
fn the_recent_curve_follows_a_change_and_the_other_remembers() {
    let first = (0..1_100_000u64).map(|i| i % 500);
    let then = (0..3_300_000u64).map(|i| (1 << 20) + i);
    let (curve, requests, _) = curve_of(first.chain(then), 1000);
    let report = curve.report(1000, requests);
    assert!((report.hit_ratio_since_start - 0.25).abs() < 0.01);
    assert!(report.hit_ratio < 0.15, "{}", report.hit_ratio);
    let as_it_is = report
        .points
        .iter()
        .find(|point| point.factor == 1.0)
        .unwrap();
    assert!((as_it_is.hit_ratio - report.hit_ratio).abs() < 0.03);
}

#[test]
fn overwrites_are_no_requests_and_forgotten_keys_are_gone() {
    let curve = Curve::new(POLICY, Objective::Balanced, 1);
    let settings = POLICY.settings(Objective::Balanced);
    let now = Now {
        conditions: Conditions {
            setting: &settings[0],
            mean: 1.0,
            share_min: 0.0,
        },
        capacity_bytes: 100,
    };
    for key in 0..50u64 {
        curve.access(Access::Overwrite, key, 1, &now);
    }
    let requests = Requests {
        hits: 40,
        inserts: 10,
    };
    let report = curve.report(100, requests);
    let large = report.points.last().unwrap();
    assert_eq!((large.factor, report.hit_ratio_since_start), (16.0, 0.8));
    for key in 0..50u64 {
        curve.access(Access::Request, key, 1, &now);
        curve.forget(key);
        curve.access(Access::Request, key, 1, &now);
    }
    // Each key was found once and missed once, after it was forgotten, by every size.
    let sampler = lock(&curve.sampler);
    assert!(sampler.miniatures[1..]
        .iter()
        .all(|m| m.missed.total == 50.0));
}

#[test]
fn before_the_first_request_there_is_nothing_to_say() {
    let report = Curve::new(POLICY, Objective::Balanced, 1).report(1 << 20, Requests::default());
    assert_eq!(
        (report.requests, report.hit_ratio, report.error),
        (0, 0.0, 1.0)
    );
    assert!(report
        .points
        .windows(2)
        .all(|pair| pair[0].memory_bytes <= pair[1].memory_bytes));
}

fn told(points: &[(f64, f64)]) -> MissRatioCurve {
    let point = |&(factor, hit_ratio): &(f64, f64)| CurvePoint {
        factor,
        memory_bytes: (factor * 1e9) as u64,
        hit_ratio,
        hit_ratio_since_start: hit_ratio,
        estimate: Estimate::Miniature,
    };
    MissRatioCurve {
        memory_bytes: 1_000_000_000,
        hit_ratio: 0.6,
        hit_ratio_since_start: 0.6,
        error: 0.0,
        requests: 1,
        sampling: 1.0,
        bytes: 0,
        points: points.iter().map(point).collect(),
    }
}

#[test]
fn ratios_between_sizes_and_spare_memory_are_read_off_the_line() {
    let curve = told(&[(0.25, 0.3), (0.5, 0.5), (1.0, 0.6), (2.0, 0.8)]);
    assert_eq!(curve.hit_ratio_at(1_000_000_000), Some(0.6));
    let middle = curve.hit_ratio_at(1_414_213_562).unwrap();
    assert!(
        (middle - 0.7).abs() < 1e-6,
        "half an octave is half of the way: {middle}"
    );
    assert_eq!(curve.hit_ratio_at(1), None);
    assert_eq!(curve.hit_ratio_at(3_000_000_000), None);
    // One point of the ten between a half and the whole: a tenth of an octave.
    let spare = curve.spare_bytes(1.0) as f64;
    assert!(
        (spare / 1e9 - (1.0 - 0.5f64.powf(0.1))).abs() < 2e-3,
        "{spare}"
    );
    assert_eq!(
        told(&[(0.25, 0.6), (1.0, 0.6)]).spare_bytes(1.0),
        750_000_000
    );
    assert_eq!(told(&[]).spare_bytes(1.0), 0);
}

/// The whole cache asked thirty times for three values of `bytes` each, stored when they miss. How its curve and requests
/// come out.
fn asked_for_three(config: crate::Config, bytes: usize) -> MissRatioCurve {
    let cache = crate::Cache::new(config).expect("a cache");
    let value = vec![1; bytes];
    for _ in 0..30 {
        for key in [b"a", b"b", b"c"] {
            assert!(cache.get(key).is_none());
            assert!(cache.set(key, &value).is_err());
        }
    }
    cache.miss_ratio_curve().expect("it keeps a curve")
}

fn hit_ratios(curve: &MissRatioCurve) -> Vec<f64> {
    let near = |point: &&CurvePoint| point.estimate == Estimate::Miniature;
    let near = curve.points.iter().filter(near);
    near.map(|point| point.hit_ratio_since_start).collect()
}

#[test]
fn what_is_over_the_limit_is_known_of_larger_caches() {
    let mut config = crate::Config::new(64 << 20);
    config.background = false;
    let curve = asked_for_three(config.clone(), 9 << 20);
    assert_eq!(curve.requests, 90, "eight megabytes are the limit");
    assert_eq!(curve.hit_ratio_since_start, 0.0);
    assert_eq!(
        hit_ratios(&curve),
        [0.0, 0.0, 0.0, 87.0 / 90.0, 87.0 / 90.0]
    );
    // Twice the memory does not take 17 MiB, four times does.
    let curve = asked_for_three(config.clone(), 17 << 20);
    assert_eq!(hit_ratios(&curve), [0.0, 0.0, 0.0, 0.0, 87.0 / 90.0]);
    // A limit that was asked for stays what it is.
    config.item_size_max = Some(1 << 20);
    let curve = asked_for_three(config, 2 << 20);
    assert_eq!((curve.requests, hit_ratios(&curve)), (90, vec![0.0; 5]));
}
