//! Which pages the cache really stands on: read from the kernel, not from our settings.

use crate::config::PageMode;
use std::fs;

/// What the banner says about pages.
pub fn describe(asked: PageMode) -> String {
    let setting =
        fs::read_to_string("/sys/kernel/mm/transparent_hugepage/enabled").unwrap_or_default();
    let setting = setting
        .split_whitespace()
        .find_map(|word| word.strip_prefix('[')?.strip_suffix(']'))
        .unwrap_or("unknown");
    match (asked, setting) {
        (PageMode::Base, _) => "base (4 KiB)".into(),
        (PageMode::Thp, "always" | "madvise") => format!("thp (the system's setting is {setting})"),
        (PageMode::Thp, setting) => {
            format!("base (thp was asked for, but the system's setting is {setting})")
        }
    }
}

/// Bytes of an address range on huge pages, and resident in all. None where the kernel does not tell.
pub fn huge_and_resident_bytes(range: (usize, usize)) -> Option<(u64, u64)> {
    let text = fs::read_to_string("/proc/self/smaps").ok()?;
    let (mut huge, mut resident, mut inside) = (0, 0, false);
    for line in text.lines() {
        if let Some((from, to)) = line.split_whitespace().next().and_then(range_of) {
            inside = from < range.1 && to > range.0;
        } else if inside {
            huge += kilobytes(line, "AnonHugePages:").unwrap_or(0) * 1024;
            resident += kilobytes(line, "Rss:").unwrap_or(0) * 1024;
        }
    }
    Some((huge, resident))
}

fn range_of(word: &str) -> Option<(usize, usize)> {
    let (from, to) = word.split_once('-')?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
    ))
}

fn kilobytes(line: &str, name: &str) -> Option<u64> {
    line.strip_prefix(name)?
        .split_whitespace()
        .next()?
        .parse()
        .ok()
}

/// A figure of /proc/self/status, bytes.
pub fn status_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let bytes = text.lines().find_map(|line| kilobytes(line, name));
    bytes.map(|kilobytes| kilobytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_books_are_read() {
        assert!(status_bytes("VmRSS:").unwrap() > 1 << 20);
        let (_, resident) = huge_and_resident_bytes((0, usize::MAX)).unwrap();
        assert!(resident > 1 << 20);
        assert_eq!(range_of("7f00-7f10"), Some((0x7f00, 0x7f10)));
        assert_eq!(range_of("Rss:"), None);
    }
}
