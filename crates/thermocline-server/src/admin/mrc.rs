//! `/mrc`: the live miss-ratio curve as JSON.

use crate::shared::Shared;
use serde_json::{json, Value};
use thermocline::{Estimate, MissRatioCurve};

/// Points of hit ratio for which the page says what memory could be given back.
const SPARE_POINTS: f64 = 1.0;

/// None where the cache keeps no curve.
pub fn page(shared: &Shared) -> Option<Value> {
    let stats = shared.cache.stats();
    let reads = stats.hits + stats.misses;
    let reads_hit = (reads > 0).then(|| stats.hits as f64 / reads as f64);
    let curve = shared.cache.miss_ratio_curve()?;
    Some(object(&curve, reads_hit))
}

/// Ratios are null before there was a request. `reads_hit_ratio` is that of all reads since the start, which is another
/// one where values are stored before anybody asks, or misses stay unfilled.
fn object(curve: &MissRatioCurve, reads_hit_ratio: Option<f64>) -> Value {
    let asked = |ratio: f64| (curve.requests > 0).then_some(ratio);
    let points: Vec<Value> = curve
        .points
        .iter()
        .map(|point| {
            json!({
                "factor": point.factor,
                "memory_bytes": point.memory_bytes,
                "hit_ratio": asked(point.hit_ratio),
                "miss_ratio": asked(1.0 - point.hit_ratio),
                "hit_ratio_since_start": asked(point.hit_ratio_since_start),
                "estimate": match point.estimate {
                    Estimate::Miniature => "miniature",
                    Estimate::Lru => "lru",
                },
            })
        })
        .collect();
    json!({
        "memory_bytes": curve.memory_bytes,
        "hit_ratio": asked(curve.hit_ratio),
        "hit_ratio_since_start": asked(curve.hit_ratio_since_start),
        "reads_hit_ratio": reads_hit_ratio,
        "error": asked(curve.error),
        "requests": curve.requests,
        "one_key_in": curve.sampling,
        "curve_bytes": curve.bytes,
        "spare_bytes_for_one_point": curve.spare_bytes(SPARE_POINTS),
        "points": points,
    })
}
