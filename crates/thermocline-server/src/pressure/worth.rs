//! What memory is worth to the cache just now, by its own miss-ratio curve: how much of it goes for next to nothing,
//! and what a change of the budget costs. Pure; the curve is the engine's.

use thermocline::MissRatioCurve;

/// What may go for so many points of hit ratio is cheap.
pub const CHEAP_POINTS: f64 = 1.0;
/// A curve of fewer requests, or as far off as this, decides nothing.
const REQUESTS_MIN: u64 = 10_000;
const ERROR_MAX: f64 = 0.05;

/// A curve that is good enough to go by.
#[derive(Clone, Debug)]
pub struct Worth {
    curve: MissRatioCurve,
}

impl Worth {
    /// None: too few requests yet, or too uncertain.
    pub fn of(curve: MissRatioCurve) -> Option<Worth> {
        let settled = curve.requests >= REQUESTS_MIN && curve.error <= ERROR_MAX;
        settled.then_some(Worth { curve })
    }

    /// Bytes a budget of so many could do without for `CHEAP_POINTS`, as far as the curve reaches.
    pub fn spare_bytes(&self, budget: u64) -> u64 {
        // Of what was to be had when the curve was drawn, part may have gone since.
        let gone = self.curve.memory_bytes.saturating_sub(budget);
        self.curve
            .spare_bytes(CHEAP_POINTS)
            .saturating_sub(gone)
            .min(budget)
    }

    /// Points of hit ratio that the budget `to` has less than `from`; None where the curve does not reach.
    pub fn cost_points(&self, from: u64, to: u64) -> Option<f64> {
        let at = |bytes| self.curve.hit_ratio_at(bytes);
        Some((at(from)? - at(to)?) * 100.0)
    }

    /// The hit ratio of late, 0 to 1.
    pub fn hit_ratio(&self) -> f64 {
        self.curve.hit_ratio
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use thermocline::{CurvePoint, Estimate};

    const MIB: u64 = 1 << 20;

    /// A curve of 512 MiB with these hit ratios at a quarter, a half, all, and twice of it.
    pub fn curve(ratios: [f64; 4]) -> MissRatioCurve {
        let points = [0.25, 0.5, 1.0, 2.0].into_iter().zip(ratios);
        MissRatioCurve {
            memory_bytes: 512 * MIB,
            hit_ratio: ratios[2],
            hit_ratio_since_start: ratios[2],
            error: 0.01,
            requests: 1_000_000,
            sampling: 1.0,
            bytes: 0,
            points: points
                .map(|(factor, hit_ratio)| CurvePoint {
                    factor,
                    memory_bytes: (512.0 * MIB as f64 * factor) as u64,
                    hit_ratio,
                    hit_ratio_since_start: hit_ratio,
                    estimate: Estimate::Miniature,
                })
                .collect(),
        }
    }

    #[test]
    fn a_flat_curve_has_much_to_spare_and_a_steep_one_little() {
        let flat = Worth::of(curve([0.70, 0.795, 0.80, 0.80])).unwrap();
        let spare = flat.spare_bytes(512 * MIB);
        assert!(spare > 255 * MIB && spare < 300 * MIB, "{}", spare / MIB);
        assert_eq!(
            flat.spare_bytes(412 * MIB),
            spare - 100 * MIB,
            "100 went already"
        );
        let steep = Worth::of(curve([0.2, 0.4, 0.8, 0.9])).unwrap();
        assert!(steep.spare_bytes(512 * MIB) < 16 * MIB);
    }

    #[test]
    fn a_change_costs_what_lies_between_its_ends() {
        let worth = Worth::of(curve([0.2, 0.4, 0.8, 0.9])).unwrap();
        let cost = worth.cost_points(512 * MIB, 256 * MIB).unwrap();
        assert!((cost - 40.0).abs() < 1e-9);
        assert!((worth.cost_points(256 * MIB, 512 * MIB).unwrap() + 40.0).abs() < 1e-9);
        assert_eq!(worth.cost_points(512 * MIB, MIB), None, "beyond the curve");
    }

    #[test]
    fn what_is_not_settled_decides_nothing() {
        let young = MissRatioCurve {
            requests: 100,
            ..curve([0.1, 0.2, 0.3, 0.4])
        };
        let vague = MissRatioCurve {
            error: 0.2,
            ..curve([0.1, 0.2, 0.3, 0.4])
        };
        assert!(Worth::of(young).is_none() && Worth::of(vague).is_none());
    }
}
