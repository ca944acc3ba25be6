//! Was the measured part one steady state? A straight line through its windows: pure arithmetic.

/// A trend over the windows of one run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Change from the first window to the last by the fitted line, percent of the mean.
    pub percent: f64,
    /// The slope over its standard error; windows of one run are correlated, so this is a hint, not a test.
    pub t: f64,
}

/// Below so many windows no trend is told from noise.
pub const WINDOWS_MIN: usize = 5;

/// The trend of equally spaced `windows`; `None` with too few of them, or a mean of zero.
pub fn drift(windows: &[f64]) -> Option<Drift> {
    let n = windows.len() as f64;
    let mean = windows.iter().sum::<f64>() / n;
    if windows.len() < WINDOWS_MIN || mean == 0.0 || !mean.is_finite() {
        return None;
    }
    let middle = (n - 1.0) / 2.0;
    let (mut sxx, mut sxy) = (0.0, 0.0);
    for (index, value) in windows.iter().enumerate() {
        let x = index as f64 - middle;
        sxx += x * x;
        sxy += x * (value - mean);
    }
    let slope = sxy / sxx;
    let residual: f64 = windows
        .iter()
        .enumerate()
        .map(|(index, value)| (value - mean - slope * (index as f64 - middle)).powi(2))
        .sum();
    let error = (residual / (n - 2.0) / sxx).sqrt();
    let t = if error > 0.0 {
        slope / error
    } else if slope == 0.0 {
        0.0
    } else {
        f64::INFINITY.copysign(slope)
    };
    Some(Drift {
        percent: 100.0 * slope * (n - 1.0) / mean,
        t,
    })
}

impl Drift {
    /// Worth a warning: more than 5 % over the run, and more than the windows' scatter explains.
    pub fn is_marked(&self) -> bool {
        self.percent.abs() > 5.0 && self.t.abs() > 3.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    #[test]
    fn a_line_is_found_and_noise_is_not() {
        let rising: Vec<f64> = (0..20).map(|i| 100.0 + f64::from(i)).collect();
        let found = drift(&rising).unwrap();
        assert!((found.percent - 1900.0 / 109.5).abs() < 1e-9, "{found:?}");
        assert!(found.is_marked());
        let mut random = Random::new(1);
        let noise: Vec<f64> = (0..60).map(|_| 100.0 + 10.0 * random.unit()).collect();
        assert!(!drift(&noise).unwrap().is_marked());
    }

    #[test]
    fn odd_cases_have_answers() {
        assert_eq!(drift(&[1.0; 4]), None);
        assert_eq!(drift(&[0.0; 9]), None);
        assert_eq!(
            drift(&[7.0; 9]).unwrap(),
            Drift {
                percent: 0.0,
                t: 0.0
            }
        );
        assert_eq!(drift(&[f64::NAN; 9]), None);
    }
}
