//! `/mrc`: the live miss-ratio curve as JSON.

use crate::shared::Shared;
use serde_json::{json, Value};
use thermocline::{Estimate, MissRatioCurve};

/// Points of hit ratio for which the page says what memory could be given back.
const SPARE_POINTS: f64 = 1.0;

/// None where the cache keeps no curve.
pub fn page(shared: &Shared) -> Option<Value> {
    shared.cache.miss_ratio_curve().as_ref().map(object)
}

fn object(curve: &MissRatioCurve) -> Value {
    let points: Vec<Value> = curve
        .points
        .iter()
        .map(|point| {
            json!({
                "factor": point.factor,
                "memory_bytes": point.memory_bytes,
                "hit_ratio": point.hit_ratio,
                "miss_ratio": 1.0 - point.hit_ratio,
                "hit_ratio_since_start": point.hit_ratio_since_start,
                "estimate": match point.estimate {
                    Estimate::Miniature => "miniature",
                    Estimate::Lru => "lru",
                },
            })
        })
        .collect();
    json!({
        "memory_bytes": curve.memory_bytes,
        "hit_ratio": curve.hit_ratio,
        "hit_ratio_since_start": curve.hit_ratio_since_start,
        "error": curve.error,
        "requests": curve.requests,
        "one_key_in": curve.sampling,
        "curve_bytes": curve.bytes,
        "spare_bytes_for_one_point": curve.spare_bytes(SPARE_POINTS),
        "points": points,
    })
}
