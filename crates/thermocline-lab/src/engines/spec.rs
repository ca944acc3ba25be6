//! What one child process is to measure, and what it answers: both travel as JSON on its command line and its
//! standard output.

use super::engine::{OwnFigures, Reading};
use super::rivals::SegPolicy;
use crate::workload::Mix;
use serde::{Deserialize, Serialize};

/// The engines under measurement.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub enum Arm {
    Thermocline,
    #[value(name = "quick_cache", alias = "quick-cache")]
    QuickCache,
    Segcache,
    Foyer,
    Moka,
    /// Does nothing: the harness's own cost
    Null,
}

impl Arm {
    pub const ALL: [Arm; 5] = [
        Arm::Thermocline,
        Arm::QuickCache,
        Arm::Segcache,
        Arm::Foyer,
        Arm::Moka,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Arm::Thermocline => "thermocline",
            Arm::QuickCache => "quick_cache",
            Arm::Segcache => "segcache",
            Arm::Foyer => "foyer",
            Arm::Moka => "moka",
            Arm::Null => "null",
        }
    }

    /// Its memory setting bounds all it owns rather than the payload: it needs a setting of its own to hold
    /// the same payload as the others. (segcache's bounds its segments, dead space included; its table comes
    /// on top. It is told the payload, as its users do.)
    pub fn bounds_more_than_payload(self) -> bool {
        self == Arm::Thermocline
    }

    /// Metadata an item, measured for this project at 1 M items of 16 B keys (`docs/performance.md`); what
    /// `--equal memory` charges.
    pub fn metadata_bytes(self) -> u32 {
        match self {
            Arm::Moka => 281,
            Arm::Foyer => 147,
            Arm::QuickCache => 78,
            Arm::Segcache => 17,
            Arm::Thermocline | Arm::Null => 0,
        }
    }
}

/// One arm of one round.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Spec {
    pub arm: Arm,
    pub round: usize,
    pub mix: Mix,
    /// What the engine is told.
    pub memory_bytes: u64,
    pub charge_per_item: u32,
    pub threads: usize,
    /// Operations of the run, over all threads.
    pub ops: u64,
    /// Operations before it.
    pub warm_ops: u64,
    /// Write every key once before warming up.
    pub load_all: bool,
    /// Write what a read missed.
    pub fill: bool,
    pub reading: Reading,
    pub segcache_policy: SegPolicy,
    /// Transparent huge pages, where the engine can be told.
    pub thp: bool,
    /// Count the harness's own buffers inside our engine's budget: VmHWM over budget is then the process's.
    pub reserve_harness: bool,
}

/// What a child measured.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Point {
    pub arm: Arm,
    pub round: usize,
    pub memory_bytes: u64,
    pub threads: usize,
    pub ops: u64,
    pub reads: u64,
    pub hits: u64,
    pub writes: u64,
    pub fills: u64,
    /// Writes the engine refused, in all phases.
    pub refused: u64,
    /// Hits with the wrong bytes or length, in all phases.
    pub wrong: u64,
    /// Threads' rates added up, chunks only.
    pub ops_per_s: f64,
    /// CPU of the working threads and of the engine's own, an operation.
    pub cpu_ns_per_op: f64,
    /// The engine's own threads' part of it.
    pub background_ns_per_op: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub p999_ns: f64,
    /// Found by asking for every key after the run.
    pub live_items: u64,
    pub live_payload_bytes: u64,
    pub resident_before_bytes: u64,
    pub resident_bytes: u64,
    pub resident_peak_bytes: u64,
    pub huge_bytes: u64,
    pub own: OwnFigures,
}

impl Point {
    pub fn hit_ratio(&self) -> Option<f64> {
        (self.reads > 0).then(|| self.hits as f64 / self.reads as f64)
    }

    /// Resident memory beside key and value bytes, an item.
    pub fn beside_payload_bytes_per_item(&self) -> Option<f64> {
        let beside = self.resident_bytes as f64
            - self.resident_before_bytes as f64
            - self.live_payload_bytes as f64;
        (self.live_items > 0).then(|| beside / self.live_items as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum;

    #[test]
    fn an_engine_has_one_name() {
        for arm in Arm::value_variants() {
            let value = arm.to_possible_value().expect("none is hidden");
            assert_eq!(value.get_name(), arm.name());
        }
        assert_eq!(Arm::from_str("quick-cache", false), Ok(Arm::QuickCache));
    }
}
