//! Which pages a range of ours really has, from the kernel's own books.

use std::fs;
use std::io;

/// Bytes of some address ranges, by the kernel's names for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PageBytes {
    /// `Rss` and the hugetlb pages, which the kernel does not count as resident.
    pub resident: u64,
    /// `AnonHugePages`: transparent huge pages.
    pub anon_huge: u64,
    /// `ShmemPmdMapped`: huge pages of shared memory, mapped as such.
    pub shmem_pmd_mapped: u64,
    /// `Private_Hugetlb` and `Shared_Hugetlb`: pages of the pool.
    pub hugetlb: u64,
    /// `Locked`.
    pub locked: u64,
}

impl PageBytes {
    /// Bytes on huge pages of any kind.
    pub fn huge(&self) -> u64 {
        self.anon_huge + self.shmem_pmd_mapped + self.hugetlb
    }

    /// Of what is resident, percent on huge pages; 100 where nothing is resident yet.
    pub fn coverage_percent(&self) -> f64 {
        match self.resident {
            0 => 100.0,
            resident => self.huge() as f64 * 100.0 / resident as f64,
        }
    }
}

/// Reads `/proc/self/smaps`: the kernel walks the page tables of the whole process for it, about 5 ms for
/// each GiB of base pages.
pub(crate) fn read(ranges: &[(usize, usize)]) -> io::Result<PageBytes> {
    Ok(parse(&fs::read_to_string("/proc/self/smaps")?, ranges))
}

fn parse(text: &str, ranges: &[(usize, usize)]) -> PageBytes {
    let mut sum = PageBytes::default();
    let mut inside = false;
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let Some(name) = words.next() else { continue };
        if let Some((from, to)) = range_of(name) {
            inside = ranges.iter().any(|range| from < range.1 && to > range.0);
            continue;
        }
        if !inside {
            continue;
        }
        let kilobytes = words.next().and_then(|word| word.parse::<u64>().ok());
        let bytes = kilobytes.unwrap_or(0).saturating_mul(1024);
        match name {
            "Rss:" => sum.resident += bytes,
            "AnonHugePages:" => sum.anon_huge += bytes,
            "ShmemPmdMapped:" => sum.shmem_pmd_mapped += bytes,
            "Private_Hugetlb:" | "Shared_Hugetlb:" => {
                sum.hugetlb += bytes;
                sum.resident += bytes;
            }
            "Locked:" => sum.locked += bytes,
            _ => {}
        }
    }
    sum
}

fn range_of(word: &str) -> Option<(usize, usize)> {
    let (from, to) = word.split_once('-')?;
    Some((
        usize::from_str_radix(from, 16).ok()?,
        usize::from_str_radix(to, 16).ok()?,
    ))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    const TEXT: &str = "\
7f0000000000-7f0000400000 rw-p 00000000 00:00 0
Size:               4096 kB
Rss:                3072 kB
AnonHugePages:      2048 kB
ShmemPmdMapped:        0 kB
Private_Hugetlb:       0 kB
Locked:             1024 kB
VmFlags: rd wr mr mw
7f0000400000-7f0000600000 rw-p 00000000 00:0f 1 /anon_hugepage (deleted)
Rss:                   0 kB
Private_Hugetlb:    2048 kB
7f0000600000-7f0000800000 rw-s 00000000 00:01 2 /memfd:thermocline (deleted)
Rss:                2048 kB
ShmemPmdMapped:     2048 kB
55d000000000-55d000001000 r-xp 00000000 08:01 3 /bin/other
Rss:                9999 kB
";

    #[test]
    fn ranges_are_summed_and_strangers_are_not() {
        let sum = parse(TEXT, &[(0x7f00_0000_0000, 0x7f00_0080_0000)]);
        let mib = 1 << 20;
        assert_eq!(sum.resident, 7 * mib);
        assert_eq!(sum.huge(), 6 * mib);
        assert_eq!((sum.hugetlb, sum.locked), (2 * mib, mib));
        assert!((sum.coverage_percent() - 600.0 / 7.0).abs() < 1e-9);
        assert_eq!(parse(TEXT, &[]), PageBytes::default());
        assert_eq!(PageBytes::default().coverage_percent(), 100.0);
    }

    #[test]
    fn our_own_books_are_read() {
        assert!(read(&[(0, usize::MAX)]).unwrap().resident > 1 << 20);
    }
}
