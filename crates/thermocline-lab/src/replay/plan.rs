//! What the asked-for capacity is for an engine: how many segments of how many bytes, and how many bytes of a
//! segment an item takes.
//!
//! Policies are compared at "a cache of so many items", or of a fraction of a trace's bytes, cut into 128 (or
//! 256) segments; engines own megabytes. So item and segment sizes are scaled together: the ratio between item,
//! segment and cache is as asked, and stays exact. Metadata is outside that capacity; `--memory` is the other
//! way: one number for everything, as a user gives it.
//!
//! ```text
//! unit items   segment holds floor(N / 128) items, all of the footprint that makes it so; N / that segments
//! bytes        segment = power of two >= C / 128; every item scaled by segment x 128 / C (>= 1)
//! memory       nothing scaled, segments as the engine chooses
//! ```

use super::options::{Capacity, FreshFloor, ReplayOptions};
use super::Sizes;
use crate::trace::Facts;
use anyhow::{bail, Result};
use thermocline::{Config, Shape};

/// Smallest and largest segment of a shape, bytes.
const SEGMENT_MIN: u64 = 4 << 10;
const SEGMENT_MAX: u64 = 2 << 20;
/// Smallest segment where sizes vary: below it many items would be chunked that are not in a real cache.
const SEGMENT_MIN_BYTES_MODE: u64 = 16 << 10;
/// Items have at least this footprint, bytes: header, key of 8, and a value.
pub const FOOTPRINT_MIN: u64 = 16;
/// Largest footprint of unit items, bytes: what the engine stores as a small item, never in chunks.
pub const FOOTPRINT_MAX: u64 = 4092;
/// A share of a segment that is left over and does not matter.
const LEFT_OVER_MAX: f64 = 0.002;
/// Room in the budget beside items: tables, and index and ghosts an item.
const TABLES_BYTES: u64 = 64 << 20;
const BESIDE_ITEM_BYTES: u64 = 40;
/// Our engine takes no value over half of its memory (`Config::item_size_max`).
const ITEM_PART: u64 = 2;
/// Nor, unless asked to, one over 64 MiB.
const ITEM_MOST: u64 = 64 << 20;
/// Real engines are not asked for less: below, a segment is an item.
pub const ITEMS_MIN: u64 = 128;

/// How large an item is in its segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Footprint {
    /// Every item takes this.
    Fixed(u64),
    /// An item of s bytes takes s times this.
    Scaled(f64),
    /// Key and value as they are; the engine's header comes on top.
    AsIs,
}

/// See the top of the file.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Capacity as asked: items (unit sizes) or bytes.
    pub capacity: u64,
    /// Items that fill it, in the mean.
    pub items: u64,
    pub footprint: Footprint,
    pub shape: Option<Shape>,
    /// The engine's budget, bytes.
    pub memory: u64,
    /// Largest item, bytes before scaling.
    pub item_bytes_max: u64,
    /// Mean item over keys, bytes before scaling.
    pub item_bytes_mean: f64,
}

impl Plan {
    pub fn new(options: &ReplayOptions, facts: &Facts) -> Result<Plan> {
        let sizes = options.sizes();
        let segments = u64::from(options.how.segments);
        let mean = facts.item_bytes_mean().max(1.0);
        let base = Plan {
            capacity: 0,
            items: 0,
            footprint: Footprint::AsIs,
            shape: None,
            memory: 0,
            item_bytes_max: facts.item_bytes_max,
            item_bytes_mean: mean,
        };
        match options.capacity() {
            Capacity::Memory(memory) => Ok(Plan {
                capacity: memory,
                items: (memory as f64 / mean) as u64,
                memory,
                ..base
            }),
            Capacity::Items(items) => Plan::of_items(items, segments),
            Capacity::Fraction(share) if sizes == Sizes::Unit => {
                Plan::of_items((share * facts.keys as f64) as u64, segments)
            }
            Capacity::Fraction(share) => {
                Plan::of_bytes(base, (share * facts.bytes as f64) as u64, segments)
            }
        }
    }

    fn of_items(items: u64, segments: u64) -> Result<Plan> {
        at_least_one(items)?;
        let (segment, footprint) = unit_shape((items / segments).max(1));
        let per_segment = segment / footprint;
        let count = (items / per_segment).max(1);
        let shape = shape(segment, count)?;
        Ok(Plan {
            capacity: items,
            items,
            footprint: Footprint::Fixed(footprint),
            memory: memory(&shape, items),
            shape: Some(shape),
            item_bytes_max: 1,
            item_bytes_mean: 1.0,
        })
    }

    fn of_bytes(base: Plan, capacity: u64, segments: u64) -> Result<Plan> {
        at_least_one(capacity)?;
        // A segment is never smaller than the mean item.
        let count = segments
            .min((capacity as f64 / base.item_bytes_mean) as u64)
            .max(1);
        let segment = (capacity / count)
            .max(1)
            .next_power_of_two()
            .clamp(SEGMENT_MIN_BYTES_MODE, SEGMENT_MAX);
        let count = count.max(capacity / SEGMENT_MAX);
        let shape = shape(segment, count)?;
        let items = (capacity as f64 / base.item_bytes_mean) as u64;
        Ok(Plan {
            capacity,
            items,
            footprint: Footprint::Scaled((segment * count) as f64 / capacity as f64),
            memory: memory(&shape, items),
            shape: Some(shape),
            ..base
        })
    }

    /// The budget once metadata is charged to the capacity at `bytes` an item (before scaling): fewer segments.
    pub fn charged(self, bytes: f64) -> Result<Plan> {
        let Some(shape_before) = self.shape else {
            return Ok(self);
        };
        let kept = self.item_bytes_mean / (self.item_bytes_mean + bytes);
        let count = (f64::from(shape_before.segments) * kept).round().max(1.0);
        let shape = shape(shape_before.segment_bytes as u64, count as u64)?;
        Ok(Plan {
            capacity: (self.capacity as f64 * kept) as u64,
            items: (self.items as f64 * kept) as u64,
            memory: memory(&shape, self.items),
            shape: Some(shape),
            ..self
        })
    }

    /// Room for items, bytes before scaling where sizes vary, as they lie in segments where all are one.
    pub fn capacity_bytes(&self) -> u64 {
        match self.footprint {
            Footprint::Fixed(footprint) => self.capacity * footprint,
            _ => self.capacity,
        }
    }

    /// Bytes an item takes for each of its own.
    pub fn scale(&self) -> f64 {
        match self.footprint {
            Footprint::Fixed(footprint) => footprint as f64,
            Footprint::Scaled(scale) => scale,
            Footprint::AsIs => 1.0,
        }
    }

    /// Bytes of a request's item in its segment; `bytes` before scaling.
    pub fn footprint(&self, bytes: u64) -> u64 {
        match self.footprint {
            Footprint::Fixed(footprint) => footprint,
            Footprint::Scaled(scale) => {
                let scaled = (bytes as f64 * scale / 4.0).round() as u64 * 4;
                scaled.max(FOOTPRINT_MIN)
            }
            Footprint::AsIs => bytes,
        }
    }

    /// The largest value, where sizes vary: what a cache of this room takes at most, however it is configured. (The budget
    /// is larger by what lies outside the capacity.) None: the engine's own limit.
    pub fn item_size_max(&self) -> Option<u64> {
        let (Some(shape), Footprint::Scaled(_)) = (self.shape, self.footprint) else {
            return None;
        };
        let room = shape.segment_bytes as u64 * u64::from(shape.segments);
        Some((room / ITEM_PART).min(ITEM_MOST))
    }

    /// How the engine is made.
    pub fn config(&self, options: &ReplayOptions) -> Config {
        let mut config = Config::new(self.memory);
        config.memory_max = Some(self.memory);
        config.threads = options.how.threads;
        config.seed = Some(options.how.seed);
        config.shape = self.shape;
        config.item_size_max = self.item_size_max();
        // One thread and a seed: the same run twice. With several, reclaim works beside them as it does for users.
        config.background = options.how.threads > 1 || self.shape.is_none();
        config.policy = options.how.policy;
        config.objective = options.how.objective;
        if let FreshFloor::Share(share) = options.fresh_floor() {
            let room = self.shape.map_or(self.memory, |shape| {
                shape.segment_bytes as u64 * u64::from(shape.segments)
            });
            config.fresh_min = Some((share * room as f64) as u64);
        }
        config
    }
}

/// Segment and footprint bytes such that a segment holds `wanted` items, or as nearly as whole words allow, and little
/// is left over at its end.
fn unit_shape(wanted: u64) -> (u64, u64) {
    let mut best = (SEGMENT_MIN, FOOTPRINT_MAX);
    let mut best_off = f64::MAX;
    let mut segment = SEGMENT_MIN;
    while segment <= SEGMENT_MAX {
        let footprint = (segment / wanted / 4 * 4).clamp(FOOTPRINT_MIN, FOOTPRINT_MAX);
        let holds = segment / footprint;
        let left_over = (segment - holds * footprint) as f64 / segment as f64;
        let off = holds.abs_diff(wanted) as f64 / wanted as f64 + left_over;
        // Small segments copy less: a larger one must be better by a third, and what is lost matter.
        if off < best_off * 0.67 && best_off > LEFT_OVER_MAX {
            (best, best_off) = ((segment, footprint), off);
        }
        segment *= 2;
    }
    best
}

fn shape(segment: u64, count: u64) -> Result<Shape> {
    match u32::try_from(count) {
        Ok(segments) => Ok(Shape {
            segment_bytes: segment as usize,
            segments,
        }),
        Err(_) => bail!("the capacity needs {count} segments; an engine has at most 2^32"),
    }
}

fn memory(shape: &Shape, items: u64) -> u64 {
    let bytes = shape.segment_bytes as u64 * u64::from(shape.segments);
    bytes.next_multiple_of(SEGMENT_MAX) + TABLES_BYTES + items * BESIDE_ITEM_BYTES
}

fn at_least_one(capacity: u64) -> Result<()> {
    if capacity == 0 {
        bail!("the capacity comes to nothing: give a larger --fraction");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cache_of_n_items_has_n_over_128_in_each_segment() {
        for items in [128u64, 200, 368, 441, 3681, 17_671, 138_007, 4_000_000] {
            let plan = Plan::of_items(items, 128).unwrap();
            let shape = plan.shape.unwrap();
            let Footprint::Fixed(footprint) = plan.footprint else {
                panic!("unit items have one footprint");
            };
            assert!(footprint % 4 == 0 && (FOOTPRINT_MIN..=FOOTPRINT_MAX).contains(&footprint));
            let holds = shape.segment_bytes as u64 / footprint * u64::from(shape.segments);
            let off = 1.0 - holds as f64 / items as f64;
            assert!((0.0..0.02).contains(&off), "{items}: {holds} in {shape:?}");
            let segment = shape.segment_bytes as u64;
            let left_over = (segment % footprint) as f64 / segment as f64;
            assert!(left_over < 0.01, "{items}: {left_over} of {shape:?}");
            assert!(shape.segments >= 120, "{items}: {shape:?}");
        }
        assert!(Plan::of_items(0, 128).is_err());
    }

    fn base(mean: f64) -> Plan {
        Plan {
            capacity: 0,
            items: 0,
            footprint: Footprint::AsIs,
            shape: None,
            memory: 0,
            item_bytes_max: 1 << 20,
            item_bytes_mean: mean,
        }
    }

    #[test]
    fn bytes_are_scaled_so_that_segments_are_exactly_so_many() {
        for capacity in [225_753u64, 21_246_322, 84_985_290, 1 << 33] {
            let plan = Plan::of_bytes(base(600.0), capacity, 128).unwrap();
            let shape = plan.shape.unwrap();
            let bytes = shape.segment_bytes as u64 * u64::from(shape.segments);
            let Footprint::Scaled(scale) = plan.footprint else {
                panic!("byte sizes are scaled");
            };
            assert!((capacity as f64 * scale / bytes as f64 - 1.0).abs() < 1e-9);
            assert!(shape.segments == 128 || shape.segment_bytes as u64 == SEGMENT_MAX);
            assert_eq!(plan.footprint(0), FOOTPRINT_MIN);
            let size = plan.footprint(1000) as f64;
            assert!((size / (1000.0 * scale) - 1.0).abs() < 0.01);
        }
        // Forty items of the mean size are no 128 segments.
        let few = Plan::of_bytes(base(600.0), 24_000, 128).unwrap();
        assert_eq!(few.shape.unwrap().segments, 40);
    }

    #[test]
    fn no_value_takes_more_than_half_of_the_room() {
        let plan = |capacity| Plan::of_bytes(base(600.0), capacity, 128).unwrap();
        assert_eq!(plan(225_753).item_size_max(), Some(1 << 20));
        assert_eq!(plan(1 << 33).item_size_max(), Some(64 << 20));
        assert_eq!(Plan::of_items(1000, 128).unwrap().item_size_max(), None);
    }

    #[test]
    fn metadata_comes_off_the_segments() {
        let plan = Plan::of_bytes(base(600.0), 21_246_322, 128).unwrap();
        let charged = plan.clone().charged(200.0).unwrap();
        assert_eq!(charged.shape.unwrap().segments, 96);
        assert_eq!(charged.footprint, plan.footprint, "items stay as large");
        assert!((charged.items as f64 / plan.items as f64 - 0.75).abs() < 0.01);
    }
}
