//! A child process: one arm, one round. Memory and allocator state of one arm cannot colour the next, and
//! VmHWM is the arm's own.

use super::engine::Engine;
use super::null::Null;
use super::ours::Ours;
use super::rivals::{Foyer, Moka, QuickCache, Room, Segcache};
use super::spec::{Arm, Point, Spec};
use super::worker::{EngineThread, Tally};
use crate::machine::{
    huge_bytes, process_cpu_ns, resident_bytes, resident_peak_bytes, thread_cpu_ns,
};
use crate::workload::key_into;
use anyhow::{Context, Result};
use std::sync::Barrier;

/// Measures what the JSON `spec` says and prints the point as JSON.
pub fn run(spec: &str) -> Result<()> {
    let spec: Spec =
        serde_json::from_str(spec).context("the child's specification is not valid")?;
    println!("{}", serde_json::to_string(&measure(&spec)?)?);
    Ok(())
}

fn measure(spec: &Spec) -> Result<Point> {
    let before = resident_bytes(std::process::id()).unwrap_or(0);
    let item_bytes = spec.mix.key_bytes as f64 + spec.mix.sizes.mean();
    let room = Room {
        bytes: spec.memory_bytes,
        charge_per_item: spec.charge_per_item,
        items: ((spec.memory_bytes as f64 / item_bytes) as u64).clamp(1, spec.mix.keys),
        threads: spec.threads,
        value_bytes_max: spec.mix.sizes.max(),
        shards: None,
    };
    match spec.arm {
        Arm::Thermocline => point(&Ours::new(spec)?, spec, before),
        Arm::Moka => point(&Moka::new(room), spec, before),
        Arm::QuickCache => point(&QuickCache::new(room), spec, before),
        Arm::Foyer => point(&Foyer::new(room), spec, before),
        Arm::Segcache => point(&Segcache::new(room, spec.segcache_policy)?, spec, before),
        Arm::Null => point(&Null, spec, before),
    }
}

/// The part of `total` that falls to `index` of `count`: parts add up to the total exactly.
fn share(total: u64, index: usize, count: usize) -> u64 {
    total / count as u64 + u64::from((index as u64) < total % count as u64)
}

fn point<S: Engine>(engine: &S, spec: &Spec, resident_before_bytes: u64) -> Result<Point> {
    let barrier = Barrier::new(spec.threads + 1);
    let (mut process_ns, mut threads_ns) = (0, 0);
    let (mut all, mut before, mut rate) = (Tally::default(), Tally::default(), 0.0);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..spec.threads)
            .map(|index| {
                let barrier = &barrier;
                scope.spawn(move || {
                    let mut thread = EngineThread::new(engine, spec, index as u64);
                    let mut warm = Tally::default();
                    if spec.load_all {
                        let from = spec.mix.keys * index as u64 / spec.threads as u64;
                        let to = spec.mix.keys * (index as u64 + 1) / spec.threads as u64;
                        warm.merge(&thread.load(from..to));
                    }
                    warm.merge(&thread.run(share(spec.warm_ops, index, spec.threads)));
                    barrier.wait();
                    let cpu = thread_cpu_ns();
                    let tally = thread.run(share(spec.ops, index, spec.threads));
                    let cpu = thread_cpu_ns() - cpu;
                    barrier.wait();
                    (warm, tally, cpu)
                })
            })
            .collect();
        barrier.wait();
        let start = process_cpu_ns();
        barrier.wait();
        process_ns = process_cpu_ns() - start;
        for thread in threads {
            let (warm, tally, cpu) = thread.join().expect("a measured thread panicked");
            threads_ns += cpu;
            rate += tally.ops() as f64 / (tally.wall_ns.max(1) as f64 / 1e9);
            before.merge(&warm);
            all.merge(&tally);
        }
    });
    engine.settle();
    let pid = std::process::id();
    let resident = resident_bytes(pid).unwrap_or(0);
    let peak = resident_peak_bytes(pid).unwrap_or(0);
    let own = engine.own_figures();
    let (live_items, live_payload_bytes) = count_live(engine, spec);
    let ops = all.ops().max(1) as f64;
    let background_ns = process_ns.saturating_sub(threads_ns) as f64;
    let null = spec.arm == Arm::Null;
    Ok(Point {
        arm: spec.arm,
        round: spec.round,
        memory_bytes: spec.memory_bytes,
        threads: spec.threads,
        ops: all.ops(),
        reads: all.reads,
        hits: all.hits,
        writes: all.writes,
        fills: all.fills,
        refused: before.refused + all.refused,
        wrong: if null { 0 } else { before.wrong + all.wrong },
        ops_per_s: rate,
        cpu_ns_per_op: (all.cpu_ns as f64 + background_ns) / ops,
        background_ns_per_op: background_ns / ops,
        p50_ns: all.latency.value_at_quantile(0.5) as f64,
        p99_ns: all.latency.value_at_quantile(0.99) as f64,
        p999_ns: all.latency.value_at_quantile(0.999) as f64,
        live_items,
        live_payload_bytes,
        resident_before_bytes,
        resident_bytes: resident,
        resident_peak_bytes: peak,
        huge_bytes: huge_bytes(pid).unwrap_or(0),
        own,
    })
}

/// Asks for every key: exact for any engine, and after the run, so it disturbs nothing.
fn count_live<S: Engine>(engine: &S, spec: &Spec) -> (u64, u64) {
    let mut key = vec![0; spec.mix.key_bytes];
    let (mut items, mut bytes) = (0, 0);
    for id in 0..spec.mix.keys {
        key_into(id, &mut key);
        if engine.contains(&key) {
            items += 1;
            bytes += spec.mix.key_bytes as u64 + u64::from(spec.mix.sizes.of(id, 0));
        }
    }
    (items, bytes)
}

#[cfg(test)]
mod tests {
    use super::share;

    #[test]
    fn shares_add_up_exactly() {
        for (total, count) in [(1003, 3), (5, 8), (0, 2), (1 << 40, 7)] {
            let sum: u64 = (0..count).map(|index| share(total, index, count)).sum();
            assert_eq!(sum, total);
        }
    }
}
