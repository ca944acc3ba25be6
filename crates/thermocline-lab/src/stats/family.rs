//! Many comparisons at once: p-values adjusted so that the whole family is wrong as rarely as one test.
//! A comparison that was planned and has no answer counts as p = 1: leaving it out would make the others look
//! better than they were planned to be.

/// Holm's step-down adjustment: the chance of any false claim in the family stays under the level.
pub fn holm(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let order = ascending(p);
    let mut adjusted = vec![None; p.len()];
    let mut floor = 0.0f64;
    for (place, &at) in order.iter().enumerate() {
        if let Some(value) = p[at] {
            floor = floor.max((value * (p.len() - place) as f64).min(1.0));
            adjusted[at] = Some(floor);
        }
    }
    adjusted
}

/// Benjamini and Hochberg's: of the claims made, the share that is false stays under the level. For exploration.
pub fn benjamini_hochberg(p: &[Option<f64>]) -> Vec<Option<f64>> {
    let order = ascending(p);
    let mut adjusted = vec![None; p.len()];
    let mut ceiling = 1.0f64;
    for (place, &at) in order.iter().enumerate().rev() {
        if let Some(value) = p[at] {
            ceiling = ceiling.min(value * p.len() as f64 / (place + 1) as f64);
            adjusted[at] = Some(ceiling);
        }
    }
    adjusted
}

/// The level of each interval so that all of a family of `comparisons` hold together at `level` (Bonferroni).
pub fn family_level(level: f64, comparisons: usize) -> f64 {
    1.0 - (1.0 - level) / comparisons.max(1) as f64
}

/// Places of p in rising order, those without an answer last.
fn ascending(p: &[Option<f64>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[a].unwrap_or(2.0).total_cmp(&p[b].unwrap_or(2.0)));
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    fn some(p: &[f64]) -> Vec<Option<f64>> {
        p.iter().copied().map(Some).collect()
    }

    #[test]
    fn holm_by_hand() {
        assert_eq!(
            holm(&some(&[0.01, 0.04, 0.03, 0.005])),
            some(&[0.03, 0.06, 0.06, 0.02])
        );
        assert_eq!(holm(&some(&[0.9, 0.8])), some(&[1.0, 1.0]));
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn bh_by_hand() {
        assert_eq!(
            benjamini_hochberg(&some(&[0.01, 0.04, 0.03, 0.005])),
            some(&[0.02, 0.04, 0.04, 0.02])
        );
    }

    #[test]
    fn a_planned_comparison_without_an_answer_still_counts() {
        assert_eq!(holm(&[Some(0.01), None]), [Some(0.02), None]);
        assert_eq!(benjamini_hochberg(&[Some(0.01), None]), [Some(0.02), None]);
    }

    #[test]
    fn the_level_of_a_family() {
        assert_eq!(family_level(0.95, 1), 0.95);
        assert!((family_level(0.95, 12) - 0.995_833_333).abs() < 1e-9);
        assert_eq!(family_level(0.95, 0), 0.95);
    }
}
