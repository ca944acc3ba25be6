//! The size of a difference in standard deviations.

use super::{Undefined, Welch};

/// Hedges' g of y over x: the difference by the pooled standard deviation, times 1 - 3 / (4 df - 1), which takes
/// away the bias of small samples.
pub fn hedges_g(welch: &Welch) -> Result<f64, Undefined> {
    let (x, y) = (&welch.x, &welch.y);
    let (nx, ny) = (x.n as f64, y.n as f64);
    let df = nx + ny - 2.0;
    let pooled = (((nx - 1.0) * x.spread()? + (ny - 1.0) * y.spread()?) / df).sqrt();
    if pooled < f64::MIN_POSITIVE {
        return Err(Undefined::NoVariance {
            difference: welch.change(),
        });
    }
    Ok(welch.change() / pooled * (1.0 - 3.0 / (4.0 * df - 1.0)))
}
