//! Latency histograms: one shape everywhere, and their text form in a points file.
//! HDR, 1 ns to 1,000 s at three digits; longer times are counted at the top.

use anyhow::{Context, Result};
use base64::prelude::{Engine as _, BASE64_STANDARD};
use hdrhistogram::serialization::{Deserializer, Serializer, V2Serializer};
use hdrhistogram::Histogram;

/// Longest time kept, ns.
pub const LATENCY_NS_MAX: u64 = 1_000_000_000_000;

/// An empty one: 240 KiB when its highest value is far up.
pub fn latency_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_NS_MAX, 3).expect("the bounds are in order")
}

/// HDR V2, base64: what `points.jsonl` holds.
pub fn to_text(histogram: &Histogram<u64>) -> Result<String> {
    let mut bytes = Vec::new();
    V2Serializer::new()
        .serialize(histogram, &mut bytes)
        .context("a histogram cannot be written")?;
    Ok(BASE64_STANDARD.encode(bytes))
}

/// The inverse of [`to_text`]. Never panics, whatever the text.
pub fn from_text(text: &str) -> Result<Histogram<u64>> {
    let bytes = BASE64_STANDARD
        .decode(text)
        .context("a histogram that is not base64")?;
    Deserializer::new()
        .deserialize(&mut bytes.as_slice())
        .map_err(|error| anyhow::anyhow!("a histogram that is not HDR V2: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::Random;

    #[test]
    fn text_brings_the_same_histogram_back() {
        let mut histogram = latency_histogram();
        let mut random = Random::new(7);
        for _ in 0..10_000 {
            let scale = random.below(45);
            histogram.saturating_record(1 + random.below(1 << scale));
        }
        let text = to_text(&histogram).unwrap();
        assert!(text.len() < 40_000, "{} bytes", text.len());
        assert_eq!(from_text(&text).unwrap(), histogram);
    }

    #[test]
    fn other_text_is_refused_and_never_panics() {
        let mut text = to_text(&latency_histogram()).unwrap();
        assert!(from_text("???").is_err());
        assert!(from_text("").is_err());
        text.truncate(text.len() / 2 / 4 * 4);
        assert!(from_text(&text).is_err());
        let mut random = Random::new(8);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..random.below(100))
                .map(|_| random.word() as u8)
                .collect();
            let _ = from_text(&BASE64_STANDARD.encode(bytes));
        }
    }
}
