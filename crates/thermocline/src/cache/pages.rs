//! The memory of a cache: which pages it asks for, what it gets, and what the kernel says of them.

use super::{Cache, Inner, Start};
use crate::collapse::{CollapseStats, Spans};
use crate::compress::CompressMode;
use crate::config::{Config, ExtentUse, Numa, PageBytes, PageMode};
use crate::error::Error;
use crate::index::Geometry;
use crate::mem::kept::{self, Identity};
use crate::mem::{
    choose, gigantic_pages, read_smaps, Backing, Extents, Machine, MemoryFile, Room, EXTENT_BYTES,
};
use std::path::Path;
use std::sync::Arc;

/// A cache with memory touched ahead leaves this share of its budget to the index and the ghosts.
const PREFAULT_LEAVES: u64 = 16;
/// The file of shared memory in `Config::memory_dir`.
pub(crate) const MEMORY_FILE: &str = "thermocline.memory";

/// Which pages a cache asked for, and what it has.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pages {
    /// What the configuration asks for.
    pub asked: PageMode,
    /// What is used: never `Auto`.
    pub mode: PageMode,
    /// In one line, what was missing for something better.
    pub note: Option<String>,
    /// Of item memory and index together, read from the kernel just now; None where it does not tell.
    pub bytes: Option<PageBytes>,
    /// Bytes that are ordinary memory because the pool was empty when they were wanted.
    pub ordinary_bytes: u64,
    /// Times the file system of the memory file had nothing to give.
    pub refusals: u64,
    /// What making pages huge in the background has come to.
    pub collapse: CollapseStats,
    /// How extents are used.
    pub extent_use: ExtentUse,
    /// Extents of which parts were given back (`ExtentUse::Team`), and bytes of these parts.
    pub broken_extents: u64,
    /// See `broken_extents`.
    pub broken_bytes: u64,
    /// Bytes given back in parts since the start.
    pub released_bytes: u64,
    /// Times a broken extent was made whole again.
    pub mended: u64,
}

/// What the regions of a new cache are mapped from.
pub(super) struct Backings {
    pub(super) mode: PageMode,
    pub(super) note: Option<String>,
    pub(super) items: Backing,
    pub(super) item_bytes: usize,
    pub(super) index: Backing,
    pub(super) start: Start,
    /// Who writes the memory file, if it has a name.
    pub(super) identity: Option<Identity>,
    pub(super) regions_bytes: u64,
    file: Option<Arc<MemoryFile>>,
    books: Option<(Vec<u8>, u64)>,
}

impl Backings {
    pub(super) fn new(config: &Config, seed: u64) -> Result<Backings, Error> {
        let whole = config.extent_use == ExtentUse::Compound;
        let chosen = match (config.page_mode, whole) {
            (PageMode::Base, _) => {
                choose(PageMode::Base, &Machine::default(), config.cache_bytes())
            }
            (PageMode::Auto, false) => choose(
                PageMode::Auto,
                &Machine::read(Path::new("/")).without_pools(),
                config.cache_bytes(),
            ),
            (mode, _) => choose(mode, &Machine::read(Path::new("/")), config.cache_bytes()),
        };
        let chosen = chosen.map_err(Error::Config)?;
        let item_bytes = item_bytes(config, chosen.mode);
        let index_bytes = Geometry::for_memory(config.memory_max()).span_bytes();
        let file = match chosen.mode {
            PageMode::Shmem => Some(Arc::new(memory_file(config)?)),
            _ => None,
        };
        let pooled = file.as_ref().is_some_and(|file| file.is_hugetlb);
        if !whole && pooled {
            return Err(not_in_parts(config.extent_use, "memory_dir on hugetlbfs"));
        }
        let mut items = Backing::of(chosen.mode, file.clone());
        items.lock = config.memory_lock;
        items.numa = config.numa.clone();
        // The dictionaries of compressed items lie on the heap and are not kept.
        let keepable = config.memory_dir.is_some() && config.compress == CompressMode::Off;
        let named = file.clone().filter(|_| keepable);
        let mut backings = Backings {
            mode: chosen.mode,
            note: chosen.note,
            index: items
                .further(kept::HEADER_BYTES + item_bytes as u64)
                .for_tables(),
            items: items.further(kept::HEADER_BYTES),
            item_bytes,
            start: Start::Cold,
            identity: named.map(|file| identity(config, &file, seed)),
            regions_bytes: kept::HEADER_BYTES + item_bytes as u64 + index_bytes,
            file,
            books: None,
        };
        backings.look(config)?;
        Ok(backings)
    }

    /// Whether the memory file holds what another process kept for us.
    fn look(&mut self, config: &Config) -> Result<(), Error> {
        if config.memory_dir.is_some() && self.identity.is_none() {
            self.start = Start::ColdBecause(
                "a cache that compresses is not kept, for its dictionaries are not (compress = off)"
                    .into(),
            );
        }
        let (Some(file), Some(identity)) = (&self.file, &self.identity) else {
            return Ok(());
        };
        let header = self.items.at_start();
        match kept::find(&header, file, self.regions_bytes, identity, config.seed)? {
            kept::Found::Nothing => {}
            kept::Found::Useless(why) => self.start = Start::ColdBecause(why),
            kept::Found::Books { books, seed } => self.books = Some((books, seed)),
        }
        Ok(())
    }

    /// The books found and the seed of the hash they were written with. From then on it is the seed in use.
    pub(super) fn take_books(&mut self) -> Option<(Vec<u8>, u64)> {
        let (books, seed) = self.books.take()?;
        if let Some(identity) = &mut self.identity {
            identity.seed = seed;
        }
        Some((books, seed))
    }

    /// Empties the memory file for a cold start.
    pub(super) fn clear(&self) -> Result<(), Error> {
        if let Some(file) = &self.file {
            kept::begin(&self.items.at_start(), file, self.regions_bytes)?;
        }
        Ok(())
    }
}

fn identity(config: &Config, file: &MemoryFile, seed: u64) -> Identity {
    Identity {
        memory: config.memory,
        memory_max: config.memory_max(),
        segment_bytes: config.segment_bytes() as u64,
        marks: u64::from(config.marks || config.time_to_idle.is_some()),
        page_bytes: file.page_bytes as u64,
        seed,
    }
}

/// Address space of the items.
fn item_bytes(config: &Config, mode: PageMode) -> usize {
    match mode {
        PageMode::Hugetlb1G => (gigantic_pages(config.cache_bytes()) << 30) as usize,
        _ => config.memory_max().next_multiple_of(EXTENT_BYTES as u64) as usize,
    }
}

fn memory_file(config: &Config) -> Result<MemoryFile, Error> {
    let Some(directory) = &config.memory_dir else {
        return Ok(MemoryFile::nameless()?);
    };
    let path = directory.join(MEMORY_FILE);
    let file = MemoryFile::open(&path)?;
    if !file.lock_alone()? {
        return Err(in_use(&path));
    }
    check_room(config, directory, Room::of(directory, &path)?)?;
    Ok(file)
}

/// A file system that is smaller than the cache would not only cost items: once full, it has no room for the books
/// either, and the next start is cold each time. (The books hold no more than tables that the budget is charged for.)
fn check_room(config: &Config, directory: &Path, room: Option<Room>) -> Result<(), Error> {
    let need = config.cache_bytes() + kept::HEADER_BYTES;
    let Some(room) = room.filter(|room| room.ours < need) else {
        return Ok(());
    };
    let (what, how) = match room.whole < need {
        true => (
            format!("holds {} MiB", room.whole >> 20),
            "make it larger (mount -o remount,size=..; of a container: --shm-size)",
        ),
        false => (
            format!("has {} MiB free", room.ours >> 20),
            "make room in it",
        ),
    };
    Err(Error::Config(format!(
        "memory_dir: the file system of {} {what}, and memory = {} bytes needs {} MiB there: {how}, or lower memory",
        directory.display(),
        config.memory,
        need.div_ceil(1 << 20)
    )))
}

fn in_use(path: &Path) -> Error {
    Error::Config(format!(
        "memory_dir: {} is in use by another process: each cache needs a directory of its own",
        path.display()
    ))
}

impl Config {
    /// Refuses what [`Cache::new`](crate::Cache::new) would refuse because another process has the memory file, or for
    /// want of room for it, so that a caller hears it before it has begun anything else. Takes and makes nothing.
    pub fn check_memory_file(&self) -> Result<(), Error> {
        let directory = match (&self.memory_dir, self.page_mode) {
            (Some(directory), PageMode::Shmem) => directory,
            _ => return Ok(()),
        };
        let path = directory.join(MEMORY_FILE);
        if MemoryFile::is_taken(&path) {
            return Err(in_use(&path));
        }
        // What else is wrong with the directory shows when the file is made.
        check_room(self, directory, Room::of(directory, &path).unwrap_or(None))
    }
}

fn not_in_parts(extent_use: ExtentUse, with: &str) -> Error {
    Error::Config(format!(
        "extent_use = {}: pages of a hugetlb pool are given back whole or not at all: extent_use = compound, or not {with}",
        extent_use.name()
    ))
}

/// Takes all pages of memory that comes in larger pieces than extents.
pub(super) fn take_whole_pages(extents: &Extents) -> bool {
    extents.gives_back()
        || (extents.room() == 0 || extents.warm_another()) && {
            while extents.room() > 0 && extents.warm_another() {}
            extents.room() == 0
        }
}

impl Config {
    /// Bounds of the settings about pages.
    pub(crate) fn check_pages(&self) -> Result<(), Error> {
        let wrong = |text: String| Err(Error::Config(text));
        if self.collapse_percent > 50 {
            return wrong(format!(
                "collapse_percent = {}: from 0 (never) to 50",
                self.collapse_percent
            ));
        }
        if self.memory_dir.is_some() && self.page_mode != PageMode::Shmem {
            return wrong(format!(
                "memory_dir is for page_mode = shmem; page_mode is {}",
                self.page_mode.name()
            ));
        }
        let pooled = matches!(self.page_mode, PageMode::Hugetlb2M | PageMode::Hugetlb1G);
        if pooled && self.extent_use != ExtentUse::Compound {
            let with = format!("page_mode = {}", self.page_mode.name());
            return Err(not_in_parts(self.extent_use, &with));
        }
        if self.page_mode == PageMode::Hugetlb1G && self.numa != Numa::Default {
            return wrong("numa: not with page_mode = hugetlb-1g".into());
        }
        Ok(())
    }
}

impl Spans for Inner {
    fn spans(&self) -> [&Extents; 2] {
        [self.store.segments.extents(), self.store.index.extents()]
    }
}

impl Cache {
    /// Which pages were asked for and what there is. Reads the kernel's books: about 5 ms for each GiB of
    /// base pages in the process.
    pub fn pages(&self) -> Pages {
        let inner = &self.inner;
        let spans = inner.spans();
        let items = inner.store.segments.extents();
        let broken = items.broken_ids();
        let (released_bytes, mended) = items.parted();
        let ranges = spans.map(|extents| extents.region().address_range());
        Pages {
            asked: inner.page_mode_asked,
            mode: inner.page_mode,
            note: inner.page_note.clone(),
            bytes: read_smaps(&ranges).ok(),
            ordinary_bytes: spans
                .iter()
                .map(|extents| u64::from(extents.ordinary()) * EXTENT_BYTES as u64)
                .sum(),
            refusals: spans.iter().map(|extents| extents.refusals()).sum(),
            collapse: inner.collapses.stats(),
            extent_use: inner.extent_use,
            broken_extents: broken.len() as u64,
            broken_bytes: broken.iter().map(|&(_, bytes)| bytes as u64).sum(),
            released_bytes,
            mended,
        }
    }

    /// The pages in use; never `Auto`. Costs nothing.
    pub fn page_mode(&self) -> PageMode {
        self.inner.page_mode
    }

    /// Touches one extent ahead of need, as the background thread does all the time, so that `pages` has something to
    /// tell of a cache just made. Does nothing where one waits already, or room is short.
    pub fn touch_ahead(&self) {
        self.inner.reclaim.touch_ahead(&self.inner.store);
    }

    /// Touches memory ahead, as far as the budget goes (a 16th is left to the index), and returns the bytes
    /// touched. `progress(touched, of)` is called after each extent. 190 us for 2 MiB where the host has the
    /// memory at hand, 5 ms where it has yet to find it.
    pub fn prefault(&self, progress: &mut dyn FnMut(u64, u64)) -> u64 {
        let store = &self.inner.store;
        let leave = store.budget.limit_bytes() / PREFAULT_LEAVES;
        let all = store.budget.free_bytes().saturating_sub(leave) / EXTENT_BYTES as u64;
        let mut touched = 0;
        while touched < all && store.segments.extents().warm_another() {
            touched += 1;
            progress(touched * EXTENT_BYTES as u64, all * EXTENT_BYTES as u64);
        }
        touched * EXTENT_BYTES as u64
    }
}
