//! Fields of /proc/PID/smaps summed over the mappings in an address range.

use anyhow::Result;
use std::io::BufRead;

/// Fields that say how a shared mapping is backed, with the name each is printed under, KiB.
const FIELDS: [(&str, &str); 4] = [
    ("Rss", "Rss_kib"),
    ("ShmemPmdMapped", "ShmemPmdMapped_kib"),
    ("FilePmdMapped", "FilePmdMapped_kib"),
    ("AnonHugePages", "AnonHugePages_kib"),
];

pub fn of_range(
    input: &mut impl BufRead,
    start: usize,
    end: usize,
) -> Result<Vec<(&'static str, u64)>> {
    let mut sums = [0u64; FIELDS.len()];
    let mut inside = false;
    let mut line = String::new();
    while {
        line.clear();
        input.read_line(&mut line)?
    } > 0
    {
        if let Some((from, to)) = range(&line) {
            inside = from >= start && to <= end;
        } else if inside {
            for (sum, (field, _)) in sums.iter_mut().zip(FIELDS) {
                *sum += kib(&line, field).unwrap_or(0);
            }
        }
    }
    Ok(FIELDS.iter().map(|(_, name)| *name).zip(sums).collect())
}

/// The addresses in a mapping's first line.
fn range(line: &str) -> Option<(usize, usize)> {
    let (from, to) = line.split(' ').next()?.split_once('-')?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
    ))
}

fn kib(line: &str, field: &str) -> Option<u64> {
    let value = line.strip_prefix(field)?.strip_prefix(':')?;
    value.trim().strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mappings_inside_the_range_count() {
        let text = "1000-3000 rw-s 0 0:1 2 /t/a\nRss: 8 kB\nShmemPmdMapped: 4 kB\n\
                    3000-4000 rw-s 0 0:1 2 /t/a\nRss: 4 kB\nShmemPmdMapped: 2 kB\n\
                    9000-a000 rw-p 0 0:0 0\nRss: 100 kB\nAnonHugePages: 64 kB\n";
        let found = of_range(&mut text.as_bytes(), 0x1000, 0x4000).unwrap();
        assert_eq!(found[0], ("Rss_kib", 12));
        assert_eq!(found[1], ("ShmemPmdMapped_kib", 6));
        assert_eq!(found[3], ("AnonHugePages_kib", 0));
    }
}
