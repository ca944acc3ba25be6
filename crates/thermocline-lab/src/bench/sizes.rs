//! Throughput per byte over value sizes: the cliff that heap allocators show above 64 KiB must not be here.

use super::row::{one, Bound, Rows};
use crate::machine::{thread_cpu_ns, Machine};
use crate::report::Report;
use crate::units::{parse_bytes, show_bytes};
use crate::workload::{key_into, stamp, Random};
use anyhow::{Context, Result};
use clap::Args;
use thermocline::{Cache, Config};

/// Throughput per byte over value sizes 1 KiB to 4 MiB
#[derive(Args, Clone, Debug)]
pub struct SizesOptions {
    /// Bytes of values kept at each size
    #[arg(long, value_parser = parse_bytes, default_value = "512MiB")]
    pub footprint: u64,
    /// Bytes read and bytes written at each size
    #[arg(long, value_parser = parse_bytes, default_value = "2GiB")]
    pub moved: u64,
    #[arg(long, value_parser = parse_bytes, default_value = "1KiB")]
    pub from: u64,
    #[arg(long, value_parser = parse_bytes, default_value = "4MiB")]
    pub to: u64,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// One size: GB (10^9 bytes) a second of CPU.
#[derive(serde::Serialize)]
struct Size {
    value_bytes: u64,
    read_gb_per_s: f64,
    write_gb_per_s: f64,
    both_gb_per_s: f64,
    /// Writes refused, values with the wrong bytes, reads of keys evicted though all fit twice.
    refused: u64,
    wrong: u64,
    missed: u64,
}

pub fn run(options: &SizesOptions) -> Result<Report> {
    let machine = Machine::read();
    let mut sizes = Vec::new();
    let mut value_bytes = options.from.max(8);
    while value_bytes <= options.to {
        sizes.push(measure(options, value_bytes)?);
        value_bytes *= 2;
    }
    let rates: Vec<f64> = sizes.iter().map(|size| size.both_gb_per_s).collect();
    let mut rows = Rows::default();
    rows.add(
        "worst size's bytes a second over its best neighbour's",
        worst_to_best_neighbour(&rates).and_then(one),
        2,
        Bound::AtLeast(0.5),
        Bound::Free,
    );
    for size in &sizes {
        rows.show(
            format!(
                "{}, half read half written, GB/s of CPU (read {:.2}, write {:.2}; {} refused, {} evicted)",
                show_bytes(size.value_bytes),
                size.read_gb_per_s,
                size.write_gb_per_s,
                size.refused,
                size.missed
            ),
            one(size.both_gb_per_s),
            2,
        );
    }
    rows.show(
        "plain copy between buffers of this footprint, GB/s",
        one(copy_gb_per_s(options)),
        2,
    );
    let mut report = Report::new(
        "throughput per byte over value sizes",
        machine,
        rows.into_table(),
    );
    report.notes.push(format!(
        "{} of values at each size, uniform; writes overwrite at equal size, reads copy into the caller's buffer; two passes of writes before",
        show_bytes(options.footprint)
    ));
    report.failures = sizes.iter().map(|size| size.refused + size.wrong).sum();
    report.points = serde_json::to_value(&sizes).unwrap_or_default();
    Ok(report)
}

fn measure(options: &SizesOptions, value_bytes: u64) -> Result<Size> {
    let mut config = Config::new(options.footprint * 2);
    config.item_size_max = Some(value_bytes.max(1 << 20));
    let cache = Cache::new(config).context("cannot make the cache")?;
    let keys = (options.footprint / value_bytes).max(1);
    let mut value = vec![0u8; value_bytes as usize];
    let mut random = Random::new(value_bytes);
    let (mut refused, mut wrong, mut missed) = (0, 0, 0);
    let mut write = |id: u64, refused: &mut u64| {
        let mut key = [0u8; 16];
        key_into(id, &mut key);
        value[..8].copy_from_slice(&stamp(id));
        *refused += u64::from(cache.set(&key, &value).is_err());
    };
    // The first pass touches memory the machine may have to supply, the second is ordinary.
    for id in (0..keys).chain(0..keys) {
        write(id, &mut refused);
    }
    let ops = (options.moved / value_bytes).max(1);
    let before = thread_cpu_ns();
    for _ in 0..ops {
        write(random.below(keys), &mut refused);
    }
    let write_ns = (thread_cpu_ns() - before) as f64;
    let mut buffer = Vec::with_capacity(value_bytes as usize);
    let before = thread_cpu_ns();
    for _ in 0..ops {
        let id = random.below(keys);
        let mut key = [0u8; 16];
        key_into(id, &mut key);
        buffer.clear();
        match cache.get_into(&key, &mut buffer) {
            Some(_) => wrong += u64::from(buffer[..8] != stamp(id)),
            None => missed += 1,
        }
    }
    let read_ns = (thread_cpu_ns() - before) as f64;
    // What a missed read did not move is not counted as moved.
    let bytes = (ops * value_bytes) as f64;
    let read_bytes = ((ops - missed) * value_bytes) as f64;
    Ok(Size {
        value_bytes,
        read_gb_per_s: read_bytes / read_ns,
        write_gb_per_s: bytes / write_ns,
        both_gb_per_s: (bytes + read_bytes) / (read_ns + write_ns),
        refused,
        wrong,
        missed,
    })
}

/// The smallest ratio of a size's rate to the better of its neighbours'.
fn worst_to_best_neighbour(rates: &[f64]) -> Option<f64> {
    (0..rates.len())
        .filter_map(|i| {
            let before = i.checked_sub(1).and_then(|i| rates.get(i));
            let best = before
                .into_iter()
                .chain(rates.get(i + 1))
                .copied()
                .reduce(f64::max)?;
            Some(rates[i] / best)
        })
        .reduce(f64::min)
}

fn copy_gb_per_s(options: &SizesOptions) -> f64 {
    let from = vec![1u8; options.footprint as usize];
    let mut to = vec![0u8; options.footprint as usize];
    to.copy_from_slice(&from);
    let before = thread_cpu_ns();
    to.copy_from_slice(std::hint::black_box(&from));
    std::hint::black_box(&to);
    options.footprint as f64 / (thread_cpu_ns() - before) as f64
}

#[cfg(test)]
mod tests {
    use super::worst_to_best_neighbour;

    #[test]
    fn a_cliff_is_found_on_either_side() {
        assert_eq!(worst_to_best_neighbour(&[3.0, 4.0, 4.0]), Some(0.75));
        assert_eq!(worst_to_best_neighbour(&[4.0, 4.0, 1.0, 2.0]), Some(0.25));
        assert_eq!(worst_to_best_neighbour(&[1.0]), None);
    }
}
