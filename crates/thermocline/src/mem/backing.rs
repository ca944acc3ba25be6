//! What stands behind a region: anonymous memory, a hugetlb pool, or a part of a file of shared memory;
//! and how its address range is prepared before the first touch (advice, NUMA nodes, locking).
//!
//! Leaves to others: which mode (`page_mode`), access (`region`), what is taken (`extent`).

use super::page_mode::PageMode;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

/// The kinds of pages a region may be mapped with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pages {
    /// 4 KiB, huge ones refused.
    Base,
    /// Huge when first touched, where the system gives them.
    Thp,
    /// As the system's setting has it; huge later, by collapse.
    Plain,
    /// The pool's, of 2 to this many bytes.
    Pool(u32),
}

/// On which NUMA nodes memory is to lie. Nodes are numbered from 0; at most 64 are told apart.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Numa {
    /// Where the thread runs that touches it first.
    #[default]
    Default,
    /// On these nodes only.
    Bind(Vec<u32>),
    /// Page by page in turn.
    Interleave(Vec<u32>),
}

/// Nodes are a mask of one word.
const NODES_MAX: u32 = 64;
const MPOL_BIND: libc::c_int = 2;
const MPOL_INTERLEAVE: libc::c_int = 3;

/// What a region is mapped from.
#[derive(Clone, Debug)]
pub(crate) struct Backing {
    pub(crate) pages: Pages,
    /// A file of shared memory, and where in it the region starts.
    pub(crate) file: Option<(Arc<MemoryFile>, u64)>,
    pub(crate) numa: Numa,
    /// Pages are locked in memory as they come.
    pub(crate) lock: bool,
}

impl Backing {
    /// Anonymous memory with or without transparent huge pages.
    #[cfg(any(test, feature = "fuzzing"))]
    pub(crate) fn anonymous(huge: bool) -> Backing {
        Backing {
            pages: if huge { Pages::Thp } else { Pages::Base },
            file: None,
            numa: Numa::Default,
            lock: false,
        }
    }

    /// As `mode` (not Auto) has it. `file` is for `Shmem`.
    pub(crate) fn of(mode: PageMode, file: Option<Arc<MemoryFile>>) -> Backing {
        let pages = match (mode, &file) {
            (_, Some(file)) if file.is_hugetlb => Pages::Pool(file.page_bytes.trailing_zeros()),
            (PageMode::Base, _) => Pages::Base,
            (PageMode::Hugetlb2M, _) => Pages::Pool(21),
            (PageMode::Hugetlb1G, _) => Pages::Pool(30),
            (PageMode::Collapse, _) => Pages::Plain,
            _ => Pages::Thp,
        };
        Backing {
            pages,
            file: file.map(|file| (file, 0)),
            numa: Numa::Default,
            lock: false,
        }
    }

    /// The same, `bytes` further on in the file.
    pub(crate) fn further(&self, bytes: u64) -> Backing {
        let mut other = self.clone();
        if let Some((_, offset)) = &mut other.file {
            *offset += bytes;
        }
        other
    }

    /// The same from the file's first byte on.
    pub(crate) fn at_start(&self) -> Backing {
        let mut other = self.clone();
        if let Some((_, offset)) = &mut other.file {
            *offset = 0;
        }
        other
    }

    /// The same for a table beside the items. Pages of 1 GiB are too coarse for one.
    pub(crate) fn for_tables(&self) -> Backing {
        let mut other = self.clone();
        if other.page_bytes() > super::EXTENT_BYTES {
            other.pages = Pages::Thp;
        }
        other
    }

    /// Bytes that come and go at once: an extent, or a larger page.
    pub(crate) fn page_bytes(&self) -> usize {
        match self.pages {
            Pages::Pool(shift) => (1usize << shift).max(super::EXTENT_BYTES),
            _ => super::EXTENT_BYTES,
        }
    }

    /// Whether touching memory that is not there may kill the process, so that it has to be asked for first.
    pub(crate) fn must_ask(&self) -> bool {
        self.file.is_some() || matches!(self.pages, Pages::Pool(_))
    }

    /// Maps `bytes` at an address that is a multiple of the page.
    pub(super) fn map(&self, bytes: usize) -> io::Result<usize> {
        let align = self.page_bytes();
        // An address range of our own first, then the real mapping over its aligned part.
        let hole = map_at(0, bytes + align, libc::PROT_NONE, ANONYMOUS, None)?;
        let base = hole.next_multiple_of(align);
        unmap(hole, base - hole);
        unmap(base + bytes, hole + align - base);
        let mapped = self
            .map_over(base, bytes)
            .and_then(|()| self.prepare(base, bytes));
        mapped.map(|()| base).inspect_err(|_| unmap(base, bytes))
    }

    fn map_over(&self, base: usize, bytes: usize) -> io::Result<()> {
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let fixed = libc::MAP_FIXED | libc::MAP_NORESERVE;
        let (flags, file) = match (&self.file, self.pages) {
            (Some((file, offset)), _) => (libc::MAP_SHARED, Some((&file.file, *offset))),
            (None, Pages::Pool(shift)) => {
                let size = (shift as libc::c_int) << libc::MAP_HUGE_SHIFT;
                (ANONYMOUS | libc::MAP_HUGETLB | size, None)
            }
            (None, _) => (ANONYMOUS, None),
        };
        map_at(base, bytes, access, flags | fixed, file).map(|_| ())
    }

    fn prepare(&self, base: usize, bytes: usize) -> io::Result<()> {
        let advice = match self.pages {
            Pages::Base => Some(libc::MADV_NOHUGEPAGE),
            Pages::Thp => Some(libc::MADV_HUGEPAGE),
            Pages::Plain | Pages::Pool(_) => None,
        };
        if let Some(advice) = advice {
            // A kernel without huge pages refuses the advice; then pages are base pages, and read back as such.
            let _refused = advise(base, bytes, advice);
        }
        bind(base, bytes, &self.numa)?;
        if self.lock {
            lock(base, bytes)?;
        }
        Ok(())
    }

    /// Puts ordinary memory in the place of a range whose pool has nothing to give.
    pub(super) fn map_ordinary(&self, base: usize, bytes: usize) -> io::Result<()> {
        let ordinary = Backing {
            pages: Pages::Thp,
            file: None,
            ..self.clone()
        };
        ordinary.map_over(base, bytes)?;
        ordinary.prepare(base, bytes)
    }

    /// Gives the pages of a range back to whoever they came from.
    pub(super) fn release(&self, base: usize, at: usize, bytes: usize) -> io::Result<()> {
        if let Some((file, offset)) = &self.file {
            return file.punch(offset + (at - base) as u64, bytes as u64);
        }
        let advice = if self.lock {
            libc::MADV_DONTNEED_LOCKED
        } else {
            libc::MADV_DONTNEED
        };
        match advise(at, bytes, advice) {
            // Before Linux 5.18 hugetlb pages and locked ones went only with their mapping.
            Err(_) => self
                .map_over(at, bytes)
                .and_then(|()| self.prepare(at, bytes)),
            done => done,
        }
    }
}

const ANONYMOUS: libc::c_int = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;

fn map_at(
    address: usize,
    bytes: usize,
    access: libc::c_int,
    flags: libc::c_int,
    file: Option<(&File, u64)>,
) -> io::Result<usize> {
    let (descriptor, offset) = match file {
        Some((file, offset)) => (file.as_raw_fd(), offset as libc::off_t),
        None => (-1, 0),
    };
    let at = address as *mut libc::c_void;
    // SAFETY: without MAP_FIXED the kernel chooses a free range; with it the range is one this file mapped
    // before and nobody uses yet.
    let got = unsafe { libc::mmap(at, bytes, access, flags, descriptor, offset) };
    match got == libc::MAP_FAILED {
        true => Err(io::Error::last_os_error()),
        false => Ok(got as usize),
    }
}

pub(super) fn unmap(address: usize, bytes: usize) {
    if bytes > 0 {
        // SAFETY: only called for ranges mapped by this file and used by nobody.
        unsafe { libc::munmap(address as *mut libc::c_void, bytes) };
    }
}

/// One madvise call on a range of ours.
pub(super) fn advise(address: usize, bytes: usize, advice: libc::c_int) -> io::Result<()> {
    // SAFETY: the range is a mapping of ours; of the advices used only DONTNEED changes contents, and its
    // callers have made sure that nothing in the range is in use.
    match unsafe { libc::madvise(address as *mut libc::c_void, bytes, advice) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

fn bind(address: usize, bytes: usize, numa: &Numa) -> io::Result<()> {
    let (policy, nodes) = match numa {
        Numa::Default => return Ok(()),
        Numa::Bind(nodes) => (MPOL_BIND, nodes),
        Numa::Interleave(nodes) => (MPOL_INTERLEAVE, nodes),
    };
    let refused = |why: &dyn std::fmt::Display| {
        io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("numa = {nodes:?}: {why}"),
        )
    };
    if nodes.is_empty() || nodes.iter().any(|&node| node >= NODES_MAX) {
        return Err(refused(&"name nodes from 0 to 63"));
    }
    let mask: u64 = nodes.iter().fold(0, |mask, node| mask | 1 << node);
    // SAFETY: the kernel reads one word of mask, alive until the call returns; the range is ours, untouched.
    let failed = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            address,
            bytes,
            policy,
            &mask,
            NODES_MAX as usize + 1,
            0,
        )
    } != 0;
    match failed {
        true => Err(refused(&format_args!(
            "the kernel refuses these nodes ({}); /sys/devices/system/node/online lists what there is",
            io::Error::last_os_error()
        ))),
        false => Ok(()),
    }
}

fn lock(address: usize, bytes: usize) -> io::Result<()> {
    const MLOCK_ONFAULT: libc::c_uint = 1;
    // SAFETY: the range is ours; locking changes no contents.
    match unsafe { libc::syscall(libc::SYS_mlock2, address, bytes, MLOCK_ONFAULT) } {
        0 => Ok(()),
        _ => {
            let error = io::Error::last_os_error();
            let text = format!(
                "memory_lock: the kernel refuses to lock {bytes} bytes ({error}): raise `ulimit -l` \
                 (systemd: LimitMEMLOCK=infinity) or leave memory_lock off"
            );
            Err(io::Error::new(error.kind(), text))
        }
    }
}

/// A file of shared memory: nameless, or in a directory of tmpfs or hugetlbfs.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    file: File,
    pub(crate) page_bytes: usize,
    pub(crate) is_hugetlb: bool,
}

impl MemoryFile {
    /// A nameless file; gone with the process.
    pub(crate) fn nameless() -> io::Result<MemoryFile> {
        // SAFETY: the name is a constant string that ends with a zero.
        let descriptor = unsafe { libc::memfd_create(c"thermocline".as_ptr(), libc::MFD_CLOEXEC) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and owned by nobody else.
        let file = unsafe { File::from_raw_fd(descriptor) };
        Ok(MemoryFile {
            file,
            page_bytes: 4096,
            is_hugetlb: false,
        })
    }

    /// Opens or makes the file `path`, which must lie on tmpfs or hugetlbfs: anything else would be written
    /// to a disk. Only its owner may read it.
    pub(crate) fn open(path: &Path) -> io::Result<MemoryFile> {
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(path)
            .map_err(|error| named(path, error))?;
        // SAFETY: all zeros is a statfs; the call fills it in.
        let mut facts: libc::statfs = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open and `facts` is alive.
        if unsafe { libc::fstatfs(file.as_raw_fd(), &mut facts) } != 0 {
            return Err(named(path, io::Error::last_os_error()));
        }
        let kind = facts.f_type;
        let is_hugetlb = kind == libc::HUGETLBFS_MAGIC;
        if !is_hugetlb && kind != libc::TMPFS_MAGIC {
            if file.metadata()?.len() == 0 {
                // Made a moment ago, by us, in vain. If it cannot be removed, an empty file stays.
                let _gone = std::fs::remove_file(path);
            }
            let text = format!(
                "{} is on a file system of kind {kind:#x}: page_mode = shmem needs a directory on tmpfs or hugetlbfs",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let page_bytes = if is_hugetlb {
            facts.f_bsize as usize
        } else {
            4096
        };
        if page_bytes > super::EXTENT_BYTES || !page_bytes.is_power_of_two() {
            let text = format!(
                "{} has pages of {page_bytes} bytes: mount hugetlbfs with pagesize=2M",
                path.display()
            );
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        Ok(MemoryFile {
            file,
            page_bytes,
            is_hugetlb,
        })
    }

    /// Whether another process has taken the file `path` for itself. Makes no file.
    pub(crate) fn is_taken(path: &Path) -> bool {
        let Ok(file) = File::open(path) else {
            return false;
        };
        let file = MemoryFile {
            file,
            page_bytes: 4096,
            is_hugetlb: false,
        };
        // What else is wrong with it shows when it is opened.
        !file.lock_alone().unwrap_or(true)
    }

    /// Bytes the file spans, holes included.
    pub(crate) fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Makes it span `bytes`; what is behind them is gone.
    pub(crate) fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(bytes)
    }

    /// Makes it span `bytes`, all holes.
    pub(crate) fn clear(&self, bytes: u64) -> io::Result<()> {
        self.file.set_len(0)?;
        self.file.set_len(bytes)
    }

    /// Gives a range back to the file system.
    fn punch(&self, offset: u64, bytes: u64) -> io::Result<()> {
        let mode = libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_KEEP_SIZE;
        let (offset, bytes) = (offset as libc::off_t, bytes as libc::off_t);
        // SAFETY: no memory of ours is read or written but by way of the file, whose range nobody uses.
        match unsafe { libc::fallocate(self.file.as_raw_fd(), mode, offset, bytes) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes the file for this process alone. False: another one has it.
    pub(crate) fn lock_alone(&self) -> io::Result<bool> {
        // SAFETY: the descriptor is open; nothing else is passed.
        if unsafe { libc::flock(self.file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(true);
        }
        let error = io::Error::last_os_error();
        match error.kind() == io::ErrorKind::WouldBlock {
            true => Ok(false),
            false => Err(error),
        }
    }
}

fn named(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use crate::mem::{Grain, Region, EXTENT_BYTES};

    fn region(backing: &Backing) -> io::Result<Region> {
        Region::map(2 * EXTENT_BYTES, Grain::Items, backing)
    }

    #[test]
    fn a_nameless_file_is_memory_that_comes_and_goes() {
        let file = Arc::new(MemoryFile::nameless().unwrap());
        file.clear(2 * EXTENT_BYTES as u64).unwrap();
        let backing = Backing::of(PageMode::Shmem, Some(file));
        let region = region(&backing).unwrap();
        assert!(region.supply(0, EXTENT_BYTES));
        region.copy_in(4096, b"here");
        assert!(region.equals(4096, b"here"));
        region.release(0, EXTENT_BYTES);
        assert!(region.equals(4096, &[0; 4]), "released pages read as zeros");
    }

    #[test]
    fn a_disk_is_no_memory() {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("not-memory");
        let error = MemoryFile::open(&path)
            .expect_err("a source tree is not on tmpfs")
            .to_string();
        assert!(!path.exists(), "what was made in vain is gone");
        if error.contains("0x1021994") {
            return; // The sources do lie on tmpfs: nothing to see here.
        }
        assert!(
            error.contains("needs a directory on tmpfs or hugetlbfs"),
            "{error}"
        );
        let missing = MemoryFile::open(Path::new("/no/such/dir/file")).expect_err("no directory");
        assert!(missing.to_string().contains("/no/such/dir/file"));
    }

    #[test]
    fn node_0_can_be_had_and_node_64_cannot_be_named() {
        let mut backing = Backing::anonymous(false);
        backing.numa = Numa::Bind(vec![0]);
        match region(&backing) {
            Ok(region) => region.copy_in(0, b"x"),
            Err(error) if error.to_string().contains("not permitted") => {
                println!("skipped: mbind is denied here: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        }
        backing.numa = Numa::Interleave(vec![0]);
        assert!(region(&backing).is_ok());
        backing.numa = Numa::Bind(vec![64]);
        assert!(region(&backing)
            .err()
            .unwrap()
            .to_string()
            .contains("from 0 to 63"));
        backing.numa = Numa::Interleave(vec![63]);
        let error = region(&backing)
            .err()
            .expect("64 nodes are not to be found in a test machine");
        assert!(error.to_string().contains("node/online"), "{error}");
    }

    #[test]
    fn locked_memory_is_locked_and_still_goes_back() {
        let mut backing = Backing::anonymous(false);
        backing.lock = true;
        let region = match region(&backing) {
            Ok(region) => region,
            Err(error) => return println!("skipped: {error}"),
        };
        region.copy_in(0, b"x");
        let (from, to) = region.address_range();
        let facts = super::super::smaps::read(&[(from, to)]).unwrap();
        assert!(facts.locked >= 4096, "{facts:?}");
        region.release(0, EXTENT_BYTES);
        assert!(region.equals(0, &[0]));
    }
}
