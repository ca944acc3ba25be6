//! Which pages the cache really stands on, told: the banner, `stats pages`, metrics. Read from the kernel by the
//! engine, not from our settings.

use crate::config::show_size;
use std::fs;
use std::time::Instant;
use thermocline::{Cache, PageBytes, Pages};

/// Progress is logged whenever another tenth has been touched.
const PROGRESS_STEPS: u64 = 10;

/// What the banner says about pages.
pub fn describe(pages: &Pages) -> String {
    let mut text = pages.mode.name().to_string();
    if pages.mode != pages.asked {
        text += &format!(" ({} was asked for)", pages.asked.name());
    }
    if pages.extent_use != thermocline::ExtentUse::Compound {
        text += &format!("; extents in {} use", pages.extent_use.name());
    }
    if let Some(note) = &pages.note {
        text += &format!("; {note}");
    }
    match pages.bytes {
        Some(bytes) if bytes.resident > 0 => {
            text += &format!(
                "; {} of {} resident on huge pages ({:.0} %)",
                show_size(bytes.huge()),
                show_size(bytes.resident),
                bytes.coverage_percent()
            );
        }
        Some(_) => text += "; nothing has been touched yet",
        None => text += "; what came of it cannot be read here (/proc/self/smaps)",
    }
    text
}

/// Touches all memory the budget has, and logs how far it is.
pub fn prefault(cache: &Cache) {
    let start = Instant::now();
    let mut step = 0;
    let touched = cache.prefault(&mut |touched, of| {
        let now = touched * PROGRESS_STEPS / of.max(1);
        if now > step {
            step = now;
            tracing::info!(
                "touching memory ahead: {} of {}",
                show_size(touched),
                show_size(of)
            );
        }
    });
    let seconds = start.elapsed().as_secs_f64();
    tracing::info!("touched {} of memory in {seconds:.1} s", show_size(touched));
}

/// One row: name, help, value.
pub type Row = (&'static str, &'static str, f64);

/// Everything there is to say about pages, for metrics and statistics.
pub fn rows(pages: &Pages) -> Vec<Row> {
    let bytes = pages.bytes.unwrap_or_default();
    let number = |value: u64| value as f64;
    vec![
        (
            "pages_resident_bytes",
            "Item and index memory resident, hugetlb included.",
            number(bytes.resident),
        ),
        (
            "pages_huge_bytes",
            "Of these on huge pages of any kind.",
            number(bytes.huge()),
        ),
        (
            "pages_coverage_percent",
            "Share of resident memory on huge pages.",
            coverage(pages.bytes),
        ),
        (
            "pages_AnonHugePages_bytes",
            "Transparent huge pages (AnonHugePages).",
            number(bytes.anon_huge),
        ),
        (
            "pages_ShmemPmdMapped_bytes",
            "Huge pages of shared memory (ShmemPmdMapped).",
            number(bytes.shmem_pmd_mapped),
        ),
        (
            "pages_Hugetlb_bytes",
            "Pages of the hugetlb pool (Private_Hugetlb, Shared_Hugetlb).",
            number(bytes.hugetlb),
        ),
        (
            "pages_Locked_bytes",
            "Locked in memory (Locked).",
            number(bytes.locked),
        ),
        (
            "pages_ordinary_bytes",
            "Ordinary memory because the hugetlb pool was empty.",
            number(pages.ordinary_bytes),
        ),
        (
            "pages_broken_extents",
            "Extents of which dead parts were given back (extent_use = team).",
            number(pages.broken_extents),
        ),
        (
            "pages_broken_bytes",
            "Bytes of these parts, charged no more.",
            number(pages.broken_bytes),
        ),
    ]
}

/// The kernel tells nothing: then nothing is on huge pages as far as we know.
fn coverage(bytes: Option<PageBytes>) -> f64 {
    bytes.map_or(0.0, |bytes| bytes.coverage_percent())
}

/// Resident memory of the process, bytes: what the kernel calls VmRSS and, which it counts apart, pages of a pool.
/// 0 where it is not told.
pub fn resident_bytes() -> u64 {
    status_bytes("VmRSS:").unwrap_or(0) + status_bytes("HugetlbPages:").unwrap_or(0)
}

/// A figure of /proc/self/status, bytes.
pub fn status_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| {
        let kilobytes: u64 = line
            .strip_prefix(name)?
            .split_whitespace()
            .next()?
            .parse()
            .ok()?;
        kilobytes.checked_mul(1024)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use thermocline::{Config, PageMode};

    #[test]
    fn the_kernels_books_are_read() {
        assert!(status_bytes("VmRSS:").unwrap() > 1 << 20);
        assert!(resident_bytes() > 1 << 20);
        assert_eq!(status_bytes("VmNothing:"), None);
    }

    #[test]
    fn what_was_got_is_said() {
        let mut config = Config::new(32 << 20);
        config.page_mode = PageMode::Base;
        let cache = Cache::new(config).unwrap();
        prefault(&cache);
        let text = describe(&cache.pages());
        assert!(text.starts_with("base; 0"), "{text}");
        let rows = rows(&cache.pages());
        let row = |name: &str| rows.iter().find(|row| row.0 == name).unwrap().2;
        assert!(row("pages_resident_bytes") > f64::from(20 << 20));
        assert_eq!(row("pages_coverage_percent"), 0.0);
    }
}
