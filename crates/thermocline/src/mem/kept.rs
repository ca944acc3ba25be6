//! Memory that outlives its process: the first page of a memory file, and the books behind its regions.
//!
//! ```text
//! file    header (1 extent) | items | index | fine directory | books (only between a stop and the next start)
//! header  magic, format | CLEAN or 0 | books: bytes, crc | who wrote it: budget, sizes, seed, pages
//! stop    books written -> header -> CLEAN, last
//! start   CLEAN? same format, same who? -> CLEAN off, first -> books checked -> everything else
//! ```
//! What must hold: CLEAN is set only while nobody uses the file, and only behind whole books; so a process that is
//! killed at any moment leaves a file that the next one starts cold on.

use super::{Backing, Grain, MemoryFile, Region, EXTENT_BYTES};
use std::io;
use std::sync::atomic::Ordering::{Acquire, Release, SeqCst};

/// Bytes of the header in the file.
pub(crate) const HEADER_BYTES: u64 = EXTENT_BYTES as u64;
const MAGIC: u64 = u64::from_le_bytes(*b"THRMCLNE");
/// Changes whenever items, index or books are laid out in another way.
pub(crate) const FORMAT: u64 = 5;
const CLEAN: u64 = 0xC1EA_4000_0000_0001;

mod word {
    pub(super) const MAGIC: usize = 0;
    pub(super) const FORMAT: usize = 8;
    pub(super) const CLEAN: usize = 16;
    pub(super) const BOOKS_BYTES: usize = 24;
    pub(super) const BOOKS_CRC: usize = 32;
    pub(super) const IDENTITY: usize = 64;
}

/// What must be the same for memory to be taken over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) memory: u64,
    pub(crate) memory_max: u64,
    pub(crate) segment_bytes: u64,
    pub(crate) marks: u64,
    pub(crate) page_bytes: u64,
    pub(crate) seed: u64,
}

const NAMES: [&str; 6] = [
    "memory",
    "memory_max",
    "segment_bytes",
    "marks",
    "page size",
    "seed",
];

impl Identity {
    fn words(&self) -> [u64; 6] {
        [
            self.memory,
            self.memory_max,
            self.segment_bytes,
            self.marks,
            self.page_bytes,
            self.seed,
        ]
    }

    fn from_words(
        [memory, memory_max, segment_bytes, marks, page_bytes, seed]: [u64; 6],
    ) -> Identity {
        Identity {
            memory,
            memory_max,
            segment_bytes,
            marks,
            page_bytes,
            seed,
        }
    }

    /// The first thing in which `then` differs; a seed of None is content with any.
    fn differs(&self, then: &Identity, seed: Option<u64>) -> Option<String> {
        let (now, then) = (self.words(), then.words());
        (0..NAMES.len())
            .filter(|&n| NAMES[n] != "seed" || seed.is_some())
            .find(|&n| now[n] != then[n])
            .map(|n| match NAMES[n] {
                "seed" => "another hash seed wrote it".to_string(),
                name => format!("{name} is {} and was {}", now[n], then[n]),
            })
    }
}

/// What a memory file was found to hold.
#[derive(Debug)]
pub(crate) enum Found {
    /// A new or empty file.
    Nothing,
    /// Of no use, and why.
    Useless(String),
    /// The books of a cache that stopped cleanly, and its seed. The file's mark is gone already.
    Books { books: Vec<u8>, seed: u64 },
}

fn header(backing: &Backing, file: &MemoryFile) -> io::Result<Region> {
    let region = Region::map(EXTENT_BYTES, Grain::Items, backing)?;
    match region.supply(0, file.page_bytes) {
        true => Ok(region),
        false => Err(io::Error::other(
            "the memory file's file system has no page left for its header",
        )),
    }
}

/// Looks at a memory file that nobody else uses. `regions_bytes`: header and regions together. Costs a few
/// page faults and reading the books (0.2 KiB a segment, and the ghosts).
pub(crate) fn find(
    backing: &Backing,
    file: &MemoryFile,
    regions_bytes: u64,
    now: &Identity,
    seed: Option<u64>,
) -> io::Result<Found> {
    let bytes = file.len()?;
    if bytes == 0 {
        return Ok(Found::Nothing);
    }
    let useless = |why: &str| Ok(Found::Useless(why.to_string()));
    if bytes < HEADER_BYTES {
        return useless("it is too short to be a memory file");
    }
    let header = header(backing, file)?;
    let read = |at: usize| header.u64(at).load(Acquire);
    if read(word::MAGIC) != MAGIC {
        return useless("it is no memory file of a cache, or of a process that was killed early");
    }
    if read(word::FORMAT) != FORMAT {
        return Ok(Found::Useless(format!(
            "its format is {} and ours is {FORMAT}",
            read(word::FORMAT)
        )));
    }
    // Whatever comes of the rest, it is taken over at most once.
    let clean = header.u64(word::CLEAN).swap(0, SeqCst) == CLEAN;
    let then = Identity::from_words(std::array::from_fn(|n| read(word::IDENTITY + 8 * n)));
    if let Some(what) = now.differs(&then, seed) {
        return Ok(Found::Useless(what));
    }
    if !clean {
        return useless("the process that used it did not stop cleanly");
    }
    let books_bytes = read(word::BOOKS_BYTES);
    if regions_bytes
        .checked_add(books_bytes)
        .is_none_or(|end| end > bytes)
    {
        return useless("its books are cut off");
    }
    let Some(books) = read_books(backing, regions_bytes, books_bytes as usize)? else {
        return useless("its books cannot be read");
    };
    if u64::from(crc32fast::hash(&books)) != read(word::BOOKS_CRC) {
        return useless("its books are damaged");
    }
    file.set_len(regions_bytes)?;
    Ok(Found::Books {
        books,
        seed: then.seed,
    })
}

fn books_region(backing: &Backing, regions_bytes: u64, bytes: usize) -> io::Result<Option<Region>> {
    let span = bytes.next_multiple_of(EXTENT_BYTES).max(EXTENT_BYTES);
    let region = Region::map(span, Grain::Items, &backing.further(regions_bytes))?;
    // A page of the file at a time: the last one may lie behind its end.
    Ok(region
        .supply(0, bytes.next_multiple_of(4096).min(span))
        .then_some(region))
}

fn read_books(backing: &Backing, regions_bytes: u64, bytes: usize) -> io::Result<Option<Vec<u8>>> {
    let Some(region) = books_region(backing, regions_bytes, bytes)? else {
        return Ok(None);
    };
    let mut books = Vec::new();
    region.append_out(0, bytes, &mut books);
    Ok(Some(books))
}

/// Marks a file as in use from now on: whatever it held is gone.
pub(crate) fn begin(backing: &Backing, file: &MemoryFile, regions_bytes: u64) -> io::Result<()> {
    file.clear(regions_bytes)?;
    let header = header(backing, file)?;
    header.u64(word::CLEAN).store(0, SeqCst);
    Ok(())
}

/// Writes the books of a cache that nobody uses any more, and says so: the next process may take it over.
pub(crate) fn keep(
    backing: &Backing,
    file: &MemoryFile,
    regions_bytes: u64,
    who: &Identity,
    books: &[u8],
) -> io::Result<()> {
    let full = || {
        io::Error::other(format!(
            "no room for {} bytes of books in the memory file: its file system is full",
            books.len()
        ))
    };
    file.set_len(regions_bytes + (books.len() as u64).next_multiple_of(EXTENT_BYTES as u64))?;
    let region = books_region(backing, regions_bytes, books.len())?.ok_or_else(full)?;
    region.copy_in(0, books);
    let header = header(backing, file)?;
    let write = |at: usize, value: u64| header.u64(at).store(value, Release);
    write(word::MAGIC, MAGIC);
    write(word::FORMAT, FORMAT);
    write(word::BOOKS_BYTES, books.len() as u64);
    write(word::BOOKS_CRC, u64::from(crc32fast::hash(books)));
    for (n, value) in who.words().into_iter().enumerate() {
        write(word::IDENTITY + 8 * n, value);
    }
    header.u64(word::CLEAN).store(CLEAN, SeqCst);
    Ok(())
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::super::PageMode;
    use super::*;
    use std::sync::Arc;

    const REGIONS: u64 = 3 * EXTENT_BYTES as u64;
    const WHO: Identity = Identity {
        memory: 1,
        memory_max: 2,
        segment_bytes: 3,
        marks: 0,
        page_bytes: 4096,
        seed: 9,
    };

    fn file() -> (Backing, Arc<MemoryFile>) {
        let file = Arc::new(MemoryFile::nameless().unwrap());
        (Backing::of(PageMode::Shmem, Some(file.clone())), file)
    }

    fn why(found: Found) -> String {
        match found {
            Found::Useless(why) => why,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn books_are_found_once_and_only_by_the_same() {
        let (backing, file) = file();
        let find = |who: &Identity, seed| find(&backing, &file, REGIONS, who, seed).unwrap();
        assert!(matches!(find(&WHO, None), Found::Nothing));
        begin(&backing, &file, REGIONS).unwrap();
        assert!(why(find(&WHO, None)).contains("killed early"));
        let books: Vec<u8> = (0..100_000u32).map(|n| n as u8).collect();
        let keep = || keep(&backing, &file, REGIONS, &WHO, &books).unwrap();
        keep();
        match find(&Identity { seed: 77, ..WHO }, None) {
            Found::Books { books: found, seed } => assert!(found == books && seed == 9),
            other => panic!("{other:?}"),
        }
        assert!(
            why(find(&WHO, None)).contains("did not stop cleanly"),
            "taken over already"
        );
        keep();
        assert!(why(find(&Identity { memory: 5, ..WHO }, None)).contains("memory is 5 and was 1"));
        keep();
        assert!(why(find(&Identity { seed: 8, ..WHO }, Some(8))).contains("hash seed"));
        keep();
        assert!(matches!(find(&WHO, Some(9)), Found::Books { .. }));
    }

    #[test]
    fn damage_is_seen() {
        let (backing, file) = file();
        let find = || find(&backing, &file, REGIONS, &WHO, None).unwrap();
        let keep = || keep(&backing, &file, REGIONS, &WHO, &[7; 5000]).unwrap();
        begin(&backing, &file, REGIONS).unwrap();
        keep();
        let books = books_region(&backing, REGIONS, 5000).unwrap().unwrap();
        books.copy_in(4000, b"x");
        assert!(why(find()).contains("damaged"));
        keep();
        file.set_len(REGIONS).unwrap();
        assert!(why(find()).contains("cut off"));
        file.set_len(100).unwrap();
        assert!(why(find()).contains("too short"));
        begin(&backing, &file, REGIONS).unwrap();
        keep();
        super::header(&backing, &file)
            .unwrap()
            .u64(word::FORMAT)
            .store(FORMAT + 1, SeqCst);
        let wanted = format!("its format is {} and ours is {FORMAT}", FORMAT + 1);
        assert!(why(find()).contains(&wanted));
    }
}
