//! Looking before the end without fooling oneself: O'Brien and Fleming's bounds for equally spaced looks.
//! Each look asks for a nominal p so small that all looks together err at `alpha`; the first hardly ever stops.

use super::distribution::normal_cdf;
use super::interval::check_share;
use super::Undefined;
use serde::{Deserialize, Serialize};

/// More looks than this gain nothing.
pub const LOOKS_MAX: usize = 10;

/// One permitted look.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Runs per arm that must be in before it.
    pub runs: usize,
    /// |z| that stops.
    pub z: f64,
    /// The two-sided p that stops: compare the test's own p with this.
    pub p: f64,
}

/// The bounds for `looks` looks over `runs` runs per arm. Between three looks at alpha .05: .0005, .014, .045.
/// Refused when there are more looks than runs from the second on: a look at one run an arm sees no noise.
pub fn obrien_fleming(looks: usize, runs: usize, alpha: f64) -> Result<Vec<Look>, Undefined> {
    check_share(alpha)?;
    if looks == 0 || looks > LOOKS_MAX {
        return Err(Undefined::Setting {
            value: looks as f64,
        });
    }
    if runs < 2 * looks {
        return Err(Undefined::TooFew {
            needed: 2 * looks,
            got: runs,
        });
    }
    let last = last_bound(looks, alpha);
    Ok((1..=looks)
        .map(|look| {
            let z = last * (looks as f64 / look as f64).sqrt();
            Look {
                runs: (runs * look).div_ceil(looks),
                z,
                p: 2.0 * normal_cdf(-z),
            }
        })
        .collect())
}

/// The |z| of the last look at which the chance to cross any bound under no difference is `alpha`.
fn last_bound(looks: usize, alpha: f64) -> f64 {
    // 20 is past what f64 can call a p.
    let (mut low, mut high) = (0.0, 20.0);
    for _ in 0..50 {
        let middle = (low + high) / 2.0;
        if crossing(looks, middle) > alpha {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low + high) / 2.0
}

/// The chance that a sum of `looks` standard normal steps leaves +-bound, O'Brien and Fleming's bounds being level
/// on that scale: the density inside is carried from look to look by Simpson's rule.
fn crossing(looks: usize, last: f64) -> f64 {
    const NODES: usize = 201;
    let bound = last * (looks as f64).sqrt();
    let step = 2.0 * bound / (NODES - 1) as f64;
    let weight = |i: usize| match i {
        0 => step / 3.0,
        i if i == NODES - 1 => step / 3.0,
        i if i % 2 == 1 => 4.0 * step / 3.0,
        _ => 2.0 * step / 3.0,
    };
    let normal =
        |distance: f64| (-distance * distance / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    // Nodes are evenly spaced: the kernel depends on how far apart two of them are.
    let kernel: Vec<f64> = (0..NODES)
        .map(|apart| normal(apart as f64 * step))
        .collect();
    let mut density: Vec<f64> = (0..NODES)
        .map(|i| normal(i as f64 * step - bound))
        .collect();
    for _ in 1..looks {
        density = (0..NODES)
            .map(|to| {
                (0..NODES)
                    .map(|from| weight(from) * density[from] * kernel[from.abs_diff(to)])
                    .sum()
            })
            .collect();
    }
    1.0 - density
        .iter()
        .enumerate()
        .map(|(i, d)| weight(i) * d)
        .sum::<f64>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_looks_as_published() {
        let looks = obrien_fleming(3, 10, 0.05).unwrap();
        let z: Vec<String> = looks.iter().map(|l| format!("{:.3}", l.z)).collect();
        assert_eq!(z, ["3.471", "2.454", "2.004"]);
        let p: Vec<String> = looks.iter().map(|l| format!("{:.4}", l.p)).collect();
        assert_eq!(p, ["0.0005", "0.0141", "0.0451"]);
        assert_eq!(looks.iter().map(|l| l.runs).collect::<Vec<_>>(), [4, 7, 10]);
    }

    #[test]
    fn one_look_is_the_plain_test_and_five_are_as_published() {
        assert!((obrien_fleming(1, 2, 0.05).unwrap()[0].p - 0.05).abs() < 1e-6);
        let five = obrien_fleming(5, 20, 0.05).unwrap();
        assert_eq!(format!("{:.2}", five[4].z), "2.04");
        assert_eq!(format!("{:.2}", five[0].z), "4.56");
    }

    #[test]
    fn plans_without_runs_enough_are_refused() {
        assert!(obrien_fleming(0, 10, 0.05).is_err());
        assert!(obrien_fleming(11, 100, 0.05).is_err());
        assert!(obrien_fleming(3, 5, 0.05).is_err());
        assert!(obrien_fleming(3, 10, 0.0).is_err());
    }

    #[test]
    fn looking_three_times_errs_as_often_as_promised() {
        // 20,000 campaigns without a difference, seeded: the share that any look stops.
        let looks = obrien_fleming(3, 6, 0.05).unwrap();
        let mut state = 7u64;
        let mut unit = || {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            ((state >> 11) as f64 + 0.5) / (1u64 << 53) as f64
        };
        let mut normal = || {
            let (u, v) = (unit(), unit());
            (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
        };
        let stopped = (0..20_000)
            .filter(|_| {
                let mut sum = 0.0;
                let mut crossed = false;
                for (k, look) in looks.iter().enumerate() {
                    sum += normal();
                    crossed |= (sum / ((k + 1) as f64).sqrt()).abs() >= look.z;
                }
                crossed
            })
            .count();
        // Standard error of the share is 0.0015.
        assert!((850..1150).contains(&stopped), "{stopped} of 20000");
    }
}
