//! How large a key's value is: fixed, uniform or lognormal between two bounds. The size is a function of the
//! key (and, for resizing overwrites, of a version), so overwrites are of equal size unless asked otherwise,
//! and a reader knows what length to expect.

use super::random::{mix, to_unit};
use crate::units::{parse_bytes, show_bytes};
use serde::{Deserialize, Serialize};
use std::str::FromStr;

/// Value sizes in bytes, as given on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum ValueSize {
    Fixed(u32),
    Uniform {
        low: u32,
        high: u32,
    },
    /// Median at the geometric mean of the bounds, bounds at three standard deviations of the logarithm.
    Lognormal {
        low: u32,
        high: u32,
    },
}

/// The largest value the lab writes, bytes: the engine's own ceiling.
pub const VALUE_BYTES_MAX: u64 = 512 << 20;

impl ValueSize {
    /// The size of key `id`'s value; `version` 0 unless overwrites change the size.
    #[inline]
    pub fn of(&self, id: u64, version: u64) -> u32 {
        match *self {
            ValueSize::Fixed(bytes) => bytes,
            ValueSize::Uniform { low, high } => {
                let span = u64::from(high - low) + 1;
                low + ((u128::from(word(id, version)) * u128::from(span)) >> 64) as u32
            }
            ValueSize::Lognormal { low, high } => {
                let z = normal_quantile(within_three_sigma(to_unit(word(id, version))));
                let (log_low, log_high) = (f64::from(low).ln(), f64::from(high).ln());
                let size = ((log_low + log_high) / 2.0 + z * (log_high - log_low) / 6.0).exp();
                (size.round() as u32).clamp(low, high)
            }
        }
    }

    pub fn max(&self) -> u32 {
        match *self {
            ValueSize::Fixed(bytes) => bytes,
            ValueSize::Uniform { high, .. } | ValueSize::Lognormal { high, .. } => high,
        }
    }

    /// Mean bytes over keys, by sampling where there is no closed form.
    pub fn mean(&self) -> f64 {
        match *self {
            ValueSize::Fixed(bytes) => f64::from(bytes),
            ValueSize::Uniform { low, high } => (f64::from(low) + f64::from(high)) / 2.0,
            ValueSize::Lognormal { .. } => {
                let n = 100_000u64;
                (0..n).map(|id| f64::from(self.of(id, 0))).sum::<f64>() / n as f64
            }
        }
    }
}

#[inline]
fn word(id: u64, version: u64) -> u64 {
    mix(id.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ mix(version.wrapping_add(0x51_7e)))
}

/// Standard normal mass below -3.
const TAIL: f64 = 0.001_349_898_031_630_095;

#[inline]
fn within_three_sigma(u: f64) -> f64 {
    TAIL + u * (1.0 - 2.0 * TAIL)
}

/// Inverse of the normal distribution by Acklam's rational fit; relative error below 1.2e-9.
pub fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969683028665376e1,
        2.209460984245205e2,
        -2.759285104469687e2,
        1.383_577_518_672_69e2,
        -3.066479806614716e1,
        2.506628277459239,
    ];
    const B: [f64; 5] = [
        -5.447609879822406e1,
        1.615858368580409e2,
        -1.556989798598866e2,
        6.680131188771972e1,
        -1.328068155288572e1,
    ];
    const C: [f64; 6] = [
        -7.784894002430293e-3,
        -3.223964580411365e-1,
        -2.400758277161838,
        -2.549732539343734,
        4.374664141464968,
        2.938163982698783,
    ];
    const D: [f64; 4] = [
        7.784695709041462e-3,
        3.224671290700398e-1,
        2.445134137142996,
        3.754408661907416,
    ];
    let tail = |q: f64| {
        (((((C[0] * q + C[1]) * q + C[2]) * q + C[3]) * q + C[4]) * q + C[5])
            / ((((D[0] * q + D[1]) * q + D[2]) * q + D[3]) * q + 1.0)
    };
    if p < 0.02425 {
        tail((-2.0 * p.ln()).sqrt())
    } else if p > 1.0 - 0.02425 {
        -tail((-2.0 * (1.0 - p).ln()).sqrt())
    } else {
        let q = p - 0.5;
        let r = q * q;
        (((((A[0] * r + A[1]) * r + A[2]) * r + A[3]) * r + A[4]) * r + A[5]) * q
            / (((((B[0] * r + B[1]) * r + B[2]) * r + B[3]) * r + B[4]) * r + 1.0)
    }
}

impl FromStr for ValueSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (shape, range) = text.split_once(':').unwrap_or(("uniform", text));
        let Some((low, high)) = range.split_once("..") else {
            return Ok(ValueSize::Fixed(bounded(text)?));
        };
        let (low, high) = (bounded(low)?, bounded(high)?);
        if low == 0 || low > high {
            return Err(format!("`{text}`: the range runs from at least 1 B upward"));
        }
        match shape {
            "uniform" => Ok(ValueSize::Uniform { low, high }),
            "lognormal" => Ok(ValueSize::Lognormal { low, high }),
            _ => Err(format!(
                "`{text}`: write 1KiB, uniform:1KiB..64KiB or lognormal:64..64KiB"
            )),
        }
    }
}

fn bounded(text: &str) -> Result<u32, String> {
    let bytes = parse_bytes(text)?;
    if bytes > VALUE_BYTES_MAX {
        return Err(format!(
            "`{text}` is above the largest value, {}",
            show_bytes(VALUE_BYTES_MAX)
        ));
    }
    Ok(bytes as u32)
}

impl TryFrom<String> for ValueSize {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<ValueSize> for String {
    fn from(value: ValueSize) -> String {
        value.to_string()
    }
}

impl std::fmt::Display for ValueSize {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            ValueSize::Fixed(bytes) => write!(f, "{bytes}"),
            ValueSize::Uniform { low, high } => write!(f, "uniform:{low}..{high}"),
            ValueSize::Lognormal { low, high } => write!(f, "lognormal:{low}..{high}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_forms_are_read() {
        assert_eq!("100".parse(), Ok(ValueSize::Fixed(100)));
        assert_eq!(
            "1KiB..4KiB".parse(),
            Ok(ValueSize::Uniform {
                low: 1024,
                high: 4096
            })
        );
        assert_eq!(
            "lognormal:64..64KiB".parse(),
            Ok(ValueSize::Lognormal {
                low: 64,
                high: 65536
            })
        );
        for bad in ["", "x", "5..1", "0..9", "normal:1..2", "1GiB"] {
            assert!(bad.parse::<ValueSize>().is_err(), "{bad} passed");
        }
    }

    #[test]
    fn a_key_keeps_its_size_and_bounds_hold() {
        let sizes: ValueSize = "lognormal:64..64KiB".parse().unwrap();
        let mut all: Vec<u32> = (0..100_001).map(|id| sizes.of(id, 0)).collect();
        assert_eq!(sizes.of(5, 0), sizes.of(5, 0));
        assert!((0..100u64).any(|id| sizes.of(id, 0) != sizes.of(id, 1)));
        all.sort_unstable();
        assert!(all[0] >= 64 && all[100_000] <= 65536);
        // Median sqrt(64 * 65536) = 2048; one standard deviation up 2048 * 1024^(1/6) = 6502.
        assert!(
            (1980..2120).contains(&all[50_000]),
            "median {}",
            all[50_000]
        );
        assert!(
            (6200..6800).contains(&all[84_134]),
            "84th percentile {}",
            all[84_134]
        );
    }

    #[test]
    fn uniform_sizes_cover_the_range() {
        let sizes: ValueSize = "1..4".parse().unwrap();
        let mut seen = [0u32; 5];
        for id in 0..4000 {
            seen[sizes.of(id, 0) as usize] += 1;
        }
        assert_eq!(seen[0], 0);
        assert!(
            seen[1..].iter().all(|n| (880..1120).contains(n)),
            "{seen:?}"
        );
        assert_eq!(sizes.mean(), 2.5);
    }
}
