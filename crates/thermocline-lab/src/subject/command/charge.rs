//! What the compressed pools (zswap, zram) hold while a command runs, and, where the arm asks for it, charging that to the
//! command's memory limit: cgroup version 1 does not, so "zswap on" would be given free memory.
//!
//! Charging follows the pool: every 20 ms the limit is set to what it was minus what the pools hold. Where the kernel
//! itself charges zswap (version 2) only zram's is subtracted.

use super::super::Alone;
use crate::knob::InForce;
use crate::root::Root;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const PERIOD: Duration = Duration::from_millis(20);
/// The limit is never lowered below this share of itself: a group that cannot run at all measures nothing.
const LIMIT_SHARE_MIN: u64 = 4;
/// The time line takes a sample in so many periods, fewer as it grows.
const SERIES_POINTS_MAX: usize = 400;

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct Pools {
    zswap_peak_bytes: u64,
    zram_peak_bytes: u64,
    /// Lowest limit set, and how often the kernel would not take it.
    limit_low_bytes: Option<u64>,
    misses: u64,
    charges: bool,
    series: Vec<(f64, f64)>,
}

/// The thread that watches.
pub struct Charge {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Pools>>,
}

struct Watch {
    root: Root,
    zram: Option<String>,
    /// The limit's file and its full value, if pools are to be charged to it.
    limit: Option<(String, u64)>,
    kernel_charges_zswap: bool,
}

impl Charge {
    pub fn begin(root: &Root, in_force: &InForce) -> Self {
        let group = in_force.group.as_ref();
        let limit = group.and_then(|group| {
            let bytes = group
                .limits
                .memory_max_bytes
                .filter(|_| group.limits.charge_pools)?;
            Some((group.memory_limit_file(), bytes))
        });
        let watch = Watch {
            root: root.clone(),
            zram: in_force.zram.clone(),
            limit,
            kernel_charges_zswap: group.is_some_and(|group| group.charges_zswap()),
        };
        let stop = Arc::new(AtomicBool::new(false));
        let seen = stop.clone();
        let thread = std::thread::Builder::new()
            .name("pools".into())
            .spawn(move || watch.run(&seen))
            .ok();
        Charge { stop, thread }
    }

    pub fn end(&mut self) -> Pools {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread
            .and_then(|thread| thread.join().ok())
            .unwrap_or_default()
    }
}

/// A point that fails in the middle must not leave the thread behind.
impl Drop for Charge {
    fn drop(&mut self) {
        self.end();
    }
}

impl Watch {
    fn run(self, stop: &AtomicBool) -> Pools {
        let started = Instant::now();
        let mut pools = Pools {
            charges: self.limit.is_some(),
            ..Pools::default()
        };
        let mut set = self.limit.as_ref().map(|(_, bytes)| *bytes);
        let (mut period, mut every) = (0u64, 5);
        while !stop.load(Ordering::Relaxed) {
            let (zswap, zram) = (self.zswap_bytes(), self.zram_bytes());
            pools.zswap_peak_bytes = pools.zswap_peak_bytes.max(zswap);
            pools.zram_peak_bytes = pools.zram_peak_bytes.max(zram);
            if let Some((file, full)) = &self.limit {
                let held = zram + if self.kernel_charges_zswap { 0 } else { zswap };
                let wanted = full.saturating_sub(held).max(full / LIMIT_SHARE_MIN);
                // A page more or less is not worth the reclaim that a write to the file starts.
                if set.is_none_or(|set| set.abs_diff(wanted) >= 64 << 10) {
                    match self.root.write(file, &wanted.to_string()) {
                        Ok(()) => {
                            set = Some(wanted);
                            pools.limit_low_bytes =
                                Some(pools.limit_low_bytes.map_or(wanted, |low| low.min(wanted)));
                        }
                        Err(_) => pools.misses += 1,
                    }
                }
            }
            if period % every == 0 {
                pools
                    .series
                    .push((started.elapsed().as_secs_f64(), (zswap + zram) as f64));
                if pools.series.len() >= SERIES_POINTS_MAX {
                    let mut keep = false;
                    pools.series.retain(|_| {
                        keep = !keep;
                        keep
                    });
                    every *= 2;
                }
            }
            period += 1;
            std::thread::sleep(PERIOD);
        }
        pools
    }

    /// The machine's: no group has a count of its own in version 1.
    fn zswap_bytes(&self) -> u64 {
        let text = self.root.read("/proc/meminfo").unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("Zswap:"));
        let kib = line.and_then(|value| {
            value
                .trim()
                .trim_end_matches("kB")
                .trim()
                .parse::<u64>()
                .ok()
        });
        kib.unwrap_or(0) << 10
    }

    fn zram_bytes(&self) -> u64 {
        let Some(device) = &self.zram else { return 0 };
        let text = self.root.read(&format!("/sys/block/{device}/mm_stat"));
        // The third figure is the memory that the device takes, its own tables and gaps included.
        let held = text
            .ok()
            .and_then(|text| text.split_whitespace().nth(2)?.parse().ok());
        held.unwrap_or(0)
    }
}

impl Pools {
    pub fn add_to(self, alone: &mut Alone) {
        alone
            .metrics
            .insert("zswap_pool_peak_bytes".into(), self.zswap_peak_bytes as f64);
        alone
            .metrics
            .insert("zram_pool_peak_bytes".into(), self.zram_peak_bytes as f64);
        if let Some(low) = self.limit_low_bytes {
            alone.metrics.insert("limit_low_bytes".into(), low as f64);
        }
        if self.charges {
            alone
                .metrics
                .insert("charge_misses".into(), self.misses as f64);
        }
        if self.zswap_peak_bytes + self.zram_peak_bytes > 0 {
            alone.series.insert("pool_bytes".into(), self.series);
        }
    }
}
