//! How large a key's item is: as the trace says, one for all, or drawn from a distribution by the key's number
//! for traces that record keys alone.

use crate::trace::Request;
use crate::workload::mix;

/// Where sizes come from.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Sizes {
    /// As recorded
    Real,
    /// Every item is one unit
    Unit,
    /// Lognormal around 300 B, sigma 1.2, cut at 16 B and 1 MiB
    Lognormal,
    /// From 128 B upward, half as many of twice the size, cut at 1 MiB
    #[value(alias = "pareto")]
    HeavyTail,
}

/// Largest item of the drawn sizes, bytes.
const DRAWN_MAX: u64 = 1 << 20;

impl Sizes {
    /// The name in target tables.
    pub fn name(self) -> &'static str {
        match self {
            Sizes::Real => "real",
            Sizes::Unit => "unit",
            Sizes::Lognormal => "lognormal",
            Sizes::HeavyTail => "pareto",
        }
    }

    /// Bytes of a request's item, key and header included.
    pub fn bytes(self, request: &Request) -> u64 {
        match self {
            Sizes::Real => request.item_bytes(),
            Sizes::Unit => 1,
            Sizes::Lognormal => lognormal(request.id),
            Sizes::HeavyTail => heavy_tail(request.id),
        }
    }
}

fn word(stream: u64, id: u64) -> u64 {
    mix(stream.wrapping_add(id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)))
}

fn lognormal(id: u64) -> u64 {
    let h = word(100, id);
    let u1 = ((h >> 40) as f64 + 0.5) / f64::from(1 << 24);
    let u2 = ((h & 0xff_ffff) as f64 + 0.5) / f64::from(1 << 24);
    let z = (-2.0 * u1.ln()).sqrt() * (2.0 * std::f64::consts::PI * u2).cos();
    ((300.0 * (1.2 * z).exp()).round() as u64).clamp(16, DRAWN_MAX)
}

fn heavy_tail(id: u64) -> u64 {
    let u = ((word(101, id) >> 32) as f64 + 1.0) / 2f64.powi(32);
    ((128.0 / u).floor() as u64).min(DRAWN_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_sizes_have_the_median_and_the_bounds_they_say() {
        for (sizes, median, least) in [(Sizes::Lognormal, 300, 16), (Sizes::HeavyTail, 256, 128)] {
            let bytes = |id| sizes.bytes(&Request::read(id, 7));
            let mut all: Vec<u64> = (0..100_001).map(bytes).collect();
            all.sort_unstable();
            let off = all[50_000] as f64 / f64::from(median) - 1.0;
            assert!(off.abs() < 0.02, "{sizes:?}: median {}", all[50_000]);
            assert!(all[0] >= least && all[100_000] <= DRAWN_MAX);
        }
        assert_eq!(Sizes::Real.bytes(&Request::read(5, 77)), 77);
        assert_eq!(Sizes::Unit.bytes(&Request::read(5, 77)), 1);
    }

    /// 1 % of the bytes of a recorded trace's 36,815 keys, as published with the policy's targets.
    #[test]
    fn drawn_sizes_are_the_published_ones() {
        let total: u64 = (0..36_815).map(lognormal).sum();
        assert_eq!(total / 100, 225_753);
    }
}
